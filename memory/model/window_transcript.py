"""The transcript of a window: one line an event, in order. The same for prompts, tests and the person who looks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError

from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, Event, ManagerMethodEvent, MessageEvent
from memory.model.transcript import clean_text, defuse, presentable, stamp
from memory.model.turn import MAX_MESSAGE_BYTES
from memory.model.window import StoredEvent

TRANSCRIPT_BYTES: Final = 128 * 1024
"""All texts together. Where they would be more, the longest are shortened, all to the same length."""
LINE_BYTES: Final = 16 * 1024
"""Of one text."""
MIN_LINE_BYTES: Final = 400
MAX_RECEIVERS: Final = 12
"""Shown by name; the others are counted."""
MAX_TRANSCRIPT_CHARS: Final = 2 * MAX_MESSAGE_BYTES

_SPACE = re.compile(r"\s+")
_HIDDEN_KEYS = re.compile(
    r"(?:^|_)(?:row_?ids?|event_?ids?|calling_?ids?|log_?ids?|uuid|id|ts|timestamps?|time_?stamps?|created_at|updated_at"
    r"|types?|event_?type)$",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""Keys of a manager call that say nothing to a reader. ``contact_id`` and ``task_id`` do: they stay."""
_KEPT_KEYS = frozenset({"contact_id", "contact_ids", "task_id", "task_ids", "fact_id"})
_AT = r"(?P<at>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?(?:\s?UTC|Z)?)"
_SPEAKER = re.compile(
    rf"(?:\[?{_AT}\]?[ \t]{{0,4}}[|:-]?[ \t]{{0,4}}|\[?\d{{1,2}}:\d{{2}}(?::\d{{2}})?\]?[ \t]{{1,4}}(?:[-–|][ \t]{{0,4}})?)?"
    r"(?P<who>[^:：|\n]{1,80}?)[ \t]{0,4}(?:\((?P<medium>[\w -]{1,30})\))?[ \t]{0,4}(?::[ \t]|：)\s*(?P<text>\S.*)"
)
_RENDERED = re.compile(
    rf"\[\d{{1,6}}\] {_AT} \| (?P<who>[^|]{{1,300}}?) → (?P<to>[^|]{{1,2000}}?) \| (?P<medium>[^|]{{1,64}}?) \| (?P<text>.*)"
)
_RENDERED_CALL = re.compile(rf"\[\d{{1,6}}\] {_AT} \| (?P<call>\{{.*\}})")
_EVENT: Final[TypeAdapter[MessageEvent | ManagerMethodEvent]] = TypeAdapter(Event)
_USER_NAMES = frozenset({"user", "me", "ich", "benutzer", "nutzer", "用户", "我"})
_ASSISTANT_NAMES = frozenset({"assistant", "ai", "bot", "assistent", "assistentin", "助手"})


def render_transcript(events: Sequence[StoredEvent], names: Mapping[str, str], *, total_bytes: int = TRANSCRIPT_BYTES) -> str:
    """The lines of these events, numbered from 1.

    Args:
        events: in order.
        names: contact names by sender id; who is not in it is shown by id.
        total_bytes: long messages are shortened in the middle so that all lines fit roughly.
    """
    return "\n".join(transcript_lines(events, names, total_bytes=total_bytes))


def transcript_lines(events: Sequence[StoredEvent], names: Mapping[str, str], *, total_bytes: int = TRANSCRIPT_BYTES) -> list[str]:
    """As :func:`render_transcript`, line by line."""
    limit = _limit([_size(stored) for stored in events], total_bytes)
    return [f"[{number}] {_line(stored, names, limit)}" for number, stored in enumerate(events, 1)]


def _limit(sizes: Sequence[int], total_bytes: int) -> int:
    """The length to which the longest texts are shortened so that all of them fit: short ones leave their room to the others."""
    room = total_bytes
    for place, size in enumerate(ordered := sorted(sizes)):
        share = room // (len(ordered) - place)
        if size > share:
            return max(MIN_LINE_BYTES, min(LINE_BYTES, share))
        room -= size
    return LINE_BYTES


def _line(stored: StoredEvent, names: Mapping[str, str], limit: int) -> str:
    event = stored.event
    if isinstance(event, ManagerMethodEvent):
        return f"{stamp(event.timestamp)} | {manager_json(event, limit)}"
    sender = _person(event.sender_id, names)
    receivers = ", ".join(_person(receiver, names) for receiver in event.receiver_ids[:MAX_RECEIVERS]) or "-"
    if (more := len(event.receiver_ids) - MAX_RECEIVERS) > 0:
        receivers += f", +{more}"
    text = defuse(_one_line(presentable(event.content or "", limit)))
    return f"{stamp(event.timestamp)} | {sender} → {receivers} | {_cell(event.medium)} | {text}"


def manager_json(event: ManagerMethodEvent, limit: int = LINE_BYTES) -> str:
    """A manager call as one-line JSON, without row ids, event ids, calling ids, type and time stamps."""
    what = "request" if event.phase.value == "incoming" else "answer"
    content = {"manager": event.manager, "method": event.method, "phase": event.phase.value, what: _told(event.payload)}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=str)
    return defuse(_one_line(presentable(text, limit)))


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        found = cast(dict[str, Any], value)
        return {key: _told(inner) for key, inner in found.items() if not _is_hidden(key)}
    if isinstance(value, list):
        return [_told(inner) for inner in cast(list[Any], value)]
    return value


def _is_hidden(key: str) -> bool:
    plain = _HUMP.sub("_", key).casefold()
    return plain not in _KEPT_KEYS and _HIDDEN_KEYS.search(plain) is not None


def _person(sender_id: str, names: Mapping[str, str]) -> str:
    return _cell(names.get(sender_id) or sender_id)


@lru_cache(maxsize=1_000)
def _cell(text: str) -> str:
    """Text that stands between the bars of a line and cannot pass for one."""
    plain = defuse(_one_line(presentable(text, 200)))
    return plain.replace("|", "¦").replace("→", "->").strip() or "-"


def _one_line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _size(stored: StoredEvent) -> int:
    event = stored.event
    text = (event.content or "") if isinstance(event, MessageEvent) else str(event.payload)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def events_from_transcript(text: str, *, now: datetime | None = None) -> list[MessageEvent | ManagerMethodEvent]:
    """Events of a transcript that somebody hands in. Each line is in one of three forms:

    * ``name: text``. ``user`` and ``assistant`` (and their German and Chinese names) are the two themselves; a time may stand
      before the name (``2026-06-17 12:00 Ada: …``) and a medium behind it (``Ada (email): …``),
    * as :func:`render_transcript` writes it, manager calls too,
    * an event as JSON, as ``record_events`` takes it.

    A line in none of them goes on with the message before.

    Raises:
        InvalidInput: empty, too long, or an event in JSON that is none; names the line, never its text.
    """
    if len(text) > MAX_TRANSCRIPT_CHARS:
        raise InvalidInput(f"the transcript has {len(text)} characters; at most {MAX_TRANSCRIPT_CHARS} are accepted")
    moment = now or datetime.now(UTC)
    found: list[dict[str, Any]] = []
    for number, line in enumerate(clean_text(text).splitlines(), 1):
        plain = line.strip()
        if not plain:
            continue
        fields = _read_line(plain, number, moment)
        if fields is not None:
            found.append(fields)
        elif found and "content" in found[-1]:
            found[-1]["content"] = f"{found[-1]['content'] or ''}\n{plain}"
        else:
            found.append({**_message(USER_ID, moment), "content": plain})
    if not found:
        raise InvalidInput("the transcript is empty")
    # Numbered, since the same words may be said twice at one time.
    return [_EVENT.validate_python({"event_id": f"line-{place}", **fields}) for place, fields in enumerate(found, 1)]


def _read_line(line: str, number: int, now: datetime) -> dict[str, Any] | None:
    if line.startswith("{"):
        return _read_json(line, number)
    if row := _RENDERED.fullmatch(line):
        receivers = tuple(_sender(name.strip()) for name in row["to"].split(",") if name.strip() not in ("", "-"))
        sender = _sender(row["who"].strip())
        fields = _message(sender, _moment(row["at"], now), medium=row["medium"].strip() or "transcript", content=row["text"])
        return {**fields, "receiver_ids": receivers}
    if row := _RENDERED_CALL.fullmatch(line):
        return _read_call(row["call"], number, _moment(row["at"], now))
    if row := _SPEAKER.fullmatch(line):
        moment = _moment(row["at"], now)
        return _message(_sender(row["who"].strip()), moment, medium=row["medium"] or "transcript", content=row["text"])
    return None


def _message(sender: str, at: datetime, *, medium: str = "transcript", content: str | None = None) -> dict[str, Any]:
    return {
        "kind": "message",
        "timestamp": at,
        "sender_id": sender,
        "receiver_ids": (USER_ID if sender == ASSISTANT_ID else ASSISTANT_ID,),
        "medium": medium,
        "content": content,
    }


def _read_json(line: str, number: int) -> dict[str, Any] | None:
    given = _object(line)
    if given is None or not ({"sender_id", "manager"} & given.keys()):
        return None
    given = {"kind": "manager_method" if "manager" in given else "message", **given}
    try:
        event = _EVENT.validate_python(given)
    except ValidationError as error:
        where = ", ".join(str(one["loc"][-1]) for one in error.errors(include_input=False, include_url=False)[:3] if one["loc"])
        raise InvalidInput(f"line {number} of the transcript is no event: {where}") from None
    return event.model_dump(exclude={"event_id"} if "event_id" not in given else None)


def _read_call(call: str, number: int, at: datetime) -> dict[str, Any] | None:
    given = _object(call)
    if given is None or not {"manager", "method"} <= given.keys():
        return None
    payload = given.get("request", given.get("answer"))
    return {
        "kind": "manager_method",
        "timestamp": at,
        "manager": str(given["manager"])[:200],
        "method": str(given["method"])[:200],
        "phase": "outgoing" if given.get("phase") == "outgoing" else "incoming",
        "calling_id": f"line-{number}",
        "payload": payload if isinstance(payload, dict) else {},
    }


def _object(text: str) -> dict[str, Any] | None:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def _sender(who: str) -> str:
    folded = who.casefold()
    if not who or folded in _USER_NAMES:
        return USER_ID
    return ASSISTANT_ID if folded in _ASSISTANT_NAMES else who


def _moment(written: str | None, now: datetime) -> datetime:
    if written is None:
        return now
    try:
        return datetime.fromisoformat(written.removesuffix("UTC").strip().removesuffix("Z").replace(" ", "T")).replace(tzinfo=UTC)
    except ValueError:
        return now
