"""A model that plays a script in knowledge loops. It keeps no count: which line is next is told by the conversation it is shown, so
that a step which is repeated, in this process or in another, gets the same reply."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.model.tools import ToolCall
from memory.ports import ChatReply, ChatRequest, StopReason, Usage

Call = tuple[str, Mapping[str, Any]]
Line = str | Sequence[Call]
"""What one step says: an answer, or calls (tool, arguments). JSON, so that it travels to another process."""

QUESTION_ANSWER = "I am working on it."
PRICE = Usage(100, 10)


@dataclass
class LoopModel:
    """``script``: a line per step, the last one again and again. ``nested``: of loops within. ``structured``: what it says when it
    is asked for a form, in order; ``form_hold``: what that waits for. ``holds``: events that the step of that number (from 1)
    waits for."""

    script: Sequence[Line]
    nested: Sequence[Line] = ("Nothing was found.",)
    structured: Sequence[str] = ("{}",)
    holds: Mapping[int, asyncio.Event] = field(default_factory=dict[int, asyncio.Event])
    form_hold: asyncio.Event | None = None
    name: str = "scripted:loops"
    reasoning: bool = False
    requests: list[ChatRequest] = field(default_factory=list[ChatRequest])
    reached: list[int] = field(default_factory=list[int])

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if request.stage == "knowledge.question":
            return self._said(QUESTION_ANSWER)
        if request.stage == "knowledge.structure":
            asked = sum(one.stage == request.stage for one in self.requests)
            if self.form_hold is not None:
                await self.form_hold.wait()
            return self._said(self.structured[min(asked, len(self.structured)) - 1])
        nested = "(nested)" in request.messages[0].text
        step = 1 + sum(message.role == "assistant" for message in request.messages)
        if not nested:
            self.reached.append(step)
            if step in self.holds:
                await self.holds[step].wait()
        script = self.nested if nested else self.script
        line = script[min(step, len(script)) - 1]
        if isinstance(line, str):
            return self._said(line)
        calls = tuple(ToolCall(f"c{step}-{place}", name, dict(given)) for place, (name, given) in enumerate(line))
        if not request.tools or request.tool_choice == "none":
            return self._said(f"Stopped short before {len(calls)} calls.")
        return ChatReply("Let me see.", StopReason.TOOLS, PRICE, self.name, tool_calls=calls)

    def shown(self, step: int) -> str:
        """All that the model was shown in that step."""
        request = self.requests[step - 1]
        results = [result.content for message in request.messages for result in message.tool_results]
        return "\n".join([request.system_text, *(message.text for message in request.messages), *results])

    def _said(self, text: str) -> ChatReply:
        return ChatReply(text, StopReason.END, PRICE, self.name)
