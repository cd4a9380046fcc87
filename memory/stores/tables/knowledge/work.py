"""What every change of a table works with: one transaction, one owner, whose lock is held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from memory.model.knowledge import MAX_COLUMNS, Column, ColumnType, Table, ToolProblem
from memory.model.knowledge_names import checked_column_name, normal_name
from memory.model.knowledge_values import shortened
from memory.model.owner import Owner
from memory.stores.tables.knowledge.catalogue import Entry, entry_of, free_slot, save_entry, unknown_column
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS
from memory.stores.tables.scoping import Records

ROWS = KNOWLEDGE_ROWS.c


@dataclass(frozen=True, slots=True)
class Work:
    """``now``: in UTC. ``dialect``: ``sqlite`` or ``postgresql``."""

    records: Records
    owner: Owner
    now: datetime
    dialect: str

    def entry(self, name: str) -> Entry:
        """Raises ToolProblem: ``unknown_table``, ``read_only``."""
        return entry_of(self.records, self.owner, name)

    def save(self, entry: Entry, *, schema: bool = True) -> Entry:
        return save_entry(self.records, entry, now=self.now, schema=schema)


def done(outcome: str, **details: Any) -> Mapping[str, Any]:
    """What a tool returns."""
    return {"outcome": outcome, "details": details}


def column_of(table: Table, name: str) -> Column:
    """Raises ToolProblem (``unknown_column``)."""
    column = table.column(normal_name(name)) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if column is None:
        raise unknown_column(name, table)
    return column


def with_column(
    entry: Entry,
    name: str,
    type_: ColumnType,
    *,
    auto: bool = False,
    within: str | None = None,
    source: str | None = None,
) -> tuple[Entry, Column]:
    """The entry with one more column, not saved yet. ``name`` is checked here.

    Raises ToolProblem: ``bad_name``, ``name_taken``, ``too_large``.
    """
    table = entry.table
    checked = free_column_name(table, name)
    if len(table.columns) >= MAX_COLUMNS:
        raise ToolProblem("too_large", f"the table {table.name} has {MAX_COLUMNS} columns, which is as many as there can be")
    slot = free_slot(table.columns, type_)
    if auto and slot is None:
        raise ToolProblem("too_large", f"{table.name}.{checked}: there are too many whole-number columns for one more that counts")
    column = Column(checked, type_, f"c{entry.next_column}", slot, auto=auto, within=within, source=source)
    counts = {column.key: 0} if auto and within is None else {}
    grown = replace(table, columns=(*table.columns, column))
    return Entry(grown, entry.next_column + 1, {**entry.next_values, **counts}), column


def free_column_name(table: Table, name: str) -> str:
    checked = checked_column_name(name)
    if checked == table.unique_key or table.column(checked) is not None:
        raise ToolProblem("name_taken", f"the table {table.name} has a column {checked} already")
    return checked


def whole_number(value: object, what: str, *, least: int, most: int) -> int:
    """Raises ToolProblem (``bad_arguments``)."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ToolProblem("bad_arguments", f"{what} is a whole number from {least} to {most}, not {shortened(value)}")
    return value
