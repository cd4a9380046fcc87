"""What a read reads from: the tables of one name as one set of rows, each with the source that it is from."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Double, Integer, Row, Subquery, Text, and_, false, literal, or_, union_all
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from memory.model.federation import columns_of, together
from memory.model.knowledge import SOURCE_FIELD, ColumnType, Table
from memory.model.knowledge import Row as ShownRow
from memory.model.knowledge_values import to_shown
from memory.stores.tables.fragments import Fragment
from memory.stores.tables.knowledge.catalogue import CONTACTS_ID
from memory.stores.tables.knowledge.stored import JSON_TYPES, cell
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS
from memory.stores.tables.rows_records import CONTACTS
from memory.stores.tables.sources import Sources

_NONE: Final[Mapping[ColumnType, str]] = {
    ColumnType.STR: "text", ColumnType.FLOAT: "float8", ColumnType.LIST: "jsonb", ColumnType.DICT: "jsonb",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Relation:
    """``columns``: name → value in stored form, ``types`` alike, in the order in which they are shown; ``_source`` is one of them.

    ``rows``: the FROM that they are of. ``order``: the rows' own, which makes pages; each part newest first, or as it is written.
    """

    name: str
    types: Mapping[str, ColumnType]
    columns: Mapping[str, ColumnElement[Any]]
    rows: Subquery
    order: tuple[ColumnElement[Any], ...]
    tables: tuple[Table, ...]

    @property
    def selected(self) -> list[ColumnElement[Any]]:
        """What :meth:`shown` takes."""
        return [self.rows.c.p, *self.columns.values()]

    def among(self, only: Mapping[str, Collection[int]]) -> ColumnElement[bool]:
        """The rows of these keys, by source."""
        parts = [
            and_(self.rows.c.p == number, self.rows.c.k.in_(keys))
            for number, table in enumerate(self.tables)
            if (keys := only.get(table.source))
        ]
        return or_(*parts) if parts else false()

    def shown(self, row: Row[Any]) -> ShownRow:
        """A row as callers see it: the columns of the table that it is from, with their types there."""
        values = dict(zip(self.types, row[1:], strict=True))
        table = self.tables[int(row[0])]
        return {
            **{name: shown_value(values[name], type_) for name, type_ in columns_of(table)},
            SOURCE_FIELD: table.source,
        }


def relation(sources: Sources, name: str, tables: Sequence[Table]) -> Relation:
    """Tables that go together, see :func:`memory.model.federation.together`, as one."""
    one = together(tables)
    if one.left_out:
        raise ValueError("these tables do not go together")
    types = one.types
    labels = {column: f"c{number}" for number, column in enumerate(types)}
    branches = [_branch(sources, table, number, types, labels) for number, table in enumerate(tables)]
    rows = branches[0].subquery() if len(branches) == 1 else union_all(*branches).subquery()
    order = (rows.c.k.desc(),) if len(branches) == 1 else (rows.c.k.desc(), rows.c.p)
    return Relation(name, types, {column: rows.c[label] for column, label in labels.items()}, rows, order, tuple(tables))


def _branch(sources: Sources, table: Table, number: int, types: Mapping[str, ColumnType], labels: Mapping[str, str]) -> Any:
    """The rows of one table. ``k``: the unique key, ``p``: the place of the table among the others."""
    dialect = sources.dialect
    found = _contacts(dialect) if table.table_id == CONTACTS_ID else _cells(table, dialect)
    where = [CONTACTS.c.merged_into.is_(None)] if table.table_id == CONTACTS_ID else [KNOWLEDGE_ROWS.c.table_id == table.table_id]
    found[SOURCE_FIELD] = literal(table.source, Text)
    own = dict(columns_of(table))
    made = [
        _fitted(found.get(column), own.get(column, type_), type_, dialect).label(labels[column]) for column, type_ in types.items()
    ]
    key: ColumnElement[Any] = found[table.unique_key]
    place = literal(number, Integer).label("p")
    return sources.rows(
        CONTACTS if table.table_id == CONTACTS_ID else KNOWLEDGE_ROWS, table.owner, [key.label("k"), place, *made], *where
    )


def _cells(table: Table, dialect: str) -> dict[str, ColumnElement[Any]]:
    cells = {column.name: cell(column, dialect) for column in table.columns if column.type is not ColumnType.VECTOR}
    return {table.unique_key: KNOWLEDGE_ROWS.c.row_key, **cells}


def _contacts(dialect: str) -> dict[str, ColumnElement[Any]]:
    flag = "{0}" if dialect == "sqlite" else "({0}::int::bigint)"
    return {
        **{column.name: column for column in CONTACTS.c},
        "should_respond": Fragment(flag, [CONTACTS.c.should_respond], type_=BigInteger()),
    }


def _fitted(value: ColumnElement[Any] | None, has: ColumnType, wanted: ColumnType, dialect: str) -> ColumnElement[Any]:
    type_: TypeEngine[Any] = Text() if wanted is ColumnType.STR else Double() if wanted is ColumnType.FLOAT else BigInteger()
    if wanted in JSON_TYPES:
        type_ = Text() if dialect == "sqlite" else JSONB(none_as_null=True)
    if value is None:
        return Fragment("NULL" if dialect == "sqlite" else f"NULL::{_NONE.get(wanted, 'bigint')}", type_=type_)
    if has is not wanted:
        return Fragment("CAST({0} AS REAL)" if dialect == "sqlite" else "({0}::float8)", [value], type_=type_)
    return value


def shown(types: Mapping[str, ColumnType], row: Row[Any] | Sequence[Any]) -> ShownRow:
    """A row of a read, its values in the order of ``types``, as a caller sees it."""
    return {name: shown_value(value, type_) for (name, type_), value in zip(types.items(), row, strict=True)}


def shown_value(value: Any, type_: ColumnType) -> Any:
    if type_ in JSON_TYPES and isinstance(value, str):  # of SQLite
        return json.loads(value)
    return to_shown(value, type_)
