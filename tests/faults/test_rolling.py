"""Workers are restarted one by one while users talk: SIGTERM as a deployment does it, kill -9 as a machine does it.

The workers are real processes that run `afterturn worker`. Whatever the moments: no turn is lost, none has its effect twice, and
none is later than the time-out of a step and 30 seconds.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.settings import Settings
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from tests.support.fleet import Foreman, WorkerProcess, migrated_file, new_namespace, open_world, world_settings
from tests.support.load import Report, bound_s, check, under_load
from tests.support.results import wrote_down
from tests.support.servers import VectorService
from tests.support.waiting import until
from worker import QUEUES

EXIT_S = 15
"""A worker is gone so long after its grace period, as ``terminationGracePeriodSeconds`` of the manifests allows."""


@dataclass(frozen=True)
class Size:
    """``crews``: the queues of each worker process. ``rounds``: so often each of them is replaced, by each signal."""

    crews: Sequence[Sequence[str]]
    rounds: int
    users: int
    pace_s: float
    between: int
    """Outcomes between one restart and the next."""
    model_latency_ms: int


SMALL = Size(crews=(QUEUES, QUEUES), rounds=1, users=3, pace_s=1.5, between=1, model_latency_ms=50)
LONG = Size(
    crews=((TASK_QUEUE,), (TASK_QUEUE,), (MODEL_TASK_QUEUE,), (MODEL_TASK_QUEUE,)),
    rounds=10,
    users=8,
    pace_s=4.0,
    between=4,
    model_latency_ms=800,
)


class Crew:
    """Worker processes, each with a successor when it has to go."""

    def __init__(self, foreman: Foreman, settings: Settings, client: Client) -> None:
        self._foreman = foreman
        self._settings = settings
        self._client = client
        self._workers: list[WorkerProcess] = []

    async def begin(self, crews: Sequence[Sequence[str]]) -> None:
        self._workers = list(await asyncio.gather(*map(self._start, crews)))

    async def _start(self, queues: Sequence[str]) -> WorkerProcess:
        worker = await self._foreman.start(self._settings, self._client, queues=queues, command=True)
        await until(lambda: "worker_started" in worker.log() or worker.ended.done(), within_s=90, what="worker_started")
        assert worker.running, worker.log()
        return worker

    async def replace(self, place: int, sent: signal.Signals) -> None:
        """The old one goes first: for a moment there is one fewer."""
        old = self._workers[place]
        if sent is signal.SIGKILL:
            old.kill()
        else:
            old.terminate()
        self._workers[place] = await self._start(old.job.queues)
        code = await old.wait(self._settings.graceful_shutdown_s + EXIT_S)
        assert code == (-signal.SIGKILL if sent is signal.SIGKILL else 0), old.log()

    async def end(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            assert await worker.wait() == 0, worker.log()


async def roll(size: Size, folder: Path, s3: S3Server, temporal: TemporalServer, signals: Sequence[signal.Signals]) -> Report:
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
            for sent in signals:
                for _ in range(size.rounds):
                    for place in range(len(size.crews)):
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


@pytest.mark.timeout(240)
async def test_workers_are_replaced_one_by_one_under_load(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    """The everyday size; :func:`test_ten_rounds` is the full one."""
    report = await roll(SMALL, tmp_path, s3_server, temporal_server, (signal.SIGTERM, signal.SIGKILL))
    assert min(report.turns, report.versions, report.windows, report.facts) > 0


@pytest.mark.endurance
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
async def test_ten_rounds(tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, sent: signal.Signals) -> None:
    """`make endurance`."""
    report = await roll(LONG, tmp_path, s3_server, temporal_server, (sent,))
    settings = world_settings(tmp_path / "bound", migrated_file(tmp_path), s3_server.settings, **talk(LONG))
    wrote_down(f"rolling-{sent.name}", report, restarts=LONG.rounds * len(LONG.crews), bound_s=bound_s(settings))
    assert report.late_s <= bound_s(settings), str(report)
