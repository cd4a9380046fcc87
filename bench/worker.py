"""A worker process of its own: the product's workers with the scripted model, and a worker of the bare workflow beside them.

    python -m bench.worker READY_FILE

Settings come from the environment. Writes the file when it polls, works until SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from temporalio.worker import Worker

from activities import build_activities
from bench.bare import BARE_QUEUE, BareWindow, BareWorkflow, nothing
from bench.scripted_model import ScriptedModel, ScriptedModels
from memory.settings import load_settings
from starter.logs import configure_logging
from starter.temporal import connect
from worker import build_workers, open_collaborators


async def work(ready: Path) -> None:
    settings = load_settings()
    configure_logging(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    client = await connect(settings)
    async with open_collaborators(settings, client) as opened, AsyncExitStack() as stack:
        parts = replace(opened, models=ScriptedModels(ScriptedModel()))
        for worker in build_workers(client, settings, build_activities(parts)):
            await stack.enter_async_context(worker)
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
    asyncio.run(work(Path(sys.argv[1])))
