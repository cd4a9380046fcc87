"""What workflows do alike when a step fails: wait for a store that is away, finish a step in spite of a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, is_cancelled_exception  # noqa: A004

with workflow.unsafe.imports_passed_through():
    from workflows import policies

STEP_FAILED = (ActivityError, ApplicationError, TimeoutError)
"""What ended a local activity arrives bare, what ended a regular one wrapped."""
AWAY = frozenset({"StoreUnavailable", "UnreadablePayload"})
"""Also a worker that has not got the key of a payload yet: it gets it, or another worker takes the step."""
AWAY_OR_HANGING = AWAY | {"TimeoutError"}
"""For steps that only touch a store: one that did not answer in time is as good as away."""
MODEL_AWAY = frozenset({"ModelUnavailable", "ModelRateLimited", "ModelTimedOut"})
"""What passes by itself, unlike a rejected request or a reply that cannot be used."""

_T = TypeVar("_T")


class Patience:
    """Waits with durable timers while a store (or a model) is away. ``waiting``: how many steps of this run do so now.

    Args:
        noted: called once per step that has to wait, for operators.
        waits: how long the waits are.
    """

    def __init__(self, noted: Callable[[], None], waits: policies.Patience = policies.STORE_PATIENCE) -> None:
        self.waiting = 0
        self._noted = noted
        self._waits = waits

    async def run(self, call: Callable[[], Awaitable[_T]], limit_s: float | None, passing: frozenset[str] = AWAY) -> _T:
        """Run ``call``; while what it needs is away try again, for ``limit_s`` seconds at most.

        ``passing``: the error types that say so.
        """
        begun = workflow.now()
        attempt = 0
        while True:
            try:
                return await call()
            except STEP_FAILED as error:
                if is_cancelled_exception(error) or error_type(error) not in passing:
                    raise
                attempt += 1
                delay = self._waits.delay(attempt)
                if limit_s is not None and (workflow.now() - begun + delay).total_seconds() > limit_s:
                    raise
                if attempt == 1:
                    self._noted()
            self.waiting += 1
            try:
                await workflow.sleep(delay)
            finally:
                self.waiting -= 1


async def uninterrupted(step: Coroutine[Any, Any, _T]) -> _T:
    """Finish ``step`` although this run is being cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.create_task(step)
    cancelled: BaseException | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    result = await task
    if cancelled is not None:
        raise cancelled
    return result


def error_type(error: BaseException) -> str:
    """The type's name of what ended a step."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError):
        if cause.type is None and isinstance(cause.cause, ApplicationError):
            cause = cause.cause  # the SDK's own: an argument that could not be read, and why
        return cause.type or "Unexpected"
    if isinstance(cause, CancelledError):
        return "Cancelled"
    return type(cause).__name__ if cause is not None else "Unexpected"
