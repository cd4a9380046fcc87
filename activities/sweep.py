"""The sweeper's work: what was recorded and not started is started; what was staged and left is removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog
from temporalio import activity

from activities.errors import translated
from memory.model.errors import MemoryUnavailable
from memory.model.names import SWEEP
from memory.model.scope import Scope
from memory.model.steps import SweepInput, SweepReport
from memory.ports import Directory, EventLog
from memory.profiles import Profiles

_log = structlog.get_logger("afterturn.sweep")


class Waker(Protocol):
    """Starts or wakes the run of a user."""

    async def wake(self, scope: Scope, turn_ids: tuple[str, ...]) -> None:
        """Raises MemoryUnavailable."""
        ...


class SweepActivities:
    def __init__(self, log: EventLog, directory: Directory, profiles: Profiles, waker: Waker) -> None:
        self._log = log
        self._directory = directory
        self._profiles = profiles
        self._waker = waker

    @activity.defn(name=SWEEP)
    @translated
    async def sweep(self, sweep: SweepInput) -> SweepReport:
        """One pass, bounded by ``limit`` users and as many staged objects; ``more`` says that the next pass has work."""
        now = datetime.now(UTC)
        due = await self._log.backlog(recorded_before=now - timedelta(seconds=sweep.grace_s), limit=sweep.limit)
        started = failed = 0
        for user in due:
            try:
                await self._waker.wake(user.scope, (user.oldest_turn_id,))
                started += 1
            except MemoryUnavailable as error:
                failed += 1
                _log.warning("sweep_start_failed", tenant=user.scope.tenant, user=user.scope.user, error=error.message)
        removed = 0
        older_than = now - timedelta(seconds=sweep.staging_ttl_s)
        for tenant in await self._directory.tenants():
            if removed >= sweep.limit:
                break
            removed += await self._profiles.sweep_staging(tenant, older_than=older_than, limit=sweep.limit - removed)
        return SweepReport(
            users_started=started,
            turns_waiting=sum(user.pending for user in due),
            failed=failed,
            staging_removed=removed,
            more=len(due) >= sweep.limit or removed >= sweep.limit,
        )
