"""Turns and events as a caller hands them over: models, or mappings of their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from memory.model.errors import InvalidInput
from memory.model.event import Event, ManagerMethodEvent, MessageEvent
from memory.model.turn import Turn

MAX_EVENTS = 1_000

_EVENT: TypeAdapter[MessageEvent | ManagerMethodEvent] = TypeAdapter(Event)


def turn_of(turn: Turn | Mapping[str, Any]) -> Turn:
    """Without ``occurred_at`` it is now. Raises InvalidInput that names the fields, never their values."""
    if isinstance(turn, Turn):
        return turn
    try:
        return Turn.model_validate({"occurred_at": datetime.now(UTC), **turn})
    except ValidationError as error:
        raise InvalidInput(f"the turn is not valid: {_problems(error)}") from None
    except TypeError:
        raise InvalidInput(f"a turn is a Turn or a mapping of its fields, not {type(turn).__name__}") from None


def events_of(
    events: Sequence[MessageEvent | ManagerMethodEvent | Mapping[str, Any]],
) -> tuple[MessageEvent | ManagerMethodEvent, ...]:
    """At most 1,000. Raises InvalidInput that names the event and its fields, never their values."""
    if isinstance(events, str | bytes | Mapping) or not isinstance(events, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"events are a list of events, not {type(events).__name__}")
    if len(events) > MAX_EVENTS:
        raise InvalidInput(f"{len(events)} events in one call; at most {MAX_EVENTS} are accepted")
    checked: list[MessageEvent | ManagerMethodEvent] = []
    for place, event in enumerate(events, 1):
        if isinstance(event, MessageEvent | ManagerMethodEvent):
            checked.append(event)
            continue
        try:
            kind = "manager_method" if "manager" in event else "message"
            checked.append(_EVENT.validate_python({"kind": kind, **event}))
        except ValidationError as error:
            raise InvalidInput(f"event {place} is not valid: {_problems(error)}") from None
        except TypeError:
            raise InvalidInput(f"event {place} is neither an event nor a mapping of its fields") from None
    return tuple(checked)


def _problems(error: ValidationError) -> str:
    """What is wrong with which field, without the values."""
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(str(part)[:40] for part in item['loc']) or 'it'}: {item['msg']}" for item in problems[:5])
