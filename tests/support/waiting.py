"""Waiting for a condition with a bound, instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(
    condition: Callable[[], object | Awaitable[object]], *, within_s: float = 30.0, what: str = "", every_s: float = 0.02
) -> None:
    """Return when ``condition`` (plain or async) is true; fail the test after ``within_s`` seconds. ``every_s``: between looks."""
    try:
        async with asyncio.timeout(within_s):
            while True:
                value = condition()
                if inspect.isawaitable(value):
                    value = await value
                if value:
                    return
                await asyncio.sleep(every_s)
    except TimeoutError:
        raise AssertionError(f"not within {within_s} s: {what or inspect.getsource(condition).strip()}") from None
