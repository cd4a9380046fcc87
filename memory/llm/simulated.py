"""The simulated model: deterministic rules instead of a language model, for the demo, tests and first steps without a key.

It reads the same prompts as any other model and answers in the same protocol, and it says what it is: every reply names the
model ``simulated:rules-1``. It recognises a limited set of statements in English, German and simple Chinese; it is
no measure of what a real model understands. It can be told to misbehave, see :mod:`memory.llm.simulated_faults`. In a knowledge
loop it calls tools, see :mod:`memory.llm.simulated_knowledge`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from memory.llm.simulated_extraction import extract
from memory.llm.simulated_extraction_faults import misbehave
from memory.llm.simulated_extraction_prompt import is_extraction, read_extraction
from memory.llm.simulated_faults import EXTRACTION_FAULTS, KNOWLEDGE_FAULTS, TEXT_ONLY_FAULTS, FaultPlan
from memory.llm.simulated_knowledge import is_knowledge, next_move
from memory.llm.simulated_knowledge_faults import misbehaved
from memory.llm.simulated_knowledge_script import MODEL as SCRIPT_MODEL
from memory.llm.simulated_prompt import Brief, read_request
from memory.llm.simulated_rules import learn
from memory.llm.tool_calls import arguments_text
from memory.model.errors import ModelRateLimited, ModelRejected, ModelTimedOut, ModelUnavailable
from memory.model.headings import FOLLOW_UPS, RECENT_TOPICS, SKILLS, TITLE, WORK_CONTEXT
from memory.model.profile import Bullet, Profile, render_body
from memory.model.tools import ToolCall
from memory.ports import ChatMessage, ChatModel, ChatReply, ChatRequest, StopReason, TokenCounter, Usage

MODEL_NAME: Final = "simulated:rules-1"
RETRY_AFTER_S: Final = 0.2
MAX_REMEMBERED_REQUESTS: Final = 10_000

Sleep = Callable[[float], Awaitable[None]]

_PREAMBLE = "Sure! I read the exchange carefully. Here is what you asked for:\n\n"
_AFTERWORD = "\n\nLet me know if you would like me to change anything else."
_THOUGHT = "The user may have said something about themselves. UPDATE or NOOP? Let me look at the six sections again."
_CLIENT = re.compile(
    r"\b(client|customer|patient|Kund(?:e|in)|Mandant(?:in)?|Patient(?:in)?)\s+(?:(?:Herr|Frau|Mr\.?|Mrs\.?|Ms\.?|Dr\.?)\s+)?[A-ZÄÖÜ]\w+(?:\s+[A-ZÄÖÜ]\w+)?"
)
_CONTACT = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.]{2,63}|\+\d[\d /()-]{7,20}\d")


class SimulatedModel(ChatModel):
    """A model of rules.

    Args:
        name: what it was asked for as, for instance ``simulated`` or ``simulated:anything``.
        faults: ``name=rate,…``; empty: it behaves.
        seed: of the misbehaviour.
        latency_ms: before every reply.
        counter: counts the usage that it reports.
        sleep: waits so many seconds; for tests.
        max_timeout_wait_s: a ``timeout`` fault waits for the request's time-out, at most this long.

    Raises:
        InvalidInput: an unknown fault or a wrong rate.
    """

    def __init__(
        self,
        name: str,
        faults: str,
        seed: int,
        latency_ms: float,
        counter: TokenCounter,
        *,
        sleep: Sleep = asyncio.sleep,
        max_timeout_wait_s: float = 600.0,
    ) -> None:
        self._name = name
        self._plan = FaultPlan.parse(faults, seed)
        self._latency_s = latency_ms / 1000
        self._counter = counter
        self._sleep = sleep
        self._max_timeout_wait_s = max_timeout_wait_s
        self._attempts: OrderedDict[bytes, int] = OrderedDict()

    @property
    def name(self) -> str:
        return self._name

    @property
    def reasoning(self) -> bool:
        return False

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer by rule. Raises what a provider would, where a fault says so; ModelRejected for a prompt of another project."""
        key = _request_key(request)
        attempt = self._attempts.get(key, 0)
        self._attempts[key] = attempt + 1
        self._attempts.move_to_end(key)
        if len(self._attempts) > MAX_REMEMBERED_REQUESTS:
            self._attempts.popitem(last=False)
        fault = self._plan.draw(key, attempt)
        if fault == "timeout" or self._latency_s > request.timeout_s:
            await self._sleep(min(request.timeout_s, self._max_timeout_wait_s))
            raise ModelTimedOut(f"{MODEL_NAME} gave no reply within {request.timeout_s:g} s")
        if self._latency_s:
            await self._sleep(self._latency_s)
        _raise_for(fault)
        calls: tuple[ToolCall, ...] = ()
        if is_knowledge(request):
            move = next_move(request, script=self._name == SCRIPT_MODEL)
            if fault in KNOWLEDGE_FAULTS:
                move = misbehaved(fault, move, request)
            if move.calls and fault not in TEXT_ONLY_FAULTS:
                calls, fault = move.calls, None
            text = move.text
        elif is_extraction(request):
            text = _extracted(request, fault, self._plan.share(key, attempt, fault))
        else:
            text = self._answer(read_request(request))
        stop = StopReason.REFUSED if fault == "refused" else StopReason.END
        if fault in ("truncated", "cut_silently"):
            text = text[: int(len(text) * (0.2 + 0.75 * self._plan.share(key, attempt, fault)))]
            stop = StopReason.LENGTH if fault == "truncated" else StopReason.END
        elif fault is not None and fault not in EXTRACTION_FAULTS | KNOWLEDGE_FAULTS:
            text = _spoil(text, fault)
        text, cut = self._within(text, request.max_output_tokens)
        stop = StopReason.TOOLS if calls else StopReason.LENGTH if cut else stop
        usage = self._usage(request, text + "".join(call.name + arguments_text(call) for call in calls))
        return ChatReply(text, stop, usage, MODEL_NAME, calls)

    def _answer(self, brief: Brief) -> str:
        if brief.task == "condense":
            return _body(_condense(brief.profile, self._counter, brief.limit))
        if brief.task == "scrub":
            cleaned = _scrub(brief.profile)
            return "CLEAN" if cleaned == brief.profile else _body(cleaned)
        sheet = learn(brief.profile, brief.turns)
        if brief.task == "gate":
            return "UPDATE" if sheet.changed else "NOOP"
        if brief.task == "edits":
            return json.dumps(sheet.edits(), ensure_ascii=False)
        return _body(sheet.profile()) if sheet.changed else "NOOP"

    def _within(self, text: str, limit: int) -> tuple[str, bool]:
        """Cut at the output limit, as a provider does."""
        tokens = self._counter.count(text)
        if tokens <= limit:
            return text, False
        while tokens > limit:
            text = text[: min(len(text) - 1, len(text) * limit // tokens)]
            tokens = self._counter.count(text)
        return text, True

    def _usage(self, request: ChatRequest, reply: str) -> Usage:
        sent = self._counter.count(request.system_text) + sum(map(self._counter.count, _texts(request.messages)))
        return Usage(input_tokens=sent, output_tokens=self._counter.count(reply))


def _extracted(request: ChatRequest, fault: str | None, share: float) -> str:
    brief = read_extraction(request)
    items = extract(brief)
    given = misbehave(fault, items, brief, request.system_text, share) if fault in EXTRACTION_FAULTS else items
    return json.dumps(given, ensure_ascii=False)


def _request_key(request: ChatRequest) -> bytes:
    """Of the text and of the room for the answer: asked with more room, a model answers anew."""
    digest = hashlib.blake2b(b"%d|" % request.max_output_tokens, digest_size=16)
    for text in (request.stage, request.system_text, *_texts(request.messages)):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _texts(messages: Sequence[ChatMessage]) -> Iterator[str]:
    """All that a conversation holds: results and calls too."""
    for message in messages:
        yield from (result.content for result in message.tool_results)
        yield message.text
        yield from (f"{call.name} {arguments_text(call)}" for call in message.tool_calls)


def _raise_for(fault: str | None) -> None:
    if fault == "rate_limited":
        raise ModelRateLimited(f"{MODEL_NAME} is rate limited (simulated)")
    if fault == "rate_limited_retry_after":
        raise ModelRateLimited(f"{MODEL_NAME} is rate limited (simulated)", RETRY_AFTER_S)
    if fault == "server_error":
        raise ModelUnavailable(f"{MODEL_NAME} answered 500 (simulated)")
    if fault == "rejected":
        raise ModelRejected(f"{MODEL_NAME} answered 400 (simulated)")


def _spoil(text: str, fault: str) -> str:
    match fault:
        case "empty" | "refused":
            return ""
        case "fenced":
            return f"```{'json' if text.startswith('{') else 'markdown'}\n{text}\n```"
        case "think":
            return f"<think>\n{_THOUGHT}\n</think>\n{text}"
        case "think_unterminated":
            return f"<think>\n{_THOUGHT}\n"
        case "malformed":
            return "I am sorry, I would rather talk about the weather. What a day it is!"
        case "dropped_section":
            half = text.find("## Work Context")
            return text[:half].rstrip() if half > 0 else text[: len(text) // 2]
        case "preamble":
            return f"{_PREAMBLE}{text}{_AFTERWORD}"
        case "titled":
            return f"---\nuser_id: somebody\nturn_count: 999\n---\n\n# {TITLE}\n\n{text}"
        case _:
            raise AssertionError(fault)


def _body(profile: Profile) -> str:
    return render_body(profile).removeprefix(f"# {TITLE}").strip()


def _condense(profile: Profile, counter: TokenCounter, limit: int | None) -> Profile:
    """Without repeated bullets, and without the oldest of what matters least, until it fits."""
    rows = {name: list(dict.fromkeys(bullets)) for name, bullets in profile.items()}
    for section in (RECENT_TOPICS, FOLLOW_UPS, WORK_CONTEXT, SKILLS):
        while limit is not None and rows[section] and counter.count(render_body(Profile.of(rows))) > limit:
            over = counter.count(render_body(Profile.of(rows))) - limit
            gone = 0
            while rows[section] and gone < over:
                gone += max(1, counter.count("\n".join(rows[section].pop(0).lines)))
    return Profile.of(rows)


def _scrub(profile: Profile) -> Profile:
    """Names of clients and contact details out; a bullet that is nothing else goes."""

    def clean(text: str) -> str:
        cleaned = _CONTACT.sub("", _CLIENT.sub(r"\1", text))
        return text if cleaned == text else cleaned.strip(" ,;:-")

    return Profile(
        tuple(
            tuple(Bullet(clean(b.text), tuple(filter(None, map(clean, b.children)))) for b in bullets if clean(b.text))
            for bullets in profile.sections
        )
    )
