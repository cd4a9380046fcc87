"""Everything that searches and everything that keeps it in step, put together from the ports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.ports import (
    ContactStore,
    DocumentSource,
    Embedder,
    FactStore,
    FunctionStore,
    GuidanceStore,
    Terms,
    VectorIndex,
    WindowLedger,
)
from memory.ports.knowledge import KnowledgeEmbeddings
from memory.ports.vectors import NoCollection
from memory.retrieval.documents import Documents, collection_name
from memory.retrieval.events import KIND, EventIndex
from memory.retrieval.facts import FactSearch
from memory.retrieval.reconcile import Cursor, ReconcileReport, reconcile_documents, reconcile_events
from memory.retrieval.reindex import Progress, reindex
from memory.retrieval.tables import KIND as TABLES
from memory.retrieval.tables import TableVectors

SYNC_LIMIT: Final = 10_000


class SearchIndex:
    """For one process. Opens nothing before it is used.

    Attributes:
        facts, events, documents: the searches.
        tables: vectors of the rows of knowledge tables; None without ``embeddings``.
        vectors: the index itself, for whoever serves it to other processes.
    """

    def __init__(
        self,
        *,
        vectors: VectorIndex,
        embedder: Embedder | None,
        terms: Terms,
        ledger: WindowLedger,
        facts: FactStore,
        contacts: ContactStore,
        guidance: GuidanceStore,
        functions: FunctionStore,
        embeddings: KnowledgeEmbeddings | None = None,
    ) -> None:
        self.vectors = vectors
        self.embedder = embedder
        self.documents = Documents(vectors, terms, embedder)
        self.facts = FactSearch(facts, self.documents)
        self.events = EventIndex(ledger, contacts, self.documents)
        self.tables = None if embeddings is None else TableVectors(vectors, embeddings, embedder)
        self._ledger = ledger
        self._sources: tuple[DocumentSource, ...] = (facts, contacts, guidance, functions)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*(source.kind for source in self._sources), KIND, *((TABLES,) if self.tables else ()))

    async def sync_documents(self, scope: Scope | None) -> int:
        """Bring pending rows of this user (None: of everybody) into the index. Raises StoreUnavailable."""
        owner = None if scope is None else Owner.user(scope)
        return sum([await self.documents.sync(source, owner=owner, limit=SYNC_LIMIT) for source in self._sources])

    async def reconcile(self, *, limit: int, repair: bool = True, cursors: dict[str, Cursor] | None = None) -> ReconcileReport:
        """Compare rows with vectors over everybody, about ``limit`` rows of each kind.

        Args:
            limit: of rows of each kind.
            repair: mend what differs.
            cursors: by kind, where to begin; where the pass ended is written there for the next one. None: from the first row.

        Raises StoreUnavailable, or what the embedder raises.
        """
        report, cursors = ReconcileReport(), {} if cursors is None else cursors
        for source in self._sources:
            cursor = cursors.setdefault(source.kind, Cursor())
            await reconcile_documents(self.documents, source, report, cursor, limit=limit, repair=repair)
        cursor = cursors.setdefault(KIND, Cursor())
        await reconcile_events(self.documents, self._ledger, self.events, report, cursor, limit=limit, repair=repair)
        if self.tables is not None:
            await self.tables.reconcile(report, cursors.setdefault(TABLES, Cursor()), limit=limit, repair=repair)
        return report

    async def reindex(
        self, kinds: Sequence[str] | None = None, *, embed_events: bool = True, progress: Progress | None = None
    ) -> dict[str, int]:
        """Build the index anew from the rows; see :func:`memory.retrieval.reindex.reindex`. Returns rows and events by kind."""
        return await reindex(
            self.documents,
            self._ledger,
            self.events,
            self._sources,
            self.tables,
            kinds=kinds,
            embed_events=embed_events,
            progress=progress,
        )

    async def count_of(self, owner: Owner) -> dict[str, int]:
        """Points of an owner by collection, in all collections that there are. Raises StoreUnavailable, FolderInUse."""
        found: dict[str, int] = {}
        for kind in self.kinds:
            name = collection_name(kind)
            try:
                found[name] = await self.vectors.count(name, owner=owner.path)
            except NoCollection:
                continue
        return found

    async def erase(self, owner: Owner, collections: Collection[str]) -> None:
        """All points of an owner in these collections, nobody else's. Safe to repeat. Raises as :meth:`count_of`."""
        for name in collections:
            await self.vectors.delete_owner(name, owner.path)

    async def check(self) -> None:
        """At the start: collections and payload indexes are there and fit the embedder.

        Raises:
            InvalidSettings: a collection was made with another embedder; says which and names `afterturn reindex`.
            StoreUnavailable: the vectors cannot be reached.
        """
        await self.vectors.ping()
        for source in self._sources:
            await self.documents.ready(source.kind)
        await self.events.ready()
        if self.tables is not None:
            await self.tables.ready()

    async def missing_indexes(self) -> list[str]:
        """``collection.field`` of payload indexes that are not there; without them a server searches slowly.

        Raises InvalidSettings where a collection was never made, StoreUnavailable where the vectors cannot be reached.
        """
        specs = [*(self.documents.spec(source.kind) for source in self._sources), self.events.spec()]
        specs += [self.tables.spec()] if self.tables is not None else []
        return [f"{spec.name}.{name}" for spec in specs for name in await self.vectors.missing_indexes(spec)]

    async def aclose(self) -> None:
        """Close the vectors and the embedder; may be called twice."""
        await self.vectors.aclose()
        if self.embedder is not None:
            await self.embedder.aclose()
