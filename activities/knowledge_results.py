"""Results of a loop's calls as entries, what of them may be in Temporal, and the answer that a loop ends with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from memory.knowledge.answers import NotInForm, ending_text, fitting_text, in_form, json_bytes
from memory.knowledge.reading import last_answer
from memory.knowledge.results import ToolOutcome, written
from memory.model.errors import InvalidInput
from memory.model.knowledge_loop import MAX_ANSWER_BYTES, MAX_RESULT_BYTES, Entry, EntryKind, Loop, LoopState
from memory.model.knowledge_steps import FinishInput, ToolReply
from memory.model.tools import ToolCall
from memory.model.transcript import shorten_middle

ENVELOPE_BYTES: Final = 2_048
FAILED_READ: Final = "the tool could not be used; try another way, or go on without it"
FAILED_WRITE: Final = "it is not known whether this was done: look at the tables before you repeat it"


async def ended(loop: Loop, entries: Sequence[Entry], end: FinishInput) -> tuple[str, Any, LoopState, str | None]:
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


def call_of(reply: Entry, index: int) -> ToolCall:
    calls: list[dict[str, Any]] = reply.body.get("calls") or []
    if index >= len(calls):
        raise InvalidInput(f"entry {reply.number} has no call {index}")
    call = calls[index]
    return ToolCall(call["call_id"], call["name"], call.get("arguments"), call.get("raw") or "")


def result_of(entries: Sequence[Entry], step: int, index: int) -> Entry | None:
    return next((entry for entry in entries if entry.key == f"result/{step}/{index}"), None)


def result_entry(step: int, index: int, call: ToolCall, outcome: ToolOutcome) -> Entry:
    body = {
        "call_id": call.call_id,
        "name": call.name,
        "content": fitting_text(outcome.content, 2 * MAX_RESULT_BYTES),
        "is_error": outcome.is_error,
        "code": outcome.code,
        "rows": outcome.rows,
    }
    return Entry(f"result/{step}/{index}", EntryKind.RESULT, step, body)


def told(entry: Entry) -> ToolReply:
    """What of a result may be in Temporal."""
    body = entry.body
    failed = bool(body.get("is_error"))
    return ToolReply(
        ok=not failed,
        error=str(body.get("code") or "error")[:60] if failed else None,
        rows=body.get("rows"),
        result_bytes=len(str(body.get("content") or "").encode("utf-8", "replace")),
    )


def failure(code: str, message: str) -> ToolOutcome:
    return ToolOutcome(written({"error": code, "message": message}), is_error=True, code=code)


def answer_of(nested: Loop | None) -> ToolOutcome:
    if nested is None or nested.answer is None:
        return failure("no_answer", FAILED_READ)
    if nested.state not in (LoopState.DONE, LoopState.LIMIT):
        return failure(nested.state.value, nested.answer)
    shown = {"answer": shorten_middle(nested.answer, MAX_RESULT_BYTES // 2)}
    if nested.state is LoopState.LIMIT:
        shown["note"] = "it came to a limit; this may be incomplete"
    return ToolOutcome(written(shown))


def not_run(entries: Sequence[Entry]) -> list[Entry]:
    """Results for the calls of the last reply that have none: the loop was stopped before, or while they ran."""
    replies = [entry for entry in entries if entry.kind is EntryKind.MODEL]
    if not replies:
        return []
    last = max(replies, key=lambda entry: entry.step)
    outcome = failure("stopped", "not done: the loop was stopped")
    calls: list[dict[str, Any]] = last.body.get("calls") or []
    return [
        result_entry(last.step, index, ToolCall(call["call_id"], call["name"], None), outcome)
        for index, call in enumerate(calls)
        if result_of(entries, last.step, index) is None
    ]
