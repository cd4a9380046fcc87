"""The rows of a table in a file, into a table of the user. What is there already is not added again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from memory.files import ParsedFile, Part
from memory.model.errors import InvalidInput
from memory.model.ids import short_hash
from memory.model.knowledge import (
    MAX_COLUMNS,
    Column,
    ColumnType,
    CreateEmptyColumn,
    CreateTable,
    Table,
    TransformColumn,
    UpdateRows,
)
from memory.model.knowledge_names import name_key
from starter.ingest_columns import SOURCE_FILE, SOURCE_ROW, Unfit, as_text, column_names, column_type, fitted, typed_column
from starter.knowledge import IMPORT_BATCH, Knowledge
from starter.who import Who

_WIDENED: Final = frozenset(ColumnType) - {ColumnType.STR, ColumnType.LIST, ColumnType.DICT, ColumnType.VECTOR}
_OF_TEXT: Final = ("date", "datetime")
_UNFIT: Final = object()


@dataclass(frozen=True, slots=True)
class Added:
    """``rows``: added; ``skipped``: they were there."""

    rows: int
    skipped: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Whose table, and from which file."""

    knowledge: Knowledge
    who: Who
    destination: str
    name: str
    file: str

    async def table(self) -> Table | None:
        tables = await self.knowledge.tables(self.who)
        wanted = (self.destination, name_key(self.name))
        return next((one for one in tables if (one.source, name_key(one.name)) == wanted), None)

    async def rows(self, table: Table) -> AsyncGenerator[Mapping[str, Any]]:
        """What the table has from the file."""
        async for row in self.knowledge.export(self.who, f"{table.source}.{table.name}"):
            if row.get(SOURCE_FILE) == self.file:
                yield row


async def add_rows(target: Target, parsed: ParsedFile, part: Part, number: int) -> Added:
    """``number``: which table of the file it is. Raises InvalidInput."""
    notes: list[str] = []
    table = await target.table()
    cells = _columns(part, table, notes)
    known = {} if table is None else {one.name: one for one in table.columns if one.name in cells}
    values = {
        name: [_fitted(value, known[name].type) for value in column] if name in known else typed_column(column)
        for name, column in cells.items()
    }
    found = {} if table is None else await _found(target, table, values, len(part.rows))
    if table is not None and (unfit := [name for name, column in values.items() if any(value is _UNFIT for value in column)]):
        for name in unfit:
            values[name] = await _widened(target, table, known[name], cells[name], found, notes)
    new = [
        {name: column[place] for name, column in values.items()} | {SOURCE_FILE: parsed.name, SOURCE_ROW: place + 1}
        for place in range(len(part.rows))
        if place not in found
    ]
    added = 0
    if new:
        description = f"From the file {parsed.name}" + (f", sheet {part.sheet}" if part.sheet else "")
        kinds = {name: column_type(column) for name, column in values.items()} | {SOURCE_FILE: "str", SOURCE_ROW: "int"}
        create = CreateTable(target.name, description, kinds)
        # What the table had given keys to when it was looked at: rows that were deleted since an earlier time come again.
        state = 0 if table is None else table.next_key
        import_id = short_hash(parsed.name, parsed.sha256, str(number), str(len(new)), _content(new[0]), str(state))
        for name, kind in kinds.items():
            if kind in _OF_TEXT and table is not None and table.column(name) is None:
                # Of their own, columns of text become text.
                made = CreateEmptyColumn(table.name, name, kind)
                await target.knowledge.change(target.who, made, destination=target.destination)
        added = await target.knowledge.import_rows(
            target.who, target.name, new, destination=target.destination, create=create, import_id=import_id
        )
    return Added(added, len(part.rows) - added, tuple(notes))


def _columns(part: Part, table: Table | None, notes: list[str]) -> dict[str, Sequence[Any]]:
    """The columns by name; those for which the table has no room are left out."""
    key = {} if table is None else {"key": table.unique_key}
    names = column_names(part.header, **key)
    there = {SOURCE_FILE, SOURCE_ROW, *([] if table is None else [column.name for column in table.columns])}
    room = MAX_COLUMNS - len(there)
    cells: dict[str, Sequence[Any]] = {}
    left: list[str] = []
    for place, name in enumerate(names):
        if name not in there and room <= 0:
            left.append(name)
            continue
        room -= name not in there
        cells[name] = [row[place] for row in part.rows]
    if left:
        some = ", ".join(left[:5]) + (" and others" if len(left) > 5 else "")
        notes.append(f"{len(left)} columns were left out, as a table has {MAX_COLUMNS} with source_file and source_row: {some}")
    return cells


def _fitted(value: Any, type_: ColumnType) -> Any:
    try:
        return fitted(value, type_)
    except Unfit:
        return _UNFIT


async def _found(target: Target, table: Table, values: Mapping[str, Sequence[Any]], count: int) -> dict[int, int]:
    """Which rows of the file the table holds: place → unique key. Only the file's own columns are compared."""
    there: defaultdict[str, list[int]] = defaultdict(list)
    async for row in target.rows(table):
        there[_content({name: row.get(name) for name in values})].append(row[table.unique_key])
    found: dict[int, int] = {}
    for place in range(count if there else 0):
        row = {name: column[place] for name, column in values.items()}
        if not any(value is _UNFIT for value in row.values()) and (keys := there[_content(row)]):
            found[place] = keys.pop()
    return found


def _content(row: Mapping[str, Any]) -> str:
    """Equal for rows of equal values, wherever they stand."""
    kept = {name: value for name, value in row.items() if value is not None and name not in (SOURCE_FILE, SOURCE_ROW)}
    return short_hash(json.dumps(kept, sort_keys=True, default=str))


# ------------------------------------------------------------------------------------------------- a column of another type


async def _widened(
    target: Target, table: Table, column: Column, cells: Sequence[Any], found: Mapping[int, int], notes: list[str]
) -> list[Any]:
    """Give the column a type that its cells fit; gives the cells as that. Raises InvalidInput where the table is not the file's."""
    name = column.name
    if table.column(SOURCE_FILE) is None or column.type not in _WIDENED or column.auto:
        raise _misfit(table, column, cells)
    text = await _needs_text(target, table, column, cells)
    type_ = ColumnType.STR if text else ColumnType.FLOAT
    # A multiplication is refused where somebody has made it text in the meantime.
    equation = f"str({name})" if text else f"{name} * 1.0"
    change = TransformColumn(table.name, name, equation)
    await target.knowledge.change(target.who, change, destination=target.destination)
    notes.append(f"the column {name} was {column.type.value} and is {type_.value} now, as not all cells of the file are that")
    if text:
        await _rewrite(target, table, name, cells, found)
    return [fitted(value, type_) for value in cells]


def _misfit(table: Table, column: Column, cells: Sequence[Any]) -> InvalidInput:
    row = next(place for place, value in enumerate(cells, start=1) if _fitted(value, column.type) is _UNFIT)
    return InvalidInput(
        f"row {row} does not fit the column {column.name} of the table {table.name}, which is {column.type.value}: "
        f"name another table with --table, or have that column made text first (transform_column with str({column.name}))"
    )


async def _needs_text(target: Target, table: Table, column: Column, cells: Sequence[Any]) -> bool:
    """Whether not all of it would keep its value as float."""
    if column.type is not ColumnType.INT or any(_fitted(value, ColumnType.FLOAT) is _UNFIT for value in cells):
        return True
    async for row in target.knowledge.export(target.who, f"{table.source}.{table.name}"):
        if _fitted(row.get(column.name), ColumnType.FLOAT) is _UNFIT:
            return True
    return False


async def _rewrite(target: Target, table: Table, name: str, cells: Sequence[Any], found: Mapping[int, int]) -> None:
    """Rows that the file has are written as it writes them, ``2.50`` for 2.5: so they are found again."""
    wanted = {key: as_text(cells[place]) for place, key in found.items()}
    updates: dict[int, Mapping[str, Any]] = {}
    async for row in target.rows(table):
        key = row[table.unique_key]
        if key in wanted and wanted[key] != row.get(name):
            updates[key] = {name: wanted[key]}
    waiting = iter(updates.items())
    while batch := dict(islice(waiting, IMPORT_BATCH)):
        change = UpdateRows(table.name, batch)
        await target.knowledge.change(target.who, change, destination=target.destination)
