"""Columns: made, renamed, deleted, copied and moved between tables of one owner.

A column that goes leaves its slot empty in every row, in the same transaction: what is put there next shows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory.model.expression import parse_expression
from memory.model.expression_names import names_in, renamed_in
from memory.model.knowledge import (
    Column,
    ColumnType,
    CreateEmptyColumn,
    DeleteColumn,
    RenameColumn,
    Table,
    ToolProblem,
    VectorizeColumn,
)
from memory.model.knowledge_names import normal_name
from memory.model.knowledge_values import checked_type, shortened
from memory.stores.tables.knowledge.catalogue import Entry
from memory.stores.tables.knowledge.stored import without
from memory.stores.tables.knowledge.work import ROWS, Work, column_of, done, free_column_name, with_column
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS, MORE


def create_empty_column(work: Work, change: CreateEmptyColumn) -> Mapping[str, Any]:
    entry, column = with_column(work.entry(change.table), change.column_name, checked_type(change.column_type))
    work.save(entry)
    return done("column created successfully", table=entry.table.name, column=column.name)


def rename_column(work: Work, change: RenameColumn) -> Mapping[str, Any]:
    """Position, values, what counts within it and what is embedded of it stay."""
    entry = work.entry(change.table)
    table = entry.table
    old = normal_name(change.old_name) if isinstance(change.old_name, str) else change.old_name  # pyright: ignore[reportUnnecessaryIsInstance]
    if old != table.unique_key:
        old = column_of(table, old).name
    new = free_column_name(table, change.new_name) if normal_name(change.new_name) != old else old

    def renamed(column: Column) -> Column:
        return replace(
            column,
            name=new if column.name == old else column.name,
            within=new if column.within == old else column.within,
            source=None if column.source is None else renamed_in(column.source, old, new),
        )

    columns = tuple(map(renamed, table.columns))
    unique_key = new if old == table.unique_key else table.unique_key
    renamed_table = replace(table, columns=columns, unique_key=unique_key)
    check_dependants(table, renamed_table, old)
    work.save(replace(entry, table=renamed_table))
    return done("column renamed successfully", table=table.name, old_name=old, new_name=new)


def delete_column(work: Work, change: DeleteColumn) -> Mapping[str, Any]:
    entry = work.entry(change.table)
    column = deletable(entry.table, change.column_name)
    entry, also = drop_column(work, entry, column)
    work.save(entry)
    return done("column deleted successfully", table=entry.table.name, column=column.name, **also)


def vectorize_column(work: Work, change: VectorizeColumn) -> Mapping[str, Any]:
    """``source_column``: a column or an expression over columns, whose text is embedded."""
    entry = work.entry(change.table)
    target = entry.table.column(normal_name(change.target_column_name))
    if target is not None and target.type is ColumnType.VECTOR and target.source == change.source_column:
        return done("column vectorized successfully", table=entry.table.name, column=target.name)
    check_source(entry.table, change.source_column)
    entry, column = with_column(entry, change.target_column_name, ColumnType.VECTOR, source=change.source_column)
    work.save(entry)
    return done("column vectorized successfully", table=entry.table.name, column=column.name)


def check_source(table: Table, source: str) -> None:
    """Raises ToolProblem for what cannot be embedded."""
    parse_expression(source, types_of(table), what="source_column")


# --------------------------------------------------------------------------------------------------------------------- parts


def deletable(table: Table, name: str) -> Column:
    if isinstance(name, str) and normal_name(name) == table.unique_key:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolProblem(
            "not_permitted", f"{table.unique_key} is the unique key of {table.name}: it can be renamed, not taken away"
        )
    return column_of(table, name)


def drop_column(work: Work, entry: Entry, column: Column) -> tuple[Entry, Mapping[str, Any]]:
    """Empty the column in all rows and take it out of the entry, which is not saved yet.

    What is embedded of it goes with it; what counts within it becomes a plain column. Both are named in what is returned.
    """
    table = entry.table
    clear(work, table, column)
    left: list[Column] = []
    also: dict[str, list[str]] = {}
    for other in table.columns:
        if other is column:
            continue
        if other.source is not None and column.name in names_in(other.source):
            also.setdefault("also_deleted", []).append(other.name)
            continue
        if other.within == column.name:
            also.setdefault("no_longer_counting", []).append(other.name)
            other = replace(other, auto=False, within=None)
        left.append(other)
    keys = {one.key for one in left}
    counters = {key: number for key, number in entry.next_values.items() if key in keys}
    return Entry(replace(table, columns=tuple(left)), entry.next_column, counters), also


def clear(work: Work, table: Table, column: Column) -> None:
    """Take the values of a column out of the store."""
    mine = ROWS.table_id == table.table_id
    if column.type is ColumnType.VECTOR:
        return
    if column.slot is not None:
        slot = ROWS[column.slot]
        work.records.update(KNOWLEDGE_ROWS, mine, slot.is_not(None), values={column.slot: None})
    else:
        work.records.update(KNOWLEDGE_ROWS, mine, ROWS.more.is_not(None), values={MORE: without(column.key, work.dialect)})


def check_dependants(before: Table, after: Table, name: str) -> None:
    """Raises ToolProblem where what is embedded of a column does not fit it any more.

    Args:
        before, after: the table without and with the change, its columns in the same order.
        name: that the column had before.
    """
    for old, column in zip(before.columns, after.columns, strict=True):
        if old.source is None or column.source is None or name not in names_in(old.source):
            continue
        try:
            check_source(after, column.source)
        except ToolProblem as error:
            raise ToolProblem(
                error.code,
                f"{column.name} is embedded from {shortened(column.source)}, which {name} would not fit any more:"
                f" {error.message[:300]}; nothing was changed. Delete {column.name} first, or make another column with"
                f" create_derived_column",
            ) from None


def types_of(table: Table) -> dict[str, ColumnType]:
    """Of what an expression may name."""
    columns = {column.name: column.type for column in table.columns if column.type is not ColumnType.VECTOR}
    return {table.unique_key: ColumnType.INT, **columns}
