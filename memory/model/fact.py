"""A fact: one statement with a life, and where it comes from."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

MAX_STATEMENT_CHARS = 2000
MAX_QUOTE_CHARS = 1000
MAX_TOPICS = 12


class FactKind(StrEnum):
    FACT = "fact"
    POLICY = "policy"
    DEFINITION = "definition"
    DECISION = "decision"
    CONSTRAINT = "constraint"
    INSIGHT = "insight"
    PREFERENCE = "preference"


class FactStatus(StrEnum):
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    """Another statement took its place: ``superseded_by``."""
    INVALIDATED = "invalidated"
    """Withdrawn by a person or an operator; nothing took its place."""


class Source(BaseModel):
    """Where an item comes from: a quote of an event, or ``manual`` (no event)."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    event_id: str | None = None
    """The event's outside id; None for a manual entry."""
    seq: int | None = None
    """The event's number in the user's log, when it is there."""
    quote: str = Field(default="", max_length=MAX_QUOTE_CHARS, repr=False)
    said_at: AwareDatetime | None = None
    origin: str = "manual"
    """``window:<id>``, ``chunk:<id>``, ``merge:<contact id>`` or ``manual``."""


class Fact(BaseModel):
    """``owner``: see :class:`memory.model.owner.Owner`; its key form. All times have a zone."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    fact_id: str
    owner: str
    subject: str = Field(default="", max_length=200, repr=False)
    statement: str = Field(min_length=1, max_length=MAX_STATEMENT_CHARS, repr=False)
    kind: FactKind = FactKind.FACT
    topics: tuple[Annotated[str, Field(max_length=60)], ...] = ()
    confidence: float = Field(default=1.0, ge=0, le=1)
    observed_at: AwareDatetime
    valid_from: AwareDatetime | None = None
    valid_until: AwareDatetime | None = None
    status: FactStatus = FactStatus.ACTIVE
    superseded_by: str | None = None
    ended_at: AwareDatetime | None = None
    """When it stopped to be active."""
    created_at: AwareDatetime
    sources: tuple[Source, ...] = Field(default=(), repr=False)
    """Oldest first; left out of lists unless asked for."""

    def holds_at(self, moment: datetime) -> bool:
        """Whether it was believed and valid at that time."""
        begins = self.valid_from or self.observed_at
        ends = [end for end in (self.valid_until, self.ended_at) if end is not None]
        return begins <= moment and all(moment < end for end in ends)
