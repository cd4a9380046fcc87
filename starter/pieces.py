"""What a caller hands over to be recorded: one finished turn, or a batch of events. Both take the same way through the recorder."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self, cast

from pydantic import TypeAdapter

from memory.model.directory import MemoryFacts
from memory.model.event import Event, ManagerMethodEvent, MessageEvent, clean_message
from memory.model.ids import short_hash
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.model.turn import Turn
from memory.ports import EventLog
from starter.views import EventsReceipt, Receipt, ReceiptStatus

_EVENTS: TypeAdapter[tuple[MessageEvent | ManagerMethodEvent, ...]] = TypeAdapter(tuple[Event, ...])

Allowed = Callable[[MemoryFacts], bool]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the event log says. ``turn_ids``: turns that a run should be told of. ``added``: events that were new."""

    receipt: Receipt
    refused_by: MemoryFacts | None = None
    turn_ids: tuple[str, ...] = ()
    waiting: int = 0
    added: int = 0


class Piece(ABC):
    """``name``: for logs, an id of the caller's or a hash. ``chars``: of all its text."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def chars(self) -> int: ...

    @property
    @abstractmethod
    def allow_user_memory(self) -> bool: ...

    @property
    @abstractmethod
    def web_search(self) -> bool | None: ...

    @abstractmethod
    def checked(self) -> Self:
        """As a store can take it. Raises InvalidInput for a text that is too long."""

    @abstractmethod
    def redacted(self) -> Self:
        """Without secrets; of a checked piece. Takes its time."""

    @abstractmethod
    async def store(self, log: EventLog, scope: Scope, *, now: datetime, allowed: Allowed) -> Stored:
        """Raises what the event log raises."""

    @abstractmethod
    def receipt(self, status: ReceiptStatus, **fields: Any) -> Receipt:
        """A receipt of this kind of piece."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """For the spool; :func:`piece_of_json` reads it."""


@dataclass(frozen=True, slots=True)
class TurnPiece(Piece):
    turn: Turn = field(repr=False)

    @property
    def name(self) -> str:
        return f"turn {ascii(self.turn.turn_id)[:80]}"

    @property
    def chars(self) -> int:
        return len(self.turn.user_text or "") + len(self.turn.assistant_text or "")

    @property
    def allow_user_memory(self) -> bool:
        return self.turn.allow_user_memory

    @property
    def web_search(self) -> bool | None:
        return self.turn.web_search

    def checked(self) -> Self:
        return self._with(lambda text, sender: clean_message(text, sender=sender))

    def redacted(self) -> Self:
        return self._with(lambda text, _: redact(text).text)

    def _with(self, change: Callable[[str, str], str | None]) -> Self:
        sides = {"user_text": (self.turn.user_text, "user"), "assistant_text": (self.turn.assistant_text, "assistant")}
        changed = {name: None if text is None else change(text, sender) for name, (text, sender) in sides.items()}
        return replace(self, turn=self.turn.model_copy(update=changed))

    async def store(self, log: EventLog, scope: Scope, *, now: datetime, allowed: Allowed) -> Stored:
        done = await log.record_turn(scope, self.turn, now=now, allowed=allowed)
        status = ReceiptStatus.DUPLICATE if done.duplicate else ReceiptStatus.RECORDED
        receipt = Receipt(status, ordinal=done.ordinal)
        if done.outcome is not None:
            receipt = replace(receipt, reason=f"finished already: {done.outcome}", started=True)
        turn_ids = () if done.outcome is not None else (self.turn.turn_id,)
        return Stored(receipt, done.refused_by, turn_ids, done.waiting, 0 if done.duplicate else 2)

    def receipt(self, status: ReceiptStatus, **fields: Any) -> Receipt:
        return Receipt(status, **fields)

    def to_json(self) -> dict[str, Any]:
        turn = self.turn.model_dump()
        turn["occurred_at"] = self.turn.occurred_at.isoformat()
        return {"turn": turn}


@dataclass(frozen=True, slots=True)
class EventsPiece(Piece):
    events: tuple[MessageEvent | ManagerMethodEvent, ...] = field(repr=False)
    space_id: str = "default"
    consent: bool = False

    @property
    def name(self) -> str:
        if not self.events:
            return "no events"
        return f"{len(self.events)} events from {short_hash(self.events[0].event_id)}"

    @property
    def chars(self) -> int:
        return sum(
            len(event.content or "") if isinstance(event, MessageEvent) else len(str(event.payload)) for event in self.events
        )

    @property
    def allow_user_memory(self) -> bool:
        return self.consent

    @property
    def web_search(self) -> bool | None:
        # A web search is a matter of a turn; what is recorded here was not searched for.
        return False

    def checked(self) -> Self:
        def clean(event: MessageEvent | ManagerMethodEvent) -> MessageEvent | ManagerMethodEvent:
            if isinstance(event, MessageEvent):
                return event.model_copy(update={"content": clean_message(event.content, sender="event's")})
            return event.model_copy(update={"payload": _each_text(event.payload, clean_text)})

        return replace(self, events=tuple(clean(event) for event in self.events))

    def redacted(self) -> Self:
        def clean(event: MessageEvent | ManagerMethodEvent) -> MessageEvent | ManagerMethodEvent:
            if isinstance(event, MessageEvent):
                return event if event.content is None else event.model_copy(update={"content": redact(event.content).text})
            return event.model_copy(update={"payload": _each_text(event.payload, lambda text: redact(text).text)})

        return replace(self, events=tuple(clean(event) for event in self.events))

    async def store(self, log: EventLog, scope: Scope, *, now: datetime, allowed: Allowed) -> Stored:
        done = await log.record_events(scope, self.events, space_id=self.space_id, now=now, allowed=allowed)
        status = ReceiptStatus.RECORDED if done.recorded or not done.duplicates else ReceiptStatus.DUPLICATE
        receipt = EventsReceipt(
            status,
            started=True,
            recorded=done.recorded,
            duplicates=done.duplicates,
            dropped=done.dropped,
            waiting=done.waiting,
        )
        return Stored(receipt, done.refused_by, (), done.waiting, done.recorded)

    def receipt(self, status: ReceiptStatus, **fields: Any) -> Receipt:
        return EventsReceipt(status, **fields)

    def to_json(self) -> dict[str, Any]:
        events = json.loads(_EVENTS.dump_json(self.events, ensure_ascii=True))
        return {"events": events, "space_id": self.space_id, "consent": self.consent}


def piece_of_json(content: Mapping[str, Any]) -> Piece:
    """Raises KeyError, TypeError or ValidationError for what is not the JSON of a piece."""
    if "events" in content:
        return EventsPiece(_EVENTS.validate_python(content["events"]), str(content["space_id"]), content["consent"] is True)
    return TurnPiece(Turn.model_validate(content["turn"]))


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """JSON with every text in it changed, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(key)): _each_text(inner, change) for key, inner in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_each_text(inner, change) for inner in cast(list[Any], value)]
    return value
