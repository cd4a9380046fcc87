"""Row-level scoping: the one place where statements on the record tables are made.

Every statement comes from a :class:`Rows` and carries the condition on tenant and owner. A statement on one of these tables that
was not made here is refused when it is run (:func:`guard`), so no query can go round it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Connection,
    Delete,
    Engine,
    Executable,
    Insert,
    Select,
    Table,
    Update,
    delete,
    event,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import visitors

from memory.model.errors import NotPermitted
from memory.model.owner import Owner, View
from memory.stores.tables.rows_records import RECORD_TABLES

_MARK = "afterturn_scoped"


class Rows:
    """The rows of one owner, or of all owners that a user may see (then for reading only)."""

    def __init__(self, whose: Owner | View) -> None:
        self._owners = (whose,) if isinstance(whose, Owner) else whose.owners
        self._tenant = self._owners[0].tenant
        self._writable = isinstance(whose, Owner)

    @property
    def owner(self) -> Owner:
        return self._owners[0]

    def _mine(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        keys = [owner.key for owner in self._owners]
        owned = table.c.owner == keys[0] if len(keys) == 1 else table.c.owner.in_(keys)
        return table.c.tenant == self._tenant, owned

    def select(self, table: Table, *columns: Any) -> Select[Any]:
        return select(*(columns or (table,))).where(*self._mine(table)).execution_options(**{_MARK: True})

    def update(self, table: Table) -> Update:
        self._for_writing()
        return update(table).where(*self._mine(table)).execution_options(**{_MARK: True})

    def delete(self, table: Table) -> Delete:
        self._for_writing()
        return delete(table).where(*self._mine(table)).execution_options(**{_MARK: True})

    def insert(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows of this owner; their own ``tenant`` and ``owner`` are not asked for."""
        if rows:
            connection.execute(_insert(connection, table), [self._owned(row) for row in rows])

    def insert_new(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
        """The same, leaving rows alone whose key is there. Returns how many were new."""
        added = 0
        for row in rows:
            statement = _insert(connection, table).on_conflict_do_nothing()
            added += connection.execute(statement, self._owned(row)).rowcount > 0
        return added

    def _owned(self, row: Mapping[str, Any]) -> dict[str, Any]:
        self._for_writing()
        return {**row, "tenant": self._tenant, "owner": self.owner.key}

    def _for_writing(self) -> None:
        if not self._writable:
            raise NotPermitted("what a user may see is not all the user's own: writes name one owner")


def over_everybody(statement: Any, *, reason: str) -> Any:
    """Let a statement of the index's upkeep run over all owners. Its rows go to the index, never to a user.

    ``reason``: for whoever reads the code; not empty.
    """
    if not reason:
        raise NotPermitted("a statement over everybody says why")
    return statement.execution_options(**{_MARK: True})


def guard(engine: Engine) -> None:
    """Refuse statements on record tables that were not made here. May be called again."""
    if not event.contains(engine, "before_execute", _check):
        event.listen(engine, "before_execute", _check)


def _check(
    connection: Connection, statement: Executable, multiparams: Any, params: Any, execution_options: Mapping[str, Any]
) -> None:
    if execution_options.get(_MARK) or statement.get_execution_options().get(_MARK):
        return
    touched = _tables(statement) & RECORD_TABLES
    if touched:
        names = ", ".join(sorted(table.name for table in touched))
        raise NotPermitted(f"a statement on {names} without a scope: build it with memory.stores.tables.scoping")


def _tables(statement: Any) -> AbstractSet[Any]:
    if not isinstance(statement, ClauseElement):
        return frozenset()
    target = {statement.table} if isinstance(statement, Insert | Update | Delete) else set[Any]()
    return target | {part for part in visitors.iterate(statement) if isinstance(part, Table)}


def _insert(connection: Connection, table: Table) -> Any:
    made: Any = sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
    return made.execution_options(**{_MARK: True})
