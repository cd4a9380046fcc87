# ruff: noqa: E501  (patterns)
"""What counts as a secret. Each rule yields ``(start, end, kind)``; none backtracks over more than a short bounded stretch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from memory.model.redaction_fold import fold
from memory.model.redaction_ids import find_ids
from memory.model.redaction_logins import (
    CHANGE,
    CHANGED_AFTER,
    find_account,
    find_option,
    find_password,
    find_phrase,
    find_short_password,
    find_table_passwords,
)
from memory.model.redaction_numbers import find_cards, find_ibans
from memory.model.redaction_values import ALNUM, ASSIGN, IS, MEASURE, SPACE, assigned_value, value_after
from memory.model.redaction_words import (
    ACCOUNT_TRIGGERS,
    CHINESE_LOGIN_WORDS,
    CODE_QUALIFIERS,
    CODE_TRIGGERS,
    CODE_WORDS,
    DIGIT_WORDS,
    KEY_TRIGGERS,
    KEY_WORDS,
    OPTION_TRIGGERS,
    PASSWORD_TRIGGERS,
    PHRASE_TRIGGERS,
    PLAIN_CODES,
    SHORT_CODE_WORDS,
    SHORT_LOGIN_TRIGGERS,
)

Span = tuple[int, int, str]
_Rule = Callable[[str, int], "Span | None"]

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
_URL_PASSWORD = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@?#]{0,100}:([^\s/?#]{1,200}|(?<!ttp:)(?<!ttps:)(?!\d{1,5}/)[^\s@?#<>\"']{1,200})@(?=[\w\[.-])"
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


# -------------------------------------------------------------------------------------------------- values after telling words

_I = re.IGNORECASE
_GAP = re.compile(r"[ \t]{0,3}")
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
_CODE_GROUPS = re.compile(r"[\"'`*(]{0,2}([A-Za-z0-9]{3,8}(?:-[A-Za-z0-9]{3,8}){1,7})(?![\w-])")
_CODE_LETTERS = re.compile(
    r"[\"'`*(]{0,2}((?=[A-Z]*\d)(?=\d*[A-Z])[A-Z0-9]{6,20}|(?=[a-z]*\d)(?=(?:[a-z]*\d){2})(?=\d*[a-z])[a-z0-9]{8,32})(?![\w-])"
)
_NEXT_CODE = re.compile(
    r"[ \t]{0,3}(?:[,;/|]\s{0,3}|\r?\n[ \t]{0,8}(?:[-*•][ \t]+|\d{1,2}[.)][ \t]+)?|(?:and|und|or|oder)[ \t]+|(?<=[ ]))"
)
_CODE_TO = re.compile(r"(?:[ \t]+hab(?:e)? ich)?[ \t]+(?:to|auf)[ \t]+", _I)
_MAX_CODES = 24
_SPOKEN_CODE = re.compile(
    rf"(?:(?:{DIGIT_WORDS})[ ,-]{{1,2}}){{3,7}}(?:{DIGIT_WORDS})(?![^\W\d_])|[零〇一二三四五六七八九]{{4,8}}", _I
)
_CODE_BEFORE = re.compile(
    r"(?<![\w.,-])(?:[A-Za-z]-)?(\d(?:[ -]?\d){3,7})(?:[ \t]+(?:is|ist|als|as)[ \t]+(?:(?:your|my|the|our|a|dein|ihr|mein|der|die|das)[ \t]+(?:[\w-]{1,30}[ \t]+){0,3}?|(?!not|nicht)(?:[\w'’-]{1,30}[ \t]+)?)|"
    r"[ \t]?(?:是|为)[^\n。]{0,12}?)"
    rf"(?:code|{CODE_WORDS}|{SHORT_CODE_WORDS}|[a-zäöü]{{3,20}}code|passwor[dt]|passcode|kennwort|{CHINESE_LOGIN_WORDS})(?![A-Za-zÀ-ÿ])",
    _I,
)


_PLAIN_KEY = re.compile(r"(?=.*\d)(?=.*[a-z])[A-Za-z0-9_+/=~-]+")
_PROGRAM_MADE = re.compile(r"(?=[^a-zA-Z]*[a-zA-Z])(?:(?=\D*\d)[!-~]{8,}|(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[!-~]{20,})")


def _is_key(value: str) -> bool:
    """Long, of letters and digits or of both cases, without spaces: what programs make, not what people write."""
    return _PROGRAM_MADE.fullmatch(value) is not None


def _key(text: str, position: int) -> Span | None:
    word = _KEY.match(text, position)
    if word is None:
        return None
    if assigned := ASSIGN.match(text, word.end()):
        found = assigned_value(text, assigned)
        weak = assigned["line"] or assigned["loose"]
    else:
        link = IS.match(text, word.end()) or SPACE.match(text, word.end())
        found = link and value_after(text, link.end())
        weak = None
    if not found:
        return None
    value = text[found[0] : found[1]].split("&", 1)[0]
    if not _is_key(value) or (weak and not _PLAIN_KEY.fullmatch(value)):
        return None
    return found[0], found[0] + len(value), "api_key"


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
    link = ASSIGN.match(text, word.end()) or IS.match(text, word.end())
    if link is None and (long_word or word[0][:3].isupper()):
        link = _GAP.match(text, word.end())
    shortest = 3 if word[0].lower().startswith(("cv", "prüf")) else 4
    found = (_code_value(text, link.end(), shortest=shortest) or _spoken_code(text, link.end())) if link else None
    return found or _changed_code(text, position, word.end())


def _changed_code(text: str, start: int, end: int) -> Span | None:
    """ "I changed my PIN to 4711", "die PIN auf 4711 geändert"."""
    link = _CODE_TO.match(text, end)
    value = _code_value(text, link.end(), shortest=4) if link else None
    if value and (CHANGE.search(text, max(0, start - 40), start) or CHANGED_AFTER.match(text, value[1])):
        return value
    return None


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
    link = ASSIGN.match(text, word.end()) or IS.match(text, word.end())
    linked = link is not None
    link = link or (_GAP.match(text, word.end()) if secret else None)
    if link is None:
        return None
    find = _code_in_letters if secret and linked else _code_in_groups if secret else _no_code
    shortest = 3 if before and before[1].lower() in {"security", "sicherheits", "card", "karten"} else 4
    first = _code_value(text, link.end(), shortest=shortest) or find(text, link.end())
    return _with_the_next(text, first, find) if first and word[0].lower().endswith("s") else first


def _with_the_next(text: str, first: Span, find: _Rule) -> Span:
    """A list of codes, as one find."""
    end = first[1]
    for _ in range(_MAX_CODES):
        between = _NEXT_CODE.match(text, end)
        following = between and (_code_value(text, between.end(), shortest=4) or find(text, between.end()))
        if not following:
            break
        end = following[1]
    return first[0], end, "code"


def _code_value(text: str, position: int, *, shortest: int) -> Span | None:
    value = _CODE_VALUE.match(text, position)
    if value and shortest <= sum(c.isdigit() for c in value[1]) <= 8 and not MEASURE.match(text, value.end()):
        return *value.span(1), "code"
    return None


def _code_in_groups(text: str, position: int) -> Span | None:
    value = _CODE_GROUPS.match(text, position)
    if value is None:
        return None
    groups = value[1].split("-")
    made = all(any(c.isdigit() for c in group) for group in groups) or (value[1] == value[1].upper() and not value[1].isdigit())
    return (*value.span(1), "code") if made and (len(groups) > 2 or any(c.isdigit() for c in value[1])) else None


def _code_in_letters(text: str, position: int) -> Span | None:
    if groups := _code_in_groups(text, position):
        return groups
    value = _CODE_LETTERS.match(text, position)
    return (*value.span(1), "code") if value else None


def _no_code(_text: str, _position: int) -> Span | None:
    return None


def _spoken_code(text: str, position: int) -> Span | None:
    value = _SPOKEN_CODE.match(text, position)
    return (*value.span(), "code") if value else None


def _codes_before(text: str) -> Iterator[Span]:
    for match in _CODE_BEFORE.finditer(text):
        yield *match.span(1), "code"


_TRIGGERED: tuple[tuple[tuple[str, ...], _Rule], ...] = (
    (PASSWORD_TRIGGERS, find_password),
    (SHORT_LOGIN_TRIGGERS, find_short_password),
    (ACCOUNT_TRIGGERS, find_account),
    (OPTION_TRIGGERS, find_option),
    (PHRASE_TRIGGERS, find_phrase),
    (KEY_TRIGGERS, _key),
    (("bearer", "authorization"), _bearer),
    (("cookie:",), _cookie),
    (CODE_TRIGGERS, _code),
    (("code",), _some_code),
)
_KEYS = (_plugin_keys, _prefixed_keys, _jwts)
_LONG_RUN = re.compile(r"[A-Za-z0-9_/+=.:~-]{15}")
_NUMBERS = (find_cards, find_ibans, _codes_before)
_DIGITS = re.compile(r"\d[\W_]{0,3}\d")
_FILLER = "\ue000"


def find_secrets(text: str) -> list[Span]:
    """All finds, in no order, overlaps included. Markers of earlier redactions are not looked into."""
    masked = MARKER.sub(lambda marker: _FILLER * len(marker[0]), text)
    folded = fold(masked)
    found: list[Span] = []
    for start, end, kind in _find(folded.text):
        if ALNUM.search(folded.text, start, end):
            start, end = folded.original(start, end)
            found.append(_whole_markers(masked, (start, end, kind)))
    return found


def _find(text: str) -> list[Span]:
    lower = text.lower()
    if len(lower) != len(text):  # a few capitals grow in lower case
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    found = [*_private_keys(text), *_url_passwords(text), *find_table_passwords(text)]
    if _LONG_RUN.search(text):
        found += [span for rule in _KEYS for span in rule(text)]
    if _DIGITS.search(text):
        found += [span for rule in _NUMBERS for span in rule(text)]
        found += find_ids(text, lower)
    for triggers, rule in _TRIGGERED:
        for trigger in triggers:
            position = lower.find(trigger)
            while position >= 0:
                span = rule(text, position)
                if span:
                    found.append(span)
                position = lower.find(trigger, max(position + len(trigger), span[1] if span else 0))
    return found


def _whole_markers(masked: str, span: Span) -> Span:
    start, end, kind = span
    while start > 0 and masked[start] == masked[start - 1] == _FILLER:
        start -= 1
    while end < len(masked) and masked[end - 1] == masked[end] == _FILLER:
        end += 1
    return start, end, kind
