"""From settings to a served API: what `afterturn api` and `afterturn dev` run."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import structlog
from fastapi import FastAPI

from api.app import create_app
from api.auth.setup import Access, build_access, check_access
from api.context import ApiContext, Authenticator
from api.limits import MAX_HEADER_BYTES
from memory.model.errors import MemoryUnavailable
from memory.profiles import Profiles
from memory.settings import Settings
from memory.settings_api import split_address
from memory.stores.http_server import serving
from memory.stores.tables import Tables, build_tables
from starter import MemoryClient
from starter.client_parts import build_parts
from starter.heartbeat import announced
from starter.notice_box_relay import telling_client
from starter.observing import API, observed
from starter.temporal import temporal_errors
from starter.until_told import until_told

NAME: Final = "the API"
_log = structlog.get_logger("afterturn.api")


def build_context(
    settings: Settings,
    tables: Tables,
    memory: MemoryClient,
    *,
    access: Access | None = None,
    authenticators: Sequence[Authenticator] | None = None,
    profiles: Profiles | None = None,
    close: Sequence[Callable[[], Awaitable[None]]] = (),
) -> ApiContext:
    """The context over the SQL stores and a client.

    Args:
        access: the ways in; its authenticators are those of the API where ``authenticators`` names no others.
        profiles: asked whether the object store answers.
    """
    access = access or Access()
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
        authenticators=access.authenticators if authenticators is None else authenticators,
        access=access,
        probes=_probes(tables, profiles, memory),
        close=close,
    )


def _probes(tables: Tables, profiles: Profiles | None, memory: MemoryClient) -> Mapping[str, Callable[[], Awaitable[object]]]:
    async def temporal_answers() -> None:
        client = await memory.temporal_client()
        with temporal_errors("the health check"):
            await client.service_client.check_health()

    found: dict[str, Callable[[], Awaitable[object]]] = {"database": tables.log.ping, "temporal": temporal_answers}
    if profiles is not None:
        found["object store"] = profiles.ping
    return found


def root_path_of(settings: Settings) -> str:
    """The path under which a proxy shows this server, and which it takes off before it asks here."""
    return urlsplit(settings.public_url or "").path.rstrip("/")


@asynccontextmanager
async def serving_api(
    app: FastAPI, settings: Settings, *, host: str, port: int, grace_s: float, given: socket.socket | None = None
) -> AsyncGenerator[str]:
    """Serves the application and yields its address. At the end streams are told to stop and requests may end for ``grace_s``.

    Raises MemoryUnavailable: the port is taken.
    """
    async with serving(
        app,
        name=NAME,
        host=host,
        port=port,
        lifespan=True,
        grace_s=grace_s,
        given=given,
        root_path=root_path_of(settings),
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    ) as base:
        try:
            yield base
        finally:
            app.state.stopping.set()


async def run_api(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, which call off a start as well.

    Raises:
        InvalidSettings: one line: a setting, or a database of another schema.
        MemoryUnavailable: the address is taken.
    """
    async with until_told() as told, AsyncExitStack() as stack:
        check_access(settings)
        await stack.enter_async_context(observed(settings, "afterturn-api", API))
        context = await _own_context(settings)
        place = split_address(settings.api_address)
        assert place is not None  # noqa: S101 - the settings have checked it
        app = create_app(context)
        grace_s = settings.graceful_shutdown_s
        async with (
            serving_api(app, settings, host=place[0], port=place[1], grace_s=grace_s) as address,
            announced(context.processes, kind="api", settings=settings),
        ):
            told.ready()
            _log.info("api_started", address=address, sign_in="on" if context.access.sign_in else "off")
            await told.wait()
            _log.info("api_stopping", grace_s=grace_s)
    _log.info("api_stopped")


async def _own_context(settings: Settings) -> ApiContext:
    """Over adapters of this process alone, which the application closes. Raises InvalidSettings."""
    tables = build_tables(settings)
    parts = build_parts(settings, tables)
    memory = telling_client(settings, parts, tables.notices)
    access = build_access(settings, tokens=tables.tokens, directory=tables.directory)
    try:
        parts.models.model(settings.language_model)
        await _check_schema(tables)
    except BaseException:
        await access.aclose()
        await memory.aclose()
        raise
    return build_context(
        settings,
        tables,
        memory,
        access=access,
        profiles=parts.profiles,
        close=(access.aclose, memory.aclose),
    )


async def _check_schema(tables: Tables) -> None:
    """A wrong schema stops the start. A database that is away does not: what is recorded meanwhile goes to the spool, and
    `/readyz` says so. Raises InvalidSettings."""
    try:
        await tables.log.ping()
    except MemoryUnavailable as error:
        _log.warning("database_away", detail=error.message)
