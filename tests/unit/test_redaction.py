"""What counts as a secret, and what does not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory.model.redaction import redact

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
    # cards
    ("card 4242 4242 4242 4242 please", "4242 4242 4242 4242", "card"),
    ("4111111111111111", "4111111111111111", "card"),
    ("5555-5555-5555-4444", "5555-5555-5555-4444", "card"),
    ("amex 3782 822463 10005", "3782 822463 10005", "card"),
    ("卡号 ４２４２４２４２４２４２４２４２。", "４２４２４２４２４２４２４２４２", "card"),
    ("卡号 6011111111111117", "6011111111111117", "card"),
    # IBAN
    ("IBAN: DE89 3704 0044 0532 0130 00 und danke", "DE89 3704 0044 0532 0130 00", "iban"),
    ("GB82WEST12345698765432", "GB82WEST12345698765432", "iban"),
    ("de89370400440532013000", "de89370400440532013000", "iban"),
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
    # government ids
    ("my SSN is 536-90-4399", "536-90-4399", "government_id"),
    ("Meine Steuer-ID: 36 574 261 809", "36 574 261 809", "government_id"),
    ("Sozialversicherungsnummer 65 170839 J 008", "65 170839 J 008", "government_id"),
    ("身份证 360426199101010071", "360426199101010071", "government_id"),
    ("codice fiscale RCCMNL83S18D969H", "RCCMNL83S18D969H", "government_id"),
    ("passport number: C01X00T47", "C01X00T47", "government_id"),
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


def test_secrets_do_not_show_in_the_repr() -> None:
    assert "hunter3" not in repr(redact("I like hunter3 games"))


def test_import_loads_no_http_library() -> None:
    """Workflow workers import the model package: the plugins and their HTTP library come on first use only."""
    code = "import sys, memory.model.redaction; sys.exit(any(m in sys.modules for m in ('requests', 'urllib3', 'detect_secrets')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
