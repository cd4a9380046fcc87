"""How the simulated model enters the claims of a window into the tables that they are for. English.

    The city of the supplier Nordholz is Lübeck.
    The supplier Nordholz has a delivery time of 5 days.
    The supplier Nordholz is based in Lübeck.

A claim of another form, or of a column that there is not, is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from memory.llm.simulated_knowledge_parts import bare, column_of, fits, thing_of, typed
from memory.llm.simulated_knowledge_paths import Plan, read, rows_of
from memory.llm.simulated_knowledge_prompt import Loop, TableView, tables_of
from memory.llm.simulated_knowledge_update import Book, Told, changed, done
from memory.model.table_claims import fact_of, statement_of
from memory.model.table_routing import SOURCE_COLUMN

_PLACES: Final = ("city", "place", "location", "country")
_OF: Final = re.compile(
    r"^(?:the\s+)?(?P<column>[\w ]{1,60}?)\s+of\s+(?P<thing>.{1,200}?)\s+(?:is|are|was)(?:\s+now)?\s+(?P<value>.+)$", re.IGNORECASE
)
_HAS: Final = re.compile(
    r"^(?P<thing>.{1,200}?)\s+(?:now\s+)?(?:has|have)\s+(?:an?\s+)?(?P<column>[\w ]{1,60}?)\s+of\s+(?P<value>.+)$", re.IGNORECASE
)
_IN: Final = re.compile(r"^(?P<thing>.{1,200}?)\s+is\s+(?:now\s+)?(?:based|located)\s+in\s+(?P<value>.+)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Entry:
    table: TableView
    name: str = field(repr=False)
    column: str
    value: str = field(repr=False)


def enter(loop: Loop) -> Plan:
    """The plan for the documents of the context."""
    book = Book(loop, tables_of((yield from read(("tables_overview", {})))))
    told: list[str] = []
    left_out = 0
    for document in loop.documents:
        entry = _entry(book, document)
        if entry is None:
            left_out += 1
        else:
            told.append((yield from _entered(book, entry, fact_of(document))))
    if left_out:
        told.append(f"{left_out} statements were left out: there is no column for them, or no rule of mine fits.")
    return " ".join(told) or "There was nothing to enter."


def _entry(book: Book, document: str) -> _Entry | None:
    text = (statement_of(document) or "").strip().rstrip(".")
    for pattern in (_OF, _HAS, _IN):
        match = pattern.match(text)
        if match is None:
            continue
        table, _, rest = thing_of(match["thing"], book.tables)
        name = bare(rest)
        if table is None or not name:
            continue
        column = column_of(table, _PLACES if pattern is _IN else (match["column"],))
        if column is not None and column not in (table.label, table.key) and fits(match["value"], table.columns[column]):
            return _Entry(table, name, column, match["value"])
    return None


def _entered(book: Book, entry: _Entry, fact_id: str | None) -> Told:
    table, name = entry.table, entry.name
    values = {entry.column: typed(entry.value, table.columns[entry.column])}
    if fact_id is not None and SOURCE_COLUMN in table.columns:
        values[SOURCE_COLUMN] = fact_id
    known = book.mine((yield from rows_of(table, f"{table.label}.lower() == {name.lower()!r}", limit=5)))
    if known:
        return (yield from changed(book, table, known[0], values, name))
    yield from done("add_rows", {"table": table.name, "rows": [{table.label: name, **values}]})
    return f"Added {name} to {table.name}."
