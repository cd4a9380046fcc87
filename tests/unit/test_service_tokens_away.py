"""Service tokens while the database is away: who was known a moment ago is not turned away."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.requests import Request

from api.auth.service_tokens import AWAY_S, ServiceTokenAuthenticator
from api.problems import Unauthenticated
from memory.model.errors import StoreUnavailable
from memory.model.service_token import make_token
from memory.ports.service import ServiceToken


class Tokens:
    """One token, in a database that can be away or hang."""

    def __init__(self, token: ServiceToken, secret_hash: str) -> None:
        self.token = token
        self.secret_hash = secret_hash
        self.state = "there"
        self.asked = 0

    async def find(self, token_id: str) -> tuple[ServiceToken, str] | None:
        self.asked += 1
        if self.state == "away":
            raise StoreUnavailable("the database is away")
        if self.state == "hangs":
            await asyncio.Event().wait()
        return (self.token, self.secret_hash) if token_id == self.token.token_id else None

    async def used(self, token_id: str, *, now: datetime) -> None: ...

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked for")


def request(text: str) -> Request:
    return Request({"type": "http", "headers": [(b"authorization", f"Bearer {text}".encode())]})


async def test_a_token_that_is_known_works_on_while_the_database_is_away() -> None:
    made, stranger = make_token(), make_token()
    tokens = Tokens(ServiceToken(made.token_id, "acme", "t", ("read",), datetime.now(UTC)), made.secret_hash)
    now = 1_000.0
    ways_in = ServiceTokenAuthenticator(tokens, clock=lambda: now)
    assert await ways_in.authenticate(request(made.text)) is not None

    for state in ("away", "hangs"):
        tokens.state = state
        now += 10
        asked = tokens.asked
        for _ in range(50):
            assert await ways_in.authenticate(request(made.text)) is not None
        # The database is tried now and then, not by every request.
        assert tokens.asked == asked + 1
    tokens.state = "away"
    with pytest.raises(StoreUnavailable):
        await ways_in.authenticate(request(stranger.text))

    # Not for ever, and what it says when it is back counts.
    now += AWAY_S
    with pytest.raises(StoreUnavailable):
        await ways_in.authenticate(request(made.text))
    tokens.state = "there"
    assert await ways_in.authenticate(request(made.text)) is not None
    tokens.token = replace(tokens.token, revoked_at=datetime.now(UTC))
    now += 10
    with pytest.raises(Unauthenticated):
        await ways_in.authenticate(request(made.text))
    tokens.state = "away"
    now += 10
    with pytest.raises(Unauthenticated):
        await ways_in.authenticate(request(made.text))
    await ways_in.aclose()
