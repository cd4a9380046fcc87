"""The event window's activities under control, and every shape that a run over windows can have. See :mod:`starter.scripted`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy

from memory.model import names
from memory.model.category import Category
from memory.model.names import EVENTS_RECORDED_SIGNAL, TASK_QUEUE
from memory.model.scope import Scope
from memory.model.steps import StageUsage, UserRef
from memory.model.window import CategoryOutcome
from memory.model.window_steps import (
    ApplyInput,
    ApplyReply,
    CommitInput,
    ConsolidateInput,
    EventsRecorded,
    ExtractReply,
    IndexInput,
    IndexReply,
    WindowPlan,
    WindowRef,
    WindowTotals,
)
from starter.scripted import Script, answered_once, fails
from workflows import ConsolidateEventsWorkflow

WAIT_S = 60.0
SIZE = 50

Handle = WorkflowHandle[ConsolidateEventsWorkflow, WindowTotals]


@dataclass
class ScriptedWindows(Script):
    """A window ledger in memory."""

    plan: dict[str, Any] = field(default_factory=dict[str, Any])
    """Overrides of the plans."""
    categories: tuple[Category, ...] = (Category.BIOS, Category.KNOWLEDGE)
    empty: bool = False
    """Nothing is found in any window."""
    unreadable: tuple[Category, ...] = ()
    """The model's reply for these cannot be used."""
    loops: tuple[str, ...] = ()
    """Knowledge loops that applying knowledge names."""
    events: int = 0
    watermark: int = 0
    outcomes: dict[str, CommitInput] = field(default_factory=dict[str, CommitInput])

    def record(self, count: int = SIZE) -> None:
        self.events += count

    def all(self) -> list[Callable[..., Any]]:
        return [self.plan_window, self.extract_window, self.apply_category, self.commit_window, self.index_events]

    @activity.defn(name=names.PLAN_WINDOW)
    @answered_once
    async def plan_window(self, user: UserRef) -> WindowPlan:
        await self.enter("plan")
        return self._next()

    def _next(self) -> WindowPlan:
        if self.events - self.watermark < SIZE:
            return WindowPlan()
        fields: dict[str, Any] = {"model": "scripted", "categories": self.categories, **self.plan}
        first = self.watermark + 1
        return WindowPlan(window_id=f"w{first}", first_seq=first, last_seq=first + SIZE - 1, events=SIZE, **fields)

    @activity.defn(name=names.EXTRACT_WINDOW)
    @answered_once
    async def extract_window(self, job: WindowRef) -> ExtractReply:
        await self.enter("extract")
        found = 0 if self.empty else 2
        return ExtractReply(
            categories=tuple(
                CategoryOutcome(category=category, state="failed", reason="malformed")
                if category in self.unreadable
                else CategoryOutcome(category=category, proposed=found)
                for category in self.categories
            ),
            items={category: found for category in self.categories if category not in self.unreadable},
            usage={"extract": StageUsage(input_tokens=3000, output_tokens=300, calls=1)},
            elapsed_ms=5,
        )

    @activity.defn(name=names.APPLY_CATEGORY)
    @answered_once
    async def apply_category(self, job: ApplyInput) -> ApplyReply:
        await self.enter(f"apply:{job.category.value}")
        outcome = CategoryOutcome(category=job.category, proposed=2, applied=1, confirmed=1)
        return ApplyReply(outcome=outcome, elapsed_ms=2, loops=self.loops if job.category is Category.KNOWLEDGE else ())

    @activity.defn(name=names.COMMIT_WINDOW)
    @answered_once
    async def commit_window(self, done: CommitInput) -> WindowPlan:
        await self.enter("commit")
        self.outcomes[done.window_id] = done
        self.watermark = max(self.watermark, int(done.window_id[1:]) + SIZE - 1)
        return self._next()

    @activity.defn(name=names.INDEX_EVENTS)
    @answered_once
    async def index_events(self, job: IndexInput) -> IndexReply:
        await self.enter("index")
        return IndexReply(indexed=SIZE)


@dataclass
class WindowStage:
    """One recording: a server, a scripted world, one user."""

    client: Client
    world: ScriptedWindows
    scope: Scope

    @property
    def workflow_id(self) -> str:
        return self.scope.consolidate_events_workflow_id

    async def wake(self, windows: int = 1) -> Handle:
        self.world.record(windows * SIZE)
        return await self.client.start_workflow(
            ConsolidateEventsWorkflow.run,
            ConsolidateInput(user=UserRef.of(self.scope)),
            id=self.workflow_id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=EVENTS_RECORDED_SIGNAL,
            start_signal_args=[EventsRecorded(waiting=windows * SIZE)],
        )

    async def reached(self, call: str, times: int = 1) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.world.calls.count(call) < times:
                await asyncio.sleep(0.02)


async def _one(stage: WindowStage) -> None:
    await (await stage.wake()).result()


async def _with_loop(stage: WindowStage, windows: int = 1) -> None:
    await (await stage.wake(windows)).result()
    for loop_id in stage.world.loops:
        # Nobody here works on it, and a later recording must not.
        await stage.client.get_workflow_handle(stage.scope.knowledge_workflow_id(loop_id)).terminate()


async def _loop_runs_already(stage: WindowStage) -> None:
    await _with_loop(stage, 2)


async def _three(stage: WindowStage) -> None:
    await (await stage.wake(3)).result()


async def _meanwhile(stage: WindowStage) -> None:
    release = asyncio.Event()
    stage.world.then("extract", release)
    handle = await stage.wake()
    await stage.reached("extract")
    await stage.wake()
    release.set()
    await handle.result()


async def _wakes_while_indexing(stage: WindowStage) -> None:
    release = asyncio.Event()
    stage.world.then("index", release)
    handle = await stage.wake()
    await stage.reached("index")
    await stage.wake()
    await stage.reached("commit", 2)
    release.set()
    await handle.result()


async def _outage(stage: WindowStage) -> None:
    for step in ("plan", "extract", "apply:bios", "commit"):
        stage.world.then(step, *[fails("StoreUnavailable")] * 4)
    await _one(stage)


async def _rate_limited(stage: WindowStage) -> None:
    stage.world.then("extract", fails("ModelRateLimited"))
    await _one(stage)


async def _extract_failed(stage: WindowStage) -> None:
    stage.world.then("extract", fails("ModelRejected", final=True))
    await (await stage.wake(2)).result()


async def _apply_failed(stage: WindowStage) -> None:
    stage.world.then("apply:bios", fails("InvalidInput", final=True))
    await _one(stage)


async def _spent_meanwhile(stage: WindowStage) -> None:
    stage.world.then("extract", fails("SpendCapReached", final=True))
    await _one(stage)


async def _index_failed(stage: WindowStage) -> None:
    stage.world.then("index", fails("InvalidSettings", final=True))
    await _one(stage)


async def _cancelled(stage: WindowStage) -> None:
    never = asyncio.Event()
    stage.world.then("extract", never)
    handle = await stage.wake()
    await stage.reached("extract")
    await handle.cancel()
    async with asyncio.timeout(WAIT_S):
        while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await asyncio.sleep(0.05)
    never.set()


WindowShape = tuple[Callable[[], ScriptedWindows], Callable[[WindowStage], Awaitable[None]]]

WINDOW_SHAPES: dict[str, WindowShape] = {
    "done": (ScriptedWindows, _one),
    "done-all-categories": (lambda: ScriptedWindows(categories=tuple(Category)), _one),
    "done-nothing-found": (lambda: ScriptedWindows(empty=True), _one),
    "done-after-rate-limit": (ScriptedWindows, _rate_limited),
    "done-through-store-outage": (ScriptedWindows, _outage),
    "done-index-failed": (ScriptedWindows, _index_failed),
    "done-and-a-loop": (lambda: ScriptedWindows(loops=("w1-1",)), _with_loop),
    "a-loop-that-runs-already": (lambda: ScriptedWindows(loops=("w1-1",)), _loop_runs_already),
    "several-windows": (ScriptedWindows, _three),
    "events-arrive-meanwhile": (ScriptedWindows, _meanwhile),
    "events-arrive-while-indexing": (ScriptedWindows, _wakes_while_indexing),
    "skipped": (lambda: ScriptedWindows(plan={"categories": (), "skip": "no_category"}), _one),
    "partial-section-unreadable": (lambda: ScriptedWindows(unreadable=(Category.KNOWLEDGE,)), _one),
    "partial-apply-failed": (ScriptedWindows, _apply_failed),
    "failed-and-the-next": (ScriptedWindows, _extract_failed),
    "failed-all-categories": (lambda: ScriptedWindows(unreadable=(Category.BIOS, Category.KNOWLEDGE)), _one),
    "capped": (lambda: ScriptedWindows(plan={"capped": True}), _one),
    "capped-meanwhile": (ScriptedWindows, _spent_meanwhile),
    "cancelled": (ScriptedWindows, _cancelled),
    "continue-as-new": (lambda: ScriptedWindows(plan={"continue_after_windows": 2}), _three),
}
"""Every shape of ``ConsolidateEventsWorkflow``, and how to bring a run into it."""
