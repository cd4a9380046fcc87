"""Finding recorded messages again: each is indexed with a little of what was said around it.

An answer often holds none of the words of its question, so a message's terms include those of its neighbours at a fraction of their
weight, the name of who speaks, and the day. A message of somebody whom the query names counts more, but others are never left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from memory.model.contact import Contact
from memory.model.errors import AfterturnError, InvalidInput, StoreUnavailable
from memory.model.event import MessageEvent
from memory.model.ids import short_hash
from memory.model.lexical import Bag, add, document_terms, name_words
from memory.model.lexical_bm25 import document_weights
from memory.model.lexical_dates import date_terms, query_date_terms
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.window import StoredEvent
from memory.ports import CollectionSpec, ContactStore, Filter, Hit, Point, VectorQuery, WindowLedger
from memory.retrieval.documents import Documents, collection_name, lexical_query, point_id, sparse

KIND: Final = "events"
BEFORE: Final = (0.5, 0.3, 0.15)
AFTER: Final = (0.3, 0.2, 0.1)
"""Weights of the neighbours' terms, nearest first."""
REACH: Final = max(len(BEFORE), len(AFTER))
USUAL_LENGTH: Final = 100.0
"""Terms of an average message with its context."""
LONG_TERMS: Final = 60.0
"""A longer message gives its neighbours proportionally less."""
STRETCH: Final = timedelta(hours=6)
"""A longer silence ends a stretch of conversation: what was said before it is no context."""
NAMED_FACTOR: Final = 1.7
BATCH: Final = 200
EMBED_BATCH: Final = 16
MAX_CATCH_UP: Final = 500
"""Messages that a search indexes first; more than that waits for the run."""
MAX_LIMIT: Final = 100
MAX_NEIGHBOURS: Final = 10
MAX_NAMES: Final = 500

_log = structlog.get_logger("afterturn.retrieval")


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """A message, with what was said right before and after it. ``score``: only for comparing within one answer."""

    event: StoredEvent = field(repr=False)
    score: float
    before: tuple[StoredEvent, ...] = field(default=(), repr=False)
    after: tuple[StoredEvent, ...] = field(default=(), repr=False)


class EventIndex:
    """Index and search of one deployment's messages."""

    def __init__(self, ledger: WindowLedger, contacts: ContactStore, documents: Documents) -> None:
        self._ledger = ledger
        self._contacts = contacts
        self._documents = documents
        self._is_ready = False

    def spec(self) -> CollectionSpec:
        embedder = self._documents.embedder
        return CollectionSpec(
            collection_name(KIND),
            embedder.dimension if embedder else None,
            embedder.name if embedder else None,
            {"sender": "keyword", "people": "keyword", "medium": "keyword", "at": "float", "seq": "integer"},
        )

    async def ready(self) -> str:
        """The collection, made on first use. Raises InvalidSettings where it was made for another embedder."""
        spec = self.spec()
        if not self._is_ready:
            await self._documents.index.ensure(spec)
            self._is_ready = True
        return spec.name

    # --------------------------------------------------------------------------------------------------------------- index

    async def index(self, scope: Scope, *, limit: int = 10_000) -> int:
        """Make recorded messages findable by their words, from where the index ends. Returns how many events it went through.

        Safe to repeat and to race: points are replaced by the same ones, and term statistics move together with the number up to
        which events are indexed.
        """
        done = 0
        while done < limit:
            progress = await self._ledger.progress(scope)
            first = progress.indexed_seq + 1
            last = min(progress.last_seq, first + BATCH - 1, first + limit - done - 1)
            if last < first:
                break
            # The last ones of the batch before get their later neighbours now.
            events = await self._ledger.events(scope, max(1, first - 2 * REACH), last)
            analysed = await self._analysed(scope, events)
            rewritten = [place for place, stored in enumerate(events) if stored.seq >= first - REACH]
            await self._write(scope, analysed, rewritten, dense=None)
            own = [one for one in analysed if one.stored.seq >= first and one.is_message]
            frequencies: Counter[int] = Counter()
            for one in own:
                frequencies.update(one.terms.keys())
            length = round(sum(sum(one.terms.values()) for one in own))
            moved = await self._ledger.advance_index(
                scope, from_seq=first - 1, to_seq=last, document_frequencies=frequencies, length=length
            )
            done += last - first + 1
            if not moved:
                break  # another process is at it
        return done

    async def embed(self, scope: Scope, *, limit: int = 10_000) -> int:
        """Give indexed messages their dense vectors, a few at a time. Returns how many events it went through."""
        embedder = self._documents.embedder
        if embedder is None:
            return 0
        done = 0
        while done < limit:
            progress = await self._ledger.progress(scope)
            first = progress.embedded_seq + 1
            last = min(progress.indexed_seq, first + EMBED_BATCH - 1)
            if last < first:
                break
            events = await self._ledger.events(scope, max(1, first - REACH), last + REACH)
            analysed = await self._analysed(scope, events)
            places = [place for place, one in enumerate(analysed) if first <= one.stored.seq <= last and one.is_message]
            vectors = await embedder.passages([f"{analysed[place].speaker}: {analysed[place].text}" for place in places])
            await self._write(scope, analysed, places, dense=dict(zip(places, vectors, strict=True)))
            done += last - first + 1
            if not await self._ledger.advance_embedded(scope, from_seq=first - 1, to_seq=last):
                break
        return done

    async def rewrite(self, scope: Scope, seqs: Sequence[int]) -> None:
        """Write the points of these indexed events again, without touching the term statistics."""
        for start in range(0, len(seqs), EMBED_BATCH):
            some = seqs[start : start + EMBED_BATCH]
            around = {near for seq in some for near in range(max(1, seq - 2 * REACH), seq + 2 * REACH + 1)}
            analysed = await self._analysed(scope, await self._ledger.events_by_seq(scope, around))
            await self._write(scope, analysed, [p for p, one in enumerate(analysed) if one.stored.seq in some], dense=None)

    async def remove(self, scope: Scope, seqs: Collection[int]) -> None:
        """Of events that are gone."""
        owner = Owner.user(scope)
        ids = [point_id(owner, KIND, str(seq)) for seq in seqs]
        if ids:
            await self._documents.index.delete(await self.ready(), ids)

    async def _analysed(self, scope: Scope, events: Sequence[StoredEvent]) -> list[_Analysed]:
        senders = {stored.event.sender_id for stored in events if isinstance(stored.event, MessageEvent)}
        known = await self._contacts.by_alias(scope, senders)
        names = {sender: contact.name for sender, contact in known.items() if contact.name}
        return [_Analysed.of(stored, names) for stored in events]

    async def _write(
        self,
        scope: Scope,
        analysed: Sequence[_Analysed],
        places: Sequence[int],
        *,
        dense: Mapping[int, tuple[float, ...]] | None,
    ) -> None:
        owner = Owner.user(scope)
        wanted = [place for place in places if analysed[place].is_message]
        if not wanted:
            return
        collection = await self.ready()
        if dense is None and self._documents.embedder is not None:
            # A message that is rewritten for its new neighbours keeps the dense vector that it has.
            embedded = (await self._ledger.progress(scope)).embedded_seq
            again = [place for place in wanted if analysed[place].stored.seq <= embedded]
            if again:
                texts = [f"{analysed[place].speaker}: {analysed[place].text}" for place in again]
                vectors = await self._documents.embedder.passages(texts)
                dense = dict(zip(again, vectors, strict=True))
        points = [
            Point(
                point_id=point_id(owner, KIND, str(analysed[place].stored.seq)),
                owner=owner.path,
                sparse=sparse(document_weights(_in_context(analysed, place), usual_length=USUAL_LENGTH)),
                dense=(dense or {}).get(place),
                payload=analysed[place].payload,
            )
            for place in wanted
        ]
        await self._documents.index.upsert(collection, points)

    # -------------------------------------------------------------------------------------------------------------- search

    async def search(
        self,
        scope: Scope,
        query: str,
        *,
        senders: Collection[str] | None = None,
        contact_ids: Collection[int] | None = None,
        media: Collection[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 10,
        neighbours: int = 1,
    ) -> Sequence[FoundEvent]:
        """Messages that fit, best first; one that was recorded a moment ago is found too.

        Args:
            scope: whose log.
            query: any text.
            senders: only messages from or to one of these ids.
            contact_ids: the same by contact.
            media: only on one of these.
            since, until: only said in this time, both inclusive.
            limit: 1 to 100.
            neighbours: so many messages before and after each, 0 to 10.

        Raises:
            InvalidInput: a bound out of its range.
            StoreUnavailable: the database or the vectors are away.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise InvalidInput(f"the limit must be 1 to {MAX_LIMIT}, not {limit}")
        if not 0 <= neighbours <= MAX_NEIGHBOURS:
            raise InvalidInput(f"neighbours must be 0 to {MAX_NEIGHBOURS}, not {neighbours}")
        await self._catch_up(scope)
        view = View(scope)
        words = await lexical_query(self._documents.terms, view, KIND, query, query_date_terms(query))
        dense = await self._documents.embed_query(query)
        if not words.indices and dense is None:
            return []
        contacts = await self._contacts.list(scope, limit=MAX_NAMES)
        hits = await self._documents.index.query(
            await self.ready(),
            VectorQuery(
                owners=tuple(owner.path for owner in view.owners),
                limit=limit,
                sparse=words if words.indices else None,
                dense=dense,
                dense_weight=self._documents.embedder.weight if self._documents.embedder else 0.0,
                filter=self._filter(contacts, senders, contact_ids, media, since, until),
                boosts=_boosts(query, contacts),
            ),
        )
        return await self._read(scope, hits, neighbours)

    async def _catch_up(self, scope: Scope) -> None:
        try:
            await self.index(scope, limit=MAX_CATCH_UP)
        except StoreUnavailable:
            raise
        except AfterturnError as error:
            _log.warning("events_not_indexed", tenant=scope.tenant, user=scope.user, error=error.message)

    def _filter(
        self,
        contacts: Sequence[Contact],
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
            for contact in contacts:
                if contact_ids is not None and contact.contact_id in contact_ids:
                    people |= _ids_of(contact)
            any_of["people"] = sorted(person_key(person) for person in people) or ["-"]
        if media is not None:
            any_of["medium"] = sorted({short_hash(medium.casefold()) for medium in media})
        if since is not None or until is not None:
            ranges["at"] = (since.timestamp() if since else None, until.timestamp() if until else None)
        return Filter(any_of, ranges)

    async def _read(self, scope: Scope, hits: Sequence[Hit], neighbours: int) -> Sequence[FoundEvent]:
        places = [int(hit.payload["seq"]) for hit in hits]
        around = {seq + step for seq in places for step in range(-neighbours, neighbours + 1)}
        stored = {one.seq: one for one in await self._ledger.events_by_seq(scope, [seq for seq in around if seq > 0])}
        found: list[FoundEvent] = []
        for hit, seq in zip(hits, places, strict=True):
            event = stored.get(seq)
            if event is None or not isinstance(event.event, MessageEvent) or event.event.is_empty:
                continue
            before = tuple(stored[near] for near in range(seq - neighbours, seq) if near in stored)
            after = tuple(stored[near] for near in range(seq + 1, seq + neighbours + 1) if near in stored)
            found.append(FoundEvent(event, hit.score, before, after))
        return found


@dataclass(frozen=True, slots=True)
class _Analysed:
    """``terms``: of the message itself, its speaker and its day. ``context``: what neighbours get of it."""

    stored: StoredEvent
    speaker: str
    text: str
    terms: Mapping[int, float]
    context: Mapping[int, float]
    payload: Mapping[str, Any]

    @property
    def is_message(self) -> bool:
        return bool(self.text.strip())

    @classmethod
    def of(cls, stored: StoredEvent, names: Mapping[str, str]) -> _Analysed:
        event = stored.event
        if not isinstance(event, MessageEvent):
            return cls(stored, "", "", {}, {}, {})
        speaker = names.get(event.sender_id) or event.sender_id
        text = event.content or ""
        said = document_terms(f"{speaker} {text}")
        share = min(1.0, LONG_TERMS / max(1.0, sum(said.values())))
        terms = dict(said)
        add(terms, date_terms(event.timestamp))
        return cls(
            stored,
            speaker,
            text,
            terms,
            {term: count * share for term, count in said.items()},
            {
                "seq": stored.seq,
                "sender": person_key(event.sender_id),
                "people": sorted({person_key(person) for person in (event.sender_id, *event.receiver_ids)}),
                "medium": short_hash(event.medium.casefold()),
                "at": event.timestamp.timestamp(),
            },
        )


def _in_context(analysed: Sequence[_Analysed], place: int) -> Mapping[int, float]:
    """The terms of a message with those of its neighbours in the same stretch of conversation."""
    terms: Bag = dict(analysed[place].terms)
    for step, weights in ((-1, BEFORE), (1, AFTER)):
        at = analysed[place].stored.event.timestamp
        near = place
        for weight in weights:
            near = _next_message(analysed, near, step)
            if near < 0 or abs(analysed[near].stored.event.timestamp - at) > STRETCH:
                break
            at = analysed[near].stored.event.timestamp
            add(terms, analysed[near].context, weight)
    return terms


def _next_message(analysed: Sequence[_Analysed], place: int, step: int) -> int:
    place += step
    while 0 <= place < len(analysed):
        if analysed[place].is_message:
            return place
        place += step
    return -1


def _boosts(query: str, contacts: Sequence[Contact]) -> tuple[tuple[str, str, float], ...]:
    """Where the query names exactly one of the people: what that one said counts more."""
    words = name_words(query)
    named = [contact for contact in contacts if _name_words(contact) & words]
    if len(named) != 1:
        return ()
    return tuple(("sender", person_key(person), NAMED_FACTOR) for person in sorted(_ids_of(named[0])))


def _name_words(contact: Contact) -> set[str]:
    """A contact without a name is called by the sender ids that look like one."""
    named = [contact.first_name, contact.surname] if contact.name else [alias for alias in contact.aliases if alias.isalpha()]
    return {word for part in named if part for word in name_words(part) if len(word) > 1}


def _ids_of(contact: Contact) -> set[str]:
    fields = (contact.email_address, contact.phone_number, contact.whatsapp_number, str(contact.contact_id))
    return {*contact.aliases, *(value for value in fields if value)}


def person_key(sender_id: str) -> str:
    """What the payload holds of a sender or receiver id: no address or name in the vectors."""
    return short_hash(sender_id)
