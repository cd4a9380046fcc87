"""``after_answer``: a finished turn into the event log and its workflow woken, within a time budget, never an exception.

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

from memory.model.directory import MemoryFacts
from memory.model.enablement import Enablement
from memory.model.errors import AfterturnError, InvalidInput, MemoryUnavailable
from memory.model.event import clean_message
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.ports import EventLog
from memory.settings import Settings
from starter.faults import fault
from starter.guard import Guard
from starter.loading import MARGIN, Loader
from starter.spool import Spool, SpoolEntry
from starter.spooling import Drainer
from starter.views import Receipt, ReceiptStatus

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


class Recorder:
    """Takes turns. For one event loop; safe for many tasks.

    Args:
        wake: never raises.

    Attributes:
        lost_turns: turns that neither the event log nor the spool took, since the start of this process.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        log: EventLog,
        loader: Loader,
        tables: Guard,
        wake: Wake,
    ) -> None:
        self._settings = settings
        self._event_log = log
        self._loader = loader
        self._tables = tables
        self._wake = wake
        self._threads = ThreadPoolExecutor(4, "afterturn-redact")
        self._long = asyncio.Semaphore(2)
        self._tasks: dict[asyncio.Task[Receipt], tuple[Scope, str]] = {}
        self._chars = 0
        self.spool = Spool(settings.spool_file, max_bytes=settings.spool_max_bytes)
        self.drainer = Drainer(self.spool, self._record_spooled, self._wake_spooled)
        self.lost_turns = 0

    # ------------------------------------------------------------------------------------------------------- after_answer

    async def after_answer(self, scope: Scope, turn: Turn) -> Receipt:
        """A caller that is cancelled, or whose budget ends, does not stop the recording."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        budget = self._settings.after_answer_budget_ms / 1000
        size = len(turn.user_text or "") + len(turn.assistant_text or "")
        if len(self._tasks) >= MAX_UNDER_WAY or self._chars + size > MAX_CHARS_UNDER_WAY:
            return self._lost(scope, turn.turn_id, "too many turns are being recorded")
        task = asyncio.create_task(self._contained(scope, turn, started, budget), name="afterturn record")
        self._tasks[task] = (scope, turn.turn_id)
        self._chars += size

        def ended(_: asyncio.Task[Receipt]) -> None:
            self._tasks.pop(task, None)
            self._chars -= size

        task.add_done_callback(ended)
        await asyncio.wait({task}, timeout=budget * (1 - MARGIN))
        if task.done():
            receipt = task.result()
        else:
            receipt = Receipt(ReceiptStatus.PENDING, reason="not settled within the budget; it goes on in the background")
        return replace(receipt, elapsed_ms=(loop.time() - started) * 1000)

    async def _contained(self, scope: Scope, turn: Turn, started: float, budget: float) -> Receipt:
        try:
            return await self._record(scope, turn, started, budget)
        except asyncio.CancelledError:
            self._lost(scope, turn.turn_id, "the client was closed")
            raise
        except Exception as error:  # noqa: BLE001 - an answer never fails because of memory
            return self._lost(scope, turn.turn_id, fault(error))

    async def _record(self, scope: Scope, turn: Turn, started: float, budget: float) -> Receipt:
        known = self._loader.rule_without_stores(scope, allow_user_memory=turn.allow_user_memory)
        if not known.active:
            return _skipped(known)
        deadline = started + budget * LOG_SHARE
        if self.drainer.holds(scope):
            spooled = await self._behind_others(scope, turn)
            if spooled is not None:
                return spooled
        try:
            turn = await self._clean(turn)
        except InvalidInput as error:
            return Receipt(ReceiptStatus.REFUSED, reason=error.message)

        def allowed(facts: MemoryFacts) -> bool:
            return self._rule(scope, facts, turn).active

        now = datetime.now(UTC)
        try:
            recorded = await self._tables.call(
                lambda: self._event_log.record_turn(scope, turn, now=now, allowed=allowed), deadline=deadline
            )
        except InvalidInput as error:
            return Receipt(ReceiptStatus.REFUSED, reason=error.message)
        except AfterturnError as error:
            return await self._to_spool(scope, turn, error.message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the turn is worth keeping
            return await self._to_spool(scope, turn, fault(error))
        if recorded.refused_by is not None:
            return _skipped(self._rule(scope, recorded.refused_by, turn))
        self.drainer.log_is_back()
        status = ReceiptStatus.DUPLICATE if recorded.duplicate else ReceiptStatus.RECORDED
        if recorded.outcome is not None:
            return Receipt(status, reason=f"finished already: {recorded.outcome}", started=True, ordinal=recorded.ordinal)
        problem = await self._wake(scope, [turn.turn_id], started + budget * (1 - 2 * MARGIN))
        return Receipt(status, reason=problem, started=problem is None, ordinal=recorded.ordinal)

    def _rule(self, scope: Scope, facts: MemoryFacts, turn: Turn) -> Enablement:
        return self._loader.rule(scope, facts, allow_user_memory=turn.allow_user_memory, web_search=turn.web_search)

    async def _clean(self, turn: Turn) -> Turn:
        """The turn as a store may have it. Raises InvalidInput for a message that is too long."""
        user = clean_message(turn.user_text, sender="user")
        assistant = clean_message(turn.assistant_text, sender="assistant")
        size = len(user or "") + len(assistant or "")

        def redacted() -> Turn:
            return turn.model_copy(
                update={
                    "user_text": None if user is None else redact(user).text,
                    "assistant_text": None if assistant is None else redact(assistant).text,
                }
            )

        loop = asyncio.get_running_loop()
        if size <= SHORT_CHARS:
            return redacted()
        if size <= LONG_CHARS:
            return await loop.run_in_executor(self._threads, redacted)
        async with self._long:
            return await loop.run_in_executor(self._threads, redacted)

    # -------------------------------------------------------------------------------------------------------------- spool

    async def _behind_others(self, scope: Scope, turn: Turn) -> Receipt | None:
        """A turn whose user has turns in the spool goes behind them; None: the spool does not take it, so out of order it is."""
        try:
            await self.drainer.append(SpoolEntry(scope, await self._clean(turn), datetime.now(UTC)))
        except InvalidInput as error:
            return Receipt(ReceiptStatus.REFUSED, reason=error.message)
        except MemoryUnavailable:
            return None
        return Receipt(ReceiptStatus.SPOOLED, reason="earlier turns of this user wait in the spool")

    async def _to_spool(self, scope: Scope, turn: Turn, why: str) -> Receipt:
        try:
            await self.drainer.append(SpoolEntry(scope, turn, datetime.now(UTC)))
        except MemoryUnavailable as error:
            return self._lost(scope, turn.turn_id, f"{why}; {error.message}")
        _log.warning("turn %s of %s/%s spooled: %s", ascii(turn.turn_id)[:80], scope.tenant, scope.user, why)
        return Receipt(ReceiptStatus.SPOOLED, reason=why)

    def _lost(self, scope: Scope, turn_id: str, why: str) -> Receipt:
        self.lost_turns += 1
        _log.error("turn %s of %s/%s is lost: %s", ascii(turn_id)[:80], scope.tenant, scope.user, why)
        return Receipt(ReceiptStatus.LOST, reason=why)

    async def _record_spooled(self, entry: SpoolEntry) -> str:
        turn = entry.turn
        recorded = await self._event_log.record_turn(
            entry.scope, turn, now=datetime.now(UTC), allowed=lambda facts: self._rule(entry.scope, facts, turn).active
        )
        if recorded.refused_by is not None:
            return "skipped"
        return "duplicates" if recorded.duplicate else "recorded"

    async def _wake_spooled(self, scope: Scope, turn_ids: Sequence[str]) -> None:
        problem = await self._wake(scope, turn_ids, asyncio.get_running_loop().time() + WAKE_SPOOLED_S)
        if problem is not None:
            _log.warning("turns of %s/%s wait for the sweeper: %s", scope.tenant, scope.user, problem)

    async def aclose(self, *, within_s: float) -> None:
        """Let turns on their way be recorded; those that are not by then count as lost."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=within_s)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.drainer.aclose(within_s=within_s)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _skipped(enablement: Enablement) -> Receipt:
    return Receipt(
        ReceiptStatus.SKIPPED,
        reason=enablement.reasons[0].message,
        reasons=tuple(reason.code.value for reason in enablement.reasons),
    )
