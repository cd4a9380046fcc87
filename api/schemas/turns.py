"""Memory for a turn, turns as they come in, and what became of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from api.routing import MAX_PAGE, Id, Moment
from api.schemas.base import Given, Page, Shown, example
from memory.model.turn import Outcome
from memory.ports import TurnSummary
from starter.views import LoadReason, Receipt, ReceiptStatus


class Memory(Shown):
    """The memory for one turn. `body` and `system_prompt_section` are empty where `reason` is set; the turn goes on without."""

    body: str = Field(description="the profile as it is stored, within the budget of the space")
    system_prompt_section: str = Field(description="what to append to the system prompt, with the profile in it")
    active: bool = Field(description="whether memory is on for this turn, as far as it could be found out")
    reason: LoadReason | None = Field(description="why there is none")
    reasons: list[str] = Field(description="every reason why memory is off")
    detail: str | None = Field(description="one line for operators")
    version: int = Field(description="of the profile; 0: there is none")
    etag: str | None = Field(description="of the profile, for `If-Match`")
    tokens: int | None = Field(description="of `body`; null where its length in bytes already shows that it fits")
    truncated: bool = Field(description="the stored profile was over the budget and was cut by rule for this turn")


MEMORY_EXAMPLE: dict[str, Any] = {
    "body": "# User Memory\n\n## Identity\n- Lives in Berlin.\n…",
    "system_prompt_section": "## What I know about you\n…",
    "active": True,
    "reason": None,
    "reasons": [],
    "detail": None,
    "version": 7,
    "etag": "9b2cf535f27731c974343645a3985328",
    "tokens": 212,
    "truncated": False,
}


class TurnGiven(Given):
    """A finished turn. The same `turn_id` again is recognised, so a caller that is not sure may send it again."""

    turn_id: Id = Field(examples=["t-42"])
    user_text: str | None = Field(default=None, description="what the user said; at most 1 MiB of UTF-8; null: nothing")
    assistant_text: str | None = Field(default=None, description="what the assistant answered; null: nothing")
    occurred_at: Moment | None = Field(default=None, description="when; null: now")
    space_id: Id = "default"
    conversation_id: Id = "default"
    medium: Annotated[str, Field(max_length=64)] = "chat"
    language_model: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="the model that answered, `provider:model`"
    )
    allow_user_memory: StrictBool = Field(default=False, description="consent for this turn; nothing is recorded without it")
    web_search: StrictBool | None = Field(default=None, description="whether this turn searched the web; null: as the space says")

    model_config = example(
        {
            "turn_id": "t-42",
            "user_text": "I moved to Berlin last week.",
            "assistant_text": "Welcome to Berlin!",
            "occurred_at": "2026-06-17T12:00:00+00:00",
            "allow_user_memory": True,
        }
    )


class TurnReceipt(Shown):
    """What became of a turn."""

    turn_id: str
    status: ReceiptStatus
    reason: str | None = Field(description="one line, ids and counts only")
    reasons: list[str] = Field(description="why memory is off, for `skipped`")
    started: bool = Field(description="the workflow has been told; if not, the sweeper tells it within about a minute")
    ordinal: int | None = Field(description="the turn's number among the user's")

    model_config = example({"turn_id": "t-42", "status": "recorded", "reason": None, "reasons": [], "started": True, "ordinal": 12})

    @classmethod
    def of(cls, turn_id: str, receipt: Receipt) -> TurnReceipt:
        return cls(
            turn_id=turn_id,
            status=receipt.status,
            reason=receipt.reason,
            reasons=list(receipt.reasons),
            started=receipt.started,
            ordinal=receipt.ordinal,
        )


class TurnView(Shown):
    """A turn as the ledger has it, without its text."""

    turn_id: str
    ordinal: int
    attempt: int = Field(description="0 at first; each rerun adds one")
    space_id: str
    state: str = Field(examples=["done"])
    outcome: Outcome | None = Field(description="`kept`: a failure kept the old profile; it can run again")
    reason: str | None
    flags: list[str]
    profile_version: int | None
    recorded_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, turn: TurnSummary) -> TurnView:
        return cls(
            turn_id=turn.turn_id,
            ordinal=turn.ordinal,
            attempt=turn.attempt,
            space_id=turn.space_id,
            state=turn.state,
            outcome=turn.outcome,
            reason=turn.reason,
            flags=list(turn.flags),
            profile_version=turn.profile_version,
            recorded_at=turn.recorded_at,
            finished_at=turn.finished_at,
        )


class TurnPage(Page[TurnView]):
    """Turns, newest first."""


Rerunnable = Literal[Outcome.KEPT, Outcome.SKIPPED]


class RerunGiven(Given):
    """Which turns run again: these, or all with these outcomes."""

    turn_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_PAGE)] | None = None
    outcomes: list[Rerunnable] = Field(default_factory=lambda: [Outcome.KEPT], min_length=1, max_length=2)
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100

    model_config = example({"outcomes": ["kept"]})


class RerunView(Shown):
    """The turns that run again. `started`: whether their workflow was told; if not, the sweeper tells it."""

    turns: list[TurnView]
    started: bool
