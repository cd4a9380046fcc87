"""What HTTP costs on the answering path: ``GET /v1/memory`` beside ``starter.load`` of the same client in the same process.

The caller is a plain keep-alive connection, so that what is measured is the API and not an HTTP client library.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import statistics
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from api.app import create_app
from api.auth.access import USER_HEADER
from api.auth.service_tokens import ServiceTokenAuthenticator
from api.serve import build_context
from bench.results import BenchError, Reach, Row, ratio_row
from bench.world import TENANT, World, open_world, timed
from memory.model.access import Permission
from memory.model.scope import Scope
from memory.model.service_token import make_token
from memory.stores.http_server import serving
from starter.logs import configure_logging

ROUNDS: Final = 7
CALLS: Final = 60
"""Per round and side, one of each in turn."""
WARM_UP: Final = 30
TOKENS: Final = 2_000
"""The budget of a space; the profile is the largest that fits."""
READ: Final = Reach(most=2.0)


async def measure() -> list[Row]:
    """A service token, as an orchestrator has it: it is checked for every request."""
    async with open_world(worker=False) as world:
        scope = Scope.of(TENANT, "reader")
        tokens = await _seeded(world, scope)
        async with _service(world) as address, _Caller.to(address, await _token(world), scope.user_id) as caller:

            async def ours() -> None:
                told = await caller.get("/v1/memory?allow_user_memory=true")
                if told["tokens"] != tokens:
                    raise BenchError(f"the API gave no memory: {told['reason']}: {told['detail']}")

            async def direct() -> None:
                loaded = await world.memory.load(scope, allow_user_memory=True)
                if loaded.tokens != tokens:
                    raise BenchError(f"load gave no memory: {loaded.reason}: {loaded.detail}")

            for _ in range(WARM_UP):
                await ours()
                await direct()
            mine: list[float] = []
            theirs: list[float] = []
            for _ in range(ROUNDS):
                pairs = [(await timed(ours), await timed(direct)) for _ in range(CALLS)]
                mine.append(statistics.median(pair[0] for pair in pairs))
                theirs.append(statistics.median(pair[1] for pair in pairs))
    return [
        ratio_row(
            "GET /v1/memory p50",
            mine,
            theirs,
            compared_with="starter.load in the same process",
            reach=READ,
            scale=1000,
            unit_of_both="ms",
            profile_tokens=tokens,
        )
    ]


async def _seeded(world: World, scope: Scope) -> int:
    """A profile as near to the budget as whole bullets come. Returns its tokens, as a load counts them."""
    fitting, most = 1, 256
    while most - fitting > 1:
        bullets = (fitting + most) // 2
        await world.seed(Scope.of(TENANT, f"sizing-{bullets}"), bullets=bullets)
        loaded = await world.memory.load((TENANT, f"sizing-{bullets}"), allow_user_memory=True)
        fitting, most = (fitting, bullets) if loaded.truncated else (bullets, most)
    await world.seed(scope, bullets=fitting)
    loaded = await world.memory.load(scope, allow_user_memory=True)
    if loaded.truncated or loaded.tokens is None or not 0.95 * TOKENS <= loaded.tokens <= TOKENS:
        raise BenchError(f"the profile has {loaded.tokens} tokens, not about {TOKENS}")
    return loaded.tokens


async def _token(world: World) -> str:
    made = make_token()
    await world.tables.tokens.create(
        Scope.of(TENANT, "nobody").tenant,
        token_id=made.token_id,
        secret_hash=made.secret_hash,
        name="bench",
        permissions=[Permission.READ],
        expires_at=None,
        now=datetime.now(UTC),
    )
    return made.text


@asynccontextmanager
async def _service(world: World) -> AsyncGenerator[str]:
    """The whole application over the world's client. Without a limit of requests: one caller makes all of them."""
    _log_to_nowhere(world)
    context = build_context(
        world.settings.model_copy(update={"api_rate_per_minute": 0}),
        world.tables,
        world.memory,
        authenticators=(ServiceTokenAuthenticator(world.tables.tokens),),
    )
    async with serving(create_app(context), name="the API", lifespan=True) as address:
        yield address


def _log_to_nowhere(world: World) -> None:
    """Requests are logged as in production, which is a part of what they cost; only nobody reads it here."""
    configure_logging(world.settings)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(io.StringIO())


class _Caller:
    """One connection that is kept. ``async with _Caller.to(address, token, user)``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: str) -> None:
        self._reader = reader
        self._writer = writer
        self._headers = headers

    @classmethod
    @asynccontextmanager
    async def to(cls, address: str, token: str, user: str) -> AsyncGenerator[_Caller]:
        where = urlsplit(address)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        headers = f"Host: {where.netloc}\r\nAuthorization: Bearer {token}\r\n{USER_HEADER}: {user}\r\n\r\n"
        try:
            yield cls(reader, writer, headers)
        finally:
            writer.close()
            await writer.wait_closed()

    async def get(self, path: str) -> dict[str, Any]:
        """The JSON of an answer. Raises BenchError for any status but 200."""
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._headers}".encode("ascii"))
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next(int(line.partition(":")[2]) for line in head.split("\r\n") if line.startswith("content-length:"))
        body = await self._reader.readexactly(length)
        if " 200 " not in head.split("\r\n", 1)[0]:
            raise BenchError(f"the API answered {head.split(chr(13), 1)[0]}")
        return json.loads(body)
