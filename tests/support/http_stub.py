"""A local HTTP server that answers as it is told, for adapters whose real server cannot be had.

    http_stub.script(HttpReply({"result": True}), HttpReply(status=503))   # one step per request
    http_stub.default = lambda request: HttpReply({"path": request.path})  # when the script is used up

Everything that was asked is in ``http_stub.requests``.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest

MAX_WAIT_S = 30.0


@dataclass(frozen=True)
class HttpRequest:
    """``headers``: names in lower case. ``body``: parsed JSON, None without one."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class HttpReply:
    """``body``: JSON, or bytes as they are. ``fault``: ``hang`` never answers; ``drop`` closes unanswered; ``drip`` sends a body
    that does not end."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Literal["hang", "drop", "drip"] | None = None


Step = HttpReply | Callable[[HttpRequest], HttpReply]


class HttpStub:
    """On loopback and a free port; a context manager."""

    def __init__(self) -> None:
        self.default: Step = HttpReply({})
        self.requests: list[HttpRequest] = []
        self.failures: list[BaseException] = []
        self.stopping = threading.Event()
        self._steps: deque[Step] = deque()
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="http-stub", daemon=True)

    def script(self, *steps: Step) -> None:
        with self._lock:
            self._steps.extend(steps)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, request: HttpRequest) -> Step:
        with self._lock:
            self.requests.append(request)
            return self._steps.popleft() if self._steps else self.default

    def connected(self, connection: socket.socket, *, here: bool) -> None:
        with self._lock:
            (self._connections.add if here else self._connections.discard)(connection)

    def __enter__(self) -> HttpStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        with self._lock:
            still_open = list(self._connections)
        for connection in still_open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the other side was first
        self._server.server_close()
        self._thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError) and error is not None:
            self.RequestHandlerClass.stub.failures.append(error)  # type: ignore[attr-defined]


def _handler(owner: HttpStub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        stub = owner
        protocol_version = "HTTP/1.1"
        timeout = MAX_WAIT_S
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            owner.connected(self.connection, here=True)

        def finish(self) -> None:
            owner.connected(self.connection, here=False)
            super().finish()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = HttpRequest(self.command, self.path, headers, json.loads(raw) if raw else None)
            step = owner.take(request)
            reply = step if isinstance(step, HttpReply) else step(request)
            if reply.fault in {"hang", "drop"}:
                if reply.fault == "hang":
                    owner.stopping.wait(MAX_WAIT_S)
                self.close_connection = True
                return
            payload = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "1000000" if reply.fault == "drip" else str(len(payload)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.fault == "drip":
                self.close_connection = True
                while not owner.stopping.wait(0.02):
                    self.wfile.write(b" ")
            else:
                self.wfile.write(payload)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer  # noqa: N815

    return Handler


@pytest.fixture
def http_stub() -> Iterator[HttpStub]:
    """A fresh stub per test; an error inside it fails the test."""
    with HttpStub() as stub:
        yield stub
    if stub.failures:
        raise stub.failures[0]
