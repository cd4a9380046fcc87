"""The event window: where a log stands, what windows held and gave, transcripts handed in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from api.routing import Id, ItemId
from api.schemas.base import Given, Page, Shown, example
from api.schemas.events import EventGiven, EventView
from memory.model.category import Category
from memory.model.contact import Contact
from memory.model.task import Task
from memory.model.window import CategoryOutcome, Window, WindowKind, WindowState, WindowTrigger
from memory.ports import Progress
from starter.window_report import items_of
from starter.windows import MAX_CHUNK_EVENTS, MAX_GUIDANCE_CHARS, WindowStatus, WindowView

MAX_WAIT_S = 60.0
MAX_TRANSCRIPT_CHARS = 1024 * 1024

WaitS = Annotated[float, Field(ge=0, le=MAX_WAIT_S, description="seconds to wait for it to end; the answer says how far it is")]


class OutcomeView(Shown):
    """What one category gave. `confirmed`: known already. `dropped`: by why they were not taken."""

    category: Category
    state: str = Field(description="`done` or `failed`")
    reason: str | None
    proposed: int
    applied: int
    confirmed: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, outcome: CategoryOutcome) -> OutcomeView:
        return cls(**outcome.model_dump())


class WindowShown(Shown):
    """A run of events that is consolidated once, or a transcript that was handed in (`kind`: `chunk`)."""

    window_id: str = Field(examples=["w3"])
    kind: WindowKind
    trigger: WindowTrigger
    first_seq: int
    last_seq: int
    event_count: int
    state: WindowState = Field(description="`planned`: in work, or waiting to be")
    attempt: int = Field(description="0 at first; each rerun adds one")
    reason: str | None
    categories: list[Category]
    outcomes: list[OutcomeView]
    flags: list[str]
    guidance: str | None
    model: str | None
    usage: dict[str, dict[str, int]] = Field(description="tokens by stage")
    planned_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, window: Window) -> WindowShown:
        return cls(**fields_of(window))


def fields_of(window: Window) -> dict[str, Any]:
    return {
        "window_id": window.window_id,
        "kind": window.kind,
        "trigger": window.trigger,
        "first_seq": window.first_seq,
        "last_seq": window.last_seq,
        "event_count": window.events,
        "state": window.state,
        "attempt": window.attempt,
        "reason": window.reason,
        "categories": list(window.categories),
        "outcomes": [OutcomeView.of(one) for one in window.outcomes],
        "flags": list(window.flags),
        "guidance": window.guidance,
        "model": window.model,
        "usage": window.usage,
        "planned_at": window.planned_at,
        "finished_at": window.finished_at,
    }


class WindowPage(Page[WindowShown]):
    """Windows, newest first."""


class QuoteView(Shown):
    text: str
    seq: int | None = Field(description="the event's number in the user's log")
    event_id: str | None


class ItemView(Shown):
    """What was read from a window, in a line. `reason`: why it was not taken; null: it was."""

    category: Category
    text: str
    quotes: list[QuoteView]
    reason: str | None


class WindowDetail(WindowShown):
    """A window with all it held and gave."""

    transcript: str = Field(description="as the model saw it")
    events: list[EventView]
    items: list[ItemView]
    loops: list[str] = Field(description="ids of the loops that enter what it learned into tables, oldest first")

    @classmethod
    def of_view(cls, view: WindowView, contacts: Sequence[Contact], tasks: Sequence[Task]) -> WindowDetail:
        return cls(
            **fields_of(view.window),
            transcript=view.transcript,
            events=[EventView.of(event) for event in view.events],
            items=[
                ItemView(
                    category=item.category,
                    text=item.text,
                    quotes=[QuoteView(text=one.text, seq=one.seq, event_id=one.event_id) for one in item.quotes],
                    reason=item.reason,
                )
                for item in items_of(view.extraction, contacts, tasks)
            ],
            loops=[loop.loop_id for loop in view.loops],
        )


class ProgressView(Shown):
    """Numbers of events in the user's log."""

    last_seq: int = Field(description="the newest")
    consolidated_seq: int = Field(description="up to here windows have consumed them")
    waiting: int = Field(description="that no window has consumed")
    last_event_at: datetime | None

    @classmethod
    def of(cls, progress: Progress) -> ProgressView:
        return cls(
            last_seq=progress.last_seq,
            consolidated_seq=progress.consolidated_seq,
            waiting=progress.waiting,
            last_event_at=progress.last_event_at,
        )


class WindowsStatus(Shown):
    progress: ProgressView
    size: int = Field(description="events of a full window")
    running: bool | None = Field(description="a run is at work; null: Temporal did not say")
    recent: list[WindowShown]

    @classmethod
    def of(cls, status: WindowStatus) -> WindowsStatus:
        return cls(
            progress=ProgressView.of(status.progress),
            size=status.size,
            running=status.running,
            recent=[WindowShown.of(window) for window in status.recent],
        )


class FlushGiven(Given):
    wait_s: WaitS = 0.0

    model_config = example({"wait_s": 10})


class WindowsRerunGiven(Given):
    """Which windows run again: these, or all in these states."""

    window_ids: Annotated[list[ItemId], Field(min_length=1, max_length=100)] | None = None
    states: Annotated[list[WindowState], Field(min_length=1, max_length=5)] | None = Field(
        default=None, description="default: failed and partial; with ids: whatever has ended"
    )
    limit: Annotated[int, Field(ge=1, le=500)] = 100

    model_config = example({"window_ids": ["w3"]})


class WindowsRerunView(Shown):
    """`windows`: those that run again. `left`: those that were asked for by id and do not."""

    windows: list[WindowShown]
    left: list[WindowShown]
    started: bool = Field(description="the run has been told; if not, the sweeper tells it")


class TranscriptGiven(Given):
    """A transcript, with the settings of the space where it was said."""

    transcript: (
        Annotated[str, Field(min_length=1, max_length=MAX_TRANSCRIPT_CHARS)]
        | Annotated[list[EventGiven], Field(min_length=1, max_length=MAX_CHUNK_EVENTS)]
    ) = Field(description="text with one message a line (`name: text`), or events")
    space_id: Id = "default"
    guidance: Annotated[str, Field(max_length=MAX_GUIDANCE_CHARS)] | None = Field(
        default=None, description="free text for the model: what to look for"
    )
    wait_s: WaitS = 10.0

    model_config = example({"transcript": "Ada: Please send me the offer by Friday.\nuser: I will.", "wait_s": 10})


class ChunkGiven(TranscriptGiven):
    categories: Annotated[list[Category], Field(min_length=1, max_length=6)] | None = Field(
        default=None, description="those wanted; default: those that are on in the space"
    )
    language_model: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="`provider:model`; default: the deployment's"
    )

    model_config = example({"transcript": "Ada: Please send me the offer by Friday.\nuser: I will.", "categories": ["tasks"]})
