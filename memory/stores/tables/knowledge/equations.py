"""Changes that an expression describes: columns computed from others, rows deleted by a filter. All in the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import psycopg
from sqlalchemy import ColumnElement, LargeBinary, cast, func, select
from sqlalchemy.exc import DBAPIError

from memory.model.expression import parse_expression
from memory.model.expression_tree import Expression, Loose
from memory.model.knowledge import (
    MAX_LIMIT,
    MAX_TEXT_BYTES,
    Column,
    ColumnType,
    CreateDerivedColumn,
    DeleteRows,
    Table,
    ToolProblem,
    TransformColumn,
)
from memory.stores.tables.knowledge.catalogue import Entry, entries_of, fits_slot, free_slot
from memory.stores.tables.knowledge.columns import check_dependants, deletable, types_of
from memory.stores.tables.knowledge.compile import compile_condition, compile_value
from memory.stores.tables.knowledge.stored import JSON_TYPES, cell, including, without
from memory.stores.tables.knowledge.work import ROWS, Work, done, whole_number, with_column
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS, MORE
from memory.stores.tables.scoping import batches

MAX_OFFSET: Final = 10_000_000
_TIMED_OUT, _TOO_COMPLEX, _OUT_OF_RANGE = "57014", "54", "22"
_SQLITE_COMPLEX: Final = ("interrupted", "parser stack overflow", "expression tree is too large", "too many")


def create_derived_column(work: Work, change: CreateDerivedColumn) -> Mapping[str, Any]:
    """Its values are computed once; they do not follow the columns that they were made from."""
    entry = work.entry(change.table)
    expression = _equation(entry.table, change.equation)
    if expression.type is Loose.NONE:
        raise ToolProblem("bad_expression", "the equation is always None; create_empty_column makes a column without values")
    type_ = _type(expression)
    value = compile_value(expression, _cells(entry.table, work.dialect), work.dialect)
    entry, column = with_column(entry, change.column_name, type_)
    with _bounded():
        _check_size(work, entry.table, value, type_)
        work.records.update(KNOWLEDGE_ROWS, ROWS.table_id == entry.table.table_id, values=_put(column, value, work.dialect))
    work.save(entry)
    return done("column created successfully", table=entry.table.name, column=column.name, type=type_.value)


def transform_column(work: Work, change: TransformColumn) -> Mapping[str, Any]:
    """The column gets the type of the equation; one of floats stays so where the equation gives ints.

    Refused where something is embedded of the column that its new type does not fit.
    """
    entry = work.entry(change.table)
    table = entry.table
    column = deletable(table, change.column_name)
    if column.type is ColumnType.VECTOR:
        raise ToolProblem("bad_arguments", f"{column.name} is an embedding: transform what it is made from")
    expression = _equation(table, change.equation)
    type_ = column.type if expression.type is Loose.NONE else _type(expression)
    if (column.type, type_) == (ColumnType.FLOAT, ColumnType.INT):
        type_ = ColumnType.FLOAT
    slot = column.slot if fits_slot(column.slot, type_) else free_slot(table.columns, type_)
    made = replace(column, type=type_, slot=slot, auto=False, within=None)
    changed, also = _replaced(entry, column, made)
    check_dependants(table, changed.table, column.name)
    value = compile_value(expression, _cells(table, work.dialect), work.dialect)
    values = _put(made, value, work.dialect)
    if column.slot is not None and column.slot != slot:
        values[column.slot] = None
    if column.slot is None and slot is not None:
        values[MORE] = without(column.key, work.dialect)
    values["revision"] = ROWS.revision + 1
    with _bounded():
        _check_size(work, table, value, type_)
        work.records.update(KNOWLEDGE_ROWS, ROWS.table_id == table.table_id, values=values)
    work.save(changed)
    return done("column transformed successfully", table=table.name, column=made.name, type=type_.value, **also)


def delete_rows(work: Work, change: DeleteRows) -> Mapping[str, Any]:
    """Per table: newest first those that the filter takes. Where no tables are named, those without its columns are left out."""
    limit = whole_number(change.limit, "limit", least=0, most=MAX_LIMIT)
    offset = whole_number(change.offset, "offset", least=0, most=MAX_OFFSET)
    if change.filter is None:
        return done("no rows deleted: without a filter nothing is deleted", length=0)
    named = change.tables is not None
    names = (change.tables,) if isinstance(change.tables, str) else change.tables or ()
    entries = [work.entry(name) for name in dict.fromkeys(names)] if named else entries_of(work.records)
    deleted: dict[str, int] = {}
    missing: ToolProblem | None = None
    for table in {entry.table.table_id: entry.table for entry in entries}.values():
        try:
            expression = parse_expression(change.filter, types_of(table))
        except ToolProblem as problem:
            if named or problem.code != "unknown_column":
                raise
            missing = problem
            continue
        deleted[table.name] = _delete(work, table, expression, limit, offset)
    if missing is not None and not deleted:
        raise missing
    length = sum(deleted.values())
    return done("rows deleted successfully" if length else "no rows deleted", length=length, tables=deleted)


def _delete(work: Work, table: Table, expression: Expression, limit: int, offset: int) -> int:
    mine = ROWS.table_id == table.table_id
    condition = compile_condition(expression, _cells(table, work.dialect), work.dialect)
    wanted = select(ROWS.row_key).where(mine, condition).order_by(ROWS.row_key.desc()).limit(limit).offset(offset)
    with _bounded():
        keys = [row.row_key for row in work.records.rows(wanted)]
    for some in batches(keys):
        work.records.delete(KNOWLEDGE_ROWS, mine, ROWS.row_key.in_(some))
    return len(keys)


# --------------------------------------------------------------------------------------------------------------------- parts


def _equation(table: Table, text: str) -> Expression:
    return parse_expression(text, types_of(table), what="equation")


def _type(expression: Expression) -> ColumnType:
    if isinstance(expression.type, ColumnType) and expression.type is not ColumnType.VECTOR:
        return expression.type
    raise ToolProblem("bad_expression", "the equation has values of several types; put it into str(), int(), float() or bool()")


def _cells(table: Table, dialect: str) -> dict[str, ColumnElement[Any]]:
    cells = {column.name: cell(column, dialect) for column in table.columns if column.type is not ColumnType.VECTOR}
    return {table.unique_key: ROWS.row_key, **cells}


def _put(column: Column, value: ColumnElement[Any], dialect: str) -> dict[str, Any]:
    if column.slot is not None:
        return {column.slot: value}
    return {MORE: including(column.key, value, column.type, dialect)}


def _replaced(entry: Entry, old: Column, new: Column) -> tuple[Entry, Mapping[str, list[str]]]:
    """The entry with the new column in the old one's place. What cannot count any more becomes a plain column."""
    stopped = [old.name] if old.auto else []
    columns: list[Column] = []
    for column in entry.table.columns:
        if column.within == old.name and new.type in JSON_TYPES:
            stopped.append(column.name)
            column = replace(column, auto=False, within=None)
        columns.append(new if column is old else column)
    counters = {key: number for key, number in entry.next_values.items() if key != old.key}
    changed = replace(entry, table=replace(entry.table, columns=tuple(columns)), next_values=counters)
    return changed, {"no_longer_counting": stopped} if stopped else {}


def _check_size(work: Work, table: Table, value: ColumnElement[Any], type_: ColumnType) -> None:
    """A text that is computed is as bounded as one that is given. Before anything is written, which would fill the disk first."""
    if type_ is not ColumnType.STR:
        return
    size = func.length(cast(value, LargeBinary)) if work.dialect == "sqlite" else func.octet_length(value)
    row = work.records.row(select(ROWS.row_key).where(ROWS.table_id == table.table_id, size > MAX_TEXT_BYTES))
    if row is not None:
        raise ToolProblem("too_large", f"row {row.row_key}: the equation gives more than the {MAX_TEXT_BYTES} bytes of one value")


@contextmanager
def _bounded() -> Generator[None]:
    """What the database cannot do with an expression is said so that its caller can act on it."""
    try:
        yield
    except RecursionError:
        pass
    except DBAPIError as error:
        if not _is_too_much(error.orig):
            raise
    else:
        return
    # Outside of the except block: the driver's error may quote values.
    raise ToolProblem("too_large", "the database could not compute this for all rows; use a shorter expression")


def _is_too_much(error: BaseException | None) -> bool:
    if isinstance(error, psycopg.Error):
        state = error.sqlstate or ""
        return state == _TIMED_OUT or state.startswith((_TOO_COMPLEX, _OUT_OF_RANGE))
    return isinstance(error, sqlite3.Error) and str(error).lower().startswith(_SQLITE_COMPLEX)
