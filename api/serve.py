"""From settings to a served API: what `afterturn api` and `afterturn dev` run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from temporalio.client import Client

from api.context import ApiContext, Authenticator
from memory.settings import Settings
from memory.stores.tables import Tables
from starter import MemoryClient


def build_context(
    settings: Settings,
    tables: Tables,
    memory: MemoryClient,
    temporal: Callable[[], Awaitable[Client]],
    *,
    authenticators: Sequence[Authenticator] = (),
    close: Sequence[Callable[[], Awaitable[None]]] = (),
) -> ApiContext:
    """The context over the SQL stores and a client."""
    return ApiContext(
        settings=settings,
        memory=memory,
        directory=tables.directory,
        log=tables.log,
        ledger=tables.windows,
        usage=tables.usage,
        tokens=tables.tokens,
        box=tables.notices,
        processes=tables.processes,
        spaces=tables.spaces,
        reports=tables.reports,
        temporal=temporal,
        authenticators=authenticators,
        close=close,
    )
