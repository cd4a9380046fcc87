"""Rows: added and changed. Each call whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any, Final, TypeAlias

from sqlalchemy import select

from memory.model.knowledge import MAX_ROWS_PER_CALL, AddRows, Column, Table, ToolProblem, UpdateRows, Value
from memory.model.knowledge_bulk import stored_column
from memory.model.knowledge_names import normal_name
from memory.model.knowledge_values import CONVERTERS, MAX_INT, BadValue, inferred_type, shortened, value_problem
from memory.stores.tables.knowledge.catalogue import Entry, unknown_column
from memory.stores.tables.knowledge.counting import count_up
from memory.stores.tables.knowledge.work import ROWS, Work, done, with_column
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS, MORE
from memory.stores.tables.scoping import batches

FIRST_REVISION: Final = 1

_Place: TypeAlias = tuple[str | None, str, Callable[[Value], Any]]
"""Where the value of a column goes: its slot, its key, and what checks and converts it."""


def add_rows(work: Work, change: AddRows) -> Mapping[str, Any]:
    """Raises ToolProblem that names row (the first is 0), column and value."""
    rows, names = _checked_rows(change.rows)
    before = work.entry(change.table)
    entry = _with_missing_columns(before, rows, names)
    table = entry.table
    if table.next_key + len(rows) > MAX_INT:
        raise ToolProblem("too_large", f"the table {table.name} has no unique key left to count up to")
    values: dict[str, Sequence[Any]] = {}
    for name, given in _by_column(rows, names).items():
        column = _column(table, name)
        stored = stored_column(given, column.type, column=column.name)
        other = values.get(column.key)  # two spellings of one name
        values[column.key] = stored if other is None else [b if a is None else a for a, b in zip(other, stored, strict=True)]
    entry = count_up(work, entry, values, len(rows))
    _insert(work, table, values, len(rows))
    grown = replace(entry, table=replace(entry.table, next_key=table.next_key + len(rows)))
    work.save(grown, schema=table.columns != before.table.columns)
    return done("rows added successfully", length=len(rows))


def _by_column(rows: Sequence[Mapping[str, Value]], names: Sequence[str]) -> Mapping[str, Sequence[Value]]:
    """The values of each name, by row."""
    if len(names) > 1:
        try:
            return dict(zip(names, zip(*map(itemgetter(*names), rows), strict=True), strict=True))
        except KeyError:
            pass  # not every row has every name
    return {name: [row.get(name) for row in rows] for name in names}


def _insert(work: Work, table: Table, values: Mapping[str, Sequence[Any]], count: int) -> None:
    columns: dict[str, Sequence[Any]] = {
        "table_id": [table.table_id] * count,
        "row_key": range(table.next_key, table.next_key + count),
        "revision": [FIRST_REVISION] * count,
    }
    rest: dict[str, Sequence[Any]] = {}
    for column in table.columns:
        if column.key in values:
            (columns if column.slot else rest)[column.slot or column.key] = values[column.key]
    if rest:
        columns[MORE] = [_json(rest, row) for row in range(count)]
    work.records.insert_columns(KNOWLEDGE_ROWS, columns)


def _json(columns: Mapping[str, Sequence[Any]], row: int) -> str | None:
    there = {key: value for key, values in columns.items() if (value := values[row]) is not None}
    return json.dumps(there) if there else None


def update_rows(work: Work, change: UpdateRows) -> Mapping[str, Any]:
    """Columns that an update does not name stay as they are. Raises ToolProblem, also for a row that is not there."""
    entry = work.entry(change.table)
    table = entry.table
    updates = _checked_updates(change.updates, table)
    mine = ROWS.table_id == table.table_id
    places = {name: _place(table, name) for name in dict.fromkeys(name for update in updates.values() for name in update)}
    wanted = select(ROWS.row_key, ROWS.more) if any(slot is None for slot, _, _ in places.values()) else select(ROWS.row_key)
    there: dict[int, dict[str, Any]] = {}
    for some in batches(list(updates)):
        rows = work.records.rows(wanted.where(mine, ROWS.row_key.in_(some)))
        there |= {row.row_key: dict(getattr(row, MORE, None) or {}) for row in rows}
    unknown = [key for key in updates if key not in there]
    if unknown:
        listed = ", ".join(str(key) for key in unknown[:10])
        raise ToolProblem("unknown_row", f"the table {table.name} has no row with {table.unique_key} {listed}; nothing was updated")
    for key, update in updates.items():
        values, more = _converted(places, update, key)
        for name in update:
            slot, column_key, _ = places[name]
            if slot is not None:
                values.setdefault(slot, None)
            elif column_key not in more:
                there[key].pop(column_key, None)
        if any(places[name][0] is None for name in update):
            values[MORE] = {**there[key], **more} or None
        work.records.update(KNOWLEDGE_ROWS, mine, ROWS.row_key == key, values=values | {"revision": ROWS.revision + 1})
        entry = _counted(entry, values)
    work.save(entry, schema=False)
    return done("rows updated successfully", length=len(updates))


def _converted(places: Mapping[str, _Place], row: Mapping[str, Value], number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Slot → value, and what goes into ``more``; without those that are None."""
    values: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        slot, key, convert = places[name]
        try:
            stored = convert(value)
        except BadValue as error:
            raise value_problem(error, value, column=name, row=number) from None
        if slot is None:
            more[key] = stored
        else:
            values[slot] = stored
    return values, more


def _place(table: Table, name: str) -> _Place:
    column = _column(table, name)
    return column.slot, column.key, CONVERTERS[column.type]


def _column(table: Table, name: str) -> Column:
    normal = normal_name(name)
    column = table.column(normal)
    if column is not None:
        return column
    if normal == table.unique_key:
        raise ToolProblem("bad_arguments", f"the unique key {normal} counts up by itself and is never written; leave it out")
    raise unknown_column(name, table)


def _with_missing_columns(entry: Entry, rows: Sequence[Mapping[str, Value]], names: Iterable[str]) -> Entry:
    known = {entry.table.unique_key, *(column.name for column in entry.table.columns)}
    missing: dict[str, list[str]] = {}
    for name in names:
        normal = normal_name(name)
        if normal not in known:
            missing.setdefault(normal, []).append(name)
    for normal, spellings in missing.items():
        values = [next((row[name] for name in spellings if row.get(name) is not None), None) for row in rows]
        entry, _ = with_column(entry, normal, inferred_type(values, column=normal))
    return entry


def _counted(entry: Entry, values: Mapping[str, Any]) -> Entry:
    """What counts overall goes on above a number that was written by hand."""
    counters = dict(entry.next_values)
    for column in entry.table.columns:
        number = values.get(column.slot) if column.key in counters and column.slot is not None else None
        if number is not None and number >= counters[column.key]:
            counters[column.key] = number + 1
    return entry if counters == entry.next_values else replace(entry, next_values=counters)


# -------------------------------------------------------------------------------------------------------------------- checks


def _checked_rows(rows: Sequence[Mapping[str, Value]]) -> tuple[Sequence[Mapping[str, Value]], Sequence[str]]:
    """The rows, and all names that are in them, in the order in which they appear."""
    if isinstance(rows, str | bytes) or not isinstance(rows, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolProblem("bad_arguments", f"rows is a list of dicts, not {shortened(rows)}")
    _check_count(len(rows), "rows")
    if not set(map(type, rows)) <= {dict}:
        for number, row in enumerate(rows):
            _check_row(row, f"row {number}")
    names = list(dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, rows)))))
    if not set(map(type, names)) <= {str}:
        for number, row in enumerate(rows):
            _check_row(row, f"row {number}")
    return rows, names


def _checked_updates(updates: Mapping[int, Mapping[str, Value]], table: Table) -> dict[int, Mapping[str, Value]]:
    """The keys of JSON are text; those that are numbers are taken as such."""
    if not isinstance(updates, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolProblem("bad_arguments", f"updates is a dict of {table.unique_key} to a dict of column to value")
    _check_count(len(updates), "updates")
    checked: dict[int, Mapping[str, Value]] = {}
    for given, update in updates.items():
        key = _row_key(given)
        if key is None or key in checked:
            raise ToolProblem(
                "bad_arguments", f"{shortened(given)} is not the {table.unique_key} of one row, a whole number from 0"
            )
        _check_row(update, f"row {key}")
        checked[key] = update
    return checked


def _row_key(given: object) -> int | None:
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= 19:
        given = int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MAX_INT else None


def _check_row(row: object, what: str) -> None:
    if not isinstance(row, Mapping):
        raise ToolProblem("bad_arguments", f"{what} is a dict of column to value, not {shortened(row)}")
    for name in row:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(name, str):
            raise ToolProblem("bad_arguments", f"{what}: the name of a column is text, not {shortened(name)}")  # pyright: ignore[reportUnknownArgumentType]


def _check_count(count: int, what: str) -> None:
    if count > MAX_ROWS_PER_CALL:
        raise ToolProblem(
            "too_large", f"{count} {what} in one call; at most {MAX_ROWS_PER_CALL} are taken, the others in further calls"
        )
