"""How the simulated model restructures a table that repeats itself: what repeats goes into a table with a surrogate key.

Split the dealers out of DealerVisits into a table of their own
Normalise DealerVisits
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory.llm.simulated_knowledge_figures import figure
from memory.llm.simulated_knowledge_parts import table_name
from memory.llm.simulated_knowledge_paths import LIMIT, GivesUp, Plan, read, rows_of
from memory.llm.simulated_knowledge_prompt import Loop, TableView, tables_of
from memory.llm.simulated_knowledge_words import stem, tables_in, words
from memory.model.knowledge import CONTACTS_TABLE, SOURCE_FIELD

LABEL: Final = "name"


@dataclass(frozen=True, slots=True)
class Split:
    """``column`` is what the new table's rows are called by; ``carried`` depend on it."""

    table: TableView
    column: str
    carried: tuple[str, ...]

    @property
    def new_table(self) -> str:
        return table_name(self.column.removesuffix("_name"))

    @property
    def key(self) -> str:
        return f"{self.column.removesuffix('_name')}_id"

    @property
    def moved(self) -> tuple[str, ...]:
        return (self.column, *self.carried)

    def new_name(self, column: str) -> str:
        return LABEL if column == self.column else column


def refactor(loop: Loop, text: str) -> Plan:
    """The plan for a request. Its answer is the migration report."""
    tables = tables_of((yield from read(("tables_overview", {}))))
    named = [table for table, _, _ in tables_in(text, tables) if table.name != CONTACTS_TABLE]
    reports: list[str] = []
    for table in dict.fromkeys(one.name for one in named) or [name for name in tables if name != CONTACTS_TABLE]:
        rows = yield from rows_of(tables[table], None)
        rows = [row for row in rows if row.get(SOURCE_FIELD) in (None, loop.destination)]
        if len(rows) >= LIMIT:
            reports.append(f"{table} has {LIMIT} rows or more; left as it is.")
            continue
        split = _split_of(tables[table], rows, text)
        if split is None:
            continue
        if split.new_table in tables or split.key in tables[table].columns:
            reports.append(f"{table} would give a table {split.new_table}, which there is already; left as it is.")
            continue
        reports.append((yield from _carry_out(split, rows)))
    return " ".join(reports) or "Nothing repeats itself; the tables are left as they are."


def _split_of(table: TableView, rows: Sequence[Mapping[str, Any]], text: str) -> Split | None:
    """The text column whose values repeat and determine the most other columns; one that the request names goes first."""
    said = {stem(word) for word, _, _ in words(text)}
    best: Split | None = None
    for column in table.texts:
        values = [row.get(column) for row in rows if row.get(column) is not None]
        if len(set(values)) == len(values) or column == table.prose:
            continue
        carried = tuple(
            other
            for other, kind in table.columns.items()
            if other not in (column, table.key) and kind not in ("list", "dict", "vector") and _depends(rows, column, other)
        )
        found = Split(table, column, carried)
        if stem(column) in said or stem(column.removesuffix("_name")) in said:
            return found
        if carried and (best is None or len(carried) > len(best.carried)):
            best = found
    return best


def _depends(rows: Sequence[Mapping[str, Any]], column: str, other: str) -> bool:
    seen: dict[Any, Any] = {}
    told = [(row[column], row.get(other)) for row in rows if row.get(column) is not None]
    return all(seen.setdefault(value, carried) == carried for value, carried in told)


def _carry_out(split: Split, rows: Sequence[Mapping[str, Any]]) -> Plan:
    """Keys first, then copies (which come with the keys of their rows), then what is there more than once, then the old columns."""
    table, column, new = split.table, split.column, split.new_table
    kept: dict[Any, int] = {row[column]: row[table.key] for row in rows if row.get(column) is not None}  # the oldest come last
    description = f"Each row is one {column.removesuffix('_name').replace('_', ' ')}; {table.name} refers to it by {split.key}."
    yield from read(("create_table", {"name": new, "description": description, "columns": {}, "unique_key_name": split.key}))
    yield from read(("create_empty_column", {"table": table.name, "column_name": split.key, "column_type": "int"}))
    updates = {str(row[table.key]): {split.key: kept[row[column]]} for row in rows if row.get(column) in kept}
    yield from read(("update_rows", {"table": table.name, "updates": updates}))
    for one in split.moved:
        yield from read(("copy_column", {"source_table": table.name, "column_name": one, "dest_table": new}))
    yield from read(("rename_column", {"table": new, "old_name": column, "new_name": LABEL}))
    surplus = {"filter": f"{split.key} not in {sorted(kept.values())}", "tables": [new], "limit": LIMIT}
    (deleted,) = yield [("delete_rows", surplus)]
    left = yield from figure(TableView(new, split.key, {}), "count", split.key, None)
    filled = yield from figure(table, "count", split.key, None)
    had = yield from figure(table, "count", column, None)
    if filled != had or left < len(kept):
        raise GivesUp(f"{had} rows of {table.name} have {column}, {filled} have {split.key}; no column was dropped")
    results = yield [("delete_column", {"table": table.name, "column_name": one}) for one in split.moved]
    dropped = [one for one, result in zip(split.moved, results, strict=True) if result.problem is None]
    still = [one for one in split.moved if one not in dropped]
    lines = [
        f"Migration report for {table.name}.",
        *(f"{table.name}.{one} -> {new}.{split.new_name(one)}." for one in split.moved),
        f"New table {new}: key {split.key}, columns {', '.join(map(split.new_name, split.moved))}, {left} rows.",
        f"{table.name}.{split.key} refers to it in {len(updates)} rows.",
    ]
    if deleted.problem is not None:
        lines.append(f"{left - len(kept)} rows of {new} that repeat others are left: their deletion was not asked for.")
    if dropped:
        lines.append(f"Dropped from {table.name}: {', '.join(dropped)}; every value is in {new}.")
    if still:
        lines.append(f"Still in {table.name}, because their deletion was not asked for: {', '.join(still)}.")
    return " ".join(lines)
