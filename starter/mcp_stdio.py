"""Standard input and output as an MCP transport that ends when it is told to.

The SDK's own reads in a thread that nothing can call off: after SIGTERM it would wait for the client's next line. Here a thread of
no importance reads the bytes; whoever waits for a line can be cancelled. While this lasts, file descriptor 1 is standard error, so
that nothing else writes between the messages.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import anyio
from anyio import to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
"""Of one message; a longer one is answered as one that cannot be read."""
_CHUNK_BYTES: Final = 64 * 1024
_WAITING_LINES: Final = 16
_TOO_LONG: Final = "a message of more than 4 MiB"


class _Lines:
    """Lines of a descriptor, read in a thread; ends with it, or when told to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(_WAITING_LINES)
        threading.Thread(target=self._read, name="afterturn mcp input", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._queue.get()) is not None:
            yield line

    def end(self) -> None:
        """The client is gone: nothing more is read."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    def _read(self) -> None:
        kept, overlong = bytearray(), False
        with suppress(OSError, RuntimeError, asyncio.CancelledError):  # the loop has ended
            while chunk := os.read(self._descriptor, _CHUNK_BYTES):
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    kept += line
                    self._hand(_TOO_LONG if overlong or len(kept) > MAX_LINE_BYTES else kept.decode("utf-8", "replace"))
                    kept, overlong = bytearray(), False
                kept += rest
                if len(kept) > MAX_LINE_BYTES:
                    kept, overlong = bytearray(), True
            self._hand(None)

    def _hand(self, line: str | None) -> None:
        asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()


class _Out:
    """Writes to a descriptor. A client that is gone ends the input too; one that does not read can be left."""

    def __init__(self, descriptor: int, lines: _Lines) -> None:
        self._descriptor = descriptor
        self._lines = lines

    async def write(self, text: str) -> None:
        try:
            await to_thread.run_sync(self._write, text.encode("utf-8", "replace"), abandon_on_cancel=True)
        except OSError:
            self._lines.end()

    async def flush(self) -> None:
        """Nothing is kept back."""

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]


@asynccontextmanager
async def _standard_streams() -> AsyncGenerator[tuple[int, int]]:
    """The two descriptors of the wire; 0 and 1 mean nothing and standard error meanwhile."""
    given, taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield given, taken
    finally:
        os.dup2(given, 0)
        os.dup2(taken, 1)


async def serve(server: MCPServer[Any]) -> None:
    """Serve one client on standard input and output until it closes them, or until this is cancelled."""
    low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]  # its only way to a transport of one's own
    async with _standard_streams() as (given, taken):
        lines = _Lines(given)
        stdin, stdout = cast("anyio.AsyncFile[str]", lines), cast("anyio.AsyncFile[str]", _Out(taken, lines))
        async with stdio_server(stdin, stdout) as (read, write):
            await low.run(read, write, low.create_initialization_options())
