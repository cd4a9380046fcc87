"""The spool on the event loop: appends and drains in one thread, and a background task that drains when the event log is back."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from memory import telemetry
from memory.model import metrics
from memory.model.errors import AfterturnError, InvalidInput, MemoryUnavailable
from memory.model.scope import Scope
from starter.faults import fault
from starter.pieces import TurnPiece
from starter.spool import Claim, Line, Spool, SpoolEntry
from starter.views import DrainResult

T = TypeVar("T")

BATCH = 100
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 30.0
LOCK_WAIT_S = 0.25

_log = logging.getLogger(__name__)

RecordSpooled = Callable[[SpoolEntry], Awaitable[str]]
"""Records one entry; gives the name of the counter of ``DrainResult`` that it belongs to. Raises InvalidInput for what can never
be recorded and MemoryUnavailable while the event log is away."""

WakeUser = Callable[[Scope, Sequence[str]], Awaitable[None]]


class Drainer:
    """For one event loop. ``rejected`` counts the lines that went to the side file (or were given up when it was full)."""

    def __init__(self, spool: Spool, record: RecordSpooled, wake: WakeUser) -> None:
        self.spool = spool
        self.rejected = 0
        self._record = record
        self._wake = wake
        self._thread = ThreadPoolExecutor(1, "afterturn-spool")
        self._turn = asyncio.Lock()
        self._background: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._appends = 0
        self._entries = 0
        self._scopes: dict[Scope, Counter[datetime]] = {}
        """Of each user the times of what waits: what names an entry among those of its user."""
        self._waiting = False

    def holds(self, scope: Scope) -> bool:
        """Whether turns of this user that this process spooled may still wait."""
        return scope in self._scopes

    async def append(self, entry: SpoolEntry) -> None:
        """Raises MemoryUnavailable: the spool did not take it."""
        self._appends += 1
        # Before the first await: a turn that comes next must find its user here and queue behind.
        self._scopes.setdefault(entry.scope, Counter())[entry.spooled_at] += 1
        try:
            await self._in_thread(lambda: self._append(entry))
        except BaseException:
            self._settled(entry)
            raise
        self._waiting = True
        self._in_background()

    def _settled(self, entry: SpoolEntry) -> None:
        """It waits no more. A user of whom nothing waits is free at once: while many talk, the spool may never be seen empty."""
        waiting = self._scopes.get(entry.scope)
        if waiting is None or not waiting[entry.spooled_at]:
            return  # another process spooled it
        waiting[entry.spooled_at] -= 1
        if not waiting.total():
            del self._scopes[entry.scope]

    def _append(self, entry: SpoolEntry) -> None:
        self.spool.append(entry, wait_s=LOCK_WAIT_S)
        self._measure(self._entries + 1)

    def _measure(self, entries: int) -> None:
        """In the spool's thread. The bytes are those of all processes of this machine, the entries those that this one knows of."""
        self._entries = entries
        telemetry.set_to(metrics.SPOOL_TURNS, entries)
        telemetry.set_to(metrics.SPOOL_BYTES, self.spool.waiting_bytes())

    def log_is_back(self) -> None:
        """The event log took a turn: what waits is drained now."""
        if self._waiting:
            self._soon.set()
            self._in_background()

    def start(self) -> None:
        """Drain what an earlier process left."""
        if self.spool.enabled:
            self._waiting = True
            self._soon.set()
            self._in_background()

    def _in_background(self) -> None:
        if self._background is None or self._background.done():
            self._background = asyncio.create_task(self._keep_draining(), name="afterturn drain")

    async def _keep_draining(self) -> None:
        pause = FIRST_RETRY_S
        while self._waiting:
            try:
                async with asyncio.timeout(pause):
                    await self._soon.wait()
            except TimeoutError:
                pause = min(pause * 2, LONGEST_RETRY_S)
            self._soon.clear()
            if not self._waiting:
                return
            try:
                result = await self.drain()
            except AfterturnError as error:
                _log.warning("the spool cannot be drained: %s", error.message)
            else:
                if result.recorded or result.rejected or result.skipped:
                    _log.info("drained %d entries from the spool, %d rejected", result.recorded, result.rejected)

    async def drain(self) -> DrainResult:
        """Record what waits, oldest first, until nothing is left or the event log fails.

        Raises MemoryUnavailable when the disk fails.
        """
        async with self._turn:
            total = DrainResult()
            while True:
                appends = self._appends
                claim = await self._in_thread(self.spool.claim)
                if claim is None:
                    return replace(total, busy=True, reason="another process drains the spool")
                if claim.empty:
                    await self._in_thread(partial(self._close, claim))
                    if appends == self._appends:
                        self._waiting = False
                        self._scopes.clear()
                    return total
                total = await self._drain(claim, total)
                if total.reason is not None:
                    return total

    async def _drain(self, claim: Claim, total: DrainResult) -> DrainResult:
        try:
            while total.reason is None and (lines := await self._in_thread(lambda: claim.take(BATCH))):
                woken: dict[Scope, list[str]] = {}
                for line in lines:
                    what, reason = await self._settle(claim, line, woken)
                    if reason is not None:
                        total = replace(total, reason=reason)
                        break
                    total = replace(total, **{what: getattr(total, what) + 1})
                    claim.advance(line)
                    if line.entry is not None:
                        self._settled(line.entry)
                await asyncio.gather(*(self._wake(scope, ids) for scope, ids in woken.items() if ids))
        finally:
            left = await asyncio.shield(self._in_thread(lambda: self._close(claim)))
        return replace(total, remaining=left)

    def _close(self, claim: Claim) -> int:
        left = claim.close()
        self._measure(left)
        return left

    async def _settle(self, claim: Claim, line: Line, woken: dict[Scope, list[str]]) -> tuple[str, str | None]:
        """The counter that this line belongs to, or the reason to stop here."""
        problem = line.problem
        if line.entry is not None:
            scope, piece = line.entry.scope, line.entry.piece
            try:
                what = await self._record(line.entry)
            except InvalidInput as error:
                problem = error.message
            except AfterturnError as error:
                return "", error.message
            except Exception as error:  # noqa: BLE001 - one entry must not block those behind it; it is kept aside
                problem = fault(error)
            else:
                if what != "skipped":
                    # A batch of events wakes nobody by itself: whether a window is due, the record step says.
                    woken.setdefault(scope, []).extend([piece.turn.turn_id] if isinstance(piece, TurnPiece) else [])
                return what, None
            _log.error("spooled %s of %s/%s rejected: %s", piece.name, scope.tenant, scope.user, problem)
        else:
            _log.error("a line of the spool was rejected: %s", problem)
        self.rejected += 1
        if not await self._in_thread(lambda: claim.reject(line, problem)):
            _log.error("the side file %s is full; the rejected line was given up", self.spool.rejected_path.name)
        return "rejected", None

    async def forget(self, scope: Scope) -> None:
        """Drain soon, so that what waits of the user is dropped; rejected lines of the user go at once."""
        try:
            if await self._in_thread(lambda: self.spool.forget_rejected(scope)):
                _log.info("rejected lines of a user who is being forgotten were removed")
        except MemoryUnavailable as error:
            _log.warning("rejected lines of the spool were not looked through: %s", error.message)
        self.start()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError:
            raise MemoryUnavailable("the client is closed") from None

    async def aclose(self, *, within_s: float) -> None:
        """Stop draining (what is left waits for the next process)."""
        self._waiting = False
        if self._background is not None and not self._background.done():
            self._soon.set()
            await asyncio.wait({self._background}, timeout=within_s)
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)
        self._thread.shutdown(wait=False)
