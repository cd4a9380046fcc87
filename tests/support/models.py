"""Model providers under a test's control, and the zero-latency one. They stand behind the port, never inside the product."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from memory.ports import ChatModel, ChatReply, ChatRequest, StopReason, TokenCounter, Usage

Reply = str | ChatReply | Exception | Callable[[ChatRequest], "str | ChatReply"]

PROFILE = """## Identity
{identity}

## Communication Preferences
{preferences}

## Work Context
{work}

## Skills & Expertise
{skills}

## Recent Topics
{topics}

## Follow-ups
{follow_ups}
"""


def profile_text(**sections: str) -> str:
    """A well-formed reply; each section is its lines, absent ones are ``_(empty)_``."""
    names = ("identity", "preferences", "work", "skills", "topics", "follow_ups")
    return PROFILE.format(**{name: sections.get(name, "_(empty)_") for name in names})


class Words:
    """A token counter that counts words: bounds can be checked by hand."""

    name = "words"
    exact = True

    def count(self, text: str) -> int:
        return len(text.split())


@dataclass
class ScriptedModel:
    """Answers by stage: a fixed reply, or a queue of replies whose last one repeats. Records the requests."""

    replies: dict[str, Reply | list[Reply]] = field(default_factory=dict)
    name: str = "scripted:test"
    reasoning: bool = False
    requests: list[ChatRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._queues = {stage: deque(r if isinstance(r, list) else [r]) for stage, r in self.replies.items()}

    def asked(self, stage: str) -> list[ChatRequest]:
        return [request for request in self.requests if request.stage == stage]

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        queue = self._queues.get(request.stage)
        if not queue:
            raise AssertionError(f"no reply scripted for stage {request.stage!r}")
        reply = queue.popleft() if len(queue) > 1 else queue[0]
        if callable(reply) and not isinstance(reply, Exception):
            reply = reply(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return ChatReply(reply, StopReason.END, Usage(len(request.system_text) // 4, len(reply) // 4), self.name)
        return reply


@dataclass
class ScriptedProvider:
    """A ModelProvider that has one model, whatever the name."""

    chat: ChatModel
    counter: TokenCounter = field(default_factory=Words)
    asked_for: list[str] = field(default_factory=list)

    def model(self, name: str) -> ChatModel:
        self.asked_for.append(name)
        return self.chat

    def token_counter(self, name: str) -> TokenCounter:
        return self.counter

    async def aclose(self) -> None:
        return None


def cut(text: str) -> ChatReply:
    """A reply that stopped at the output limit."""
    return ChatReply(text, StopReason.LENGTH, Usage(10, 10), "scripted:test")
