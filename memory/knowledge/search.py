"""Search over tables by meaning."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from memory.model.knowledge import Row, SearchQuery
from memory.model.owner import Owner, View
from memory.ports import Embedder, VectorIndex
from memory.ports.knowledge import KnowledgeTables


@dataclass(frozen=True, slots=True)
class Embedded:
    """``left``: rows that are still to be embedded."""

    embedded: int
    left: int


class KnowledgeSearch:
    """For one process. ``embedder`` None: words alone."""

    def __init__(self, tables: KnowledgeTables, *, vectors: VectorIndex, embedder: Embedder | None) -> None:
        self._tables = tables
        self._vectors = vectors
        self._embedder = embedder

    async def search(self, view: View, query: SearchQuery) -> Sequence[Row]:
        raise NotImplementedError

    async def vectorize(
        self, view: View, owner: Owner, table: str, source: str, *, keys: Collection[int] | None = None
    ) -> Embedded:
        raise NotImplementedError
