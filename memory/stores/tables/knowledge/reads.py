"""Reading knowledge tables: ``filter``, ``reduce`` and joins, all in the database."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from sqlalchemy import Connection, select

from memory.model.expression import Expression, parse_expression
from memory.model.federation import LEFT_OUT, together
from memory.model.knowledge import (
    MAX_LIMIT,
    Distances,
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

MAX_TABLES_PER_READ: Final = 100
MAX_OFFSET: Final = 10_000_000
MAX_DISTANCES: Final = 20_000


class KnowledgeReads:
    """Reads of a view. Every statement is bounded in time and in rows."""

    def __init__(self, database: Database, *, timeout_s: float = STATEMENT_TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s
        guard(database.engine)

    async def filter(self, view: View, query: FilterQuery) -> Mapping[str, Sequence[Row]]:
        """Per table the rows that the filter takes, newest key first.

        A table that does not go with the others of its name is one of its own, by its source. Where no tables are named, those that
        the filter does not go with are left out; those that have its columns, in other types, are in ``_left_out``, which say why.

        """
        limit, offset = checked_page(query.limit, query.offset)

        def work(connection: Connection) -> dict[str, Sequence[Row]]:
            sources = Sources(connection, view)
            found: dict[str, Sequence[Row]] = {}
            left_out: list[Row] = []
            problems: list[ToolProblem] = []
            for name, tables in _asked(connection, view, query.tables).items():
                whole = together(tables)
                for number, (part, among) in enumerate([(name, whole.tables), *((o.name, (o.table,)) for o in whole.left_out)]):
                    one = relation(sources, part, among)
                    try:
                        wanted = None if query.filter is None else parse_expression(query.filter, one.types)
                    except ToolProblem as problem:
                        if query.tables is not None and number == 0:
                            raise
                        problems.append(problem)
                        if problem.code != "unknown_column" or query.tables is not None:
                            left_out.append({"table": part, "why": problem.message})
                        continue
                    found[part] = self._page(sources, one, wanted, limit, offset, query.only)
            if problems and not found:
                raise next((one for one in problems if one.code != "unknown_column"), problems[-1])
            return found | {LEFT_OUT: left_out} if left_out else found

        return await self._database.read(work)

    async def reduce(self, view: View, query: ReduceQuery) -> Any:
        """See :func:`memory.stores.tables.knowledge.reducing.reduce`. Of the tables that go together, see :func:`together`."""

        def work(connection: Connection) -> Any:
            sources = Sources(connection, view)
            tables = resolve_all(connection, view, (query.table,))[query.table]
            one = relation(sources, query.table, together(tables).tables)
            return reducing.reduce(sources, one, query, timeout_s=self._timeout_s)

        return await self._database.read(work)

    async def join(self, view: View, query: JoinQuery) -> Sequence[Row]:
        """Rows of the last step, newest first by its left table, then its right one. Of the tables that go together."""
        limit, offset = checked_page(query.result_limit, query.result_offset)
        return await self._joined(view, query.joins, (), query.result_where, limit, offset, what="result_where")

    async def join_ranked(
        self, view: View, steps: Sequence[JoinStep], distances: Sequence[Distances], *, where: str | None = None, k: int = 10
    ) -> Sequence[Row]:
        """The ``k`` rows of a join with the smallest sum of distances, of equal ones the newest first.

        ``where``: over the selected names of the last step.
        """
        limit, _ = checked_page(k, 0)
        if sum(len(one.rows) for one in distances) > MAX_DISTANCES:
            raise ToolProblem("too_large", f"at most {MAX_DISTANCES} rows are ranked in one search")
        return await self._joined(view, steps, distances, where, limit, 0, what="filter")

    async def _joined(
        self,
        view: View,
        steps: Sequence[JoinStep],
        distances: Sequence[Distances],
        condition: str | None,
        limit: int,
        offset: int,
        *,
        what: str,
    ) -> Sequence[Row]:
        names = joins.tables_in(steps)

        def work(connection: Connection) -> list[Row]:
            seen = resolve_all(connection, view, names)
            plan = joins.JoinPlan(steps, {name: together(tables).tables for name, tables in seen.items()})
            where = None if condition is None else parse_expression(condition, plan.types, what=what)
            sources = Sources(connection, view)
            dialect = sources.dialect

            def build(safe: bool) -> Any:
                joined = plan.build(sources, safe=safe)
                far = [joins.distance(joined, one, plan.tables.get(one.table, ()), dialect) for one in distances]
                order = [reduce(operator.add, far), *joined.order] if far else joined.order
                wanted = select(*joined.columns.values()).order_by(*order).limit(limit).offset(offset)
                return wanted if where is None else wanted.where(compile_condition(where, joined.columns, dialect, safe=safe))

            with sources.large():
                return [shown(plan.types, row) for row in run(sources, build, timeout_s=self._timeout_s)]

        return await self._database.read(work)

    def _page(
        self,
        sources: Sources,
        one: Relation,
        wanted: Expression | None,
        limit: int,
        offset: int,
        only: Mapping[str, Collection[int]] | None,
    ) -> list[Row]:
        def build(safe: bool) -> Any:
            statement = select(*one.selected).order_by(*one.order).limit(limit).offset(offset)
            if only is not None:
                statement = statement.where(one.among(only))
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
