"""Whose rows: the one place where statements on the records get their tenant and their owners.

The stores of facts, contacts, tasks, guidance and functions hold no bare connection. They hold a :class:`Records`, made from an
:class:`~memory.model.owner.Owner` or a :class:`~memory.model.owner.View`; it adds the tenant and the owners to every statement and
refuses one that it cannot add them to (a second table, a subquery, plain SQL). Writes take exactly one owner. Reads over several
tables are put together in :mod:`memory.stores.tables.sources`.

:func:`guard` watches the connections themselves: a statement on one of these tables that did not come from here, or that has lost
its condition, is refused before it reaches the database. What keeps the index (:class:`EveryOwner`) may read over owners, and only
read.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

from sqlalchemy import (
    JSON,
    Alias,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    event,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import ClauseElement, ColumnClause, TextClause
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import FromClause, SelectBase

from memory.model.erasure import user_hash
from memory.model.errors import BeingForgotten, InvalidInput, NotPermitted
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.stores.tables.fragments import Fragment, is_closed
from memory.stores.tables.rows_knowledge import KNOWLEDGE
from memory.stores.tables.rows_records import RECORD_OWNERS
from memory.stores.tables.rows_records import RECORD_TABLES as ITEM_TABLES
from memory.stores.tables.statements import FORGETTING

BATCH: Final = 500
"""Values in one statement: within the limits of every SQLite."""

_ROWS_AT_ONCE: Final = 250
_MAX_VARIABLES: Final = 32_766
"""Of a statement of SQLite."""

Query: TypeAlias = Select[*tuple[Any, ...]]

RECORD_TABLES: Final = ITEM_TABLES | KNOWLEDGE

OPTION: Final = "afterturn_reach"
_TENANT, _OWNERS = "reach_tenant", "reach_owners"
_COLUMNS = ("tenant", "owner_key")
PLAIN_SQL: Final = ("_prefixes", "_suffixes", "_hints", "_statement_hints")
_NAMES = re.compile(rf"\b(?:{'|'.join(sorted(table.name for table in RECORD_TABLES))})\b", re.IGNORECASE)


class Unscoped(NotPermitted):
    """A statement on the records that is not bound to a tenant and its owners: a fault of this program."""


class Reach(ABC):
    """A mark that looks at its statement itself (:mod:`memory.stores.tables.sources`)."""

    __slots__ = ()

    @abstractmethod
    def check(self, compiled: Any, bound: Sequence[Mapping[str, Any]]) -> None:
        """Raises Unscoped. ``bound``: the values of the parameters, for each run."""


@dataclass(frozen=True, slots=True)
class _Reach:
    """The mark that a statement carries. ``tenant`` None: reading over all owners, for the index."""

    tenant: str | None
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Bulk:
    """The mark of an INSERT that is written here, for the driver. Each row begins with this tenant and owner.

    ``width``: values of a row; the rows of one statement may come one behind the other.
    """

    sql: str
    place: tuple[str, str]
    width: int

    def check(self, sql: str, runs: Sequence[tuple[Any, ...]]) -> None:
        tenant, owner = self.place
        if len(runs) > 1 and set(map(len, runs)) == {self.width}:
            ours = set(map(itemgetter(0, 1), runs)) == {self.place}
        else:
            whole = all(len(run) % self.width == 0 for run in runs)
            ours = whole and all(set(run[:: self.width]) == {tenant} and set(run[1 :: self.width]) == {owner} for run in runs)
        if sql != self.sql or not ours:
            raise Unscoped("a statement on the records lost its tenant or its owners")


class Records:
    """One transaction's way to the rows of one owner, or (to read) to those of a view."""

    __slots__ = ("_connection", "_options", "_reach")

    def __init__(self, connection: Connection, whose: Owner | View) -> None:
        if isinstance(whose, Owner):
            self._reach = _Reach(whose.tenant, (whose.key,))
        elif isinstance(whose, View):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._reach = _Reach(whose.scope.tenant, tuple(owner.key for owner in whose.owners))
        else:
            raise Unscoped("records belong to an Owner or are seen in a View")
        self._connection = connection
        self._options = {OPTION: self._reach}

    @property
    def connection(self) -> Connection:
        """For tables that are not the records' own (term statistics)."""
        return self._connection

    def rows(self, statement: Query | Prepared, binds: Mapping[str, Any] | None = None) -> Sequence[Row[Any]]:
        """Run a SELECT of one table of the records, narrowed to these owners. ``binds``: of a prepared one."""
        if isinstance(statement, Prepared):
            mine = {_TENANT: self._reach.tenant, _OWNERS: self._reach.owners}
            return self._connection.execute(statement.narrowed, {**(binds or {}), **mine}, execution_options=self._options).all()
        table = _only_table(statement)
        return self._connection.execute(statement.where(*self._mine(table)), execution_options=self._options).all()

    def row(self, statement: Query | Prepared, binds: Mapping[str, Any] | None = None) -> Row[Any] | None:
        """At most one row."""
        found = self.rows(statement, binds) if isinstance(statement, Prepared) else self.rows(statement.limit(1))
        return found[0] if found else None

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows of this owner; they are given without tenant and owner."""
        key = self._key()
        _check_values(table, *rows)
        if rows:
            self._connection.execute(insert(table), [{**row, **key} for row in rows], execution_options=self._options)

    def insert_columns(self, table: Table, columns: Mapping[str, Sequence[Any]]) -> None:
        """Insert many rows of this owner, given as column → values, all of one length; a JSON value as its text.

        The driver gets them as they are: SQLAlchemy's work on each row takes longer than the database's.
        """
        key = self._key()
        _check_values(table, columns)
        known = {name: table.c[name] for name in columns}
        count = len(next(iter(columns.values()), ()))
        if not count:
            return
        mark = "?" if self._connection.dialect.name == "sqlite" else "%s"
        is_json = {name: isinstance(column.type, JSON) and mark == "%s" for name, column in known.items()}
        marks = [mark, mark, *(f"{mark}::jsonb" if is_json[name] else mark for name in columns)]
        # Names of this program's own tables and columns, and nothing of a caller.
        into = f"INSERT INTO {table.name} ({', '.join((*_COLUMNS, *columns))}) VALUES "  # noqa: S608
        one = f"({', '.join(marks)})"
        place = (key["tenant"], key["owner_key"])
        rows = list(zip(repeat(place[0], count), repeat(place[1], count), *columns.values(), strict=True))
        # A run of SQLite's statement for every row is a third of its time.
        while mark == "?" and len(rows) >= _ROWS_AT_ONCE and len(marks) * _ROWS_AT_ONCE <= _MAX_VARIABLES:
            sql = into + ", ".join(repeat(one, _ROWS_AT_ONCE))
            some = tuple(chain.from_iterable(rows[:_ROWS_AT_ONCE]))
            self._connection.exec_driver_sql(sql, some, {OPTION: _Bulk(sql, place, len(marks))})
            del rows[:_ROWS_AT_ONCE]
        if rows:
            self._connection.exec_driver_sql(into + one, rows, {OPTION: _Bulk(into + one, place, len(marks))})

    def update(self, table: Table, *where: ColumnElement[bool], values: Mapping[str, Any]) -> int:
        """Change rows of this owner. Returns how many."""
        self._key()
        _check_values(table, values)
        _check_parts(table, *where, *values.values())
        statement = update(table).where(*where, *self._mine(table)).values(values)
        return self._connection.execute(statement, execution_options=self._options).rowcount

    def run(self, change: PreparedUpdate, binds: Mapping[str, Any]) -> int:
        """Change rows of this owner. Returns how many."""
        self._key()
        mine = {_TENANT: self._reach.tenant, _OWNERS: self._reach.owners}
        return self._connection.execute(change.narrowed, {**binds, **mine}, execution_options=self._options).rowcount

    def delete(self, table: Table, *where: ColumnElement[bool]) -> int:
        """Delete rows of this owner. Returns how many."""
        self._key()
        _check_parts(table, *where)
        statement = delete(table).where(*where, *self._mine(table))
        return self._connection.execute(statement, execution_options=self._options).rowcount

    def insert_from(self, table: Table, *where: ColumnElement[bool], values: Mapping[str, Any]) -> int:
        """Add rows made of rows of this owner in the same table; those whose key is there are left out. Returns how many."""
        self._key()
        _check_values(table, values)
        _check_parts(table, *where, *values.values())
        parts = [value if isinstance(value, ClauseElement) else literal(value) for value in values.values()]
        made = select(table.c.tenant, table.c.owner_key, *cast("Any", parts)).where(*where, *self._mine(table))
        upsert: Any = sqlite.insert if self._connection.dialect.name == "sqlite" else postgresql.insert
        statement = upsert(table).from_select([*_COLUMNS, *values], made).on_conflict_do_nothing()
        return self._connection.execute(statement, execution_options=self._options).rowcount

    def update_from(
        self,
        table: Table,
        *where: ColumnElement[bool],
        other: FromClause,
        on: Sequence[ColumnElement[bool]],
        value: ColumnElement[Any],
        values: Callable[[ColumnElement[Any]], Mapping[str, Any]],
    ) -> int:
        """Change rows of this owner by a ``value`` of the one row of the same owner, in the same table, that ``on`` takes.

        Args:
            other: another name of ``table``.
            values: what the columns get, made from that value; NULL where there is no such row.
        """
        self._key()
        if not isinstance(other, Alias) or other.element is not table:
            raise Unscoped(f"rows of {table.name} are changed by rows of the same table")
        _check_values(table, values(value))
        _check_parts(table, *where, *on, value, *values(value).values(), also=other)
        # The other row is of the owner that this one is of, and this one is narrowed. A subquery, because a planner that knows
        # nothing of a table yet may join row by row without the key.
        same = [other.c[name] == table.c[name] for name in _COLUMNS]
        found = select(value).where(*same, *on).correlate(table).scalar_subquery()
        statement = update(table).where(*where, *self._mine(table)).values(values(found))
        return self._connection.execute(statement, execution_options=self._options).rowcount

    def lock(self, *, upkeep: bool = False) -> Row[Any]:
        """The owner's own row, made where it is missing and held until commit: one writer per owner, others wait.

        Args:
            upkeep: nothing of the user's is written here, only what the index holds is noted.

        Raises BeingForgotten: all that the owner, a user, has is being deleted.
        """
        key = self._key()
        taken = _LOCK_SQLITE if self._connection.dialect.name == "sqlite" else _LOCK_POSTGRES
        new = {**key, "last_contact_id": -1, "last_change": 0, "b_tenant": key["tenant"], "b_user_hash": _user_hash(**key)}
        row = self._connection.execute(taken, new, execution_options=self._options).one()
        if row.forgetting and not upkeep:
            raise BeingForgotten
        return row

    def _mine(self, table: Table) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        _check_is_ours(table)
        return (
            table.c.tenant == bindparam(_TENANT, self._reach.tenant),
            table.c.owner_key.in_(bindparam(_OWNERS, self._reach.owners, expanding=True)),
        )

    def _key(self) -> dict[str, Any]:
        """Of the one owner that is written to."""
        if len(self._reach.owners) != 1:
            raise Unscoped("records are written as one Owner, not in a View")
        return {"tenant": self._reach.tenant, "owner_key": self._reach.owners[0]}


class Prepared:
    """A SELECT of one table of the records that is run often: checked, narrowed and compiled once. What differs between runs is a
    ``bindparam`` in it."""

    __slots__ = ("narrowed",)

    def __init__(self, statement: Query) -> None:
        table = _only_table(statement)
        self.narrowed = statement.where(
            table.c.tenant == bindparam(_TENANT), table.c.owner_key.in_(bindparam(_OWNERS, expanding=True))
        )


class PreparedUpdate:
    """As :class:`Prepared`, an UPDATE. ``values``: column → the name of the ``bindparam`` that it gets."""

    __slots__ = ("narrowed",)

    def __init__(self, table: Table, *where: ColumnElement[bool], values: Mapping[str, str]) -> None:
        _check_values(table, values)
        _check_parts(table, *where)
        mine = (table.c.tenant == bindparam(_TENANT), table.c.owner_key.in_(bindparam(_OWNERS, expanding=True)))
        given = {column: bindparam(name, type_=table.c[column].type) for column, name in values.items()}
        self.narrowed = update(table).where(*where, *mine).values(given)


class EveryOwner:
    """Reading over all owners: what waits for the index, what the index should hold. Never on behalf of a user."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: Query) -> Sequence[Row[Any]]:
        _only_table(statement)
        return self._connection.execute(statement, execution_options={OPTION: _Reach(None)}).all()


def _lock(upsert: Any) -> Any:
    taken = upsert(RECORD_OWNERS)
    return taken.on_conflict_do_update(
        index_elements=list(_COLUMNS),
        set_={"tenant": taken.excluded.tenant},
        where=RECORD_OWNERS.c.tenant == taken.excluded.tenant,
    ).returning(RECORD_OWNERS, FORGETTING.scalar_subquery().label("forgetting"))


def _user_hash(tenant: str, owner_key: str) -> str:
    owner = Owner.of_key(tenant, owner_key)
    return user_hash(Scope(tenant, owner.name)) if owner.kind == "u" else ""


_LOCK_SQLITE, _LOCK_POSTGRES = _lock(sqlite.insert), _lock(postgresql.insert)


def batches(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]


def _only_table(statement: Query) -> Table:
    """The one table of the records that a SELECT is about."""
    if not isinstance(statement, Select):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Unscoped("records are read with a SELECT")
    return _table_of(statement)


def _check_is_ours(table: Table) -> None:
    if table not in RECORD_TABLES:
        raise Unscoped(f"{table.name} is not a table of the records")


def _table_of(statement: ClauseElement, found: Table | None = None, also: FromClause | None = None) -> Table:
    """Looks at every part of a statement: there is one table in it (``found``, if given), and nothing that could be about other
    rows. ``also``: another name of it, whose rows are narrowed where it is given."""
    whole = statement if found is None else None
    if any(getattr(statement, name, None) for name in PLAIN_SQL):
        raise Unscoped("a statement on the records with plain SQL cannot be narrowed to an owner")
    for part in visitors.iterate(statement):
        if part is whole:
            continue
        table = cast("Any", part.table if isinstance(part, ColumnClause) else part if isinstance(part, Table) else None)
        plain = isinstance(part, TextClause) or (isinstance(part, ColumnClause) and part.is_literal)
        if plain or (isinstance(part, Fragment) and not is_closed(part.template)):
            raise Unscoped("a statement on the records with plain SQL cannot be narrowed to an owner")
        if table is None and (isinstance(part, FunctionElement) or not isinstance(part, FromClause | SelectBase)):
            continue
        if also is not None and (part is also or table is also):
            continue
        if not isinstance(table, Table) or (found is not None and table is not found):
            raise Unscoped("a statement on the records is about one table, without an alias, a join or a subquery")
        found = cast("Table[Any]", table)
    if found is None:
        raise Unscoped("a statement on the records is about one table")
    _check_is_ours(found)
    return found


def _check_parts(table: Table, *parts: Any, also: FromClause | None = None) -> None:
    """Conditions and new values of a change speak of this table alone, and of its other name."""
    for part in parts:
        if isinstance(part, ClauseElement) and _table_of(part, table, also) is not table:
            raise Unscoped(f"a statement on {table.name} names another table")


def _check_values(table: Table, *rows: Mapping[str, Any]) -> None:
    _check_is_ours(table)
    if any(name in row for row in rows for name in _COLUMNS):
        raise Unscoped(f"a row of {table.name} gets its owner from the scope, and keeps it")


# ------------------------------------------------------------------------------------------------------------------- guard

_touching: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""By compiled statement, which SQLAlchemy keeps and uses again."""


def guard(engine: Engine) -> None:
    """From now on connections of this engine refuse unscoped statements on the records; calling it again changes nothing."""
    if not event.contains(engine, "before_cursor_execute", _check):
        event.listen(engine, "before_cursor_execute", _check)


def _check(connection: Connection, cursor: Any, sql: str, parameters: Any, context: Any, executemany: bool) -> None:
    if getattr(context, "isddl", False):
        return
    compiled = getattr(context, "compiled", None)
    reach: Any = getattr(context, "execution_options", {}).get(OPTION)
    if compiled is not None and isinstance(reach, Reach):
        reach.check(compiled, context.compiled_parameters)
        return
    if compiled is None:
        touches = _NAMES.search(sql) is not None
    else:
        known = _touching.get(compiled)
        touches = _touches(compiled.statement) if known is None else known
        if known is None:
            _touching[compiled] = touches
    if not touches:
        return
    if compiled is None and isinstance(reach, _Bulk):
        reach.check(sql, parameters if executemany else [parameters])
        return
    if compiled is None or not isinstance(reach, _Reach):
        raise Unscoped("a statement on the records was not made by memory.stores.tables.scoping")
    if reach.tenant is None:
        if not isinstance(compiled.statement, Select):
            raise Unscoped("records of all owners can only be read")
        return
    bound: Sequence[Mapping[str, Any]] = context.compiled_parameters
    if not bound or not all(_is_bound(values, reach) for values in bound):
        raise Unscoped("a statement on the records lost its tenant or its owners")


def _touches(statement: Any) -> bool:
    for part in visitors.iterate(statement):
        if isinstance(part, Table) and part.metadata is RECORD_OWNERS.metadata:
            if part in RECORD_TABLES:
                return True
        elif _NAMES.search(_text_of(part)):
            return True
    return False


def _text_of(part: Any) -> str:
    """What a part of a statement puts into the SQL as it is."""
    if isinstance(part, TextClause):
        return part.text
    if isinstance(part, Fragment):
        return part.template
    return part.name if isinstance(part, ColumnClause) and part.is_literal else ""


def _is_bound(values: Mapping[str, Any], reach: _Reach) -> bool:
    if _TENANT in values:
        # SQLAlchemy numbers the values of an IN.
        bound = (values.get(f"{_OWNERS}_{number}") for number in range(1, len(reach.owners) + 2))
        return values[_TENANT] == reach.tenant and tuple(bound) == (*reach.owners, None)
    return values.get("tenant") == reach.tenant and (values.get("owner_key"),) == reach.owners


def checked_limit(limit: int) -> int:
    if limit < 1:
        raise InvalidInput(f"the limit must be at least 1, not {limit}")
    return limit


def exists(records: Records, table: Table, *where: ColumnElement[bool]) -> bool:
    return records.row(select(table.c.tenant).where(*where)) is not None
