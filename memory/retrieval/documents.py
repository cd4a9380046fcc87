"""Rows with a vector: keeping the index in step with them, and hybrid search over them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from memory.model.errors import AfterturnError
from memory.model.lexical import document_terms, query_terms
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
    SparseVector,
    Terms,
    VectorIndex,
    VectorQuery,
)

NAMESPACE: Final = uuid.UUID("7a1f2f3e-9d0c-4a53-8f6b-6d3f5a0f1c11")
PAYLOAD_ID: Final = "id"
PAYLOAD_REVISION: Final = "revision"
PAYLOAD_EMBEDDED: Final = "embedded"
AVERAGE_LENGTH: Final = 30.0
"""Terms of an average fact; see :mod:`memory.model.lexical`."""
BATCH: Final = 64
MAX_QUERY_CHARS: Final = 20_000

_log = structlog.get_logger("afterturn.retrieval")


def point_id(owner: Owner, kind: str, document_id: str) -> str:
    """The same row gives the same point, so that writing it again replaces it."""
    return str(uuid.uuid5(NAMESPACE, f"{kind}\x00{owner.path}\x00{document_id}"))


def sparse(vector: Mapping[int, float]) -> SparseVector:
    numbers = sorted(vector)
    return SparseVector(tuple(numbers), tuple(vector[number] for number in numbers))


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


class Documents:
    """For one process. ``embedder`` None: lexical search alone."""

    def __init__(self, index: VectorIndex, terms: Terms, embedder: Embedder | None) -> None:
        self.index = index
        self.embedder = embedder
        self.terms = terms
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

        Raises StoreUnavailable; what was done stays done.
        """
        done = 0
        while done < limit:
            pending = await source.pending(owner=owner, limit=min(BATCH, limit - done))
            if not pending:
                break
            await self.write(source.kind, pending)
            marked = await source.mark_indexed([_mark(document) for document in pending])
            done += len(pending)
            if not marked:
                break  # others are at it
        return done

    async def write(self, kind: str, documents: Sequence[IndexDocument]) -> None:
        """Points of live rows are written, those of others removed."""
        collection = await self.ready(kind)
        live = [document for document in documents if document.live and document.text.strip()]
        gone = [point_id(one.owner, kind, one.document_id) for one in documents if not (one.live and one.text.strip())]
        dense: Sequence[tuple[float, ...] | None] = [None] * len(live)
        if self.embedder is not None and live:
            dense = await self.embedder.passages([document.text for document in live])
        points = [_point(kind, document, vector) for document, vector in zip(live, dense, strict=True)]
        if points:
            await self.index.upsert(collection, points)
        if gone:
            await self.index.delete(collection, gone)

    # -------------------------------------------------------------------------------------------------------------- search

    async def search(
        self, view: View, kind: str, query: str, *, limit: int, where: Filter | None = None, extra: int = 10
    ) -> FoundDocuments:
        """Ids of rows that fit. The rows are still to be read and checked: a vector may lag behind.

        Args:
            extra: candidates beyond ``limit``, for those that turn out not to count.
        """
        text = query[:MAX_QUERY_CHARS].strip()
        if not text:
            return FoundDocuments((), dense=False)
        collection = await self.ready(kind)
        asked = await lexical_query(self.terms, view, kind, text)
        dense = await self.embed_query(text)
        if not asked.indices and dense is None:
            return FoundDocuments((), dense=False)
        hits = await self.index.query(
            collection,
            VectorQuery(
                owners=tuple(owner.path for owner in view.owners),
                limit=limit + extra,
                sparse=asked if asked.indices else None,
                dense=dense,
                dense_weight=self.embedder.weight if self.embedder else 0.0,
                filter=where or Filter(),
            ),
        )
        found = [FoundDocument(str(hit.payload[PAYLOAD_ID]), str(hit.payload[PAYLOAD_OWNER]), hit.score) for hit in hits]
        return FoundDocuments(found, dense=dense is not None)

    async def embed_query(self, text: str) -> tuple[float, ...] | None:
        """None without an embedder, or when it fails: then words alone count."""
        if self.embedder is None:
            return None
        try:
            return await self.embedder.query(text)
        except AfterturnError as error:
            _log.warning("query_not_embedded", embedder=self.embedder.name, error=error.message)
            return None


async def lexical_query(terms: Terms, view: View, kind: str, text: str, more: Mapping[int, float] | None = None) -> SparseVector:
    """The words of a query, weighted by how rare they are among what this user may see. ``more``: terms beside them."""
    wanted = {**(more or {}), **query_terms(text)}
    statistics = await terms.statistics(view.scope.tenant, [owner.key for owner in view.owners], kind, list(wanted))
    return sparse(query_weights(wanted, documents=statistics.documents, frequencies=statistics.frequencies))


def _mark(document: IndexDocument) -> IndexMark:
    if not document.live or not document.text.strip():
        return IndexMark(document.document_id, document.owner, document.revision, (), 0)
    terms = document_terms(document.text)
    return IndexMark(
        document.document_id, document.owner, document.revision, tuple(sorted(terms)), max(1, round(sum(terms.values())))
    )


def _point(kind: str, document: IndexDocument, dense: tuple[float, ...] | None) -> Point:
    return Point(
        point_id=point_id(document.owner, kind, document.document_id),
        owner=document.owner.path,
        sparse=sparse(document_weights(document_terms(document.text), usual_length=AVERAGE_LENGTH)),
        dense=dense,
        payload={**document.payload, PAYLOAD_ID: document.document_id, PAYLOAD_REVISION: document.revision},
    )


def rank(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    """BM25 over a few texts in memory: (place, score) of those with a term in common, best first."""
    bags = [document_terms(text) for text in texts]
    frequencies: dict[int, int] = {}
    for bag in bags:
        for term in bag:
            frequencies[term] = frequencies.get(term, 0) + 1
    wanted = query_weights(query_terms(query), documents=len(bags), frequencies=frequencies)
    scored = [(place, score(wanted, document_weights(bag, usual_length=AVERAGE_LENGTH))) for place, bag in enumerate(bags)]
    return sorted((one for one in scored if one[1] > 0), key=lambda one: (-one[1], one[0]))
