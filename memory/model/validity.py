"""Times of facts and tasks as a model writes them, and as people say them ("until March")."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from dateutil import parser, rrule
from dateutil.relativedelta import relativedelta

from memory.model.stale import MONTHS
from memory.model.words import fold

MAX_YEARS: Final = 60
"""Farther away from the day on which something was said is a slip."""

_DATE_ONLY = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
_MONTH_NAMES = "|".join(sorted({re.escape(name) for name in MONTHS}, key=len, reverse=True))
_UNTIL = re.compile(  # in folded text
    rf"\b(?:until|till|til|through|up to|bis(?: zum| ende| anfang)?|hasta|jusqu'(?:a|au|en))"
    r"\s+(?:the\s+)?(?:end of\s+|beginning of\s+|ende\s+)?"
    rf"(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?)?(?P<month>{_MONTH_NAMES})\b\.?(?:\s+(?P<day2>\d{{1,2}})(?!\d))?(?:,?\s+(?P<year>\d{{4}}))?",
    re.IGNORECASE,
)
_UNTIL_DENSE = re.compile(
    r"(?:直到|到|至)(?:(?P<year>\d{4})年)?(?P<month>\d{1,2}|[一二三四五六七八九十]{1,3})月(?:(?P<day>\d{1,2})[日号])?"
)
_HAN = {char: number for number, char in enumerate("一二三四五六七八九十", 1)}


def read_moment(written: str | None, *, said_at: datetime, end: bool = False) -> datetime | None:
    """A moment that a model wrote, with a zone (UTC where none was said).

    Args:
        written: ISO 8601; a date alone, a month or a year is its whole span.
        said_at: moments that are farther than 60 years from it count as slips.
        end: of a span give the end (exclusive) rather than the beginning.

    Returns:
        None for what is not readable or not plausible.
    """
    if not written or not written.strip():
        return None
    text = written.strip()
    try:
        if _DATE_ONLY.fullmatch(text):
            begin = datetime(*(int(part) for part in (*text.split("-"), 1, 1)[:3]), tzinfo=UTC)  # type: ignore[misc]
            span = {4: relativedelta(years=1), 7: relativedelta(months=1), 10: relativedelta(days=1)}[len(text)]
            moment = begin + span if end else begin
        else:
            moment = parser.isoparse(text)
    except (ValueError, OverflowError, KeyError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment if abs(moment - said_at) < timedelta(days=366 * MAX_YEARS) else None


def said_until(quotes: Iterable[str], *, said_at: datetime) -> datetime | None:
    """The end of what the quotes limit in words, exclusive: "until March" ends with March's last day."""
    for quote in quotes:
        found = _UNTIL.search(fold(quote))
        if found:
            day = found["day"] or found["day2"]
            return _end(MONTHS.get(fold(found["month"])), day, found["year"], said_at)
        dense = _UNTIL_DENSE.search(quote)
        if dense:
            return _end(_han(dense["month"]), dense["day"], dense["year"], said_at)
    return None


def read_rule(written: str | None) -> str | None:
    """A valid RRULE without its prefix; None for what is not one, or what repeats more than hourly."""
    if not written:
        return None
    text = written.strip().removeprefix("RRULE:").upper()
    try:
        rrule.rrulestr(text, dtstart=datetime(2026, 1, 1))  # noqa: DTZ001 - only whether it can be read
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return None if "SECONDLY" in text or "MINUTELY" in text or len(text) > 300 else text


def _end(month: int | None, day: str | None, year: str | None, said_at: datetime) -> datetime | None:
    if not month or not 1 <= month <= 12:
        return None
    chosen = int(year) if year else said_at.year + (month < said_at.month)
    try:
        begin = datetime(chosen, month, int(day) if day else 1, tzinfo=UTC)
    except ValueError:
        return None
    return begin + (relativedelta(days=1) if day else relativedelta(months=1))


def _han(written: str) -> int | None:
    if written.isdecimal():
        return int(written)
    if len(written) == 1:
        return _HAN.get(written)
    return 10 + _HAN.get(written[-1], 0) if written.startswith("十") else None
