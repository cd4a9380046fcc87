"""Fields of a task as a caller gives them, made into those of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from memory.model.errors import InvalidInput
from memory.model.near_duplicate import statement_key
from memory.model.redaction import redact
from memory.model.task import TaskPriority, TaskStatus
from memory.model.transcript import clean_text
from memory.model.words import key_words

FIELDS: Final = ("name", "description", "status", "priority", "deadline", "schedule", "tags", "contact_id")
MAX_TAGS: Final = 50
MAX_TAG_CHARS: Final = 60
_EMPTY: Final[Mapping[str, Any]] = {"description": "", "tags": (), "deadline": None, "schedule": None, "contact_id": None}


def task_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """As :class:`memory.ports.UpdateTask` takes them. Raises InvalidInput that names the field and what it takes."""
    if not given:
        raise InvalidInput(f"name at least one field to be set: {', '.join(FIELDS)}")
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise InvalidInput(f"a task has no field {ascii(unknown[0])[:40]}; there are {', '.join(FIELDS)}")
    values: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            if name not in _EMPTY:
                raise InvalidInput(f"the {name} of a task cannot be empty")
            values[name] = _EMPTY[name]
        else:
            values[name] = _READ[name](value)
    if "name" in values:
        values["key"] = statement_key(values["name"])
    return values


def _name(value: Any) -> str:
    text = " ".join(_text(value, "name").split())
    if not key_words(text):
        raise InvalidInput("the name of a task says what is to be done")
    return text


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"the {what} of a task is text, not {type(value).__name__}")
    return redact(clean_text(value)).text


def _status(value: Any) -> TaskStatus:
    try:
        return TaskStatus(value)
    except ValueError:
        raise InvalidInput(f"the status of a task is one of {', '.join(TaskStatus)}") from None


def _priority(value: Any) -> TaskPriority:
    try:
        return TaskPriority(value)
    except ValueError:
        raise InvalidInput(f"the priority of a task is one of {', '.join(TaskPriority)}") from None


def _deadline(value: Any) -> datetime:
    said = "the deadline of a task is a time with a zone, for instance 2026-06-30T17:00:00+02:00"
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidInput(said) from None
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidInput(said)
    return moment


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise InvalidInput("the tags of a task are a list of short words")
    words = [" ".join(_text(tag, "tag").split()) for tag in value]  # pyright: ignore[reportUnknownVariableType]
    if len(words) > MAX_TAGS or any(len(word) > MAX_TAG_CHARS for word in words):
        raise InvalidInput(f"a task has at most {MAX_TAGS} tags, each of at most {MAX_TAG_CHARS} characters")
    return tuple(dict.fromkeys(word for word in words if word))


def _contact_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidInput("the contact_id of a task is a whole number from 0 on")
    return value


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": _name,
    "description": lambda value: _text(value, "description"),
    "status": _status,
    "priority": _priority,
    "deadline": _deadline,
    "schedule": lambda value: _text(value, "schedule"),
    "tags": _tags,
    "contact_id": _contact_id,
}
