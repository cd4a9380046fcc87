"""Workers are restarted one by one while users talk: SIGTERM as a deployment does it, kill -9 as a machine does it.

`make endurance`; the everyday size is a part of ``test_outages_under_load``.

The workers are real processes that run `afterturn worker`. Whatever the moments: no turn is lost, none has its effect twice, and
none is later than the time-out of a step and 30 seconds.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from tests.support.crew import Crew
from tests.support.fleet import Foreman, migrated_file, new_namespace, open_world, world_settings
from tests.support.load import Report, bound_s, check, under_load
from tests.support.results import wrote_down
from tests.support.servers import VectorService


@dataclass(frozen=True)
class Size:
    """``crews``: the queues of each worker process."""

    crews: Sequence[Sequence[str]]
    users: int
    pace_s: float
    between: int
    """Outcomes between one restart and the next."""
    model_latency_ms: int


ROUNDS = 10
LONG = Size(
    crews=((TASK_QUEUE,), (TASK_QUEUE,), (MODEL_TASK_QUEUE,), (MODEL_TASK_QUEUE,)),
    users=8,
    pace_s=4.0,
    between=4,
    model_latency_ms=800,
)


async def roll(
    size: Size, folder: Path, s3: S3Server, temporal: TemporalServer, replaced: Sequence[tuple[int, signal.Signals]]
) -> Report:
    """``replaced``: which of the workers, and by what."""
    async with AsyncExitStack() as exits:
        vectors = await exits.enter_async_context(VectorService(folder / "vectors"))
        settings = world_settings(folder / "data", migrated_file(folder), s3.settings, **talk(size), **vectors.settings)
        world = await exits.enter_async_context(open_world(settings, await new_namespace(temporal.address)))
        foreman = await exits.enter_async_context(Foreman(folder / "workers"))
        crew = Crew(foreman, world.settings, world.client)
        await crew.begin(size.crews)
        await ensure_schedules(world.client, world.settings)
        async with under_load(world, users=size.users, pace_s=size.pace_s) as load:
            await load.works_on(size.between)
            for place, sent in replaced:
                await load.goes_on(size.users)
                await crew.replace(place, sent)
                await load.works_on(size.between)
        await load.drained(within_s=240)
        await crew.end()
        return await check(load)


def talk(size: Size) -> dict[str, Any]:
    return {
        "memory_knowledge": True,
        "window_size": 6,
        "window_retry_s": 5,
        "sweep_interval_s": 5,
        "sweep_grace_s": 5,
        "model_timeout_s": 10,
        "simulated_latency_ms": size.model_latency_ms,
        "notice_log": False,
        "daily_token_cap": 0,
    }


@pytest.mark.endurance
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
async def test_ten_rounds(tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, sent: signal.Signals) -> None:
    """`make endurance`."""
    replaced = [(place, sent) for _ in range(ROUNDS) for place in range(len(LONG.crews))]
    report = await roll(LONG, tmp_path, s3_server, temporal_server, replaced)
    settings = world_settings(tmp_path / "bound", migrated_file(tmp_path), s3_server.settings, **talk(LONG))
    wrote_down(f"rolling-{sent.name}", report, restarts=len(replaced), bound_s=bound_s(settings))
    assert report.late_s <= bound_s(settings), str(report)
