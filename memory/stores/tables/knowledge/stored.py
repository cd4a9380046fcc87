"""Where the value of a column lies in a stored row, and what a stored row shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Double, Text, case, cast, func, literal
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from memory.model.knowledge import SOURCE_FIELD, Column, ColumnType, Row, Table
from memory.model.knowledge_values import to_shown
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS

JSON_TYPES: Final = frozenset({ColumnType.LIST, ColumnType.DICT})
_ROWS: Final = KNOWLEDGE_ROWS.c
_TYPES: Final[Mapping[ColumnType, Any]] = {
    ColumnType.STR: Text(),
    ColumnType.FLOAT: Double(),
    ColumnType.LIST: Text(),
    ColumnType.DICT: Text(),
}


def cell(column: Column, dialect: str, rows: Any = _ROWS) -> ColumnElement[Any]:
    """The stored value of a column: its slot, or what ``more`` has of it; a list or dict as JSON (of PostgreSQL: JSONB).

    ``rows``: the columns of the rows' table, or of another name of it.
    """
    if column.slot is not None:
        return rows[column.slot]
    if dialect == "sqlite":
        return func.json_extract(rows.more, f"$.{column.key}", type_=_TYPES.get(column.type, BigInteger()))
    key = cast(literal(column.key), Text)
    if column.type in JSON_TYPES:
        return rows.more.op("->", return_type=rows.more.type)(key)
    return cast(rows.more.op("->>", return_type=Text())(key), _TYPES.get(column.type, BigInteger()))


def without(key: str, dialect: str) -> ColumnElement[Any]:
    """``more`` without the value of the column with this key."""
    if dialect == "sqlite":
        return func.json_remove(_ROWS.more, f"$.{key}", type_=_ROWS.more.type)
    return _ROWS.more.op("-", return_type=_ROWS.more.type)(cast(literal(key), Text))


def including(key: str, value: ColumnElement[Any], type_: ColumnType, dialect: str) -> ColumnElement[Any]:
    """``more`` with this value in the column with this key; without it where the value is NULL."""
    more: ColumnElement[Any]
    if dialect == "sqlite":
        stored = func.json(_json_text(value, type_)) if type_ in (*JSON_TYPES, ColumnType.FLOAT) else value
        there = func.coalesce(_ROWS.more, func.json("{}"))
        more = func.json_set(there, f"$.{key}", stored, type_=_ROWS.more.type)
    else:
        stored = cast(value, JSONB) if type_ in JSON_TYPES else func.to_jsonb(value)
        there = func.coalesce(_ROWS.more, cast(literal("{}", Text), JSONB))
        path = cast(literal([key], ARRAY(Text)), ARRAY(Text))
        more = func.jsonb_set(there, path, stored, type_=_ROWS.more.type)
    return case((value.is_(None), without(key, dialect)), else_=more)


def _json_text(value: ColumnElement[Any], type_: ColumnType) -> ColumnElement[Any]:
    # SQLite's own JSON of a float has lost its last digits.
    return func.knowledge_real_text(value, type_=Text()) if type_ is ColumnType.FLOAT else value


def shown_row(table: Table, stored: Mapping[str, Any]) -> Row:
    """A row of the store (database column → value) as callers see it: the unique key, the columns in order, the source."""
    more: Mapping[str, Any] = stored.get("more") or {}
    row: Row = {table.unique_key: stored["row_key"]}
    for column in table.columns:
        if column.type is not ColumnType.VECTOR:
            value = more.get(column.key) if column.slot is None else stored.get(column.slot)
            row[column.name] = to_shown(value, column.type)
    row[SOURCE_FIELD] = table.source
    return row


def database_columns(columns: Iterable[Column]) -> list[str]:
    """Those that hold these columns; the row's key and revision come with every row."""
    slots = [column.slot or "more" for column in columns if column.type is not ColumnType.VECTOR]
    return list(dict.fromkeys(slots))
