"""Notices of all users, from the box of the database to the streams of this process: one reader, many listeners.

The box is read while somebody listens: every quarter of a second it is asked whether there is anything new. What is read again
because a transaction may commit later than one that began after it is told by its number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from memory.model.errors import AfterturnError
from memory.model.scope import Scope
from memory.ports.service import BoxedNotice, NoticeBox
from starter.faults import fault

POLL_S: Final = 0.25
SWEEP_POLLS: Final = 8
"""After so many looks at the last number the window is read in any case, for what committed late."""
OVERLAP: Final = timedelta(seconds=10)
"""Of what is read again; longer than a transaction takes, and than clocks of two machines differ."""
PAGE: Final = 10_000
QUEUE: Final = 256
"""Notices that wait for one listener."""
LONGEST_PAUSE_S: Final = 5.0
"""Between two tries while the database is away."""

_log = logging.getLogger(__name__)


class Listener:
    """One stream. What it does not take in time ends it: it comes back and reads the box from where it was."""

    def __init__(self, scope: Scope, room: int) -> None:
        self.scope = scope
        self._queue: asyncio.Queue[BoxedNotice | None] = asyncio.Queue(room)
        self.behind = False

    async def next(self) -> BoxedNotice | None:
        """None: this listener fell behind and gets nothing more."""
        return None if self.behind else await self._queue.get()

    def put(self, boxed: BoxedNotice) -> None:
        if self.behind:
            return
        try:
            self._queue.put_nowait(boxed)
        except asyncio.QueueFull:
            self.end()

    def end(self) -> None:
        self.behind = True
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)


class NoticeHub:
    """For one event loop. ``room``: see :data:`QUEUE`."""

    def __init__(self, box: NoticeBox, *, poll_s: float = POLL_S, room: int = QUEUE) -> None:
        self._box = box
        self._poll_s = poll_s
        self._room = room
        self._listeners: dict[Scope, set[Listener]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    @property
    def reading(self) -> bool:
        """Whether the box is being read, which it is only while somebody listens."""
        return self._reading is not None and not self._reading.done()

    @contextlib.asynccontextmanager
    async def listening(self, scope: Scope) -> AsyncGenerator[Listener]:
        """From the moment that this yields, no notice of the user is missed."""
        listener = Listener(scope, self._room)
        self._listeners.setdefault(scope, set()).add(listener)
        try:
            if not self.reading:
                self._ready = asyncio.Event()
                self._reading = asyncio.create_task(self._read(self._ready), name="afterturn notices")
            await self._ready.wait()
            yield listener
        finally:
            self._listeners[scope].discard(listener)
            if not self._listeners[scope]:
                del self._listeners[scope]
            if not self._listeners and self._reading is not None:
                reading, self._reading = self._reading, None
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, ready: asyncio.Event) -> None:
        try:
            await self._follow(ready)
        except Exception as error:  # noqa: BLE001 - listeners come back, and the reading begins anew
            _log.error("notices are not read any more: %s", fault(error))
            for listener in self._all():
                listener.end()
        finally:
            ready.set()

    async def _follow(self, ready: asyncio.Event) -> None:
        begin = datetime.now(UTC) - OVERLAP
        known: set[int] | None = None
        """Numbers of the window as it was read last. What lies before the window cannot be read again."""
        last, looks, failures = -1, 0, 0
        while True:
            now = datetime.now(UTC)
            try:
                newest = await self._box.last_number()
                page: Sequence[BoxedNotice] | None = None
                if newest != last or looks >= SWEEP_POLLS:
                    page = await self._box.since(begin, limit=PAGE)
            except AfterturnError as error:
                if not failures:
                    _log.warning("notices cannot be read for the moment: %s", error.message)
                failures += 1
                await asyncio.sleep(min(self._poll_s * 2**failures, LONGEST_PAUSE_S))
                continue
            failures = 0
            looks += 1
            if page is not None:
                if known is not None:
                    self._hand_out(boxed for boxed in page if boxed.number not in known)
                if len(page) >= PAGE:
                    _log.warning("%d notices within %g s: listeners read the box again", PAGE, OVERLAP.total_seconds())
                    for listener in self._all():
                        listener.end()
                known = {boxed.number for boxed in page}
                begin, last, looks = now - OVERLAP, newest, 0
            ready.set()
            await asyncio.sleep(self._poll_s)

    def _hand_out(self, fresh: Iterable[BoxedNotice]) -> None:
        for boxed in fresh:
            for listener in tuple(self._listeners.get(boxed.notice.scope, ())):
                listener.put(boxed)

    def _all(self) -> list[Listener]:
        return [listener for some in self._listeners.values() for listener in some]
