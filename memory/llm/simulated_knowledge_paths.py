"""Plans of the simulated model: how they call tools, how they find named values, and how they follow keys from table to table.

A plan is a generator: it yields the calls of one step and is sent their results, and returns the answer. Played again from the
start with the results of the conversation it comes to where it was, so the model itself remembers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

from memory.llm.simulated_knowledge_prompt import Result, TableView
from memory.llm.simulated_knowledge_words import ASKING, STOP_WORDS, pieces, stem, words

Call: TypeAlias = tuple[str, dict[str, Any]]
Plan: TypeAlias = Generator[list[Call], list[Result], str]

LIMIT: Final = 1_000
"""Rows of one read, and keys in one filter."""
MAX_PHRASES: Final = 80
MAX_PHRASE_WORDS: Final = 7
MAX_LINKED_TABLES: Final = 12
_QUOTED = re.compile(r"[\"“«„]([^\"”»“]{1,200})[\"”»“]")


class GivesUp(Exception):
    """A plan cannot go on; the message is the answer."""


@dataclass(frozen=True, slots=True)
class Edge:
    """``child.column`` holds keys of ``parent``."""

    child: str
    column: str
    parent: str


@dataclass(frozen=True, slots=True)
class Link:
    """Words of the request that are a value of a table. ``rows``: those that have it."""

    table: TableView
    column: str
    value: str
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    start: int = 0
    end: int = 0


def read(call: Call) -> Generator[list[Call], list[Result], Any]:
    """The value of one call. Raises GivesUp with what its error says."""
    (result,) = yield [call]
    if result.problem is not None:
        raise GivesUp(f"{call[0]} gave an error: {result.problem}")
    return result.value


def rows_of(
    table: TableView, where: str | None, *, limit: int = LIMIT
) -> Generator[list[Call], list[Result], list[dict[str, Any]]]:
    arguments: dict[str, Any] = {"tables": [table.name], "limit": limit}
    if where:
        arguments["filter"] = where
    found = yield from read(("filter", arguments))
    return rows_in(found, table)


def rows_in(found: Any, table: TableView) -> list[dict[str, Any]]:
    given: Any = cast("dict[str, Any]", found).get(table.name) if isinstance(found, dict) else None
    return (
        [cast("dict[str, Any]", row) for row in cast("list[Any]", given) if isinstance(row, dict)]
        if isinstance(given, list)
        else []
    )


# -------------------------------------------------------------------------------------------------------------------- values


def phrases_of(text: str, names: Container[str] = ()) -> dict[str, tuple[int, int]]:
    """Runs of words that may be a value, in lower case, with where they stand; quoted ones first.

    ``names``: stems of the words that tables and columns are called by; in small letters they begin and end no value, nor does a
    word that only asks. Years are none either.
    """
    found: dict[str, tuple[int, int]] = {}
    for match in _QUOTED.finditer(text):
        found.setdefault(match[1].strip().lower(), match.span(1))
    spoken = list(words(text))
    for length in range(MAX_PHRASE_WORDS, 0, -1):
        for place in range(len(spoken) - length + 1):
            run = spoken[place : place + length]
            if run[0][0].lower() in STOP_WORDS or run[-1][0].lower() in STOP_WORDS:
                continue
            if any(_only_asks(word, names) for word, _, _ in (run[0], run[-1])):
                continue
            start, end = run[0][1], run[-1][2]
            phrase = re.sub(r"['’]s$", "", text[start:end].lower())
            if re.search(r"[.!?;:\"“”]", phrase) or (length > 1 and phrase.replace(",", "").replace(" ", "").isdigit()):
                continue
            found.setdefault(phrase, (start, end))
            if length == 1 and stem(phrase) != phrase:
                found.setdefault(stem(phrase), (start, end))
    singles = [phrase for phrase in found if " " not in phrase]
    kept = [phrase for phrase in found if " " in phrase][: MAX_PHRASES - len(singles[:MAX_PHRASES])]
    return {phrase: found[phrase] for phrase in [*kept, *singles[:MAX_PHRASES]]}


def _only_asks(word: str, names: Container[str]) -> bool:
    return word in ASKING or (word.islower() and stem(word) in names) or re.fullmatch(r"(?:19|20)\d\d", word) is not None


def names_of(tables: Iterable[TableView]) -> set[str]:
    """The stems of the words that tables and columns are called by."""
    return {stem(piece) for table in tables for name in (table.name, *table.columns) for piece in pieces(name)}


def find_values(text: str, tables: Iterable[TableView]) -> Generator[list[Call], list[Result], list[Link]]:
    """Which words of a text are values of which columns: one read per table, side by side; the longest words win."""
    tables = list(tables)
    phrases = phrases_of(text, names_of(tables))
    asked = [table for table in tables if any(name != table.prose for name in table.texts)][:MAX_LINKED_TABLES]
    if not phrases or not asked:
        return []
    calls: list[Call] = []
    for table in asked:
        where = " or ".join(f"{name}.lower() in {list(phrases)!r}" for name in table.texts if name != table.prose)
        calls.append(("filter", {"tables": [table.name], "limit": 50, "filter": where}))
    results = yield calls
    links: dict[tuple[str, str, str], Link] = {}
    for table, result in zip(asked, results, strict=True):
        for row in rows_in(result.value, table):
            for column in table.texts:
                value = row.get(column)
                place = phrases.get(value.lower()) if isinstance(value, str) and column != table.prose else None
                if place is not None:
                    known = links.get((table.name, column, str(value).lower()))
                    rows = [*(known.rows if known else ()), row]
                    links[(table.name, column, str(value).lower())] = Link(table, column, str(value), rows, *place)
    found = list(links.values())
    return sorted(
        (one for one in found if not any(_covers(other, one) for other in found)),
        key=lambda one: one.start,
    )


def _covers(other: Link, one: Link) -> bool:
    return other.start <= one.start and one.end <= other.end and other.end - other.start > one.end - one.start


# ---------------------------------------------------------------------------------------------------------------------- keys


def edges_of(tables: Mapping[str, TableView]) -> list[Edge]:
    """References between tables: a column that is called like the unique key of another table."""
    keys = {table.key: table.name for table in tables.values() if table.key != "row_id"}
    return [
        Edge(table.name, column, keys[column])
        for table in tables.values()
        for column in table.columns
        if column in keys and keys[column] != table.name
    ]


def path_between(start: str, end: str, tables: Mapping[str, TableView]) -> list[Edge] | None:
    """The shortest way over references, in either direction."""
    ways: dict[str, list[Edge]] = {start: []}
    queue = [start]
    while queue:
        here = queue.pop(0)
        if here == end:
            return ways[here]
        for edge in edges_of(tables):
            there = edge.parent if edge.child == here else edge.child if edge.parent == here else None
            if there is not None and there not in ways:
                ways[there] = [*ways[here], edge]
                queue.append(there)
    return None


def distance(start: str, end: str, tables: Mapping[str, TableView]) -> int:
    path = path_between(start, end, tables)
    return 99 if path is None else len(path)


def among(column: str, values: Iterable[Any]) -> str:
    """A filter for these keys; one that nothing fulfils where there are none."""
    keys = sorted({value for value in values if isinstance(value, int)})[:LIMIT]
    return f"{column} in {keys}" if keys else f"{column} < 0"


def reach(
    target: TableView, conditions: Mapping[str, Sequence[str]], tables: Mapping[str, TableView]
) -> Generator[list[Call], list[Result], str | None]:
    """One filter over ``target`` for conditions on it and on other tables (name → expressions), by following keys."""
    own = list(conditions.get(target.name, ()))
    for name, expressions in conditions.items():
        if name == target.name or not expressions:
            continue
        path = path_between(name, target.name, tables)
        if path is None:
            raise GivesUp(f"I know of no reference between {name} and {target.name}")
        here = tables[name]
        where = joined(expressions)
        for number, edge in enumerate(path):
            rows = yield from rows_of(here, where)
            if edge.child == here.name:
                here = tables[edge.parent]
                where = among(here.key, (row.get(edge.column) for row in rows))
            else:
                where = among(edge.column, (row.get(here.key) for row in rows))
                here = tables[edge.child]
            if number == len(path) - 1:
                own.append(str(where))
    return joined(own)


def joined(expressions: Sequence[str]) -> str | None:
    unique = list(dict.fromkeys(expressions))
    return " and ".join(f"({one})" if " or " in one else one for one in unique) or None


def is_upward(path: Sequence[Edge], start: str) -> bool:
    """Whether every step goes from a row to the one row that it refers to."""
    names = [start, *(edge.parent for edge in path)]
    return all(edge.child == here and edge.parent == there for edge, (here, there) in zip(path, pairwise(names), strict=True))
