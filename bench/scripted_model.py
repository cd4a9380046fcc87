"""A language model without latency or opinion: it says UPDATE or NOOP as told, and adds one bullet of about fifteen words.

It reads the real prompts and answers in the real protocol, so all of the product's own work on a turn is done. Where it is given
a token counter it counts what it was sent and what it said, and what a provider's prompt cache could have served.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bench.results import BenchError
from memory.llm.tokens import counter_for
from memory.model.edits import LETTERS
from memory.model.profile import EMPTY_MARK, SECTIONS
from memory.model.tools import ToolCall
from memory.ports import ChatModel, ChatReply, ChatRequest, ModelProvider, StopReason, TokenCounter, Usage

MODEL_NAME: Final = "simulated:scripted"
UPDATE_MARK: Final = "[teach]"
"""In a turn's text: this turn is worth a rewrite. The scripted gate says NOOP to all others."""
SLOW_MARK: Final = "[slow]"
"""In a turn's text: :class:`PatientModel` thinks about this turn for ``SLOW_S``."""
SLOW_S: Final = 12.0
BULLET_WORDS: Final = 15
CACHE_MINIMUM: Final = 1024
"""Providers cache no prefix shorter than this many tokens."""

_ADD: Final[tuple[str, dict[str, Any]]] = (
    "add_rows",
    {"table": "Notes", "rows": [{"note": "The review is on Thursday.", "day": 4}]},
)
_FILTER: Final[tuple[str, dict[str, Any]]] = ("filter", {"filter": "day > 2", "tables": ["Notes"], "limit": 5})
LOOP_CALLS: Final[tuple[tuple[tuple[str, dict[str, Any]], ...], ...]] = (
    (("tables_overview", {}), ("create_table", {"name": "Notes", "columns": {"note": "str", "day": "int"}})),
    *((_ADD,), (_FILTER,)) * 4,
)

_PROFILE = re.compile(r"<profile>\n(.*?)\n?</profile>", re.DOTALL)
_TURN_TIME = re.compile(r"^Turn (\d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC)$", re.MULTILINE)
_EXCHANGE = "<exchange>"
_LINE = re.compile(r"^\[(\d+)\] [^|\n]+ \| (\S+) → [^|\n]+ \| [^|\n]+ \| (.+)$", re.MULTILINE)
_WORDS: Final = """
team budget launch quarter report customer design review garden market railway printer harbour museum teacher engine
contract window station mountain coffee planning morning answer short longer detail summary project workshop winter
summer language reading writing weekly yearly steady careful quick quiet bright simple direct formal early late often
usually prefers manages builds repairs studies teaches collects compares measures delivers before after during without
beside around between split
"""


def bullet_text(number: int, seed: int = 0) -> str:
    """The text of bullet ``number``: about fifteen words, the same for the same seed, no two alike."""
    chosen = random.Random(f"{seed}:{number}").sample(_WORDS.split(), BULLET_WORDS - 1)
    return " ".join([chosen[0].capitalize(), *chosen[1:], f"no{number}"])


def marked(prompt: str) -> bool:
    """Whether the exchange in a prompt bears the mark."""
    return UPDATE_MARK in prompt[prompt.rfind(_EXCHANGE) :]


class EveryNth:
    """UPDATE at each ``n``-th question of the gate."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._asked = 0

    def __call__(self, prompt: str) -> bool:
        self._asked += 1
        return self._asked % self._n == 0


@dataclass(slots=True)
class StageTokens:
    """Of all calls of one stage. ``cached``: what a cache could serve of ``input``, see :class:`PromptCache`."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached_by_mark: int = 0
    cached_by_prefix: int = 0
    cached_from_minimum: int = 0
    by_part: dict[str, int] = field(default_factory=dict[str, int])


class PromptCache:
    """What a provider's prompt cache could serve of a request, given the request before it of the same stage and user.

    By mark: the parts up to the last cacheable mark that are equal (Anthropic). By prefix: the common beginning of the text
    (OpenAI). From minimum: by prefix, where that is long enough to be cached at all.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._before: dict[str, list[tuple[str, bool]]] = {}

    def served(self, request: ChatRequest) -> tuple[int, int, int]:
        parts = [(part.text, part.cacheable) for part in request.system]
        parts += [(part.text, part.cacheable) for message in request.messages for part in message.parts]
        before = self._before.get(request.stage, [])
        self._before[request.stage] = parts
        marked_text = equal = ""
        for ours, theirs in zip(parts, before, strict=False):
            if ours != theirs:
                break
            equal += ours[0]
            marked_text = equal if ours[1] else marked_text
        prefix = _common("".join(text for text, _ in parts), "".join(text for text, _ in before))
        by_mark, by_prefix = self._counter.count(marked_text), self._counter.count(prefix)
        return by_mark, by_prefix, by_prefix if by_prefix >= CACHE_MINIMUM else 0


def _common(one: str, other: str) -> str:
    """The longest text with which both begin."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return one[:low]


class ScriptedModel(ChatModel):
    """For one user's turns in order (where it counts), or any number of users (where the mark in a turn decides)."""

    def __init__(self, decide: Callable[[str], bool] = marked, *, counter: TokenCounter | None = None, seed: int = 0) -> None:
        self._decide = decide
        self._counter = counter
        self._cache = PromptCache(counter) if counter else None
        self._seed = seed
        self._bullets = 0
        self.spent: dict[str, StageTokens] = {}

    @property
    def name(self) -> str:
        return MODEL_NAME

    @property
    def reasoning(self) -> bool:
        return False

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.stage == "gate":
            text = "UPDATE" if self._decide(request.messages[0].text) else "NOOP"
        elif request.stage == "consolidate":
            text = self._consolidate(request)
        elif request.stage == "extract":
            text = _extracted(request)
        elif request.stage == "knowledge.update":
            return _looped(request)
        else:
            raise BenchError(f"the pipeline asked for a {request.stage} that the script does not have")
        return ChatReply(text, StopReason.END, self._count(request, text), self.name)

    def _consolidate(self, request: ChatRequest) -> str:
        section = SECTIONS[self._bullets % len(SECTIONS)]
        text = bullet_text(self._bullets, self._seed)
        self._bullets += 1
        prompt = request.messages[0].text
        if section == "Recent Topics":
            times = _TURN_TIME.findall(prompt[prompt.rfind(_EXCHANGE) :])
            text = f"{times[-1]}: {text}"
        if request.schema is not None:
            return json.dumps({"edits": [{"op": "add", "to": LETTERS[section], "text": text}]}, ensure_ascii=False)
        found = _PROFILE.search(prompt)
        if found is None:
            raise BenchError("the prompt holds no profile")
        return with_bullet(found[1], section, text)

    def _count(self, request: ChatRequest, text: str) -> Usage:
        counter = self._counter
        if counter is None or self._cache is None:
            return Usage()
        parts = prompt_parts(request)
        sizes = {name: counter.count(part) for name, part in parts.items()}
        spent = self.spent.setdefault(request.stage, StageTokens())
        given, said = sum(sizes.values()), counter.count(text)
        by_mark, by_prefix, from_minimum = self._cache.served(request)
        spent.calls += 1
        spent.input += given
        spent.output += said
        spent.cached_by_mark += by_mark
        spent.cached_by_prefix += by_prefix
        spent.cached_from_minimum += from_minimum
        for name, size in sizes.items():
            spent.by_part[name] = spent.by_part.get(name, 0) + size
        return Usage(input_tokens=given, output_tokens=said, cached_input_tokens=by_mark)


def _looped(request: ChatRequest) -> ChatReply:
    """The next of ten steps: ten calls of tools in nine of them, then the answer. Which one is next, the conversation tells."""
    step = 1 + sum(message.role == "assistant" for message in request.messages)
    if step > len(LOOP_CALLS):
        return ChatReply("Done.", StopReason.END, Usage(), MODEL_NAME)
    calls = tuple(ToolCall(f"c{step}-{place}", name, given) for place, (name, given) in enumerate(LOOP_CALLS[step - 1]))
    return ChatReply("", StopReason.TOOLS, Usage(), MODEL_NAME, tool_calls=calls)


def _extracted(request: ChatRequest) -> str:
    """One item per text about contacts, with a quote of the user's first line; nothing else."""
    line = next((one for one in _LINE.finditer(request.messages[0].text) if one[2] == "user"), None)
    if line is None:
        raise BenchError("the prompt holds no transcript")
    item = {"contact": "c1", "text": f"The user said: {line[3]}", "evidence": [{"event": int(line[1]), "quote": line[3]}]}
    asked = list((request.schema or {}).get("properties", {}))
    return json.dumps({name: [item] if name in ("bios", "rolling_summaries") else [] for name in asked}, ensure_ascii=False)


def prompt_parts(request: ChatRequest) -> dict[str, str]:
    """The texts of a request by what they are: instructions, profile, exchange, and the reply's schema where there is one.

    A schema is text that the provider shows to the model, so it counts as input.
    """
    text = "".join(message.text for message in request.messages)
    cut = text.find(_EXCHANGE)
    parts = {"instructions": request.system_text, "profile": text[:cut], "exchange": text[cut:]}
    if request.schema is not None:
        parts["schema"] = json.dumps(request.schema, separators=(",", ":"))
    return parts


def with_bullet(profile: str, section: str, text: str) -> str:
    """The profile's text with one bullet more at the end of a section. Raises BenchError when it has no such section."""
    start = f"\n{profile}".find(f"\n## {section}\n")
    if start < 0:
        raise BenchError(f"the profile in the prompt has no section {section}")
    end = profile.find("\n## ", start)
    end = len(profile) if end < 0 else end
    block = profile[start:end].rstrip().removesuffix(EMPTY_MARK).rstrip()
    return f"{profile[:start]}{block}\n- {text}\n{profile[end:]}"


class PatientModel(ChatModel):
    """The scripted model for worker processes: it takes its time where a turn says so, and every reply has a usage to be booked.

    The usage is a guess of four characters per token: counting would be the most expensive part of a turn.
    """

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def reasoning(self) -> bool:
        return self._model.reasoning

    async def complete(self, request: ChatRequest) -> ChatReply:
        prompt = request.messages[0].text if request.messages else ""
        if SLOW_MARK in prompt[prompt.rfind(_EXCHANGE) :]:
            await asyncio.sleep(SLOW_S)
        reply = await self._model.complete(request)
        given = sum(len(message.text) for message in request.messages) + len(request.system_text)
        return replace(reply, usage=Usage(input_tokens=given // 4, output_tokens=1 + len(reply.text) // 4))


class ScriptedModels(ModelProvider):
    """Every name is the scripted model."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    def model(self, name: str) -> ChatModel:
        return self._model

    def token_counter(self, name: str) -> TokenCounter:
        return counter_for("simulated", "scripted")

    async def aclose(self) -> None:
        pass


def total(stages: Sequence[StageTokens]) -> StageTokens:
    """The sum over stages."""
    out = StageTokens()
    for one in stages:
        out.calls += one.calls
        out.input += one.input
        out.output += one.output
        out.cached_by_mark += one.cached_by_mark
        out.cached_by_prefix += one.cached_by_prefix
        out.cached_from_minimum += one.cached_from_minimum
        for name, size in one.by_part.items():
            out.by_part[name] = out.by_part.get(name, 0) + size
    return out
