"""What the fields of a contact may hold, and the one form in which they are stored."""

from __future__ import annotations

import re
import unicodedata
import zoneinfo
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from memory.model.contact import MAX_TEXT_WORDS
from memory.model.errors import InvalidInput
from memory.model.transcript import clean_text

MAX_NAME_CHARS: Final = 200
MAX_LINE_CHARS: Final = 300
MAX_TEXT_CHARS: Final = 8000
"""Of a bio, a rolling summary and a response policy, whatever counts as a word in their language."""

EDITABLE_FIELDS: Final = (
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

_EMAIL = re.compile(r"[^\s@<>,;:\"()\[\]\\]{1,64}@(?:[^\W_](?:[\w-]{0,62})\.)+[^\W_][\w-]{1,62}")
_MAX_EMAIL_CHARS = 254
_NUMBER = re.compile(r"\+?[0-9]{3,20}")
_FILLING = re.compile(r"[\s()./\u00ad\u200b-\u200f\u202a-\u202e\u2010-\u2015\u2060-\u2069-]")
_WIDE = str.maketrans("＋（）－／．", "+()-/.")
_TRUNK_ZERO = re.compile(r"^(\s*\+.*?)\(0\)")
_SAME = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "‐": "-", "‑": "-", "–": "-", "·": " ", "・": " ", "•": " "})
_JOINERS = "\u200c\u200d"
"""Within names of Persian and Indian scripts."""
_PER_WORD = (
    (re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"), 2),
    (re.compile("[\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0ec0-\u0ec6\u1000-\u102a\u1780-\u17b3]"), 4),
)
"""Characters a word, in scripts written without spaces: Chinese and Japanese; Thai, Lao, Burmese, Khmer."""
_DENSE = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"
)


def checked_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields in the form in which they are stored; text without anything in it becomes None.

    Raises:
        InvalidInput: a field that there is not, or a value that it may not hold; names the field, never the value.
    """
    return {name: checked_field(name, value) for name, value in fields.items()}


def checked_field(name: str, value: Any) -> Any:
    """One field, as :func:`checked_fields`."""
    if name not in EDITABLE_FIELDS:
        raise InvalidInput(f"a contact has no field {ascii(name)[:40]} to be set; there are {', '.join(EDITABLE_FIELDS)}")
    if name == "should_respond":
        if not isinstance(value, bool):
            raise InvalidInput("should_respond is true or false")
        return value
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"the {name} is text, not {type(value).__name__}")
    text = unicodedata.normalize("NFC", clean_text(value)).strip()
    if not text:
        return None
    match name:
        case "first_name" | "surname":
            return _name(name, text)
        case "email_address":
            return email_address(text)
        case "phone_number" | "whatsapp_number":
            return phone_number(text, what=name)
        case "timezone":
            return _timezone(text)
        case "job_title":
            return _bounded(name, " ".join(text.split()), MAX_LINE_CHARS)
        case _:
            return _long_text(name, text)


def email_address(text: str) -> str:
    """Its domain in small letters. Raises InvalidInput."""
    text = unicodedata.normalize("NFC", text).strip().removeprefix("mailto:")
    if len(text) > _MAX_EMAIL_CHARS or not _EMAIL.fullmatch(text):
        raise InvalidInput("the email_address is not one: name@domain is expected")
    local, _, domain = text.rpartition("@")
    return f"{local}@{domain.casefold()}"


def email_key(address: str) -> str:
    """What two addresses have in common that reach the same mailbox in practice: capitals do not count."""
    return address.casefold()


def phone_number(text: str, *, what: str = "phone_number") -> str:
    """A plus where one was given, and digits (of any script, as ASCII). Raises InvalidInput."""
    plain = text.translate(_WIDE).strip().removeprefix("tel:")
    plain = _FILLING.sub("", _TRUNK_ZERO.sub(r"\1", plain))
    digits = "".join(str(unicodedata.decimal(char, char)) for char in plain)
    if not _NUMBER.fullmatch(digits):
        raise InvalidInput(f"the {what} is not one: 3 to 20 digits are expected, + before them or not")
    return digits


def count_words(text: str) -> int:
    """Words of a text in any script. In one that is written without spaces, as many as a reader would count roughly."""
    words = sum(any(map(str.isalnum, word)) for word in _DENSE.sub(" ", text).split())
    for characters, per_word in _PER_WORD:
        words += -(-len(characters.findall(text)) // per_word)
    return words


def _name(field: str, text: str) -> str:
    text = " ".join(text.translate(_SAME).split())
    _bounded(field, text, MAX_NAME_CHARS)
    if not all(char in " .'-" or char in _JOINERS or unicodedata.category(char)[0] in "LMN" for char in text) or not any(
        unicodedata.category(char)[0] in "LN" for char in text
    ):
        raise InvalidInput(f"the {field} may hold letters and digits of any script, space, full stop, apostrophe and hyphen")
    return text


def _timezone(text: str) -> str:
    found = _timezones().get(text.casefold())
    if found is None:
        raise InvalidInput("the timezone is not one of the IANA names, as Europe/Berlin is")
    return found


@cache
def _timezones() -> dict[str, str]:
    return {name.casefold(): name for name in zoneinfo.available_timezones()}


def _long_text(field: str, text: str) -> str:
    words = count_words(text)
    if field != "response_policy" and words > MAX_TEXT_WORDS:
        raise InvalidInput(f"the {field} has {words} words; at most {MAX_TEXT_WORDS} are accepted")
    return _bounded(field, text, MAX_TEXT_CHARS)


def _bounded(field: str, text: str, most: int) -> str:
    if len(text) > most:
        raise InvalidInput(f"the {field} has {len(text)} characters; at most {most} are accepted")
    return text
