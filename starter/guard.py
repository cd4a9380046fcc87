"""Calls to something that may hang, on a path that must not wait: a deadline, a bound on what is under way, and a pause.

A call that misses its deadline is not cancelled (a blocked thread cannot be): it keeps its place until it ends, so however many
callers come, only ``limit`` calls are under way. After some misses in a row the thing is left alone for a while, and callers are
told at once; then one call tries it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from memory.model.errors import MemoryUnavailable

T = TypeVar("T")

MISSES = 5
"""So many time-outs or failures in a row, and there is a pause."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0


class Missed(MemoryUnavailable):
    """No answer in time. ``busy``: it was not even asked. For this package: callers of the client never see it."""

    def __init__(self, message: str, *, busy: bool) -> None:
        super().__init__(message)
        self.busy = busy


class Guard:
    """One thing that is called. For one event loop.

    Args:
        name: for messages, for instance ``"the object store"``.
        limit: calls under way at once; further ones wait their turn until their deadline.
        queue: at most so many wait their turn.
    """

    def __init__(self, name: str, *, limit: int, queue: int = 1_000) -> None:
        self.name = name
        self._slots = asyncio.Semaphore(limit)
        self._queue = queue
        self._waiting = 0
        self._misses = 0
        self._pause_s = FIRST_PAUSE_S
        self._retry_at = 0.0
        self._probing = False
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def under_way(self) -> int:
        """Calls that have not ended, those whose callers gave up included."""
        return len(self._tasks)

    async def call(self, make: Callable[[], Awaitable[T]], *, deadline: float) -> T:
        """Await ``make()`` until ``deadline`` (the event loop's clock, seconds).

        Raises:
            Missed: no answer in time, or not asked.
            Exception: what the call raised.
        """
        loop = asyncio.get_running_loop()
        probe = self._admit(loop.time())
        try:
            await self._take_slot(deadline)
            task = asyncio.create_task(self._run(make))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            await asyncio.wait({task}, timeout=max(0.0, deadline - loop.time()))
            if not task.done():
                self._miss(loop.time())
                raise Missed(f"{self.name} did not answer in time", busy=False)
            error = task.exception()
            if isinstance(error, MemoryUnavailable):
                self._miss(loop.time())
            else:
                self._misses, self._pause_s = 0, FIRST_PAUSE_S
            return task.result()
        finally:
            if probe:
                self._probing = False

    def _admit(self, now: float) -> bool:
        """Whether this call is the one that tries again after a pause."""
        if self._misses < MISSES:
            if self._waiting >= self._queue:
                raise Missed(f"{self._waiting} calls wait for {self.name}", busy=True)
            return False
        if now < self._retry_at or self._probing:
            raise Missed(f"{self.name} has not answered for a while and is left alone for a moment", busy=True)
        self._probing = True
        return True

    async def _take_slot(self, deadline: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            self._miss(asyncio.get_running_loop().time())
            raise Missed(f"{self.name} is busy: no turn in time", busy=True) from None
        finally:
            self._waiting -= 1

    async def _run(self, make: Callable[[], Awaitable[T]]) -> T:
        try:
            return await make()
        finally:
            self._slots.release()

    def _miss(self, now: float) -> None:
        self._misses += 1
        if self._misses >= MISSES and now >= self._retry_at:
            self._retry_at = now + self._pause_s
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to ask

    async def aclose(self, *, within_s: float) -> None:
        """Let what is under way end, then cancel it (a blocked thread stays until its own time-out)."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=within_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
