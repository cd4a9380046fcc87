# ruff: noqa: E501  (patterns)
"""What counts as a secret. Each rule yields ``(start, end, kind)``; none backtracks over more than a short bounded stretch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from memory.model.redaction_ids import find_ids
from memory.model.redaction_words import (
    CODE_QUALIFIERS,
    CODE_TRIGGERS,
    CODE_WORDS,
    KEY_TRIGGERS,
    KEY_WORDS,
    LOGIN_WORDS,
    NOT_A_VALUE,
    PASSWORD_TRIGGERS,
    PHRASE_TRIGGERS,
    PHRASE_WORDS,
    PLAIN_CODES,
    SHORT_CODE_WORDS,
)

Span = tuple[int, int, str]

MARKER = re.compile(r"\[redacted:[a-z_]+\]")

_DETECTORS = {
    "aws.AWSKeyDetector": "api_key",
    "azure_storage_key.AzureStorageKeyDetector": "api_key",
    "discord.DiscordBotTokenDetector": "api_key",
    "github_token.GitHubTokenDetector": "api_key",
    "gitlab_token.GitLabTokenDetector": "api_key",
    "mailchimp.MailchimpDetector": "api_key",
    "pypi_token.PypiTokenDetector": "api_key",
    "sendgrid.SendGridDetector": "api_key",
    "slack.SlackDetector": "api_key",
    "square_oauth.SquareOAuthDetector": "api_key",
    "stripe.StripeDetector": "api_key",
    "telegram_token.TelegramBotTokenDetector": "api_key",
    "twilio.TwilioKeyDetector": "api_key",
}
"""Plugins of detect-secrets whose patterns run in linear time. Left out: OpenAI, npm and JWT (quadratic on hostile input; own
rules below, JWT validated by the plugin), IBM, Cloudant, SoftLayer (cubic; the key words below cover them), Artifactory
(matches upper-case words), basic auth (misses passwords with ``!`` or ``$``), entropy (matches hashes and ids)."""


@cache
def _plugin_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    # On first use, not at import: the package pulls in an HTTP library, which workflow workers must not load.
    from importlib import import_module

    found: list[tuple[re.Pattern[str], str]] = []
    for path, kind in _DETECTORS.items():
        module, name = path.split(".")
        plugin: Any = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        found += [(pattern, kind) for pattern in plugin.denylist]
    return tuple(found)


# ------------------------------------------------------------------------------------------------------ shapes without context

_PREFIXED_KEY = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"sk-(?:ant-|proj-|svcacct-|or-v1-|admin-)?[A-Za-z0-9_-]{16,300}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[A-Za-z0-9+/=]{16,200}"
    r"|gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}|glpat-[A-Za-z0-9_-]{16,100}"
    r"|AIza[A-Za-z0-9_-]{30,50}|ya29\.[A-Za-z0-9_-]{20,500}|GOCSPX-[A-Za-z0-9_-]{20,60}"
    r"|hf_[A-Za-z0-9]{20,100}|gsk_[A-Za-z0-9]{20,100}|xai-[A-Za-z0-9]{20,200}|r8_[A-Za-z0-9]{20,100}|npm_[A-Za-z0-9]{30,100}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,300}|xapp-[A-Za-z0-9-]{10,300}|dop_v1_[a-f0-9]{64}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}"
    r"|AKC[A-Za-z0-9]{20,200}|AGE-SECRET-KEY-1[A-Z0-9]{40,80}|lin_api_[A-Za-z0-9]{20,100}|pypi-[A-Za-z0-9_-]{40,400}"
    r")"
)
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_=-]{4,8192}+\.[A-Za-z0-9_=-]{2,8192}+(?:\.[A-Za-z0-9_.+/=-]{0,8192}+)?")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d")
_PRIVATE_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-MAC: *[0-9a-f]+")
_MAX_PRIVATE_KEY_CHARS = 32_768
_PRIVATE_KEY_LINES = re.compile(r"(?:\\n|\s|[A-Za-z0-9+/=]{16,}|(?:Proc-Type|DEK-Info|Version|Comment|Encryption):[^\n]*)*+")
_URL_PASSWORD = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@?#]{0,100}:([^\s/?#]{1,200})@(?=[\w\[.-])")
_CARD = re.compile(
    r"(?<![\w])(?:\d{4}([ .\u00a0-])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ .\u00a0-])\d{6}\2\d{4,5}|\d{13,19})(?![\w])"
)
_NO_SEPARATORS = {ord(c): None for c in " .-\u00a0"}
_CARD_BRAND = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|(?:6011|65\d\d|64[4-9]\d)\d{12,15}|3(?:0[0-5]|[689]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}|(?:50|5[6-8]|6[37])\d{11,17}"
)
_LETTER_VALUES = {ord("A") + place: str(10 + place) for place in range(26)}
_IBAN = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?:[ \u00a0-]?[A-Za-z0-9]{4}){2,7}(?:[ \u00a0-]?[A-Za-z0-9]{1,4})?(?![A-Za-z0-9])"
)


def _plugin_keys(text: str) -> Iterator[Span]:
    for pattern, kind in _plugin_patterns():
        for match in pattern.finditer(text):
            start, end = match.span(1) if pattern.groups == 1 and "aws" in pattern.pattern else match.span()
            yield start, end, kind


def _prefixed_keys(text: str) -> Iterator[Span]:
    for match in _PREFIXED_KEY.finditer(text):
        value = match[0]
        if any(c.isdigit() for c in value) or (value != value.lower() and len(value) >= 24):
            yield *match.span(), "api_key"


def _jwts(text: str) -> Iterator[Span]:
    for match in _JWT.finditer(text):
        if _is_jwt(match[0].rstrip(".")):
            yield *match.span(), "token"


def _is_jwt(token: str) -> bool:
    from detect_secrets.plugins.jwt import JwtTokenDetector

    return JwtTokenDetector.is_formally_valid(token)


def _private_keys(text: str) -> Iterator[Span]:
    position = 0
    end = _PRIVATE_KEY_END.search(text)
    while match := _PRIVATE_KEY.search(text, position):
        while end and end.start() < match.end():
            end = _PRIVATE_KEY_END.search(text, end.end())
        if end and end.start() - match.end() <= _MAX_PRIVATE_KEY_CHARS:
            position = end.end()
        else:  # cut off: as far as its lines go
            following = _PRIVATE_KEY_LINES.match(text, match.end(), match.end() + _MAX_PRIVATE_KEY_CHARS)
            position = following.end() if following else match.end()
        yield match.start(), position, "private_key"


def _url_passwords(text: str) -> Iterator[Span]:
    for match in _URL_PASSWORD.finditer(text):
        yield *match.span(1), "password"


def _cards(text: str) -> Iterator[Span]:
    position = 0
    while match := _CARD.search(text, position):
        start, end = match.span()
        for stop in (end, start + len(match[0].rstrip("0123456789")) - 1):  # the last group may be the next number
            if _is_card(text[start:stop]):
                yield start, stop, "card"
                position = stop
                break
        else:
            position = start + 4 if match[1] or match[2] else end


def _is_card(text: str) -> bool:
    from stdnum import luhn

    digits = text.translate(_NO_SEPARATORS)
    if not digits.isascii():  # full-width digits, say
        digits = "".join(str(int(c)) for c in digits if c.isdecimal())
    return _CARD_BRAND.fullmatch(digits) is not None and len(set(digits)) > 1 and bool(luhn.is_valid(digits))


def _ibans(text: str) -> Iterator[Span]:
    from stdnum import iban

    for match in _IBAN.finditer(text):
        candidate = match[0]
        while len(candidate) >= 15:
            compact = re.sub(r"[^A-Za-z0-9]", "", candidate).upper()
            if int((compact[4:] + compact[:4]).translate(_LETTER_VALUES)) % 97 == 1 and iban.is_valid(compact):
                yield match.start(), match.start() + len(candidate), "iban"
                break
            # words after the number may look like its last groups
            shorter = re.search(r"[ \u00a0-][A-Za-z0-9]*$", candidate)
            candidate = candidate[: shorter.start()] if shorter else ""


# -------------------------------------------------------------------------------------------------- values after telling words

_I = re.IGNORECASE
_ASSIGN = re.compile(r"[\"'`\])*_]{0,4}[ \t]{0,4}(?::=|=>|={1,3}|:|：)[ \t*]{0,4}")
_IS = re.compile(
    r"(?:[ \t]+(?:for|of|to|on|at|für|zum|zur|vom|von|bei|im|in)[ \t]+[^\s:=.;!?]{1,30}(?:[ \t]+[^\s:=.;!?]{1,30}){0,3}?)?"
    r"(?:[ \t]+(?P<verb>is|was|are|=|ist|lautet|lauten|war|heißt|heisst|es|est|является)"
    r"(?:[ \t]+(?:now|jetzt|nun|still|again|wieder))?[ \t]*:?[ \t]+|[ \t]?(?:是|为|為|は|：)[ \t]?)",
    _I,
)
_SPACE = re.compile(r"[ \t]+")
_VALUE = re.compile(r"[\"'`“„«](?P<quoted>[^\"'`“”„»\n]{1,200})[\"'`”“»]|(?P<bare>[^\s\"'`,;，。；、！？<>|]{2,200})")
_SENTENCE_END = re.compile(r"[\s)\]]{0,3}(?:$|[\n.!?,;)，。；]|(?:and|und|but|aber|so|please|bitte|-|–|—)(?![\w]))", _I)
_CODE_EXPRESSION = re.compile(
    r"[$%{<&#@(\[]|\w{1,40}(?:\.\w{1,40}){0,4}\(|(?:os|process|env|config|settings|self|this|System)\.|https?://|/"
)
_CLOSERS = ".!?:)]}*_"
_ALNUM = re.compile(r"[^\W_]")
_GAP = re.compile(r"[ \t]{0,3}")

_PASSWORD = re.compile(rf"(?:{LOGIN_WORDS})(?P<suffix>[A-Za-z0-9_]{{0,30}})", _I)
_PHRASE = re.compile(rf"(?<![A-Za-z])(?:{PHRASE_WORDS})", _I)
_PHRASE_VALUE = re.compile(r"[\"'`“„]?\w{2,30}(?:[ ,]{1,2}\w{2,30}){2,24}[\"'`”“]?")
_KEY = re.compile(
    r"(?:(?<![A-Za-z])|(?<=api)|(?<=access)|(?<=secret)|(?<=auth)|(?<=client)|(?<=private)|(?<=account)|(?<=master)|(?<=refresh))"
    rf"(?:{KEY_WORDS})[A-Za-z0-9_]{{0,20}}",
    _I,
)
_BEARER = re.compile(
    r"(?:bearer|authorization[\"']{0,2}[ \t]{0,2}[:=][ \t]{0,2}[\"']?(?:basic|bearer|token))[ \t]{1,4}([A-Za-z0-9._~+/=-]{12,4096})",
    _I,
)
_COOKIE = re.compile(r"cookie:[ \t]{0,4}([^\n]{4,4096})", _I)
_LETTER = "[A-Za-zÀ-ÿ]"
_CODE = re.compile(rf"(?<!{_LETTER})(?:{CODE_WORDS})(?!{_LETTER})", _I)
_SHORT_CODE = re.compile(rf"(?<!{_LETTER})(?:{SHORT_CODE_WORDS})(?!{_LETTER})", _I)
_CODE_WORD = re.compile(r"codes?(?![A-Za-zÀ-ÿ])", _I)
_BEFORE_CODE = re.compile(r"([A-Za-zÀ-ÿ0-9]{1,30})([ \t-]{0,2})$")
_CODE_QUALIFIER = re.compile(CODE_QUALIFIERS, _I)
_CODE_VALUE = re.compile(r"[\"'`*(]{0,2}(?:[A-Za-z]-)?(\d(?:[ -]?\d){2,7})(?![.,:/-]?\d)(?![^\W_])")
_CODE_BEFORE = re.compile(
    r"(?<![\w.,-])(?:[A-Za-z]-)?(\d(?:[ -]?\d){3,7})(?:[ \t]+(?:is|ist|als|as)[ \t]+(?:(?:your|my|the|our|a|dein|ihr|mein|der|die|das)[ \t]+)?(?:[\w-]{1,30}[ \t]+){0,3}?|"
    r"[ \t]?(?:是|为)[^\n。]{0,12}?)"
    rf"(?:code|{CODE_WORDS}|{SHORT_CODE_WORDS}|[a-zäöü]{{3,20}}code|passwor[dt]|passcode|kennwort|密码)(?![A-Za-zÀ-ÿ])",
    _I,
)


def _value_after(text: str, position: int) -> tuple[int, int, bool] | None:
    """Start, end and whether it is quoted, of the value that begins at ``position``; None for what cannot be one."""
    match = _VALUE.match(text, position)
    if match is None:
        return None
    quoted = match["quoted"] is not None
    start, end = match.span("quoted" if quoted else "bare")
    if not quoted:
        stripped = text[start:end].rstrip(_CLOSERS)
        # "hunter2!" keeps its mark, "secret." does not
        end = start + len(stripped) + (1 if text[start + len(stripped) : end].startswith("!") and _is_mixed(stripped) else 0)
    value = text[start:end]
    if len(value) < 2 or not _ALNUM.search(value) or value.lower().strip("'’") in NOT_A_VALUE:
        return None
    if not quoted and _CODE_EXPRESSION.match(value):
        return None
    return start, end, quoted


_MIXED = re.compile(
    r"(?=.*\d)(?:.*[^\W\d_]|.{4})"  # a digit beside letters, or several digits
    r"|.*[^\w\-'’./].+|.*_.+"  # a symbol inside
    r"|(?=.*[a-zß-ÿ]).+[A-ZÀ-Þ]",  # a capital in the middle
    re.DOTALL,
)
_PROGRAM_MADE = re.compile(r"(?=[^a-zA-Z]*[a-zA-Z])(?:(?=\D*\d)[!-~]{8,}|(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[!-~]{20,})")


def _is_mixed(value: str) -> bool:
    """Looks like no word of a language."""
    return _MIXED.match(value) is not None


def _is_key(value: str) -> bool:
    """Long, of letters and digits or of both cases, without spaces: what programs make, not what people write."""
    return _PROGRAM_MADE.fullmatch(value) is not None


def _password(text: str, position: int) -> Span | None:
    word = _PASSWORD.match(text, position)
    if word is None:
        return None
    if assigned := _ASSIGN.match(text, word.end()):
        found = _value_after(text, assigned.end())
        return (found[0], found[1], "password") if found else None
    word_end = word.end("suffix") if not word["suffix"] else word.start("suffix")
    if word["suffix"]:
        return None
    if linked := _IS.match(text, word_end):
        found = _value_after(text, linked.end())
        if found is None:
            return None
        start, end, quoted = found
        told = linked["verb"] is None or linked["verb"].lower().startswith(("laut", "="))
        if quoted or told or _is_mixed(text[start:end]) or _SENTENCE_END.match(text, end):
            return start, end, "password"
        return None
    if (space := _SPACE.match(text, word_end)) and (found := _value_after(text, space.end())):
        start, end, quoted = found
        value = text[start:end]
        if (quoted and " " not in value) or (len(value) >= 6 and _is_mixed(value) and any(c.isdigit() for c in value)):
            return start, end, "password"
    return None


def _phrase(text: str, position: int) -> Span | None:
    word = _PHRASE.match(text, position)
    link = word and (_ASSIGN.match(text, word.end()) or _IS.match(text, word.end()))
    if not link:
        return None
    if value := _PHRASE_VALUE.match(text, link.end()):
        return *value.span(), "password"
    found = _value_after(text, link.end())
    return (found[0], found[1], "password") if found else None


def _key(text: str, position: int) -> Span | None:
    word = _KEY.match(text, position)
    link = word and (_ASSIGN.match(text, word.end()) or _IS.match(text, word.end()) or _SPACE.match(text, word.end()))
    if not link:
        return None
    found = _value_after(text, link.end())
    if found is None:
        return None
    value = text[found[0] : found[1]].split("&", 1)[0]
    return (found[0], found[0] + len(value), "api_key") if _is_key(value) else None


def _bearer(text: str, position: int) -> Span | None:
    match = _BEARER.match(text, position)
    return (*match.span(1), "token") if match and _is_key(match[1]) else None


def _cookie(text: str, position: int) -> Span | None:
    match = _COOKIE.match(text, position)
    return (*match.span(1), "token") if match and "=" in match[1] else None


def _code(text: str, position: int) -> Span | None:
    long_word = _CODE.match(text, position)
    word = long_word or _SHORT_CODE.match(text, position)
    if word is None:
        return None
    link = _ASSIGN.match(text, word.end()) or _IS.match(text, word.end())
    if link is None and (long_word or word[0][:3].isupper()):
        link = _GAP.match(text, word.end())
    return _code_value(text, link.end(), shortest=3 if word[0].lower().startswith("cv") else 4) if link else None


def _some_code(text: str, position: int) -> Span | None:
    """The word "code" itself: what stands before it says whether it is a secret."""
    word = _CODE_WORD.match(text, position)
    if word is None:
        return None
    before = _BEFORE_CODE.search(text, max(0, position - 34), position)
    secret = False
    if before:
        qualifier = before[1].lower()
        secret = _CODE_QUALIFIER.fullmatch(qualifier) is not None
        if qualifier in PLAIN_CODES or (not before[2] and not secret):
            return None
    link = _ASSIGN.match(text, word.end()) or _IS.match(text, word.end()) or (_GAP.match(text, word.end()) if secret else None)
    return _code_value(text, link.end(), shortest=4) if link else None


def _code_value(text: str, position: int, *, shortest: int) -> Span | None:
    value = _CODE_VALUE.match(text, position)
    if value and shortest <= sum(c.isdigit() for c in value[1]) <= 8:
        return *value.span(1), "code"
    return None


def _codes_before(text: str) -> Iterator[Span]:
    for match in _CODE_BEFORE.finditer(text):
        yield *match.span(1), "code"


_Rule = Callable[[str, int], "Span | None"]
_TRIGGERED: tuple[tuple[tuple[str, ...], _Rule], ...] = (
    (PASSWORD_TRIGGERS, _password),
    (PHRASE_TRIGGERS, _phrase),
    (KEY_TRIGGERS, _key),
    (("bearer", "authorization"), _bearer),
    (("cookie:",), _cookie),
    (CODE_TRIGGERS, _code),
    (("code",), _some_code),
)
_KEYS = (_plugin_keys, _prefixed_keys, _jwts)
_LONG_RUN = re.compile(r"[A-Za-z0-9_/+=.:~-]{15}")
_NUMBERS = (_cards, _ibans, _codes_before)
_DIGITS = re.compile(r"\d[ -]?\d")
_FILLER = "\ue000"


def find_secrets(text: str) -> list[Span]:
    """All finds, in no order, overlaps included. Markers of earlier redactions are not looked into."""
    masked = MARKER.sub(lambda marker: _FILLER * len(marker[0]), text)
    lower = masked.lower()
    if len(lower) != len(masked):  # a few capitals grow in lower case
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in masked)
    found = [*_private_keys(masked), *_url_passwords(masked)]
    if _LONG_RUN.search(masked):
        found += [span for rule in _KEYS for span in rule(masked)]
    if _DIGITS.search(masked):
        found += [span for rule in _NUMBERS for span in rule(masked)]
        found += find_ids(masked, lower)
    for triggers, rule in _TRIGGERED:
        for trigger in triggers:
            position = lower.find(trigger)
            while position >= 0:
                span = rule(masked, position)
                if span:
                    found.append(span)
                position = lower.find(trigger, max(position + len(trigger), span[1] if span else 0))
    return [_whole_markers(masked, span) for span in found if _has_text(masked, span)]


def _has_text(masked: str, span: Span) -> bool:
    return _ALNUM.search(masked, span[0], span[1]) is not None


def _whole_markers(masked: str, span: Span) -> Span:
    start, end, kind = span
    while start > 0 and masked[start] == masked[start - 1] == _FILLER:
        start -= 1
    while end < len(masked) and masked[end - 1] == masked[end] == _FILLER:
        end += 1
    return start, end, kind
