"""Loading notices of an API process, on their way into the box that feeds the streams: in the background, and never waited for."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from memory.ports import Notice
from memory.ports.service import NoticeBox
from memory.settings import Settings
from starter.client import MemoryClient
from starter.client_parts import Parts
from starter.faults import fault

MAX_WAITING: Final = 2_000
AT_ONCE: Final = 200
WRITE_TIMEOUT_S: Final = 5.0
OUT_OF_DATE_S: Final = 30.0
"""A loading notice that is older than this has nothing to tell any more."""

_log = logging.getLogger(__name__)


class BoxRelay:
    """The ``on_notice`` of a :class:`starter.MemoryClient`: takes a notice at once, writes what waits in one transaction.

    While the database is away notices are given up, the oldest first; an answer does not depend on them.

    Attributes:
        lost: notices that were given up.
    """

    def __init__(self, box: NoticeBox) -> None:
        self._box = box
        self._waiting: deque[Notice] = deque()
        self._task: asyncio.Task[None] | None = None
        self.lost = 0

    def __call__(self, notice: Notice) -> None:
        """Never blocks and never raises. Called on the event loop."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.lost += 1
        self._waiting.append(notice)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name="afterturn notices into the box")

    async def _write(self) -> None:
        while self._waiting:
            now = datetime.now(UTC)
            some = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
            fresh = [notice for notice in some if (now - notice.at).total_seconds() < OUT_OF_DATE_S]
            self.lost += len(some) - len(fresh)
            try:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await self._box.put_all(fresh, now=now)
            except Exception as error:  # noqa: BLE001 - nothing of this may reach the answering path
                self.lost += len(fresh)
                _log.warning("%d loading notices did not reach the streams: %s", len(fresh), fault(error))

    async def aclose(self, *, within_s: float = 2.0) -> None:
        """Write what waits, then give up on it. Close the client first: it hands over its last notices when it is closed."""
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=within_s)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def box_relay(box: NoticeBox) -> BoxRelay:
    """An ``on_notice`` for a client; await its ``aclose`` before the box goes. See also :func:`telling_client`."""
    return BoxRelay(box)


def telling_client(settings: Settings, parts: Parts, box: NoticeBox) -> MemoryClient:
    """A client whose loading notices go to the streams, where the settings say so; closing it closes the way there first."""
    if not settings.notice_stream:
        return MemoryClient.from_parts(settings, parts)
    relay = BoxRelay(box)
    return MemoryClient.from_parts(settings, replace(parts, close=(relay.aclose, *parts.close)), on_notice=relay)
