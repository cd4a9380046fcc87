"""Rows with a vector: keeping the index in step with them, and hybrid search over them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from memory.model.errors import MemoryUnavailable, ModelError
from memory.model.lexical import Bag, document_terms, query_terms
from memory.model.lexical_bm25 import document_weights, query_weights, score
from memory.model.owner import Owner, View
from memory.ports import (
    PAYLOAD_OWNER,
    CollectionSpec,
    DocumentSource,
    Embedder,
    Filter,
    IndexDocument,
    IndexMark,
    Point,
    Terms,
    VectorIndex,
)
from memory.retrieval.fusion import Candidate, in_order
from memory.retrieval.hybrid import Asked, Hybrid, Waiting, sparse_vector

NAMESPACE: Final = uuid.UUID("7a1f2f3e-9d0c-4a53-8f6b-6d3f5a0f1c11")
PAYLOAD_ID: Final = "id"
PAYLOAD_REVISION: Final = "revision"
PAYLOAD_EMBEDDED: Final = "embedded"
"""1 or 0: whether the point has a dense vector."""
USUAL_LENGTH: Final = 30.0
"""Terms of a usual fact; see :mod:`memory.model.lexical_bm25`."""
BATCH: Final = 64
DEPTH: Final = 100
"""Candidates by words and by meaning."""
MAX_WAITING: Final = 500
"""Rows of one owner that a search compares in memory because the index does not hold them yet."""
MAX_LOOKS: Final = 3
"""Of one search, while others bring rows into the index."""


def point_id(owner: Owner, kind: str, document_id: str) -> str:
    """The same row gives the same point, so that writing it again replaces it."""
    return str(uuid.uuid5(NAMESPACE, f"{kind}\x00{owner.path}\x00{document_id}"))


def collection_name(kind: str) -> str:
    return f"afterturn_{kind}"


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """``score``: only for comparing within one answer."""

    document_id: str
    owner: str
    score: float


@dataclass(frozen=True, slots=True)
class FoundDocuments:
    """Best first. ``dense``: whether meaning counted beside words; without an embedder, or when it fails, words alone do."""

    found: Sequence[FoundDocument]
    dense: bool


@dataclass(frozen=True, slots=True)
class _Analysed:
    document: IndexDocument
    terms: Bag = field(repr=False)

    @classmethod
    def of(cls, document: IndexDocument) -> _Analysed:
        return cls(document, document_terms(document.text) if document.live else {})

    @property
    def is_live(self) -> bool:
        return self.document.live and bool(self.document.text.strip())

    def mark(self) -> IndexMark:
        one = self.document
        if not self.is_live:
            return IndexMark(one.document_id, one.owner, one.revision, (), 0)
        length = max(1, round(sum(self.terms.values())))
        return IndexMark(one.document_id, one.owner, one.revision, tuple(sorted(self.terms)), length)


class Documents:
    """For one process. ``embedder`` None: lexical search alone."""

    def __init__(self, index: VectorIndex, terms: Terms, embedder: Embedder | None) -> None:
        self.index = index
        self.embedder = embedder
        self.terms = terms
        self.hybrid = Hybrid(index, terms, embedder)
        self._ready: set[str] = set()

    def spec(self, kind: str) -> CollectionSpec:
        return CollectionSpec(
            collection_name(kind),
            self.embedder.dimension if self.embedder else None,
            self.embedder.name if self.embedder else None,
            {"kind": "keyword", PAYLOAD_REVISION: "integer"},
        )

    async def ready(self, kind: str) -> str:
        """The collection, made on first use. Raises InvalidSettings where it was made for another embedder."""
        spec = self.spec(kind)
        if kind not in self._ready:
            await self.index.ensure(spec)
            self._ready.add(kind)
        return spec.name

    # ---------------------------------------------------------------------------------------------------------------- sync

    async def sync(self, source: DocumentSource, *, owner: Owner | None = None, limit: int = 10_000) -> int:
        """Bring pending rows into the index. Safe at any time and from several processes: a row stays pending until its revision
        is marked, and a point is only ever replaced by that of a row.

        Raises StoreUnavailable or what the embedder raises; what was done stays done, and rows whose meaning could not be
        embedded are found by their words.
        """
        done = 0
        while done < limit:
            asked = min(BATCH, limit - done)
            pending = await source.pending(owner=owner, limit=asked)
            if not pending:
                break
            analysed = await _analysed(pending)
            await self._write(source.kind, analysed)
            marked = await source.mark_indexed([one.mark() for one in analysed])
            done += len(pending)
            if not marked or (owner is not None and marked == len(pending) < asked):
                break  # others are at it; or these were all that the owner had, and its next change calls again
        return done

    async def write(self, kind: str, documents: Sequence[IndexDocument]) -> None:
        """Points of live rows are written, those of others removed; nothing is marked."""
        for start in range(0, len(documents), BATCH):
            await self._write(kind, await _analysed(documents[start : start + BATCH]))

    async def _write(self, kind: str, analysed: Sequence[_Analysed]) -> None:
        collection = await self.ready(kind)
        live = [one for one in analysed if one.is_live]
        gone = [point_id(one.document.owner, kind, one.document.document_id) for one in analysed if not one.is_live]
        # What has to go goes first: it does not wait for the embedder.
        if gone:
            await self.index.delete(collection, gone)
        if not live:
            return
        dense: Sequence[tuple[float, ...] | None] = [None] * len(live)
        if self.embedder is not None:
            try:
                dense = await self.embedder.passages([one.document.text for one in live])
            except (MemoryUnavailable, ModelError):
                await self.index.upsert(collection, [_point(kind, one, None) for one in live])
                raise
        await self.index.upsert(collection, [_point(kind, one, vector) for one, vector in zip(live, dense, strict=True)])

    # -------------------------------------------------------------------------------------------------------------- search

    async def search(
        self,
        view: View,
        kind: str,
        query: str,
        *,
        limit: int,
        where: Filter | None = None,
        extra: int = 10,
        source: DocumentSource | None = None,
    ) -> FoundDocuments:
        """Ids of rows that fit. The rows are still to be read and checked: a vector may lag behind.

        Args:
            extra: candidates beyond ``limit``, for those that turn out not to count.
            source: where rows of this kind come from: those that wait for the index are found too.
        """
        if not query.strip():
            return FoundDocuments((), dense=False)
        collection = await self.ready(kind)
        depth = max(DEPTH, limit + extra)
        asked = Asked(view, kind, collection, query, where or Filter(), depth=depth)
        candidates, dense = await self._look(asked, source)
        found = [
            FoundDocument(str(one.payload[PAYLOAD_ID]), str(one.payload[PAYLOAD_OWNER]), one.score)
            for one in candidates[: limit + extra]
        ]
        return FoundDocuments(found, dense=dense)

    async def _look(self, asked: Asked, source: DocumentSource | None) -> tuple[list[Candidate], bool]:
        pending = await _pending(source, asked.view)
        for _ in range(MAX_LOOKS - 1):
            found = await self.hybrid.search(await _complete(asked, pending))
            if not pending or (now := await _pending(source, asked.view)) == pending:
                return found
            # What was marked meanwhile was counted twice, or not at all.
            pending = now
        return await self.hybrid.search(await _complete(asked, pending))


async def _pending(source: DocumentSource | None, view: View) -> list[IndexDocument]:
    if source is None:
        return []
    pages = await asyncio.gather(*(source.pending(owner=owner, limit=MAX_WAITING) for owner in view.owners))
    return [document for page in pages for document in page]


async def _complete(asked: Asked, pending: Sequence[IndexDocument]) -> Asked:
    """With what the index does not hold in its present form."""
    analysed = await _analysed(pending)
    return replace(
        asked,
        waiting=[_waiting(asked.kind, one) for one in analysed if one.is_live],
        hidden=[point_id(one.document.owner, asked.kind, one.document.document_id) for one in analysed if not one.is_live],
        outdated=[document.counted for document in pending if document.counted is not None],
    )


async def _analysed(documents: Sequence[IndexDocument]) -> Sequence[_Analysed]:
    """In a thread: a long text takes a while, and the event loop has heartbeats to send."""
    if not documents:
        return ()
    return await asyncio.to_thread(lambda: [_Analysed.of(document) for document in documents])


def mark_of(document: IndexDocument) -> IndexMark:
    """What is marked once the document is in the index."""
    return _Analysed.of(document).mark()


def _waiting(kind: str, one: _Analysed) -> Waiting:
    document = one.document
    return Waiting(
        point_id(document.owner, kind, document.document_id),
        document_weights(one.terms, usual_length=USUAL_LENGTH),
        {**document.payload, PAYLOAD_ID: document.document_id, PAYLOAD_OWNER: document.owner.path},
    )


def _point(kind: str, one: _Analysed, dense: tuple[float, ...] | None) -> Point:
    document = one.document
    return Point(
        point_id=point_id(document.owner, kind, document.document_id),
        owner=document.owner.path,
        sparse=sparse_vector(document_weights(one.terms, usual_length=USUAL_LENGTH)),
        dense=dense,
        payload={
            **document.payload,
            PAYLOAD_ID: document.document_id,
            PAYLOAD_REVISION: document.revision,
            PAYLOAD_EMBEDDED: int(dense is not None),
        },
    )


def rank(query: str, texts: Sequence[str], names: Sequence[str] | None = None) -> list[tuple[int, float]]:
    """BM25 over a few texts in memory: (place, score) of those with a term in common, best first.

    Args:
        names: of the texts, each another one: of equal scores the smaller name comes first, as in the index; else the first text.
    """
    bags = [document_terms(text) for text in texts]
    frequencies: dict[int, int] = {}
    for bag in bags:
        for term in bag:
            frequencies[term] = frequencies.get(term, 0) + 1
    wanted = query_weights(query_terms(query), documents=len(bags), frequencies=frequencies)
    scored = [(place, score(wanted, document_weights(bag, usual_length=USUAL_LENGTH))) for place, bag in enumerate(bags)]
    found = {place: points for place, points in scored if points > 0}
    if names is None:
        return sorted(found.items(), key=lambda one: (-one[1], one[0]))
    places = {names[place]: place for place in found}
    return [(places[name], found[places[name]]) for name in in_order({names[place]: points for place, points in found.items()})]
