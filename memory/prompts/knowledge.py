"""The requests of a knowledge loop, from the prompt files. See :mod:`memory.prompts`.

What is the same for every loop of an operation comes first (rules, tools), then what stays the same within a loop (tables, chat,
request), then the conversation: each step's prompt begins with the one before, so that a provider's cache serves it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from memory.model.knowledge_loop import (
    MAX_ANSWER_BYTES,
    MAX_CONTEXT_BYTES,
    MAX_INSTRUCTIONS_BYTES,
    MAX_REQUEST_BYTES,
    Entry,
    Loop,
    LoopState,
    Operation,
)
from memory.model.tools import ToolDefinition
from memory.model.transcript import presentable, stamp
from memory.ports import ChatMessage, ChatRequest, PromptPart
from memory.prompts.builders import REASONING_TOKENS
from memory.prompts.knowledge_conversation import as_mapping, conversation, data_line, said_block, work_lines
from memory.prompts.texts import prompt_text

OUTPUT_TOKENS: Final = 8_192
"""Of one step: a call that adds many rows is long."""
QUESTION_OUTPUT_TOKENS: Final = 1_024
QUESTION_STAGE: Final = "knowledge.question"
STRUCTURE_STAGE: Final = "knowledge.structure"
OVERVIEW_BYTES: Final = 24 * 1024
"""Of the tables with their columns; beyond it names alone, then a number."""
OVERVIEW_NAMES_BYTES: Final = 8 * 1024
DESCRIPTION_BYTES: Final = 400
STALE_TIME: Final = timedelta(minutes=10)
"""A loop that is older is told the time again, at the end of the prompt."""

_OPERATION_TEXTS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.ASK: ("knowledge_ask",),
    Operation.UPDATE: ("knowledge_update",),
    Operation.REFACTOR: ("knowledge_refactor",),
    Operation.CONTACTS_ASK: ("knowledge_ask", "knowledge_contacts"),
    Operation.CONTACTS_UPDATE: ("knowledge_change", "knowledge_contacts"),
    Operation.TASKS_ASK: ("knowledge_ask", "knowledge_tasks"),
    Operation.TASKS_UPDATE: ("knowledge_change", "knowledge_tasks"),
}
LAST_STEP: Final = """<limit>
No further tool can be called. Answer now from what is known: what was found or changed, and what is left undone.
</limit>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopView:
    """All that a prompt of a loop is made from.

    ``overview``: as ``tables_overview`` gives it. ``teams``: id, and whether the user may write there. ``last``: a limit is near,
    the model has to answer and gets no tools. ``reasoning``: the model thinks before it answers.
    """

    loop: Loop
    entries: Sequence[Entry] = field(repr=False)
    overview: Mapping[str, Any] = field(repr=False)
    teams: Sequence[tuple[str, bool]] = ()
    now: datetime
    tools: tuple[ToolDefinition, ...] = ()
    last: bool = False
    timeout_s: float
    reasoning: bool = False


def loop_request(view: LoopView) -> ChatRequest:
    """The next step of a loop. Its stage is the operation (``knowledge.ask``, …)."""
    loop = view.loop
    system = [PromptPart(system_text(loop.operation), cacheable=True)]
    if loop.instructions and loop.instructions.strip():
        system.append(PromptPart(f"\n\nFor this request:\n{presentable(loop.instructions, MAX_INSTRUCTIONS_BYTES).strip()}"))
    ending: list[str] = []
    if view.now - loop.created_at > STALE_TIME:
        ending.append(f"<now>{stamp(view.now)}</now>")
    if view.last:
        ending.append(LAST_STEP)
    return ChatRequest(
        stage=loop.operation.value,
        system=tuple(system),
        messages=conversation(_opening(view), view.entries, ending="\n".join(ending)),
        max_output_tokens=OUTPUT_TOKENS + (REASONING_TOKENS if view.reasoning else 0),
        timeout_s=view.timeout_s,
        tools=view.tools,
        tool_choice="none" if view.last else "auto",
    )


def question_request(view: LoopView, question: str) -> ChatRequest:
    """A side question about a loop, answered from what was done; nothing is called."""
    state = "running" if view.loop.state is LoopState.RUNNING else f"ended: {view.loop.state.value}"
    work = "\n".join(work_lines(view.loop, view.entries))
    text = f"<work>\n{work}\n</work>\n<state>{state}, {len(steps_of(view.entries))} steps</state>\n"
    return ChatRequest(
        stage=QUESTION_STAGE,
        system=(PromptPart(prompt_text("knowledge_question"), cacheable=True),),
        messages=(ChatMessage("user", (PromptPart(text, cacheable=True), PromptPart(said_block("question", question)))),),
        max_output_tokens=QUESTION_OUTPUT_TOKENS + (REASONING_TOKENS if view.reasoning else 0),
        timeout_s=view.timeout_s,
    )


def structured_request(view: LoopView, text: str) -> ChatRequest:
    """The answer ``text`` of a loop, put into the JSON that its caller asked for. No tools."""
    body = f"{said_block('request', view.loop.text)}\n{said_block('result', text, MAX_ANSWER_BYTES)}"
    return ChatRequest(
        stage=STRUCTURE_STAGE,
        system=(PromptPart(prompt_text("knowledge_structure"), cacheable=True),),
        messages=(ChatMessage("user", (PromptPart(body),)),),
        max_output_tokens=OUTPUT_TOKENS + (REASONING_TOKENS if view.reasoning else 0),
        timeout_s=view.timeout_s,
        schema=view.loop.response_format,
        schema_name="answer",
    )


def system_text(operation: Operation) -> str:
    """The part of a loop's system prompt that all users share."""
    return "\n\n".join(map(prompt_text, ("knowledge_rules", *_OPERATION_TEXTS[operation])))


def steps_of(entries: Sequence[Entry]) -> set[int]:
    return {entry.step for entry in entries if entry.step}


def _opening(view: LoopView) -> PromptPart:
    """What stays the same in a loop as long as its tables do."""
    loop = view.loop
    blocks = [f"<tables>\n{overview_text(view.overview)}\n</tables>"]
    places: list[Mapping[str, Any]] = [
        {"destination": "personal", "writable": True},
        *({"destination": f"team:{team}", "writable": writable} for team, writable in view.teams),
    ]
    blocks.append("<destinations>\n" + "\n".join(map(data_line, places)) + "\n</destinations>")
    if loop.operation.writes:
        blocks.append(f"<destination>{json.dumps(loop.destination, ensure_ascii=False)}</destination>")
    if not loop.clarify:
        blocks.append("Nobody can be asked: where something is unclear, take the most likely reading and say what you assumed.")
    elif loop.operation.writes or loop.operation is Operation.ASK:
        blocks.append("Ask with `request_clarification` only if the readings would give different results.")
    if loop.response_format is not None:
        schema = data_line(loop.response_format)
        blocks.append(f"The answer will be put into JSON of this schema afterwards; name every value it needs: {schema}")
    if loop.context:
        share = MAX_CONTEXT_BYTES // len(loop.context)
        lines = [
            data_line({"role": one.get("role", ""), "content": presentable(one.get("content", ""), max(200, share))})
            for one in loop.context
        ]
        blocks.append("The chat that the request came from, to understand it:\n<chat>\n" + "\n".join(lines) + "\n</chat>")
    blocks.append(f"<now>{stamp(loop.created_at)}</now>")
    blocks.append(said_block("request", loop.text, MAX_REQUEST_BYTES))
    return PromptPart("\n".join(blocks), cacheable=True)


def overview_text(overview: Mapping[str, Any]) -> str:
    """One JSON line per table, as many as fit; of the others the names, as many as fit; and how many are not named."""
    lines: list[str] = []
    names: list[str] = []
    used = named = 0
    for name, about in overview.items():
        line = data_line({name: _shortened(about)})
        used += len(line.encode("utf-8")) + 1
        if used <= OVERVIEW_BYTES:
            lines.append(line)
            continue
        named += len(name.encode("utf-8")) + 4
        if named <= OVERVIEW_NAMES_BYTES:
            names.append(name)
    left_out = len(overview) - len(lines)
    if left_out:
        note: dict[str, Any] = {"_more_tables": names, "_see": "tables_overview"}
        if left_out > len(names):
            note["_not_named"] = left_out - len(names)
        lines.append(data_line(note))
    return "\n".join(lines) or "(no tables yet)"


def _shortened(about: Any) -> Any:
    table = as_mapping(about)
    description = table.get("description") if table else None
    return {**(table or {}), "description": presentable(description, DESCRIPTION_BYTES)} if isinstance(description, str) else about
