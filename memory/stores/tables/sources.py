"""Statements over several tables of the records: federated reads, joins and subqueries, as strictly bound as those of one table.

Each place that rows come from is a :meth:`Sources.rows`: a subquery on one table of one owner, whose tenant and owner are
parameters of its own. A statement may join, unite and nest these and nothing else. The guard looks at the whole statement and at
the values of all these parameters before it reaches the database.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from sqlalchemy import BindParameter, ColumnElement, CompoundSelect, Connection, Row, Select, Subquery, Table, bindparam, select
from sqlalchemy.sql import operators
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import BinaryExpression, ColumnClause, TextClause
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import CTE, Alias, FromClause, Join, SelectBase

from memory.model.owner import Owner, View
from memory.stores.tables.fragments import Fragment, is_closed
from memory.stores.tables.scoping import OPTION, PLAIN_SQL, RECORD_TABLES, Reach, Unscoped

_TENANT, _OWNER = "source_tenant_", "source_owner_"
_NUMBER = re.compile(r"source_(?:tenant|owner)_(\d+)")


class _Places(Reach):
    """The mark of such a statement: the tenants and owner keys that it may read."""

    __slots__ = ("pairs",)

    def __init__(self, owners: Sequence[Owner]) -> None:
        self.pairs = frozenset((owner.tenant, owner.key) for owner in owners)

    def check(self, compiled: Any, bound: Sequence[Mapping[str, Any]]) -> None:
        numbers = _known.get(compiled)
        if numbers is None:
            numbers = _known[compiled] = sources_in(compiled.statement)
        places = [(values.get(f"{_TENANT}{number}"), values.get(f"{_OWNER}{number}")) for values in bound for number in numbers]
        if not places or not self.pairs.issuperset(cast("Any", places)):
            raise Unscoped("a statement on the records lost its tenant or its owners")


_known: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()
"""By compiled statement, which SQLAlchemy keeps and uses again."""


class Sources:
    """One connection's way to the rows that a view shows, and to those that the deployment ships. For reading only."""

    __slots__ = ("_connection", "_count", "_owners", "_reach")

    def __init__(self, connection: Connection, view: View) -> None:
        if not isinstance(view, View):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Unscoped("rows of several owners are seen in a View")
        self._owners = (*view.owners, Owner.built_in())
        self._reach = _Places(self._owners)
        self._connection = connection
        self._count = 0

    @property
    def dialect(self) -> str:
        return self._connection.dialect.name

    @property
    def driver(self) -> Any:
        """The driver's own connection, for its limits."""
        return self._connection.connection.dbapi_connection

    @contextmanager
    def large(self) -> Generator[None]:
        """For joins: PostgreSQL takes the rows of one knowledge table for few, and would compare all pairs of two of them."""
        if self.dialect != "postgresql":
            yield
            return
        self._connection.exec_driver_sql("SET enable_nestloop = off")
        try:
            yield
        finally:
            if not self._connection.invalidated:
                self._connection.exec_driver_sql("RESET enable_nestloop")

    def rows(self, table: Table, owner: Owner, columns: Sequence[ColumnElement[Any]], *where: ColumnElement[bool]) -> Select[Any]:
        """What a statement may read from: these columns of the owner's rows. A part of a UNION, or by ``subquery()`` of a FROM."""
        if owner not in self._owners or table not in RECORD_TABLES:
            raise Unscoped("a view reads records of its own owners")
        number, self._count = self._count, self._count + 1
        return select(*columns).where(
            table.c.tenant == bindparam(f"{_TENANT}{number}", owner.tenant),
            table.c.owner_key == bindparam(f"{_OWNER}{number}", owner.key),
            *where,
        )

    def read(self, statement: Select[Any] | CompoundSelect[Any]) -> Sequence[Row[Any]]:
        """Run a SELECT over :meth:`rows` and nothing else."""
        if not isinstance(statement, Select | CompoundSelect):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Unscoped("records are read with a SELECT")
        return self._connection.execute(statement, execution_options={OPTION: self._reach}).all()


def sources_in(statement: Any) -> frozenset[int]:
    """The numbers of the places that a statement reads from. Raises Unscoped where it reads from anything else."""
    if not isinstance(statement, Select | CompoundSelect):
        raise Unscoped("records are read with a SELECT")
    found = set[int]()
    _walk(statement, found, {})
    return frozenset(found)


def _walk(part: Any, found: set[int], seen: dict[int, Any]) -> None:
    """``seen``: what was looked at, which the places of a chain of joins share many times over."""
    if id(part) in seen:
        return
    seen[id(part)] = part
    if isinstance(part, Select) and any(isinstance(one, Table) for one in part.get_final_froms()):
        found.add(_source(cast("Select[Any]", part)))
        return
    _refuse_plain_sql(part)
    if isinstance(part, ColumnClause):
        table: Any = part.table
        if table is not None and not isinstance(table, Subquery | CTE | Alias):
            raise Unscoped("a statement on the records reads from places that belong to an owner, and from nothing else")
    elif isinstance(part, FromClause | SelectBase) and not isinstance(part, _COMPOSED):
        raise Unscoped("a statement on the records reads from places that belong to an owner, and from nothing else")
    children = cast("Iterable[Any]", part.get_children())
    for child in children:
        _walk(child, found, seen)


_COMPOSED: Final = (Select, CompoundSelect, Subquery, CTE, Alias, Join, FunctionElement, SelectBase)


_FUNCTIONS: Final = frozenset(
    {"avg", "coalesce", "count", "instr", "json_extract", "knowledge_lower", "knowledge_upper", "knowledge_value", "length", "max"}
    | {"min", "row_number", "substr", "sum", "trim"}
)
"""There are functions that run SQL or read files."""


def _refuse_plain_sql(part: Any) -> None:
    name: str | None = getattr(part, "name", None)
    plain = isinstance(part, TextClause | UpdateBase) or any(getattr(part, name, None) for name in PLAIN_SQL)
    if isinstance(part, Fragment):
        plain |= not is_closed(part.template)
    elif isinstance(part, ColumnClause):
        plain |= part.is_literal
    elif isinstance(part, FunctionElement):
        plain |= name not in _FUNCTIONS
    if plain:
        raise Unscoped("a statement on the records with plain SQL cannot be narrowed to an owner")


def _source(made: Select[Any]) -> int:
    """The number of a place. Raises Unscoped for what is not one table under its own name, bound to one tenant and one owner."""
    froms = made.get_final_froms()
    if len(froms) != 1 or froms[0] not in RECORD_TABLES:
        raise Unscoped("a place that rows come from is one table of the records, without an alias or a join")
    table = froms[0]
    _look_inside(made, table, whole=made)
    number = _bound(made, table.c.tenant)
    if number is None or number != _bound(made, table.c.owner_key):
        raise Unscoped("a statement on the records lost its tenant or its owners")
    return number


def _look_inside(part: Any, table: Any, *, whole: Any) -> None:
    _refuse_plain_sql(part)
    if part is not whole and part is not table and not isinstance(part, FunctionElement):
        other = isinstance(part, FromClause | SelectBase) or (isinstance(part, ColumnClause) and part.table is not table)
        if other:
            raise Unscoped("a place that rows come from is one table of the records, without an alias or a join")
    if part is table:
        return
    children = cast("Iterable[Any]", part.get_children())
    for child in children:
        _look_inside(child, table, whole=whole)


def _bound(made: Select[Any], column: Any) -> int | None:
    """The number in the parameter that a column is compared with, among the conditions that all hold."""
    for condition in made._where_criteria:  # pyright: ignore[reportPrivateUsage]
        if not isinstance(condition, BinaryExpression) or condition.operator is not operators.eq or condition.left is not column:
            continue
        right: Any = condition.right
        match = _NUMBER.fullmatch(right.key) if isinstance(right, BindParameter) and not right.unique else None
        if match is not None and match[0].startswith("source_tenant") == (column.name == "tenant"):
            return int(match[1])
    return None
