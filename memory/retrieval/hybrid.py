"""One search of one collection: by words with the user's own term statistics, by meaning beside it, and what is not indexed yet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from memory.model.errors import MemoryUnavailable, ModelError
from memory.model.lexical import MAX_QUERY_CHARS, query_terms
from memory.model.lexical_bm25 import Weights, query_weights, score
from memory.model.owner import View
from memory.ports import Embedder, Filter, Hit, SparseVector, Terms, VectorIndex, VectorQuery
from memory.retrieval.fusion import Candidate, fuse, passes

EMBED_TIMEOUT_S: Final = 5.0
"""For the query's vector; without it words alone count."""

_log = structlog.get_logger("afterturn.retrieval")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A document that the index does not hold in this form yet: it is compared in memory."""

    point_id: str
    weights: Weights = field(repr=False)
    payload: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked for.

    ``waiting``: documents beside those of the index. ``hidden``: points that are out of date. ``outdated``: of either, the terms
    that the statistics hold, so that a document counts once, as it is.
    """

    view: View
    kind: str
    collection: str
    text: str = field(repr=False)
    where: Filter = field(default_factory=Filter)
    more_terms: Mapping[int, float] = field(default_factory=dict[int, float])
    boosts: Sequence[tuple[str, str, float]] = ()
    waiting: Sequence[Waiting] = ()
    hidden: Collection[str] = frozenset()
    outdated: Sequence[Collection[int]] = ()
    depth: int = 100
    """Candidates from each side."""


class Hybrid:
    """``embedder`` None: words alone."""

    def __init__(self, index: VectorIndex, terms: Terms, embedder: Embedder | None) -> None:
        self.index = index
        self.terms = terms
        self.embedder = embedder

    async def search(self, asked: Asked) -> tuple[list[Candidate], bool]:
        """Best first, and whether meaning counted.

        Raises StoreUnavailable when the vectors or the statistics are away.
        """
        words, dense = await asyncio.gather(self._words(asked), self.embed_query(asked.text))
        weight = self.embedder.weight if self.embedder else 0.0
        by_words, by_meaning = await asyncio.gather(
            self._side(asked, sparse=sparse_vector(words) if words else None),
            self._side(asked, dense=dense),
        )
        stale = {*asked.hidden, *(one.point_id for one in asked.waiting)}
        lexical = [hit for hit in by_words if hit.point_id not in stale]
        for one in asked.waiting:
            points = score(words, one.weights)
            if points > 0 and passes(one.payload, asked.where):
                lexical.append(Hit(one.point_id, points, one.payload))
        meant = [hit for hit in by_meaning if hit.point_id not in stale]
        return fuse(lexical, meant, dense_weight=weight, boosts=asked.boosts), dense is not None

    async def embed_query(self, text: str) -> tuple[float, ...] | None:
        """None without an embedder, or when it fails: then words alone count."""
        if self.embedder is None:
            return None
        try:
            async with asyncio.timeout(EMBED_TIMEOUT_S):
                return await self.embedder.query(text[:MAX_QUERY_CHARS])
        except (MemoryUnavailable, ModelError, TimeoutError) as error:
            _log.warning("query_not_embedded", embedder=self.embedder.name, error=type(error).__name__)
            return None

    async def _words(self, asked: Asked) -> Weights:
        """The query's terms, each times its rarity among what this user may see."""
        wanted = {**asked.more_terms, **query_terms(asked.text)}
        if not wanted:
            return {}
        owners = [owner.key for owner in asked.view.owners]
        statistics = await self.terms.statistics(asked.view.scope.tenant, owners, asked.kind, list(wanted))
        frequencies = Counter(statistics.frequencies)
        for one in asked.waiting:
            frequencies.update(term for term in wanted if term in one.weights)
        for terms in asked.outdated:
            frequencies.subtract(term for term in terms if term in wanted)
        documents = statistics.documents + len(asked.waiting) - len(asked.outdated)
        return query_weights(wanted, documents=documents, frequencies=frequencies)

    async def _side(
        self, asked: Asked, *, sparse: SparseVector | None = None, dense: tuple[float, ...] | None = None
    ) -> Sequence[Hit]:
        if sparse is None and dense is None:
            return ()
        query = VectorQuery(
            owners=tuple(owner.path for owner in asked.view.owners),
            limit=asked.depth,
            depth=asked.depth,
            sparse=sparse,
            dense=dense,
            filter=asked.where,
        )
        return await self.index.query(asked.collection, query)


def sparse_vector(weights: Mapping[int, float]) -> SparseVector:
    ordered = sorted(weights)
    return SparseVector(tuple(ordered), tuple(map(weights.__getitem__, ordered)))
