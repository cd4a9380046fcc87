"""A recorded message as the index sees it: its own words, a little of what was said around it, who, when and on what medium.

An answer often holds none of the words of its question, so a message also has the terms of its neighbours at a fraction of their
weight, the name of who speaks, and the day. Neighbours are messages of the same conversation (same place, medium and people), as
long as no silence lies between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from memory.model.event import ASSISTANT_ID, USER_ID, MessageEvent
from memory.model.ids import short_hash
from memory.model.lexical import Bag, add, document_terms
from memory.model.lexical_bm25 import Weights, document_weights
from memory.model.lexical_dates import date_terms
from memory.model.window import StoredEvent

BEFORE: Final = (0.5, 0.3, 0.15)
AFTER: Final = (0.3, 0.2, 0.1)
"""Weights of the neighbours' terms, nearest first."""
LOOK_AROUND: Final = 24
"""Events before and after that are looked through for neighbours: other conversations may run in between."""
USUAL_LENGTH: Final = 30.0
"""Terms of a usual message with its context."""
LONG: Final = 40.0
"""Terms beyond which a message has enough of its own: it takes and gives less context."""
STRETCH: Final = timedelta(hours=3)
"""A longer silence ends a stretch of conversation."""
EMBEDDED: Final = "embedded"

INDEXES: Final = {"sender": "keyword", "people": "keyword", "medium": "keyword", "at": "float", "seq": "integer"}
"""Payload fields by which messages are filtered. None holds a user's text or an address."""


@dataclass(frozen=True, slots=True)
class Message:
    """``own``: terms of the message, its speaker and its day; what is counted for document frequencies. ``given``: what its
    neighbours get of it. ``share``: how much of a neighbour's context a message of this length takes and gives."""

    seq: int
    at: datetime
    conversation: tuple[object, ...]
    spoken: str = field(repr=False)
    """Who says what: the text that is embedded. A name in it counts for much with small models."""
    own: Bag = field(repr=False)
    given: Bag = field(repr=False)
    share: float
    payload: Mapping[str, Any]

    @classmethod
    def of(cls, stored: StoredEvent, names: Mapping[str, str]) -> Message | None:
        """None for what is not searched: calls of managers, messages without text. ``names``: by sender id."""
        event = stored.event
        if not isinstance(event, MessageEvent) or event.is_empty:
            return None
        text = event.content or ""
        people = sorted({event.sender_id, *event.receiver_ids})
        given = document_terms(text)
        speaker = speaker_of(event.sender_id, names)
        if speaker:
            add(given, _speaker_terms(speaker))
        own = dict(given)
        add(own, date_terms(event.timestamp))
        medium = medium_key(event.medium)
        return cls(
            seq=stored.seq,
            at=event.timestamp,
            conversation=(stored.space_id, medium, tuple(people) if event.receiver_ids else ()),
            spoken=f"{speaker}: {text}" if speaker else text,
            own=own,
            given=given,
            share=min(1.0, LONG / max(1.0, sum(given.values()))),
            payload={
                "seq": stored.seq,
                "sender": person_key(event.sender_id),
                "people": [person_key(person) for person in people],
                "medium": medium,
                "at": event.timestamp.timestamp(),
            },
        )


def speaker_of(sender_id: str, names: Mapping[str, str]) -> str:
    """The contact's name; else the id, which often is one (of an address the part before the host)."""
    if sender_id in names:
        return names[sender_id]
    return "" if sender_id in (USER_ID, ASSISTANT_ID) else sender_id.partition("@")[0]


@lru_cache(maxsize=1_000)
def _speaker_terms(speaker: str) -> Mapping[int, float]:
    return document_terms(speaker)


@lru_cache(maxsize=10_000)
def person_key(sender_id: str) -> str:
    """What a payload holds of a sender's or receiver's id."""
    return short_hash(sender_id)


@lru_cache(maxsize=1_000)
def medium_key(medium: str) -> str:
    return short_hash(medium.casefold())


def neighbours(messages: Sequence[Message], place: int) -> Sequence[tuple[int, float]]:
    """(place, weight) of the messages around one. ``messages``: by seq."""
    found: list[tuple[int, float]] = []
    for step, weights in ((-1, BEFORE), (1, AFTER)):
        one, left = messages[place], list(weights)
        near = place + step
        while left and 0 <= near < len(messages) and abs(messages[near].seq - messages[place].seq) <= LOOK_AROUND:
            other = messages[near]
            if other.conversation == one.conversation:
                if abs(other.at - one.at) > STRETCH:
                    break
                found.append((near, left.pop(0)))
                one = other
            near += step
    return found


def weights_in_context(messages: Sequence[Message], place: int) -> Weights:
    """The document vector of a message."""
    one = messages[place]
    bag: Bag = dict(one.own)
    for near, weight in neighbours(messages, place):
        add(bag, messages[near].given, weight * one.share * messages[near].share)
    return document_weights(bag, usual_length=USUAL_LENGTH)
