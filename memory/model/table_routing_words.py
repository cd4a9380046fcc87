# ruff: noqa: E501  (word lists)
"""Words of :mod:`memory.model.table_routing`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from memory.model.stale import MONTHS
from memory.model.words import fold


def _folded(text: str) -> frozenset[str]:
    return frozenset(map(fold, text.split()))


GENERIC: Final = _folded("""
    name names title label id key row note notes comment comments remark description text details info type kind status state
    date day days time number count no amount total value at on of per is has by from until to in for with and the created updated
    source fact bezeichnung titel notiz notizen bemerkung beschreibung art typ datum tag tage tagen zeit nummer anzahl betrag wert
    am um von bis pro im der die das und nom titre jour jours nombre fecha dias
""")
"""Words of a column that say nothing of what it holds; where others stand beside them, those count."""
NEVER: Final = _folded("""
    name names title label id key note notes comment comments remark description text details info source fact titel bezeichnung
    notiz notizen bemerkung beschreibung nom titre nombre 名称 名字 姓名 备注 说明 描述 名前 備考 이름 비고
""")
"""Columns that are called so are never what a claim is about."""
LABELS: Final = _folded("""
    name title label titel bezeichnung nom titre nombre nome naam имя название 名称 名字 姓名 名前 이름 اسم
""")
SMALL: Final = _folded("my our the list table data of meine unsere liste tabelle daten der von")
"""In names of tables."""
PLURALS: Final = ("s", "es", "e", "n", "en", "nen", "a", "i", "y", "и", "ы")
UNITS: Final[Mapping[str, str]] = {
    "km": r"km|kilomet(?:er|re)s?|kilometern?|公里|千米",
    "m": r"m|met(?:er|re)s?|metern?|米",
    "kg": r"kg|kilos?|kilograms?|kilogramm|公斤|千克",
    "eur": r"€|eur|euros?|欧元",
    "usd": r"\$|usd|dollars?|美元",
    "gbp": r"£|gbp|pounds?",
    "cny": r"元|人民币|rmb|cny|yuan",
    "chf": r"chf|franken|francs?",
    "kwh": r"kwh",
    "kw": r"kw",
    "percent": r"%|percent|prozent|pct",
    "pct": r"%|percent|prozent|pct",
    "h": r"h|hours?|stunden?|小时",
    "hours": r"h|hours?|小时",
    "stunden": r"h|stunden?",
    "t": r"t|tons?|tonnes?|tonnen?|吨",
    "l": r"l|lit(?:er|re)s?|litern?|升",
}
"""Last words of columns' names, and how their unit is written behind a number."""
_SIGNS: Final[Mapping[str, str]] = {"eur": "€", "usd": r"\$", "gbp": "£", "cny": "¥"}
UNIT_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    unit: re.compile(rf"\d\s*(?:{spelt})(?![a-zäöüß])" + (rf"|{_SIGNS[unit]}\s*\d" if unit in _SIGNS else ""), re.IGNORECASE)
    for unit, spelt in UNITS.items()
}
LIST_ENDINGS: Final = re.compile(r"(?:一覧表?|一览表?|列表|清单|名单|表格?|目録|목록|リスト)$")
ROW_OF: Final = re.compile(
    r"\b(?:each row is|every row is|one row (?:is|per|for)|a row (?:is|per|for)|jede zeile ist|eine zeile (?:ist|je|pro)|list of|table of|liste (?:der|von)|tabelle (?:der|von))\s+"
    r"(?:(?:one|an?|the|all|our|my|ein(?:e[rnms]?)?|der|die|das|alle[rn]?|unsere[rn]?|je)\s+)*([^\W\d_]{3,40})"
    r"|每(?:一)?行(?:是|为|代表)?(?:一)?[个家位名条项种款]?([\u4e00-\u9fff]{2,8}?)(?=[，。、；的]|$)",
    re.IGNORECASE,
)
"""What a description says that a row is."""
EVERY: Final = re.compile(
    r"^(?:all|every|each|any|no|most|many|several|both|alle[nmrs]?|jede[nmrs]?|keine?[nmrs]?|sämtliche[nr]?|viele|meisten|tous|toutes|chaque|todos|todas|cada|tutti|tutte|ogni|все|всех|каждый|каждая|каждое|любой|كل|جميع)$",
    re.IGNORECASE,
)
EVERY_DENSE: Final = r"(?:所有|每一?[个家位名]?|任何|全部|各个?|大多数|すべて|全て|各|모든|각)(?:的|の)?\s*"
"""Before a noun: the claim is about all of the kind."""
_WEEKDAYS: Final = _folded("""
    monday tuesday wednesday thursday friday saturday sunday
    montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag
""")
NO_NAMES: Final = _WEEKDAYS | GENERIC | frozenset(UNITS) | frozenset(map(fold, MONTHS))
"""Capital letters of these say nothing."""
