"""A receiver of notices on loopback: checks the signature and keeps what came, in order of arrival."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from memory.stores.notices import SIGNATURE_HEADER, verify_signature

SECRET = "shared-by-sender-and-receiver"
MAX_HOLD_S = 30.0


@dataclass
class WebhookReceiver:
    """``notices``: the JSON objects. ``hold``: while it is not set, calls wait for their answer (at most 30 s)."""

    notices: list[dict[str, Any]] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.hold.set()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="webhook", daemon=True)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that send the notices here, by field name."""
        url = f"http://127.0.0.1:{self._server.server_address[1]}/notices"
        return {"notice_webhook_url": url, "notice_webhook_secret": SECRET}

    def of(self, tenant_id: str, user_id: str) -> list[dict[str, Any]]:
        """Those of one user, in order of arrival."""
        return [n for n in list(self.notices) if (n["tenant_id"], n["user_id"]) == (tenant_id, user_id)]

    def __enter__(self) -> WebhookReceiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Senders are killed in mid call here; their broken connections are no failure of the test."""


def _handler(owner: WebhookReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = MAX_HOLD_S

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                verify_signature(SECRET, self.headers[SIGNATURE_HEADER], body)
                owner.notices.append(json.loads(body))
            except Exception as error:  # noqa: BLE001 - told to the test, which fails
                owner.failures.append(error)
            owner.hold.wait(MAX_HOLD_S)
            self.send_response(204)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler
