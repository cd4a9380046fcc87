"""An ASGI application made slow, failing or unreliable for chosen requests, inside the real server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from api.problems import PROBLEM_JSON

App = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class Fault:
    """``method`` and ``path`` (a pattern for the whole path) say which requests it meets, ``times`` how many; None: all.

    ``met``: how many it met so far. ``arrived``: set at the first one.
    """

    method: str
    path: str
    act: Callable[[App, Any, Any, Any], Awaitable[None]]
    times: int | None = None
    met: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def fits(self, scope: Any) -> bool:
        spent = self.times is not None and self.met >= self.times
        return not spent and scope["method"] == self.method and re.fullmatch(self.path, scope["path"]) is not None

    def release(self) -> None:
        """Let go of what is held."""
        self.released.set()


class Faults:
    """What happens to which requests. The newest fault that fits counts."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def clear(self) -> None:
        """Nothing is wrong any more, and what was held goes on."""
        for fault in self._faults:
            fault.release()
        self._faults.clear()

    def hold(self, method: str, path: str, *, times: int | None = None) -> Fault:
        """Answer only after ``release()``."""

        async def act(app: App, scope: Any, receive: Any, send: Any) -> None:
            await fault.released.wait()
            await app(scope, receive, send)

        fault = self._add(method, path, act, times)
        return fault

    def fail(
        self,
        method: str,
        path: str,
        *,
        status: int = 503,
        kind: str = "unavailable",
        detail: str = "the object store is away",
        times: int | None = None,
    ) -> Fault:
        """Answer with a problem; the application does not see the request."""

        async def act(app: App, scope: Any, receive: Any, send: Any) -> None:
            body = json.dumps({"type": f"/problems/{kind}", "title": "Fault", "status": status, "detail": detail}).encode()
            await _answer(send, status, PROBLEM_JSON, body)

        return self._add(method, path, act, times)

    def answer(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        status: int = 200,
        media_type: str = "application/json",
        times: int | None = None,
    ) -> Fault:
        """Answer with this."""

        async def act(app: App, scope: Any, receive: Any, send: Any) -> None:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            await _answer(send, status, media_type, raw)

        return self._add(method, path, act, times)

    def lose_answer(self, method: str, path: str, *, times: int | None = 1) -> Fault:
        """The application does its work, and the connection breaks before its answer is through."""

        async def act(app: App, scope: Any, receive: Any, send: Any) -> None:
            done: list[Any] = []

            async def swallow(message: Any) -> None:
                done.append(message)

            await app(scope, receive, swallow)
            start = next(message for message in done if message["type"] == "http.response.start")
            headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
            # The server closes the connection of an answer that stays incomplete.
            await send({**start, "headers": [*headers, (b"content-length", b"1000000")]})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})

        return self._add(method, path, act, times)

    def around(self, app: App) -> App:
        """The application with the faults before it."""

        async def faulty(scope: Any, receive: Any, send: Any) -> None:
            fault = next((one for one in reversed(self._faults) if scope["type"] == "http" and one.fits(scope)), None)
            if fault is None:
                await app(scope, receive, send)
                return
            fault.met += 1
            fault.arrived.set()
            await fault.act(app, scope, receive, send)

        return faulty

    def _add(self, method: str, path: str, act: Callable[[App, Any, Any, Any], Awaitable[None]], times: int | None) -> Fault:
        fault = Fault(method, path, act, times)
        self._faults.append(fault)
        return fault


async def _answer(send: Any, status: int, media_type: str, body: bytes) -> None:
    headers = [
        (b"content-type", media_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
