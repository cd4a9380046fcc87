"""Words around secrets, as regular expressions for use without regard to case, and the triggers that find them fast.

A trigger is a lower-case substring; only where one stands is its rule tried. Adding a word means adding both.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PASSWORD_TRIGGERS = (
    "passw",
    "pass w",
    "pass-w",
    "passcode",
    "pa$$w",
    "pwd",
    "kennwort",
    "losungswort",
    "zugangswort",
    "contrase",
    "mot de passe",
    "wachtwoord",
    "senha",
    "palavra-passe",
    "lösenord",
    "adgangskode",
    "hasło",
    "heslo",
    "пароль",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
)
LOGIN_WORDS = (
    r"pa(?:ss|\$\$)[ -]?words?|pa(?:ss|\$\$)wort(?:es|e|s)?|passwörter|passwd|passcode|pwd"
    r"|kennwort|losungswort|zugangswort|contrase(?:ñ|n)a"
    r"|mot de passe|wachtwoord|senha|palavra-passe|lösenord|adgangskode|hasło|heslo|пароль|パスワード|비밀번호"
)
CHINESE_LOGIN_WORDS = r"密码|密碼|口令"

SHORT_LOGIN_TRIGGERS = ("pass", "pw", "psk")
PASS_BEFORE = _words(
    """
    boarding season ski travel bus day hall mountain free press vip backstage monthly weekly annual interrail rail train museum
    parking first second third last final one two full single render compiler optimisation optimization forward backward test
    tests will to would can could must should did does not a ein der den im pass
    """
)
"""Before "pass", these say that it is no password."""

ACCOUNT_TRIGGERS = ("zugangsdaten", "anmeldedaten", "login", "log-in", "credential", "creds")
ACCOUNT_WORDS = r"zugangsdaten|anmeldedaten|log-?in(?:-?daten|[ -]data|[ -]details)?|credentials?|creds"

OPTION_TRIGGERS = ("-u", "--user", "--proxy-user", "-p", "-a", "--auth")

PHRASE_TRIGGERS = ("phrase", "mnemonic", "助记词", "wiederherstellungs")
PHRASE_WORDS = (
    r"(?:(?<=pass)|(?<=pass[ _-])|(?<=seed )|(?<=seed-)|(?<=recovery )|(?<=backup )|(?<=secret )|(?<=wallet ))phrase"
    r"|(?<![A-Za-z])(?:mnemonic(?: phrase)?|wiederherstellungs(?:phrase|wörter))|助记词"
)

KEY_TRIGGERS = ("key", "token", "secret", "schlüssel", "密钥", "令牌", "credential", "signature", "sig=")
KEY_WORDS = r"keys?|tokens?|secrets?|schlüssel|密钥|令牌|credentials?|signature|sig"

CODE_TRIGGERS = (
    "otp",
    "pin",
    "tan",
    "puk",
    "cvv",
    "cvc",
    "cvn",
    "geheimzahl",
    "prüfnummer",
    "prüfziffer",
    "one-time p",
    "one time p",
    "验证码",
    "驗證碼",
    "校验码",
    "动态码",
    "动态密码",
    "安全码",
    "認証コード",
    "인증번호",
)
CODE_QUALIFIERS = (
    r"verification|security|confirmation|authenti[cf]ation|authenticator|auth|login|log-in|sign-in|sms|2fa|mfa|access|backup|recovery"
    r"|activation|unlock|reset|(?:one[- ])?time|factor|door|alarm|safe|otp|pass"
    r"|bestätigungs|verifizierungs|verifikations|sicherheits|einmal|zugangs|freischalt|aktivierungs|anmelde|tür|zahlen"
)
"""What stands before "code" when it is a secret."""
CODE_WORDS = (
    r"one[- ]time (?:password|pin|passcode)|geheimzahl|prüf(?:nummer|ziffer)"
    r"|验证码|驗證碼|校验码|动态码|动态密码|安全码|認証コード|인증번호"
)
SHORT_CODE_WORDS = r"pin(?:[ -]?(?:code|number|nummer|码))?|(?:m|push|sms-?|i|photo|chip)?-?tan|otp|puk|cvv2?|cvc2?|cvn"
"""Short words: without a connecting word they count in capitals only."""
DIGIT_WORDS = r"zero|oh|one|two|three|four|five|six|seven|eight|nine|null|eins|ein|zwei|zwo|drei|vier|fünf|sechs|sieben|acht|neun"

PLAIN_CODES = _words(
    """
    zip postal post area country error exit status response return product item source dress color colour qr bar promo
    discount voucher ticket booking tracking order invoice part model course room dial dialing calling sort bank swift
    branch currency language airport hs tax vat naf nace sic cost account project charge reason result http fault event
    job bug stop trouble reference ref coupon gift referral invite stock sku article store customer client department
    region state fehler länder sprach farb rabatt gutschein artikel produkt buchungs
    """
)
"""Qualifiers that make "code" an ordinary number."""

NOT_A_VALUE = _words(
    """
    a an the is are was were be been being not no none null nil true false yes required optional missing invalid valid
    wrong right incorrect correct weak strong secure insecure safe unsafe expired reset changed change unknown empty
    hidden protected encrypted hashed stored saved set unset needed necessary mandatory gone lost forgotten leaked
    compromised stolen public private secret shared here there below above following on off in at to for from with
    without by of and or but if when that this it its my your our their very too so also still now never always only
    just same different new old long short longer shorter enough ok okay fine good bad hard easy simple complex
    complicated important better best possible impossible recommended allowed accepted rejected denied refused disabled
    enabled available unavailable working broken used reused unique generated random temporary default case minimum
    maximum str string text char varchar bytes int integer number bool boolean object any password passwort passwd pwd
    token key value values field input output prompt username user login email manager hash required* enter please see
    ask tbd todo n/a na undefined example placeholder redacted stars up how what why where which who one something
    nothing anything everything kept asked falsch richtig korrekt ungültig gültig abgelaufen geändert vergessen verloren
    weg notwendig nötig erforderlich pflicht optional leer unbekannt sicher unsicher schwach stark zu sehr nicht kein
    keine ein eine der die das den dem im in am an auf bei mit ohne von vom für wichtig neu alt lang kurz gleich
    gespeichert verschlüsselt geschützt gesperrt hier dort unten oben jetzt immer nie noch schon bitte und oder aber
    supplied provided given specified found entered typed sent received verified checked validated rotated confirmed
    chosen created added removed deleted requested rejected whether enable enables enabled disable disables prompt
    angegeben eingegeben gefunden gesendet geprüft bestätigt erstellt gelöscht entfernt gewählt angefordert abgelehnt
    anders folgendermaßen wie derselbe dasselbe
    must should may might can could will would cannot shall need needs least max min between use used using your includes
    standard werkseinstellung werkseinstellungen muss müssen soll sollte darf kann wird wurde werden mindestens maximal
    wenn dass es sie er wir ich du mein dein zurückgesetzt bekannt egal einfach schwer 错误 正确 什么 必填 忘了 忘记 过期 安全 多少
    """
)
"""What may follow "password:" or "the password is" without being one."""
