"""Events as rows and back. A row's content is cleaned and bounded here, so that every database takes it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy.engine import RowMapping

from memory.model.errors import InvalidInput
from memory.model.event import Event, ManagerMethodEvent, MessageEvent, Phase, clean_message
from memory.model.ids import decode_segment, encode_segment
from memory.model.transcript import clean_text
from memory.model.window import StoredEvent
from memory.stores.tables.columns import to_utc

MAX_EVENTS = 1000
"""At most this many events in one call."""
MAX_PAYLOAD_BYTES = 1024 * 1024
"""Of a manager call's request or answer as JSON."""
_MAX_DEPTH = 100

_NOTHING: dict[str, Any] = {
    "event_id_long": None,
    "sender_id": None,
    "receiver_ids": None,
    "medium": None,
    "content": None,
    "payload": None,
    "turn_key": None,
    "manager": None,
    "method": None,
    "phase": None,
    "calling_id": None,
}
"""The columns that not every kind of event fills: the rows of one statement all have the same ones."""


def event_rows(events: Sequence[MessageEvent | ManagerMethodEvent]) -> list[dict[str, Any]]:
    """The rows of these events without owner, number and time of recording.

    Left out: messages that say nothing, calls of the memory itself.

    Raises:
        InvalidInput: more than 1,000 events; a content or a payload over 1 MiB; a payload that is not JSON; a time without a zone.
    """
    if len(events) > MAX_EVENTS:
        raise InvalidInput(f"{len(events)} events in one call; at most {MAX_EVENTS} are accepted")
    made = (_event_row(event, number) for number, event in enumerate(events, 1))
    return [row for row in made if row is not None]


def _event_row(event: MessageEvent | ManagerMethodEvent, number: int) -> dict[str, Any] | None:
    if isinstance(event, MessageEvent):
        content = clean_message(event.content, sender=f"number {number}")
        if content is None or not content or content.isspace():
            return None
        own: dict[str, Any] = {
            "sender_id": event.sender_id,
            "receiver_ids": list(event.receiver_ids),
            "medium": clean_text(event.medium),
            "content": content,
        }
    elif event.is_own:
        return None
    else:
        own = {
            "manager": clean_text(event.manager),
            "method": clean_text(event.method),
            "phase": event.phase.value,
            "calling_id": event.calling_id,
            "payload": _clean_payload(event.payload, number),
        }
    key = encode_segment(event.event_id, what="event id")
    return {
        **_NOTHING,
        "event_key": key,
        "event_id_long": event.event_id if "=h" in key else None,
        "kind": event.kind,
        "timestamp": to_utc(event.timestamp, what="time of the event"),
        **own,
    }


def stored_events(rows: Iterable[Mapping[str, Any] | RowMapping]) -> list[StoredEvent]:
    return [
        StoredEvent.model_construct(
            seq=row["seq"], event=_event(row), space_id=row["space_id"] or "default", recorded_at=row["recorded_at"]
        )
        for row in rows
    ]


def _event(row: Mapping[str, Any] | RowMapping) -> Event:
    # Not validated again: it was when it was recorded, and a rule that has become stricter must not strand old events.
    event_id = row["event_id_long"] or decode_segment(row["event_key"])
    if row["kind"] == "message":
        return MessageEvent.model_construct(
            timestamp=row["timestamp"],
            sender_id=row["sender_id"],
            receiver_ids=tuple(row["receiver_ids"] or ()),
            medium=row["medium"],
            content=row["content"],
            event_id=event_id,
        )
    return ManagerMethodEvent.model_construct(
        timestamp=row["timestamp"],
        manager=row["manager"],
        method=row["method"],
        phase=Phase(row["phase"]),
        calling_id=row["calling_id"],
        payload=row["payload"] or {},
        event_id=event_id,
    )


def chunk_json(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a chunk in JSON form."""
    return [{**row, "timestamp": row["timestamp"].isoformat()} for row in rows]


def chunk_events(stored: Sequence[Mapping[str, Any]], recorded_at: datetime) -> list[StoredEvent]:
    """The events of a chunk; ``seq`` is the place in it, from 1."""
    return stored_events(
        {
            **_NOTHING,
            **row,
            "timestamp": datetime.fromisoformat(row["timestamp"]),
            "seq": number,
            "space_id": None,
            "recorded_at": recorded_at,
        }
        for number, row in enumerate(stored, 1)
    )


def _clean_payload(payload: Mapping[str, Any], number: int) -> dict[str, Any]:
    try:
        cleaned = clean_json(payload)
        size = len(json.dumps(cleaned, ensure_ascii=False).encode("utf-8"))
    except ValueError as error:
        raise InvalidInput(f"the payload of event number {number} is not JSON: {error}") from None
    if size > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            f"the payload of event number {number} has {size} bytes of JSON; at most {MAX_PAYLOAD_BYTES} are accepted"
        )
    return cleaned


def clean_json(value: Any, *, depth: int = 0) -> Any:
    """The value as every database takes it: strings and keys cleaned, times as text, NaN and infinities as null.

    Raises ValueError, with no content in it, for what JSON cannot hold.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"more than {_MAX_DEPTH} levels deep")
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {clean_text(str(key)): clean_json(item, depth=depth + 1) for key, item in pairs}
    if isinstance(value, list | tuple):
        return [clean_json(item, depth=depth + 1) for item in cast("Sequence[Any]", value)]
    if isinstance(value, datetime):
        return value.isoformat()
    raise ValueError(f"it holds a {type(value).__name__}")
