# ruff: noqa: E501  (patterns)
"""Dates, times of day, repetition and urgency as the simulated model finds them in English, German and simple Chinese."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner",
            "february feb februar",
            "march mar märz mär",
            "april apr",
            "may mai",
            "june jun juni",
            "july jul juli",
            "august aug",
            "september sep sept",
            "october oct oktober okt",
            "november nov",
            "december dec dezember dez",
        ),
        1,
    )
    for name in names.split()
}
_DAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mon montag mo 一",
            "tuesday tue dienstag di 二",
            "wednesday wed mittwoch mi 三",
            "thursday thu donnerstag do 四",
            "friday fri freitag fr 五",
            "saturday sat samstag sonnabend sa 六",
            "sunday sun sonntag so 日 天",
        )
    )
    for name in names.split()
}
_LONG_DAYS = "|".join(name for name in _DAYS if len(name) > 3)
_RRULE_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_NUMBERS = {
    word: number
    for number, words in enumerate(
        (
            "one a an einem einer ein eine 一",
            "two zwei 两 二",
            "three drei 三",
            "four vier 四",
            "five fünf 五",
            "six sechs 六",
            "seven sieben 七",
            "eight acht 八",
            "nine neun 九",
            "ten zehn 十",
            "eleven elf 十一",
            "twelve zwölf 十二",
        ),
        1,
    )
    for word in words.split()
}
_M = "|".join(sorted(_MONTHS, key=len, reverse=True))
_NUM = r"\d{1,2}|" + "|".join(word for word in _NUMBERS if word.isascii() or "ü" in word or "ö" in word)

_ISO = re.compile(r"\b(20\d{2})-(\d{2})-(\d{2})\b")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?({_M})\b\.?(?:,?\s+(20\d{{2}}))?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b({_M})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,?\s+(20\d{{2}}))?", re.IGNORECASE)
_DOTTED = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(20\d{2})?(?!\d)")
_ZH_DATE = re.compile(r"(?:(20\d{2})年)?(\d{1,2}|[一二三四五六七八九十]{1,2})月(?:(\d{1,2}|[一二三四五六七八九十]{1,3})[日号])?")
_END_OF = re.compile(rf"\b(?:end of|ende)\s+({_M})\b(?:\s+(20\d{{2}}))?", re.IGNORECASE)
_END_OF_MONTH = re.compile(r"\b(?:end of (?:the|this) month|ende (?:des|dieses) monats|monatsende)\b|月底", re.IGNORECASE)
_END_OF_WEEK = re.compile(r"\b(?:end of (?:the|this) week|ende (?:der|dieser) woche)\b", re.IGNORECASE)
_MONTH_ALONE = re.compile(
    rf"\b({'|'.join(m for m in sorted(_MONTHS, key=len, reverse=True) if len(m) > 3)}|(?<=until )may|(?<=till )may|(?<=bis )mai|(?<=ab )mai)\b(?:\s+(20\d{{2}}))?",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(rf"\b(next\s+|nächste[nrs]?\s+|kommende[nrs]?\s+)?({_LONG_DAYS})\b", re.IGNORECASE)
_NEXT = r"(?:next\s+week|(?:nächste[rn]?|kommende[rn]?)\s+woche)"
_WEEKDAY_OF_NEXT_WEEK = re.compile(
    rf"\b({_LONG_DAYS})\s+(?:(?:of|in(?:\s+der)?|der)\s+)?{_NEXT}\b|\b{_NEXT},?\s+(?:(?:on|by|am|bis)\s+)?({_LONG_DAYS})\b",
    re.IGNORECASE,
)
_ZH_WEEKDAY = re.compile(r"(下个?|这|本)?(?:周|星期|礼拜)([一二三四五六日天])")
_RELATIVE = (
    (re.compile(r"\b(?:the )?day after tomorrow\b|\bübermorgen\b|后天", re.IGNORECASE), 2),
    (re.compile(r"\btomorrow\b|(?<!guten )\bmorgen\b|明天", re.IGNORECASE), 1),
    (re.compile(r"\b(?:today|tonight)\b|\bheute\b|今天|今晚", re.IGNORECASE), 0),
)
_NEXT_WEEK = re.compile(r"\bnext week\b|\bnächste[rn]? woche\b|下周(?![一二三四五六日天])", re.IGNORECASE)
_IN = re.compile(
    rf"\bin\s+({_NUM})\s+(days?|weeks?|months?|tag(?:en|e)?|wochen?|monat(?:en|e)?)\b|([一二两三四五六七八九十\d]{{1,2}})(天|周|个月)(?:后|内|之内)",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?:at|by|um|bis)?\s*(\d{1,2})(?:[:.](\d{2}))?\s*(am|pm|uhr|o'clock)\b|\b(?:at|um|by)\s+(\d{1,2}):(\d{2})\b|(上午|下午|晚上)?([\d]{1,2}|[一二两三四五六七八九十]{1,2})点(半)?",
    re.IGNORECASE,
)
_UNTIL = re.compile(
    r"\b(?:until|till|bis(?!her)(?:\s+(?:zum|einschließlich|ende))?|through)\s+(?P<en>(?:\d{1,2}\.\d{1,2}\.(?:\d{4})?|\d{1,2}\.\s\w+|[^,;.!?\n]{2,30}))|(?:直到|(?<![改迟前期搬移])[到至])(?P<zh>[^，。；]{1,12}?)(?:为止|之前|前|$|[，。])",
    re.IGNORECASE,
)
_FROM = re.compile(
    r"\b(?:from|starting(?: on| in)?|as of|effective|ab(?: dem)?|beginnend)\s+(?P<en>[^,;!?\n]{2,24})|(?:从|自)(?P<zh>[^，。；]{1,12}?)(?:起|开始)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Found:
    """``text``: ISO 8601, a date or (where a time of day is said) a time in UTC."""

    text: str
    start: int
    end: int


def find_date(text: str, at: datetime) -> Found | None:
    """The first date in ``text`` as somebody means it who writes at ``at``."""
    found = _date(text, at.date())
    clock = _clock(text)
    if found is None:
        return None
    day, start, end = found
    if clock is None:
        return Found(day.isoformat(), start, end)
    return Found(datetime.combine(day, clock[0]).isoformat() + "+00:00", min(start, clock[1]), max(end, clock[2]))


def valid_until(text: str, at: datetime) -> str | None:
    """The end of "until March"."""
    for match in _UNTIL.finditer(text):
        part = match["en"] or match["zh"]
        if (found := _date(part, at.date(), alone=True)) and found[1] <= 12:
            return found[0].isoformat()
    return None


def valid_from(text: str, at: datetime) -> str | None:
    for match in _FROM.finditer(text):
        part = match["en"] or match["zh"]
        if (found := _date(part, at.date(), alone=True)) and found[1] <= 6:
            return found[0].isoformat()
    return None


def repeat_rule(text: str) -> str | None:
    """An iCalendar RRULE for "every Monday", "jeden Monat", "每周一"."""
    lower = text.lower()
    if match := re.search(rf"\b(?:every|each|jede[nr]?|immer)\s+(other\s+|zweiten?\s+)?({_LONG_DAYS})\b", lower):
        step = ";INTERVAL=2" if match[1] else ""
        return f"FREQ=WEEKLY{step};BYDAY={_RRULE_DAYS[_DAYS[match[2]]]}"
    if match := re.search(r"每(?:个)?(?:周|星期)([一二三四五六日天])", text):
        return f"FREQ=WEEKLY;BYDAY={_RRULE_DAYS[_DAYS[match[1]]]}"
    if match := re.search(
        r"\b(?:on the |am )?(\d{1,2}|first|ersten)(?:st|nd|rd|th|\.)? (?:day )?(?:of (?:every|each)|jedes|jeden) (?:month|monats?)\b",
        lower,
    ):
        day = 1 if match[1] in ("first", "ersten") else int(match[1])
        return f"FREQ=MONTHLY;BYMONTHDAY={day}" if 1 <= day <= 31 else None
    if match := re.search(r"每(?:个)?月(\d{1,2})[日号]", text):
        return f"FREQ=MONTHLY;BYMONTHDAY={int(match[1])}" if 1 <= int(match[1]) <= 31 else None
    for rule, pattern in (
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", r"\bevery (?:weekday|working day)\b|\bjeden werktag\b|每个?工作日"),
        ("FREQ=DAILY", r"\b(?:every (?:single )?(?:day|morning|evening)|daily|jeden (?:tag|morgen|abend)|täglich)\b|每天"),
        ("FREQ=WEEKLY", r"\b(?:every week|weekly|jede woche|wöchentlich)\b|每周"),
        ("FREQ=MONTHLY", r"\b(?:every month|monthly|jeden monat|monatlich)\b|每个?月"),
        ("FREQ=YEARLY", r"\b(?:every year|yearly|annually|jedes jahr|jährlich)\b|每年"),
    ):
        if re.search(pattern, lower):
            return rule
    return None


def priority_of(text: str) -> str | None:
    for priority, pattern in (
        (
            "low",
            r"\b(?:no rush|not urgent|low priority|whenever you (?:can|have time)|keine eile|nicht dringend|eilt nicht)\b|不急",
        ),
        (
            "urgent",
            r"\b(?:urgent(?:ly)?|asap|as soon as possible|immediately|right away|dringend|sofort|so schnell wie möglich|umgehend)\b|紧急|马上|尽快|立刻",
        ),
        ("high", r"\b(?:high priority|important|top priority|hohe priorität|wichtig)\b|重要"),
    ):
        if re.search(pattern, text, re.IGNORECASE):
            return priority
    return None


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    if text.lower() in _NUMBERS:
        return _NUMBERS[text.lower()]
    tens, _, ones = text.partition("十")
    return _NUMBERS.get(tens, 1) * 10 + _NUMBERS.get(ones, 0) if "十" in text else 0


def _next(today: date, month: int, day: int, year: str | None) -> date | None:
    try:
        if year:
            return date(int(year), month, day)
        this = date(today.year, month, day)
        return this if this >= today else date(today.year + 1, month, day)
    except ValueError:
        return None


def _month_end(day: date) -> date:
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)


def _date(text: str, today: date, *, alone: bool = False) -> tuple[date, int, int] | None:
    """``alone``: the name of a month is a date too, its first day."""
    found: list[tuple[int, int, date]] = []

    def take(match: re.Match[str] | None, day: date | None) -> None:
        if match and day:
            found.append((match.start(), match.end(), day))

    if match := _ISO.search(text):
        take(match, _next(today, int(match[2]), int(match[3]), match[1]))
    if match := _DAY_MONTH.search(text):
        take(match, _next(today, _MONTHS[match[2].lower()], int(match[1]), match[3]))
    if match := _MONTH_DAY.search(text):
        take(match, _next(today, _MONTHS[match[1].lower()], int(match[2]), match[3]))
    if (match := _DOTTED.search(text)) and 1 <= int(match[2]) <= 12:
        take(match, _next(today, int(match[2]), int(match[1]), match[3]))
    if (match := _ZH_DATE.search(text)) and 1 <= _number(match[2]) <= 12 and (match[3] or alone):
        take(match, _next(today, _number(match[2]), _number(match[3]) if match[3] else 1, match[1]))
    if match := _END_OF.search(text):
        first = _next(today, _MONTHS[match[1].lower()], 28, match[2])
        take(match, first and _month_end(first))
    take(_END_OF_MONTH.search(text), _month_end(today))
    take(_END_OF_WEEK.search(text), today + timedelta(days=(4 - today.weekday()) % 7))
    take(_NEXT_WEEK.search(text), today + timedelta(days=7 - today.weekday()))
    if match := _WEEKDAY.search(text):
        take(match, _weekday(today, _DAYS[match[2].lower()], next_week=False))
    if match := _WEEKDAY_OF_NEXT_WEEK.search(text):
        take(match, _weekday(today, _DAYS[(match[1] or match[2]).lower()], next_week=True))
    if match := _ZH_WEEKDAY.search(text):
        take(match, _weekday(today, _DAYS[match[2]], next_week=(match[1] or "").startswith("下")))
    for pattern, days in _RELATIVE:
        if match := pattern.search(text):
            take(match, today + timedelta(days=days))
            break
    if match := _IN.search(text):
        count, unit = _number(match[1] or match[3]), (match[2] or match[4]).lower()
        length = 7 if unit.startswith(("week", "woche", "周")) else 30 if unit.startswith(("month", "monat", "个月")) else 1
        take(match, today + timedelta(days=count * length))
    if alone and not found and (match := _MONTH_ALONE.search(text)):
        month = _MONTHS[match[1].lower()]
        take(match, _next(today, month, 1, match[2]))
    if not found:
        return None
    start, end, day = min(found, key=lambda one: (one[0], -one[1]))
    return day, start, end


def _weekday(today: date, weekday: int, *, next_week: bool) -> date:
    if next_week:
        return today + timedelta(days=7 - today.weekday() + weekday)
    return today + timedelta(days=(weekday - today.weekday()) % 7 or 7)


def _clock(text: str) -> tuple[time, int, int] | None:
    match = _CLOCK.search(text)
    if match is None:
        return None
    hour, minute = _number(match[1] or match[4] or match[7] or ""), int(match[2] or match[5] or (30 if match[8] else 0))
    half = (match[3] or "").lower()
    if (half == "pm" or (match[6] or "") in ("下午", "晚上")) and hour < 12:
        hour += 12
    return (time(hour, minute), match.start(), match.end()) if hour < 24 and minute < 60 else None
