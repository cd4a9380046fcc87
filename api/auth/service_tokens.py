"""Service tokens (``aft_…``): an orchestrator acts for the users of its own company."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from fastapi import Request

from api.auth.claims import SERVICE_MOST
from api.auth.tokens import bearer, refused
from memory.model.access import Permission, Principal, Role
from memory.model.errors import AfterturnError, MemoryUnavailable
from memory.model.ids import decode_segment
from memory.model.service_token import PREFIX, parse_token
from memory.ports.service import ServiceToken, ServiceTokens
from starter.faults import fault

CACHE_S: Final = 5.0
"""A revoked token works on for at most this long in a process."""
AWAY_S: Final = 300.0
"""While the database is away, what it last said of a token that was there is believed for at most so long: answers go on without
memory, and turns wait in the spool, instead of being turned away at the door."""
AWAY_WAIT_S: Final = 0.1
"""Who has a token that is known waits no longer than this for a database that does not answer."""
MAX_CACHED: Final = 10_000
MAX_LOOKUPS: Final = 8
"""Looked up at once: guessed tokens do not take the whole pool of connections."""
USED_EVERY_S: Final = 60.0

_NOBODYS: Final = "0" * 64
_log = logging.getLogger(__name__)


class ServiceTokenAuthenticator:
    """For one event loop.

    Args:
        cache_s: how long what the database said of a token is believed, be it that there is none.
    """

    def __init__(self, tokens: ServiceTokens, *, cache_s: float = CACHE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._cache_s = cache_s
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, tuple[ServiceToken, str] | None]] = OrderedDict()
        self._used: OrderedDict[str, float] = OrderedDict()
        self._looking = asyncio.Semaphore(MAX_LOOKUPS)
        self._ask_again_at = float("-inf")
        self._writing: set[asyncio.Task[None]] = set()

    async def authenticate(self, request: Request) -> Principal | None:
        """Raises Unauthenticated with the same words for an unknown, a wrong, a revoked and an expired token."""
        text = bearer(request)
        if text is None or not text.startswith(f"{PREFIX}_"):
            return None
        given = parse_token(text)
        if given is None:
            raise refused("this is no service token: one has the form aft_<id>_<secret>")
        found = await self._find(given.token_id)
        token, secret_hash = found if found is not None else (None, _NOBODYS)
        # Compared in any case, so that the time says nothing of which ids there are.
        right = given.has_secret(secret_hash)
        if token is None or not right or not token.usable(datetime.now(UTC)):
            raise refused("the service token is unknown, revoked or expired (see `afterturn tokens list`)")
        self._note_use(token.token_id)
        return Principal(
            tenant_id=decode_segment(token.tenant),
            subject=None,
            roles=frozenset({Role.SERVICE}),
            permissions=frozenset(Permission(one) for one in token.permissions) & SERVICE_MOST,
            caller=f"service:{token.token_id}",
            via="service",
        )

    async def aclose(self) -> None:
        """Let times of use that are being written be written."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=2)

    async def _find(self, token_id: str) -> tuple[ServiceToken, str] | None:
        if (known := self._cached(token_id)) is not None:
            return known[1]
        last = self._last_known(token_id)
        if last is not None and self._clock() < self._ask_again_at:
            return last
        asked_at = self._clock()
        try:
            async with asyncio.timeout(None if last is None else AWAY_WAIT_S), self._looking:
                if (known := self._cached(token_id)) is not None:
                    return known[1]
                asked_at = self._clock()
                found = await self._tokens.find(token_id)
        except (MemoryUnavailable, TimeoutError):
            if last is None:
                raise
            self._ask_again_at = self._clock() + self._cache_s
            return last
        self._known[token_id] = (asked_at, found)
        self._known.move_to_end(token_id)
        while len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return found

    def _cached(self, token_id: str) -> tuple[float, tuple[ServiceToken, str] | None] | None:
        known = self._known.get(token_id)
        return known if known is not None and self._clock() - known[0] < self._cache_s else None

    def _last_known(self, token_id: str) -> tuple[ServiceToken, str] | None:
        """What was said of it a while ago, where it was there."""
        known = self._known.get(token_id)
        return known[1] if known is not None and self._clock() - known[0] < AWAY_S else None

    def _note_use(self, token_id: str) -> None:
        """In the background: a caller does not wait for it, and a database that is away refuses nobody for it."""
        now = self._clock()
        if now - self._used.get(token_id, float("-inf")) < USED_EVERY_S:
            return
        self._used[token_id] = now
        self._used.move_to_end(token_id)
        while len(self._used) > MAX_CACHED:
            self._used.popitem(last=False)
        task = asyncio.create_task(self._write_use(token_id), name="noting the use of a service token")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write_use(self, token_id: str) -> None:
        try:
            await self._tokens.used(token_id, now=datetime.now(UTC))
        except AfterturnError as error:
            _log.info("the use of a service token was not noted: %s", error.message)
        except Exception as error:  # noqa: BLE001 - told by its type and place
            _log.warning("the use of a service token was not noted: %s", fault(error))
