"""The API inside `afterturn dev`: on the worker's adapters, with an issuer of its own and links that log in."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from temporalio.client import Client

from activities import Collaborators
from api.app import create_app
from api.auth.local_issuer import LocalIssuer, sign_in_link
from api.auth.setup import base_url, build_access
from api.serve import build_context, serving_api
from memory.model.errors import InvalidSettings
from memory.settings import Settings
from memory.settings_api import split_address
from memory.stores.http_server import GRACE_S
from memory.stores.tables import build_tables
from starter.client_parts import shared_parts
from starter.heartbeat import announced
from starter.notice_box_relay import telling_client


@dataclass(frozen=True, slots=True)
class DevApi:
    """``urls``: for people, those of the pages with the key in them. ``key``: of the local issuer."""

    urls: dict[str, str] = field(repr=False)
    key: str = field(repr=False)


@asynccontextmanager
async def dev_api(settings: Settings, client: Client, parts: Collaborators, *, listener: socket.socket) -> AsyncGenerator[DevApi]:
    """Serves while the block runs. ``listener``: has the port of ``api_address`` already.

    Raises:
        InvalidSettings: settings of the API that do not go together.
    """
    place = split_address(settings.api_address)
    if place is None:
        raise InvalidSettings("AFTERTURN_API_ADDRESS must be host:port")
    base = base_url(settings)
    local = LocalIssuer(base)
    tables = build_tables(settings)
    memory = telling_client(settings, shared_parts(parts, client), tables.notices)
    access = build_access(settings, tokens=tables.tokens, directory=tables.directory, local=local)
    context = build_context(
        settings,
        tables,
        memory,
        access=access,
        profiles=parts.profiles,
        close=(access.aclose, memory.aclose, tables.aclose),
    )
    async with (
        serving_api(create_app(context), settings, host=place[0], port=place[1], grace_s=GRACE_S, given=listener),
        announced(parts.processes, kind="api", settings=settings),
    ):
        urls = {
            "api": base,
            "settings_page": sign_in_link(base, local.key_text, "/settings"),
            "admin_page": sign_in_link(base, local.key_text, "/admin"),
            "docs": f"{base}/docs",
        }
        yield DevApi(urls, local.key_text)
