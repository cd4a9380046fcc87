"""A process's connection to Temporal that outlives its certificates: files that change lead to a new connection.

A client of the SDK holds the certificate and the key that it was made with, for ever. So the configuration is read again now and
then (``certificates_check_s``); where its keys, certificates or headers differ from those in use a new client is made, and whoever
works with the old one gets it. What is under way on the old one ends there. Another address or namespace needs a new start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig

from memory.model.errors import AfterturnError
from memory.settings import Settings
from starter.faults import fault
from starter.temporal import connect, connect_options

_log = structlog.get_logger("afterturn.connection")


class Connection:
    """For one event loop; safe for many tasks. ``lazy``: as :func:`starter.temporal.connect` says."""

    def __init__(self, settings: Settings, *, lazy: bool = False) -> None:
        self._settings = settings
        self._lazy = lazy
        self._client: Client | None = None
        self._used: ClientConnectConfig = {}
        self._checked = 0.0
        self._connecting = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None
        self._followers: list[Callable[[Client], None]] = []

    @property
    def client(self) -> Client:
        """The one of now. Only after :meth:`current` has been awaited once."""
        assert self._client is not None  # noqa: S101
        return self._client

    def follow(self, use: Callable[[Client], None]) -> None:
        """``use`` gets each later client, as soon as it is connected."""
        self._followers.append(use)

    async def current(self) -> Client:
        """The client of now, at once where there is one; whether files have changed is looked up in the background.

        Raises InvalidSettings, MemoryUnavailable: the first connection does not come about.
        """
        if self._client is None:
            async with self._connecting:
                if self._client is None:
                    self._used = await asyncio.to_thread(connect_options, self._settings)
                    self._client = await connect(self._settings, lazy=self._lazy)
                    self._checked = time.monotonic()
        elif self._renewing is None and time.monotonic() - self._checked > self._settings.certificates_check_s:
            self._renewing = asyncio.create_task(self._renew(), name="afterturn renew connection")
        return self._client

    async def _renew(self) -> None:
        """A new client where the configuration has changed. Never raises: the old one stays until the new one is connected."""
        try:
            # Read before the connection is made: what changes in between counts as changed at the next look.
            found = await asyncio.to_thread(connect_options, self._settings)
            if _credentials(found) == _credentials(self._used) or _place(found) != _place(self._used):
                return
            client = await connect(self._settings)
            self._client, self._used = client, found
            for use in self._followers:
                try:
                    use(client)
                except Exception as error:  # noqa: BLE001 - a worker that has just ended, say; the others need it all the same
                    _log.warning("temporal_connection_not_taken", error=fault(error))
            _log.info("temporal_connection_renewed")
        except AfterturnError as error:
            # A certificate and a key that do not belong together yet, say: the other file comes.
            _log.warning("temporal_connection_not_renewed", error=error.message)
        except Exception as error:  # noqa: BLE001 - in the background; it is tried again
            _log.warning("temporal_connection_not_renewed", error=fault(error))
        finally:
            self._checked = time.monotonic()
            self._renewing = None

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        """Looks regularly while the block runs, for a process that asks for no client by itself."""

        async def look() -> None:
            while True:
                await asyncio.sleep(self._settings.certificates_check_s)
                await self.current()

        task = asyncio.create_task(look(), name="afterturn watch certificates")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.aclose()

    async def aclose(self) -> None:
        """Ends a renewal that is under way."""
        task = self._renewing
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _place(options: ClientConnectConfig) -> tuple[Any, Any]:
    return options.get("target_host"), options.get("namespace")


def _credentials(options: ClientConnectConfig) -> tuple[Any, Any, Any]:
    return options.get("tls"), options.get("api_key"), options.get("rpc_metadata")
