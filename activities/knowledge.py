"""The steps of a knowledge loop that need no model: begin, use a tool, settle a call, finish. On the workflow queue.

Every result is an entry that is written once, and every write of a tool has the key of its call: a step that is repeated does
nothing twice.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import structlog
from temporalio import activity

from activities.common import since
from activities.errors import translated
from activities.heartbeat import heartbeats
from activities.knowledge_desk import Desk
from activities.knowledge_results import (
    FAILED_READ,
    FAILED_WRITE,
    answer_of,
    call_of,
    ended,
    failure,
    not_run,
    result_entry,
    result_of,
    told,
)
from memory import telemetry
from memory.categories.table_loops import next_loop
from memory.knowledge.guard import JUDGED
from memory.knowledge.moved import moved_by
from memory.knowledge.reading import said_by_caller, steered
from memory.knowledge.results import ToolOutcome, written
from memory.metering import Meter
from memory.model import metrics
from memory.model.enablement import effective_enablement
from memory.model.errors import AfterturnError, StoreUnavailable
from memory.model.knowledge_loop import (
    Entry,
    EntryKind,
    Limits,
    Loop,
    LoopState,
    Operation,
    effect_key,
)
from memory.model.knowledge_steps import (
    CallKind,
    FinishInput,
    LoopPlan,
    LoopRef,
    LoopResult,
    SettleInput,
    ToolInput,
    ToolReply,
)
from memory.model.names import BEGIN_LOOP, FINISH_LOOP, SETTLE_CALL, USE_TOOL
from memory.model.scope import Scope
from memory.model.tools import ToolCall
from memory.ports import Usage

WRITE_GRACE_S: Final = 30.0
"""A write that has begun may end, although its loop is being stopped."""
NESTED_STEPS: Final = 20
_NOT_MADE: Final = "not made: the caller said something meanwhile; read it and decide anew"
_IN_DOUBT: Final = f"{_NOT_MADE}; it may have been made before an interruption: look at the tables first"

_log = structlog.get_logger("afterturn.knowledge")


class KnowledgeActivities:
    def __init__(self, desk: Desk, meter: Meter) -> None:
        self._desk = desk
        self._meter = meter

    @activity.defn(name=BEGIN_LOOP)
    @translated
    async def begin_loop(self, ref: LoopRef) -> LoopPlan:
        """What the loop may do and with what, or why it may not; and what an earlier run of it was told."""
        rules = self._desk.rules
        loop, entries = await asyncio.gather(self._desk.loop(ref), self._desk.entries(ref))
        before = steered(entries)
        refused = "ended" if loop.state is not LoopState.RUNNING else await self._refused(ref)
        asked, most = loop.limits, rules.limits
        return LoopPlan(
            refused=refused,
            model=loop.model or rules.model,
            model_timeout_s=rules.model_timeout_s,
            store_retry_for_s=rules.store_retry_for_s,
            max_steps=min(asked.steps, most.steps),
            max_tokens=min(asked.tokens, most.tokens),
            max_wall_s=min(asked.wall_s, most.wall_s),
            clarification_wait_s=min(asked.clarification_wait_s, most.clarification_wait_s),
            continue_after_steps=rules.continue_after_steps,
            clarify=loop.clarify,
            steered=before.newest,
            paused=before.paused,
            stopping=before.stopping,
            thought=before.thought,
        )

    async def _refused(self, ref: LoopRef) -> str | None:
        rules, scope = self._desk.rules, ref.user.scope
        enablement = effective_enablement(
            feature_flag=rules.feature_flag,
            allow_with_web_search=rules.allow_with_web_search,
            tenant=scope.tenant,
            facts=await self._desk.directory.facts(scope, "default"),
            allow_user_memory=True,
            web_search=False,
        )
        if not enablement.active:
            return enablement.codes[0].value
        return "spend_cap_reached" if await self._meter.is_spent(scope) else None

    # ----------------------------------------------------------------------------------------------------------- one call

    @activity.defn(name=USE_TOOL)
    @translated
    async def use_tool(self, job: ToolInput) -> ToolReply:
        """Make one call and write down its result. A write that has begun is let end, whoever gives up on this step."""
        began = time.perf_counter()
        async with heartbeats():
            work = asyncio.create_task(self._use(job))
            try:
                reply = await asyncio.shield(work)
            except asyncio.CancelledError:
                if job.kind is CallKind.WRITE:
                    await asyncio.wait({work}, timeout=WRITE_GRACE_S)
                if not work.done():
                    work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                    raise
                reply = work.result()
        return reply.model_copy(update={"elapsed_ms": since(began)})

    async def _use(self, job: ToolInput) -> ToolReply:
        desk, ref = self._desk, job.ref
        hands, loop, reply = await asyncio.gather(desk.hands(ref), desk.request(ref), desk.reply(ref, job.entry))
        call = call_of(reply, job.index)
        # A repeat reads again, and writes nothing again: its effect has a key. The whole conversation is for what may destroy.
        entries = await desk.entries(ref) if call.name in JUDGED else []
        try:
            outcome = await hands.tools.run(
                call,
                effect=effect_key(ref.user.scope, loop.loop_id, job.step, job.index),
                said=said_by_caller(loop, entries),
                moved=moved_by(loop, entries),
                now=datetime.now(UTC),
            )
        except StoreUnavailable:
            raise
        except AfterturnError as error:
            outcome = failure(type(error).__name__, error.message)
        except Exception as error:  # noqa: BLE001 - a fault in one tool is told to the model; the loop goes on
            frames = traceback.extract_tb(error.__traceback__)[-2:]
            place = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
            _log.error("tool_failed", tool=job.name, error=type(error).__name__, at=place)
            outcome = failure("internal", FAILED_WRITE if job.kind is CallKind.WRITE else FAILED_READ)
        if outcome.asked is not None and not outcome.is_error:
            return await self._asks(job, loop, call, outcome.asked)
        (entry,) = await desk.keep(ref, [result_entry(job.step, job.index, call, outcome)])
        return told(entry)

    async def _asks(self, job: ToolInput, loop: Loop, call: ToolCall, text: str) -> ToolReply:
        """A question to the caller, or to a loop of its own: recorded, and left to the workflow."""
        if job.kind is CallKind.CLARIFY:
            key = f"clarification/{job.step}/{job.index}"
            body = {"question": text, "call_id": call.call_id}
            await self._desk.keep(job.ref, [Entry(key, EntryKind.CLARIFICATION, job.step, body)])
            # Asked by a run that was lost, it may have been answered, or given up, when nobody waited.
            later = {entry.key for entry in await self._desk.entries(job.ref, after=job.entry)}
            settled = not later.isdisjoint((f"answer/{key}", f"result/{job.step}/{job.index}"))
            return ToolReply(ok=True, clarification=key, answered=settled)
        nested = Loop(
            loop_id=f"{loop.loop_id}.{job.step}.{job.index}",
            operation=Operation(f"{loop.operation.value.split('.')[0]}.ask"),
            text=text,
            destination=loop.destination,
            created_at=datetime.now(UTC),
            limits=Limits(
                steps=min(NESTED_STEPS, loop.limits.steps),
                tokens=max(1, min(loop.limits.tokens, job.tokens_left or loop.limits.tokens)),
                wall_s=max(1.0, min(loop.limits.wall_s, job.wall_left_s or loop.limits.wall_s)),
            ),
            model=loop.model,
            parent=loop.loop_id,
        )
        opened = await self._desk.loops.open(job.ref.user.scope, nested)
        return ToolReply(ok=True, nested=opened.loop_id)

    @activity.defn(name=SETTLE_CALL)
    @translated
    async def settle_call(self, job: SettleInput) -> ToolReply:
        """Write the result of a call that waited, was overtaken, or failed for good."""
        entries, reply = await asyncio.gather(self._desk.entries(job.ref, after=job.entry), self._desk.reply(job.ref, job.entry))
        done = result_of(entries, job.step, job.index)
        if done is not None:
            return told(done)
        outcome = await self._settled(job, entries)
        (entry,) = await self._desk.keep(job.ref, [result_entry(job.step, job.index, call_of(reply, job.index), outcome)])
        return told(entry)

    async def _settled(self, job: SettleInput, entries: Sequence[Entry]) -> ToolOutcome:
        if job.outcome in ("overtaken", "in_doubt"):
            return failure("overtaken", _NOT_MADE if job.outcome == "overtaken" else _IN_DOUBT)
        if job.outcome.startswith("failed:"):
            return failure(job.outcome.partition(":")[2], FAILED_WRITE if job.kind is CallKind.WRITE else FAILED_READ)
        if job.nested is not None:
            return answer_of(await self._desk.loops.loop(job.ref.user.scope, job.nested))
        # An answer that is there counts, also where nobody could tell the workflow of it.
        if any(entry.key == f"answer/{job.clarification}" for entry in entries):
            return ToolOutcome(written({"outcome": "answered", "see": "the caller's answer"}))
        return ToolOutcome(written({"outcome": "no answer in time", "do": "go on, and state what you assume"}))

    # ----------------------------------------------------------------------------------------------------------- the end

    @activity.defn(name=FINISH_LOOP)
    @translated
    async def finish_loop(self, end: FinishInput) -> LoopResult:
        """Write down how the loop ended, with the model's answer or clear words in its place."""
        desk, ref = self._desk, end.ref
        loop, entries = await asyncio.gather(desk.loop(ref), desk.entries(ref))
        if loop.state is LoopState.RUNNING:
            if end.state is LoopState.STOPPED and (left := not_run(entries)):
                await desk.keep(ref, left)
            answer, structured, state, reason = await ended(loop, entries, end)
            loop = await desk.loops.finish(
                ref.user.scope,
                ref.loop_id,
                state=state,
                answer=answer,
                structured=structured,
                reason=reason,
                steps=end.steps,
                usage=Usage(end.input_tokens, end.output_tokens, calls=end.steps),
                now=datetime.now(UTC),
            )
            telemetry.count(metrics.LOOPS, operation=loop.operation.value, outcome=loop.state.value)
        desk.forget(ref)
        return LoopResult(
            state=loop.state,
            reason=loop.reason,
            steps=loop.steps,
            input_tokens=loop.input_tokens,
            output_tokens=loop.output_tokens,
            following=await self._following(ref.user.scope) if loop.is_of_window else None,
        )

    async def _following(self, scope: Scope) -> str | None:
        """Whose turn is next among the loops of a user's windows. None while the user's tokens are spent: the sweeper goes on."""
        return None if await self._meter.is_spent(scope) else await next_loop(self._desk.loops, scope)
