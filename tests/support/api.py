"""The API as a real HTTP server over the real stack, and callers of every kind."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from api.app import create_app
from api.auth.local_issuer import LocalIssuer, sign_in_link
from api.auth.setup import build_access
from api.limits import MAX_HEADER_BYTES
from api.serve import build_context, root_path_of
from memory.model.scope import Scope
from memory.settings import Settings
from memory.stores.http_server import serving
from memory.stores.tables import build_tables
from tests.support.stack import Stack, StartStack

ISSUER = LocalIssuer("http://issuer.test")
"""Signs the tokens of all tests; the servers of tests accept them beside those of the issuer that their settings name."""
SESSION_SECRET = SecretStr(secrets.token_urlsafe(48))


def bearer(**claims: Any) -> dict[str, str]:
    """Headers with a token of ``ISSUER``; see :meth:`api.auth.local_issuer.LocalIssuer.token`."""
    return {"Authorization": f"Bearer {ISSUER.token(**claims)}"}


def as_person(scope: Scope, *, roles: Sequence[str] = ("user",), teams: Sequence[str] | None = None) -> dict[str, str]:
    """Headers of a person."""
    return bearer(tenant=scope.tenant_id, user=scope.user_id, roles=roles, teams=teams)


def as_admin(tenant: str, user: str = "the-admin") -> dict[str, str]:
    """Headers of an administrator who is a person too."""
    return bearer(tenant=tenant, user=user, roles=["user", "admin"])


def as_service(tenant: str, user: str | None = None, *, permissions: Sequence[str] = ("read", "write")) -> dict[str, str]:
    """Headers of an orchestrator that acts for ``user``."""
    named = {} if user is None else {"Afterturn-User": quote(user, safe="")}
    return {**bearer(tenant=tenant, user=None, roles=["service"], permissions=permissions), **named}


def sign_in_path(scope: Scope, next_path: str = "/settings", *, role: str = "user") -> str:
    """The link, without the server before it, that begins a session of this person in a browser."""
    return sign_in_link("", ISSUER.key_text, next_path, tenant=scope.tenant_id, user=scope.user_id, role=role)


@dataclass
class Api:
    """``http``: a client of the server, whose address is ``base``; ``stack``: what is behind it; ``app``: the application."""

    base: str
    http: httpx2.AsyncClient
    stack: Stack
    app: FastAPI


class StartApi(Protocol):
    def __call__(self, **options: Any) -> AbstractAsyncContextManager[Api]: ...


@pytest.fixture
def api(stack: StartStack) -> StartApi:
    """``async with api() as a``: the API is served until the block ends. Options: those of ``stack``."""

    @asynccontextmanager
    async def start(**options: Any) -> AsyncGenerator[Api]:
        async with stack(**options) as behind, served_api(behind) as served:
            yield served

    return start


@asynccontextmanager
async def served_api(behind: Stack, *, around: Callable[[Any], Any] = lambda app: app) -> AsyncGenerator[Api]:
    """What the fixture ``api`` serves; for fixtures that live longer than one test. ``around``: puts something before the app."""
    settings = behind.settings.model_copy(update=_for_tests(behind.settings))
    tables = build_tables(settings)
    access = build_access(settings, tokens=tables.tokens, directory=tables.directory, local=ISSUER)
    context = build_context(
        settings,
        tables,
        behind.memory,
        access=access,
        profiles=behind.parts.profiles,
        close=(access.aclose, tables.aclose),
    )
    app = create_app(context)
    async with (
        serving(
            around(app),
            name="the API",
            lifespan=True,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            root_path=root_path_of(settings),
        ) as base,
        httpx2.AsyncClient(base_url=base, timeout=30) as http,
    ):
        try:
            yield Api(base, http, behind, app)
        finally:
            app.state.stopping.set()


def _for_tests(settings: Settings) -> dict[str, Any]:
    """Sessions, and no limit of how often, where a test says nothing of them."""
    made: dict[str, Any] = {"session_secret": SESSION_SECRET, "api_rate_per_minute": 0}
    return {name: value for name, value in made.items() if name not in settings.model_fields_set}
