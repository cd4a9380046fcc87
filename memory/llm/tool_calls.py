"""Tool calls of a reply, whatever the provider: read tolerantly, bounded, safe to store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn, cast

from memory.model.tools import MAX_ARGUMENT_CHARS, MAX_TOOL_CALLS, ToolCall
from memory.model.transcript import clean_text
from memory.ports import ChatReply, ChatRequest, StopReason

MAX_KEPT_CALLS: Final = 4 * MAX_TOOL_CALLS
"""Those beyond are dropped: nobody could read as many errors."""
MAX_TOOL_NAME_CHARS: Final = 64
MAX_DEPTH: Final = 64
MAX_UNREADABLE_CHARS: Final = 2_000

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def numbered(given: Iterable[tuple[str | None, str | None, Any]]) -> tuple[ToolCall, ...]:
    """Calls in order, from (id, name, arguments). A missing, odd or repeated id is replaced by one made from the position."""
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for number, (call_id, name, arguments) in enumerate(given):
        if number == MAX_KEPT_CALLS:
            break
        if call_id is None or not _CALL_ID.fullmatch(call_id) or call_id in seen:
            call_id = f"call{number}"
            while call_id in seen:
                call_id += "x"
        seen.add(call_id)
        call = tool_call(call_id, name or "", arguments)
        calls.append(replace(call, beyond=True) if number >= MAX_TOOL_CALLS else call)
    return tuple(calls)


def tool_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """``arguments``: JSON text, as OpenAI has it, or an object, as Anthropic and some servers have it."""
    raw = arguments if isinstance(arguments, str) else _dumped(arguments)
    shown = clean_text(name)[:MAX_TOOL_NAME_CHARS]
    if len(raw) > MAX_ARGUMENT_CHARS:
        return ToolCall(call_id, shown, None, clean_text(raw[:MAX_ARGUMENT_CHARS]))
    return ToolCall(call_id, shown, _object(arguments), clean_text(raw))


def arguments_text(call: ToolCall) -> str:
    """:func:`arguments_object` as JSON text."""
    return json.dumps(arguments_object(call), ensure_ascii=False)


def arguments_object(call: ToolCall) -> Mapping[str, Any]:
    """A call's arguments to send again. Those that could not be read are sent as one text, so that the model sees them and a
    server that reads them does not stumble."""
    return _cleaned({"unreadable": call.raw[:MAX_UNREADABLE_CHARS]} if call.arguments is None else call.arguments)


def settled(reply: ChatReply, request: ChatRequest) -> ChatReply:
    """The reply as its request allows it.

    Cut off at the output limit, it calls nothing: half of its calls would be half of a plan. Nor does it where tools were only
    shown.
    """
    calls = reply.tool_calls
    if not calls:
        return reply
    if reply.stop in (StopReason.LENGTH, StopReason.REFUSED) or not request.tools or request.tool_choice == "none":
        stop = reply.stop if reply.stop in (StopReason.LENGTH, StopReason.REFUSED) else StopReason.END
        return replace(reply, tool_calls=(), stop=stop)
    return replace(reply, stop=StopReason.TOOLS)


def _object(arguments: Any) -> Mapping[str, Any] | None:
    """A JSON object; from text, from text within text (some servers encode twice), and none at all for nothing."""
    value = arguments
    for _ in range(2):
        if isinstance(value, str):
            if not value.strip():
                return {}
            try:
                value = json.loads(value, parse_constant=_no_constant, strict=False)
            except (ValueError, RecursionError):
                return None
    if value is None:
        return {}
    try:
        return _cleaned(value) if isinstance(value, Mapping) else None
    except ValueError:
        return None


def _cleaned(value: Any, depth: int = 0) -> Any:
    """Every text storable. Raises ValueError for what is nested too deep."""
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {clean_text(str(name)): _cleaned(one, depth + 1) for name, one in items}
    if isinstance(value, list | tuple):
        return [_cleaned(one, depth + 1) for one in cast("Sequence[Any]", value)]
    return value


def _dumped(value: Any) -> str:
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return ""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
