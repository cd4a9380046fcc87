"""Searching recorded messages: who is named counts more, filters hold in the vector store, what is shown comes from the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from memory.model.contact import Contact
from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, MessageEvent
from memory.model.lexical import name_words
from memory.model.lexical_dates import query_date_terms
from memory.model.lexical_languages import DEFAULT, stop_words
from memory.model.owner import View
from memory.model.scope import Scope
from memory.model.window import StoredEvent
from memory.ports import ContactStore, Filter, WindowLedger
from memory.retrieval.fusion import Candidate
from memory.retrieval.hybrid import Asked, Hybrid, Waiting
from memory.retrieval.messages import medium_key, person_key

NAMED_FACTOR: Final = 1.7
"""For messages of the one person whom the query names. Never a filter: others speak of that person too."""
DEPTH: Final = 300
"""Candidates by words and by meaning. Messages are many and alike, and the right one is often far down on either side."""
MAX_NAMESAKES: Final = 3
MAX_CONTACTS: Final = 500
"""Contacts whose names a query is searched for."""
MAX_LIMIT: Final = 100
MAX_NEIGHBOURS: Final = 10
_SPARE: Final = 10
"""Candidates beyond the limit, for messages that are gone from the log."""
_SYSTEM_IDS: Final = {0: ASSISTANT_ID, 1: USER_ID}


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """A message, with what was said right before and after it. ``score``: only for comparing within one answer. ``why``:
    ``hybrid``, ``lexical`` (no embedder), ``lexical, embedder away`` (it failed)."""

    event: StoredEvent = field(repr=False)
    score: float
    before: tuple[StoredEvent, ...] = field(default=(), repr=False)
    after: tuple[StoredEvent, ...] = field(default=(), repr=False)
    why: str = "hybrid"


class EventSearch:
    def __init__(self, ledger: WindowLedger, contacts: ContactStore, hybrid: Hybrid) -> None:
        self._ledger = ledger
        self._contacts = contacts
        self._hybrid = hybrid

    @staticmethod
    def check(limit: int, neighbours: int) -> None:
        """Raises InvalidInput for a bound out of its range."""
        if not 1 <= limit <= MAX_LIMIT:
            raise InvalidInput(f"the limit must be 1 to {MAX_LIMIT}, not {limit}")
        if not 0 <= neighbours <= MAX_NEIGHBOURS:
            raise InvalidInput(f"neighbours must be 0 to {MAX_NEIGHBOURS}, not {neighbours}")

    async def names_of(self, scope: Scope, events: Sequence[StoredEvent]) -> Mapping[str, str]:
        """Contact names by sender id, of those that are known."""
        senders = {stored.event.sender_id for stored in events if isinstance(stored.event, MessageEvent)}
        known = await self._contacts.by_alias(scope, senders)
        return {sender: contact.name for sender, contact in known.items() if contact.name}

    async def filter(
        self,
        scope: Scope,
        senders: Collection[str] | None,
        contact_ids: Collection[int] | None,
        media: Collection[str] | None,
        since: datetime | None,
        until: datetime | None,
    ) -> Filter:
        any_of: dict[str, Sequence[str | int]] = {}
        ranges: dict[str, tuple[float | None, float | None]] = {}
        if senders is not None or contact_ids is not None:
            people = set(senders or ())
            if contact_ids:
                people.update(*(_ids_of(one) for one in (await self._contacts.get(scope, contact_ids)).values()))
            any_of["people"] = sorted(person_key(person) for person in people)
        if media is not None:
            any_of["medium"] = sorted({medium_key(medium) for medium in media})
        if since is not None or until is not None:
            ranges["at"] = (since.timestamp() if since else None, until.timestamp() if until else None)
        return Filter(any_of, ranges)

    async def find(
        self,
        scope: Scope,
        query: str,
        where: Filter,
        collection: str,
        tail: Sequence[Waiting],
        *,
        limit: int,
        neighbours: int,
    ) -> Sequence[FoundEvent]:
        """Raises StoreUnavailable."""
        if not query.strip() or not all(where.any_of.values()):
            return []
        contacts = await self._contacts.list(scope, limit=MAX_CONTACTS)
        asked = Asked(
            view=View(scope),
            kind="events",
            collection=collection,
            text=query,
            where=where,
            more_terms=query_date_terms(query),
            boosts=boosts(query, contacts),
            waiting=tail,
            depth=DEPTH,
        )
        candidates, dense = await self._hybrid.search(asked)
        why = "hybrid" if dense else "lexical" if self._hybrid.embedder is None else "lexical, embedder away"
        return (await self._read(scope, candidates[: limit + _SPARE], neighbours, why))[:limit]

    async def _read(self, scope: Scope, candidates: Sequence[Candidate], neighbours: int, why: str) -> list[FoundEvent]:
        """From the log, which is the truth: what was deleted there is not shown."""
        places = [int(one.payload["seq"]) for one in candidates]
        wanted = {near for seq in places for near in range(max(1, seq - neighbours), seq + neighbours + 1)}
        stored = {one.seq: one for one in await self._ledger.events_by_seq(scope, wanted)} if wanted else {}
        found: list[FoundEvent] = []
        for one, seq in zip(candidates, places, strict=True):
            event = stored.get(seq)
            if event is None or not _is_message(event):
                continue
            around = [
                [stored.get(near) for near in steps]
                for steps in (range(seq - neighbours, seq), range(seq + 1, seq + neighbours + 1))
            ]
            before, after = (tuple(near for near in some if near is not None and _is_message(near)) for some in around)
            found.append(FoundEvent(event, one.score, before, after, why))
        return found


def boosts(query: str, contacts: Sequence[Contact]) -> tuple[tuple[str, str, float], ...]:
    """Where the query names one of the people (or a few of the same name): what that one said counts more."""
    words = name_words(query)
    matched: dict[frozenset[str], list[Contact]] = {}
    for contact in contacts:
        names = _name_words(contact) & words
        if names:
            matched.setdefault(frozenset(names), []).append(contact)
    # "Ann Miller" is not also the Ann whose surname is another.
    longest = [names for names in matched if not any(names < other for other in matched)]
    if len(longest) != 1 or len(matched[longest[0]]) > MAX_NAMESAKES:
        return ()
    people = sorted({person for contact in matched[longest[0]] for person in _ids_of(contact)})
    return tuple(("sender", person_key(person), NAMED_FACTOR) for person in people)


def _name_words(contact: Contact) -> frozenset[str]:
    """A contact without a name is called by the sender ids that look like one."""
    named = (contact.first_name, contact.surname) if contact.name else tuple(one for one in contact.aliases if one.isalpha())
    common = stop_words(DEFAULT)
    return frozenset(word for part in named if part for word in name_words(part) if len(word) > 1 and word not in common)


def _ids_of(contact: Contact) -> set[str]:
    """Under which a contact may appear as sender or receiver."""
    fields = (contact.email_address, contact.phone_number, contact.whatsapp_number, str(contact.contact_id))
    system = _SYSTEM_IDS.get(contact.contact_id)
    return {*contact.aliases, *(value for value in (*fields, system) if value)}


def _is_message(stored: StoredEvent) -> bool:
    return isinstance(stored.event, MessageEvent) and not stored.event.is_empty
