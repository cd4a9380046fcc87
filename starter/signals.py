"""Waking a user's workflow: signal-with-start, with few signals in flight per workflow and the rest together in the next one.

A run takes a bounded number of signals and a flood of them stalls it, so at most 20 are in flight per workflow from this process;
turn ids that arrive meanwhile wait and go in one signal. A signal is a wake-up only: the ledger says what is due, so what is lost
here is started by the sweeper.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from memory.model.errors import MemoryUnavailable
from memory.model.names import POST_ANSWER_WORKFLOW, TASK_QUEUE, TURNS_RECORDED_SIGNAL
from memory.model.scope import Scope
from memory.model.steps import PostAnswerInput, TurnsRecorded, UserRef
from starter.temporal import ask, user_priority, user_search_attributes

MAX_IN_FLIGHT_PER_WORKFLOW = 20
MAX_IDS_PER_SIGNAL = 500
MAX_ID_CHARS_PER_SIGNAL = 128 * 1024
MAX_IN_FLIGHT = 1_000
MAX_WAITING_IDS = 20_000
"""Of all users in this process. Beyond these two: refused, and left to the sweeper."""
RPC_TIMEOUT_S = 10.0


_Part = tuple[tuple[str, ...], "asyncio.Future[None]"]
"""Turn ids of one caller, and what that caller waits for."""


@dataclass(slots=True)
class _Lane:
    """One workflow's signals from this process."""

    in_flight: int = 0
    waiting: deque[_Part] = field(default_factory=deque[_Part])


class TurnSignaller:
    """Sends ``turns_recorded`` and starts the workflow where none runs. For one event loop; safe for many tasks.

    Args:
        client: connected or lazy.
        rpc_timeout_s: one call to the server, its retries included.
    """

    def __init__(self, client: Client, *, rpc_timeout_s: float = RPC_TIMEOUT_S) -> None:
        self._client = client
        self._rpc_timeout_s = rpc_timeout_s
        self._lanes: dict[Scope, _Lane] = {}
        self._waiting_ids = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def use(self, client: Client) -> None:
        """From the next call on; what is under way ends on the old one."""
        self._client = client

    @property
    def in_flight(self) -> int:
        """Calls to the server that are under way."""
        return len(self._tasks)

    async def signal(self, scope: Scope, turn_ids: Sequence[str]) -> None:
        """Tell the user's workflow of these turns; returns when the server has it.

        A caller that is cancelled does not take the signal back.

        Raises:
            MemoryUnavailable: Temporal is away, or too many signals wait.
            InvalidSettings: the server refuses (search attributes missing, no permission, no such namespace).
        """
        lane = self._lanes.get(scope) or _Lane()
        busy = lane.in_flight >= MAX_IN_FLIGHT_PER_WORKFLOW
        if (self._waiting_ids + len(turn_ids) > MAX_WAITING_IDS) if busy else (len(self._tasks) >= MAX_IN_FLIGHT):
            raise MemoryUnavailable("too many turns wait to be signalled; the sweeper starts the rest")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if busy:
            lane.waiting.append((tuple(turn_ids), future))
            self._waiting_ids += len(turn_ids)
        else:
            self._lanes[scope] = lane
            self._launch(scope, lane, [(tuple(turn_ids), future)])
        await asyncio.shield(future)

    def _launch(self, scope: Scope, lane: _Lane, batch: list[_Part]) -> None:
        lane.in_flight += 1
        task = asyncio.create_task(self._send(scope, lane, batch), name=f"signal {scope.post_answer_workflow_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, scope: Scope, lane: _Lane, batch: list[_Part]) -> None:
        futures = [future for _, future in batch]
        try:
            await self._call(scope, tuple(turn_id for ids, _ in batch for turn_id in ids))
        except asyncio.CancelledError:
            for future in futures:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - handed to everyone who waits
            for future in futures:
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # a caller that was cancelled does not ask any more
        else:
            for future in futures:
                if not future.done():
                    future.set_result(None)
        finally:
            lane.in_flight -= 1
            self._next(scope, lane)

    def _next(self, scope: Scope, lane: _Lane) -> None:
        if not lane.waiting:
            if lane.in_flight == 0:
                self._lanes.pop(scope, None)
            return
        batch: list[_Part] = []
        count = chars = 0
        while lane.waiting:
            ids, _ = lane.waiting[0]
            size = sum(map(len, ids))
            if batch and (count + len(ids) > MAX_IDS_PER_SIGNAL or chars + size > MAX_ID_CHARS_PER_SIGNAL):
                break
            batch.append(lane.waiting.popleft())
            count += len(ids)
            chars += size
        self._waiting_ids -= count
        self._launch(scope, lane, batch)

    async def _call(self, scope: Scope, turn_ids: tuple[str, ...]) -> None:
        start = self._client.start_workflow(
            POST_ANSWER_WORKFLOW,
            PostAnswerInput(user=UserRef.of(scope)),
            id=scope.post_answer_workflow_id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            search_attributes=user_search_attributes(scope),
            static_summary="memory after the answer",
            priority=user_priority(scope),
            start_signal=TURNS_RECORDED_SIGNAL,
            start_signal_args=[TurnsRecorded(turn_ids=_bounded(turn_ids))],
            rpc_timeout=timedelta(seconds=self._rpc_timeout_s),
        )
        await ask(start, "the signal that starts a turn's workflow", within_s=self._rpc_timeout_s)

    async def aclose(self, *, within_s: float = 5.0) -> None:
        """Let what is under way end, then give up on it."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=within_s)
        for lane in self._lanes.values():
            for _, future in lane.waiting:
                future.cancel()
            lane.waiting.clear()
        self._waiting_ids = 0
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _bounded(turn_ids: tuple[str, ...]) -> tuple[str, ...]:
    """As many as fit a payload; the ledger has them all."""
    chars = 0
    for position, turn_id in enumerate(turn_ids[:MAX_IDS_PER_SIGNAL]):
        chars += len(turn_id)
        if chars > MAX_ID_CHARS_PER_SIGNAL:
            return turn_ids[:position]
    return turn_ids[:MAX_IDS_PER_SIGNAL]
