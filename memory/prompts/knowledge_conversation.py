"""A loop's entries as the messages that a model reads.

The caller's words stand in tags that no data can write (JSON escapes the bracket, texts have it defused); results of tools are in
the messages of their own kind. The whole is bounded: the oldest results are shortened first, in rounds that halve what is shown, so
that most steps leave the beginning as it was and a provider's cache still serves it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from memory.model.knowledge_loop import MAX_INTERJECTION_BYTES, MAX_RESULT_BYTES, Entry, EntryKind, Loop
from memory.model.redaction import redact
from memory.model.tools import ToolCall, ToolResult
from memory.model.transcript import clean_text, presentable, shorten_middle
from memory.ports import ChatMessage, PromptPart

CONVERSATION_BYTES: Final = 192 * 1024
"""Of all results and calls together that a prompt shows."""
SHORT_RESULT_BYTES: Final = 400
STEP_RESULTS_BYTES: Final = 96 * 1024
"""Of the results of one step; they share it where they are more."""
MODEL_TEXT_BYTES: Final = 16 * 1024
RAW_BYTES: Final = 2 * 1024
SHORT_ARGUMENT_BYTES: Final = 600
WORK_BYTES: Final = 48 * 1024
NOT_RECORDED: Final = '{"error": "not_run", "message": "this call was not carried out"}'
SHORTENED_NOTE: Final = "[earlier result, shortened: {left} bytes left out; call the tool again if they are needed] "
ARGUMENT_NOTE: Final = "[{size} characters, left out here]"
NOTE_KEY: Final = "note"
"""Of an entry in which the program speaks and not the caller."""
GO_ON: Final = "<note>\nGo on: call tools, or answer if the request is met.\n</note>"

_TAGS = "request|interjection|answer|chat|tables|destinations?|now|limit|note|work|state|question|result"
_TAG_START = re.compile(rf"[<\uff1c\ufe64](?=[\s/]*(?:{_TAGS})\b)", re.IGNORECASE)


def said_block(tag: str, text: str, max_bytes: int = MAX_INTERJECTION_BYTES) -> str:
    """Somebody's words in a block of their own: cleaned, redacted, shortened, and without a tag that could close it."""
    return f"<{tag}>\n{_TAG_START.sub('‹', presentable(text, max_bytes)).strip()}\n</{tag}>"


def data_line(value: Mapping[str, Any]) -> str:
    """JSON on one line in which no tag can stand, redacted."""
    line = json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=str)
    return redact(clean_text(line)).text.replace("<", "\\u003c")


@dataclass(slots=True)
class _Step:
    """A model's reply, what its calls gave, and what the caller said afterwards."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: dict[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    said: list[str] = field(default_factory=list[str])
    short: bool = False


def conversation(opening: PromptPart, entries: Sequence[Entry], *, ending: str = "") -> tuple[ChatMessage, ...]:
    """The messages of a loop, beginning with ``opening``; ``ending`` closes the last one.

    User and assistant take turns, and every call of a message is answered in the next one, whatever the entries hold: a call
    without a result (the loop was stopped in it) gets an error.
    """
    first, steps = _steps(entries)
    _bound(steps)
    messages: list[ChatMessage] = []
    opened = [opening, *(PromptPart(f"\n{text}") for text in first)]
    for number, step in enumerate(steps):
        if number == 0:
            messages.append(ChatMessage("user", tuple(opened)))
        text = (PromptPart(step.text),) if step.text else ()
        places = range(len(step.calls))
        messages.append(ChatMessage("assistant", text, tool_calls=tuple(_call(step, number, place) for place in places)))
        results = tuple(_shown(step, number, place) for place in places)
        told = "\n".join(step.said) or ("" if results else GO_ON)
        messages.append(ChatMessage("user", (PromptPart(told),) if told else (), tool_results=results))
    if not steps:
        messages.append(ChatMessage("user", tuple(opened)))
    last = messages[-1]
    parts = last.parts
    if len(messages) > 1:
        # What was said so far is the beginning of the next step's prompt.
        parts = (PromptPart("".join(part.text for part in parts), cacheable=True),)
    if ending:
        parts = (*parts, PromptPart(f"\n{ending}"))
    messages[-1] = ChatMessage(last.role, parts, last.tool_calls, last.tool_results)
    return tuple(messages)


def work_lines(loop: Loop, entries: Sequence[Entry]) -> list[str]:
    """A loop as JSON lines for somebody who asks about it: the newest whole, the oldest results left out where they are many."""
    head = data_line({"operation": loop.operation.value, "request": presentable(loop.text, 4_096)})
    lines: list[str] = []
    room = WORK_BYTES - len(head.encode("utf-8"))
    for entry in reversed(entries):
        about = _about(entry)
        if about is None:
            continue
        line = data_line(about)
        room -= len(line.encode("utf-8")) + 1
        if room < 0:
            lines.append(data_line({"left_out": "earlier steps"}))
            break
        lines.append(line)
    answer = [data_line({"final_answer": presentable(loop.answer, 8_192)})] if loop.answer else []
    return [head, *reversed(lines), *answer]


def _about(entry: Entry) -> Mapping[str, Any] | None:
    body = entry.body
    match entry.kind:
        case EntryKind.MODEL:
            calls = [{"tool": call.name, "arguments": call.arguments or {}} for call in _calls(body)]
            return {"step": entry.step, "said": presentable(_text(body, "text"), 2_048), "calls": calls}
        case EntryKind.RESULT:
            content = presentable(_text(body, "content"), 2_048)
            return {"step": entry.step, "tool": _text(body, "name"), "error": bool(body.get("is_error")), "result": content}
        case EntryKind.CLARIFICATION:
            return {"step": entry.step, "asked": presentable(_text(body, "question"), 2_048)}
        case EntryKind.INTERJECTION | EntryKind.ANSWER:
            return {"step": entry.step, "caller": presentable(_text(body, "text"), 2_048)}
        case EntryKind.STOP:
            return {"stopped": presentable(_text(body, "reason"), 500)}
        case _:
            return None


def _steps(entries: Sequence[Entry]) -> tuple[list[str], list[_Step]]:
    first: list[str] = []
    steps: list[_Step] = []
    for entry in entries:
        body = entry.body
        match entry.kind:
            case EntryKind.MODEL:
                step = _Step(presentable(_text(body, "text"), MODEL_TEXT_BYTES).strip(), _calls(body))
                if (step.text or step.calls) and not body.get("structured"):
                    steps.append(step)
            case EntryKind.RESULT:
                call_id = _text(body, "call_id")
                step = next((one for one in reversed(steps) if any(call.call_id == call_id for call in one.calls)), None)
                if step is not None and call_id not in step.results:
                    name, content = _text(body, "name"), _text(body, "content")
                    step.results[call_id] = ToolResult(call_id, name, content, bool(body.get("is_error")))
            case EntryKind.INTERJECTION | EntryKind.ANSWER:
                tag = "answer" if entry.kind is EntryKind.ANSWER else "note" if entry.key == NOTE_KEY else "interjection"
                (steps[-1].said if steps else first).append(said_block(tag, _text(body, "text")))
            case _:
                pass
    return first, steps


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """``value`` where it is a JSON object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def _as_list(value: Any) -> Sequence[Any] | None:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else None


def _calls(body: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for call in filter(None, map(as_mapping, _as_list(body.get("calls")) or ())):
        arguments = as_mapping(call.get("arguments"))
        kept = None if arguments is None else _presented(arguments)
        raw = "" if arguments is not None else presentable(str(call.get("raw") or ""), RAW_BYTES)
        calls.append(ToolCall(str(call.get("call_id")), str(call.get("name")), kept, raw))
    return tuple(calls)


def _presented(value: Any) -> Any:
    """JSON with every text in it cleaned and redacted."""
    if isinstance(value, str):
        return redact(clean_text(value)).text
    if (items := as_mapping(value)) is not None:
        return {clean_text(str(name)): _presented(one) for name, one in items.items()}
    if (listed := _as_list(value)) is not None:
        return [_presented(one) for one in listed]
    return value


def _bound(steps: Sequence[_Step]) -> None:
    """Mark the steps whose results and calls are shown short. The last step is always shown whole."""
    sizes: list[int] = []
    shown = 0
    for number, step in enumerate(steps):
        share = STEP_RESULTS_BYTES // max(1, len(step.results))
        size = sum(min(share, len(result.content.encode("utf-8", "replace"))) for result in step.results.values())
        size += sum(len(json.dumps(call.arguments or {}, ensure_ascii=False)) for call in step.calls) + len(step.text)
        sizes.append(size)
        shown += size
        if shown > CONVERSATION_BYTES:
            for earlier in range(number):
                if not steps[earlier].short:
                    steps[earlier].short = True
                    shown -= max(0, sizes[earlier] - SHORT_RESULT_BYTES * max(1, len(steps[earlier].calls)))
                if shown <= CONVERSATION_BYTES // 2:
                    break


def _wire_id(number: int, place: int) -> str:
    """An id that every provider takes (some want nine letters and digits) and that is there once in a conversation."""
    return f"s{number % 10_000:04d}c{place % 1_000:03d}"


def _call(step: _Step, number: int, place: int) -> ToolCall:
    """As it was made; of a step that is shown short without the long arguments."""
    call = replace(step.calls[place], call_id=_wire_id(number, place))
    if not step.short or not call.arguments:
        return call
    sizes = {name: len(json.dumps(value, ensure_ascii=False)) for name, value in call.arguments.items()}
    if sum(sizes.values()) <= SHORT_ARGUMENT_BYTES:
        return call
    each = SHORT_ARGUMENT_BYTES // len(sizes)
    kept = {
        name: value if sizes[name] <= each else ARGUMENT_NOTE.format(size=sizes[name]) for name, value in call.arguments.items()
    }
    return replace(call, arguments=kept)


def _shown(step: _Step, number: int, place: int) -> ToolResult:
    call = step.calls[place]
    result = step.results.get(call.call_id)
    if result is None:
        return ToolResult(_wire_id(number, place), call.name, NOT_RECORDED, is_error=True)
    share = min(MAX_RESULT_BYTES, STEP_RESULTS_BYTES // max(1, len(step.results)))
    content = presentable(result.content, share)
    size = len(content.encode("utf-8"))
    if step.short and size > SHORT_RESULT_BYTES:
        content = SHORTENED_NOTE.format(left=size - SHORT_RESULT_BYTES) + shorten_middle(content, SHORT_RESULT_BYTES)
    return ToolResult(_wire_id(number, place), call.name, content, result.is_error)


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""
