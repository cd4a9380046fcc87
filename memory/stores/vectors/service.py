"""The vector index of this process for the other processes of this machine: the port's calls over HTTP on loopback.

The embedded engine belongs to one process. ``afterturn dev`` owns it and serves it; every call carries a token that is made
anew with each start and is told only through ``dev.json``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from typing import Final

import uvicorn
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from memory.model.errors import AfterturnError, InvalidInput, MemoryUnavailable
from memory.ports.vectors import VectorIndex
from memory.stores.vectors.calls import CALLS, MAX_REQUEST_BYTES, PATH, STATUSES, Call

logger = logging.getLogger(__name__)

MAX_AT_ONCE: Final = 200
GRACE_S: Final = 5
"""Calls that run may end within this time when the service stops."""
_START_S = 10.0
_JSON = "application/json"


@contextlib.asynccontextmanager
async def serve(index: VectorIndex, *, token: str) -> AsyncGenerator[str]:
    """Serves ``index`` on a free port of 127.0.0.1 and yields ``http://127.0.0.1:<port>``. Always stops; leaves ``index`` open.

    Raises:
        InvalidInput: an empty token.
        MemoryUnavailable: the service does not start.
    """
    if not token:
        raise InvalidInput("the vector service needs a token")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        server = _Server(
            uvicorn.Config(
                _application(index, token),
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                limit_concurrency=MAX_AT_ONCE,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        task = asyncio.create_task(server.serve(sockets=[listener]), name="vector service")
        try:
            await _started(server, task)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            await _stop(server, task)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are for the process that this is a part of."""
        yield


async def _started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_START_S):
            while not server.started and not task.done():
                await asyncio.sleep(0.005)
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        raise MemoryUnavailable(f"the vector service does not start ({type(error).__name__})") from error
    if not server.started:
        raise MemoryUnavailable(f"the vector service does not start within {_START_S:g} s")


async def _stop(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    server.should_exit = True
    done, _ = await asyncio.wait({task}, timeout=GRACE_S + 2)
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=1)
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("the vector service ended with %s", type(error).__name__)


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
