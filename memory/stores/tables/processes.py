"""Running processes and their flags, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from memory.ports.service import Process, Processes
from memory.stores.tables.engine import Database
from memory.stores.tables.rows_api import PROCESSES

MAX_LISTED = 1_000

_C = PROCESSES.c


class SqlProcesses(Processes):
    def __init__(self, database: Database) -> None:
        self._database = database
        upsert: Any = sqlite.insert if database.is_sqlite else postgresql.insert
        row = upsert(PROCESSES)
        changed = {name: row.excluded[name] for name in ("kind", "version", "flags", "started_at", "seen_at")}
        self._seen = row.on_conflict_do_update(index_elements=["process_id"], set_=changed)

    async def seen(self, process: Process) -> None:
        row = {
            "process_id": process.process_id,
            "kind": process.kind,
            "version": process.version,
            "flags": dict(process.flags),
            "started_at": process.started_at,
            "seen_at": process.seen_at,
        }
        await self._database.write(lambda c: c.execute(self._seen, row))

    async def running(self, *, since: datetime) -> Sequence[Process]:
        """At most 1,000."""
        wanted = select(PROCESSES).where(_C.seen_at >= since).order_by(_C.kind, _C.started_at, _C.process_id).limit(MAX_LISTED)
        return await self._database.read(
            lambda c: [
                Process(row.process_id, row.kind, row.version, row.started_at, row.seen_at, row.flags) for row in c.execute(wanted)
            ]
        )

    async def gone(self, process_id: str) -> None:
        await self._database.write(lambda c: c.execute(delete(PROCESSES).where(_C.process_id == process_id)))

    async def expire(self, *, before: datetime) -> int:
        return await self._database.write(lambda c: int(c.execute(delete(PROCESSES).where(_C.seen_at < before)).rowcount))
