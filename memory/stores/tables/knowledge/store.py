"""The port of knowledge tables on SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, bindparam, select

from memory.model.ids import encode_segment
from memory.model.knowledge import (
    AddRows,
    CopyColumn,
    CreateDerivedColumn,
    CreateEmptyColumn,
    CreateTable,
    DeleteColumn,
    DeleteRows,
    DeleteTables,
    MoveColumn,
    RenameColumn,
    RenameTable,
    Row,
    Table,
    TableChange,
    TransformColumn,
    UpdateRows,
    VectorizeColumn,
)
from memory.model.owner import Owner, View
from memory.ports.knowledge import Repeated
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.knowledge import columns, equations, schema, transfer, writes
from memory.stores.tables.knowledge.catalogue import tables_of
from memory.stores.tables.knowledge.listing import page, rows_by_key
from memory.stores.tables.knowledge.reads import KnowledgeReads
from memory.stores.tables.knowledge.work import Work
from memory.stores.tables.rows_knowledge import KNOWLEDGE
from memory.stores.tables.rows_records import EFFECTS
from memory.stores.tables.scoping import Prepared, Records, guard

_STORE: Final = "knowledge"
"""Of its effects."""
_EFFECT: Final = Prepared(select(EFFECTS.c.result).where(EFFECTS.c.store == _STORE, EFFECTS.c.effect_key == bindparam("b_key")))
_Write: TypeAlias = Callable[[Work, Any], Mapping[str, Any]]
_WRITES: Mapping[type[Any], _Write] = {
    CreateTable: schema.create_table,
    RenameTable: schema.rename_table,
    DeleteTables: schema.delete_tables,
    CreateEmptyColumn: columns.create_empty_column,
    CreateDerivedColumn: equations.create_derived_column,
    TransformColumn: equations.transform_column,
    RenameColumn: columns.rename_column,
    CopyColumn: transfer.copy_column,
    MoveColumn: transfer.move_column,
    DeleteColumn: columns.delete_column,
    VectorizeColumn: columns.vectorize_column,
    AddRows: writes.add_rows,
    UpdateRows: writes.update_rows,
    DeleteRows: equations.delete_rows,
}
_LARGE: Final = frozenset({CreateDerivedColumn, TransformColumn, CopyColumn, MoveColumn, DeleteColumn, DeleteTables, DeleteRows})
"""May be about every row of a table."""
LARGE_TIMEOUT_S: Final = 30.0


class SqlKnowledge(KnowledgeReads):
    """Tables of users, teams and the deployment. A write holds its owner's lock, so two at once come one after the other."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        guard(database.engine)

    async def tables(self, view: View) -> Sequence[Table]:
        return await self._database.read(lambda connection: tables_of(connection, view))

    async def write(self, owner: Owner, change: TableChange, *, effect: str, now: datetime) -> Mapping[str, Any]:
        key = encode_segment(effect, what="effect key")
        moment = to_utc(now)
        do = _WRITES[type(change)]

        def work(connection: Connection) -> Mapping[str, Any]:
            records = Records(connection, owner)
            records.lock()
            before = records.row(_EFFECT, {"b_key": key})
            if before is not None:
                return Repeated(before.result)
            result = do(Work(records, owner, moment, connection.dialect.name), change)
            row = {"store": _STORE, "effect_key": key, "result": dict(result), "applied_at": moment}
            records.insert(EFFECTS, [row])
            return result

        if type(change) in _LARGE:
            return await self._database.write(work, timeout_s=LARGE_TIMEOUT_S)
        return await self._database.write(work)

    async def rows(self, table: Table, keys: Collection[int]) -> Mapping[int, Row]:
        return await self._database.read(lambda connection: rows_by_key(connection, table, keys)) if keys else {}

    async def export(self, view: View, table: Table, *, after: int | None = None, limit: int = 1_000) -> Sequence[Row]:
        return await self._database.read(lambda connection: page(connection, view, table, after, limit))

    async def delete_owner(self, owner: Owner) -> None:
        """Forget all knowledge of an owner: tables, rows, loops, and what was written by which call. Safe to repeat.

        What the vector index holds of it goes by its owner, see the index's own ``delete_owner``.
        """

        def work(connection: Connection) -> None:
            records = Records(connection, owner)
            records.lock(upkeep=True)
            for table in sorted(KNOWLEDGE, key=lambda one: one.name):
                records.delete(table)
            records.delete(EFFECTS, EFFECTS.c.store == _STORE)

        await self._database.write(work)
