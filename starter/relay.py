"""Notices of the loading steps, to the orchestrator's own callback: never waited for, bounded, and its faults stay its own."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from memory.model.ids import new_id
from memory.model.scope import Scope
from memory.ports import Notice

MAX_WAITING = 1_000
CALLBACK_TIMEOUT_S = 5.0

OnNotice = Callable[[Notice], Awaitable[None] | None]
"""Called on the event loop: it must not block. May be ``async``; then it is cancelled after five seconds."""

TEXTS = {
    "loading_started": "Loading context memory…",
    "loading_completed": "Context memory loaded",
    "loading_failed": "Context memory is not available for this answer",
}

_log = logging.getLogger(__name__)


class NoticeRelay:
    """Hands notices over in order, one at a time, in a task of its own.

    Attributes:
        dropped: notices given up because too many were waiting.
        failed: notices whose callback raised or took too long.
    """

    def __init__(self, callback: OnNotice | None) -> None:
        self._callback = callback
        self._queue: asyncio.Queue[Notice] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        self.failed = 0

    def started(self, scope: Scope) -> str | None:
        """Say that loading begins. Returns what :meth:`ended` needs; None: nobody listens."""
        if self._callback is None:
            return None
        notice_id = new_id()
        self._put(scope, notice_id, "loading_started")
        return notice_id

    def ended(self, scope: Scope, notice_id: str | None, *, failed: bool) -> None:
        if notice_id is not None:
            self._put(scope, notice_id, "loading_failed" if failed else "loading_completed")

    def _put(self, scope: Scope, notice_id: str, step: str) -> None:
        notice = Notice(
            notice_id=notice_id,
            key=f"{notice_id}/{step}",
            step=step,
            scope=scope,
            conversation_ids=(),
            turn_ids=(),
            text=TEXTS[step],
            at=datetime.now(UTC),
        )
        try:
            self._queue.put_nowait(notice)
        except asyncio.QueueFull:
            self.dropped += 1
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._deliver(), name="afterturn notices")

    async def _deliver(self) -> None:
        while not self._queue.empty():
            await self._one(self._queue.get_nowait())

    async def _one(self, notice: Notice) -> None:
        assert self._callback is not None  # noqa: S101
        try:
            async with asyncio.timeout(CALLBACK_TIMEOUT_S):
                result = self._callback(notice)
                if inspect.isawaitable(result):
                    await result
        except Exception as error:  # noqa: BLE001 - a front end's fault must not reach the answering path
            self.failed += 1
            _log.warning("on_notice failed for %s of %s: %s", notice.step, notice.scope.user, type(error).__name__)

    async def aclose(self, *, within_s: float) -> None:
        """Deliver what waits, then give up on it."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=within_s)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
