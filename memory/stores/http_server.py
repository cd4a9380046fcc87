"""An HTTP server inside this process, beside everything else that runs in it: always stops, leaves signals to the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncGenerator, Generator
from typing import Any, Final

import uvicorn

from memory.model.errors import MemoryUnavailable

logger = logging.getLogger(__name__)

GRACE_S: Final = 5.0
KEEP_ALIVE_S: Final = 75
"""An idle connection is kept so long: longer than proxies and clients keep theirs, so that none is closed under a request."""
_START_S = 10.0


def listening(host: str, port: int, *, name: str) -> socket.socket:
    """A socket that has the port from now on: who connects waits until a server takes it over. Raises MemoryUnavailable."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, the event loop switches Nagle's algorithm off for the connections: else the end of an answer waits
    # 40 ms for the acknowledgement of its beginning.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # Another socket may be bound to the same port as long as neither listens.
        listener.listen()
    except OSError as error:
        listener.close()
        raise MemoryUnavailable(f"{name} cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


@contextlib.asynccontextmanager
async def serving(
    app: Any,
    *,
    name: str,
    host: str = "127.0.0.1",
    port: int = 0,
    lifespan: bool = False,
    grace_s: float = GRACE_S,
    given: socket.socket | None = None,
    **options: Any,
) -> AsyncGenerator[str]:
    """Serves an ASGI application and yields ``http://<host>:<port>``.

    Args:
        app: the application. An ``asyncio.Event`` at ``app.state.stopping`` is set when the server begins to stop, so that answers
            without an end of their own can end.
        name: for errors and the log.
        host: an address of this machine.
        port: 0: a free one.
        lifespan: run the application's start-up and shutdown.
        grace_s: requests that run may end within this time when the server stops.
        given: what :func:`listening` gave for this host and port, from now on the server's.
        options: of ``uvicorn.Config``.

    Raises:
        MemoryUnavailable: the port is taken, or the server does not start.
    """
    options.setdefault("timeout_keep_alive", KEEP_ALIVE_S)
    with given or listening(host, port, name=name) as listener:
        server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on" if lifespan else "off",
                ws="none",
                timeout_graceful_shutdown=max(1, round(grace_s)),
                **options,
            )
        )
        task = asyncio.create_task(server.serve(sockets=[listener]), name=name)
        try:
            await _started(server, task, name)
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{listener.getsockname()[1]}"
        finally:
            await _stop(server, task, name, grace_s)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are for the process that this is a part of."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping = getattr(getattr(self.config.app, "state", None), "stopping", None)
        if isinstance(stopping, asyncio.Event):
            stopping.set()
        await super().shutdown(sockets)


async def _started(server: uvicorn.Server, task: asyncio.Task[None], name: str) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_START_S):
            while not server.started and not task.done():
                await asyncio.sleep(0.005)
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        raise MemoryUnavailable(f"{name} does not start ({type(error).__name__})") from error
    if not server.started:
        raise MemoryUnavailable(f"{name} does not start within {_START_S:g} s")


async def _stop(server: uvicorn.Server, task: asyncio.Task[None], name: str, grace_s: float) -> None:
    server.should_exit = True
    done, _ = await asyncio.wait({task}, timeout=grace_s + 2)
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=1)
    if task.done() and not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("%s ended with %s", name, type(error).__name__)
