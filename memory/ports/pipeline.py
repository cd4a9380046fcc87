"""Ports of the post-answer pipeline: language models, the event log, the directory, notices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

from memory.model.directory import MemoryFacts, MemoryRoot, SpaceSettings
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.scope import Scope
from memory.model.tools import ToolCall, ToolDefinition, ToolResult
from memory.model.turn import Outcome, StoredTurn, Turn

# --------------------------------------------------------------------------------------------------------- language models


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A piece of a prompt. ``cacheable``: everything up to and including this part is worth a provider's prompt cache."""

    text: str = field(repr=False)
    cacheable: bool = False


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """``tool_calls``: of an assistant's message, beside its text. ``tool_results``: of a user's message, before its text; they
    answer the calls of the message before, all of them."""

    role: Literal["user", "assistant"]
    parts: tuple[PromptPart, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One model call. ``stage`` (``gate``, ``consolidate``, ``repair``, ``condense``, ``scrub``) is for accounting.

    ``schema``: a JSON schema that the reply's text must follow; the provider's structured output is used where it has one.
    ``timeout_s``: the whole call, in seconds. ``tools``: what the model may call; with ``tool_choice`` ``none`` they are only
    shown, because the conversation has calls of them.
    """

    stage: str
    system: tuple[PromptPart, ...]
    messages: tuple[ChatMessage, ...]
    max_output_tokens: int
    timeout_s: float
    schema: Mapping[str, Any] | None = None
    schema_name: str = "reply"
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: Literal["auto", "required", "none"] = "auto"

    @property
    def system_text(self) -> str:
        return "".join(part.text for part in self.system)


class StopReason(StrEnum):
    END = "end"
    LENGTH = "length"
    """Cut off at the output limit: the text is not complete and is never stored."""
    REFUSED = "refused"
    TOOLS = "tools"
    """It calls tools and waits for what they give."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as the provider reports them (the simulated model counts with tiktoken)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    calls: int = 1

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.calls + other.calls,
        )


@dataclass(frozen=True, slots=True)
class ChatReply:
    """``text`` is untrusted and may be empty. ``model`` as the provider names it. ``tool_calls``: untrusted, in order."""

    text: str = field(repr=False)
    stop: StopReason
    usage: Usage
    model: str
    tool_calls: tuple[ToolCall, ...] = ()


class ChatModel(Protocol):
    """One model of one provider. ``complete`` makes exactly one provider call: Temporal owns retries."""

    @property
    def name(self) -> str:
        """``provider:model``."""
        ...

    @property
    def reasoning(self) -> bool:
        """Whether the model thinks before it answers and so needs a larger output budget for one word."""
        ...

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises ModelRateLimited, ModelUnavailable, ModelTimedOut or ModelRejected. An empty text is not an error here."""
        ...


class TokenCounter(Protocol):
    @property
    def name(self) -> str:
        """The encoding, for instance ``o200k_base``."""
        ...

    @property
    def exact(self) -> bool:
        """False where the model's own tokenizer is not known and the documented fallback counts."""
        ...

    def count(self, text: str) -> int: ...


class ModelProvider(Protocol):
    """From ``provider:model`` names to models; keeps clients open between calls."""

    def model(self, name: str) -> ChatModel:
        """Raises InvalidInput for a name whose provider is unknown or not configured."""
        ...

    def token_counter(self, name: str) -> TokenCounter: ...

    async def aclose(self) -> None: ...


# -------------------------------------------------------------------------------------------------- event log and directory


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """``duplicate``: this turn id was there already; nothing was written.

    ``refused_by``: the facts by which the caller's ``allowed`` said no; nothing was written, the other fields say nothing.
    """

    ordinal: int
    duplicate: bool
    outcome: Outcome | None
    refused_by: MemoryFacts | None = None
    waiting: int = 0
    """Events of the user that no window has consumed yet, this turn's included."""


@dataclass(frozen=True, slots=True)
class RecordedEvents:
    """``waiting``: events of the user beyond the watermark, these included. ``dropped``: messages without content, and calls of
    the memory manager itself. ``refused_by``: the facts by which ``allowed`` said no; nothing was written."""

    recorded: int
    duplicates: int
    dropped: int
    waiting: int
    last_seq: int
    refused_by: MemoryFacts | None = None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a run says of one turn; all of it may be shown to operators."""

    turn_id: str
    attempt: int
    outcome: Outcome
    reason: str | None
    profile_version: int | None
    run_id: str
    workflow_id: str
    flags: tuple[str, ...]
    usage: Mapping[str, Mapping[str, int]]
    """By stage: ``{"gate": {"input_tokens": …, "output_tokens": …, "cached_input_tokens": …, "calls": …}}``."""
    durations_ms: Mapping[str, int]
    model: str | None


@dataclass(frozen=True, slots=True)
class TurnSummary:
    """A ledger row without its text, for operators."""

    scope: Scope
    turn_id: str
    ordinal: int
    attempt: int
    space_id: str
    state: str
    outcome: Outcome | None
    reason: str | None
    flags: tuple[str, ...]
    profile_version: int | None
    recorded_at: datetime
    finished_at: datetime | None
    run_id: str | None
    usage: Mapping[str, Mapping[str, int]]
    durations_ms: Mapping[str, int]
    model: str | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """A user with turns that were recorded and not finished."""

    scope: Scope
    pending: int
    oldest_turn_id: str
    oldest_recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """``oldest_at``: when the first of these turns was recorded."""

    turns: int
    oldest_at: datetime | None


class EventLog(Protocol):
    """The record of what happened: message events and the turn ledger (SQL)."""

    async def record_turn(
        self, scope: Scope, turn: Turn, *, now: datetime, allowed: Callable[[MemoryFacts], bool] | None = None
    ) -> RecordedTurn:
        """Two message events and one turn row in one transaction; idempotent by turn id within the scope.

        A side of the turn without text makes no event. ``allowed`` is asked within the transaction, with what the directory says
        of the user in the turn's space: one round trip, and consent as it is at the moment of recording. It must be quick and
        pure. Raises InvalidInput for a message over 1 MiB.
        """
        ...

    async def record_events(
        self,
        scope: Scope,
        events: Sequence[MessageEvent | ManagerMethodEvent],
        *,
        space_id: str = "default",
        now: datetime,
        allowed: Callable[[MemoryFacts], bool] | None = None,
    ) -> RecordedEvents:
        """Append events in this order, in one transaction; one whose id is there already is counted as a duplicate.

        Messages without content and calls of the memory manager itself are dropped and counted. ``allowed``: as in
        :meth:`record_turn`. Raises InvalidInput for a content over 1 MiB or more than 1,000 events; nothing is written then.
        """
        ...

    async def pending(self, scope: Scope, *, limit: int) -> Sequence[StoredTurn]:
        """The oldest unfinished turns of the user, by ordinal, with their text."""
        ...

    async def turns(self, scope: Scope, turn_ids: Sequence[str]) -> Sequence[StoredTurn]:
        """These turns by ordinal, with their text; unknown ids are left out."""
        ...

    async def finish(self, scope: Scope, results: Sequence[TurnResult], *, now: datetime) -> int:
        """Record outcomes in one transaction; a turn already finished at that attempt is left alone. Returns rows changed."""
        ...

    async def backlog(self, *, recorded_before: datetime, limit: int) -> Sequence[Backlog]:
        """Users whose oldest unfinished turn was recorded before that time, oldest first."""
        ...

    async def waiting(self, *, limit: int) -> Waiting:
        """Unfinished turns of everybody; beyond ``limit`` no further ones are looked at."""
        ...

    async def reopen(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        turn_ids: Sequence[str] | None = None,
        outcomes: Collection[Outcome] = (Outcome.KEPT,),
        limit: int = 1000,
    ) -> Sequence[TurnSummary]:
        """Turns with these outcomes become pending again with the next attempt number. Returns them as they now are.

        ``kept`` and ``skipped`` can be reopened (InvalidInput for others), but no turn that was skipped because its user had
        opted out: who opts in again later did not mean what was said before.
        """
        ...

    async def summaries(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        outcome: Outcome | None = None,
        state: str | None = None,
        below: int | None = None,
        run_ids: Collection[str] | None = None,
        limit: int = 100,
    ) -> Sequence[TurnSummary]:
        """Ledger rows, newest first. ``below``: with ordinals below this, for the next page of one user's turns. ``run_ids``: that
        these workflow runs finished, at most 1,000."""
        ...

    async def ping(self) -> None:
        """Raises StoreUnavailable, or InvalidSettings when the schema is not at the version of the code."""
        ...

    async def aclose(self) -> None: ...


class Directory(Protocol):
    """Settings of spaces, preferences of users, memory roots of companies (SQL). Ids are encoded segments."""

    async def facts(self, scope: Scope, space_id: str) -> MemoryFacts:
        """All that enablement needs, in one read. ``space_id`` is the outside id. Nothing is created."""
        ...

    async def space(self, tenant: str, space_id: str) -> SpaceSettings | None: ...

    async def save_space(self, tenant: str, space_id: str, settings: SpaceSettings) -> None:
        """Also provisions the root that the settings name."""
        ...

    async def spaces(self, tenant: str) -> Mapping[str, SpaceSettings]: ...

    async def set_preference(self, scope: Scope, *, allow_user_memory: bool) -> None:
        """Raises BeingForgotten while everything of the user is being deleted."""
        ...

    async def set_teams(self, scope: Scope, team_ids: Sequence[str], *, read_only: Collection[str] = ()) -> None:
        """The teams that the user belongs to, by outside id; in place of those before.

        ``read_only``: those of them whose knowledge the user reads and does not write. Raises BeingForgotten.
        """
        ...

    async def teams(self, scope: Scope) -> Sequence[str]:
        """Outside ids of the user's teams, by name."""
        ...

    async def memberships(self, scope: Scope) -> Mapping[str, bool]:
        """The user's teams by outside id, and whether the user may write to their knowledge."""
        ...

    async def tenants(self) -> Sequence[str]:
        """Tenants (encoded) that have a memory root, by name."""
        ...

    async def roots(self, tenant: str) -> Sequence[MemoryRoot]: ...

    async def provision_root(self, tenant: str, folder: str) -> MemoryRoot:
        """Idempotent; safe to race."""
        ...

    async def rename_root(self, tenant: str, folder: str, new_folder: str, *, nothing_in_it: bool = False) -> MemoryRoot:
        """Objects are not moved. Returns the record under its new name.

        Of several active roots, one with a new name is set aside: its record is no longer active, and spaces that named it live in
        the company's one root. To the name of another root: the two become one record, in the spaces too.

        Args:
            nothing_in_it: the caller has seen that no profile lies under ``folder``.

        Raises:
            InvalidInput: there is no such root; or it is the only active one, and its profiles would no longer be found.
        """
        ...

    async def remove_root(self, tenant: str, folder: str, *, nothing_in_it: bool = False) -> None:
        """Deactivates it; spaces that name it fall back to the default. Objects are not deleted. As :meth:`rename_root`."""
        ...


# ------------------------------------------------------------------------------------------------------------------ notices


@dataclass(frozen=True, slots=True)
class Notice:
    """One step that a chat front end can render. Holds no text of the user.

    ``step``: ``loading_started | loading_completed | loading_failed | updating_started | updating_completed``.
    ``notice_id`` joins the steps of one piece of work; ``key`` is unique per step, so a receiver can drop repeats.
    ``expires_at``: a front end removes the notice by itself then, should nobody finish it.
    """

    notice_id: str
    key: str
    step: str
    scope: Scope
    conversation_ids: tuple[str, ...]
    turn_ids: tuple[str, ...]
    text: str
    at: datetime
    expires_at: datetime | None = None
    outcome: Outcome | None = None
    review_url: str | None = None


class Notifier(Protocol):
    """A place where notices go. Bounded in time; raises MemoryUnavailable when the sink is away."""

    async def send(self, notice: Notice) -> None: ...
