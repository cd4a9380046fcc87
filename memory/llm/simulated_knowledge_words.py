"""Which words of a sentence mean which table, column or number. English, for the simulated model only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memory.llm.simulated_knowledge_prompt import TableView

_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W_A-Za-z]+")
_NUMBER: Final = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
UNITS: Final[Mapping[str, str]] = {
    "km": "km", "kilometers": "km", "kilometres": "km", "kwh": "kwh", "euro": "eur", "euros": "eur", "eur": "eur", "€": "eur",
    "million": "m", "millions": "m", "kg": "kg", "percent": "percent",
}  # fmt: skip
_UNIT_SUFFIXES: Final = frozenset({"km", "kwh", "eur", "usd", "m", "kg", "percent", "h", "s", "id"})
SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cost": ("price",), "costs": ("price",), "expensive": ("price",), "cheap": ("price",), "cheapest": ("price",),
    "sold": ("units",), "sales": ("units",), "sell": ("units",), "sells": ("units",),
    "cited": ("citations",), "citation": ("citations",), "staff": ("employees",), "workers": ("employees",),
    "people": ("employees", "population"), "inhabitants": ("population",), "published": ("year",), "appeared": ("year",),
    "launched": ("launched",), "old": ("founded",), "type": ("kind", "segment"), "origin": ("country",), "capacity": ("battery",),
    "email": ("email",), "mail": ("email",), "phone": ("phone",), "telephone": ("phone",), "job": ("job",), "profession": ("job",),
}  # fmt: skip
NOUNS: Final[Mapping[str, str]] = {
    "wrote": "author", "written": "author", "write": "author", "writes": "author", "makes": "company", "make": "company",
    "builds": "company", "cars": "model", "car": "model", "makers": "company", "maker": "company", "articles": "paper",
}  # fmt: skip
SUPERLATIVES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "longest": ("max", ("range", "pages", "duration", "length")),
    "shortest": ("min", ("range", "pages", "duration", "length")),
    "farthest": ("max", ("range", "distance")),
    "cheapest": ("min", ("price", "cost")),
    "oldest": ("min", ("founded", "first", "year", "launched", "born")),
    "newest": ("max", ("launched", "founded", "year", "first")),
    "youngest": ("max", ("founded", "launched", "year", "born")),
    "latest": ("max", ("launched", "year", "founded")),
    "largest": ("max", ("employees", "population", "battery", "units", "pages", "size")),
    "biggest": ("max", ("employees", "population", "battery", "units", "pages", "size")),
    "smallest": ("min", ("employees", "population", "battery", "units", "pages", "size")),
}
GREATEST: Final[Mapping[str, str]] = {
    "most": "max", "highest": "max", "maximum": "max", "greatest": "max", "top": "max", "max": "max",
    "least": "min", "lowest": "min", "minimum": "min", "fewest": "min", "min": "min",
}  # fmt: skip
_STOP_WORDS = (
    "a an the of in on at by for to from with and or is are was were be been do does did has have had how many much which what"
    " who whom whose when where why there that this these those it its their all any each per every total number average mean"
    " median sum most least highest lowest more less than over under above below between least than some me show list give tell"
    " find name names please only also into as so not no yes we i you they he she our my your can could would should will about"
    " column table row rows set record add remove delete change update now new one ones"
)
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
_ASKING = (
    "sold sell sells selling make makes made making wrote written write writes build builds built cost costs costing launched"
    " founded published appeared cheapest cheap expensive longest shortest oldest newest youngest latest largest biggest smallest"
    " greatest maximum minimum fewest top fewer longer shorter larger smaller higher lower cheaper greater exceeding first last"
    " currently overall ever altogether belong belongs come comes based located called named long high large big old come get"
    " contain contains containing include includes including start starts starting during since after before until without"
    " except other outside never deal deals know known see tell use used available exist exists stored store there"
)
ASKING: Final = frozenset(_ASKING.split())
"""Words that only ask: no cell is looked up by them."""


@dataclass(frozen=True, slots=True)
class ColumnAt:
    """A column that a sentence names, with where."""

    table: TableView
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """``over 500 km``: ``after`` is what follows the number and may say of what. ``between`` is two of them."""

    operator: str
    number: str
    after: str
    start: int
    end: int


def words(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _WORD.finditer(text):
        yield match[0], match.start(), match.end()


def pieces(name: str) -> list[str]:
    """``ElectricCars``, ``charging_points`` → their words, lower-case."""
    return [piece.lower() for piece in _PIECE.findall(name)]


def stem(word: str) -> str:
    """Singular and without a possessive, roughly: enough to tell ``companies`` and ``company`` for one word."""
    word = re.sub(r"['’]s?$", "", word.lower())
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3 else word


def plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def tables_in(text: str, tables: Mapping[str, TableView]) -> list[tuple[TableView, int, int]]:
    """The tables that a sentence names, in order."""
    found: list[tuple[TableView, int, int]] = []
    spoken = [(stem(word), start, end) for word, start, end in words(text)]
    for table in tables.values():
        wanted = [stem(piece) for piece in pieces(table.name)]
        for place in range(len(spoken) - len(wanted) + 1):
            if [word for word, _, _ in spoken[place : place + len(wanted)]] == wanted:
                found.append((table, spoken[place][1], spoken[place + len(wanted) - 1][2]))
        if len(wanted) > 1:
            found += [(table, start, end) for word, start, end in spoken if word == stem(table.name)]
    for word, start, end in words(text):
        noun = NOUNS.get(word.lower())
        table = next((one for one in tables.values() if noun and stem(one.name) == noun), None)
        if table is not None and not any(begin <= start < stop for _, begin, stop in found):
            found.append((table, start, end))
    return sorted(found, key=lambda item: item[1])


def column_words(name: str) -> list[str]:
    """The words that a column is called by: without its unit."""
    parts = pieces(name)
    while len(parts) > 1 and parts[-1] in _UNIT_SUFFIXES:
        parts.pop()
    return [stem(part) for part in parts]


def spoken_column(name: str) -> str:
    """``charging_points`` → ``charging points``, ``range_km`` → ``range``."""
    parts = pieces(name)
    while len(parts) > 1 and parts[-1] in _UNIT_SUFFIXES:
        parts.pop()
    return " ".join(parts)


def columns_in(text: str, tables: Mapping[str, TableView]) -> list[ColumnAt]:
    """The columns that a sentence names, longest names first at each place; keys are not named."""
    spoken = [(word, stem(word), start, end) for word, start, end in words(text)]
    found: list[ColumnAt] = []
    for table in tables.values():
        for name in table.columns:
            if name.endswith("_id") or name == table.key:
                continue
            wanted = column_words(name)
            for place in range(len(spoken) - len(wanted) + 1):
                if [one[1] for one in spoken[place : place + len(wanted)]] == wanted:
                    found.append(ColumnAt(table, name, spoken[place][2], spoken[place + len(wanted) - 1][3]))
            for word, _, start, end in spoken:
                if any(wanted[0] == stem(meant) for meant in SYNONYMS.get(word.lower(), ())):
                    found.append(ColumnAt(table, name, start, end))
    return sorted(found, key=lambda one: (one.start, one.start - one.end))


def column_called(table: TableView, meant: Sequence[str]) -> str | None:
    """The column of one of these words, the first word first."""
    for word in meant:
        for name in table.columns:
            if not name.endswith("_id") and name != table.key and column_words(name)[0] == stem(word):
                return name
    return None


def comparisons_in(text: str) -> list[Comparison]:
    """``more than 500``, ``at least 3``, ``under 30,000 euros``; years after ``in``, ``since``, ``before`` are not among them."""
    signs = {
        ">": r"over|above|more than|greater than|larger than|longer than|higher than|exceeding",
        ">=": r"at least|no less than|from",
        "<": r"under|below|less than|fewer than|smaller than|shorter than|lower than|cheaper than",
        "<=": r"at most|no more than|up to",
        "==": r"have|has|with|exactly",
    }
    found: list[Comparison] = []
    for sign, pattern in signs.items():
        for match in re.finditer(rf"\b(?:{pattern})\s+(?:€\s?)?({_NUMBER})(?![\d-])\s*([^,.?!;]*)", text, re.IGNORECASE):
            found.append(Comparison(sign, match[1].replace(",", ""), match[2], match.start(), match.end(1)))
    for match in re.finditer(rf"\bbetween\s+(?:€\s?)?({_NUMBER})\s+and\s+(?:€\s?)?({_NUMBER})\s*([^,.?!;]*)", text, re.IGNORECASE):
        for sign, limit in ((">=", match[1]), ("<=", match[2])):
            found.append(Comparison(sign, limit.replace(",", ""), match[3], match.start(), match.end(2)))
    return found


def numeric(table: TableView, column: str) -> bool:
    return table.columns.get(column) in ("int", "float")


def number(text: str) -> int | float:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def spoken_number(value: float) -> str:
    """As an answer says it: no trailing zeros, two decimals."""
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.2f}".rstrip("0")


def shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "unknown"}[value]
    return spoken_number(value) if isinstance(value, int | float) else str(value)
