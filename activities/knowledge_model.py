"""The steps of a knowledge loop that call a language model: think, and answer a question beside the loop. On the model queue.

A reply is in the store before its step is done: a step that is repeated finds it, and neither pays nor acts twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from temporalio import activity

from activities.common import since
from activities.errors import translated
from activities.heartbeat import heartbeats
from activities.knowledge_desk import Desk, Hands
from activities.model_steps import stage_usage
from memory.knowledge.answers import NotInForm, fitting_text, in_form, json_bytes
from memory.knowledge.groups import CLARIFY, READ_TOOLS, TALK_TOOLS, WRITE_TOOLS
from memory.knowledge.reading import in_reading_order, last_answer
from memory.knowledge.results import written
from memory.metering import Meter
from memory.model.errors import InvalidInput, ModelRejected
from memory.model.knowledge_loop import Entry, EntryKind, Loop
from memory.model.knowledge_steps import CallKind, CallRef, QuestionInput, QuestionReply, ThinkInput, ThinkReply
from memory.model.names import ANSWER_QUESTION, THINK
from memory.model.steps import StageUsage
from memory.model.tools import MAX_TOOL_CALLS, ToolCall
from memory.ports import ChatReply, ModelProvider, StopReason
from memory.prompts.knowledge import LoopView, loop_request, question_request, structured_request

MAX_CALLS_KEPT: Final = 64
"""Of one reply; further ones are dropped, as if the model had not made them."""
INLINE_CHARS: Final = 8 * 1024
"""Of all results: the prompt of a longer conversation takes long enough to be made in a thread."""
MAX_TEXT_BYTES: Final = 192 * 1024
"""Of a reply's text, as JSON."""
MAX_CALLS_BYTES: Final = 640 * 1024
"""Of the arguments of a reply's calls together: they are kept in one entry."""
MAX_RAW_CHARS: Final = 4 * 1024
"""Of what is kept of arguments that cannot be read."""
_KNOWN: Final = frozenset({*READ_TOOLS, *WRITE_TOOLS, *TALK_TOOLS})
_NOTES: Final = {
    "empty": "Your last reply was empty. Call a tool, or give the answer.",
    "truncated": "Your last reply was cut off at its limit, and nothing of it was done. Make fewer, smaller calls, or be shorter.",
}
_NOT_IN_FORM: Final = "\n\nAn earlier try did not follow the schema."


class KnowledgeModelActivities:
    def __init__(self, desk: Desk, models: ModelProvider, meter: Meter) -> None:
        self._desk = desk
        self._models = models
        self._meter = meter

    @activity.defn(name=THINK)
    @translated
    async def think(self, job: ThinkInput) -> ThinkReply:
        """The next reply of the loop's model, written down with the errors for calls that are not made at all."""
        began = time.perf_counter()
        async with heartbeats():
            entries, (hands, overview) = await asyncio.gather(self._desk.entries(job.ref), self._hands(job))
            entry = next((one for one in entries if one.key == f"model/{job.step}"), None)
            if entry is None:
                entry = await self._ask(job, hands, overview, entries)
            self._desk.keep_in_mind(job.ref, entry)
        return _reply(entry, elapsed_ms=since(began))

    async def _hands(self, job: ThinkInput) -> tuple[Hands, Mapping[str, Any]]:
        hands = await self._desk.hands(job.ref)
        return hands, await hands.tools.overview()

    async def _ask(self, job: ThinkInput, hands: Hands, overview: Mapping[str, Any], entries: Sequence[Entry]) -> Entry:
        scope, loop = job.ref.user.scope, await self._desk.request(job.ref)
        # On the last step they are only shown (the conversation has calls of them), so that a prompt cache serves what it holds.
        tools = () if job.structure else hands.tools.definitions(several_tables=len(overview) > 1)
        model = self._models.model(job.plan.model)
        view = LoopView(
            loop=loop,
            entries=[*in_reading_order(entries), *_note(job)],
            overview=overview,
            teams=hands.teams,
            now=datetime.now(UTC),
            tools=tools,
            last=job.last,
            timeout_s=job.plan.model_timeout_s,
            reasoning=model.reasoning,
        )
        if job.structure:
            answer = last_answer(entries) or ""
            request = structured_request(view, answer + (_NOT_IN_FORM if job.problem else ""))
        elif sum(len(str(one.body.get("content") or "")) for one in entries) > INLINE_CHARS:
            request = await asyncio.to_thread(loop_request, view)
        else:
            request = loop_request(view)
        reply = await self._meter.metered(model, scope).complete(request)
        if reply.stop is StopReason.REFUSED:
            raise ModelRejected("the model refuses to answer")
        seen = max((one.number for one in entries), default=0)
        kept = await self._desk.keep(job.ref, await _entries(job, loop, hands, reply, stage=request.stage, seen=seen))
        return kept[0]

    @activity.defn(name=ANSWER_QUESTION)
    @translated
    async def answer_question(self, job: QuestionInput) -> QuestionReply:
        """Answer a side question from what the loop did so far, and write the answer down."""
        desk, scope = self._desk, job.ref.user.scope
        async with heartbeats():
            loop, entries = await asyncio.gather(desk.loop(job.ref), desk.entries(job.ref))
            asked = next((one for one in entries if one.number == job.entry and one.kind is EntryKind.SIDE_QUESTION), None)
            if asked is None:
                raise InvalidInput("there is no such question")
            key = f"side_answer/{job.entry}"
            if any(one.key == key for one in entries):
                return QuestionReply(answered=True)
            model = self._models.model(job.plan.model or loop.model or desk.rules.model)
            view = LoopView(
                loop=loop,
                entries=[one for one in entries if one.kind not in (EntryKind.SIDE_QUESTION, EntryKind.SIDE_ANSWER)],
                overview={},
                now=datetime.now(UTC),
                timeout_s=job.plan.model_timeout_s,
                reasoning=model.reasoning,
            )
            request = await asyncio.to_thread(question_request, view, str(asked.body.get("text") or ""))
            reply = await self._meter.metered(model, scope).complete(request)
            usage = {request.stage: stage_usage(reply.usage)}
            text = fitting_text(reply.text.strip(), MAX_TEXT_BYTES)
            if not text or reply.stop is StopReason.REFUSED:
                return QuestionReply(answered=False, problem="refused" if text else "empty", usage=usage)
            body = {"question": asked.key, "text": text}
            await desk.keep(job.ref, [Entry(key, EntryKind.SIDE_ANSWER, asked.step, body)])
        return QuestionReply(answered=True, usage=usage)


async def _entries(job: ThinkInput, loop: Loop, hands: Hands, reply: ChatReply, *, stage: str, seen: int) -> list[Entry]:
    """The reply; what there is to say to a person who watches; results of calls that are not made."""
    step = job.step
    text = fitting_text(reply.text.strip(), MAX_TEXT_BYTES)
    cut = reply.stop is StopReason.LENGTH
    calls = [] if job.last or job.structure or cut else _checked(reply.tool_calls[:MAX_CALLS_KEPT], step)
    problem = "truncated" if cut else None if text or calls else "empty"
    unstructured = False
    if loop.response_format is not None and not calls and problem is None:
        try:
            await asyncio.to_thread(in_form, text, loop.response_format)
        except NotInForm:
            unstructured, problem = not job.structure, "response_format" if job.structure else None
    kinds = [hands.tools.kind(call.name) if place < MAX_TOOL_CALLS else CallKind.REFUSED for place, call in enumerate(calls)]
    body: dict[str, Any] = {
        "text": text,
        "calls": [
            {"call_id": call.call_id, "name": call.name, "arguments": call.arguments, "raw": call.raw, "kind": kind.value}
            for call, kind in zip(calls, kinds, strict=True)
        ],
        "model": reply.model,
        "seen": seen,
        "problem": problem,
        "structured": job.structure,
        "unstructured": unstructured,
        "usage": {stage: stage_usage(reply.usage).model_dump()},
    }
    entries = [Entry(f"model/{step}", EntryKind.MODEL, step, body)]
    if text and calls:
        entries.append(Entry(f"notice/{step}", EntryKind.NOTICE, step, {"text": text}))
    for place, (call, kind) in enumerate(zip(calls, kinds, strict=True)):
        if kind is CallKind.REFUSED:
            told, is_error = await _refusal(call, place, hands)
            result = {"call_id": call.call_id, "name": call.name, "content": told, "is_error": is_error}
            entries.append(Entry(f"result/{step}/{place}", EntryKind.RESULT, step, result))
    return entries


def _checked(calls: Sequence[ToolCall], step: int) -> list[ToolCall]:
    """With ids that are there once; a call that does not fit has no arguments, and is answered with an error."""
    seen: set[str] = set()
    checked: list[ToolCall] = []
    room = MAX_CALLS_BYTES
    for place, call in enumerate(calls):
        call_id = call.call_id if call.call_id and call.call_id not in seen else f"call_{step}_{place}"
        seen.add(call_id)
        size = json_bytes(call.arguments)
        fits = call.arguments is not None and size is not None and size <= room
        room -= size if fits and size is not None else 0
        checked.append(
            ToolCall(call_id, call.name[:64], call.arguments if fits else None, "" if fits else call.raw[:MAX_RAW_CHARS])
        )
    return checked


async def _refusal(call: ToolCall, place: int, hands: Hands) -> tuple[str, bool]:
    if place >= MAX_TOOL_CALLS:
        told = f"not made: at most {MAX_TOOL_CALLS} calls in one reply; call it again"
        return written({"error": "too_many_calls", "message": told}), True
    if call.name == CLARIFY:
        return written({"outcome": "nobody can be asked", "do": "go on, and state what you assume"}), False
    outcome = await hands.tools.run(call, effect="", said=(), moved=(), now=datetime.now(UTC))
    return outcome.content, outcome.is_error


def _note(job: ThinkInput) -> list[Entry]:
    text = None if job.structure else _NOTES.get(job.problem or "")
    return (
        [Entry("note", EntryKind.INTERJECTION, job.step, {"text": f"(From the program, not from the user.) {text}"})]
        if text
        else []
    )


def _reply(entry: Entry, *, elapsed_ms: int) -> ThinkReply:
    body = entry.body
    calls: list[dict[str, Any]] = body.get("calls") or []
    kinds = [CallKind(call["kind"]) for call in calls]
    used: dict[str, Any] = body.get("usage") or {}
    return ThinkReply(
        calls=tuple(
            CallRef(index=place, name=call["name"] if call["name"] in _KNOWN or kind is not CallKind.REFUSED else "", kind=kind)
            for place, (call, kind) in enumerate(zip(calls, kinds, strict=True))
        ),
        answered=not calls and body.get("problem") is None,
        problem=body.get("problem"),
        usage={stage: StageUsage.model_validate(one) for stage, one in used.items()},
        elapsed_ms=elapsed_ms,
        seen=int(body.get("seen") or 0),
        entry=entry.number,
        unstructured=bool(body.get("unstructured")),
    )
