"""Dates as terms: a message is also found by the year, the month and the day on which it was sent.

These terms are no words, so "may" in a text is not the month of May; a query's are told by how dates are written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Final

from memory.model.lexical import MAX_QUERY_CHARS, Bag, term_id
from memory.model.lexical_text import strip_marks

_NAMES: Final = """
    1 january jan januar janner janvier enero gennaio januari january январь января январе يناير
    2 february feb februar fevrier febrero febbraio fevereiro februari февраль февраля феврале فبراير
    3 march mar marz maerz mars marzo marco maart март марта марте مارس
    4 april apr avril abril aprile апрель апреля апреле ابريل
    5 may mai mayo maggio maio mei май мая мае مايو
    6 june jun juni juin junio giugno junho июнь июня июне يونيو
    7 july jul juli juillet julio luglio julho июль июля июле يوليو
    8 august aug aout agosto augustus август августа августе اغسطس
    9 september sep sept septembre septiembre settembre setembro сентябрь сентября сентябре سبتمبر
    10 october oct oktober okt octobre octubre ottobre outubro октябрь октября октябре اكتوبر
    11 november nov novembre noviembre novembro ноябрь ноября ноябре نوفمبر
    12 december dec dezember dez decembre diciembre dicembre dezembro декабрь декабря декабре ديسمبر
"""
_AMBIGUOUS: Final = frozenset(
    {"may", "march", "mar", "mars", "mai", "mei", "jan", "dec", "nov", "sep", "marco", "mae", "мая", "мае"}
)
"""Also words, or names: a month only beside a number or after one of these words."""
_BEFORE: Final = """
    in of since until till by last next this early mid late im seit bis ende anfang en de du depuis di del em do vom
"""
_BEFORE_MONTH: Final = frozenset(_BEFORE.split())
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMERIC = re.compile(
    r"(?<!\d)(?P<y1>(?:19|20)\d\d)[-/.](?P<m1>[01]?\d)(?:[-/.](?P<d1>[0-3]?\d))?(?!\d)"
    r"|(?<!\d)(?P<d2>[0-3]?\d)\.\s?(?P<m2>[01]?\d)\.(?:\s?(?P<y2>(?:19|20)\d\d))?(?!\d)"
    r"|(?:(?P<y3>(?:19|20)\d\d)\s?[年년]\s?)?(?P<m3>[01]?\d)\s?[月월](?:\s?(?P<d3>[0-3]?\d)\s?[日号號일])?"
    r"|(?P<y4>(?:19|20)\d\d)\s?[年년]"
)
_TOKEN = re.compile(r"[^\W_]+")
_DAY = re.compile(r"([0-3]?\d)(?:st|nd|rd|th)?")


@cache
def _months() -> dict[str, int]:
    return {name: int(number) for number, *names in map(str.split, _NAMES.strip().splitlines()) for name in names}


def date_terms(moment: datetime) -> Bag:
    """The terms of the day on which something was said, in the zone of ``moment``."""
    return {_year(moment.year): 1.0, _month(moment.month): 1.0, _day(moment.day): 1.0}


def query_date_terms(query: str) -> Bag:
    """The years, months and days that a query names; a bare number is none of them."""
    text = unicodedata.normalize("NFKC", query[:MAX_QUERY_CHARS]).casefold()
    return dict.fromkeys((*_numeric(text), *_written(text)), 1.0)


def _numeric(text: str) -> Iterator[int]:
    for found in _NUMERIC.finditer(text):
        for name, value in found.groupdict().items():
            if value is None:
                continue
            kind, number = name[0], int(value)
            if kind == "y":
                yield _year(number)
            elif kind == "m" and 1 <= number <= 12:
                yield _month(number)
            elif kind == "d" and 1 <= number <= 31:
                yield _day(number)


def _written(text: str) -> Iterator[int]:
    tokens = [strip_marks(token) for token in _TOKEN.findall(text)]
    months = _months()
    for place, token in enumerate(tokens):
        if _YEAR.fullmatch(token):
            yield _year(int(token))
        number = months.get(token)
        if number is None:
            continue
        around = [tokens[other] for other in (place - 1, place + 1, place - 2) if 0 <= other < len(tokens)]
        days = [int(day[1]) for one in around if (day := _DAY.fullmatch(one)) and 1 <= int(day[1]) <= 31]
        near = around[:2]
        dated = bool(days) or any(_YEAR.fullmatch(one) for one in near)
        if token in _AMBIGUOUS and not dated and not (place and tokens[place - 1] in _BEFORE_MONTH):
            continue
        yield _month(number)
        if days:
            yield _day(days[0])


def _year(number: int) -> int:
    return term_id(f"@year {number}")


def _month(number: int) -> int:
    return term_id(f"@month {number}")


def _day(number: int) -> int:
    return term_id(f"@day {number}")
