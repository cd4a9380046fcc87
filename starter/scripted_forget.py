"""Activities of an erasure under control, and every shape of ``ForgetUserWorkflow``: for replay fixtures and tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle

from memory.model import names
from memory.model.forget_steps import (
    EraseInput,
    EraseReply,
    ErasureRef,
    ForgetPlan,
    ForgetResult,
    MarkInput,
    RunsReply,
    StopReply,
)
from memory.model.names import FORGET_USER_WORKFLOW, TASK_QUEUE
from starter.forget import forget_workflow_id
from starter.scripted import Script, answered_once, fails

_WAIT_S = 60.0

ForgetHandle = WorkflowHandle[Any, ForgetResult]


@dataclass
class ScriptedForget(Script):
    """Stores with some rows. ``left``: by pass and store, what is found; the first pass finds two of each."""

    plan: dict[str, Any] = field(default_factory=dict)
    left: dict[tuple[int, str], int] = field(default_factory=dict)
    stopped: list[dict[str, int]] = field(default_factory=list)
    """By pass."""
    listed: list[int] = field(default_factory=lambda: [3, 0])
    """Executions that the server lists, one after the other."""
    marks: list[MarkInput] = field(default_factory=list)

    def all(self) -> list[Callable[..., Any]]:
        return [self.begin, self.stop, self.erase, self.delete, self.mark]

    @activity.defn(name=names.BEGIN_FORGET)
    @answered_once
    async def begin(self, erasure: ErasureRef) -> ForgetPlan:
        await self.enter("begin")
        return ForgetPlan.model_validate({"open": True, **self.plan})

    @activity.defn(name=names.STOP_USER_RUNS)
    @answered_once
    async def stop(self, erasure: ErasureRef) -> StopReply:
        await self.enter("stop")
        stopped = self.stopped.pop(0) if self.stopped else {}
        return StopReply(stopped=stopped, settle_s=0.2)

    @activity.defn(name=names.ERASE_USER)
    @answered_once
    async def erase(self, job: EraseInput) -> EraseReply:
        store = job.store.value
        await self.enter(f"erase:{store}")
        count = self.left.get((job.passed, store), 2 if job.passed == 1 else 0)
        return EraseReply(counts={f"{store}.things": count} if count else {}, elapsed_ms=1)

    @activity.defn(name=names.DELETE_USER_RUNS)
    @answered_once
    async def delete(self, erasure: ErasureRef) -> RunsReply:
        await self.enter("delete")
        return RunsReply(left=self.listed.pop(0) if len(self.listed) > 1 else self.listed[0])

    @activity.defn(name=names.MARK_FORGET)
    @answered_once
    async def mark(self, mark: MarkInput) -> ErasureRef:
        await self.enter(f"mark:{mark.state.value}")
        self.marks.append(mark)
        return mark.erasure


@dataclass
class ForgetStage:
    """One recording: a server, a scripted world, one erasure."""

    client: Client
    world: ScriptedForget
    erasure: ErasureRef

    @property
    def workflow_id(self) -> str:
        return forget_workflow_id(self.erasure.erasure_id)

    async def start(self) -> ForgetHandle:
        return await self.client.start_workflow(
            FORGET_USER_WORKFLOW, self.erasure, id=self.workflow_id, task_queue=TASK_QUEUE, result_type=ForgetResult
        )

    async def ended(self, handle: ForgetHandle) -> WorkflowExecutionStatus | None:
        async with asyncio.timeout(_WAIT_S):
            while (found := await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                await asyncio.sleep(0.05)
        return found.status


async def _through(stage: ForgetStage) -> None:
    await (await stage.start()).result()


async def _fails_visibly(stage: ForgetStage) -> None:
    try:
        await _through(stage)
    except WorkflowFailureError:
        return
    raise AssertionError("it should have failed")


async def _cancelled(stage: ForgetStage) -> None:
    never = asyncio.Event()
    stage.world.then("erase:objects", never)
    handle = await stage.start()
    async with asyncio.timeout(_WAIT_S):
        while "erase:objects" not in stage.world.calls:
            await asyncio.sleep(0.02)
    await handle.cancel()
    await stage.ended(handle)
    never.set()


def _away() -> ScriptedForget:
    world = ScriptedForget()
    world.then("erase:objects", *[fails("StoreUnavailable")] * 3)
    world.then("stop", fails("MemoryUnavailable", final=True))
    return world


def _refused() -> ScriptedForget:
    world = ScriptedForget()
    world.then("delete", fails("InvalidSettings", final=True))
    return world


_ALWAYS = {(passed, "rows"): 1 for passed in range(1, 5)}

ForgetShape = tuple[Callable[[], ScriptedForget], Callable[[ForgetStage], Awaitable[None]]]

FORGET_SHAPES: dict[str, ForgetShape] = {
    "forgotten": (ScriptedForget, _through),
    "stopped-what-ran": (lambda: ScriptedForget(stopped=[{"PostAnswerWorkflow": 1}]), _through),
    "leftovers-in-the-second-pass": (lambda: ScriptedForget(left={(2, "rows"): 1, (2, "vectors"): 4}), _through),
    "store-away": (_away, _through),
    "done-before": (lambda: ScriptedForget(plan={"open": False}), _through),
    "executions-stay-listed": (lambda: ScriptedForget(plan={"runs_for_s": 2.0}, listed=[2]), _through),
    "executions-may-not-be-deleted": (_refused, _through),
    "somebody-goes-on-writing": (lambda: ScriptedForget(plan={"max_passes": 3}, left=_ALWAYS), _fails_visibly),
    "forget-cancelled": (ScriptedForget, _cancelled),
}
"""Every shape of ``ForgetUserWorkflow``, and how to bring a run into it."""
