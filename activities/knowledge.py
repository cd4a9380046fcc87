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
from typing import Any, Final

import structlog
from temporalio import activity

from activities.common import since
from activities.errors import translated
from activities.heartbeat import heartbeats
from activities.knowledge_desk import Desk
from memory.categories.table_loops import next_loop
from memory.knowledge.answers import NotInForm, ending_text, fitting_text, in_form, json_bytes
from memory.knowledge.guard import DESTRUCTIVE
from memory.knowledge.moved import moved_by
from memory.knowledge.reading import last_answer, said_by_caller, steered
from memory.knowledge.results import ToolOutcome, written
from memory.metering import Meter
from memory.model.enablement import effective_enablement
from memory.model.errors import AfterturnError, InvalidInput, StoreUnavailable
from memory.model.knowledge_loop import (
    MAX_ANSWER_BYTES,
    MAX_RESULT_BYTES,
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
from memory.model.transcript import shorten_middle
from memory.ports import Usage

WRITE_GRACE_S: Final = 30.0
"""A write that has begun may end, although its loop is being stopped."""
NESTED_STEPS: Final = 20
ENVELOPE_BYTES: Final = 2_048
_NOT_MADE: Final = "not made: the caller said something meanwhile; read it and decide anew"
_IN_DOUBT: Final = f"{_NOT_MADE}; it may have been made before an interruption: look at the tables first"
_FAILED_READ: Final = "the tool could not be used; try another way, or go on without it"
_FAILED_WRITE: Final = "it is not known whether this was done: look at the tables before you repeat it"

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
        told = steered(entries)
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
            steered=told.newest,
            paused=told.paused,
            stopping=told.stopping,
            thought=told.thought,
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
        call = _call(reply, job.index)
        # A repeat reads again, and writes nothing again: its effect has a key. The whole conversation is for what destroys.
        entries = await desk.entries(ref) if call.name in DESTRUCTIVE else []
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
            outcome = _failure(type(error).__name__, error.message)
        except Exception as error:  # noqa: BLE001 - a fault in one tool is told to the model; the loop goes on
            frames = traceback.extract_tb(error.__traceback__)[-2:]
            place = " < ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in reversed(frames))
            _log.error("tool_failed", tool=job.name, error=type(error).__name__, at=place)
            outcome = _failure("internal", _FAILED_WRITE if job.kind is CallKind.WRITE else _FAILED_READ)
        if outcome.asked is not None and not outcome.is_error:
            return await self._asks(job, loop, call, outcome.asked)
        (entry,) = await desk.keep(ref, [_entry(job.step, job.index, call, outcome)])
        return _told(entry)

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
        done = _result(entries, job.step, job.index)
        if done is not None:
            return _told(done)
        outcome = await self._settled(job, entries)
        (entry,) = await self._desk.keep(job.ref, [_entry(job.step, job.index, _call(reply, job.index), outcome)])
        return _told(entry)

    async def _settled(self, job: SettleInput, entries: Sequence[Entry]) -> ToolOutcome:
        if job.outcome in ("overtaken", "in_doubt"):
            return _failure("overtaken", _NOT_MADE if job.outcome == "overtaken" else _IN_DOUBT)
        if job.outcome.startswith("failed:"):
            return _failure(job.outcome.partition(":")[2], _FAILED_WRITE if job.kind is CallKind.WRITE else _FAILED_READ)
        if job.nested is not None:
            return _answer_of(await self._desk.loops.loop(job.ref.user.scope, job.nested))
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
            if end.state is LoopState.STOPPED and (left := _not_run(entries)):
                await desk.keep(ref, left)
            answer, structured, state, reason = await _ended(loop, entries, end)
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


async def _ended(loop: Loop, entries: Sequence[Entry], end: FinishInput) -> tuple[str, Any, LoopState, str | None]:
    """Answer, its structured form, and the state."""
    answer = last_answer(entries) if end.state in (LoopState.DONE, LoopState.LIMIT) else None
    if answer is None:
        stops = [str(entry.body.get("reason") or "") for entry in entries if entry.kind is EntryKind.STOP]
        said = stops[0] if stops and end.state is LoopState.STOPPED else None
        return ending_text(end.state, end.reason, steps=end.steps, said=said), None, end.state, end.reason
    short = fitting_text(answer, MAX_ANSWER_BYTES - ENVELOPE_BYTES)
    if loop.response_format is None:
        return short, None, end.state, end.reason
    for text in (last_answer(entries, structured=True), answer):
        if text is not None:
            try:
                value = await asyncio.to_thread(in_form, text, loop.response_format)
            except NotInForm:
                continue
            room = MAX_ANSWER_BYTES - ENVELOPE_BYTES - (json_bytes(value) or MAX_ANSWER_BYTES)
            if room < ENVELOPE_BYTES:
                return short, None, LoopState.FAILED, "answer_too_large"
            return fitting_text(answer, room), value, end.state, end.reason
    return short, None, LoopState.FAILED, "response_format"


def _call(reply: Entry, index: int) -> ToolCall:
    calls: list[dict[str, Any]] = reply.body.get("calls") or []
    if index >= len(calls):
        raise InvalidInput(f"entry {reply.number} has no call {index}")
    call = calls[index]
    return ToolCall(call["call_id"], call["name"], call.get("arguments"), call.get("raw") or "")


def _result(entries: Sequence[Entry], step: int, index: int) -> Entry | None:
    return next((entry for entry in entries if entry.key == f"result/{step}/{index}"), None)


def _entry(step: int, index: int, call: ToolCall, outcome: ToolOutcome) -> Entry:
    body = {
        "call_id": call.call_id,
        "name": call.name,
        "content": fitting_text(outcome.content, 2 * MAX_RESULT_BYTES),
        "is_error": outcome.is_error,
        "code": outcome.code,
        "rows": outcome.rows,
    }
    return Entry(f"result/{step}/{index}", EntryKind.RESULT, step, body)


def _told(entry: Entry) -> ToolReply:
    """What of a result may be in Temporal."""
    body = entry.body
    failed = bool(body.get("is_error"))
    return ToolReply(
        ok=not failed,
        error=str(body.get("code") or "error")[:60] if failed else None,
        rows=body.get("rows"),
        result_bytes=len(str(body.get("content") or "").encode("utf-8", "replace")),
    )


def _failure(code: str, message: str) -> ToolOutcome:
    return ToolOutcome(written({"error": code, "message": message}), is_error=True, code=code)


def _answer_of(nested: Loop | None) -> ToolOutcome:
    if nested is None or nested.answer is None:
        return _failure("no_answer", _FAILED_READ)
    if nested.state not in (LoopState.DONE, LoopState.LIMIT):
        return _failure(nested.state.value, nested.answer)
    told = {"answer": shorten_middle(nested.answer, MAX_RESULT_BYTES // 2)}
    if nested.state is LoopState.LIMIT:
        told["note"] = "it came to a limit; this may be incomplete"
    return ToolOutcome(written(told))


def _not_run(entries: Sequence[Entry]) -> list[Entry]:
    """Results for the calls of the last reply that have none: the loop was stopped before, or while they ran."""
    replies = [entry for entry in entries if entry.kind is EntryKind.MODEL]
    if not replies:
        return []
    last = max(replies, key=lambda entry: entry.step)
    outcome = _failure("stopped", "not done: the loop was stopped")
    calls: list[dict[str, Any]] = last.body.get("calls") or []
    return [
        _entry(last.step, index, ToolCall(call["call_id"], call["name"], None), outcome)
        for index, call in enumerate(calls)
        if _result(entries, last.step, index) is None
    ]
