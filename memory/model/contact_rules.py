"""What the fields of a contact may hold, and the one form in which they are stored."""

from __future__ import annotations

import re
import unicodedata
import zoneinfo
from collections.abc import Mapping
from functools import cache
from typing import Any

from memory.model.contact import MAX_TEXT_WORDS, TEXT_FIELDS
from memory.model.errors import InvalidInput
from memory.model.transcript import clean_text
from memory.model.words import is_dense, tokens

MAX_NAME_CHARS = 100
MAX_POLICY_CHARS = 4000
EDITABLE_FIELDS = (
    "first_name",
    "surname",
    "email_address",
    "phone_number",
    "whatsapp_number",
    "timezone",
    "job_title",
    "bio",
    "rolling_summary",
    "response_policy",
    "should_respond",
)

_EMAIL = re.compile(r"[^\s@<>,;\"()]{1,64}@[^\s@<>,;\"()]{1,190}\.[^\s@<>,;\"().]{2,63}")
_NUMBER = re.compile(r"\+?\d{3,20}")
_NUMBER_FILLING = re.compile(r"[\s().\-/\u2010-\u2015\u202f\u00a0]")
_DENSE_CHARS_PER_WORD = 2
"""Of scripts that are written without spaces, two characters count as one word."""


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored; blank text becomes None.

    Raises:
        InvalidInput: an unknown field or a value that it may not hold; names the field and never its value.
    """
    return {name: _checked(name, value) for name, value in fields.items()}


def _checked(name: str, value: Any) -> Any:
    if name not in EDITABLE_FIELDS:
        raise InvalidInput(f"a contact has no field {ascii(name)[:40]} that can be changed; there are {', '.join(EDITABLE_FIELDS)}")
    if name == "should_respond":
        if not isinstance(value, bool):
            raise InvalidInput("should_respond is true or false")
        return value
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is text, not {type(value).__name__}")
    text = clean_text(value).strip()
    if not text:
        return None
    if name in ("first_name", "surname"):
        return _name(name, text)
    if name == "email_address":
        return email_address(text)
    if name in ("phone_number", "whatsapp_number"):
        return phone_number(text, what=name)
    if name == "timezone":
        if text not in _zones():
            raise InvalidInput("the timezone is not an IANA name, for instance Europe/Berlin")
        return text
    if name in TEXT_FIELDS:
        return _long_text(name, text)
    if len(text) > 200:
        raise InvalidInput(f"{name} has {len(text)} characters; at most 200 are accepted")
    return " ".join(text.split())


def _name(field: str, text: str) -> str:
    text = " ".join(unicodedata.normalize("NFC", text).replace("’", "'").split())
    if len(text) > MAX_NAME_CHARS:
        raise InvalidInput(f"{field} has {len(text)} characters; at most {MAX_NAME_CHARS} are accepted")
    if not all(char in " .'-" or unicodedata.category(char)[0] in "LMN" for char in text) or not any(map(str.isalnum, text)):
        raise InvalidInput(f"{field} may hold letters and digits of any script, space, full stop, apostrophe and hyphen")
    return text


def email_address(text: str) -> str:
    """With its domain in small letters. Raises InvalidInput."""
    text = text.strip().removeprefix("mailto:")
    if not _EMAIL.fullmatch(text):
        raise InvalidInput("the email_address is not one: name@domain")
    local, _, domain = text.rpartition("@")
    return f"{local}@{domain.lower()}".lower() if local.isascii() else f"{local}@{domain.lower()}"


def phone_number(text: str, *, what: str = "phone_number") -> str:
    """An optional plus and digits. Raises InvalidInput."""
    number = _NUMBER_FILLING.sub("", unicodedata.normalize("NFKC", text.removeprefix("tel:")))
    if not _NUMBER.fullmatch(number):
        raise InvalidInput(f"the {what} may hold a plus and 3 to 20 digits")
    return number


def word_count(text: str) -> int:
    """Words of a text in any script."""
    words = 0
    for token in tokens(text):
        words += max(1, len(token) // _DENSE_CHARS_PER_WORD) if is_dense(token) else 1
    return words


def _long_text(field: str, text: str) -> str:
    if field == "response_policy":
        if len(text) > MAX_POLICY_CHARS:
            raise InvalidInput(f"the response_policy has {len(text)} characters; at most {MAX_POLICY_CHARS} are accepted")
    elif (words := word_count(text)) > MAX_TEXT_WORDS:
        raise InvalidInput(f"the {field} has {words} words; at most {MAX_TEXT_WORDS} are accepted")
    return text


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
