"""The parts of a change in plain sentences: thing, name, values. English, for the simulated model only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from memory.llm.simulated_knowledge_prompt import TableView
from memory.llm.simulated_knowledge_words import UNITS, column_words, number, numeric, pieces, plural, stem, tables_in, words

MAX_SENTENCE_CHARS: Final = 1_000
"""A longer one is kept as a note."""

_VALUE = r"(?P<value>\"[^\"]+\"|“[^”]+”|[^;]+?)"
_NUMBER: Final = r"[€$]?\s?-?\d[\d,]*(?:\.\d+)?"
_MARKERS: Final = r",|\b(?:from|with|by|in|of|that|which|who|founded|for|at|costing|priced|is|has|was|launched|published|having)\b"
_ADD = re.compile(
    r"^(?:please\s+)?(?:add|create|insert|store|save|register)\s+(?:also\s+)?(?P<rest>.+)$", re.IGNORECASE | re.DOTALL
)
_RECORD = re.compile(
    r"^(?:please\s+)?(?:record|note|log|remember)(?:\s+that|:)?\s+(?P<rest>.+)$|^(?P<plain>.+\bsold\s+\d.+)$",
    re.IGNORECASE | re.DOTALL,
)
_SET = re.compile(
    r"^(?:please\s+)?(?:set|change|update|correct)\s+(?:the\s+)?(?P<column>[\w ]{1,60}?)"
    rf"\s+(?:of|for)\s+(?P<thing>.+?)\s+to\s+{_VALUE}$"
    rf"|^(?:record that\s+)?(?:the\s+)?(?P<column2>[\w ]{{1,60}}?)\s+of\s+(?P<thing2>.+?)\s+(?:is|was)\s+now\s+(?P<value2>.+)$"
    rf"|^(?P<thing3>.+?)\s+now\s+has\s+(?:an?\s+)?(?P<column3>[\w ]{{1,60}}?)\s+of\s+(?P<value3>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_REMOVE = re.compile(r"^(?:please\s+)?(?:remove|delete|erase)\s+(?P<rest>.+)$", re.IGNORECASE | re.DOTALL)
_RENAME = re.compile(
    r"^(?:please\s+)?rename\s+(?:the\s+)?(?P<kind>table|column)?\s*(?P<old>[\w ]+?)"
    r"(?:\s+(?:of|in)\s+(?P<table>[\w ]+?))?\s+(?:to|into|as)\s+(?P<new>[\w ]+)$",
    re.IGNORECASE,
)
_NEW_COLUMN = re.compile(
    r"^(?:please\s+)?add\s+(?:a|the)\s+(?:new\s+)?column\s+(?P<column>[\w ]+?)"
    r"(?:\s+of\s+type\s+(?P<type>\w+))?\s+to\s+(?P<table>[\w ]+)$",
    re.IGNORECASE,
)
UNKNOWN: Final = ("unknown", "none", "null", "empty", "nothing")
_PRONOUN_WORDS = "it he she they this that these those there which who what no not"
_PRONOUNS: Final = frozenset(_PRONOUN_WORDS.split())
_FILLER = re.compile(r"(?:no|nope|sorry|wait|actually|rather|oops|correction|i mean|i meant)\b[\s,.:;!–-]*", re.IGNORECASE)
_PRONOUN = re.compile(
    r"(?:(?:it|he|she|they|this|that)(?:['’]s|\s+(?:is|was|are|comes|has|have|should be))\s+"
    r"|(?:its|their)\s+|make (?:it|that)\s+|to\s+)",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"^(?:please\s+)?(?:add|create|insert|store|save|register|record|note|log|remember|set|change|update|correct|remove|delete|erase|rename)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Change:
    """``kind``: add, record, set, remove, rename, column, note. The other fields as the kind has them."""

    kind: str
    text: str = field(repr=False)
    parts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def is_change(text: str) -> bool:
    """Whether a text is a change of its own."""
    return any(one.kind != "note" for one in changes_in(text))


def changes_in(text: str) -> list[Change]:
    """The changes that a request asks for, one per sentence, in order."""
    sentences = re.split(r"(?<=[^.][.!])\s+(?=[A-Z\"])|\n+|;\s*|,?\s+(?:and\s+)?then\s+", text.strip())
    return [_change(sentence.strip().rstrip(".! ")) for sentence in sentences if sentence.strip(" .!")]


def _change(text: str) -> Change:
    if len(text) > MAX_SENTENCE_CHARS:
        return Change("note", text, {"rest": text})
    for kind, pattern in (
        ("column", _NEW_COLUMN),
        ("rename", _RENAME),
        ("set", _SET),
        ("add", _ADD),
        ("remove", _REMOVE),
        ("record", _RECORD),
    ):
        match = pattern.match(text)
        if match:
            found = {name.rstrip("23"): value.strip() for name, value in match.groupdict().items() if value is not None}
            if kind == "record" and "plain" in found:
                found["rest"] = found.pop("plain")
            return Change(kind, text, found)
    return Change("note", text, {"rest": text})


def corrected(text: str, told: str) -> str | None:
    """A request with what a correction says of its last thing (``No, it is from Finland``); None: it is no correction."""
    rest = told.strip().rstrip(" .!")
    while match := _FILLER.match(rest):
        rest = rest[match.end() :]
    if match := _PRONOUN.match(rest):
        rest = rest[match.end() :]
    if not rest or rest == told.strip().rstrip(" .!"):
        return None
    text = text.rstrip(" .?!")
    last = changes_in(text)[-1] if changes_in(text) else None
    if last is not None and last.kind == "set" and (value := last.parts.get("value")) and text.endswith(value):
        return text[: -len(value)] + rest
    if named := re.match(r"(?:(?:the\s+)?name\s+is|called|named)\s+(.+)$", rest, re.IGNORECASE):
        start = text.rfind(last.text) if last is not None and last.kind == "add" else -1
        name = re.match(rf"(\w+\s+(?:an?|the)?\s*(?:new\s+)?[a-z]\w*\s+)(.+?)(?=\s*(?:{_MARKERS})|$)", text[max(0, start) :])
        return text[: max(0, start) + name.start(2)] + named[1] + text[max(0, start) + name.end(2) :] if name else None
    return f"{text}, {rest}"


# ------------------------------------------------------------------------------------------------------------------- things


def thing_of(text: str, tables: Mapping[str, TableView]) -> tuple[TableView | None, str, str]:
    """``the company Volta from Norway`` → its table (None: none is named so), the noun, and what follows it."""
    rest = re.sub(r"^(?:an?|the|our|my|some)\s+(?:new\s+)?", "", text.strip(), flags=re.IGNORECASE)
    found = next((one for one in tables_in(rest, tables) if one[1] == 0), None)
    if found is not None:
        return found[0], rest[: found[2]], rest[found[2] :].strip()
    first = rest.split(" ", 1)[0] if rest else ""
    if first[:1].islower() and " " in rest:
        return None, first, rest.split(" ", 1)[1].strip()
    return None, "", rest


def name_and_rest(text: str) -> tuple[str, str]:
    """``Volta from Norway, founded 2012`` → the name, and what is said about it."""
    quoted = re.match(r"(?:called|named)?\s*[\"“]([^\"”]+)[\"”]\s*(.*)$", text, re.DOTALL)
    if quoted:
        return quoted[1].strip(), quoted[2].strip(" ,")
    text = re.sub(r"^(?:called|named)\s+", "", text)
    for marker in re.finditer(_MARKERS, text):
        # ``Journal of Small Farms``: a capital letter after the word keeps it within the name, if it is no place or year
        if marker[0] in ("of", "in", "for") and re.match(r"\s+[A-Z]", text[marker.end() :]) and "," in text[marker.end() :]:
            continue
        return text[: marker.start()].strip(" ,"), text[marker.start() :].strip(" ,")
    return text.strip(), ""


def bare(text: str) -> str:
    """A name without article and quotes."""
    return re.sub(r"^(?:the|an?)\s+", "", text.strip(), flags=re.IGNORECASE).strip(" \"“”'.,")


def values_in(text: str, table: TableView | None) -> dict[str, str]:
    """What a description says: column, as it is called or would be called, → value as text.

    ``from Norway, founded 2012, with a range of 515 km and 1200 employees, by Volta``; ``by`` and the like stand under ``@``.
    """
    found: dict[str, str] = {}
    for piece in re.split(r",\s*(?!\d{3}\b)(?:and\s+)?|\s+and\s+|\s+with\s+|^with\s+|\s+(?=from\s|by\s|in\s+\d{4}\b)", text):
        piece = re.sub(r"^(?:with|and|which|that|who|is|has|was|having)\s+(?:an?\s+)?", "", piece.strip(" ,."), flags=re.IGNORECASE)
        piece = re.sub(r"^(?:an?|the)\s+", "", piece)
        if not piece:
            continue
        named = _named_value(piece, table)
        if named is not None:
            found[named[0]] = named[1]
    return found


def _named_value(piece: str, table: TableView | None) -> tuple[str, str] | None:
    if match := re.match(r"(?:made |written |published |sold )?by\s+(.+)$", piece, re.IGNORECASE):
        return "@", bare(match[1])
    if match := re.match(r"(?:based |located )?(?:from|in)\s+((?:19|20)\d\d)$", piece, re.IGNORECASE):
        return _column(table, ("year", "launched", "founded"), "year"), match[1]
    if match := re.match(r"(?:comes |based |located )?(?:from|in|at)\s+(.+)$", piece, re.IGNORECASE):
        return _column(table, ("country", "city", "place", "location", "affiliation"), "country"), bare(match[1])
    if match := re.match(rf"(?:costing|priced at|costs)\s+({_NUMBER})", piece, re.IGNORECASE):
        return _column(table, ("price", "cost"), "price"), match[1]
    if piece.split(" ", 1)[0].lower() in _PRONOUNS:
        return None
    if match := re.match(r"([\w ]{1,60}?)\s+(?:of|is|was|=|:)\s+(.+)$", piece):
        return _column(table, (match[1],), match[1]), match[2]
    if match := re.match(rf"({_NUMBER})\s+([^\W\d][\w ]*)$", piece):
        unit = UNITS.get(match[2].lower())
        of_unit = next((name for name in table.columns if unit and pieces(name)[-1] == unit), None) if table else None
        return of_unit or _column(table, (match[2],), match[2]), match[1]
    if match := re.match(r"([^\W\d][\w]*)\s+(?:in\s+|on\s+)?(.+)$", piece):
        return _column(table, (match[1],), match[1]), bare(match[2])
    return None


def _column(table: TableView | None, meant: tuple[str, ...], new: str) -> str:
    known = column_of(table, meant) if table else None
    return known or column_name(new)


def column_of(table: TableView, meant: tuple[str, ...]) -> str | None:
    """The column that is called so, with or without its unit: ``price`` → ``price_eur``."""
    for word in meant:
        said = [stem(one) for one, _, _ in words(word.replace("_", " "))]
        for name in table.columns:
            if name != table.key and said and said in (column_words(name), [stem(one) for one in pieces(name)]):
                return name
    for word in meant:
        said = stem(word.split(" ")[-1])
        for name in table.columns:
            if name != table.key and not name.endswith("_id") and said == column_words(name)[0]:
                return name
    return None


def column_name(text: str) -> str:
    made = "_".join(re.findall(r"[^\W_]+", text.lower())) or "value"
    return made if made != "id" and not made[0].isdigit() else f"value_{made}"


def table_name(noun: str) -> str:
    """``company`` → ``Companies``."""
    parts = re.findall(r"[^\W_]+", noun)
    named = (
        "".join(part[:1].upper() + part[1:] for part in parts[:-1]) + plural(stem(parts[-1])).capitalize() if parts else "Things"
    )
    return named if named[:1].isalpha() else f"Table{named}"


def typed(text: str, kind: str | None) -> Any:
    """A value as its column takes it; ``kind`` None: as it looks."""
    plain = bare(text)
    digits = re.match(rf"{_NUMBER}(?=\s*(?:{'|'.join(map(re.escape, UNITS))})?$)", plain)
    match kind:
        case "int" | "float":
            found = re.search(_NUMBER, plain)
            value = number(found[0].strip("€$ ")) if found and plain.lower() not in UNKNOWN else None
            return value if value is None or kind == "float" else int(value)
        case "bool":
            return plain.lower() in ("yes", "true", "1", "on")
        case "date" if re.fullmatch(r"\d{4}", plain):
            return f"{plain}-01-01"
        case None if digits:
            return number(digits[0].strip("€$ "))
        case None if plain.lower() in ("yes", "no", "true", "false"):
            return plain.lower() in ("yes", "true")
        case _:
            return plain


def fits(text: str, kind: str | None) -> bool:
    """Whether a value can stand in a column of this type; ``unknown`` and the like can everywhere."""
    plain = bare(text).lower()
    if plain in UNKNOWN:
        return True
    match kind:
        case "int" | "float":
            found = re.search(_NUMBER, plain)
            return found is not None and (kind == "float" or float(number(found[0].strip("€$ "))).is_integer())
        case "bool":
            return plain in ("yes", "true", "1", "on", "no", "false", "0", "off")
        case "date" | "datetime":
            return re.match(r"\d{4}(?:-\d\d-\d\d|$)", plain) is not None
        case _:
            return bool(plain)


def misfits(values: Mapping[str, str], table: TableView | None) -> str | None:
    """What is said of values that cannot be; None where all can."""
    kinds = {"int": "a whole number", "float": "a number", "bool": "yes or no", "date": "a date", "datetime": "a date"}
    wrong = [
        f"{' '.join(pieces(column))} has to be {kinds.get(kind, kind)}, and {bare(value)!r} is not"
        for column, value in values.items()
        if (kind := table.columns.get(column) if table else None) is not None and not fits(value, kind)
    ]
    return "; ".join(wrong) or None


def type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return type(value).__name__
    return "date" if re.fullmatch(r"\d{4}-\d\d-\d\d", str(value)) else "str"


def counted_column(text: str, tables: Mapping[str, TableView]) -> tuple[TableView, str, str] | None:
    """``sold 1200 units`` → the table and column of numbers that it is about, and the number."""
    for match in re.finditer(rf"({_NUMBER})\s+([^\W\d]\w*)", text):
        for table in tables.values():
            for name in table.columns:
                if numeric(table, name) and not name.endswith("_id") and stem(match[2]) in column_words(name):
                    return table, name, match[1]
    return None
