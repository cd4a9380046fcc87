"""What all embedders do to a text first, and how CPU-heavy work leaves the event loop alone."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from memory.model.errors import StoreUnavailable
from memory.telemetry import store_call

T = TypeVar("T")
MAX_WAITING = 1_000


def clean(text: str, max_chars: int) -> str:
    """At most ``max_chars`` characters, without what has no UTF-8 form (lone surrogates become ``?``) or ends a C string."""
    cut = text[:max_chars]
    return cut.encode("utf-8", "replace").decode().replace("\0", " ")


def unit(vector: Sequence[float]) -> tuple[float, ...]:
    """Length 1. A vector without a direction (an empty text's) becomes an even one, which is like nothing in particular."""
    values = [float(value) for value in vector]
    length = math.sqrt(math.fsum(value * value for value in values))
    if not math.isfinite(length) or length == 0.0:
        return (1.0 / math.sqrt(len(values)),) * len(values)
    return tuple(value / length for value in values)


def spare_cores() -> int:
    """Cores that an embedder may use: one stays for the event loop, whose heartbeats must not wait for arithmetic."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores - 1))


class Workbench:
    """One thread in which a model lives; one piece of work at a time, the rest waits in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = ThreadPoolExecutor(1, f"afterturn-{name}")
        self._waiting = 0

    async def run(self, work: Callable[[], T]) -> T:
        with store_call("embedder", self._name):
            return await self._in_thread(work)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._waiting >= MAX_WAITING:
            raise StoreUnavailable(f"the embedder {self._name} is overloaded: {self._waiting} calls are waiting")
        try:
            future = self._thread.submit(work)
        except RuntimeError:
            raise StoreUnavailable(f"the embedder {self._name} was closed") from None
        self._waiting += 1
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)
