"""Knowledge loops as JSON: what is asked for, what was said and done, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory.model.knowledge import PERSONAL
from memory.model.knowledge_loop import Entry, EntryKind, Limits, Loop, LoopState, Operation
from memory.model.knowledge_steps import LoopStatus


class ContextMessage(BaseModel):
    """A message of the chat that the request came from."""

    role: Literal["user", "assistant", "system", "document"]
    content: str


class LoopLimits(BaseModel):
    """What ends the loop; never more than the deployment allows. What is left out is as the deployment says."""

    steps: int | None = Field(None, ge=2, le=10_000)
    tokens: int | None = Field(None, ge=1, le=10**9)
    wall_s: float | None = Field(None, gt=0, le=10**7, description="without waiting for a person, and without pauses")
    clarification_wait_s: float | None = Field(None, gt=0, le=10**7)

    def over(self, most: Limits) -> Limits:
        """With the deployment's own where nothing was said."""
        return Limits(
            steps=most.steps if self.steps is None else self.steps,
            tokens=most.tokens if self.tokens is None else self.tokens,
            wall_s=most.wall_s if self.wall_s is None else self.wall_s,
            clarification_wait_s=most.clarification_wait_s if self.clarification_wait_s is None else self.clarification_wait_s,
        )


class Question(BaseModel):
    """What a loop is asked for."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "Which suppliers deliver within 20 days?", "clarify": True}]}
    )

    text: str = Field(description="in the user's own words, at most 64 KiB")
    case_specific_instructions: str | None = Field(None, description="for this call, beside the system prompt; at most 16 KiB")
    destination: str = Field(PERSONAL, max_length=300, description="`personal` or `team:<id>`: where new tables and rows go")
    response_format: dict[str, Any] | None = Field(None, description="JSON schema of a structured answer")
    context: list[ContextMessage] | None = Field(None, max_length=50, description="the chat that it came from, oldest first")
    clarify: bool = Field(False, description="somebody answers the loop's questions, so that it may ask")
    limits: LoopLimits | None = None
    language_model: str | None = Field(None, max_length=200, description="`provider:model`; default: the deployment's")


class Change(Question):
    """What a loop is to make true."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "Add the supplier Brenta from Padua, delivery in 45 days."}]}
    )

    said: list[str] | None = Field(
        None,
        max_length=50,
        description="where a program wrote `text`: the messages of its user, oldest first; only they can ask for a deletion then",
    )


class LoopLinks(BaseModel):
    self: str
    entries: str
    events: str = Field(description="server-sent events, from the first step on")


class LoopView(BaseModel):
    """A loop. `answer`: how it ended, in words; null while it runs."""

    loop_id: str = Field(examples=["9f1c2b7e"])
    operation: Operation
    state: LoopState
    text: str
    destination: str = Field(examples=[PERSONAL])
    answer: str | None = None
    structured: Any = Field(None, description="the answer in the form that was asked for")
    reason: str | None = Field(None, description="a code, where it did not come to its own end")
    steps: int = Field(description="model calls; 0 while it runs")
    input_tokens: int
    output_tokens: int
    parent: str | None = Field(None, description="id of the loop or window that began it")
    created_at: datetime
    ended_at: datetime | None = None
    links: LoopLinks

    @classmethod
    def of(cls, loop: Loop) -> LoopView:
        place = f"/v1/loops/{loop.loop_id}"
        return cls(
            loop_id=loop.loop_id,
            operation=loop.operation,
            state=loop.state,
            text=loop.text,
            destination=loop.destination,
            answer=loop.answer,
            structured=loop.structured,
            reason=loop.reason,
            steps=loop.steps,
            input_tokens=loop.input_tokens,
            output_tokens=loop.output_tokens,
            parent=loop.parent,
            created_at=loop.created_at,
            ended_at=loop.ended_at,
            links=LoopLinks(self=place, entries=f"{place}/entries", events=f"{place}/events"),
        )


class LoopPage(BaseModel):
    items: list[LoopView]
    next: str | None = Field(None, description="`cursor` of the next page")


class EntryView(BaseModel):
    """One line of a loop. What `body` has depends on `kind`."""

    number: int
    step: int = Field(description="0: before the first model call")
    kind: EntryKind
    key: str = Field(description="of a clarification: its id", examples=["clarification/3/0"])
    body: Mapping[str, Any]
    at: datetime | None

    @classmethod
    def of(cls, entry: Entry) -> EntryView:
        return cls(number=entry.number, step=entry.step, kind=entry.kind, key=entry.key, body=entry.body, at=entry.at)


class EntryPage(BaseModel):
    items: list[EntryView]
    next: str | None = Field(None, description="`cursor` of the next page; null: these were the last ones so far")


class RunView(BaseModel):
    """What the run says of itself; no texts."""

    loop_id: str
    doing: str = Field(examples=["thinking"])
    step: int
    input_tokens: int
    output_tokens: int
    tools: list[str] = Field(default_factory=list[str], description="those that run now")
    clarification_id: str | None = Field(None, description="of the question that it waits with")

    @classmethod
    def of(cls, loop_id: str, status: LoopStatus) -> RunView:
        return cls(
            loop_id=loop_id,
            doing=status.doing,
            step=status.progress.step,
            input_tokens=status.progress.input_tokens,
            output_tokens=status.progress.output_tokens,
            tools=list(status.tools),
            clarification_id=status.clarification,
        )


class Said(BaseModel):
    """A person's words to a loop."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"text": "I mean the suppliers in Italy."}]})

    text: str = Field(description="at most 16 KiB")


class Stop(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "asked for the wrong thing"}]})

    reason: str = Field("", description="kept with the loop, at most 16 KiB")


class SideAnswer(BaseModel):
    loop_id: str
    answer: str
