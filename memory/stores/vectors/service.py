"""The vector index of this process for the other processes of this machine: the port's calls over HTTP on loopback.

The embedded engine belongs to one process. ``afterturn dev`` owns it and serves it; every call carries a token that is made
anew with each start and is told only through ``dev.json``.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import AsyncGenerator
from typing import Final

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from memory.model.errors import AfterturnError, InvalidInput
from memory.ports.vectors import VectorIndex
from memory.stores.http_server import serving
from memory.stores.vectors.calls import CALLS, MAX_REQUEST_BYTES, PATH, STATUSES, Call

MAX_AT_ONCE: Final = 200
_JSON = "application/json"


@contextlib.asynccontextmanager
async def serve(index: VectorIndex, *, token: str, port: int = 0) -> AsyncGenerator[str]:
    """Serves ``index`` on a port of 127.0.0.1 (0: a free one) and yields ``http://127.0.0.1:<port>``. Always stops; leaves
    ``index`` open.

    Raises:
        InvalidInput: an empty token.
        MemoryUnavailable: the service does not start.
    """
    if not token:
        raise InvalidInput("the vector service needs a token")
    async with serving(_application(index, token), name="the vector service", port=port, limit_concurrency=MAX_AT_ONCE) as address:
        yield address


def _application(index: VectorIndex, token: str) -> Starlette:
    expected = f"Bearer {token}".encode()

    async def answer(request: Request) -> Response:
        given = request.headers.get("authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, expected):
            return _failure(401, "NotPermitted", "the token is not that of this service")
        call = CALLS.get(request.path_params["call"])
        if call is None:
            return _failure(404, "InvalidInput", "no such call")
        body = await _body(request)
        if body is None:
            return _failure(413, "InvalidInput", f"a call to the vector service has at most {MAX_REQUEST_BYTES} bytes")
        return await _answer(index, call, body)

    return Starlette(routes=[Route(PATH + "{call}", answer, methods=["POST"])])


async def _answer(index: VectorIndex, call: type[Call], body: bytes) -> Response:
    try:
        arguments = call.model_validate_json(body)
    except ValidationError as error:
        kind = error.errors(include_url=False, include_input=False, include_context=False)[0]["type"]
        return _failure(400, "InvalidInput", f"not the arguments of {call.__name__} ({kind})")
    try:
        result = await arguments.run(index)
        return Response(call.result.dump_json(call.result.validate_python(result)), media_type=_JSON)
    except AfterturnError as error:
        status = next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)
        return _failure(status, type(error).__name__, error.message)


async def _body(request: Request) -> bytes | None:
    """None when it is too large; read no further than that."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_REQUEST_BYTES:
                return None
    except ClientDisconnect:
        return b""  # nobody waits for the answer
    return bytes(body)


def _failure(status: int, error: str, message: str) -> Response:
    return Response(to_json({"error": error, "message": message}), status, media_type=_JSON)
