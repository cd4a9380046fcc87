"""Rows of one table by their unique keys: the ones asked for, or page by page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, select

from memory.model.errors import StoreUnavailable
from memory.model.knowledge import MAX_LIMIT, SOURCE_FIELD, Row, Table
from memory.model.knowledge_values import MAX_INT, to_shown
from memory.model.owner import Owner, View
from memory.stores.tables.knowledge.catalogue import CONTACTS_ID, current, unknown_table
from memory.stores.tables.knowledge.stored import database_columns, shown_row
from memory.stores.tables.knowledge.work import ROWS, whole_number
from memory.stores.tables.rows_records import CONTACTS
from memory.stores.tables.scoping import Query, Records, batches

T = TypeVar("T")

_CONTACT: Final = CONTACTS.c
_TRIES: Final = 5


def rows_by_key(connection: Connection, table: Table, keys: Collection[int]) -> dict[int, Row]:
    """Those of the keys that there are."""
    wanted = sorted({key for key in keys if 0 <= key <= MAX_INT})

    def read(table: Table) -> dict[int, Row]:
        found: dict[int, Row] = {}
        for some in batches(wanted):
            rows = _rows(connection, table, _select(table).where(_key(table).in_(some)))
            found |= {row[table.unique_key]: row for row in rows}
        return found

    return _settled(connection, table, read)


def page(connection: Connection, view: View, table: Table, after: int | None, limit: int) -> list[Row]:
    """Upwards from the key after ``after``. Raises ToolProblem for a table that the view does not show."""
    whole_number(limit, "limit", least=1, most=MAX_LIMIT)
    if table.owner not in (*view.owners, Owner.built_in()):
        raise unknown_table(table.name, [])

    def read(table: Table) -> list[Row]:
        wanted = _select(table).order_by(_key(table)).limit(limit)
        return _rows(connection, table, wanted if after is None else wanted.where(_key(table) > after))

    return _settled(connection, table, read)


def _settled(connection: Connection, table: Table, read: Callable[[Table], T]) -> T:
    """What ``read`` gives for the table as it is now. Its columns may change between two statements: then it is read again."""
    if table.table_id == CONTACTS_ID:
        return read(table)
    for _ in range(_TRIES):
        now = current(connection, table)
        if now is None:
            raise unknown_table(table.name, [])
        found = read(now)
        after = current(connection, table)
        if after is not None and after.version == now.version:
            return found
    raise StoreUnavailable("the columns of a table are changing all the time")


def _select(table: Table) -> Query:
    if table.table_id == CONTACTS_ID:
        names = (_CONTACT[column.key] for column in table.columns)
        return select(_CONTACT.contact_id, *names).where(_CONTACT.merged_into.is_(None))
    return select(ROWS.row_key, *(ROWS[name] for name in database_columns(table.columns))).where(ROWS.table_id == table.table_id)


def _key(table: Table) -> Any:
    return _CONTACT.contact_id if table.table_id == CONTACTS_ID else ROWS.row_key


def _rows(connection: Connection, table: Table, wanted: Query) -> list[Row]:
    rows: list[Any] = [row._mapping for row in Records(connection, table.owner).rows(wanted)]  # pyright: ignore[reportPrivateUsage]
    show = _contact if table.table_id == CONTACTS_ID else shown_row
    return [show(table, row) for row in rows]


def _contact(table: Table, row: Mapping[str, Any]) -> Row:
    values = {column.name: to_shown(row[column.key], column.type) for column in table.columns}
    return {table.unique_key: row["contact_id"], **values, SOURCE_FIELD: table.source}
