"""A column from one table to another of the same owner, by the rows' unique keys. In the database, however many rows there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, func, select

from memory.model.knowledge import MAX_ROWS_PER_CALL, Column, ColumnType, CopyColumn, MoveColumn, Table, ToolProblem
from memory.model.knowledge_names import name_key, normal_name
from memory.stores.tables.knowledge.catalogue import Entry
from memory.stores.tables.knowledge.columns import deletable, drop_column
from memory.stores.tables.knowledge.counting import count_up
from memory.stores.tables.knowledge.stored import cell, including
from memory.stores.tables.knowledge.work import ROWS, Work, column_of, done, with_column
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS, MORE

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OTHER: Final = KNOWLEDGE_ROWS.alias("other")


def copy_column(work: Work, change: CopyColumn) -> Mapping[str, Any]:
    """The unique key can be copied too, and is a plain int column then; a column that counts counts no more in its copy."""
    source, dest = _two(work, change.source_table, change.dest_table)
    key = isinstance(change.column_name, str) and normal_name(change.column_name) == source.table.unique_key  # pyright: ignore[reportUnnecessaryIsInstance]
    column = None if key else column_of(source.table, change.column_name)
    name, length = _copy(work, source.table, column, dest)
    return done("column copied successfully", table=dest.table.name, column=name, length=length)


def move_column(work: Work, change: MoveColumn) -> Mapping[str, Any]:
    """As a copy, and the column is gone from the source."""
    source, dest = _two(work, change.source_table, change.dest_table)
    column = deletable(source.table, change.column_name)
    name, length = _copy(work, source.table, column, dest)
    entry, also = drop_column(work, source, column)
    work.save(entry)
    return done("column moved successfully", table=dest.table.name, column=name, length=length, **also)


def _two(work: Work, source: str, dest: str) -> tuple[Entry, Entry]:
    entries = work.entry(source), work.entry(dest)
    if name_key(entries[0].table.name) == name_key(entries[1].table.name):
        raise ToolProblem(
            "bad_arguments", f"{entries[0].table.name} is both source and destination; use create_derived_column or rename_column"
        )
    return entries


def _copy(work: Work, source: Table, column: Column | None, dest: Entry) -> tuple[str, int]:
    """``column`` None: the unique key. Returns the name of the copy, and how many rows have got it."""
    if column is not None and column.type is ColumnType.VECTOR:
        raise ToolProblem("bad_arguments", f"{column.name} is an embedding: copy what it is made from, and vectorize that")
    name, type_ = (source.unique_key, ColumnType.INT) if column is None else (column.name, column.type)
    entry, made = with_column(_with_rows(work, source, dest), name, type_)

    def values(value: ColumnElement[Any]) -> Mapping[str, Any]:
        return {made.slot: value} if made.slot is not None else {MORE: including(made.key, value, type_, work.dialect)}

    work.records.update_from(
        KNOWLEDGE_ROWS,
        ROWS.table_id == entry.table.table_id,
        other=_OTHER,
        on=(_OTHER.c.table_id == source.table_id, _OTHER.c.row_key == ROWS.row_key),
        value=_OTHER.c.row_key if column is None else cell(column, work.dialect, _OTHER.c),
        values=values,
    )
    length = work.records.rows(select(func.count(ROWS.row_key)).where(ROWS.table_id == source.table_id))[0][0]
    following = max(entry.table.next_key, source.next_key)
    work.save(replace(entry, table=replace(entry.table, next_key=following)))
    return made.name, length


def _with_rows(work: Work, source: Table, dest: Entry) -> Entry:
    """The destination with a row for every key of the source; the rows that are added are numbered where columns count."""
    # A key may come back that has been in the destination before: its revision is above all that are embedded of it.
    revision = (work.now - _EPOCH) // timedelta(microseconds=1)
    table_id = dest.table.table_id
    if not any(column.auto for column in dest.table.columns):
        row = {"table_id": table_id, "row_key": ROWS.row_key, "revision": revision}
        work.records.insert_from(KNOWLEDGE_ROWS, ROWS.table_id == source.table_id, values=row)
        return dest
    there, wanted = (
        {row.row_key for row in work.records.rows(select(ROWS.row_key).where(ROWS.table_id == one))}
        for one in (table_id, source.table_id)
    )
    keys = sorted(wanted - there)
    numbers: dict[str, Sequence[Any]] = {}
    counted = count_up(work, dest, numbers, len(keys))
    slots = {str(column.slot): numbers[column.key] for column in dest.table.columns if column.key in numbers}
    for start in range(0, len(keys), MAX_ROWS_PER_CALL):
        some = slice(start, start + MAX_ROWS_PER_CALL)
        count = len(keys[some])
        columns: dict[str, Sequence[Any]] = {"table_id": [table_id] * count, "row_key": keys[some], "revision": [revision] * count}
        work.records.insert_columns(KNOWLEDGE_ROWS, columns | {slot: given[some] for slot, given in slots.items()})
    return counted
