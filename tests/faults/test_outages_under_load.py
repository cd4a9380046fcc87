"""Every dependency goes away in turn while users talk, and comes back. Nobody does anything: the backlog drains by itself.

Temporal, the object store and PostgreSQL are killed and started again; the vector service and the model's API close their port.
All of it in one world: what one outage leaves behind meets the next one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.settings import Settings
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from tests.support.crew import Crew
from tests.support.fleet import Foreman, World, migrated_file, new_namespace, open_world, world_settings
from tests.support.load import Load, Report, bound_s, check, under_load
from tests.support.postgres import PostgresServer
from tests.support.results import wrote_down
from tests.support.servers import ModelServer, VectorService
from worker import QUEUES

SCALE = 10
"""A minute here is ten minutes there; what waits by a setting of its own waits a tenth of the default."""


@dataclass(frozen=True)
class Size:
    """``away_s``: how long each dependency is away; 0: until every user has handed over a turn meanwhile."""

    workers: int
    users: int
    pace_s: float | None
    away_s: float
    between: int


SMALL = Size(workers=1, users=2, pace_s=None, away_s=0, between=2)
LONG = Size(workers=2, users=8, pace_s=4.0, away_s=600 / SCALE, between=16)

Step = Callable[[], Awaitable[Any]]
Outage = tuple[Step, Step]
"""Takes a server away, and brings it back."""


@dataclass
class Place:
    world: World
    crew: Crew
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
            crew = Crew(foreman, settings, world.client)
            await crew.begin([QUEUES] * size.workers)
            await ensure_schedules(world.client, settings)
            yield Place(
                world,
                crew,
                {
                    "temporal": (temporal.kill, temporal.restart),
                    "object store": (s3.kill, s3.restart),
                    "database": (stop_postgres, start_postgres),
                    "vectors": (vectors.stop, vectors.start),
                    "model": (stop_model, start_model),
                },
            )
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
    await load.goes_on(size.users)
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


async def live_through(place: Place, size: Size, replaced: Sequence[signal.Signals] = ()) -> Report:
    """``replaced``: after the outages a worker goes, by these signals."""
    async with under_load(place.world, users=size.users, pace_s=size.pace_s) as load:
        await load.works_on(size.between)
        for outage in place.outages.values():
            await take_away(load, outage, size)
            await load.works_on(size.between)
        for sent in replaced:
            await load.goes_on(size.users)
            await place.crew.replace(0, sent)
            await load.works_on(size.between)
    await load.drained(within_s=240)
    await place.crew.end()
    return await check(load)


@pytest.mark.timeout(240)
async def test_every_dependency_and_the_worker_go_away_in_turn(
    tmp_path: Path, own_s3_server: S3Server, own_temporal_server: TemporalServer, postgres_server: PostgresServer
) -> None:
    """The everyday size; :func:`test_ten_minutes_of_each` and ``test_rolling`` are the full ones."""
    async with a_place(SMALL, tmp_path, own_s3_server, own_temporal_server, postgres_server) as place:
        report = await live_through(place, SMALL, (signal.SIGTERM, signal.SIGKILL))
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
