"""What bounds a request: its size, its time, how many at once. Pure ASGI, so that streams stay streams."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import TooMany, problem
from memory.files import MAX_FILE_BYTES

MAX_BODY_BYTES: Final = 2 * 1024 * 1024
_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
"""A document of 1 MiB in JSON: many programs write 6 characters for one that is not ASCII."""
LARGER: Final[dict[str, int]] = {
    "/graphql": _DOCUMENT_BYTES,
    "/v1/profile": _DOCUMENT_BYTES,
    "/v1/profile/differences": _DOCUMENT_BYTES,
    "/v1/memory/preview": _DOCUMENT_BYTES,
    "/v1/knowledge/documents": MAX_FILE_BYTES + 64 * 1024,
}
"""Addresses that take more."""
MAX_BODY_S: Final = 60.0
"""A body is there within this time, or the request is over."""
MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024
"""Of all bodies that are in this process: they are read before it is known who sends them."""
DRAIN_TIMES: Final = 4
DRAIN_S: Final = 2.0
MAX_HEADER_BYTES: Final = 64 * 1024
ALWAYS: Final = frozenset({"/healthz", "/readyz"})
"""Answered however busy the process is."""
STALLED_S: Final = 60.0
"""A client that takes nothing of its answer for so long is given up."""
LEAST_SHARE: Final = 8
"""Places that one caller may have in any case, so that a page can read all its parts at once."""

_EVENT_STREAM: Final = "text/event-stream"

_log = logging.getLogger(__name__)


def path_of(scope: Scope) -> str:
    """The path as the routes have it: without what a public address has before them."""
    path, root = scope["path"], scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(root + "/") else path


class _Refused(Exception):
    """Ends the application's reading; what it makes of that is not the answer."""


class BodyLimit:
    """Refuses bodies of more than ``most`` bytes, by what they say of themselves and by what comes, and those that never end."""

    def __init__(
        self, app: ASGIApp, most: int = MAX_BODY_BYTES, within_s: float = MAX_BODY_S, total: int = MAX_TOTAL_BYTES
    ) -> None:
        self._app = app
        self._most = most
        self._within_s = within_s
        self._total = total
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = max(self._most, LARGER.get(path_of(scope), 0))
        told = Headers(scope=scope).get("content-length", "0")
        if not told.isdecimal() or len(told) > 18 or int(told) > most:
            await self._too_large(most, scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + self._within_s
        seen, whole, started = 0, False, False
        over: str | None = None

        async def counted() -> Message:
            nonlocal seen, whole, over
            if over is not None:
                raise _Refused
            if whole:
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                over = "time"
                raise _Refused from None
            if message["type"] == "http.request":
                size = len(message.get("body", b""))
                seen += size
                self._held += size
                whole = not message.get("more_body", False)
                if seen > most or self._held > self._total:
                    over = "size" if seen > most else "total"
                    raise _Refused
            return message

        async def sending(message: Message) -> None:
            nonlocal started
            if over is None or started:
                started = True
                await send(message)

        try:
            with contextlib.suppress(_Refused):
                await self._app(scope, counted, sending)
            if over is not None and not started:
                refuse = {"size": self._too_large, "total": self._too_much, "time": self._too_slow}[over]
                await refuse(most, scope, receive, send)
        finally:
            self._held -= seen

    # What was not read of the body is in the way of another request, so the connection ends.

    async def _too_large(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem(413, "too-large", f"a body has at most {most} bytes", headers={"Connection": "close"})
        await send({"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        # A client that is still sending when the connection ends may never see the answer, so a bit more is taken and dropped.
        dropped = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while dropped < DRAIN_TIMES * most:
                    message = await receive()
                    dropped += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _too_much(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        detail = "too many large bodies are being read in this process; come back in a moment"
        await problem(503, "too-busy", detail, headers={"Connection": "close", "Retry-After": "2"})(scope, receive, send)

    async def _too_slow(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem(408, "too-slow", f"the body did not arrive within {self._within_s:g} s", headers={"Connection": "close"})
        await answer(scope, receive, send)


class Place:
    """One of the places of :class:`Admission`, once it is known who has it."""

    def __init__(self, claimed: Counter[str], share: int) -> None:
        self._claimed = claimed
        self._share = share
        self._caller: str | None = None
        self._is_open = True

    def claim(self, caller: str) -> None:
        """Raises TooMany: this caller has as many as one may."""
        if not self._is_open or self._caller is not None:
            return
        if self._claimed[caller] >= self._share:
            raise TooMany(f"{self._share} of your requests are being answered; wait for one of them", retry_after_s=1)
        self._caller = caller
        self._claimed[caller] += 1

    def leave(self) -> None:
        self._is_open = False
        if self._caller is not None:
            self._claimed[self._caller] -= 1
            if self._claimed[self._caller] <= 0:
                del self._claimed[self._caller]
            self._caller = None


class Admission:
    """At most ``most`` requests at once, each answered (its answer begun) within ``within_s``. No caller has more than half of
    them, and whoever does not read an answer loses it after ``stalled_s``: nobody can keep all others out.

    An event stream takes no place once it has begun: streams are counted by themselves.
    """

    def __init__(self, app: ASGIApp, most: int, within_s: float, stalled_s: float = STALLED_S) -> None:
        self._app = app
        self._most = most
        self._share = max(LEAST_SHARE, most // 2)
        self._within_s = within_s
        self._stalled_s = stalled_s
        self._running = 0
        self._claimed: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or path_of(scope) in ALWAYS:
            await self._app(scope, receive, send)
            return
        if self._running >= self._most:
            detail = f"{self._most} requests are being answered in this process; come back in a moment"
            await problem(503, "too-busy", detail, headers={"Retry-After": "1"})(scope, receive, send)
            return
        self._running += 1
        place = scope.setdefault("state", {})["place"] = Place(self._claimed, self._share)
        placed, started = True, False
        bound = asyncio.timeout(self._within_s)
        loop = asyncio.get_running_loop()

        def set_bound(seconds: float | None) -> None:
            if not bound.expired():
                bound.reschedule(None if seconds is None else loop.time() + seconds)

        async def sending(message: Message) -> None:
            nonlocal placed, started
            if message["type"] == "http.response.start":
                started = True
                if placed and Headers(raw=message["headers"]).get("content-type", "").startswith(_EVENT_STREAM):
                    placed = False
                    self._running -= 1
                    place.leave()
            # The time until an answer begins is over; from here on it is the client's.
            set_bound(self._stalled_s)
            try:
                await send(message)
            finally:
                set_bound(None)

        try:
            async with bound:
                await self._app(scope, receive, sending)
        except TimeoutError:
            if not bound.expired():
                raise
            if started:
                # The server ends the connection of an answer that is not whole.
                _log.info("an answer was given up: its client took nothing of it for %g s", self._stalled_s)
                return
            detail = f"not done within {self._within_s:g} s; whether it will be is not known, so look before doing it again"
            await problem(504, "too-slow", detail)(scope, receive, send)
        finally:
            place.leave()
            if placed:
                self._running -= 1
