"""Reading knowledge tables: ``filter``, ``reduce`` and joins, all in the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, select

from memory.model.expression import Expression, parse_expression
from memory.model.knowledge import (
    MAX_LIMIT,
    FilterQuery,
    JoinQuery,
    JoinStep,
    ReduceQuery,
    Row,
    Table,
    ToolProblem,
)
from memory.model.knowledge_names import name_key
from memory.model.owner import View
from memory.stores.tables.engine import STATEMENT_TIMEOUT_S, Database
from memory.stores.tables.knowledge import joins, reducing
from memory.stores.tables.knowledge.catalogue import resolve_all, tables_of
from memory.stores.tables.knowledge.compile import compile_condition
from memory.stores.tables.knowledge.relation import Relation, relation, shown
from memory.stores.tables.knowledge.running import run
from memory.stores.tables.scoping import guard
from memory.stores.tables.sources import Sources

T = TypeVar("T")

MAX_TABLES_PER_READ: Final = 100
MAX_OFFSET: Final = 10_000_000


class KnowledgeReads:
    """Reads of a view. Every statement is bounded in time and in rows."""

    def __init__(self, database: Database, *, timeout_s: float = STATEMENT_TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s
        guard(database.engine)

    async def filter(self, view: View, query: FilterQuery) -> Mapping[str, Sequence[Row]]:
        """Per table the rows that the filter takes, newest key first.

        Where no tables are named, those without the filter's columns are left out.
        """
        limit, offset = checked_page(query.limit, query.offset)

        def work(connection: Connection) -> dict[str, list[Row]]:
            sources = Sources(connection, view)
            found: dict[str, list[Row]] = {}
            missing: ToolProblem | None = None
            for name, tables in _asked(connection, view, query.tables).items():
                one = relation(sources, name, tables)
                try:
                    wanted = None if query.filter is None else parse_expression(query.filter, one.types)
                except ToolProblem as problem:
                    if query.tables is not None or problem.code != "unknown_column":
                        raise
                    missing = problem
                    continue
                found[name] = self._page(sources, one, wanted, limit, offset)
            if missing is not None and not found:
                raise missing
            return found

        return await self._database.read(work)

    async def reduce(self, view: View, query: ReduceQuery) -> Any:
        """See :func:`memory.stores.tables.knowledge.reducing.reduce`."""

        def work(connection: Connection) -> Any:
            sources = Sources(connection, view)
            tables = resolve_all(connection, view, (query.table,))[query.table]
            return reducing.reduce(sources, relation(sources, query.table, tables), query, timeout_s=self._timeout_s)

        return await self._database.read(work)

    async def join(self, view: View, query: JoinQuery) -> Sequence[Row]:
        """Rows of the last step, newest first by its left table, then its right one."""
        limit, offset = checked_page(query.result_limit, query.result_offset)

        def ask(sources: Sources, plan: joins.JoinPlan) -> list[Row]:
            where = None if query.result_where is None else parse_expression(query.result_where, plan.types, what="result_where")

            def build(safe: bool) -> Any:
                joined = plan.build(sources, safe=safe)
                wanted = select(*joined.columns.values()).order_by(*joined.order).limit(limit).offset(offset)
                if where is None:
                    return wanted
                return wanted.where(compile_condition(where, joined.columns, sources.dialect, safe=safe))

            return [shown(plan.types, row) for row in run(sources, build, timeout_s=self._timeout_s)]

        return await self._read_joined(view, query.joins, ask)

    async def _read_joined(self, view: View, steps: Sequence[JoinStep], ask: Callable[[Sources, joins.JoinPlan], T]) -> T:
        names = joins.tables_in(steps)

        def work(connection: Connection) -> T:
            plan = joins.JoinPlan(steps, resolve_all(connection, view, names))
            return ask(Sources(connection, view), plan)

        return await self._database.read(work)

    def _page(self, sources: Sources, one: Relation, wanted: Expression | None, limit: int, offset: int) -> list[Row]:
        def build(safe: bool) -> Any:
            statement = select(*one.selected).order_by(*one.order).limit(limit).offset(offset)
            if wanted is None:
                return statement
            return statement.where(compile_condition(wanted, one.columns, sources.dialect, safe=safe))

        return [one.shown(row) for row in run(sources, build, timeout_s=self._timeout_s)]


def _asked(connection: Connection, view: View, names: Sequence[str] | None) -> Mapping[str, Sequence[Table]]:
    if names is not None:
        if isinstance(names, str) or len(names) > MAX_TABLES_PER_READ:
            raise ToolProblem("bad_arguments", f"tables is a list of at most {MAX_TABLES_PER_READ} names")
        return resolve_all(connection, view, names)
    seen: dict[str, list[Table]] = {}
    for table in tables_of(connection, view):
        seen.setdefault(name_key(table.name), []).append(table)
    if len(seen) > MAX_TABLES_PER_READ:
        raise ToolProblem("too_large", f"there are {len(seen)} tables; name those to read, at most {MAX_TABLES_PER_READ} at once")
    return {tables[0].name: tables for tables in seen.values()}


def checked_page(limit: int, offset: int) -> tuple[int, int]:
    """Raises ToolProblem (``bad_arguments``)."""
    for name, value, least, most in (("limit", limit, 1, MAX_LIMIT), ("offset", offset, 0, MAX_OFFSET)):
        is_int = isinstance(value, int) and not isinstance(value, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_int or not least <= value <= most:
            raise ToolProblem("bad_arguments", f"{name} is an int from {least} to {most}")
    return limit, offset
