"""A process that works until it is told to stop, by SIGTERM or SIGINT; being told while it still starts calls the start off."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Told:
    """``ready``: the start is over; from here on being told cancels nothing and ends ``wait``."""

    def __init__(self, starting: asyncio.Task[object]) -> None:
        self._starting = starting
        self._stop = asyncio.Event()
        self._is_ready = False

    def ready(self) -> None:
        self._is_ready = True

    async def wait(self) -> None:
        await self._stop.wait()

    @property
    def called_off(self) -> bool:
        return self._stop.is_set() and not self._is_ready

    def tell(self) -> None:
        first = not self._stop.is_set()
        self._stop.set()
        if first and not self._is_ready:
            self._starting.cancel()


@asynccontextmanager
async def until_told() -> AsyncGenerator[Told]:
    """The block of a process's main task. One whose start is called off ends here, after its clean-up, without an error."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    told = Told(task)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.tell)
    try:
        yield told
    except asyncio.CancelledError:
        if not told.called_off:
            raise
        task.uncancel()
