"""A completed turn: one user message and one assistant answer."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

MAX_MESSAGE_BYTES = 1024 * 1024
"""The log keeps messages up to this many bytes of UTF-8; more is refused with a clear error."""

PROMPT_MESSAGE_BYTES = 64 * 1024
"""In prompts a message is shortened in the middle to this many bytes."""

ExternalId = Annotated[str, Field(min_length=1, max_length=4096)]


class Turn(BaseModel):
    """What the orchestrator hands over after an answer.

    ``turn_id`` makes recording idempotent: the same id twice is one turn. ``occurred_at`` is the time of the turn with a zone;
    the profile's log uses it, not the time of processing. Text of ``None`` means that side said nothing (a tool call, say).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    turn_id: ExternalId
    user_text: str | None = Field(default=None, repr=False)
    assistant_text: str | None = Field(default=None, repr=False)
    occurred_at: AwareDatetime
    space_id: ExternalId = "default"
    conversation_id: ExternalId = "default"
    medium: str = Field(default="chat", max_length=64)
    language_model: str | None = Field(default=None, max_length=200)
    """The model that answered, as ``provider:model``; used when the space says ``use_orchestrator_language_model``."""
    allow_user_memory: bool = False
    """The caller's consent for this turn; memory is active only when it is true."""
    web_search: bool | None = None
    """Whether web search is on for this turn; None: as the space says."""

    @property
    def is_empty(self) -> bool:
        return not (self.user_text or "").strip() and not (self.assistant_text or "").strip()


class Outcome(StrEnum):
    """How a turn ended. ``kept``: the old profile stays because of a failure, and the turn can be rerun."""

    UPDATED = "updated"
    NOOP = "noop"
    KEPT = "kept"
    SKIPPED = "skipped"
    """Memory was switched off for this user or space when the turn's time came."""


class StoredTurn(BaseModel):
    """A turn as the ledger has it. ``ordinal`` counts a user's turns from 1 in the order of recording."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    turn: Turn
    ordinal: int
    attempt: int
    """0 at first; each rerun by an operator adds one."""
    state: str
    """``pending`` or ``done``."""
    outcome: Outcome | None = None
    reason: str | None = None
    recorded_at: datetime
    finished_at: datetime | None = None
    profile_version: int | None = None
