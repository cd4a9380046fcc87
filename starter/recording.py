"""A finished turn or a batch of events into the event log and its workflow woken, within a time budget, never an exception.

Recorded first, started second. While the event log is away turns go to the spool; from then on a user's further turns follow
them there, so that they are recorded in the order in which they happened. The spool is drained in the background.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from memory import telemetry
from memory.model import metrics
from memory.model.directory import MemoryFacts
from memory.model.enablement import Enablement
from memory.model.errors import AfterturnError, InvalidInput, MemoryUnavailable
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.ports import EventLog
from memory.settings import Settings
from starter.faults import fault
from starter.guard import Guard
from starter.loading import MARGIN, Loader
from starter.pieces import EventsPiece, Piece, Stored, TurnPiece
from starter.spool import Spool, SpoolEntry
from starter.spooling import Drainer
from starter.views import EventsReceipt, Receipt, ReceiptStatus

SHORT_CHARS = 4_000
"""A text up to this size is searched for secrets on the spot (up to two milliseconds), a longer one in a thread."""
LONG_CHARS = 50_000
"""Longer text takes its time (a second for a megabyte) and may not fill all threads."""
WAKE_SPOOLED_S = 10.0
MAX_UNDER_WAY = 2_000
MAX_CHARS_UNDER_WAY = 64 * 1024 * 1024
LOG_SHARE = 0.6
"""Share of the budget after which the event log is given up and the spool has its turn."""

_log = logging.getLogger(__name__)

Wake = Callable[[Scope, Sequence[str], float], Awaitable[str | None]]
"""Tells the user's workflow of turns, before a deadline of the event loop's clock. Gives None, or why it could not be told."""

WakeWindows = Callable[[Scope, int], None]
"""Tells the user's window run, in the background, that so many events wait. Never raises."""

_PieceT = TypeVar("_PieceT", bound=Piece)


class Recorder:
    """Takes turns and events. For one event loop; safe for many tasks.

    Args:
        wake: never raises.

    Attributes:
        lost_turns, lost_events: what neither the event log nor the spool took, since the start of this process.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        log: EventLog,
        loader: Loader,
        tables: Guard,
        wake: Wake,
        wake_windows: WakeWindows,
    ) -> None:
        self._settings = settings
        self._event_log = log
        self._loader = loader
        self._tables = tables
        self._wake = wake
        self._wake_windows = wake_windows
        self._threads = ThreadPoolExecutor(4, "afterturn-redact")
        self._long = asyncio.Semaphore(2)
        self._tasks: set[asyncio.Task[Receipt]] = set()
        self._chars = 0
        self.spool = Spool(settings.spool_file, max_bytes=settings.spool_max_bytes)
        self.drainer = Drainer(self.spool, self._record_spooled, self._wake_spooled)
        self.lost_turns = self.lost_events = 0

    # ------------------------------------------------------------------------------------------------------------- record

    async def after_answer(self, scope: Scope, turn: Turn) -> Receipt:
        """A caller that is cancelled, or whose budget ends, does not stop the recording."""
        return await self._within_budget(scope, TurnPiece(turn))

    async def record_events(self, scope: Scope, events: EventsPiece) -> EventsReceipt:
        """As :meth:`after_answer`."""
        receipt = await self._within_budget(scope, events)
        assert isinstance(receipt, EventsReceipt)  # noqa: S101 - what the piece itself makes
        return receipt

    async def _within_budget(self, scope: Scope, piece: Piece) -> Receipt:
        loop = asyncio.get_running_loop()
        started = loop.time()
        budget = self._settings.after_answer_budget_ms / 1000
        size = piece.chars
        if len(self._tasks) >= MAX_UNDER_WAY or self._chars + size > MAX_CHARS_UNDER_WAY:
            return self._lost(scope, piece, "too much is being recorded")
        task = asyncio.create_task(self._contained(scope, piece, datetime.now(UTC), started, budget), name="afterturn record")
        self._tasks.add(task)
        self._chars += size

        def ended(_: asyncio.Task[Receipt]) -> None:
            self._tasks.discard(task)
            self._chars -= size

        task.add_done_callback(ended)
        await asyncio.wait({task}, timeout=budget * (1 - MARGIN))
        if task.done():
            receipt = task.result()
        else:
            receipt = piece.receipt(ReceiptStatus.PENDING, reason="not settled within the budget; it goes on in the background")
        return replace(receipt, elapsed_ms=(loop.time() - started) * 1000)

    async def _contained(self, scope: Scope, piece: Piece, accepted_at: datetime, started: float, budget: float) -> Receipt:
        try:
            return await self._record(scope, piece, accepted_at, started, budget)
        except asyncio.CancelledError:
            self._lost(scope, piece, "the client was closed")
            raise
        except Exception as error:  # noqa: BLE001 - an answer never fails because of memory
            return self._lost(scope, piece, fault(error))

    async def _record(self, scope: Scope, piece: Piece, accepted_at: datetime, started: float, budget: float) -> Receipt:
        known = self._loader.rule_without_stores(scope, allow_user_memory=piece.allow_user_memory)
        if not known.active:
            return _skipped(piece, known)
        deadline = started + budget * LOG_SHARE
        if self.drainer.holds(scope):
            spooled = await self._behind_others(scope, piece, accepted_at)
            if spooled is not None:
                return spooled
        try:
            piece = await self._clean(piece)
        except InvalidInput as error:
            return piece.receipt(ReceiptStatus.REFUSED, reason=error.message)
        try:
            stored = await self._tables.call(lambda: self._store(scope, piece, accepted_at), deadline=deadline)
        except InvalidInput as error:
            return piece.receipt(ReceiptStatus.REFUSED, reason=error.message)
        except AfterturnError as error:
            return await self._to_spool(scope, piece, accepted_at, error.message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the piece is worth keeping
            return await self._to_spool(scope, piece, accepted_at, fault(error))
        if stored.refused_by is not None:
            return _skipped(piece, self._rule(scope, stored.refused_by, piece, accepted_at))
        self.drainer.log_is_back()
        self._window_filled(scope, stored)
        if not stored.turn_ids:
            return stored.receipt
        problem = await self._wake(scope, stored.turn_ids, started + budget * (1 - 2 * MARGIN))
        return replace(stored.receipt, reason=problem, started=problem is None)

    async def _store(self, scope: Scope, piece: Piece, accepted_at: datetime) -> Stored:
        """``accepted_at``: when it was handed over. A user may have been forgotten since."""

        def allowed(facts: MemoryFacts) -> bool:
            return self._rule(scope, facts, piece, accepted_at).active

        return await piece.store(self._event_log, scope, now=datetime.now(UTC), allowed=allowed)

    def _window_filled(self, scope: Scope, stored: Stored) -> None:
        """Where these events completed a window, its run is woken, beside the answer; a lost wake-up is the sweeper's."""
        size = self._settings.window_size
        if stored.waiting >= size and stored.waiting % size < stored.added:
            self._wake_windows(scope, stored.waiting)

    def _rule(self, scope: Scope, facts: MemoryFacts, piece: Piece, accepted_at: datetime) -> Enablement:
        consent, searches = piece.allow_user_memory, piece.web_search
        return self._loader.rule(scope, facts, allow_user_memory=consent, web_search=searches, accepted_at=accepted_at)

    async def _clean(self, piece: _PieceT) -> _PieceT:
        """The piece as a store may have it. Raises InvalidInput for a message that is too long."""
        piece = piece.checked()
        size = piece.chars
        loop = asyncio.get_running_loop()
        if size <= SHORT_CHARS:
            return piece.redacted()
        if size <= LONG_CHARS:
            return await loop.run_in_executor(self._threads, piece.redacted)
        async with self._long:
            return await loop.run_in_executor(self._threads, piece.redacted)

    # -------------------------------------------------------------------------------------------------------------- spool

    async def _behind_others(self, scope: Scope, piece: Piece, accepted_at: datetime) -> Receipt | None:
        """What follows others of its user in the spool goes behind them; None: the spool does not take it: out of order, then."""
        try:
            await self.drainer.append(SpoolEntry(scope, await self._clean(piece), accepted_at))
        except InvalidInput as error:
            return piece.receipt(ReceiptStatus.REFUSED, reason=error.message)
        except MemoryUnavailable:
            return None
        return piece.receipt(ReceiptStatus.SPOOLED, reason="earlier turns of this user wait in the spool")

    async def _to_spool(self, scope: Scope, piece: Piece, accepted_at: datetime, why: str) -> Receipt:
        try:
            await self.drainer.append(SpoolEntry(scope, piece, accepted_at))
        except MemoryUnavailable as error:
            return self._lost(scope, piece, f"{why}; {error.message}")
        _log.warning("%s of %s/%s spooled: %s", piece.name, scope.tenant, scope.user, why)
        return piece.receipt(ReceiptStatus.SPOOLED, reason=why)

    def _lost(self, scope: Scope, piece: Piece, why: str) -> Receipt:
        if isinstance(piece, EventsPiece):
            self.lost_events += len(piece.events)
        else:
            self.lost_turns += 1
            telemetry.count(metrics.LOST_TURNS)
        _log.error("%s of %s/%s is lost: %s", piece.name, scope.tenant, scope.user, why)
        return piece.receipt(ReceiptStatus.LOST, reason=why)

    async def _record_spooled(self, entry: SpoolEntry) -> str:
        stored = await self._store(entry.scope, entry.piece, entry.spooled_at)
        if stored.refused_by is not None:
            return "skipped"
        self._window_filled(entry.scope, stored)
        return "duplicates" if stored.receipt.status is ReceiptStatus.DUPLICATE else "recorded"

    async def _wake_spooled(self, scope: Scope, turn_ids: Sequence[str]) -> None:
        problem = await self._wake(scope, turn_ids, asyncio.get_running_loop().time() + WAKE_SPOOLED_S)
        if problem is not None:
            _log.warning("turns of %s/%s wait for the sweeper: %s", scope.tenant, scope.user, problem)

    async def aclose(self, *, within_s: float) -> None:
        """Let turns on their way be recorded; those that are not by then count as lost."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.drainer.aclose(within_s=within_s)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _skipped(piece: Piece, enablement: Enablement) -> Receipt:
    return piece.receipt(
        ReceiptStatus.SKIPPED,
        reason=enablement.reasons[0].message,
        reasons=tuple(reason.code.value for reason in enablement.reasons),
    )
