"""The transcript of a window: one line an event, in order. The same for prompts, tests and the person who looks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, ManagerMethodEvent, MessageEvent
from memory.model.transcript import defuse, presentable, stamp
from memory.model.turn import MAX_MESSAGE_BYTES
from memory.model.window import StoredEvent

TRANSCRIPT_BYTES: Final = 128 * 1024
"""All texts together. Where they would be more, the longest are shortened, all to the same length."""
LINE_BYTES: Final = 16 * 1024
"""Of one text."""
MIN_LINE_BYTES: Final = 400
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
_SPEAKER = re.compile(
    r"(?:\[?(?P<at>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?(?:\s?UTC|Z)?)\]?\s*[|:-]?\s*)?"
    r"(?P<who>[^:|\n]{1,80}?)\s*(?:\((?P<medium>[\w -]{1,30})\))?\s*[:：]\s+(?P<text>.+)"
)
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
    receivers = ", ".join(_person(receiver, names) for receiver in event.receiver_ids) or "-"
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


def events_from_transcript(text: str, *, now: datetime | None = None) -> list[MessageEvent]:
    """Messages of a plain transcript: ``name: text``, a line each; a line without a name goes on with the message before.

    ``user`` and ``assistant`` (and their German and Chinese names) are the two themselves; a time may stand before the name
    (``2026-06-17 12:00 Ada: …``) and a medium behind it (``Ada (email): …``).

    Raises:
        InvalidInput: empty, or too long.
    """
    if len(text) > MAX_TRANSCRIPT_CHARS:
        raise InvalidInput(f"the transcript has {len(text)} characters; at most {MAX_TRANSCRIPT_CHARS} are accepted")
    moment = now or datetime.now(UTC)
    messages: list[dict[str, Any]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        found = _SPEAKER.fullmatch(line.strip())
        if found is None and messages:
            messages[-1]["content"] += f"\n{line.strip()}"
            continue
        who = found["who"].strip() if found else USER_ID
        sender = _sender(who)
        messages.append(
            {
                "timestamp": _moment(found["at"] if found else None, moment),
                "sender_id": sender,
                "receiver_ids": (USER_ID if sender == ASSISTANT_ID else ASSISTANT_ID,),
                "medium": (found["medium"] if found else None) or "transcript",
                "content": found["text"] if found else line.strip(),
            }
        )
    if not messages:
        raise InvalidInput("the transcript is empty")
    # Numbered, since the same words may be said twice at one time.
    return [MessageEvent(event_id=f"line-{place}", **fields) for place, fields in enumerate(messages, 1)]


def _sender(who: str) -> str:
    folded = who.casefold()
    if folded in _USER_NAMES:
        return USER_ID
    return ASSISTANT_ID if folded in _ASSISTANT_NAMES else who


def _moment(written: str | None, now: datetime) -> datetime:
    if written is None:
        return now
    try:
        return datetime.fromisoformat(written.removesuffix("UTC").strip().removesuffix("Z").replace(" ", "T")).replace(tzinfo=UTC)
    except ValueError:
        return now
