"""A knowledge loop as the store keeps it: the request, what was said and done in it, how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from memory.model.ids import short_hash
from memory.model.scope import Scope

MAX_REQUEST_BYTES: Final = 64 * 1024
MAX_INSTRUCTIONS_BYTES: Final = 16 * 1024
MAX_CONTEXT_MESSAGES: Final = 50
MAX_CONTEXT_BYTES: Final = 64 * 1024
MAX_SCHEMA_BYTES: Final = 32 * 1024
MAX_INTERJECTION_BYTES: Final = 16 * 1024
MAX_RESULT_BYTES: Final = 64 * 1024
"""Of one tool's result as the model reads it; more is cut, and says so and how to ask for less."""
MAX_ANSWER_BYTES: Final = 256 * 1024
MAX_LIMIT: Final = 2**53
"""Of any number among the limits; the settings allow less. A float holds every whole number up to it."""


class Operation(StrEnum):
    """``manager.verb`` of the primitive that started the loop; all run on the same workflow."""

    ASK = "knowledge.ask"
    UPDATE = "knowledge.update"
    REFACTOR = "knowledge.refactor"
    CONTACTS_ASK = "contacts.ask"
    CONTACTS_UPDATE = "contacts.update"
    TASKS_ASK = "tasks.ask"
    TASKS_UPDATE = "tasks.update"

    @property
    def writes(self) -> bool:
        return not self.value.endswith(".ask")


class LoopState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    LIMIT = "limit"
    """Out of steps, tokens or time; the answer says how far it came."""
    FAILED = "failed"
    """The model could not be reached or gave nothing usable; the tables hold what the steps before did."""


class EntryKind(StrEnum):
    MODEL = "model"
    """``body``: {"text", "calls": [{"call_id", "name", "arguments" | null, "raw"}], "model"}."""
    RESULT = "result"
    """``body``: {"call_id", "name", "content", "is_error"}."""
    INTERJECTION = "interjection"
    """``body``: {"text"}."""
    CLARIFICATION = "clarification"
    """``body``: {"question", "call_id"}. Its id is the entry's key."""
    ANSWER = "answer"
    """``body``: {"clarification", "text"}; the key is ``answer/<clarification's key>``, so the first answer stays."""
    STOP = "stop"
    """``body``: {"reason"}."""
    PAUSE = "pause"
    """``body``: {"paused"}: true for a pause, false for going on. Here, so that a run that begins again knows it."""
    SIDE_QUESTION = "side_question"
    """``body``: {"text"}."""
    SIDE_ANSWER = "side_answer"
    """``body``: {"question", "text"}."""
    NOTICE = "notice"
    """``body``: {"text"}: for a person who watches."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a loop. ``key``: unique in the loop, made from what it is about (``model/3``, ``result/3/0``), so that a retry
    writes it once. ``step``: 0 before the first model step. ``number`` 0: not stored yet."""

    key: str
    kind: EntryKind
    step: int
    body: Mapping[str, Any] = field(repr=False)
    number: int = 0
    at: datetime | None = None


def effect_key(scope: Scope, loop_id: str, step: int, index: int) -> str:
    """Idempotency key of one call's write. The effects of a team's tables are in one place, and loop ids are the callers' own: so
    it names the user too."""
    return f"loop/{short_hash(scope.tenant, scope.user, loop_id)}/{step}/{index}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a loop. ``tokens``: in and out of all model calls. ``wall_s``: waiting for a person does not count, nor pauses."""

    steps: int = 40
    tokens: int = 400_000
    wall_s: float = 900.0
    clarification_wait_s: float = 3_600.0

    def problem(self) -> str | None:
        """What is wrong with them, or None. Checked before they are recorded: a workflow's payload takes whole and finite numbers
        only, and fails for ever on others."""
        for name, kind, least in (
            ("steps", int, 1),
            ("tokens", int, 1),
            ("wall_s", float, 0.0),
            ("clarification_wait_s", float, 0.0),
        ):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
                return f"the limit {name} is a {'whole number' if kind is int else 'number'}, not {type(value).__name__}"
            if not least <= value <= MAX_LIMIT or value == 0:
                return f"the limit {name} is above 0 and at most {MAX_LIMIT}"
        return None


@dataclass(frozen=True, slots=True)
class Loop:
    """``destination``: ``personal`` or ``team:<id>``, checked when it was opened. ``context``: the chat that the request came from,
    read only, oldest first: ``{"role", "content"}``. ``response_format``: JSON schema of the answer. ``clarify``: somebody listens.

    ``parent``: of a loop that a tool call of another one started, that one's id; of one that a window opened, ``window:<id>`` or
    ``chunk:<id>``. ``only``: names of the only tables whose rows its calls may add and change, and they may change nothing else;
    empty: no such bound. ``answer``: text; ``structured``: where a schema was given. ``model`` empty: as the settings of the worker
    say. ``said``: where a program wrote ``text``, what its user has said; only that can ask for a deletion. None: ``text`` is the
    caller's own.
    """

    loop_id: str
    operation: Operation
    text: str = field(repr=False)
    destination: str
    created_at: datetime
    instructions: str | None = field(default=None, repr=False)
    context: Sequence[Mapping[str, str]] = field(default=(), repr=False)
    response_format: Mapping[str, Any] | None = field(default=None, repr=False)
    clarify: bool = False
    limits: Limits = Limits()
    model: str = ""
    parent: str | None = None
    only: Sequence[str] = ()
    said: Sequence[str] | None = field(default=None, repr=False)
    state: LoopState = LoopState.RUNNING
    answer: str | None = field(default=None, repr=False)
    structured: Any = field(default=None, repr=False)
    reason: str | None = None
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    ended_at: datetime | None = None

    @property
    def is_of_window(self) -> bool:
        """Opened by a window, and by nobody who waits for it."""
        return self.parent is not None and ":" in self.parent


def result_of(clarification: str) -> str:
    """Key of the entry that ends the call which asked this question."""
    return clarification.replace("clarification/", "result/", 1)


def settled_by(clarification: str) -> frozenset[str]:
    """Keys of entries, one of which means that a question is no longer open: its answer, or the end of its call."""
    return frozenset({f"answer/{clarification}", result_of(clarification)})
