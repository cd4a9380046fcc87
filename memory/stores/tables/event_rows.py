"""Events as rows and back. A row's content is cleaned and bounded here, so that every database takes it."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from sqlalchemy import Connection
from sqlalchemy.engine import RowMapping

from memory.model.errors import InvalidInput
from memory.model.event import Event, ManagerMethodEvent, MessageEvent, Phase, clean_message
from memory.model.ids import decode_segment, encode_segment
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.model.window import StoredEvent
from memory.stores.tables.columns import escape_id, to_utc, unescape_id

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_EVENTS = 1000
"""At most this many events in one call."""
MAX_PAYLOAD_BYTES = 1024 * 1024
"""Of a manager call's request or answer as JSON."""
_MAX_DEPTH = 100

_COLUMNS = (
    *("tenant", "user_id", "seq", "event_key", "event_id_long", "kind", "timestamp", "sender_id", "receiver_ids", "medium"),
    *("content", "payload", "manager", "method", "phase", "calling_id", "space_id", "recorded_at"),
)


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
    own["event_key"] = key
    own["event_id_long"] = event.event_id if "=h" in key else None
    own["kind"] = event.kind
    own["timestamp"] = to_utc(event.timestamp, what="time of the event")
    return own


def insert_events(
    connection: Connection, scope: Scope, rows: Sequence[Mapping[str, Any]], *, first_seq: int, space_id: str, now: datetime
) -> bool:
    """Write rows of :func:`event_rows` with these numbers. False: an id is there already; the caller then takes all of it back.

    In the driver's own form: the values are checked already, and a statement's processing of values costs more than the write.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    tenant, user = scope.tenant, scope.user
    recorded_at, space = driver_moment(now, is_sqlite=is_sqlite), escape_id(space_id)
    receivers: dict[tuple[str, ...], str] = {}
    people: dict[str, str] = {}

    def escaped(raw: str) -> str:
        if raw not in people:
            people[raw] = escape_id(raw)
        return people[raw]

    def message(seq: int, row: Mapping[str, Any]) -> tuple[Any, ...]:
        long, to = row["event_id_long"], tuple(row["receiver_ids"])
        if to not in receivers:
            receivers[to] = json.dumps(to)
        at = driver_moment(row["timestamp"], is_sqlite=is_sqlite)
        own = (tenant, user, seq, row["event_key"], None if long is None else escape_id(long), "message", at)
        said = (escaped(row["sender_id"]), receivers[to], row["medium"], row["content"])
        return (*own, *said, None, None, None, None, None, space, recorded_at)

    def call(seq: int, row: Mapping[str, Any]) -> tuple[Any, ...]:
        long = row["event_id_long"]
        at = driver_moment(row["timestamp"], is_sqlite=is_sqlite)
        own = (tenant, user, seq, row["event_key"], None if long is None else escape_id(long), row["kind"], at)
        done = (json.dumps(row["payload"]), row["manager"], row["method"], row["phase"], escape_id(row["calling_id"]))
        return (*own, None, None, None, None, *done, space, recorded_at)

    values = [(message if row["kind"] == "message" else call)(seq, row) for seq, row in enumerate(rows, first_seq)]
    if is_sqlite:
        return sqlite_driver(connection).executemany(_INSERT_SQLITE, values).rowcount == len(rows)
    inserted = connection.exec_driver_sql(_INSERT_POSTGRES, values, execution_options={"preserve_rowcount": True})
    return inserted.rowcount == len(rows)


def driver_moment(at: datetime, *, is_sqlite: bool) -> Any:
    """A time in UTC as the driver takes it, and as SQLAlchemy would give it."""
    return at.isoformat(" ", "microseconds")[:26] if is_sqlite else at


def sqlite_driver(connection: Connection) -> sqlite3.Connection:
    """The connection below, within the same transaction."""
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


def _insert(placeholder: str) -> str:
    marks = ", ".join([placeholder] * len(_COLUMNS))
    columns = ", ".join(f'"{name}"' for name in _COLUMNS)
    return f"INSERT INTO events ({columns}) VALUES ({marks}) ON CONFLICT (tenant, user_id, event_key) DO NOTHING"  # noqa: S608 - names of ours


_INSERT_SQLITE, _INSERT_POSTGRES = _insert("?"), _insert("%s")


def stored_events(rows: Iterable[Mapping[str, Any] | RowMapping]) -> list[StoredEvent]:
    return [
        _made(
            StoredEvent,
            {"seq": row["seq"], "event": _event(row), "space_id": row["space_id"] or "default", "recorded_at": row["recorded_at"]},
        )
        for row in rows
    ]


def _event(row: Mapping[str, Any] | RowMapping) -> Event:
    # Not validated again: it was when it was recorded, and a rule that has become stricter must not strand old events.
    event_id = row["event_id_long"] or decode_segment(row["event_key"])
    if row["kind"] == "message":
        values: dict[str, Any] = {
            "kind": "message",
            "timestamp": row["timestamp"],
            "sender_id": row["sender_id"],
            "receiver_ids": tuple(row["receiver_ids"] or ()),
            "medium": row["medium"],
            "content": row["content"],
            "event_id": event_id,
        }
        return _made(MessageEvent, values)
    values = {
        "kind": "manager_method",
        "timestamp": row["timestamp"],
        "manager": row["manager"],
        "method": row["method"],
        "phase": Phase(row["phase"]),
        "calling_id": row["calling_id"],
        "payload": row["payload"] or {},
        "event_id": event_id,
    }
    return _made(ManagerMethodEvent, values)


def _made(model: type[ModelT], values: dict[str, Any]) -> ModelT:
    """As ``model_construct`` with all fields, in the way of pickle: a fifth of the time, and windows are read several times."""
    made = model.__new__(model)
    made.__setstate__(
        {"__dict__": values, "__pydantic_fields_set__": set(values), "__pydantic_extra__": None, "__pydantic_private__": None}
    )
    return made


def chunk_json(rows: Sequence[Mapping[str, Any]], space_id: str = "default") -> list[dict[str, Any]]:
    """The rows of a chunk in JSON form."""
    return [{**row, "timestamp": row["timestamp"].isoformat(), "space_id": escape_id(space_id)} for row in rows]


def chunk_events(stored: Sequence[Mapping[str, Any]], recorded_at: datetime) -> list[StoredEvent]:
    """The events of a chunk; ``seq`` is the place in it, from 1."""
    return stored_events(
        {
            **row,
            "timestamp": datetime.fromisoformat(row["timestamp"]),
            "seq": number,
            "space_id": unescape_id(row.get("space_id") or "default"),
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
