"""Tool calling in plain text, for servers that know nothing else.

Some take ``tools`` and put the call's JSON into the text; some refuse ``tools`` and are told of them in the prompt. Either way the
text is read tolerantly: JSON in ``<tool_call>`` tags, in fences, in prose, single or in a list, in the shapes that models use. Only
the name of an offered tool makes it a call, so JSON that is an answer stays one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, cast

from memory.llm.tool_calls import arguments_object, numbered
from memory.model.tools import ToolCall, ToolDefinition
from memory.ports import ChatMessage, ChatReply, ChatRequest, PromptPart, StopReason

MAX_TEXT_CHARS: Final = 512 * 1024
"""A longer text is an answer: it is not searched."""
MAX_STARTS: Final = 64
"""Brackets that are tried; a text with many more of them that are no JSON is no call."""

_HOW_TO_CALL: Final = """

You can call these tools, one JSON line each:
{tools}

To call tools, reply with one or several blocks of this form and nothing after them:
<tool_call>
{{"name": "<name of the tool>", "arguments": {{…}}}}
</tool_call>
Their results come back in <tool_result> blocks. {choice}"""
_MAY: Final = "When you need no tool, reply with plain text and without such a block."
_MUST: Final = "Call at least one tool now."

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_OPEN_TAG = re.compile(r"<(tool_calls?|function_calls?)>(?:(?!</?\1>).)*\Z", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<(tool_calls?|function_calls?)>", re.IGNORECASE)
_HUSKS = re.compile(
    r"</?(?:tool_calls?|function_calls?)>|\[TOOL_CALLS\]|<\|(?:python_tag|tool_call)\|>|`{3,}[A-Za-z_]*\s*(?:`{3,}|\Z)",
    re.IGNORECASE,
)
_FENCE_CHARS: Final = 80
_FENCED_START = re.compile(r"`{3,}[A-Za-z_]*\s*\Z")
_START = re.compile(r"[{\[]")
_NAME_KEYS: Final = ("name", "tool", "tool_name", "function", "function_name")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input", "params")
_OTHER_KEYS: Final = frozenset({"id", "call_id", "type", "index", "reasoning", "thought"})
_LIST_KEYS: Final = ("tool_calls", "calls", "function_calls")


@dataclass(frozen=True, slots=True)
class Found:
    """``text``: what is left around the calls. ``cut``: it ends within a call."""

    text: str
    calls: tuple[ToolCall, ...]
    cut: bool = False


# ------------------------------------------------------------------------------------------------------------------ reading


def with_text_calls(reply: ChatReply, request: ChatRequest) -> ChatReply:
    """The reply, with the calls that stand in its text; one that breaks off within a call counts as cut off."""
    offered = request.tools if request.tool_choice != "none" else ()
    if not offered or reply.tool_calls or reply.stop in (StopReason.LENGTH, StopReason.REFUSED):
        return reply
    found = calls_in(reply.text, frozenset(tool.name for tool in offered))
    if found.cut:
        return replace(reply, stop=StopReason.LENGTH)
    return replace(reply, text=found.text, tool_calls=found.calls, stop=StopReason.TOOLS) if found.calls else reply


def calls_in(text: str, offered: frozenset[str]) -> Found:
    """The calls of offered tools in a text. One that is cut off makes none of them count."""
    if len(text) > MAX_TEXT_CHARS or not any(name in text for name in offered):
        return Found(text, ())
    thoughtless = _THOUGHT.sub("", text)
    calls: list[tuple[str, Any]] = []
    left: list[str] = []
    position = 0
    for start, end, value in _values(thoughtless):
        if value is _CUT:
            if _names_a_call(thoughtless[start:], offered):
                return Found(text, (), cut=True)
            break
        made = _calls_of(value, offered, tagged=_within_tag(thoughtless, start))
        if made:
            calls += made
            left.append(thoughtless[position:start])
            position = end
    left.append(thoughtless[position:])
    if not calls:
        calls, left = _broken_calls(thoughtless, offered)
    if not calls:
        return Found(text, (), cut=_names_a_call("".join(_tail(thoughtless)), offered))
    return Found(_husked(left), numbered((None, name, arguments) for name, arguments in calls))


_CUT: Final = object()


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Whole JSON values in a text, outermost ones only, with where they stand; last ``_CUT`` where one has no end."""
    decoder = json.JSONDecoder(strict=False)
    position = tries = 0
    last_bracket = max(text.rfind("}"), text.rfind("]"))
    while tries < MAX_STARTS and (match := _START.search(text, position)):
        tries += 1
        start = match.start()
        try:
            value, end = decoder.raw_decode(text, start)
        except RecursionError:
            return
        except json.JSONDecodeError as error:
            if error.pos > last_bracket or error.msg.startswith("Unterminated string"):
                yield start, len(text), _CUT
            position = start + 1
            continue
        except ValueError:  # a number of thousands of digits
            position = start + 1
            continue
        yield start, end, value
        position = end


def _calls_of(value: Any, offered: frozenset[str], *, tagged: bool) -> list[tuple[str, Any]]:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        made = [_call_of(item, offered, tagged=tagged) for item in items]
        # A list is one of calls or it is not; an answer may hold a thing with a name here and there.
        return [call for call in made if call] if items and all(made) else []
    if not isinstance(value, Mapping):
        return []
    fields = cast("Mapping[str, Any]", value)
    for key in _LIST_KEYS:
        if isinstance(fields.get(key), list):
            return _calls_of(fields[key], offered, tagged=True)
    call = _call_of(fields, offered, tagged=tagged)
    return [call] if call else []


def _call_of(value: Any, offered: frozenset[str], *, tagged: bool) -> tuple[str, Any] | None:
    """Name and arguments of one call. Outside tags it needs both: ``{"name": "search"}`` alone is a thing with a name."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    inner = fields.get("function")
    if isinstance(inner, Mapping):
        return _call_of(inner, offered, tagged=True) if _known(fields, "function") else None
    name_key = next((key for key in _NAME_KEYS if isinstance(fields.get(key), str)), None)
    if name_key is None or fields[name_key] not in offered:
        return None
    key = next((key for key in _ARGUMENT_KEYS if key in fields), None)
    if not _known(fields, name_key, *([key] if key else [])):
        return None
    if key is None:
        return (fields[name_key], {}) if tagged or name_key not in ("name", "function_name") else None
    given = fields[key]
    if isinstance(given, str | Mapping) or given is None:
        return fields[name_key], cast("Any", given)
    return None


def _known(fields: Mapping[str, Any], *used: str) -> bool:
    return not fields.keys() - _OTHER_KEYS - set(used)


def _within_tag(text: str, start: int) -> bool:
    return bool(re.search(r"<(?:tool_calls?|function_calls?)>[\s`A-Za-z_]*\Z", text[max(0, start - 60) : start], re.IGNORECASE))


def _broken_calls(text: str, offered: frozenset[str]) -> tuple[list[tuple[str, Any]], list[str]]:
    """What stands whole in its tags and is no JSON, and yet says which tool is meant: a call whose arguments cannot be read."""
    calls: list[tuple[str, Any]] = []
    left: list[str] = []
    position = 0
    for match in islice(_TAG.finditer(text), MAX_STARTS):
        end = text.find(f"</{match[1]}>", match.end())
        inside = text[match.end() : end].strip() if end > 0 else ""
        name = _meant(inside, offered)
        if name is not None and match.start() >= position and not _is_json(inside):
            calls.append((name, inside))
            left.append(text[position : match.start()])
            position = end
    left.append(text[position:])
    return calls, left


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _meant(text: str, offered: frozenset[str]) -> str | None:
    match = re.search(r"""["'](?:name|tool|function)["']\s*:\s*["']([A-Za-z0-9_-]{1,64})["']""", text[:4_000])
    return match[1] if match and match[1] in offered else None


def _names_a_call(text: str, offered: frozenset[str]) -> bool:
    """Whether what is cut off was a call: it names an offered tool where a call does, and stands in its tag or has arguments."""
    if _meant(text, offered) is None:
        return False
    return bool(_OPEN_TAG.search(text)) or any(f'"{key}"' in text for key in _ARGUMENT_KEYS) or text.lstrip()[:1] in "{["


def _tail(text: str) -> Sequence[str]:
    match = _OPEN_TAG.search(text)
    return (match[0],) if match else ()


def _husked(pieces: Sequence[str]) -> str:
    """The prose around calls, without the fences and tags that held them."""
    *before, last = pieces
    opened = (piece[:-_FENCE_CHARS] + _FENCED_START.sub("```", piece[-_FENCE_CHARS:]) for piece in before)
    text = "\n".join([*opened, last])
    for _ in range(3):
        text = _HUSKS.sub("", text)
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip(" \n\t,;")


# ------------------------------------------------------------------------------------------------------------------ telling


def as_text(request: ChatRequest) -> ChatRequest:
    """The same request for a server that takes no tools: they are described in the system prompt, calls and results are text."""
    system = request.system
    if request.tools and request.tool_choice != "none":
        system = (*system, PromptPart(tools_text(request.tools, must=request.tool_choice == "required"), cacheable=True))
    return replace(request, system=system, messages=tuple(map(_as_text, request.messages)), tools=(), tool_choice="auto")


def tools_text(tools: Sequence[ToolDefinition], *, must: bool = False) -> str:
    lines = (
        json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters}, ensure_ascii=False)
        for tool in tools
    )
    return _HOW_TO_CALL.format(tools="\n".join(lines), choice=_MUST if must else _MAY)


def _as_text(message: ChatMessage) -> ChatMessage:
    if not message.tool_calls and not message.tool_results:
        return message
    results = [
        f"<tool_result>\n{_json({'name': result.name, 'error' if result.is_error else 'result': result.content})}\n</tool_result>\n"
        for result in message.tool_results
    ]
    calls = [
        f"\n<tool_call>\n{_json({'name': call.name, 'arguments': arguments_object(call)})}\n</tool_call>"
        for call in message.tool_calls
    ]
    parts = (*map(PromptPart, results), *message.parts, *map(PromptPart, calls))
    return ChatMessage(message.role, parts)


def _json(value: Mapping[str, Any]) -> str:
    """In which no tag can stand."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
