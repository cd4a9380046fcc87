"""Every dependency goes away in turn while users talk, and comes back. Nobody does anything: the backlog drains by itself.

Temporal, the object store and PostgreSQL are killed and started again; the vector service and the model's API close their port.
All of it in one world: what one outage leaves behind meets the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.settings import Settings
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from tests.support.fleet import Foreman, World, migrated_file, new_namespace, open_world, world_settings
from tests.support.load import Load, Report, bound_s, check, under_load
from tests.support.postgres import PostgresServer
from tests.support.results import wrote_down
from tests.support.servers import ModelServer, VectorService
from tests.support.waiting import until

SCALE = 10
"""A minute here is ten minutes there; what waits by a setting of its own waits a tenth of the default."""


@dataclass(frozen=True)
class Size:
    """``away_s``: how long each dependency is away; 0: until every user has handed over a turn meanwhile."""

    workers: int
    users: int
    pace_s: float
    away_s: float
    between: int


SMALL = Size(workers=1, users=3, pace_s=2.0, away_s=0, between=1)
LONG = Size(workers=2, users=8, pace_s=4.0, away_s=600 / SCALE, between=16)

Step = Callable[[], Awaitable[Any]]
Outage = tuple[Step, Step]
"""Takes a server away, and brings it back."""


@dataclass
class Place:
    world: World
    outages: Mapping[str, Outage]


@asynccontextmanager
async def a_place(
    size: Size, folder: Path, s3: S3Server, temporal: TemporalServer, postgres: PostgresServer
) -> AsyncGenerator[Place]:
    """One worker process or more of the command, on servers that can be taken away."""
    database = postgres.create_database(migrated=True)

    async def stop_postgres() -> None:
        await asyncio.to_thread(postgres.stop)

    async def start_postgres() -> None:
        # In this thread: the server ends with the thread that started it, and other tests use it too.
        postgres.start()

    try:
        async with AsyncExitStack() as exits:
            vectors = await exits.enter_async_context(VectorService(folder / "vectors"))
            model = exits.enter_context(ModelServer())

            async def stop_model() -> None:
                await asyncio.to_thread(model.stop)

            async def start_model() -> None:
                model.start()

            settings = world_settings(
                folder / "data",
                migrated_file(folder),
                s3.settings,
                **scaled(),
                **vectors.settings,
                **model.settings,
                database_url=postgres.url(database),
            )
            world = await exits.enter_async_context(open_world(settings, await new_namespace(temporal.address)))
            foreman = await exits.enter_async_context(Foreman(folder / "workers"))
            workers = [await foreman.start(settings, world.client, command=True) for _ in range(size.workers)]
            for worker in workers:
                await until(
                    lambda one=worker: "worker_started" in one.log() or one.ended.done(), within_s=90, what="worker_started"
                )
            await ensure_schedules(world.client, settings)
            yield Place(
                world,
                {
                    "temporal": (temporal.kill, temporal.restart),
                    "object store": (s3.kill, s3.restart),
                    "database": (stop_postgres, start_postgres),
                    "vectors": (vectors.stop, vectors.start),
                    "model": (stop_model, start_model),
                },
            )
            assert all(worker.running for worker in workers), "a worker ended in an outage"
            for worker in workers:
                worker.terminate()
            for worker in workers:
                assert await worker.wait() == 0, worker.log()
    finally:
        postgres.drop_database(database)


def scaled() -> dict[str, Any]:
    """Every time that is a setting, at a tenth of its default; budgets of the answering path as they are."""
    default = Settings.model_fields
    tenth = ("sweep_interval_s", "sweep_grace_s", "store_retry_for_s", "model_retry_for_s", "window_retry_s", "model_timeout_s")
    return {
        **{name: default[name].default / SCALE for name in tenth},
        "after_answer_budget_ms": 2_000,
        "memory_knowledge": True,
        "window_size": 6,
        "notice_log": False,
        "daily_token_cap": 0,
    }


async def take_away(load: Load, outage: Outage, size: Size) -> None:
    away, back = outage
    since = datetime.now(UTC)
    await away()
    try:
        if size.away_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), size.away_s)
        else:
            await load.goes_on(size.users)
    finally:
        await back()
        load.outages.append((since, datetime.now(UTC)))


async def live_through(place: Place, size: Size) -> Report:
    async with under_load(place.world, users=size.users, pace_s=size.pace_s) as load:
        await load.works_on(size.between)
        for outage in place.outages.values():
            await take_away(load, outage, size)
            await load.works_on(size.between)
    await load.drained(within_s=240)
    return await check(load)


@pytest.mark.timeout(240)
async def test_every_dependency_goes_away_in_turn(
    tmp_path: Path, own_s3_server: S3Server, own_temporal_server: TemporalServer, postgres_server: PostgresServer
) -> None:
    """The everyday size; :func:`test_ten_minutes_of_each` is the full one."""
    async with a_place(SMALL, tmp_path, own_s3_server, own_temporal_server, postgres_server) as place:
        report = await live_through(place, SMALL)
    assert report.statuses["spooled"] > 0, "the database was away for no turn"


@pytest.mark.endurance
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["temporal", "object store", "database", "vectors", "model"])
async def test_ten_minutes_of_each(
    tmp_path: Path, own_s3_server: S3Server, own_temporal_server: TemporalServer, postgres_server: PostgresServer, name: str
) -> None:
    """`make endurance`. Each by itself, for its own figures."""
    async with a_place(LONG, tmp_path, own_s3_server, own_temporal_server, postgres_server) as place:
        place.outages = {name: place.outages[name]}
        report = await live_through(place, LONG)
        bound = bound_s(place.world.settings)
    wrote_down(f"outage-{name}", report, away_s=LONG.away_s, bound_s=bound)
    assert report.late_s <= bound, str(report)
