# ruff: noqa: E501  (patterns)
"""Times of facts and tasks: as a model writes them, and as people say them ("until March", "bis Freitag", "从5月1日起").

A day is one of the zone it was said in. Ends are exclusive: what holds "until 31 March" holds on that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from dateutil import parser
from dateutil.relativedelta import relativedelta

from memory.model.stale import MONTHS
from memory.model.words import fold

MAX_YEARS: Final = 60
"""Farther away from the day on which something was said is a slip."""
MAX_DEADLINE_YEARS: Final = 10

_DATE_ONLY = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
_M: Final = "|".join(sorted({re.escape(name) for name in MONTHS} | {"maerz", "fevrier"}, key=len, reverse=True))
_WEEKDAYS: Final = {
    name: number
    for number, names in enumerate(
        ("monday montag", "tuesday dienstag", "wednesday mittwoch", "thursday donnerstag", "friday freitag", "saturday samstag sonnabend", "sunday sonntag")
    )
    for name in names.split()
}  # fmt: skip
_HAN_DAYS: Final = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_D: Final = "|".join(_WEEKDAYS)
_HAN_NUMBER: Final = r"\d{1,2}|[一二三四五六七八九十]{1,3}"

_WHEN: Final = (
    r"(?P<iso>\d{4}-\d{2}-\d{2})"
    rf"|(?P<d1>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<m1>{_M})\b\.?(?:,?\s+(?P<y1>\d{{4}}))?"
    rf"|(?P<m2>{_M})\.?\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\s*(?:uhr|am|pm|:|%|€))(?:,?\s+(?P<y2>\d{{4}}))?"
    r"|(?P<d3>\d{1,2})\.\s?(?P<m3>\d{1,2})\.(?:\s?(?P<y3>\d{4}))?(?!\d)"
    rf"|(?:(?P<part>end|ende|beginning|start|anfang|mid|mitte)\s+(?:of\s+)?)?(?P<m4>{_M})\b\.?(?:\s+(?P<y4>\d{{4}}))?"
    r"|(?P<dayafter>the day after tomorrow|übermorgen)|(?P<tomorrow>tomorrow|(?<!guten )morgen(?!s))|(?P<today>today|tonight|heute)"
    rf"|(?P<week>next\s+|nächste[nrs]?\s+|kommende[nrs]?\s+)?(?P<wd>{_D})\b"
    r"|(?P<eom>(?:the\s+)?end of (?:the|this) month|monatsende|ende (?:des|dieses) monats)|(?P<eoy>(?:the\s+)?end of (?:the|this) year|jahresende|ende (?:des|dieses) jahres)"
    r"|(?P<y5>20\d{2})(?!\d)"
)
_HAN_WHEN: Final = (
    rf"(?:(?P<y1>\d{{4}})年)?(?P<m1>{_HAN_NUMBER})月(?:(?P<d1>{_HAN_NUMBER})[日号號]|(?P<eom1>底))?"
    r"|(?P<week>下个?|这|本)?(?:周|星期|礼拜)(?P<wd>[一二三四五六日天])|(?P<dayafter>后天)|(?P<tomorrow>明天)|(?P<today>今天|今晚)|(?P<eom>月底)|(?P<eoy>年底)|(?P<y5>\d{4})年(?P<eoy5>底)?"
)
_ARTICLE: Final = r"(?:the\s+|den\s+|dem\s+|einschließlich\s+)?"
_UNTIL = re.compile(
    rf"\b(?:until|till?|through|up to|no later than|valid to|expires?(?: on| in)?|bis(?! (?:zu|auf)\b)(?:\s+(?:zum|zur|einschließlich|spätestens))?|läuft (?:am|im)|hasta|jusqu['’](?:à|au|en))\s+{_ARTICLE}(?:{_WHEN})",
    re.IGNORECASE,
)
_HAN_UNTIL = re.compile(
    rf"(?:直到|截至|截止到?|(?<![改迟前期搬移推达])[到至])(?:{_HAN_WHEN})|(?:{_HAN_WHEN.replace('(?P<', '(?P<b_')})(?:之前|以前|为止|截止)"
)
_FROM = re.compile(
    rf"\b(?:from|starting(?: on| in| from)?|as of|as from|effective(?: from)?|beginning(?: on| in)?|since|ab(?: dem)?|beginnend (?:am|ab)|seit(?: dem)?|vom|à partir d[ue]|desde)\s+{_ARTICLE}(?:{_WHEN})",
    re.IGNORECASE,
)
_HAN_FROM = re.compile(rf"(?:从|自|從)(?:{_HAN_WHEN})(?:起|开始|開始)?")
_DUE = re.compile(
    rf"\b(?:by|before|until|till?|on|due|for|am|bis|vor|zum|for)\s+{_ARTICLE}(?:{_WHEN})|\b(?:{_WHEN.replace('(?P<', '(?P<b_')})",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    rf"\b(?:by|before|until|till?|due(?: on| by)?|no later than|deadline:?|bis(?: zum| spätestens)?|vor|spätestens(?: am)?)\s+{_ARTICLE}(?:{_WHEN})",
    re.IGNORECASE,
)
_HAN_LIMIT = re.compile(rf"(?:{_HAN_WHEN})(?:之前|以前|前|截止)|(?:截止|截至|最迟)(?:{_HAN_WHEN.replace('(?P<', '(?P<b_')})")
_HAN_DUE = re.compile(rf"(?:{_HAN_WHEN})")
_CLOCK = re.compile(
    r"\b(?:at|by|um|bis|before|vor)\s+(?P<h>\d{1,2})(?:[:.](?P<min>\d{2}))?\s*(?P<half>am|pm|a\.m\.|p\.m\.|uhr|o'clock)?(?!\d|[.:]\d)|\b(?P<h2>\d{1,2})(?:[:.](?P<min2>\d{2}))?\s*(?P<half2>am|pm|uhr|o'clock)\b|(?P<zh>上午|早上|下午|晚上)?(?P<h3>\d{1,2}|[一二两三四五六七八九十]{1,2})(?:点|點)(?P<min3>半)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Span:
    """From ``begin`` to before ``end``. ``vague``: a month or a year, of which people may mean the beginning or the end."""

    begin: datetime
    end: datetime
    vague: bool = False

    def holds(self, moment: datetime) -> bool:
        return self.begin <= moment <= self.end


def read_moment(written: str | None, *, said_at: datetime, end: bool = False, zone: tzinfo = UTC) -> datetime | None:
    """A moment that a model wrote, with a zone.

    Args:
        written: ISO 8601; a date alone, a month or a year is its whole span.
        said_at: moments that are farther than 60 years from it count as slips.
        end: of a span give the end (exclusive) rather than the beginning.
        zone: of what was written without one.

    Returns:
        None for what is not readable or not plausible.
    """
    text = (written or "").strip()
    if not text:
        return None
    try:
        if _DATE_ONLY.fullmatch(text):
            parts = [int(part) for part in text.split("-")]
            month, day = [*parts[1:], 1, 1][:2]
            begin = datetime(parts[0], month, day, tzinfo=zone)
            length = {1: relativedelta(years=1), 2: relativedelta(months=1), 3: relativedelta(days=1)}[len(parts)]
            moment = begin + length if end else begin
        else:
            moment = parser.isoparse(text)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        moment = moment.astimezone(UTC)
    except (ValueError, OverflowError, TypeError):
        return None
    return moment if abs(moment - said_at) < timedelta(days=366 * MAX_YEARS) else None


def said_until(quotes: Iterable[str], *, said_at: datetime, zone: tzinfo = UTC) -> Span | None:
    """The span with which something ends, in the words of a quote: of "until March" the month."""
    return _first(quotes, (_UNTIL, _HAN_UNTIL), said_at, zone)


def said_from(quotes: Iterable[str], *, said_at: datetime, zone: tzinfo = UTC) -> Span | None:
    """The span with which something begins, in the words of a quote."""
    return _first(quotes, (_FROM, _HAN_FROM), said_at, zone, past=True)


def validity(
    valid_from: str | None, valid_until: str | None, quotes: Iterable[str], *, said_at: datetime, zone: tzinfo = UTC
) -> tuple[datetime | None, datetime | None]:
    """From when and until when (exclusive) something holds; in UTC.

    What a model wrote counts where the quotes do not say another time; where they do, the quotes count. What ends before it was
    said, or before it begins, has no end that can be trusted.
    """
    said = list(quotes)
    begin = read_moment(valid_from, said_at=said_at, zone=zone)
    end = read_moment(valid_until, said_at=said_at, end=True, zone=zone)
    if (since := said_from(said, said_at=said_at, zone=zone)) is not None and (begin is None or not since.holds(begin)):
        begin = since.begin
    if (until := said_until(said, said_at=said_at, zone=zone)) is not None:
        bare = read_moment(valid_until, said_at=said_at, zone=zone)
        if until.vague and bare is not None and bare == until.begin and len((valid_until or "").strip()) > 7:
            end = until.begin  # "until March", read as: until it begins
        elif end is None or not until.holds(end):
            end = until.end
    if end is not None and (end <= said_at or (begin is not None and end <= begin)):
        end = None
    return begin, end


def read_deadline(written: str | None, quotes: Iterable[str], *, said_at: datetime, zone: tzinfo = UTC) -> datetime | None:
    """When a task is due, in UTC; of a day its last second. The quotes correct a model that counted days wrongly.

    None for what is not readable, was over when it was said, or is more than ten years away.
    """
    moment = read_moment(written, said_at=said_at, zone=zone)
    if moment is not None and _DATE_ONLY.fullmatch((written or "").strip()):
        ends = read_moment(written, said_at=said_at, end=True, zone=zone)
        moment = ends - timedelta(seconds=1) if ends is not None else None
    said = list(quotes)
    # What was said corrects what the model wrote; where the model wrote nothing, only a plain limit ("by Friday") counts.
    patterns = (_LIMIT, _HAN_LIMIT) if moment is None else (_DUE, _HAN_DUE)
    days = list(dict.fromkeys(span for quote in said for span in _days(quote, patterns, said_at, zone)))
    if len(days) == 1 and not days[0].vague and (moment is None or not _same_day(moment, days[0])):
        clock = next((found for quote in said if (found := _clock(quote)) is not None), None)
        moment = days[0].end - timedelta(seconds=1) if clock is None else days[0].begin + clock
    if moment is None or not said_at - timedelta(days=1) < moment < said_at + timedelta(days=366 * MAX_DEADLINE_YEARS):
        return None
    return moment


def _same_day(moment: datetime, day: Span) -> bool:
    # A weekday may be that of the week after.
    return day.holds(moment) or day.holds(moment - timedelta(days=7))


def _days(quote: str, patterns: Iterable[re.Pattern[str]], said_at: datetime, zone: tzinfo) -> list[Span]:
    """The distinct days that a quote names."""
    found: list[Span] = []
    for pattern in patterns:
        for match in pattern.finditer(quote):
            span = _span({name.removeprefix("b_"): value for name, value in match.groupdict().items() if value}, said_at, zone)
            if span is not None and span not in found:
                found.append(span)
    return found


def _first(
    quotes: Iterable[str], patterns: Iterable[re.Pattern[str]], said_at: datetime, zone: tzinfo, *, past: bool = False
) -> Span | None:
    for quote in quotes:
        for pattern in patterns:
            for match in pattern.finditer(quote):
                groups = {name.removeprefix("b_"): value for name, value in match.groupdict().items() if value}
                if (span := _span(groups, said_at, zone, past=past)) is not None:
                    return span
    return None


def _span(found: dict[str, str], said_at: datetime, zone: tzinfo, *, past: bool = False) -> Span | None:
    """What the parts of a match name, as it is meant by somebody who speaks at ``said_at``."""
    today = said_at.astimezone(zone).date()
    try:
        if "iso" in found:
            return _day(date.fromisoformat(found["iso"]), zone)
        for name, days in (("dayafter", 2), ("tomorrow", 1), ("today", 0)):
            if name in found:
                return _day(today + timedelta(days=days), zone)
        if "wd" in found:
            return _day(_weekday(found["wd"], found.get("week", ""), today), zone)
        if "eom" in found:
            return _day(today + relativedelta(day=31), zone)
        if "eoy" in found:
            return _day(date(today.year, 12, 31), zone)
        if "y5" in found:
            year = int(found["y5"])
            begin = date(year, 1, 1)
            return (
                _day(date(year, 12, 31), zone) if "eoy5" in found else Span(_at(begin, zone), _at(date(year + 1, 1, 1), zone), True)
            )
        return _of_month(found, today, zone, past=past)
    except (ValueError, OverflowError):
        return None


def _of_month(found: dict[str, str], today: date, zone: tzinfo, *, past: bool) -> Span | None:
    number = next((place for place in "1234" if f"m{place}" in found), None)
    if number is None:
        return None
    written, day, year = found[f"m{number}"], found.get(f"d{number}"), found.get(f"y{number}")
    month = _number(written) or MONTHS.get(written.casefold()) or MONTHS.get(fold(written))
    if month is None or not 1 <= month <= 12:
        return None
    first = date(int(year), month, 1) if year else date(today.year, month, 1)
    if not year:
        last = first + relativedelta(day=31) if day is None else date(first.year, month, _number(day) or 1)
        # Said without a year, a day to come is meant; what has begun may have begun this year.
        if last < today and not (past and (today - last).days < 300):
            first += relativedelta(years=1)
    if day is not None:
        return _day(date(first.year, month, _number(day) or 0), zone)
    if "eom1" in found or found.get("part", "").casefold() in ("end", "ende"):
        return _day(first + relativedelta(day=31), zone)
    if found.get("part", "").casefold() in ("beginning", "start", "anfang"):
        return _day(first, zone)
    if found.get("part", "").casefold() in ("mid", "mitte"):
        return _day(first + relativedelta(day=15), zone)
    return Span(_at(first, zone), _at(first + relativedelta(months=1), zone), True)


def _weekday(name: str, week: str, today: date) -> date:
    wanted = _HAN_DAYS.get(name, _WEEKDAYS.get(name.casefold(), 0))
    if week.startswith("下"):
        return today + timedelta(days=7 - today.weekday() + wanted)
    if week in ("这", "本"):
        return today + timedelta(days=wanted - today.weekday())
    return today + timedelta(days=(wanted - today.weekday()) % 7 or 7)


def _clock(quote: str) -> timedelta | None:
    match = _CLOCK.search(quote)
    if match is None:
        return None
    hour = _number(match["h"] or match["h2"] or match["h3"] or "")
    half = (match["half"] or match["half2"] or "").casefold().replace(".", "")
    if hour is None or (match["h"] and not half and not match["min"]):
        return None
    minute = int(match["min"] or match["min2"] or (30 if match["min3"] else 0))
    if hour < 12 and (half == "pm" or (match["zh"] or "") in ("下午", "晚上")):
        hour += 12
    return timedelta(hours=hour, minutes=minute) if hour < 24 and minute < 60 else None


def _number(written: str) -> int | None:
    if written.isdecimal():
        return int(written)
    digits = {char: number for number, char in enumerate("一二三四五六七八九", 1)} | {"两": 2}
    if "十" in written:
        tens, _, ones = written.partition("十")
        return digits.get(tens, 1) * 10 + digits.get(ones, 0)
    return digits.get(written)


def _day(day: date, zone: tzinfo) -> Span:
    return Span(_at(day, zone), _at(day + timedelta(days=1), zone))


def _at(day: date, zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
