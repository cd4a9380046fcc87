"""Around everything: security headers, an id and one log line per request, and an answer whatever happens inside.

The log line has the route's template, never the address that was asked for: addresses may hold ids and words of a user.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.limits import ALWAYS, path_of
from api.problems import problem
from memory import telemetry
from memory.model import metrics
from memory.model.access import Principal
from memory.model.ids import new_id
from starter.faults import fault

REQUEST_ID: Final = "X-Request-Id"
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[dict[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # What is not personal says so itself.
    "Cache-Control": "no-store",
}
HSTS: Final = "max-age=31536000"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")
_log = structlog.get_logger("afterturn.api")


class Outermost:
    """``template``: the route's template of a scope that was routed. ``https``: whether browsers reach this server by https."""

    def __init__(self, app: ASGIApp, *, template: Callable[[Mapping[str, Any]], str], https: bool) -> None:
        self._app = app
        self._template = template
        self._headers = {**HEADERS, **({"Strict-Transport-Security": HSTS} if https else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        carrier = {"traceparent": parent} if (parent := _header(scope, b"traceparent")) else None
        with telemetry.span(f"HTTP {_method(scope)}", server=True, carrier=carrier):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = time.perf_counter()
        state: dict[str, Any] = scope.setdefault("state", {})
        request_id = _request_id(scope)
        state["request_id"] = request_id
        status = 0
        streamed = False

        async def sending(message: Message) -> None:
            nonlocal status, streamed
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                streamed = headers.get("content-type", "").startswith("text/event-stream")
                self._complete(headers, state, request_id)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, sending)
            except Exception as error:
                _log.error("request_failed", method=_method(scope), route=self._template(scope), fault=fault(error))
                if status:
                    raise  # half an answer is out; the connection has to end
                await problem(500, "error", "a fault of this program; its log has more")(scope, receive, sending)
            finally:
                seconds = time.perf_counter() - begun
                _measure(_method(scope), self._template(scope), status, None if streamed else seconds)
                principal: Principal | None = state.get("principal")
                log = _log.debug if path_of(scope) in ALWAYS else _log.info
                log(
                    "request",
                    method=_method(scope),
                    route=self._template(scope),
                    status=status or "none",
                    ms=round(seconds * 1000, 1),
                    caller=principal.caller if principal else "nobody",
                )

    def _complete(self, headers: MutableHeaders, state: dict[str, Any], request_id: str) -> None:
        headers[REQUEST_ID] = request_id
        for name, value in self._headers.items():
            headers.setdefault(name, value)
        rate = state.get("rate")
        for name, value in rate.headers.items() if rate is not None else ():
            headers.setdefault(name, value)


def _measure(method: str, route: str, status: int, seconds: float | None) -> None:
    telemetry.note({"http.route": route, "http.response.status_code": status}, name=f"{method} {route}")
    telemetry.count(metrics.HTTP_REQUESTS, route=route, method=method, status=str(status or "none"))
    if seconds is not None:
        telemetry.observe(metrics.HTTP_REQUEST_DURATION, seconds, route=route, method=method)


def _header(scope: Scope, wanted: bytes) -> str:
    return next((value for name, value in scope["headers"] if name == wanted), b"").decode("latin-1")


def _request_id(scope: Scope) -> str:
    given = _header(scope, b"x-request-id")
    return given if _WELL_FORMED.fullmatch(given) else new_id()


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in _METHODS else "other"
