"""Is this worker connected, and does the server see it ask for tasks? Written into :class:`starter.health.Health`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import structlog
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from starter.faults import fault
from starter.health import Health

_log = structlog.get_logger("afterturn.readiness")

RPC_S: Final = 5.0
FIRST_EVERY_S: Final = 0.25
AGAIN_EVERY_S: Final = 2.0
"""While it is not ready later on: a server that comes back has a whole fleet that waits for it."""
EVERY_S: Final = 10.0
SEEN_WITHIN_S: Final = 10.0
"""A server with several partitions of a task queue may not list a poller of another than the first: after this long a worker that
runs and is connected counts as one that polls."""


@asynccontextmanager
async def watching(health: Health, client: Callable[[], Client], workers: Sequence[Worker]) -> AsyncGenerator[None]:
    """While the block runs ``health.connected`` and ``health.polling`` follow what the server says.

    Args:
        client: gives the connection of now.
        workers: started ones.
    """
    health.polling = {worker.task_queue: False for worker in workers}
    task = asyncio.create_task(_watch(health, client, workers), name="afterturn readiness")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _watch(health: Health, client: Callable[[], Client], workers: Sequence[Worker]) -> None:
    begun = time.monotonic()
    while True:
        patient = time.monotonic() - begun > SEEN_WITHIN_S
        try:
            health.connected = await _answers(client())
            for worker in workers:
                seen = health.polling[worker.task_queue] or patient or (health.connected and await _seen(client(), worker))
                health.polling[worker.task_queue] = worker.is_running and seen
        except Exception as error:  # noqa: BLE001 - else what was found last would be said for ever
            health.connected = False
            _log.warning("readiness_not_known", error=fault(error))
        await asyncio.sleep(EVERY_S if health.ready else AGAIN_EVERY_S if patient else FIRST_EVERY_S)


async def _answers(client: Client) -> bool:
    """What the SDK itself asks when it connects: every server allows it."""
    try:
        async with asyncio.timeout(RPC_S):
            await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=timedelta(seconds=RPC_S))
    except (RPCError, TimeoutError):
        return False
    return True


async def _seen(client: Client, worker: Worker) -> bool:
    works = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW if worker.config().get("workflows") else TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=worker.task_queue), task_queue_type=works
    )
    try:
        async with asyncio.timeout(RPC_S):
            reply = await client.workflow_service.describe_task_queue(request, timeout=timedelta(seconds=RPC_S))
    except (RPCError, TimeoutError):
        return False  # not allowed, or away: the patience above decides
    return any(poller.identity == client.identity for poller in reply.pollers)
