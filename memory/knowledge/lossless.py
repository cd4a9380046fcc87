"""Whether ``refactor`` may delete something because nothing is lost: asked of the tables as they are.

A column may go when each row still leads to its value in the column that it was copied to in this run: by the same unique key, by a
column of either that holds the key of the other, or by a column that was copied along and stays. A table may go when that holds for
all its columns, by keys alone; rows of a table that was made in this run when its columns are copies whose originals are all there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from memory.knowledge.guard_request import Scope, Target
from memory.knowledge.moved import Moves, Place, bare_key
from memory.model.knowledge import Column, ColumnType, JoinQuery, JoinStep, ReduceQuery, Table, ToolProblem
from memory.model.knowledge_names import name_key
from memory.model.owner import View
from memory.ports.knowledge import KnowledgeTables


async def nothing_is_lost(
    port: KnowledgeTables,
    view: View,
    scope: Scope,
    target: Target,
    *,
    destination: str,
    tables: Sequence[Table],
    moved: Collection[str],
) -> bool:
    """``tables``: those of the destination that is written to, which ``view`` shows."""
    table = next((one for one in tables if name_key(one.name) == name_key(target.table)), None)
    if table is None:
        return False
    moves = Moves.read(moved)
    judge = _Judge(port, view, {name_key(one.name): one for one in tables}, destination)
    held = [column for column in table.columns if column.type is not ColumnType.VECTOR]
    if scope == "column":
        found = next((one for one in table.columns if name_key(one.name) == name_key(target.column or "")), None)
        held = [] if found is None or found.type is ColumnType.VECTOR else [found]
    if scope == "rows" and (destination, name_key(table.name)) not in moves.made:
        return False
    for column in held:
        mine: Place = (destination, bare_key(table.name), name_key(column.name))
        if scope == "rows":
            others = [source for source, copy in moves.copies if copy == mine]
        else:
            others = [copy for source, copy in moves.copies if source == mine]
        if not await judge.is_empty(table, column) and not await judge.is_in_one(
            table, column, others, pairs=moves.copies if scope == "column" else None
        ):
            return False
    return True


class _Judge:
    def __init__(self, port: KnowledgeTables, view: View, tables: dict[str, Table], destination: str) -> None:
        self._port = port
        self._view = view
        self._tables = tables
        self._destination = destination

    async def is_empty(self, table: Table, column: Column) -> bool:
        count = await self._port.reduce(self._view, ReduceQuery(_exact(table), "count", column.name))
        return count == 0

    async def is_in_one(
        self, table: Table, column: Column, others: Sequence[Place], *, pairs: Sequence[tuple[Place, Place]] | None
    ) -> bool:
        """Whether one of these columns has every value of this one, each where its row leads.

        ``pairs``: what was copied where; None: the table does not stay, so that none of its columns can lead anywhere.
        """
        for destination, name, other in reversed(others):
            found = self._tables.get(name) if destination == self._destination else None
            if found is None or found.table_id == table.table_id or found.column(other) is None:
                continue
            for mine, theirs in self._links(table, column, found, other, pairs):
                if await self._has_all(table, column, found, other, mine, theirs):
                    return True
        return False

    def _links(
        self, table: Table, column: Column, other: Table, name: str, pairs: Sequence[tuple[Place, Place]] | None
    ) -> Iterator[tuple[str, str]]:
        """Columns of the two by which a row of the one may lead to a row of the other."""
        yield table.unique_key, other.unique_key
        for one in other.columns:
            if one.type is ColumnType.INT and one.name != name:
                yield table.unique_key, one.name
        if pairs is None:
            return
        for one in table.columns:
            if one.type is ColumnType.INT and one.name != column.name:
                yield one.name, other.unique_key
        here, there = (self._destination, bare_key(table.name)), (self._destination, bare_key(other.name))
        for source, copy in pairs:
            mine, theirs = table.column(source[2]), other.column(copy[2])
            if (source[:2], copy[:2]) == (here, there) and mine and theirs and column.name != mine.name and theirs.name != name:
                yield mine.name, theirs.name

    async def _has_all(self, table: Table, column: Column, other: Table, name: str, mine: str, theirs: str) -> bool:
        left, right = _exact(table), _exact(other)
        link = f"{table.name}.{mine} == {other.name}.{theirs}"
        same = f"{link} and {table.name}.{column.name} == {other.name}.{name}"
        there = {f"{left}.{column.name}": "value", f"{right}.{other.unique_key}": "there"}
        if not await self._is_none(JoinStep((left, right), same, there, "left"), "value is not None and there is None"):
            return False
        if theirs == other.unique_key:
            return True
        # A row may lead to several: then all of them have to say the same.
        values = {f"{left}.{column.name}": "value", f"{right}.{name}": "told"}
        return await self._is_none(JoinStep((left, right), link, values), "value is not None and (told is None or told != value)")

    async def _is_none(self, step: JoinStep, where: str) -> bool:
        """Whether no row of a join is so. What cannot be compared (types have changed) is not known to be there."""
        try:
            return not await self._port.join(self._view, JoinQuery((step,), where, result_limit=1))
        except ToolProblem as error:
            if error.code != "bad_expression":
                raise
            return False


def _exact(table: Table) -> str:
    """The table of this source alone, whatever else has its name."""
    return f"{table.source}.{table.name}"
