"""Numbers that a check digit tells apart: payment cards and IBANs, however their digits are spaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_NO_WORD_BEFORE = r"(?<![A-Za-z0-9_À-ɏ])"
_NO_WORD_AFTER = r"(?![A-Za-z0-9_À-ɏ])"
_CARD = re.compile(
    rf"{_NO_WORD_BEFORE}(?:"
    r"(?<!\d[.,])\d{13,19}"  # not the end of a long fraction
    r"|\d{4}(?P<gap>[\W_]{1,3})(?:\d{4}(?P=gap)\d{4}(?P=gap)\d{4}(?:(?P=gap)\d{3})?|\d{6}(?P=gap)\d{4,5}|\d{8}(?P=gap)\d{4})"
    r"|\d{8}[ .–—-]\d{8}"
    r"|(?<!\d[.,])\d{4}(?:[\s.·–—_-]{0,3}\d{4}){3}"
    r"|(?<!\d[ -])\d(?:(?P<each>[ -])\d)(?:(?P=each)\d){11,17}(?!(?P=each)\d)"
    rf"){_NO_WORD_AFTER}"
)
_USUAL_GAPS = frozenset([*" .-–—_/", "  ", " - "])
_NEXT_GROUP = re.compile(r"[\W_]{1,3}\d")
_CARD_BRAND = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|(?:6011|65\d\d|64[4-9]\d)\d{12,15}|3(?:0[0-5]|[689]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}|(?:50|5[6-8]|6[37])\d{11,17}"
)
_NO_DIGIT = re.compile(r"\D+")
_NO_LETTER_OR_DIGIT = re.compile(r"[\W_]+")
_NEXT_ITEM = re.compile(r"[\r\n][^\S\r\n]*(?:[-*+•–#]|\d{1,3}[.)])\s")
"""A list item or heading that begins within a find: what stands before it is another number, if one at all. Taken for one, two
items would become one line, and what the second says would be lost. (In a quoted mail a number does go on in the next line.)"""
_DATE = re.compile(r"(?<!\d)(?:19|20)\d\d-(?:0\d|1[0-2])-[0-3]\d(?!\d)")
"""No account number is written with one; behind "room no880," it completes a Norwegian one."""
_IBAN_START = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[\W_]?\d{2}(?=[\W_]{0,3}[A-Za-z0-9])")
_LETTER_VALUES = {ord("A") + place: str(10 + place) for place in range(26)}


def find_cards(text: str) -> Iterator[tuple[int, int, str]]:
    position = 0
    while match := _CARD.search(text, position):
        start, end = match.span()
        # the last group may be the next number
        for stop in (end, start + len(match[0].rstrip("0123456789").rstrip(" .-–—_/"))):
            if _is_card(text[start:stop]) and _stands_alone(text, match["gap"] or match["each"], start, stop):
                yield start, stop, "card"
                position = stop
                break
        else:
            position = end if match[0].isdigit() else start + 4


def _stands_alone(text: str, gap: str | None, start: int, end: int) -> bool:
    """Whether these groups are no part of a longer list. Cards in a row are spaced in a usual way: those need not be."""
    if gap in _USUAL_GAPS or text[start:end].isdigit():
        return True
    before = _NO_LETTER_OR_DIGIT.sub("", text[max(0, start - 4) : start])
    return not before[-1:].isdigit() and _NEXT_GROUP.match(text, end) is None


def _is_card(text: str) -> bool:
    from stdnum import luhn

    if _NEXT_ITEM.search(text):
        return False
    digits = _NO_DIGIT.sub("", text)
    return _CARD_BRAND.fullmatch(digits) is not None and len(set(digits)) > 1 and bool(luhn.is_valid(digits))


def find_ibans(text: str) -> Iterator[tuple[int, int, str]]:
    position = 0
    while match := _IBAN_START.search(text, position):
        position = match.end()
        length = _iban_length(match[1].upper())
        if length and (rest := _iban_rest(length - 4).match(text, position)) and _is_iban(text[match.start() : rest.end()]):
            yield match.start(), rest.end(), "iban"
            position = rest.end()


def _is_iban(text: str) -> bool:
    from stdnum import iban

    if _NEXT_ITEM.search(text) or _DATE.search(text):
        return False
    compact = _NO_LETTER_OR_DIGIT.sub("", text).upper()
    return int((compact[4:] + compact[:4]).translate(_LETTER_VALUES)) % 97 == 1 and iban.is_valid(compact)


@lru_cache(maxsize=1024)
def _iban_length(country: str) -> int:
    """0 for a country that has none."""
    from stdnum import numdb

    known = numdb.get("iban").info(country)[0][1].get("bban", "")
    return 4 + sum(int(size) for size in re.findall(r"(\d+)!", known)) if known else 0


@lru_cache(maxsize=64)
def _iban_rest(length: int) -> re.Pattern[str]:
    return re.compile(rf"(?:[\W_]{{0,3}}[A-Za-z0-9]){{{length}}}(?![A-Za-z0-9])")
