"""A knowledge loop's activities under control, and every shape that a run of one can have. See :mod:`starter.scripted`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from memory.model import names
from memory.model.knowledge_loop import Operation
from memory.model.knowledge_steps import (
    CallKind,
    CallRef,
    FinishInput,
    LoopInput,
    LoopPlan,
    LoopRef,
    LoopResult,
    QuestionInput,
    QuestionReply,
    SettleInput,
    Steer,
    ThinkInput,
    ThinkReply,
    ToolInput,
    ToolReply,
)
from memory.model.names import TASK_QUEUE
from memory.model.scope import Scope
from memory.model.steps import StageUsage, UserRef
from starter.scripted import Script, answered_once, fails
from workflows import KnowledgeLoopWorkflow, KnowledgeQuestionWorkflow

WAIT_S = 60.0

Handle = WorkflowHandle[KnowledgeLoopWorkflow, LoopResult]
_KINDS = {
    "filter": CallKind.READ,
    "reduce": CallKind.READ,
    "add_rows": CallKind.WRITE,
    "update_rows": CallKind.WRITE,
    "ask": CallKind.NESTED,
    "request_clarification": CallKind.CLARIFY,
}
"""Other names are refused."""


def calls(*tools: str) -> ThinkReply:
    """A reply that calls these tools."""
    made = enumerate(tools)
    return _priced(
        ThinkReply(calls=tuple(CallRef(index=n, name=name, kind=_KINDS.get(name, CallKind.REFUSED)) for n, name in made))
    )


def answers(**fields: Any) -> ThinkReply:
    """A reply that is the answer."""
    return _priced(ThinkReply(answered=True, **fields))


def unusable(problem: str) -> ThinkReply:
    return _priced(ThinkReply(problem=problem))


def _priced(reply: ThinkReply) -> ThinkReply:
    return reply.model_copy(update={"usage": {"knowledge.ask": StageUsage(input_tokens=1000, output_tokens=50, calls=1)}})


@dataclass
class ScriptedLoops(Script):
    """``replies``: of the model, one per step; then it answers. ``plan``: overrides. ``said``: number of the store's last entry:
    the model has always read all that was said before it was asked."""

    plan: dict[str, Any] = field(default_factory=dict[str, Any])
    replies: deque[ThinkReply] = field(default_factory=deque[ThinkReply])
    nested: deque[ThinkReply] = field(default_factory=deque[ThinkReply])
    said: int = 0
    thinks: list[ThinkInput] = field(default_factory=list[ThinkInput])
    settled: list[SettleInput] = field(default_factory=list[SettleInput])
    ended: dict[str, FinishInput] = field(default_factory=dict[str, FinishInput])
    cancelled: list[str] = field(default_factory=list[str])
    following: str | None = None
    """The loop that the end of another one names."""

    def store(self) -> list[Callable[..., Any]]:
        return [self.begin_loop, self.use_tool, self.settle_call, self.finish_loop]

    def model(self) -> list[Callable[..., Any]]:
        return [self.think, self.answer_question]

    @activity.defn(name=names.BEGIN_LOOP)
    @answered_once
    async def begin_loop(self, ref: LoopRef) -> LoopPlan:
        await self.enter("begin")
        fields: dict[str, Any] = {"model": "scripted", "clarify": True, **self.plan}
        return LoopPlan(**fields)

    @activity.defn(name=names.THINK)
    @answered_once
    async def think(self, job: ThinkInput) -> ThinkReply:
        seen = self.said
        self.thinks.append(job)
        await self.enter("think")
        script = self.nested if "." in job.ref.loop_id else self.replies
        reply = script.popleft() if script else answers()
        return reply.model_copy(update={"seen": seen, "entry": 10 * job.step})

    @activity.defn(name=names.USE_TOOL)
    @answered_once
    async def use_tool(self, job: ToolInput) -> ToolReply:
        try:
            await self.enter(job.name)
        except asyncio.CancelledError:
            self.cancelled.append(job.name)
            raise
        if job.kind is CallKind.NESTED:
            return ToolReply(ok=True, nested=f"{job.ref.loop_id}.{job.step}.{job.index}")
        if job.kind is CallKind.CLARIFY:
            return ToolReply(ok=True, clarification=f"clarification/{job.step}/{job.index}")
        return ToolReply(ok=True, rows=1, result_bytes=20)

    @activity.defn(name=names.SETTLE_CALL)
    @answered_once
    async def settle_call(self, job: SettleInput) -> ToolReply:
        await self.enter(f"settle:{job.outcome}")
        self.settled.append(job)
        failed = job.outcome.partition(":")[0] in ("overtaken", "in_doubt", "failed")
        return ToolReply(ok=not failed, error=job.outcome if failed else None)

    @activity.defn(name=names.FINISH_LOOP)
    @answered_once
    async def finish_loop(self, end: FinishInput) -> LoopResult:
        await self.enter("finish")
        self.ended[end.ref.loop_id] = end
        following = None if end.ref.loop_id == self.following else self.following
        return LoopResult(**end.model_dump(exclude={"ref"}), following=following)

    @activity.defn(name=names.ANSWER_QUESTION)
    @answered_once
    async def answer_question(self, job: QuestionInput) -> QuestionReply:
        await self.enter("question")
        return QuestionReply(answered=True, usage={"knowledge.question": StageUsage(input_tokens=500, output_tokens=20, calls=1)})


@dataclass
class LoopStage:
    """One recording: a server, a scripted world, one loop."""

    client: Client
    world: ScriptedLoops
    scope: Scope
    loop_id: str = "loop"
    operation: Operation = Operation.UPDATE

    @property
    def workflow_id(self) -> str:
        return self.scope.knowledge_workflow_id(self.loop_id)

    @property
    def end(self) -> FinishInput:
        return self.world.ended[self.loop_id]

    async def begin(self) -> Handle:
        return await self.client.start_workflow(
            KnowledgeLoopWorkflow.run,
            LoopInput(user=UserRef.of(self.scope), loop_id=self.loop_id, operation=self.operation),
            id=self.workflow_id,
            task_queue=TASK_QUEUE,
        )

    async def reached(self, call: str, times: int = 1) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.world.calls.count(call) < times:
                await asyncio.sleep(0.02)

    async def at(self, handle: Handle, doing: str) -> None:
        """Wait until the loop says that it does this."""
        async with asyncio.timeout(WAIT_S):
            while (await handle.query(KnowledgeLoopWorkflow.status)).doing != doing:
                await asyncio.sleep(0.05)

    def says(self) -> Steer:
        """Somebody wrote an entry."""
        self.world.said += 1
        return Steer(entry=self.world.said)


async def _run(stage: LoopStage) -> None:
    await (await stage.begin()).result()


async def _paused(stage: LoopStage) -> None:
    release = asyncio.Event()
    stage.world.then("think", release)
    handle = await stage.begin()
    await stage.reached("think")
    await handle.execute_update(KnowledgeLoopWorkflow.pause, id="p")
    release.set()
    await stage.at(handle, "paused")
    await handle.execute_update(KnowledgeLoopWorkflow.resume, id="r")
    await handle.result()


async def _interjected(stage: LoopStage) -> None:
    """While the model answers: it has not read it, so what it wants to write waits, and it thinks again."""
    first, second = asyncio.Event(), asyncio.Event()
    stage.world.then("think", first, second)
    handle = await stage.begin()
    for number, release in enumerate((first, second), 1):
        await stage.reached("think", number)
        await handle.execute_update(KnowledgeLoopWorkflow.interject, stage.says(), id=f"i{number}")
        release.set()
    await handle.result()


async def _stopped(stage: LoopStage, call: str) -> None:
    release = asyncio.Event()
    stage.world.then(call, release)
    handle = await stage.begin()
    await stage.reached(call)
    await handle.signal(KnowledgeLoopWorkflow.stop, stage.says())
    if call == "add_rows":
        # A write that has begun ends by itself.
        await stage.at(handle, "stopping")
        release.set()
    await handle.result()
    release.set()


async def _stopped_thinking(stage: LoopStage) -> None:
    await _stopped(stage, "think")


async def _stopped_reading(stage: LoopStage) -> None:
    await _stopped(stage, "filter")


async def _stopped_writing(stage: LoopStage) -> None:
    await _stopped(stage, "add_rows")


async def _stopped_paused(stage: LoopStage) -> None:
    release = asyncio.Event()
    stage.world.then("think", release)
    handle = await stage.begin()
    await stage.reached("think")
    await handle.execute_update(KnowledgeLoopWorkflow.pause, id="p")
    release.set()
    await stage.at(handle, "paused")
    await handle.signal(KnowledgeLoopWorkflow.stop, stage.says())
    await handle.result()


async def _answered(stage: LoopStage) -> None:
    handle = await stage.begin()
    await stage.at(handle, "waiting_for_answer")
    said = stage.says().model_copy(update={"clarification": "clarification/1/0"})
    await handle.execute_update(KnowledgeLoopWorkflow.answer_clarification, said, id="a")
    await handle.result()


async def _stopped_waiting(stage: LoopStage) -> None:
    handle = await stage.begin()
    await stage.at(handle, "waiting_for_answer")
    await handle.signal(KnowledgeLoopWorkflow.stop, stage.says())
    await handle.result()


async def _stopped_nested(stage: LoopStage) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    first.set()
    stage.world.then("think", first, second)
    handle = await stage.begin()
    await stage.reached("think", 2)
    await handle.signal(KnowledgeLoopWorkflow.stop, stage.says())
    await handle.result()
    second.set()


async def _cancelled(stage: LoopStage) -> None:
    never = asyncio.Event()
    stage.world.then("think", never)
    handle = await stage.begin()
    await stage.reached("think")
    await handle.cancel()
    async with asyncio.timeout(WAIT_S):
        while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await asyncio.sleep(0.05)
    never.set()


def _and_the_next(act: Callable[[LoopStage], Awaitable[None]]) -> Callable[[LoopStage], Awaitable[None]]:
    async def both(stage: LoopStage) -> None:
        await act(stage)
        await stage.client.get_workflow_handle(stage.scope.knowledge_workflow_id(stage.world.following or "")).result()

    return both


async def _outage(stage: LoopStage) -> None:
    for step in ("begin", "think", "filter", "settle:failed:Unexpected", "finish"):
        stage.world.then(step, fails("StoreUnavailable"))
    stage.world.then("add_rows", *[fails("Unexpected")] * 3)
    await _run(stage)


async def _rate_limited(stage: LoopStage) -> None:
    stage.world.then("think", fails("ModelRateLimited"))
    await _run(stage)


async def _model_rejected(stage: LoopStage) -> None:
    stage.world.then("think", fails("ModelRejected", final=True))
    await _run(stage)


async def _paused_and_new(stage: LoopStage) -> None:
    """A pause that comes with the last step of a run holds in the next one."""
    release = asyncio.Event()
    stage.world.then("filter", release)
    handle = await stage.begin()
    await stage.reached("filter")
    await handle.execute_update(KnowledgeLoopWorkflow.pause, id="p")
    await handle.execute_update(KnowledgeLoopWorkflow.interject, stage.says(), id="i")
    release.set()
    latest: Handle = stage.client.get_workflow_handle_for(KnowledgeLoopWorkflow.run, stage.workflow_id)
    await stage.at(latest, "paused")
    async with asyncio.timeout(WAIT_S):
        while (await latest.query(KnowledgeLoopWorkflow.status)).progress.runs < 2:
            await asyncio.sleep(0.05)
    await latest.execute_update(KnowledgeLoopWorkflow.resume, id="r")
    await latest.result()


async def _question(stage: LoopStage) -> None:
    await stage.client.execute_workflow(
        KnowledgeQuestionWorkflow.run,
        QuestionInput(ref=LoopRef(user=UserRef.of(stage.scope), loop_id=stage.loop_id), entry=1, plan=LoopPlan()),
        id=stage.workflow_id,
        task_queue=TASK_QUEUE,
    )


async def _question_failed(stage: LoopStage) -> None:
    stage.world.then("question", fails("ModelRejected", final=True))
    await _question(stage)


LoopShape = tuple[Callable[[], ScriptedLoops], Callable[[LoopStage], Awaitable[None]]]


def _world(*replies: ThinkReply, nested: Sequence[ThinkReply] = (), **plan: Any) -> Callable[[], ScriptedLoops]:
    return lambda: ScriptedLoops(replies=deque(replies), nested=deque(nested), plan=plan)


_READ_WRITE = (calls("filter", "reduce"), calls("add_rows", "update_rows"))

LOOP_SHAPES: dict[str, LoopShape] = {
    "another-follows": (lambda: ScriptedLoops(following="next"), _and_the_next(_run)),
    "cancelled-another-follows": (lambda: ScriptedLoops(following="next"), _and_the_next(_cancelled)),
    "answer-at-once": (_world(), _run),
    "reads-and-writes": (_world(*_READ_WRITE), _run),
    "mixed-calls": (_world(calls("filter", "add_rows", "reduce", "filter", "no_such_tool")), _run),
    "refused": (_world(refused="feature_flag_off"), _run),
    "refused-calls": (_world(calls("drop_everything")), _run),
    "nested": (_world(calls("ask", "filter"), nested=[calls("filter")]), _run),
    "paused": (_world(*_READ_WRITE), _paused),
    "interjected": (_world(calls("add_rows", "filter"), answers()), _interjected),
    "clarification-answered": (_world(calls("request_clarification", "add_rows")), _answered),
    "clarification-unanswered": (_world(calls("request_clarification"), clarification_wait_s=0.2), _run),
    "stopped-thinking": (_world(), _stopped_thinking),
    "stopped-reading": (_world(*_READ_WRITE), _stopped_reading),
    "stopped-writing": (_world(calls("add_rows", "update_rows")), _stopped_writing),
    "stopped-paused": (_world(*_READ_WRITE), _stopped_paused),
    "stopped-waiting": (_world(calls("request_clarification")), _stopped_waiting),
    "stopped-nested": (_world(calls("ask")), _stopped_nested),
    "cancelled": (_world(), _cancelled),
    "limit-of-steps": (_world(*[calls("filter")] * 9, max_steps=3), _run),
    "limit-of-tokens": (_world(*[calls("filter")] * 9, max_tokens=2500), _run),
    "limit-of-time": (_world(*[calls("filter")] * 9, max_wall_s=0.001), _run),
    "limit-without-answer": (_world(calls("filter"), unusable("empty"), max_steps=2), _run),
    "repaired": (_world(unusable("empty"), unusable("truncated"), calls("filter")), _run),
    "malformed": (_world(*[unusable("empty")] * 3), _run),
    "structured": (_world(answers(unstructured=True), unusable("response_format")), _run),
    "not-in-form": (_world(answers(unstructured=True), *[unusable("response_format")] * 2), _run),
    "rate-limited": (_world(*_READ_WRITE), _rate_limited),
    "model-rejected": (_world(), _model_rejected),
    "store-outage-and-failed-write": (_world(*_READ_WRITE), _outage),
    "continue-as-new": (_world(*[calls("filter")] * 5, continue_after_steps=2), _run),
    "continue-as-new-paused": (_world(*[calls("filter")] * 2, continue_after_steps=1), _paused_and_new),
}
"""Every shape of ``KnowledgeLoopWorkflow``, and how to bring a run into it."""

QUESTION_SHAPES: dict[str, LoopShape] = {
    "answered": (_world(), _question),
    "failed": (_world(), _question_failed),
}
"""Those of ``KnowledgeQuestionWorkflow``."""
