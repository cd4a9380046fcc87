"""What counts as a secret, and what does not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.model.redaction import redact
from memory.model.redaction_fold import fold

JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PRIVATE_KEY = """-----BEGIN RSA PRIVATE KEY-----
MIIEowIBAAKCAQEA1n2n6zPzCkJ0h5Yk3w9m1Zr0m3vQxq2o6S4gYkq0h4m7J3hV
q2o6S4gYkq0h4m7J3hVMIIEowIBAAKCAQEA1n2n6zPzCkJ0h5Yk3w9m1Zr0m3vQx
-----END RSA PRIVATE KEY-----"""

FOUND = [
    # provider keys
    ("my key is AKIAIOSFODNN7EXAMPLE, ok?", "AKIAIOSFODNN7EXAMPLE", "api_key"),
    ("export OPENAI_API_KEY=sk-proj-9fQ2mVx7LrT4aZk1Yc8Hn3WdUe6BsJp0", "sk-proj-9fQ2mVx7LrT4aZk1Yc8Hn3WdUe6BsJp0", "api_key"),
    ("use sk-ant-api03-Abc123Def456Ghi789_xyz-AA now", "sk-ant-api03-Abc123Def456Ghi789_xyz-AA", "api_key"),
    ("sk-1234567890abcdef1234567890abcdef", "sk-1234567890abcdef1234567890abcdef", "api_key"),
    ("token ghp_R7kQ2xVb9LmT4wZc1Ye8Hn3SdUa6JpF0GtX5.", "ghp_R7kQ2xVb9LmT4wZc1Ye8Hn3SdUa6JpF0GtX5", "api_key"),
    ("github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ", "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ", "api_key"),
    ("glpat-abcdefghij0123456789", "glpat-abcdefghij0123456789", "api_key"),
    ("xoxb-123456789012-abcdefABCDEF0123", "xoxb-123456789012-abcdefABCDEF0123", "api_key"),
    ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "api_key"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIzaSyA1234567890abcdefghijklmnopqrstuv", "api_key"),
    ("hf_abcdefghijklmnopqrstuvwxyz0123456789", "hf_abcdefghijklmnopqrstuvwxyz0123456789", "api_key"),
    ("api_key: 9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706", "api_key"),
    ('"client_secret": "Zx9-Qw8_Er7~Ty6"', "Zx9-Qw8_Er7~Ty6", "api_key"),
    ("Mein API-Schlüssel lautet 9f8e7d6c5b4a39281706.", "9f8e7d6c5b4a39281706", "api_key"),
    ("我的密钥是 9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706", "api_key"),
    ("https://x.example/cb?access_token=9f8e7d6c5b4a39281706&x=1", "9f8e7d6c5b4a39281706", "api_key"),
    # tokens
    (f"Cookie or {JWT} here", JWT, "token"),
    ("curl -H 'Authorization: Bearer abcDEF123456ghiJKL789'", "abcDEF123456ghiJKL789", "token"),
    ("Authorization: Basic dXNlcjpwYXNzd29yZDE=", "dXNlcjpwYXNzd29yZDE=", "token"),
    # private keys
    (f"Here: {PRIVATE_KEY} bye", PRIVATE_KEY, "private_key"),
    (PRIVATE_KEY[:120], PRIVATE_KEY[:120], "private_key"),
    # passwords
    ("my password is hunter2", "hunter2", "password"),
    ("My password is swordfish.", "swordfish", "password"),
    ("the password for the staging server is Tr0ub4dor&3, thanks", "Tr0ub4dor&3", "password"),
    ("password: hunter2!", "hunter2!", "password"),
    ("password=hunter2;host=db", "hunter2", "password"),
    ("DB_PASSWORD=Regen-Schirm-77!", "Regen-Schirm-77!", "password"),
    ('"password": "correct horse battery"', "correct horse battery", "password"),
    ("smtp login failed, password: Laterne_im-Nebel9. What is wrong?", "Laterne_im-Nebel9", "password"),
    ("Mein Passwort lautet geheim", "geheim", "password"),
    ("Das Passwort für das WLAN ist Sommer2024!", "Sommer2024!", "password"),
    ("Kennwort: Blumenwiese", "Blumenwiese", "password"),
    ("我的密码是 abc12345，别告诉别人", "abc12345", "password"),
    ("密码：qwerty99", "qwerty99", "password"),
    ("log in as bob with password s3cr3tpw please", "s3cr3tpw", "password"),
    ("my pwd is “let me in 42”", "let me in 42", "password"),
    ("contraseña: gatonegro7", "gatonegro7", "password"),
    ("mot de passe : Soleil123", "Soleil123", "password"),
    (
        "seed phrase: abandon ability able about above absent absorb abstract absurd abuse access accident",
        "abandon ability",
        "password",
    ),
    ("postgres://bob:s3cr!t$@db.example:5432/x", "s3cr!t$", "password"),
    ("redis://:hunter2abc@localhost:6379/0", "hunter2abc", "password"),
    ("Server=db;User Id=sa;Password=P@ss;word", "P@ss", "password"),
    # passwords on another line, in a cell, in markup, in a file
    ("Password:\nhunter2Abc", "hunter2Abc", "password"),
    ("Passwort:\r\n\r\nGeheim123!", "Geheim123!", "password"),
    ("Passwort:\nsommerwind\nDanke", "sommerwind", "password"),
    ("Passwords:\n- hunter2Abc", "hunter2Abc", "password"),
    ("| password | hunter2 |", "hunter2", "password"),
    ("| user | password |\n|---|---|\n| anna | hunter2X9 |", "hunter2X9", "password"),
    ("user | pass\n--- | ---\nanna | `hunter2X9`", "hunter2X9", "password"),
    ("<password>hunter2</password>", "hunter2", "password"),
    ("<Password>abc xyz</Password>", "abc xyz", "password"),
    ("**Password:** hunter2abc", "hunter2abc", "password"),
    ("root password -> Kp77!xyz", "Kp77!xyz", "password"),
    ("DB_PASS=abcxyz", "abcxyz", "password"),
    ("SMTP_PASS: abcXYZ12", "abcXYZ12", "password"),
    ("wpa_passphrase=correcthorse", "correcthorse", "password"),
    # short words
    ("pw: hunter2abc", "hunter2abc", "password"),
    ("PW = Blume99", "Blume99", "password"),
    ("sudo pw is Kp77xyz!", "Kp77xyz!", "password"),
    ("{'pw': 'abc'}", "abc", "password"),
    ("Pass: Blume99!", "Blume99!", "password"),
    ("user: anna pass: Blume99x", "Blume99x", "password"),
    ("WIFI_PSK=abcdefgh1", "abcdefgh1", "password"),
    ("Pa$$wort: hunter2abc", "hunter2abc", "password"),
    # in sentences
    ("Mein Passwort fürs WLAN lautet Blume99", "Blume99", "password"),
    ("my password for the wifi network at home is sunflower9", "sunflower9", "password"),
    ("my password, which I use everywhere, is tulip88x", "tulip88x", "password"),
    ("The wifi password here is sunflower9", "sunflower9", "password"),
    ("the password for the router: hunter2abc", "hunter2abc", "password"),
    ("my password's hunter2x", "hunter2x", "password"),
    ("mein WLAN-Passwort ist Sommer 2024", "Sommer 2024", "password"),
    ("Passwort lautet: Mein Hund heißt Bello", "Mein Hund heißt Bello", "password"),
    ("passphrase: correct horse battery staple", "correct horse battery staple", "password"),
    ("Passwort (WLAN): Blume99", "Blume99", "password"),
    # set or changed
    ("Ich habe das Passwort auf Sommer2024! geändert", "Sommer2024!", "password"),
    ("mein neues Kennwort habe ich auf Blume gesetzt", "Blume", "password"),
    ("I changed my password to Winter2025!", "Winter2025!", "password"),
    ("Please reset my password to 'tulip'", "tulip", "password"),
    ("Our password used to be Tulip88", "Tulip88", "password"),
    ("my password will be Tulip88", "Tulip88", "password"),
    ("Sommer2024! ist mein Passwort", "Sommer2024!", "password"),
    ("we use “Winter2025!” as the admin password", "Winter2025!", "password"),
    # Chinese
    ("密码改成了hunter2abc", "hunter2abc", "password"),
    ("我把密码设成Abc12345", "Abc12345", "password"),
    ("密码已重置为Abc@123", "Abc@123", "password"),
    ("银行卡密码123456", "123456", "password"),
    ("密码是hunter2abc别告诉别人", "hunter2abc", "password"),
    ("我用Abc12345作为密码", "Abc12345", "password"),
    ("账号anna密码Abc12345", "Abc12345", "password"),
    # folded
    ("pass\u200bword: hunter2abc", "hunter2abc", "password"),
    ("pas\u00adsword: hunter2abc", "hunter2abc", "password"),
    ("ｐａｓｓｗｏｒｄ：hunter2abc", "hunter2abc", "password"),
    ("Schlu\u0308ssel: abc123def456", "abc123def456", "api_key"),
    ("sk-ant-\u200bapi03-Abc123Def456Ghi789", "sk-ant-\u200bapi03-Abc123Def456Ghi789", "api_key"),
    ("½ ﬁ … password: hunter2abc … ½", "hunter2abc", "password"),
    # beside a user, on a command line, in an address
    ("Zugangsdaten: anna / Blume99!", "Blume99!", "password"),
    ("login anna / Blume99!", "Blume99!", "password"),
    ("Credentials for staging: anna Blume99!", "Blume99!", "password"),
    ("curl -u anna:S3cret99 https://x.example", "S3cret99", "password"),
    ("mysql -u root -pS3cret99 db", "S3cret99", "password"),
    ("sshpass -p 'S3cret99' ssh x", "S3cret99", "password"),
    ("postgres://u:pa/ss@h/db", "pa/ss", "password"),
    # cards
    ("card 4242 4242 4242 4242 please", "4242 4242 4242 4242", "card"),
    ("4111111111111111", "4111111111111111", "card"),
    ("5555-5555-5555-4444", "5555-5555-5555-4444", "card"),
    ("amex 3782 822463 10005", "3782 822463 10005", "card"),
    ("卡号 ４２４２４２４２４２４２４２４２。", "４２４２４２４２４２４２４２４２", "card"),
    ("卡号 6011111111111117", "6011111111111117", "card"),
    ("4111\u200b1111\u200b1111\u200b1111", "4111\u200b1111\u200b1111\u200b1111", "card"),
    ("4111–1111–1111–1111", "4111–1111–1111–1111", "card"),
    ("4111  1111  1111  1111", "4111  1111  1111  1111", "card"),
    ("4111\n1111\n1111\n1111", "4111\n1111\n1111\n1111", "card"),
    ("4111_1111_1111_1111", "4111_1111_1111_1111", "card"),
    ("4111 11111111 1111", "4111 11111111 1111", "card"),
    ("4111 1111\n1111 1111", "4111 1111\n1111 1111", "card"),
    ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "card"),
    ("卡号4111111111111111请", "4111111111111111", "card"),
    ("٤١١١١١١١١١١١١١١١", "٤١١١١١١١١١١١١١١١", "card"),
    # IBAN
    ("IBAN: DE89 3704 0044 0532 0130 00 und danke", "DE89 3704 0044 0532 0130 00", "iban"),
    ("GB82WEST12345698765432", "GB82WEST12345698765432", "iban"),
    ("de89370400440532013000", "de89370400440532013000", "iban"),
    ("IBAN DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00", "DE89\u202f3704\u202f0044\u202f0532\u202f0130\u202f00", "iban"),
    ("de89.3704.0044.0532.0130.00", "de89.3704.0044.0532.0130.00", "iban"),
    ("DE89  3704 0044 0532 0130 00 und", "DE89  3704 0044 0532 0130 00", "iban"),
    ("> bitte an DE89 3704 0044\n> 0532 0130 00", "DE89 3704 0044\n> 0532 0130 00", "iban"),
    ("iban de89 3704 0044\n0532 0130 00", "de89 3704 0044\n0532 0130 00", "iban"),
    ("> an de89 3704 0044\n> 0532 0130 00", "de89 3704 0044\n> 0532 0130 00", "iban"),
    ("de89  3704-0044 0532.0130 00", "de89  3704-0044 0532.0130 00", "iban"),
    ("no8802026113019", "no8802026113019", "iban"),
    ("NO88 0202 6113 019", "NO88 0202 6113 019", "iban"),
    ("Wir sind 12 Leute: CH93 0076 2011 6238 5295 7", "CH93 0076 2011 6238 5295 7", "iban"),
    # one-time codes
    ("My verification code is 482913 but it expired", "482913", "code"),
    ("code is 123456", "123456", "code"),
    ("Your code: 839 201", "839 201", "code"),
    ("G-482913 is your Google verification code", "482913", "code"),
    ("482913 is your verification code", "482913", "code"),
    ("Der Bestätigungscode lautet 739204.", "739204", "code"),
    ("Meine PIN ist 4711", "4711", "code"),
    ("PIN: 4711", "4711", "code"),
    ("TAN 839201", "839201", "code"),
    ("我的验证码是 739204，为什么", "739204", "code"),
    ("验证码：739204", "739204", "code"),
    ("OTP 482913", "482913", "code"),
    ("CVV 123", "123", "code"),
    ("the door code is 4711#", "4711", "code"),
    ("PIN (Karte): 4711", "4711", "code"),
    ("My bank PIN is, 4711", "4711", "code"),
    ("the pin for my card: 4711", "4711", "code"),
    ("pin ist vier sieben eins eins", "vier sieben eins eins", "code"),
    ("I changed my PIN to 4711", "4711", "code"),
    ("recovery code ABCD-EFGH-1234", "ABCD-EFGH-1234", "code"),
    ("recovery codes:\n- 1a2b3-c4d5e\n- f6g7h-8i9j0\nbye", "1a2b3-c4d5e\n- f6g7h-8i9j0", "code"),
    ("Backup-Codes: 8271 9283, 1029 3847", "8271 9283, 1029 3847", "code"),
    ("Sicherheitscode 123", "123", "code"),
    ("Prüfziffer 123", "123", "code"),
    # government ids
    ("my SSN is 536-90-4399", "536-90-4399", "government_id"),
    ("Meine Steuer-ID: 36 574 261 809", "36 574 261 809", "government_id"),
    ("Sozialversicherungsnummer 65 170839 J 008", "65 170839 J 008", "government_id"),
    ("身份证 360426199101010071", "360426199101010071", "government_id"),
    ("codice fiscale RCCMNL83S18D969H", "RCCMNL83S18D969H", "government_id"),
    ("passport number: C01X00T47", "C01X00T47", "government_id"),
    ("SVNR 1237 010180", "1237 010180", "government_id"),
    ("SSN 078-05-1120", "078-05-1120", "government_id"),
    ("NINO AB 12 34 56 C", "AB 12 34 56 C", "government_id"),
]

KEPT = [
    "",
    "I was born in 1984 and moved in 2019.",
    "The meeting is on 2026-06-17 at 12:00, room 1234.",
    "Upgrade to v10.15.7 or 2024.11.3, please.",
    "We sold 1250000 units and 48,000 licences in Q3.",
    "Order 4711-0815 has 12,000 pieces.",
    "Call me at +49 170 1234567 or 030 12345678.",
    "My zip code is 94107 and the area code is 0415.",
    "The error code is 500123 and the exit code is 137.",
    "Postal code: 10115",
    "HTTP status code: 4040",
    "The password is wrong.",
    "My password is expired, and the new one is too weak.",
    "Das Passwort ist falsch und muss zurückgesetzt werden.",
    "Password: required",
    "password = getpass.getpass()",
    "password: str = Field(min_length=8)",
    "password=${DB_PASSWORD}",
    "the password policy needs 12 characters",
    "How do I reset my password?",
    "Passwords are hashed with bcrypt.",
    "密码是什么？",
    "忘了密码怎么办",
    "The key is to start early.",
    "The token limit is 100000 tokens.",
    "max_tokens=2000",
    "primary_key: user_id",
    "The secret is patience.",
    "sk-learn-style-estimators are fine",
    "https://docs.example.com:8080/path@v2",
    "mailto:bob@example.com",
    "git@github.com:owner/repo.git",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "uuid 550e8400-e29b-41d4-a716-446655440000",
    "1234 5678 9012 3456",
    "1718611200000",
    "pin 13 and pin 7 of the board",
    "the tan line of 2024",
    "I spent 30 minutes to get a Tan from 1 sun",
    "Booking code ABC123, flight LH 2024",
    "eyJhello.world",
    "My passport expires in 2031.",
    "Mein Reisepass ist abgelaufen.",
    "ISBN 978-3-16-148410-0",
    "DE12 is a road and AB12 a plate",
    "The test shop refuses it with the code 314.",
    "source code is 12000 lines long",
    "QR-Code: 12345",
    "Basic understanding2024 of things",
    "The password should be 12 characters long.",
    "Passwords should be at least 8-12 characters.",
    "Das Passwort muss mindestens 12 Zeichen haben.",
    "I changed my password to something stronger.",
    "I changed my password yesterday.",
    "Ich habe das Passwort auf dem Server geändert.",
    "Das Passwort auf dem Laptop ändern wir morgen.",
    "I set the password to expire after 90 days.",
    "No password was given.",
    "Login: see RFC6749 for details",
    "Login / OAuth2 is planned",
    "login page / sign-up page",
    "The login and the profile page",
    "Login with Google or Apple",
    "I log in as anna on Monday",
    "pass: 12 fail: 3",
    "Tests: pass 12, fail 3",
    "Boarding pass: LH2024",
    "The pass is 2469m high",
    "We pass 2024 items",
    "pass the salt",
    "PW: 12 kW",
    "PSK is a modulation",
    "pw of 5",
    "密码是8位",
    "密码为6-16位字符",
    "密码使用bcrypt加密",
    "密码是错误的",
    "密码2024年更新过",
    "请输入密码：",
    "密码用SHA256加密",
    "密码管理器推荐1Password",
    "密码学是一门课",
    "忘记密码了，帮我重置",
    "密码长度至少8个字符",
    "| Field | Type |\n|---|---|\n| password | string |\n| user | string |",
    "| Feature | Password | SSO |\n|---|---|---|\n| MFA | optional | yes |",
    "| password | the user's password |",
    "properties:\n  password:\n    type: string\n    minLength: 8",
    "Password:\nPlease choose one.",
    "Passwords:\n- never share them\n- use a manager",
    "Settings > Password > Change",
    "password -> hash -> store",
    "if password:\n    return user1",
    "def f(password):\n    x1 = 2",
    "for pw in range(10): print(pw)",
    "pw = getpass()",
    "PIN the tweet 2024",
    "Pin 1234 is not connected to pin 56?",
    "I pinned 2024 photos",
    "pin: GPIO 17",
    "Tan 2024 Collection",
    "The recovery code is on paper.",
    "recovery code path",
    "backup code review",
    "security code review-2024",
    "The access code for the door is secret",
    "verification code sent",
    "source code v2-beta-1234",
    "curl -u $USER:$PASS https://x",
    "curl -u user:password https://x",
    "docker run -u 1000:1000 -p 8080:80 img",
    "docker run -p 5432:5432 postgres",
    "mysql -p mydb",
    "mkdir -p src/Main1/x",
    "ssh -p 2222 host",
    "rsync -a src/ dst2/",
    "http GET x -a y",
    "4111 1111 1111 1112",
    "4012, 4055, 4100, 4213, 5100, 5233",
    "4012\n4055\n4100\n4213\n5100\n5233",
    "0.4111111111111111",
    "2024-01-15 10:30:45 1234",
    "Tel. 0049 170 1234 5678",
    "+1 (415) 555-2671 ext 1234",
    "GTIN 4006381333931",
    "ISBN 9783161484100",
    "DE12 is a road",
    # Two items of a list are two things, even if a check digit happens to fit both together.
    "- Works in building no880\n- 2026-11-30 19:02 UTC: Plans a trip to Porto",
    "- Flight NO88\n- 0202 6113 019 is the booking",
    "* NO88\n* 0202 6113 019",
    "1. NO88\n2) 0202 6113 019",
    "4111\n- 1111\n- 1111\n- 1111",
    "in room no880, 2026-11-30 19 Uhr",
    "at 12 people came to the party and stayed over night",
    "The passphrase was never supplied.",
    "The seed phrase is the most important thing you own.",
    "A mnemonic is a memory aid for words and lists",
    "Das Passwort ist im Tresor, die PIN auch.",
    "Das Passwort für das WLAN ist im Flur notiert.",
    "The password for the new portal is coming soon",
    "password manager 1Password",
    "Ich nutze 1Password als Passwortmanager",
    "Python3.11 is the login language",
    "My password is the same as before.",
    "My password is too short",
    "is the password case-sensitive?",
    "Was ist das Passwort für den Gast?",
    "Wie lautet das Passwort?",
    "Das Passwort lautet anders.",
    "passwordless login with OAuth2",
    "The token is invalid",
    "API key rotation in Q3 2024",
    "The key: start early, finish 2024",
    "Mein Code ist fertig",
    "exit code: 1370",
    "Der Code ist 12000 Zeilen lang",
    "the code is 4711 lines",
    "Fehlercode 50012",
    "credentials: see the vault",
    "credentials for staging: ask Anna",
    "Zugangsdaten: bitte beim Support anfragen",
    "Zugangsdaten für Mandant12 fehlen noch",
    "Login-Seite für Release2024 fertig",
    "login: Sprint 2024Q3 planned",
    "pass rate: 98%",
    "first_pass = run1",
    "Pass: 98.5%",
    "PASS: test_login_01",
    "PASS tests/unit/test_x1.py",
    "one pass, two fails",
    "SSN stands for social security number",
    "the ssn field",
    "Ausweis verloren 2024",
    "I spent ￥４２００ on １２ items",
    "½ cup, ¾ cup, 1½ l",
    "\xbd\u200b\u2026\xb2\xb3",
    "Room 4111 1111",
    "Orders 4111/1111",
    "IPv6 2001:0db8:0000:0000:0000:ff00:0042:8329",
    "uuid 41111111-1111-1111-1111-111111111111",
    "ab12cd34ef56",
    "id 4539578763621486x",
    "Versicherungsnummer fehlt",
    "Ich war um 18:30 im Login-Meeting",
    "The default password was changed in 2024.",
    "password was updated on 2024-05-01",
    "das Passwort wurde am 01.05.2024 geändert",
    "Das Passwort läuft in 90 Tagen ab",
    "Set password_policy to strict",
    "password policy from NIST 800-63B",
    "password for user2 is expired",
    "Reset password for anna2024",
    "What's my password for server01?",
    "the password of server01 was leaked",
    "change the password for server01 to something new",
    "I gave the password to Team42 yesterday",
    "ich habe das Passwort an Team42 gegeben",
    "das Passwort zu Server01 fehlt mir",
    "Ich habe das Passwort in KeePass2 gespeichert",
    "the password is in 1Password",
    "password is stored in KeePass2",
    "The passphrase is kept in the safe.",
    "He used Python3 as the password store",
    "for pw in words: print(pw[1:])",
    "credentials: Credentials,\n    content_sha256: str",
    "def change_password(self) -> UserType2[User]: ...",
    "'IMAP password for %s on %s: ' % (user, host)",
    "winreg.KEY_READ | winreg.KEY_WOW64_32KEY",
    "4111, 1111, 1111, 1111, 2000",
    "Password (bool): Whether to ask.",
    "密码最长32个字符",
    "口令红包2024个",
]


@pytest.mark.parametrize(("text", "secret", "kind"), FOUND)
def test_secret_is_taken_out_and_the_rest_kept(text: str, secret: str, kind: str) -> None:
    redacted = redact(text)
    assert secret not in redacted.text
    assert kind in redacted.kinds
    before, after = text.split(secret, 1)
    assert redacted.text.startswith(before)
    if "seed phrase" not in text and "Password=P@ss" not in text:
        assert redacted.text == f"{before}[redacted:{kind}]{after}"


@pytest.mark.parametrize("text", KEPT)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    redacted = redact(text)
    assert redacted.text == text
    assert not redacted.kinds


@pytest.mark.parametrize(("text", "secret", "kind"), FOUND)
def test_redacting_again_changes_nothing(text: str, secret: str, kind: str) -> None:
    once = redact(text).text
    assert redact(once).text == once


_PIECES = st.sampled_from(
    [piece for text, secret, _ in FOUND for piece in (secret, text.split(secret, 1)[0])]
    + [
        " ",
        "\n",
        ": ",
        "is ",
        "=",
        "[redacted:password]",
        "[redacted:",
        "]",
        "1",
        "a",
        "\ud83d",
        "\x00",
        "é",
        "密码",
        "'",
        '"',
        "://",
        "@",
    ]
)


@given(st.one_of(st.text(max_size=400), st.lists(_PIECES, max_size=12).map("".join)))
@example("password: [redacted:password]: hunter2")
@example("[redacted:password]: foo")
def test_any_text_can_be_redacted_and_that_is_final(text: str) -> None:
    once = redact(text)
    again = redact(once.text)
    assert again.text == once.text
    assert not again.kinds
    assert bool(once.kinds) == (once.text != text)


def test_kinds_are_counted() -> None:
    text = "password: hunter2, card 4242 4242 4242 4242, card 4111111111111111"
    assert redact(text).kinds == {"password": 1, "card": 2}


@pytest.mark.parametrize(
    "separator", [" ", ", ", "\n", " 12 ", " 1234 ", "; "], ids=["blank", "comma", "line", "number", "group", "semicolon"]
)
def test_many_cards_in_a_row(separator: str) -> None:
    cards = ["4111111111111111", "4242 4242 4242 4242", "5555-5555-5555-4444"] * 10
    redacted = redact(separator.join(cards))
    assert redacted.kinds == {"card": 30}
    assert redacted.text == separator.join(["[redacted:card]"] * 30)


def test_every_cell_under_a_heading_for_passwords() -> None:
    table = (
        "| Konto | Passwort | Rolle |\n|:--|:-:|--:|\n"
        "| anna | Blume99! | chef2 |\n| bob | fehlt | x1y |\n| eva | Tulpe88 | |\n\nTulpe88"
    )
    redacted = redact(table)
    assert redacted.text == table.replace("Blume99!", "[redacted:password]").replace("Tulpe88", "[redacted:password]", 1)
    assert redacted.kinds == {"password": 2}


_TOLD = [text for text, _, kind in FOUND if kind in {"password", "card", "iban"} and text.isascii() and "\n" not in text]


@given(
    st.sampled_from(_TOLD), st.lists(st.integers(0, 80), min_size=1, max_size=6), st.sampled_from("\u200b\u200d\u2060\ufeff\u00ad")
)
def test_unseen_characters_hide_nothing(text: str, places: list[int], unseen: str) -> None:
    hidden = text
    for place in places:
        place %= len(hidden)
        hidden = hidden[:place] + unseen + hidden[place:]
    assert redact(hidden).text.replace(unseen, "") == redact(text).text


@given(st.text(st.sampled_from("aｂ½ﬁ\u200b\u0308uｱ٣\ufdfa\u3000 "), max_size=30))
def test_the_copy_leads_back_to_the_original(text: str) -> None:
    folded = fold(text)
    spans = [folded.original(index, index + 1) for index in range(len(folded.text))]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert spans == sorted(spans)
    for char, (start, end) in zip(folded.text, spans, strict=True):
        assert char in fold(text[start:end]).text


def test_secrets_do_not_show_in_the_repr() -> None:
    assert "hunter3" not in repr(redact("I like hunter3 games"))


def test_import_loads_no_http_library() -> None:
    """Workflow workers import the model package: the plugins and their HTTP library come on first use only."""
    code = "import sys, memory.model.redaction; sys.exit(any(m in sys.modules for m in ('requests', 'urllib3', 'detect_secrets')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


_NUMBERS = st.one_of(
    st.integers(0, 10**6).map(str),
    st.dates().map(str),
    st.datetimes().map("{:%Y-%m-%d %H:%M} UTC:".format),
    st.tuples(st.sampled_from(["no", "NO", "at", "DE", "BE", "is", "GB"]), st.integers(10, 10**4)).map(
        lambda two: f"{two[0]}{two[1]}"
    ),
    st.sampled_from(["4111", "5500", "6011", "3782", "room", "until", "the", "in", "is", "be", "it"]),
)


@given(st.lists(st.lists(_NUMBERS, min_size=1, max_size=6).map(" ".join), min_size=2, max_size=4))
@example(["Works in building no880", "2026-11-30 19:02 UTC: Plans a trip"])
def test_items_of_a_list_stay_items(items: list[str]) -> None:
    text = "".join(f"- {item}\n" for item in items)
    assert [line[:2] for line in redact(text).text.splitlines()] == ["- "] * len(items)
