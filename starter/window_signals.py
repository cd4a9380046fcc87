"""Waking a user's window run: signal-with-start, one call in flight per user and at most one more behind it.

A signal is a wake-up only: the ledger says which windows are due, so what is lost here is started by the sweeper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from memory.model.errors import AfterturnError
from memory.model.names import CONSOLIDATE_EVENTS_WORKFLOW, EVENTS_RECORDED_SIGNAL, TASK_QUEUE
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.window_steps import ConsolidateInput, EventsRecorded
from starter.faults import fault
from starter.temporal import ask, user_priority, user_search_attributes

MAX_USERS_IN_FLIGHT = 1_000
RPC_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)


class WindowWaker:
    """For one event loop; safe for many tasks. ``temporal`` is asked for the client at first use."""

    def __init__(self, temporal: Callable[[], Awaitable[Client]], *, rpc_timeout_s: float = RPC_TIMEOUT_S) -> None:
        self._temporal = temporal
        self._rpc_timeout_s = rpc_timeout_s
        self._tasks: dict[Scope, asyncio.Task[None]] = {}
        self._again: dict[Scope, int] = {}
        self.not_told = 0
        """Wake-ups in the background that did not reach Temporal; the sweeper does them."""

    async def wake(self, scope: Scope, waiting: int) -> None:
        """Start the user's window run, or wake the one that runs; returns when the server has it.

        Raises:
            MemoryUnavailable: Temporal is away.
            InvalidSettings: the server refuses.
        """
        client = await self._temporal()
        start = client.start_workflow(
            CONSOLIDATE_EVENTS_WORKFLOW,
            ConsolidateInput(user=UserRef.of(scope)),
            id=scope.consolidate_events_workflow_id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            search_attributes=user_search_attributes(scope),
            static_summary="event windows into contacts, facts and tasks",
            priority=user_priority(scope),
            start_signal=EVENTS_RECORDED_SIGNAL,
            start_signal_args=[EventsRecorded(waiting=waiting)],
            rpc_timeout=timedelta(seconds=self._rpc_timeout_s),
        )
        await ask(start, "the signal that starts a window's workflow", within_s=self._rpc_timeout_s)

    def wake_soon(self, scope: Scope, waiting: int) -> None:
        """The same in the background. Never raises; what fails is counted, logged, and left to the sweeper."""
        if scope in self._tasks:
            self._again[scope] = waiting
        elif len(self._tasks) >= MAX_USERS_IN_FLIGHT:
            self.not_told += 1
        else:
            self._tasks[scope] = asyncio.create_task(self._keep_waking(scope, waiting), name="afterturn wake windows")

    async def _keep_waking(self, scope: Scope, waiting: int) -> None:
        try:
            following: int | None = waiting
            while following is not None:
                await self._try(scope, following)
                following = self._again.pop(scope, None)
        finally:
            self._tasks.pop(scope, None)
            self._again.pop(scope, None)

    async def _try(self, scope: Scope, waiting: int) -> None:
        try:
            await self.wake(scope, waiting)
        except AfterturnError as error:
            self._left(scope, error.message)
        except Exception as error:  # noqa: BLE001 - a background wake-up; the events are recorded, the sweeper starts the run
            self._left(scope, fault(error))

    def _left(self, scope: Scope, why: str) -> None:
        self.not_told += 1
        _log.warning("the window run of %s/%s was not told: %s; the sweeper does it", scope.tenant, scope.user, why)

    async def aclose(self, *, within_s: float = 5.0) -> None:
        """Let what is under way end, then give up on it."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
