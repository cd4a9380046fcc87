"""A worker process of its own: the product's workers with the scripted model.

    python -m bench.worker READY_FILE [QUEUE …]

Without queues: all of them, and a worker of the bare workflow beside them. Settings come from the environment. Writes the file
when it polls, works until SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from temporalio.worker import Worker

from activities import build_activities
from bench.bare import BARE_QUEUE, BareWindow, BareWorkflow, nothing
from bench.scripted_model import PatientModel, ScriptedModel, ScriptedModels
from memory.settings import Settings, load_settings
from starter.logs import configure_logging
from starter.observing import WORKER, observed
from starter.temporal import connect
from worker import QUEUES, build_workers, open_collaborators


async def work(ready: Path, queues: Sequence[str]) -> None:
    settings = load_settings()
    configure_logging(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with observed(settings, "afterturn-bench", WORKER):
        await _work(settings, ready, queues, stop)


async def _work(settings: Settings, ready: Path, queues: Sequence[str], stop: asyncio.Event) -> None:
    client = await connect(settings)
    # No two processes say the same: a user whom both serve would be told something that the profile has.
    model = PatientModel(ScriptedModel(seed=os.getpid()))
    async with open_collaborators(settings, client) as opened, AsyncExitStack() as stack:
        parts = replace(opened, models=ScriptedModels(model))
        for worker in build_workers(client, settings, build_activities(parts), queues or QUEUES):
            await stack.enter_async_context(worker)
        if not queues:
            # As the SDK makes it: whatever the product does to be quick is part of what is measured.
            bare = Worker(
                client,
                task_queue=BARE_QUEUE,
                workflows=[BareWorkflow, BareWindow],
                activities=[nothing],
                max_concurrent_workflow_tasks=settings.max_concurrent_workflow_tasks,
                max_cached_workflows=settings.max_cached_workflows,
            )
            await stack.enter_async_context(bare)
        await asyncio.to_thread(ready.touch)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2:]))
