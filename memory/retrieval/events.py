"""The recorded messages in the search index: brought in by their words at once, by their meaning afterwards.

Points are written before the number up to which the log is indexed moves on, and writing one again makes the same point: a crash
in between repeats work and loses nothing. Term statistics move in the same transaction as that number.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from memory.model.errors import StoreUnavailable
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.window import StoredEvent
from memory.ports import CollectionSpec, ContactStore, Expirable, Point, WindowLedger
from memory.retrieval.documents import Documents, collection_name, point_id
from memory.retrieval.event_search import EventSearch, FoundEvent
from memory.retrieval.hybrid import Waiting, sparse_vector
from memory.retrieval.messages import EMBEDDED, INDEXES, LOOK_AROUND, Message, neighbours, weights_in_context

__all__ = ["KIND", "EventIndex", "FoundEvent"]

KIND: Final = "events"
BATCH: Final = 200
EMBED_BATCH: Final = 32
"""Events whose vectors are written together: a few seconds of a small embedder."""
MAX_TAIL: Final = 300
"""Messages that a search compares in memory because they are not indexed yet."""
MAX_CATCH_UP: Final = 2_000
"""Events that a search indexes first when more than that are waiting; the rest waits for the run."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What messages count for in the term statistics: documents by term, and their tokens in all."""

    frequencies: Mapping[int, int]
    length: int


class EventIndex:
    """Index and search of one deployment's messages."""

    def __init__(self, ledger: WindowLedger, contacts: ContactStore, documents: Documents) -> None:
        self._ledger = ledger
        self._contacts = contacts
        self._documents = documents
        self._search = EventSearch(ledger, contacts, documents.hybrid)
        self._is_ready = False

    def spec(self) -> CollectionSpec:
        embedder = self._documents.embedder
        return CollectionSpec(
            collection_name(KIND), embedder.dimension if embedder else None, embedder.name if embedder else None, INDEXES
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

        Safe to repeat and to race. Raises StoreUnavailable; what was done stays done.
        """
        done = 0
        while done < limit:
            progress = await self._ledger.progress(scope)
            first = progress.indexed_seq + 1
            last = min(progress.last_seq, first + BATCH - 1, first + limit - done - 1)
            if last < first:
                break
            messages = await self._around(scope, first, last)
            new = [place for place, one in enumerate(messages) if first <= one.seq <= last]
            # Those before it get their later neighbours now; one that has a dense vector gets them from embed().
            older = [place for place in _touched(messages, new) if progress.embedded_seq < messages[place].seq < first]
            await self._write(scope, messages, [*older, *new])
            frequencies = Counter(chain.from_iterable(messages[place].own for place in new))
            length = round(sum(sum(messages[place].own.values()) for place in new))
            moved = await self._ledger.advance_index(
                scope, from_seq=first - 1, to_seq=last, document_frequencies=frequencies, length=length
            )
            done += last - first + 1
            if not moved or last == progress.last_seq:
                break  # another process is at it; or that was all: what comes now is indexed with its own window
        return done

    async def embed(self, scope: Scope, *, limit: int = 10_000) -> int:
        """Give indexed messages their dense vectors, a few at a time. Returns how many events it went through.

        Raises StoreUnavailable, or what the embedder raises; what was done stays done.
        """
        if self._documents.embedder is None:
            return 0
        done = 0
        while done < limit:
            progress = await self._ledger.progress(scope)
            first = progress.embedded_seq + 1
            last = min(progress.indexed_seq, first + EMBED_BATCH - 1, first + limit - done - 1)
            if last < first:
                break
            messages = await self._around(scope, first, last)
            new = [place for place, one in enumerate(messages) if first <= one.seq <= last]
            # Later batches of this call find their older neighbours written with all that is known now.
            older = [place for place in _touched(messages, new) if messages[place].seq < first] if done == 0 else []
            await self._write(scope, messages, [*older, *new], embed=True)
            done += last - first + 1
            if not await self._ledger.advance_embedded(scope, from_seq=first - 1, to_seq=last):
                break
        return done

    async def rewrite(self, scope: Scope, seqs: Sequence[int]) -> None:
        """Write the points of these indexed events again, with their dense vectors where they had got them; the term statistics
        stay as they are."""
        embedded = (await self._ledger.progress(scope)).embedded_seq
        for start in range(0, len(seqs), EMBED_BATCH):
            some = frozenset(seqs[start : start + EMBED_BATCH])
            wide = {near for seq in some for near in range(max(1, seq - LOOK_AROUND), seq + LOOK_AROUND + 1)}
            messages = await self._messages(scope, await self._ledger.events_by_seq(scope, wide))
            for embed in (False, True):
                places = [p for p, one in enumerate(messages) if one.seq in some and (one.seq <= embedded) is embed]
                await self._write(scope, messages, places, embed=embed)

    async def remove(self, scope: Scope, seqs: Collection[int]) -> None:
        """Points of events that are gone."""
        ids = [_point_id(scope, seq) for seq in seqs]
        if ids:
            await self._documents.index.delete(await self.ready(), ids)

    async def forget(self, due: Expirable) -> Counted:
        """Take events out of the index before their text goes: their points, and their words in the points of their neighbours.

        Returns what they counted for in the term statistics. Safe to repeat. Raises StoreUnavailable; what was done stays done.
        """
        scope, frequencies, length = due.scope, Counter[int](), 0.0
        for start in range(0, len(due.seqs), BATCH):
            some = due.seqs[start : start + BATCH]
            for message in await self._messages(scope, await self._ledger.events_by_seq(scope, some)):
                if message.seq <= due.indexed_seq:
                    frequencies.update(message.own.keys())
                    length += sum(message.own.values())
            await self.remove(scope, some)
        around = await self._around(scope, due.to_seq, min(due.to_seq + LOOK_AROUND, due.indexed_seq))
        touched = {
            one.seq
            for place, one in enumerate(around)
            if due.to_seq < one.seq <= due.indexed_seq
            and any(around[near].seq <= due.to_seq for near, _ in neighbours(around, place))
        }
        left = [one for one in around if one.seq > due.to_seq]
        await self._write_again(scope, left, [place for place, one in enumerate(left) if one.seq in touched])
        return Counted(frequencies, round(length))

    async def _write_again(self, scope: Scope, messages: Sequence[Message], places: Sequence[int]) -> None:
        """With their dense vectors where they had got them; while the embedder is away without: reconciliation finds those."""
        embedded = (await self._ledger.progress(scope)).embedded_seq
        meant = [place for place in places if messages[place].seq <= embedded]
        await self._write(scope, messages, [place for place in places if place not in meant])
        try:
            await self._write(scope, messages, meant, embed=True)
        except StoreUnavailable:
            await self._write(scope, messages, meant)

    async def _around(self, scope: Scope, first: int, last: int) -> Sequence[Message]:
        events = await self._ledger.events(scope, max(1, first - LOOK_AROUND), last + LOOK_AROUND)
        return await self._messages(scope, events)

    async def _messages(self, scope: Scope, events: Sequence[StoredEvent]) -> Sequence[Message]:
        names = await self._search.names_of(scope, events)
        return await asyncio.to_thread(_messages, events, names)

    async def _write(self, scope: Scope, messages: Sequence[Message], places: Sequence[int], *, embed: bool = False) -> None:
        if not places:
            return
        collection = await self.ready()
        vectors: Sequence[tuple[float, ...] | None] = [None] * len(places)
        if embed and self._documents.embedder is not None:
            vectors = await self._documents.embedder.passages([messages[place].spoken for place in places])
        owner = Owner.user(scope).path

        def points() -> list[Point]:
            return [
                Point(
                    point_id=_point_id(scope, messages[place].seq),
                    owner=owner,
                    sparse=sparse_vector(weights_in_context(messages, place)),
                    dense=vector,
                    payload={**messages[place].payload, EMBEDDED: int(vector is not None)},
                )
                for place, vector in zip(places, vectors, strict=True)
            ]

        await self._documents.index.upsert(collection, await asyncio.to_thread(points))

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
            query: any text; a name or a date in it counts.
            senders: only messages from or to one of these ids.
            contact_ids: the same by contact; both given: from or to one of either.
            media: only on one of these.
            since, until: only said in this time, both inclusive.
            limit: 1 to 100.
            neighbours: so many messages of the log before and after each, 0 to 10.

        Raises:
            InvalidInput: a bound out of its range.
            StoreUnavailable: the database or the vectors are away.
        """
        self._search.check(limit, neighbours)
        tail = await self._tail(scope)
        where = await self._search.filter(scope, senders, contact_ids, media, since, until)
        return await self._search.find(scope, query, where, await self.ready(), tail, limit=limit, neighbours=neighbours)

    async def _tail(self, scope: Scope) -> Sequence[Waiting]:
        """What is recorded and not indexed, compared in memory: a search writes nothing, unless very much is waiting."""
        progress = await self._ledger.progress(scope)
        if progress.last_seq - progress.indexed_seq > MAX_TAIL:
            await self.index(scope, limit=min(MAX_CATCH_UP, progress.last_seq - progress.indexed_seq))
            progress = await self._ledger.progress(scope)
        first, last = progress.indexed_seq + 1, progress.last_seq
        if last < first:
            return ()
        # Of more than that the newest: they are what somebody has just said.
        first = max(first, last - MAX_TAIL + 1)
        messages = await self._around(scope, first, last)

        def waiting() -> list[Waiting]:
            return [
                Waiting(_point_id(scope, one.seq), weights_in_context(messages, place), one.payload)
                for place, one in enumerate(messages)
                if first <= one.seq <= last
            ]

        return await asyncio.to_thread(waiting)


def _messages(events: Sequence[StoredEvent], names: Mapping[str, str]) -> Sequence[Message]:
    return [message for stored in events if (message := Message.of(stored, names)) is not None]


def _touched(messages: Sequence[Message], new: Collection[int]) -> Sequence[int]:
    """Places of the messages that have one of ``new`` as a neighbour after them."""
    among = frozenset(new)
    start = min(among, default=0)
    return [place for place in range(start) if any(near in among for near, _ in neighbours(messages, place) if near > place)]


def _point_id(scope: Scope, seq: int) -> str:
    return point_id(Owner.user(scope), KIND, str(seq))
