"""The probes of a worker process: ``/livez``, ``/readyz``, ``/startupz``, answered by threads of their own.

The worker runs in the event loop of the main thread. A step that blocks it stops everything, and would stop an answer given from
there as well; from another thread a loop that stands still can be told apart from one that is busy.
"""

from __future__ import annotations

import asyncio
import json
import socket
import socketserver
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, cast

from memory.model.errors import InvalidSettings
from memory.settings import Settings
from memory.settings_api import split_address

_SETTING = "AFTERTURN_HEALTH_ADDRESS"
MAX_CONNECTIONS: Final = 16
REQUEST_WITHIN_S: Final = 5.0
_TICK_S: Final = 1.0


class Stage(StrEnum):
    """Of a worker's life, in this order."""

    CONNECTING = "connecting"
    CHECKING = "checking what it depends on"
    WORKING = "working"
    STOPPING = "stopping"


class Health:
    """What a worker process says of itself. Written by the event loop, read by the threads that answer.

    ``stage``: see :class:`Stage`. ``connected``: Temporal answered when it was last asked. ``polling``: by task queue, whether the
    server has seen this process ask for tasks.
    """

    def __init__(self, *, max_tick_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.stage = Stage.CONNECTING
        self.connected = False
        self.polling: dict[str, bool] = {}
        self._max_tick_s = max_tick_s
        self._now = now
        self._ticked = now()

    def tick(self) -> None:
        """The event loop moves."""
        self._ticked = self._now()

    @property
    def tick_age_s(self) -> float:
        return max(0.0, self._now() - self._ticked)

    @property
    def live(self) -> bool:
        """The event loop moved not long ago. True also while the process starts and stops."""
        return self.tick_age_s <= self._max_tick_s

    @property
    def started(self) -> bool:
        """All that it depends on was checked."""
        return self.stage in {Stage.WORKING, Stage.STOPPING}

    @property
    def ready(self) -> bool:
        """It asks for tasks, and would do one that it is given."""
        polling = dict(self.polling)
        return self.stage is Stage.WORKING and self.connected and self.live and bool(polling) and all(polling.values())

    def answer(self, path: str) -> tuple[int, dict[str, Any]] | None:
        """Status and body of a probe; None where there is no such probe."""
        tick = {"tick_age_s": round(self.tick_age_s, 3)}
        if path == "/livez":
            return _answer(self.live, "alive", "the event loop stands still", {**tick, "max_tick_s": self._max_tick_s})
        if path == "/startupz":
            return _answer(self.started, "started", "starting", {"stage": self.stage.value})
        if path == "/readyz":
            parts = {"stage": self.stage.value, "connected": self.connected, "polling": dict(self.polling), **tick}
            return _answer(self.ready, "ready", "not ready", parts)
        return None


def _answer(good: bool, yes: str, no: str, parts: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return (200, {"status": yes, **parts}) if good else (503, {"status": no, **parts})


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_WITHIN_S

    def do_GET(self) -> None:
        self._respond(body=True)

    def do_HEAD(self) -> None:
        self._respond(body=False)

    def _respond(self, *, body: bool) -> None:
        found = cast(_Server, self.server).health.answer(self.path.partition("?")[0])
        status, content = found or (404, {"status": "no such probe", "probes": ["/livez", "/readyz", "/startupz"]})
        data = json.dumps(content).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Probes come every few seconds: they are not logged."""


class _Server(socketserver.ThreadingTCPServer):
    """A bounded number of connections: the oldest makes room, so that clients which dawdle keep no probe out."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, place: tuple[str, int], health: Health) -> None:
        self.address_family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self.health = health
        self._connections: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(place, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections[request] = None
            oldest = next(iter(self._connections)) if len(self._connections) > MAX_CONNECTIONS else None
            if oldest is not None:
                del self._connections[oldest]
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away; what is wrong in the process the answers themselves say."""


@contextmanager
def answering(settings: Settings, health: Health) -> Generator[int | None]:
    """Probes are answered at ``health_address`` while the block runs; None where it is not set. Yields the port.

    Raises InvalidSettings: nobody can listen there (the port is taken, say).
    """
    place = split_address(settings.health_address) if settings.health_address else None
    if place is None:
        yield None
        return
    try:
        server = _Server(place, health)
    except (OSError, UnicodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "not a name of a host"
        raise InvalidSettings(f"{_SETTING}: cannot listen at {settings.health_address}: {why.lower()}") from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="afterturn probes", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def ticking(health: Health) -> AsyncGenerator[None]:
    """The event loop of this block says regularly that it moves."""

    async def tick() -> None:
        while True:
            health.tick()
            await asyncio.sleep(_TICK_S)

    health.tick()
    task = asyncio.create_task(tick(), name="afterturn tick")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
