"""What happened to a user, as the event log keeps it: messages on any channel and the orchestrator's own manager calls."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from memory.model.errors import InvalidInput
from memory.model.ids import body_hash
from memory.model.transcript import clean_text
from memory.model.turn import MAX_MESSAGE_BYTES, ExternalId, Turn

USER_ID = "user"
"""``sender_id`` of the user whom the log is about."""
ASSISTANT_ID = "assistant"

_MEMORY_MANAGERS = frozenset({"memory", "memorymanager"})
"""Calls of this manager never enter the window: the memory must not feed on itself."""


class Phase(StrEnum):
    INCOMING = "incoming"
    OUTGOING = "outgoing"


def _deterministic_id(fields: Mapping[str, Any]) -> str:
    """The same content gives the same id, so an event without an id is one event however often it arrives."""
    canonical = json.dumps(
        {name: value for name, value in fields.items() if name != "event_id"},
        default=lambda value: value.isoformat(),
        sort_keys=True,
    )
    return f"event-{hashlib.sha256(canonical.encode('ascii')).hexdigest()[:32]}"


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class MessageEvent(_Event):
    """One message. ``timestamp``: when it was sent, with a zone. ``content`` of only white space says nothing."""

    kind: Literal["message"] = "message"
    timestamp: AwareDatetime
    sender_id: ExternalId
    receiver_ids: tuple[ExternalId, ...] = ()
    medium: Annotated[str, Field(min_length=1, max_length=64)] = "chat"
    content: str | None = Field(default=None, repr=False)
    event_id: ExternalId = Field(default_factory=_deterministic_id)
    """Made from the other fields when it is not given."""

    @property
    def is_empty(self) -> bool:
        return not (self.content or "").strip()


class ManagerMethodEvent(_Event):
    """One call of one of the orchestrator's managers, when it comes in or when its answer goes out."""

    kind: Literal["manager_method"] = "manager_method"
    timestamp: AwareDatetime
    manager: Annotated[str, Field(min_length=1, max_length=200)]
    method: Annotated[str, Field(min_length=1, max_length=200)]
    phase: Phase
    calling_id: ExternalId
    payload: dict[str, Any] = Field(default_factory=dict, repr=False)
    """The request (incoming) or the answer (outgoing), as JSON."""
    event_id: ExternalId = Field(default_factory=_deterministic_id)

    @property
    def is_own(self) -> bool:
        """Whether the memory itself was called."""
        return "".join(filter(str.isalpha, self.manager.casefold())) in _MEMORY_MANAGERS


Event = Annotated[MessageEvent | ManagerMethodEvent, Field(discriminator="kind")]


def turn_messages(turn: Turn) -> tuple[MessageEvent, ...]:
    """The message events of a completed turn: the user's and the assistant's, in this order.

    A side that says nothing (None or only white space) makes no event. The ids are made from the turn id alone, so recording the
    same turn again makes the same events. The content is cleaned of what no store can take (NUL, lone surrogates).

    Raises:
        InvalidInput: a message is longer than the log keeps.
    """
    stem = f"turn-{body_hash(turn.turn_id)[:32]}"
    messages: list[MessageEvent] = []
    for sender, receiver, text in ((USER_ID, ASSISTANT_ID, turn.user_text), (ASSISTANT_ID, USER_ID, turn.assistant_text)):
        content = clean_message(text, sender=sender)
        if content is None or not content.strip():
            continue
        messages.append(
            MessageEvent.model_construct(
                timestamp=turn.occurred_at,
                sender_id=sender,
                receiver_ids=(receiver,),
                medium=turn.medium,
                content=content,
                event_id=f"{stem}-{sender}",
            )
        )
    return tuple(messages)


def clean_message(text: str | None, *, sender: str) -> str | None:
    """The text as it is stored. Raises InvalidInput when it is longer than ``MAX_MESSAGE_BYTES``."""
    if text is None:
        return None
    if len(text) * 4 > MAX_MESSAGE_BYTES:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_MESSAGE_BYTES:
            raise InvalidInput(f"the {sender} message has {size} bytes of UTF-8; at most {MAX_MESSAGE_BYTES} are accepted")
    return clean_text(text)
