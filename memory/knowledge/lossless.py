"""Whether ``refactor`` may delete something because nothing is lost: asked of the tables as they are.

A column may go when every value in it is in the column that it was copied or moved to in this run; a table when that holds for all
its columns; rows of a table that was made in this run when its columns are copies whose originals are all still there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memory.knowledge.guard_request import Scope, Target
from memory.knowledge.moved import Moves, Place, bare_key
from memory.model.knowledge import Column, ColumnType, JoinQuery, JoinStep, ReduceQuery, Table
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
        if not await judge.is_empty(table, column) and not await judge.is_in_one(table, column, others):
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

    async def is_in_one(self, table: Table, column: Column, others: Sequence[Place]) -> bool:
        """Whether one of these columns has every value of this one."""
        for destination, name, other in reversed(others):
            found = self._tables.get(name) if destination == self._destination else None
            if found is None or found.table_id == table.table_id or found.column(other) is None:
                continue
            if await self._has_all(table, column, found, other):
                return True
        return False

    async def _has_all(self, table: Table, column: Column, other: Table, name: str) -> bool:
        left, right = _exact(table), _exact(other)
        step = JoinStep(
            (left, right),
            f"{table.name}.{column.name} == {other.name}.{name}",
            {f"{left}.{column.name}": "value", f"{right}.{other.unique_key}": "there"},
            "left",
        )
        missing = await self._port.join(self._view, JoinQuery((step,), "value is not None and there is None", result_limit=1))
        return not missing


def _exact(table: Table) -> str:
    """The table of this source alone, whatever else has its name."""
    return f"{table.source}.{table.name}"
