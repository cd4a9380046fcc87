"""What happened outside of turns, as it comes in and as it is found again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictBool, Tag

from api.routing import Best, ContactId, Id, Moment, Words
from api.schemas.base import Given, Shown, example
from memory.model.event import MessageEvent, Phase
from memory.model.routing import Store
from memory.model.window import StoredEvent
from starter.given import MAX_EVENTS
from starter.records import MAX_NEIGHBOURS
from starter.views import EventsReceipt, ReceiptStatus


class MessageGiven(Given):
    """One message on any channel."""

    kind: Literal["message"] = "message"
    timestamp: Moment = Field(description="when it was sent")
    sender_id: Id = Field(description="`user`, `assistant`, or the id of anybody else", examples=["user"])
    receiver_ids: list[Id] = Field(default_factory=list[str], max_length=1_000)
    medium: Annotated[str, Field(min_length=1, max_length=64)] = "chat"
    content: str | None = None
    event_id: Id | None = Field(default=None, description="made from the other fields when it is not given")


class ManagerMethodGiven(Given):
    """One call of one of the orchestrator's managers, when it comes in or when its answer goes out."""

    kind: Literal["manager_method"] = "manager_method"
    timestamp: Moment
    manager: Annotated[str, Field(min_length=1, max_length=200)]
    method: Annotated[str, Field(min_length=1, max_length=200)]
    phase: Phase
    calling_id: Id
    payload: dict[str, Any] = Field(default_factory=dict[str, Any])
    event_id: Id | None = Field(default=None, description="made from the other fields when it is not given")


def _kind(given: Any) -> str:
    if isinstance(given, dict):
        return str(given.get("kind", "manager_method" if "manager" in given else "message"))[:40]  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    return str(getattr(given, "kind", "message"))


EventGiven = Annotated[
    Annotated[MessageGiven, Tag("message")] | Annotated[ManagerMethodGiven, Tag("manager_method")], Discriminator(_kind)
]


class EventsGiven(Given):
    """What happened, in this order. The same events again are recognised."""

    events: Annotated[list[EventGiven], Field(min_length=1, max_length=MAX_EVENTS)]
    space_id: Id = Field(default="default", description="where it happened; its settings say what may be learned")
    allow_user_memory: StrictBool = Field(default=False, description="the user's consent; nothing is recorded without it")

    model_config = example(
        {
            "allow_user_memory": True,
            "events": [
                {
                    "timestamp": "2026-06-17T12:00:00+00:00",
                    "sender_id": "ada@example.com",
                    "receiver_ids": ["user"],
                    "medium": "email",
                    "content": "Please send me the offer by Friday.",
                }
            ],
        }
    )


class EventsReceiptView(Shown):
    """What became of a batch of events."""

    status: ReceiptStatus
    reason: str | None
    reasons: list[str]
    started: bool
    recorded: int = Field(description="new ones")
    duplicates: int = Field(description="whose ids were there")
    dropped: int = Field(description="messages without content, calls of the memory itself")
    waiting: int = Field(description="events of the user that no window has consumed yet")

    @classmethod
    def of(cls, receipt: EventsReceipt) -> EventsReceiptView:
        return cls(
            status=receipt.status,
            reason=receipt.reason,
            reasons=list(receipt.reasons),
            started=receipt.started,
            recorded=receipt.recorded,
            duplicates=receipt.duplicates,
            dropped=receipt.dropped,
            waiting=receipt.waiting,
        )


class ContentGiven(Given):
    content: Annotated[str, Field(max_length=100_000, examples=["First open the form, then fill in the date."])]


class RouteView(Shown):
    """Which store a piece of content belongs to. `write_path`: what puts it there."""

    store: Store
    reason: str
    write_path: str


class EventsSearchGiven(Given):
    """`contacts`: only messages from or to one of these, by contact id or sender id."""

    query: Words
    contacts: Annotated[list[ContactId | Id], Field(max_length=100)] | None = None
    media: Annotated[list[Annotated[str, Field(min_length=1, max_length=64)]], Field(max_length=20)] | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Best = 10
    neighbours: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS, description="messages before and after each")] = 1

    model_config = example({"query": "the offer for Globex", "media": ["email"]})


class EventView(Shown):
    """A message, or a manager call (`manager`, `method`, `phase`, `calling_id`)."""

    seq: int = Field(description="its number in the user's log")
    event_id: str
    kind: str = Field(examples=["message"])
    timestamp: datetime
    sender_id: str | None = None
    receiver_ids: list[str] = Field(default_factory=list[str])
    medium: str | None = None
    content: str | None = None
    manager: str | None = None
    method: str | None = None
    phase: str | None = None
    calling_id: str | None = None
    space_id: str

    @classmethod
    def of(cls, stored: StoredEvent) -> EventView:
        told = stored.event.model_dump(exclude={"payload", "receiver_ids"})
        receivers = list(stored.event.receiver_ids) if isinstance(stored.event, MessageEvent) else []
        return cls(seq=stored.seq, space_id=stored.space_id, receiver_ids=receivers, **told)


class FoundEventView(Shown):
    """`before`, `after`: what was said around it. `score`: only for comparing within one answer."""

    event: EventView
    before: list[EventView]
    after: list[EventView]
    score: float
    why: str = Field(examples=["hybrid"])


class FoundEvents(Shown):
    """Best first."""

    items: list[FoundEventView]
