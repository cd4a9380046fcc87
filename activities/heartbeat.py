"""Heartbeats beside a slow step, so that a dead worker is noticed in seconds and a cancellation arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio import activity


@asynccontextmanager
async def heartbeats() -> AsyncGenerator[None]:
    """Beat three times per heartbeat time-out while the body runs; nothing where the activity has none (local activities).

    The body must not block the event loop: blocking calls run in threads (the adapters do), or the beats starve with it.
    """
    timeout = activity.info().heartbeat_timeout if activity.in_activity() else None
    if timeout is None or timeout.total_seconds() <= 0:
        yield
        return
    beating = asyncio.create_task(_beat(timeout.total_seconds() / 3))
    try:
        yield
    finally:
        beating.cancel()
        # A beat that failed is a fault to be seen, not swallowed; only its own cancellation is expected here.
        (failure,) = await asyncio.gather(beating, return_exceptions=True)
        if isinstance(failure, Exception):
            raise failure


async def _beat(every_s: float) -> None:
    while True:
        # The start of the activity counts as the first beat.
        await asyncio.sleep(every_s)
        activity.heartbeat()
