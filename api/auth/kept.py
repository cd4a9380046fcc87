"""A value from elsewhere that is fetched when it is needed, kept, and fetched again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from memory.model.errors import MemoryUnavailable
from starter.faults import fault

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Kept(Generic[T]):
    """For one event loop. However many ask, one fetch runs at a time; the old value serves while a new one is not to be had.

    Args:
        what: named in errors and in the log.
        fetch: gives the value; raises MemoryUnavailable.
        fresh_s: an older value is fetched again in the background.
        stale_s: a value that could not be fetched again serves at most this long.
        again_s: least time between two fetches that somebody asked for with ``newer``.
        retry_s: least time between two fetches after one that failed.
    """

    def __init__(
        self,
        what: str,
        fetch: Callable[[], Awaitable[T]],
        *,
        fresh_s: float = 600.0,
        stale_s: float = 86_400.0,
        again_s: float = 30.0,
        retry_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._fetch = fetch
        self._fresh_s, self._stale_s, self._again_s, self._retry_s = fresh_s, stale_s, again_s, retry_s
        self._clock = clock
        self._value: T | None = None
        self._got_at = self._tried_at = float("-inf")
        self._failure: MemoryUnavailable | None = None
        self._running: asyncio.Task[None] | None = None

    async def get(self) -> T:
        """Raises MemoryUnavailable: there is none, and none to be had."""
        age = self._clock() - self._got_at
        if self._value is None or age > self._stale_s:
            await self._refreshed(self._retry_s if self._failure else 0.0)
            if self._value is None or self._clock() - self._got_at > self._stale_s:
                raise self._failure or MemoryUnavailable(f"{self._what} cannot be fetched")
        elif age > self._fresh_s:
            self._start(self._retry_s if self._failure else 0.0)
        return self._value

    async def newer(self) -> T:
        """What there is now, because something is missing in what is kept; no more often than every ``again_s``."""
        before = self._got_at
        value = await self.get()
        if self._got_at == before:
            await self._refreshed(self._again_s)
            value = value if self._value is None else self._value
        return value

    async def aclose(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _refreshed(self, wait_s: float) -> None:
        if (task := self._start(wait_s)) is not None:
            # Whoever waits may go away; the others still want it.
            await asyncio.shield(task)

    def _start(self, wait_s: float) -> asyncio.Task[None] | None:
        """The fetch that runs, or a new one where the last one is ``wait_s`` ago."""
        if self._running is None and self._clock() - self._tried_at >= wait_s:
            self._tried_at = self._clock()
            self._running = asyncio.create_task(self._run(), name=f"fetching {self._what}")
        return self._running

    async def _run(self) -> None:
        try:
            self._value = await self._fetch()
            self._got_at, self._failure = self._clock(), None
        except Exception as error:  # noqa: BLE001 - nobody may be waiting for it; whoever asks is told that there is none
            told = f"{self._what} cannot be fetched ({fault(error)})"
            self._failure = error if isinstance(error, MemoryUnavailable) else MemoryUnavailable(told)
            _log.warning("%s%s", self._failure.message, "" if self._value is None else "; what is known serves on")
        finally:
            self._running = None
