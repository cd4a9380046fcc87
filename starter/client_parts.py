"""What a client works with, and how it is put together from settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from temporalio.client import Client

from activities import Collaborators
from memory.categories.spec import Stores
from memory.llm.factory import build_models
from memory.ports import Directory, EventLog, ModelProvider, UsageLedger, WindowLedger
from memory.ports.knowledge import KnowledgeTables, LoopStore
from memory.ports.service import ErasureLedger
from memory.profiles import Profiles
from memory.retrieval import SearchIndex
from memory.settings import Settings
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import Tables, build_tables
from starter.connection import Connection
from starter.search import open_search, stores_of
from starter.temporal import connect_options


@dataclass(frozen=True, slots=True)
class Parts:
    """What a client works with.

    ``temporal`` is asked at each use, and answers at once where it is connected; ``close`` is awaited in order at the end.
    """

    directory: Directory
    log: EventLog
    profiles: Profiles
    models: ModelProvider
    temporal: Callable[[], Awaitable[Client]]
    ledger: WindowLedger
    stores: Stores
    index: SearchIndex
    usage: UsageLedger
    loops: LoopStore
    knowledge: KnowledgeTables
    erasures: ErasureLedger
    close: Sequence[Callable[[], Awaitable[None]]] = ()


def shared_parts(parts: Collaborators, client: Client) -> Parts:
    """For a client in a worker's process: on the worker's adapters, which stay the worker's to close."""

    async def connected() -> Client:
        return client

    return Parts(
        directory=parts.directory,
        log=parts.log,
        profiles=parts.profiles,
        models=parts.models,
        temporal=connected,
        ledger=parts.ledger,
        stores=parts.stores,
        index=parts.index,
        usage=parts.usage,
        loops=parts.loops,
        knowledge=parts.knowledge,
        erasures=parts.erasures,
    )


def build_parts(settings: Settings, tables: Tables | None = None) -> Parts:
    """Connects to nothing. ``tables``: those of the caller, which ``close`` closes too. Raises InvalidSettings."""
    connect_options(settings)  # a configuration that cannot be read stops the start, not the first turn
    tables = tables or build_tables(settings)
    store = MinioObjectStore.from_settings(settings)
    models = build_models(settings)
    index = open_search(settings, tables)
    connection = Connection(settings, lazy=True)
    return Parts(
        directory=tables.directory,
        log=tables.log,
        profiles=Profiles(store, bucket_prefix=settings.bucket_prefix),
        models=models,
        temporal=connection.current,
        ledger=tables.windows,
        stores=stores_of(tables, index),
        index=index,
        usage=tables.usage,
        loops=tables.loops,
        knowledge=tables.knowledge,
        erasures=tables.erasures,
        close=(connection.aclose, models.aclose, index.aclose, store.aclose, tables.aclose),
    )
