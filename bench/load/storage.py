"""What a site keeps, in bytes: rows, objects, histories, vectors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from bench.load.site import Site
from bench.world import TENANT
from memory.stores.tables.engine import sqlite_file
from memory.stores.vectors import FOLDER

_HISTORIES: Final = 5_000
"""Runs whose history size is asked for, at most."""
_LARGEST: Final = 12


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes, and counts of what they are. ``tables``: PostgreSQL only, indexes and TOAST included. ``histories`` is what the server
    says of its runs, ``temporal_disk`` what the dev server's files take for them, their mutable state and visibility."""

    sql: int
    tables: Mapping[str, int]
    objects: int
    object_versions: int
    staged: int
    object_disk: int
    histories: int
    runs: int
    temporal_disk: int
    vectors_disk: int
    points: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        largest = sorted(self.tables.items(), key=lambda item: -item[1])[:_LARGEST]
        return {
            "sql_bytes": self.sql,
            "sql_bytes_by_table": dict(largest),
            "object_bytes": self.objects,
            "object_versions": self.object_versions,
            "objects_staged": self.staged,
            "object_store_disk_bytes": self.object_disk,
            "history_bytes": self.histories,
            "runs": self.runs,
            "temporal_disk_bytes": self.temporal_disk,
            "vector_disk_bytes": self.vectors_disk,
            "vector_points": dict(self.points),
        }


async def stored(site: Site) -> Stored:
    tables = await _tables(site)
    sizes = [
        info.size
        for bucket in (site.profiles.bucket(TENANT),)
        for info in await site.store.list_all_versions(bucket, "")
        if not info.is_delete_marker
    ]
    staged = await site.store.list_all_versions(site.profiles.staging_bucket(TENANT), "")
    runs = (await site.client.count_workflows("")).count
    histories = looked_at = 0
    async for run in site.client.list_workflows("", limit=_HISTORIES):
        histories += run.raw_info.history_size_bytes
        looked_at += 1
    database = sqlite_file(site.tables.database.url)
    return Stored(
        sql=sum(tables.values()) if database is None else disk(database.parent, database.name),
        tables=tables,
        objects=sum(sizes),
        object_versions=len(sizes),
        staged=len(staged),
        object_disk=disk(site.s3.folder),
        histories=round(histories * runs / looked_at) if looked_at else 0,
        runs=runs,
        temporal_disk=disk(site.temporal.folder),
        vectors_disk=disk(site.folder / FOLDER),
        points=await _points(site),
    )


async def _tables(site: Site) -> dict[str, int]:
    """Bytes by table, after a VACUUM: what is kept, not what waits for autovacuum. Empty for SQLite."""
    if site.tables.database.is_sqlite:
        return {}

    def vacuum(connection: Connection) -> None:
        connection.exec_driver_sql("SET statement_timeout = 0")
        connection.exec_driver_sql("VACUUM ANALYZE")
        connection.exec_driver_sql("RESET statement_timeout")

    def sizes(connection: Connection) -> dict[str, int]:
        query = "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables"
        return {row[0]: row[1] for row in connection.exec_driver_sql(query)}

    await site.tables.database.upkeep(vacuum, timeout_s=120)
    return await site.tables.database.read(sizes)


async def _points(site: Site) -> dict[str, int]:
    from memory.retrieval import SearchIndex
    from starter.search import open_search

    index: SearchIndex = open_search(site.settings, site.tables)
    try:
        spec = index.events.spec()
        await index.vectors.ensure(spec)
        return {spec.name: await index.vectors.count(spec.name)}
    finally:
        await index.vectors.aclose()


def disk(folder: Path, beginning: str = "") -> int:
    """Bytes that the files of a folder take on the disk; holes do not count."""
    return sum(
        os.stat(Path(place) / name).st_blocks * 512
        for place, _, names in os.walk(folder)
        for name in names
        if name.startswith(beginning) and (Path(place) / name).exists()
    )


async def stored_soon(site: Site) -> Stored:
    """As :func:`stored`, once the servers have written what they hold back: their files are what is measured."""
    before = -1
    for _ in range(10):
        now = disk(site.temporal.folder)
        if now == before:
            break
        before = now
        await asyncio.sleep(0.5)
    return await stored(site)
