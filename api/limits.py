"""What bounds a request: its size, its time, how many at once. Pure ASGI, so that streams stay streams."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import problem
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

_EVENT_STREAM: Final = "text/event-stream"


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
        most = max(self._most, LARGER.get(scope["path"], 0))
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
        # A client that is still sending when the connection ends may never see the answer, so a bit more is taken and dropped.
        dropped = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while dropped < DRAIN_TIMES * most:
                    message = await receive()
                    dropped += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        answer = problem(413, "too-large", f"a body has at most {most} bytes", headers={"Connection": "close"})
        await answer(scope, receive, send)

    async def _too_much(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        detail = "too many large bodies are being read in this process; come back in a moment"
        await problem(503, "too-busy", detail, headers={"Connection": "close", "Retry-After": "2"})(scope, receive, send)

    async def _too_slow(self, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        answer = problem(408, "too-slow", f"the body did not arrive within {self._within_s:g} s", headers={"Connection": "close"})
        await answer(scope, receive, send)


class Admission:
    """At most ``most`` requests at once, each answered (its answer begun) within ``within_s``.

    An event stream takes no place once it has begun: streams are counted by themselves.
    """

    def __init__(self, app: ASGIApp, most: int, within_s: float) -> None:
        self._app = app
        self._most = most
        self._within_s = within_s
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in ALWAYS:
            await self._app(scope, receive, send)
            return
        if self._running >= self._most:
            detail = f"{self._most} requests are being answered in this process; come back in a moment"
            await problem(503, "too-busy", detail, headers={"Retry-After": "1"})(scope, receive, send)
            return
        self._running += 1
        placed, started = True, False
        bound = asyncio.timeout(self._within_s)

        async def sending(message: Message) -> None:
            nonlocal placed, started
            if message["type"] == "http.response.start":
                started = True
                bound.reschedule(None)
                if placed and Headers(raw=message["headers"]).get("content-type", "").startswith(_EVENT_STREAM):
                    placed = False
                    self._running -= 1
            await send(message)

        try:
            async with bound:
                await self._app(scope, receive, sending)
        except TimeoutError:
            if started or not bound.expired():
                raise
            detail = f"not done within {self._within_s:g} s; whether it will be is not known, so look before doing it again"
            await problem(504, "too-slow", detail)(scope, receive, send)
        finally:
            if placed:
                self._running -= 1
