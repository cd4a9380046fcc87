"""Files of events: JSON Lines as ``record_events`` takes them, and conversations in the shape of the LoCoMo data set.

A line of JSON Lines is one event: a message (``timestamp`` with a zone, ``sender_id``, ``receiver_ids``, ``medium``, ``content``)
or a manager call (``timestamp``, ``manager``, ``method``, ``phase``, ``calling_id``, ``payload``); ``event_id`` may be left out.
The ``.jsonl`` file beside the conversations is shipped; its name is the file's stem.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, cast

from dateutil import parser as dates
from pydantic import TypeAdapter, ValidationError

from memory.model.errors import InvalidInput
from memory.model.event import Event, ManagerMethodEvent, MessageEvent
from memory.model.ids import MAX_ID_CHARS
from memory.model.turn import MAX_MESSAGE_BYTES

MAX_FILE_BYTES: Final = 128 * 1024 * 1024
MAX_EVENTS: Final = 100_000
SHIPPED_EVENTS: Final = "events-office"
TURN_GAP: Final = timedelta(seconds=20)
"""Between two turns of a LoCoMo session, of which only the beginning is known."""

AnyEvent = MessageEvent | ManagerMethodEvent

_EVENT: Final[TypeAdapter[AnyEvent]] = TypeAdapter(Event)
_SESSION: Final = re.compile(r"session_(\d{1,6})")


@dataclass(frozen=True, slots=True)
class EventStream:
    """Events of one user's log, in the order of the file. ``name``: of the conversation within its file, or of the file."""

    name: str
    shape: Literal["events", "locomo"]
    events: tuple[AnyEvent, ...] = field(repr=False)

    @property
    def senders(self) -> tuple[str, ...]:
        """Who writes in it, each once, in order."""
        return tuple(dict.fromkeys(event.sender_id for event in self.events if isinstance(event, MessageEvent)))

    @property
    def media(self) -> Mapping[str, int]:
        """Messages by medium."""
        counts: dict[str, int] = {}
        for event in self.events:
            if isinstance(event, MessageEvent):
                counts[event.medium] = counts.get(event.medium, 0) + 1
        return counts


def load_events(source: str, *, sample: str | None = None, stdin: BinaryIO | None = None) -> EventStream:
    """Read and check one stream of events.

    Args:
        source: the name of the shipped one, a path, or ``-`` for standard input.
        sample: which conversation of a LoCoMo file, by its ``sample_id`` or number from 1; None: the only one.
        stdin: read for ``-``; the process's own by default.

    Raises:
        InvalidInput: one line that names the file and, where it can, the line and the field. Holds nothing of what was said.
    """
    name, data = _read(source, stdin)
    streams = parse_events(data, name=name)
    if sample is None:
        if len(streams) == 1:
            return streams[0]
        raise InvalidInput(f"{name}: holds {len(streams)} conversations; choose one with --sample: {_names(streams)}")
    for number, stream in enumerate(streams, start=1):
        if sample in (stream.name, str(number)):
            return stream
    raise InvalidInput(f"{name}: there is no conversation {ascii(sample)[:60]}; there are {_names(streams)}")


def parse_events(data: bytes, *, name: str) -> tuple[EventStream, ...]:
    """All streams of a file: one of JSON Lines, one or more of LoCoMo. ``name`` stands for the file in errors.

    Raises InvalidInput as :func:`load_events`.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: is not UTF-8 (byte {error.start})") from None
    if not text.strip():
        raise InvalidInput(f"{name}: is empty")
    whole = _as_conversations(text, name)
    streams = _locomo(whole, name) if whole is not None else (EventStream(name, "events", tuple(_lines(text, name))),)
    if not all(stream.events for stream in streams):
        raise InvalidInput(f"{name}: there is no event in it")
    return streams


# ------------------------------------------------------------------------------------------------------------------ reading


def _read(source: str, stdin: BinaryIO | None) -> tuple[str, bytes]:
    if source == "-":
        return "standard input", _bounded((stdin or sys.stdin.buffer).read(MAX_FILE_BYTES + 1), "standard input")
    if source == SHIPPED_EVENTS:
        return source, (resources.files("starter.conversations") / f"{SHIPPED_EVENTS}.jsonl").read_bytes()
    name = source if source and source.isprintable() else ascii(source)
    try:
        with Path(source).open("rb") as file:
            return name, _bounded(file.read(MAX_FILE_BYTES + 1), name)
    except FileNotFoundError:
        near = difflib.get_close_matches(source, [SHIPPED_EVENTS], n=1)
        hint = f"did you mean {near[0]}?" if near else f"the shipped one is {SHIPPED_EVENTS}"
        raise InvalidInput(f"{name}: there is no such file; {hint}") from None
    except IsADirectoryError:
        raise InvalidInput(f"{name}: is a folder, not a file of events") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{name}: cannot be read: {reason}") from None


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(f"{name}: is larger than {MAX_FILE_BYTES // 2**20} MiB")
    return data


class _NotJson(ValueError):
    pass


def _no_constant(name: str) -> Any:
    raise _NotJson(f"{name} is not JSON")


def _names(streams: Sequence[EventStream]) -> str:
    shown = ", ".join(stream.name for stream in streams[:20])
    return shown + (f", … ({len(streams)} in all)" if len(streams) > 20 else "")


# --------------------------------------------------------------------------------------------------------------- JSON Lines


def _lines(text: str, name: str) -> Iterator[AnyEvent]:
    count = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        count += 1
        if count > MAX_EVENTS:
            raise InvalidInput(f"{name}: line {number}: more than {MAX_EVENTS} events; split the file")
        yield _event(line, f"{name}: line {number}")


def _event(line: str, where: str) -> AnyEvent:
    try:
        raw: object = json.loads(line, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{where}: is not JSON: {error.msg} (column {error.colno})") from None
    except (RecursionError, ValueError) as error:
        detail = str(error) if isinstance(error, _NotJson) else "nested too deeply or with a number that is too long"
        raise InvalidInput(f"{where}: is not JSON: {detail}") from None
    if not isinstance(raw, dict):
        raise InvalidInput(f"{where}: must be an object with the fields of an event")
    fields = cast(dict[str, Any], raw)
    kind = "manager_method" if "manager" in fields else "message"
    try:
        event = _EVENT.validate_python({"kind": kind, **fields})
    except ValidationError as error:
        raise InvalidInput(f"{where}: {_explain(error)}") from None
    if isinstance(event, MessageEvent) and len((event.content or "").encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
        raise InvalidInput(f"{where}: 'content': is longer than {MAX_MESSAGE_BYTES} bytes of UTF-8")
    return event


def _explain(error: ValidationError) -> str:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    # An id that cannot be made since another field is wrong is no fault of its own.
    errors = [one for one in errors if one["type"] != "default_factory_not_called"] or errors
    first = errors[0]
    # The first part of the place is the kind of event, which the file need not even name.
    place = [str(part)[:40] for part in first["loc"] if part not in ("message", "manager_method")]
    match first["type"]:
        case "missing":
            said = "is missing"
        case "extra_forbidden":
            said = "is not a field of an event"
        case "timezone_aware":
            said = "needs a time zone, such as 2026-06-17T12:00:00+02:00"
        case "union_tag_invalid":
            said, place = "must be message or manager_method", ["kind"]
        case _:
            said = first["msg"].removeprefix("Value error, ")
            said = "should" + said.removeprefix("Input should") if said.startswith("Input should") else said
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{'.'.join(place)!r}: {said}{more}" if place else f"{said}{more}"


# ------------------------------------------------------------------------------------------------------------------- LoCoMo


def _as_conversations(text: str, name: str) -> list[Mapping[str, Any]] | None:
    """The conversations of a LoCoMo file; None for what begins as anything else."""
    start = len(text) - len(text.lstrip())
    try:
        first, end = json.JSONDecoder().raw_decode(text, start)
    except (RecursionError, ValueError) as error:
        if text[start] != "[":
            return None
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput(f"{name}: is not JSON{where}") from None
    if isinstance(first, list):
        samples = cast(list[object], first)
        if not samples or not all(_is_conversation(sample) for sample in samples):
            raise InvalidInput(f"{name}: is a list, but not of conversations; events stand one a line, each an object")
    elif _is_conversation(first):
        samples = [first]
    else:
        return None
    if text[end:].strip():
        raise InvalidInput(f"{name}: there is more behind the conversation")
    return cast(list[Mapping[str, Any]], samples)


def _is_conversation(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    fields = cast(dict[str, object], value)
    inner = fields.get("conversation", fields)
    return isinstance(inner, dict) and any(_SESSION.fullmatch(key) for key in cast(dict[str, object], inner))


def _locomo(samples: Sequence[Mapping[str, Any]], name: str) -> tuple[EventStream, ...]:
    streams: list[EventStream] = []
    for number, sample in enumerate(samples, start=1):
        given = sample.get("sample_id")
        sample_id = given if isinstance(given, str) and given and given.isprintable() else f"conversation-{number}"
        events = tuple(_dialogue(sample.get("conversation", sample), f"{name}: {sample_id[:60]}", sample_id))
        streams.append(EventStream(sample_id[:MAX_ID_CHARS], "locomo", events))
    if sum(len(stream.events) for stream in streams) > MAX_EVENTS:
        raise InvalidInput(f"{name}: more than {MAX_EVENTS} turns; split the file")
    return tuple(streams)


def _dialogue(conversation: Mapping[str, Any], where: str, sample_id: str) -> Iterator[MessageEvent]:
    """Messages of all sessions, oldest first. Who is not the speaker is the receiver."""
    found = [(int(match[1]), key) for key in conversation if (match := _SESSION.fullmatch(key))]
    speakers = [str(conversation[key]) for key in ("speaker_a", "speaker_b") if isinstance(conversation.get(key), str)]
    for number, key in sorted(found):
        place = f"{where}: {key}"
        turns = conversation[key]
        if not isinstance(turns, list):
            raise InvalidInput(f"{place}: must be a list of turns")
        begins = _session_time(conversation.get(f"{key}_date_time"), place)
        for index, turn in enumerate(cast(list[object], turns)):
            if not isinstance(turn, dict):
                raise InvalidInput(f"{place}: turn {index + 1}: must be an object")
            fields = cast(dict[str, Any], turn)
            speaker = fields.get("speaker")
            try:
                yield MessageEvent(
                    event_id=f"{sample_id}-{fields.get('dia_id') or f'{number}:{index + 1}'}"[:MAX_ID_CHARS],
                    timestamp=begins + index * TURN_GAP,
                    sender_id=cast(str, speaker),
                    receiver_ids=tuple(other for other in speakers if other != speaker),
                    medium="chat",
                    content=_said(fields),
                )
            except ValidationError as error:
                raise InvalidInput(f"{place}: turn {index + 1}: {_explain(error)}") from None


def _session_time(written: object, place: str) -> datetime:
    """``1:56 pm on 8 May, 2023``; the zone is not known and taken as UTC."""
    if not isinstance(written, str) or not written.strip():
        raise InvalidInput(f"{place}: there is no {place.rsplit(' ', 1)[-1]}_date_time")
    try:
        moment = dates.parse(written[:100], fuzzy=True, default=datetime(2000, 1, 1))  # noqa: DTZ001 - the zone is set below
    except (ValueError, OverflowError):
        raise InvalidInput(f"{place}: its date_time is not a date and time such as 1:56 pm on 8 May, 2023") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _said(turn: Mapping[str, Any]) -> str:
    """The words of a turn; a picture counts with what it shows."""
    text, caption = (turn.get(key) for key in ("text", "blip_caption"))
    parts = [text.strip()] if isinstance(text, str) and text.strip() else []
    if isinstance(caption, str) and caption.strip():
        parts.append(f"[image: {caption.strip()}]")
    return " ".join(parts)
