"""Worker processes of the command, each with a successor when it has to go."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from temporalio.client import Client

from memory.settings import Settings
from tests.support.fleet import Foreman, WorkerProcess
from tests.support.waiting import until

EXIT_S = 15
"""A worker is gone so long after its grace period, as ``terminationGracePeriodSeconds`` of the manifests allows."""


class Crew:
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
        assert all(worker.running for worker in self._workers), "a worker ended by itself"
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            assert await worker.wait() == 0, worker.log()
