"""The API as a real HTTP server over the real stack, and callers of every kind."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import httpx2
import pytest
from fastapi import Request
from temporalio.client import Client

from api.app import create_app
from api.serve import build_context
from memory.model.access import OWN, Permission, Principal, Role
from memory.model.scope import Scope
from memory.stores.http_server import serving
from memory.stores.tables import build_tables
from tests.support.stack import Stack, StartStack


class StatedCaller:
    """Believes what a test says of its caller."""

    async def authenticate(self, request: Request) -> Principal | None:
        kind, _, told = request.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or not told.startswith("test."):
            return None
        said = json.loads(base64.urlsafe_b64decode(told.removeprefix("test.")))
        roles = frozenset(Role(role) for role in said["roles"])
        permissions = {Permission(one) for one in said.get("permissions", ())}
        if Role.USER in roles:
            permissions |= OWN
        if Role.ADMIN in roles:
            permissions |= {Permission.ADMIN}
        teams = said.get("teams")
        return Principal(
            tenant_id=said["tenant"],
            subject=said.get("user"),
            roles=roles,
            permissions=frozenset(permissions),
            caller="test",
            teams=None if teams is None else tuple(teams),
        )


def _header(**said: Any) -> dict[str, str]:
    return {"Authorization": "Bearer test." + base64.urlsafe_b64encode(json.dumps(said).encode()).decode()}


def as_person(scope: Scope, *, roles: Sequence[str] = ("user",), teams: Sequence[str] | None = None) -> dict[str, str]:
    """Headers of a person."""
    return _header(
        tenant=scope.tenant_id, user=scope.user_id, roles=list(roles), **({} if teams is None else {"teams": list(teams)})
    )


def as_admin(tenant: str, user: str = "the-admin") -> dict[str, str]:
    """Headers of an administrator who is a person too."""
    return _header(tenant=tenant, user=user, roles=["user", "admin"])


def as_service(tenant: str, user: str | None = None, *, permissions: Sequence[str] = ("read", "write")) -> dict[str, str]:
    """Headers of an orchestrator that acts for ``user``."""
    named = {} if user is None else {"Afterturn-User": quote(user, safe="")}
    return {**_header(tenant=tenant, roles=["service"], permissions=list(permissions)), **named}


@dataclass
class Api:
    """``http``: a client of the server, whose address is ``base``; ``stack``: what is behind it."""

    base: str
    http: httpx2.AsyncClient
    stack: Stack


class StartApi(Protocol):
    def __call__(self, **options: Any) -> AbstractAsyncContextManager[Api]: ...


@pytest.fixture
def api(stack: StartStack, temporal_client: Client) -> StartApi:
    """``async with api() as a``: the API is served until the block ends. Options: those of ``stack``."""

    @asynccontextmanager
    async def start(**options: Any) -> AsyncGenerator[Api]:
        async with stack(**options) as behind, served_api(behind, temporal_client) as served:
            yield served

    return start


@asynccontextmanager
async def served_api(
    behind: Stack, temporal_client: Client, *, around: Callable[[Any], Any] = lambda app: app
) -> AsyncGenerator[Api]:
    """What the fixture ``api`` serves; for fixtures that live longer than one test. ``around``: puts something before the app."""
    tables = build_tables(behind.settings)

    async def connected() -> Client:
        return temporal_client

    context = build_context(
        behind.settings, tables, behind.memory, connected, authenticators=(StatedCaller(),), close=(tables.aclose,)
    )
    async with (
        serving(around(create_app(context)), name="the API", lifespan=True) as base,
        httpx2.AsyncClient(base_url=base, timeout=30) as http,
    ):
        yield Api(base, http, behind)
