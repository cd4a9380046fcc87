"""The search index and the record stores, put together from settings: what worker, client and commands share."""

from __future__ import annotations

from memory.categories.spec import Stores
from memory.ports.vectors import Embedder, VectorIndex
from memory.retrieval import SearchIndex
from memory.settings import Settings
from memory.stores.embedders import build_embedder
from memory.stores.tables import Tables
from memory.stores.vectors import build_vectors


def open_search(settings: Settings, tables: Tables, *, owner: str = "afterturn") -> SearchIndex:
    """Opens nothing before it is used: a process that never searches loads no embedder and takes no lock.

    ``owner``: how another process is told who holds the embedded engine.

    Raises InvalidSettings for an embedder or an address that cannot be used.
    """
    return index_over(tables, build_vectors(settings, owner=owner), build_embedder(settings))


def index_over(tables: Tables, vectors: VectorIndex, embedder: Embedder | None = None) -> SearchIndex:
    """The search over these stores; lexical only without an embedder."""
    return SearchIndex(
        vectors=vectors,
        embedder=embedder,
        terms=tables.terms,
        ledger=tables.windows,
        facts=tables.facts,
        contacts=tables.contacts,
        guidance=tables.guidance,
        functions=tables.functions,
        embeddings=tables.embeddings,
    )


def stores_of(tables: Tables, index: SearchIndex) -> Stores:
    """What the categories write to."""
    return Stores(
        facts=tables.facts,
        contacts=tables.contacts,
        tasks=tables.tasks,
        guidance=tables.guidance,
        functions=tables.functions,
        search=index.facts,
    )
