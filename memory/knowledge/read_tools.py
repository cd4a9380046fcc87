"""Tools that read: overview, filter, reduce, search and the joins. None of them can change a row or a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from memory.knowledge.arguments import Names, Texts
from memory.knowledge.search import KnowledgeSearch
from memory.model.federation import LEFT_OUT, together
from memory.model.knowledge import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    PERSONAL,
    FilterQuery,
    JoinQuery,
    JoinStep,
    ReduceQuery,
    Row,
    SearchQuery,
    Table,
    ToolProblem,
)
from memory.model.knowledge_names import name_key
from memory.model.owner import View
from memory.ports.knowledge import KnowledgeTables

MAX_JOINS: Final = 8
MAX_K: Final = 1_000
MAX_REFERENCES: Final = 8
MAX_REFERENCE_CHARS: Final = 8_000

Mode = Literal["inner", "left", "right", "outer"]
MetricName = Literal["sum", "mean", "var", "std", "min", "max", "median", "mode", "count"]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
Offset = Annotated[int, Field(ge=0, le=10_000_000)]
K = Annotated[int, Field(ge=1, le=MAX_K)]


class Join(BaseModel):
    """One step of a chain."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    tables: Names = Field(
        description="Two table names; from the second step on, one of them may be `$prev`: the result of the step before."
    )
    join_expr: str = Field(description="When two rows belong together, for instance `A.x == B.y` or `$prev.x == B.y`.")
    select: Texts = Field(description="Column of one of the two → name in the result, for instance `{'A.x': 'x'}`.")
    mode: Mode = "inner"
    left_where: str | None = Field(default=None, description="Filter on the first table, before the join.")
    right_where: str | None = Field(default=None, description="Filter on the second table, before the join.")

    def step(self) -> JoinStep:
        return JoinStep(tuple(self.tables), self.join_expr, self.select, self.mode, self.left_where, self.right_where)


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, Mapping) else value


Joins = Annotated[list[Join], BeforeValidator(_one_or_many)]


class ReadTools:
    """For one view."""

    def __init__(self, tables: KnowledgeTables, search: KnowledgeSearch, view: View) -> None:
        self._tables = tables
        self._search = search
        self._view = view

    async def tables_overview(self, *, include_column_info: bool = True) -> dict[str, dict[str, Any]]:
        """All tables with their descriptions and columns.

        Args:
            include_column_info: with the columns and their types; false gives names and descriptions alone.

        Returns:
            {table: {"description", "columns": {name: type}}}; "sources" where a table is not only the user's own.
        """
        return overview(await self._tables.tables(self._view), include_column_info=include_column_info)

    async def filter(
        self,
        *,
        filter: str | None = None,  # noqa: A002 - the contract's name
        offset: Offset = 0,
        limit: Limit = DEFAULT_LIMIT,
        tables: Names | None = None,
    ) -> Mapping[str, Sequence[Row]]:
        """Rows that an exact condition holds for, newest first. Not for questions about meaning: those go through search.

        Args:
            filter: A Python expression over column names, for instance ``year >= 2020 and name.startswith('B')``.
                Left out: all rows.
            offset: Rows of each table to leave out.
            limit: Rows of each table, at most 1000.
            tables: Names of tables; left out: all.

        Returns:
            {table: [row, …]}; each row with its key and "_source".
        """
        return await self._tables.filter(self._view, FilterQuery(filter, offset, limit, tables))

    async def reduce(
        self,
        *,
        table: str,
        metric: MetricName,
        keys: str | list[str],
        filter: str | dict[str, str] | None = None,  # noqa: A002 - the contract's name
        group_by: str | list[str] | None = None,
    ) -> Any:
        """Count, add up or average columns of a table, in groups if wanted. Never count rows by reading them: use this.

        Args:
            table: The table.
            metric: What is computed. var and std are of the population.
            keys: One column, or several. With count, the values that are there are counted.
            filter: A Python expression over column names, or one for each key.
            group_by: A column, or several for nested groups.

        Returns:
            One key gives a value, several give {key: value}; with group_by {group: …}, nested for several. Rows without a value
            are in the group "None" ("null" where a text of the column is "None").
        """
        found = await self._tables.reduce(self._view, ReduceQuery(table, metric, keys, filter, group_by))
        return await self._told([table], "result", found)

    async def search(
        self,
        *,
        table: str,
        references: Texts,
        k: K = 10,
        filter: str | None = None,  # noqa: A002 - the contract's name
    ) -> Sequence[Row]:
        """The rows that mean most nearly what is asked for. For every question about what free text says, in any words or language.

        Args:
            table: The table.
            references: Expression over its columns → the text that it should be like, for instance
                ``{'description': 'fast cars'}``. The distances of several are added up.
            k: Rows, at most 1000.
            filter: A Python expression that the rows must fulfil as well.

        Returns:
            [row, …], the nearest first; filled up to k with the newest rows that have nothing to compare.
        """
        return await self._search.search(self._view, SearchQuery(references=_checked(references), table=table, k=k, filter=filter))

    async def filter_join(
        self,
        *,
        tables: Names,
        join_expr: str,
        select: Texts,
        mode: Mode = "inner",
        left_where: str | None = None,
        right_where: str | None = None,
        result_where: str | None = None,
        result_limit: Limit = DEFAULT_LIMIT,
        result_offset: Offset = 0,
    ) -> Sequence[Row]:
        """Rows of two tables put together.

        Args:
            tables: Two names, left and right.
            join_expr: When two rows belong together, for instance ``A.x == B.y``.
            select: Column → name in the result, for instance ``{'A.x': 'x', 'B.name': 'name'}``.
            mode: inner, left, right or outer.
            left_where: Filter on the first table, before the join.
            right_where: Filter on the second table, before the join.
            result_where: Filter on the result, over the names in it.
            result_limit: Rows, at most 1000.
            result_offset: Rows to leave out.
        """
        step = JoinStep(tuple(tables), join_expr, select, mode, left_where, right_where)
        found = await self._tables.join(self._view, JoinQuery((step,), result_where, result_limit, result_offset))
        return await self._told(tables, "rows", found)

    async def search_join(
        self,
        *,
        tables: Names,
        join_expr: str,
        select: Texts,
        mode: Mode = "inner",
        left_where: str | None = None,
        right_where: str | None = None,
        references: Texts,
        k: K = 10,
        filter: str | None = None,  # noqa: A002 - the contract's name
    ) -> Sequence[Row]:
        """Rows of two tables put together, those that mean most nearly what is asked for.

        Args:
            tables: Two names, left and right.
            join_expr: When two rows belong together, for instance ``A.x == B.y``.
            select: Column → name in the result.
            mode: inner, left, right or outer.
            left_where: Filter on the first table, before the join.
            right_where: Filter on the second table, before the join.
            references: Expression over names of the result → the text that it should be like; each over columns of one table.
            k: Rows, at most 1000.
            filter: A Python expression over the names of the result.
        """
        step = JoinStep(tuple(tables), join_expr, select, mode, left_where, right_where)
        query = SearchQuery(references=_checked(references), joins=(step,), k=k, filter=filter)
        return await self._told(tables, "rows", await self._search.search(self._view, query))

    async def filter_multi_join(
        self,
        *,
        joins: Joins,
        result_where: str | None = None,
        result_limit: Limit = DEFAULT_LIMIT,
        result_offset: Offset = 0,
    ) -> Sequence[Row]:
        """Rows of three and more tables put together, step by step.

        Args:
            joins: The steps, in order; each names the result of the one before with ``$prev``.
            result_where: Filter on the last result, over the names in it.
            result_limit: Rows, at most 1000.
            result_offset: Rows to leave out.
        """
        steps = _steps(joins)
        found = await self._tables.join(self._view, JoinQuery(steps, result_where, result_limit, result_offset))
        return await self._told([name for step in steps for name in step.tables], "rows", found)

    async def search_multi_join(
        self,
        *,
        joins: Joins,
        references: Texts,
        k: K = 10,
        filter: str | None = None,  # noqa: A002 - the contract's name
    ) -> Sequence[Row]:
        """Rows of three and more tables put together, those that mean most nearly what is asked for.

        Args:
            joins: The steps, in order; each names the result of the one before with ``$prev``.
            references: Expression over names of the last result → the text that it should be like; each over columns of one table.
            k: Rows, at most 1000.
            filter: A Python expression over the names of the last result.
        """
        steps = _steps(joins)
        query = SearchQuery(references=_checked(references), joins=steps, k=k, filter=filter)
        found = await self._search.search(self._view, query)
        return await self._told([name for step in steps for name in step.tables], "rows", found)

    async def _told(self, names: Sequence[str], what: str, found: Any) -> Any:
        """The result; where tables of these names were left out of it, beside which they are and why."""
        seen = await self._tables.tables(self._view)
        same = [[one for one in seen if name_key(one.name) == name_key(name)] for name in dict.fromkeys(names)]
        left_out = [one.shown() for tables in same for one in together(tables).left_out]
        return {what: found, LEFT_OUT: left_out} if left_out else found


def overview(tables: Sequence[Table], *, include_column_info: bool = True) -> dict[str, dict[str, Any]]:
    """By name; tables of one name are one, as reads show them, but for those that do not go with it: these by their source."""
    found: dict[str, dict[str, Any]] = {}
    named: dict[str, list[Table]] = {}
    for table in tables:
        named.setdefault(name_key(table.name), []).append(table)
    alone = {id(one.table): one.name for same in named.values() for one in together(same).left_out}
    for table in tables:
        name = alone.get(id(table), table.name)
        entry = found.setdefault(name, {"description": None, "sources": []})
        entry["description"] = entry["description"] or table.description
        entry["sources"].append(table.source)
        if include_column_info:
            columns = entry.setdefault("columns", {})
            columns.setdefault(table.unique_key, "int")
            for column in table.columns:
                columns.setdefault(column.name, column.type.value)
    for entry in found.values():
        if entry["sources"] == [PERSONAL]:
            del entry["sources"]
    return found


def _steps(joins: Sequence[Join]) -> tuple[JoinStep, ...]:
    if not 1 <= len(joins) <= MAX_JOINS:
        raise ToolProblem("bad_arguments", f"joins are 1 to {MAX_JOINS} steps, not {len(joins)}")
    return tuple(join.step() for join in joins)


def _checked(references: Mapping[str, str]) -> Mapping[str, str]:
    if len(references) > MAX_REFERENCES:
        raise ToolProblem("bad_arguments", f"at most {MAX_REFERENCES} references in one search, not {len(references)}")
    if any(not text.strip() for text in references.values()):
        raise ToolProblem("bad_arguments", "the text of a reference is empty: say what the rows should be like")
    return {expression: text[:MAX_REFERENCE_CHARS] for expression, text in references.items()}
