"""The sweeper's work: what was recorded and not started is started, what failed is tried again, what is left over is removed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

import structlog
from temporalio import activity

from activities.errors import translated
from activities.heartbeat import heartbeats
from activities.window_plan import WindowRules
from memory import telemetry
from memory.categories.table_loops import WAITS_FOR
from memory.metering import Meter
from memory.model import metrics
from memory.model.errors import AfterturnError, MemoryUnavailable, StoreUnavailable
from memory.model.names import SWEEP
from memory.model.scope import Scope
from memory.model.steps import SweepInput, SweepReport
from memory.ports import Directory, DueUser, EventLog, WindowLedger
from memory.ports.knowledge import LoopStore
from memory.ports.service import ErasureLedger, NoticeBox, Processes
from memory.profiles import Profiles
from memory.retrieval import SearchIndex

_log = structlog.get_logger("afterturn.sweep")

CAPPED_TOO = 10
"""So many times the limit of a pass are looked at for users whose day is not spent."""
WOKEN_AT_ONCE = 16
"""Requests of a pass to Temporal under way: after an outage it has a full limit of users to start."""
INDEXED_PER_PASS = 500
"""Users whose messages a pass indexes itself: with an embedder that is work of seconds for each."""
COMPANIES_PER_PASS = 200
"""Leftovers and old messages of so many companies are looked for in one pass, drawn by lot where there are more: with a request or
two for each, a pass over 100,000 would take minutes, in which nobody's turns are started."""
ALL_OTHERS = "*"
"""In the retention setting: companies that are not named."""


NOTICES_STAY = timedelta(hours=1)
"""In the box; a stream that comes back later than that has missed them."""
PROCESSES_STAY = timedelta(minutes=10)
"""In the list, when one that runs was not seen: it ended without a word."""


class Waker(Protocol):
    """Starts or wakes the runs of a user."""

    async def wake(self, scope: Scope, turn_ids: tuple[str, ...]) -> None:
        """The run that works through turns. Raises MemoryUnavailable."""
        ...

    async def wake_windows(self, scope: Scope, waiting: int) -> None:
        """The run that works through windows. Raises MemoryUnavailable."""
        ...

    async def start_loop(self, scope: Scope, loop_id: str) -> bool:
        """The knowledge loop that a window opened. False: it ran, and does not run any more. Raises MemoryUnavailable."""
        ...

    async def start_forget(self, tenant: str, erasure_id: str) -> None:
        """An erasure that is not done; one that runs is left. Raises MemoryUnavailable."""
        ...


class SweepActivities:
    def __init__(
        self,
        log: EventLog,
        directory: Directory,
        profiles: Profiles,
        waker: Waker,
        *,
        ledger: WindowLedger,
        loops: LoopStore,
        index: SearchIndex,
        meter: Meter,
        rules: WindowRules,
        box: NoticeBox | None = None,
        processes: Processes | None = None,
        erasures: ErasureLedger | None = None,
    ) -> None:
        self._log = log
        self._directory = directory
        self._profiles = profiles
        self._waker = waker
        self._ledger = ledger
        self._loops = loops
        self._index = index
        self._meter = meter
        self._rules = rules
        self._box = box
        self._processes = processes
        self._erasures = erasures

    @activity.defn(name=SWEEP)
    @translated
    async def sweep(self, sweep: SweepInput) -> SweepReport:
        """One pass, bounded by ``limit`` of everything; ``more`` says that the next pass has work.

        The parts stand alone: one that fails is named in the report (``failed_parts``) and does not keep the others from theirs.
        """
        async with heartbeats():
            report = await self._turns(sweep, SweepReport())
            for part in (
                self._forgetting,
                self._windows,
                self._window_loops,
                self._staging,
                self._retention,
                self._unindexed,
                self._service,
            ):
                try:
                    report = await part(sweep, report)
                except AfterturnError as error:
                    name = part.__name__.strip("_")
                    _log.warning("sweep_part_failed", part=name, error=error.message)
                    report = report.model_copy(update={"failed_parts": (*report.failed_parts, name)})
        if not report.failed_parts:
            telemetry.set_to(metrics.SWEEP_LAST_SUCCESS, time.time())
        return report

    async def _turns(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        now = datetime.now(UTC)
        due = await self._log.backlog(recorded_before=now - timedelta(seconds=sweep.grace_s), limit=sweep.limit)
        failed = await _failed([(_who(user.scope), partial(self._waker.wake, user.scope, (user.oldest_turn_id,))) for user in due])
        return report.model_copy(
            update={
                "users_started": len(due) - failed,
                "turns_waiting": sum(user.pending for user in due),
                "failed": failed,
                "more": len(due) >= sweep.limit,
            }
        )

    async def _forgetting(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        """Erasures that were recorded while Temporal was away, or whose run failed."""
        waiting = await self._erasures.open_ones(limit=sweep.limit) if self._erasures else ()
        failed = await _failed(
            [({"tenant": one[0], "erasure": one[1]}, partial(self._waker.start_forget, *one)) for one in waiting]
        )
        return report.model_copy(update={"erasures_started": len(waiting) - failed, "failed": report.failed + failed})

    async def _windows(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        """Failed windows are reopened (a bounded number of times), idle users' short windows asked for, all due runs woken."""
        now = datetime.now(UTC)
        rules = self._rules
        reopened = await self._ledger.reopen(
            max_attempt=rules.attempts - 1, ended_before=now - timedelta(seconds=rules.retry_s), limit=sweep.limit
        )
        idle = await self._ledger.flush_idle(idle_since=now - timedelta(seconds=rules.idle_s), limit=sweep.limit)
        # Users whose tokens of today are spent stay due: they must not keep others from being woken.
        due = await self._ledger.due(size=rules.size, limit=CAPPED_TOO * sweep.limit)
        chosen: list[DueUser] = []
        capped = 0
        for user in due:
            if len(chosen) >= sweep.limit:
                break
            if await self._meter.is_spent(user.scope):
                capped += 1
            else:
                chosen.append(user)
        wakes = [(_who(user.scope), partial(self._waker.wake_windows, user.scope, user.waiting)) for user in chosen]
        failed = await _failed(wakes)
        return report.model_copy(
            update={
                "windows_reopened": len(reopened),
                "windows_idle": len(idle),
                "window_users_started": len(chosen) - failed,
                "window_users_capped": capped,
                "failed": report.failed + failed,
                "more": report.more or len(chosen) >= sweep.limit,
            }
        )

    async def _window_loops(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        """What windows handed over and nobody began, one loop of each user: where a run ended before it had started it, or the
        user's tokens were spent. One that was terminated stays so, and does not keep the next one back."""
        now = datetime.now(UTC)
        waiting = await self._loops.of_windows(
            None, after=now - WAITS_FOR, before=now - timedelta(seconds=sweep.loop_grace_s), limit=CAPPED_TOO * sweep.limit
        )
        served: set[Scope] = set()
        started = failed = 0
        for one in waiting:
            if started >= sweep.limit:
                break
            if one.scope in served:
                continue
            try:
                if await self._meter.is_spent(one.scope):
                    served.add(one.scope)
                elif await self._waker.start_loop(one.scope, one.loop_id):
                    served.add(one.scope)
                    started += 1
            except MemoryUnavailable as error:
                failed += 1
                served.add(one.scope)
                _log.warning("sweep_start_failed", tenant=one.scope.tenant, user=one.scope.user, error=error.message)
        more = report.more or started >= sweep.limit
        return report.model_copy(update={"window_loops_started": started, "failed": report.failed + failed, "more": more})

    async def _staging(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        older_than = datetime.now(UTC) - timedelta(seconds=sweep.staging_ttl_s)
        removed = 0
        for tenant in _some(await self._directory.tenants()):
            if removed >= sweep.limit:
                break
            removed += await self._profiles.sweep_staging(tenant, older_than=older_than, limit=sweep.limit - removed)
        return report.model_copy(update={"staging_removed": removed, "more": report.more or removed >= sweep.limit})

    async def _retention(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        """Messages older than their company's retention time go: from the search index first, then from the log.

        Cut short in between they are still in the log, not to be found, and the next pass goes on with them.
        """
        now = datetime.now(UTC)
        expired = 0
        for tenant, days in await self._retention_days():
            before = now - timedelta(days=days)
            await self._ledger.expire_chunks(tenant, before=before, limit=sweep.limit)
            if expired >= sweep.limit:
                continue
            for due in await self._ledger.expirable_events(tenant, before=before, limit=sweep.limit - expired):
                counted = await self._index.events.forget(due)
                if await self._ledger.expire_events(due, document_frequencies=counted.frequencies, length=counted.length):
                    expired += len(due.seqs)
                # A run that indexed them meanwhile had read their text before it went.
                await self._index.events.remove(due.scope, due.seqs)
        return report.model_copy(update={"events_expired": expired, "more": report.more or expired >= sweep.limit})

    async def _retention_days(self) -> Iterable[tuple[str, int]]:
        """(tenant, days) of the companies that have a retention time."""
        named = {
            Scope.of(company, "-").tenant: days for company, days in self._rules.retention_days.items() if company != ALL_OTHERS
        }
        others = self._rules.retention_days.get(ALL_OTHERS)
        if others is None:
            return named.items()
        return {**dict.fromkeys(_some(await self._directory.tenants()), others), **named}.items()

    async def _unindexed(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        """What a run could not index (the vectors were away) is indexed now."""
        limit = min(sweep.limit, INDEXED_PER_PASS)
        users = await self._ledger.unindexed(embedded=self._rules.embed_events, limit=limit)
        for scope in users:
            try:
                await self._index.events.index(scope)
                if self._rules.embed_events:
                    await self._index.events.embed(scope)
            except StoreUnavailable:
                raise
            except AfterturnError as error:
                # One user's messages that cannot be embedded must not keep everybody else's from the index.
                _log.warning("sweep_index_failed", tenant=scope.tenant, user=scope.user, error=error.message)
                report = report.model_copy(update={"failed": report.failed + 1})
        await self._index.sync_documents(None)
        return report.model_copy(update={"users_indexed": len(users), "more": report.more or len(users) >= limit})

    async def _service(self, sweep: SweepInput, report: SweepReport) -> SweepReport:
        """Notices that no stream waits for any more, processes that are gone."""
        now = datetime.now(UTC)
        if self._box is not None:
            await self._box.expire(before=now - NOTICES_STAY)
        if self._processes is not None:
            await self._processes.expire(before=now - PROCESSES_STAY)
        return report


async def _failed(requests: Sequence[tuple[Mapping[str, str], Callable[[], Awaitable[None]]]]) -> int:
    """Make all these requests, a bounded number at once. Returns how many Temporal did not take; the next pass asks again.

    Args:
        requests: each with what the log calls it. What else one raises ends the part, and no further ones begin.
    """

    async def one(called: Mapping[str, str], request: Callable[[], Awaitable[None]]) -> bool:
        try:
            await request()
        except MemoryUnavailable as error:
            _log.warning("sweep_start_failed", **called, error=error.message)
            return True
        return False

    failed = 0
    for start in range(0, len(requests), WOKEN_AT_ONCE):
        failed += sum(await asyncio.gather(*(one(*each) for each in requests[start : start + WOKEN_AT_ONCE])))
    return failed


def _who(scope: Scope) -> dict[str, str]:
    return {"tenant": scope.tenant, "user": scope.user}


def _some(companies: Sequence[str]) -> Sequence[str]:
    """All, or so many of them by lot: over many passes each has its turn, whatever the period of the passes."""
    return companies if len(companies) <= COMPANIES_PER_PASS else random.sample(companies, COMPANIES_PER_PASS)
