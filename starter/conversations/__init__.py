"""Conversation files: the JSON that ``afterturn demo`` plays. The format is described in ``docs/conversation-format.md``.

The ``.json`` files beside this module are the shipped conversations; their names are the files' stems.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, ValidationError, field_validator

from memory.model.errors import InvalidInput
from memory.model.ids import MAX_ID_CHARS
from memory.model.turn import MAX_MESSAGE_BYTES

FORMAT = "afterturn-conversation/1"
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TURNS = 10_000
DEFAULT_CONVERSATION = "product-manager"


def _iso(value: object) -> object:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a text such as 2026-06-17T12:00:00+02:00")
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("is not a date and time of ISO 8601 such as 2026-06-17T12:00:00+02:00") from None


def _message(value: object) -> object:
    if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
        raise ValueError(f"is longer than {MAX_MESSAGE_BYTES} bytes of UTF-8")
    return value


Instant = Annotated[datetime, BeforeValidator(_iso)]
Message = Annotated[StrictStr | None, BeforeValidator(_message)]
OutsideId = Annotated[StrictStr, Field(min_length=1, max_length=MAX_ID_CHARS)]


class ConversationTurn(BaseModel):
    """One exchange. ``expect`` is what a careful reader would decide; it is compared and never sent anywhere.

    ``secrets``: texts of this turn that must never be found in the profile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: OutsideId | None = None
    at: Instant
    user: Message = Field(default=None, repr=False)
    assistant: Message = Field(default=None, repr=False)
    expect: Literal["update", "noop"] | None = None
    secrets: tuple[Annotated[StrictStr, Field(min_length=4)], ...] = Field(default=(), repr=False)


class Conversation(BaseModel):
    """A whole file. After loading every turn has an id and a time with a zone."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    format: Literal["afterturn-conversation/1"]
    title: Annotated[StrictStr, Field(min_length=1, max_length=200)]
    tenant: OutsideId = "demo"
    user: OutsideId = "me"
    timezone: StrictStr | None = None
    turns: Annotated[tuple[ConversationTurn, ...], Field(min_length=1, max_length=MAX_TURNS)]

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        if value is not None:
            _zone(value)
        return value

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for turn in self.turns for secret in turn.secrets)


def _zone(name: str | None) -> tzinfo:
    if name is None or name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not a time zone that this machine knows, such as Europe/Lisbon") from None


@cache
def shipped_conversations() -> Mapping[str, str]:
    """Names and titles of the conversations that come with the program."""
    folder = resources.files(__name__)
    names = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    return {name: load_conversation(name).title for name in names}


def load_conversation(source: str, stdin: BinaryIO | None = None) -> Conversation:
    """Read and check a conversation.

    Args:
        source: the name of a shipped one, a path, or ``-`` for standard input.
        stdin: read for ``-``; the process's own by default.

    Raises:
        InvalidInput: one line that names the file and, where it can, the turn and the field. Holds nothing of what was said.
    """
    name, data = _read(source, stdin)
    return parse_conversation(data, name=name)


def parse_conversation(data: bytes, *, name: str) -> Conversation:
    """Like :func:`load_conversation`, from bytes; ``name`` stands for the file in errors."""
    raw = _json(data, name)
    try:
        conversation = Conversation.model_validate(raw)
    except ValidationError as error:
        raise InvalidInput(_explain(error, name, raw)) from None
    return _complete(conversation, name)


def _read(source: str, stdin: BinaryIO | None) -> tuple[str, bytes]:
    if source == "-":
        data = (stdin or sys.stdin.buffer).read(MAX_FILE_BYTES + 1)
        return "standard input", _bounded(data, "standard input")
    inside = resources.files(__name__) / f"{source}.json"
    if source and not set(source) & set("/\\.\0") and inside.is_file():
        return source, inside.read_bytes()
    name = source if source and source.isprintable() else repr(source)
    try:
        with Path(source).open("rb") as file:
            return name, _bounded(file.read(MAX_FILE_BYTES + 1), name)
    except FileNotFoundError:
        raise InvalidInput(_not_found(name)) from None
    except IsADirectoryError:
        raise InvalidInput(f"{name}: is a folder, not a conversation file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{name}: cannot be read: {reason}") from None


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(f"{name}: is larger than {MAX_FILE_BYTES // 2**20} MiB")
    return data


def _not_found(source: str) -> str:
    names = [entry.name.removesuffix(".json") for entry in resources.files(__name__).iterdir() if entry.name.endswith(".json")]
    near = difflib.get_close_matches(source, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"shipped ones are {', '.join(sorted(names))}"
    return f"{source}: there is no such file and no shipped conversation of that name; {hint}"


class _DuplicateKey(ValueError):
    pass


def _no_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(next(key for key in keys if keys.count(key) > 1))
    return out


def _json(data: bytes, name: str) -> object:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name}: is not UTF-8 (byte {error.start})") from None
    if not text.strip():
        raise InvalidInput(f"{name}: is empty")
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{name}: is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except _DuplicateKey as error:
        raise InvalidInput(f"{name}: the key {str(error)[:40]!r} is there twice in one object") from None
    except (RecursionError, ValueError):
        raise InvalidInput(f"{name}: is not a conversation: nested too deeply or with a number that is too long") from None


def _explain(error: ValidationError, name: str, raw: object) -> str:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    # A turn that fails is not counted, so one bad turn alone is reported as "too few turns" as well.
    errors = [e for e in errors if e["loc"] != ("turns",)] or errors
    first = errors[0]
    loc = list(first["loc"])
    where = name
    if len(loc) >= 2 and loc[0] == "turns" and isinstance(loc[1], int):
        where += f": turn {loc[1] + 1}{_turn_id(raw, loc[1])}"
        loc = loc[2:]
    if loc:
        where += f": {str(loc[0])[:40]!r}"
    message = _message_of(first["type"], first["msg"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where}: {message}{more}"


def _message_of(kind: str, message: str) -> str:
    match kind:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is not a field of this format"
        case "model_type" | "model_attributes_type":
            return "must be an object"
        case "string_type":
            return "must be a text"
        case "tuple_type":
            return "must be a list"
        case "too_short":
            return "is empty"
        case _:
            text = message.removeprefix("Value error, ")
            return text if not text.startswith("Input should") else "should" + text.removeprefix("Input should")


def _turn_id(raw: object, index: int) -> str:
    """The id that the file itself gives the turn, for people who look for it."""
    try:
        turn_id = cast(Any, raw)["turns"][index]["id"]
    except (KeyError, IndexError, TypeError):
        return ""
    return f" (id {turn_id[:40]})" if isinstance(turn_id, str) and turn_id and turn_id.isprintable() else ""


def _complete(conversation: Conversation, name: str) -> Conversation:
    """Ids and zones filled in; what only the whole file shows is checked."""
    zone = _zone(conversation.timezone)
    turns: list[ConversationTurn] = []
    seen: dict[str, int] = {}
    previous: datetime | None = None
    for number, turn in enumerate(conversation.turns, start=1):
        turn_id = turn.id or f"turn-{number:04d}"
        where = f"{name}: turn {number}{f' (id {turn.id[:40]})' if turn.id and turn.id.isprintable() else ''}"
        if turn_id in seen:
            raise InvalidInput(f"{where}: 'id': is the id of turn {seen[turn_id]} already")
        seen[turn_id] = number
        try:
            at = turn.at if turn.at.utcoffset() is not None else turn.at.replace(tzinfo=zone)
            at.astimezone(UTC)
        except OverflowError:
            raise InvalidInput(f"{where}: 'at': is out of range") from None
        if previous is not None and at < previous:
            raise InvalidInput(f"{where}: 'at': is before the turn above it")
        previous = at
        said = f"{turn.user or ''}\n{turn.assistant or ''}"
        if any(secret not in said for secret in turn.secrets):
            raise InvalidInput(f"{where}: 'secrets': names a text that nobody says in this turn")
        turns.append(turn.model_copy(update={"id": turn_id, "at": at}))
    return conversation.model_copy(update={"turns": tuple(turns)})
