"""The steps of an erasure. Whoever is to be forgotten is read from the database by each of them: no history holds the user's id."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog
from temporalio import activity

from activities.common import since
from activities.errors import translated
from activities.heartbeat import heartbeats
from memory import telemetry
from memory.model import metrics
from memory.model.erasure import ErasureState
from memory.model.errors import AfterturnError, InvalidInput
from memory.model.forget_steps import (
    ErasedStore,
    EraseInput,
    EraseReply,
    ErasureRef,
    ForgetPlan,
    MarkInput,
    RunsReply,
    StopReply,
)
from memory.model.knowledge_loop import LoopState
from memory.model.names import BEGIN_FORGET, DELETE_USER_RUNS, ERASE_USER, MARK_FORGET, STOP_USER_RUNS
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.ports.knowledge import LoopStore
from memory.ports.service import ErasureLedger
from memory.profiles import Profiles
from memory.retrieval import SearchIndex

MAX_LOOPS = 1_000
"""Running loops of a user that are looked for by their ids; others are found by the search attributes."""

_log = structlog.get_logger("afterturn.forget")


class UserRuns(Protocol):
    """The workflow executions of a user: all that carry the user's search attributes, and those with ids that are known."""

    async def stop(self, scope: Scope, loop_ids: Collection[str]) -> Mapping[str, int]:
        """Cancel those that run, then terminate what has not ended in time; returns when none runs. Gives runs by workflow type.

        Raises MemoryUnavailable: Temporal is away, or some still run.
        """
        ...

    async def ended(self, scope: Scope, *, since: datetime, stopped_only_before: datetime) -> Mapping[str, datetime]:
        """When the last run of each workflow type closed since then; before the second moment only those that did not complete.

        Raises MemoryUnavailable.
        """
        ...

    async def delete(self, scope: Scope, listed: Callable[[int], Awaitable[None]]) -> int:
        """Ask the server to delete all. Returns how many it listed; it may take its time over them.

        Args:
            listed: told of that number as soon as the first one could be deleted, before the others go.

        Raises MemoryUnavailable, or InvalidSettings where it does not let us.
        """
        ...


@dataclass(frozen=True, slots=True)
class ForgetRules:
    """``settle_s``: how long what was under way may still write when no run was found. ``after``: the same by the type of a
    workflow whose run was stopped, by us or by somebody else before: its longest step, for a worker that does not hear of it."""

    settle_s: float
    after: Mapping[str, float] = field(default_factory=dict[str, float])
    max_passes: int = 10
    retry_for_s: float = 86_400.0
    runs_for_s: float = 900.0


class ForgetActivities:
    """Regular activities with heartbeats. Repeating one finds what is left and counts nothing twice."""

    def __init__(
        self,
        erasures: ErasureLedger,
        profiles: Profiles,
        index: SearchIndex,
        loops: LoopStore,
        runs: UserRuns,
        rules: ForgetRules,
    ) -> None:
        self._erasures = erasures
        self._profiles = profiles
        self._index = index
        self._loops = loops
        self._runs = runs
        self._rules = rules

    @activity.defn(name=BEGIN_FORGET)
    @translated
    async def begin_forget(self, erasure: ErasureRef) -> ForgetPlan:
        receipt = await self._erasures.erasure(erasure.tenant, erasure.erasure_id)
        if receipt is None:
            raise InvalidInput("there is no such erasure in this company")
        rules = self._rules
        return ForgetPlan(
            open=receipt.state is not ErasureState.DONE,
            max_passes=rules.max_passes,
            retry_for_s=rules.retry_for_s,
            runs_for_s=rules.runs_for_s,
        )

    @activity.defn(name=STOP_USER_RUNS)
    @translated
    async def stop_user_runs(self, erasure: ErasureRef) -> StopReply:
        scope = await self._subject(erasure)
        if scope is None:
            return StopReply()
        async with heartbeats(), self._told(erasure, "runs"):
            loops = await self._loops.loops(scope, state=LoopState.RUNNING, limit=MAX_LOOPS)
            stopped = dict(await self._runs.stop(scope, [loop.loop_id for loop in loops]))
            ended = await self._just_ended(erasure, scope)
        after = {kind: self._rules.after.get(kind, 0.0) for kind in stopped}
        settle_s = max([self._rules.settle_s, *after.values(), *ended.values()])
        return StopReply(stopped=dict.fromkeys(ended, 0) | stopped, settle_s=settle_s)

    async def _just_ended(self, erasure: ErasureRef, scope: Scope) -> dict[str, float]:
        """By workflow type: for how many seconds steps of runs that are closed already may go on: of those that an earlier try of
        this step stopped, and of those that somebody terminated right before the erasure."""
        longest = max(self._rules.after.values(), default=0.0)
        receipt = await self._erasures.erasure(erasure.tenant, erasure.erasure_id)
        if not longest or receipt is None:
            return {}
        now = datetime.now(UTC)
        closed = await self._runs.ended(scope, since=now - timedelta(seconds=longest), stopped_only_before=receipt.started_at)
        left = {kind: self._rules.after.get(kind, 0.0) - (now - moment).total_seconds() for kind, moment in closed.items()}
        return {kind: seconds for kind, seconds in left.items() if seconds > 0}

    @activity.defn(name=ERASE_USER)
    @translated
    async def erase_user(self, job: EraseInput) -> EraseReply:
        """Empty one store. What was there is counted in the receipt before it goes, and not again until it is gone."""
        began = time.perf_counter()
        scope = await self._subject(job.erasure)
        if scope is None:
            return EraseReply()
        erase = {ErasedStore.ROWS: self._rows, ErasedStore.VECTORS: self._vectors, ErasedStore.OBJECTS: self._objects}
        async with heartbeats(), self._told(job.erasure, job.store.value):
            found = await erase[job.store](scope, job)
        return EraseReply(counts={name: count for name, count in found.items() if count}, elapsed_ms=since(began))

    async def _rows(self, scope: Scope, job: EraseInput) -> Mapping[str, int]:
        deleted = await self._erasures.erase_rows(scope, erasure_id=job.erasure.erasure_id)
        return {f"rows.{table}": count for table, count in deleted.items()}

    async def _vectors(self, scope: Scope, job: EraseInput) -> Mapping[str, int]:
        owner = Owner.user(scope)
        points = await self._index.count_of(owner)
        found = {f"vectors.{name.removeprefix('afterturn_')}": count for name, count in points.items()}
        await self._count(job, found)
        await self._index.erase(owner, points)
        return found

    async def _objects(self, scope: Scope, job: EraseInput) -> Mapping[str, int]:
        left = await self._profiles.left_of(scope)
        found = {"objects.profile_versions": 0, "objects.delete_markers": 0, "objects.staged": 0}
        for (_, prefix), versions in left.items():
            for info in versions:
                staged = "staged" if prefix.startswith("staging/") else "profile_versions"
                found[f"objects.{'delete_markers' if info.is_delete_marker else staged}"] += 1
        await self._count(job, found)
        await self._profiles.erase(scope, left)
        return found

    @activity.defn(name=DELETE_USER_RUNS)
    @translated
    async def delete_user_runs(self, erasure: ErasureRef) -> RunsReply:
        scope = await self._subject(erasure)
        if scope is None:
            return RunsReply(left=0)

        async def listed(count: int) -> None:
            counts = {"temporal.executions": count}
            await self._erasures.add_counts(erasure.tenant, erasure.erasure_id, counts, step="executions")

        async with heartbeats():
            left = await self._runs.delete(scope, listed)
        return RunsReply(left=left)

    @activity.defn(name=MARK_FORGET)
    @translated
    async def mark_forget(self, mark: MarkInput) -> ErasureRef:
        tenant, erasure_id = mark.erasure.tenant, mark.erasure.erasure_id
        now = datetime.now(UTC)
        # The files of SQLite are written anew at the end, which may wait for others who write for longer than a beat.
        async with heartbeats():
            if mark.state is ErasureState.DONE:
                scope = await self._subject(mark.erasure)
                if scope is not None:
                    self._profiles.forget_recent(scope)
                async with self._told(mark.erasure, "files"):
                    await self._erasures.done(tenant, erasure_id, problems=mark.problems, now=now)
            else:
                await self._erasures.erased(tenant, erasure_id, now=now)
        telemetry.count(metrics.FORGETS, state=mark.state.value)
        return mark.erasure

    async def _subject(self, erasure: ErasureRef) -> Scope | None:
        return await self._erasures.subject(erasure.tenant, erasure.erasure_id)

    async def _count(self, job: EraseInput, found: Mapping[str, int]) -> None:
        await self._erasures.add_counts(job.erasure.tenant, job.erasure.erasure_id, found, step=job.store.value)

    @asynccontextmanager
    async def _told(self, erasure: ErasureRef, what: str) -> AsyncGenerator[None]:
        """What holds an erasure up is in its receipt, for whoever waits for it, until ``what`` is through."""
        try:
            yield
        except Exception as error:
            # Of what nobody thought of only the class: its message could quote what it choked on.
            await self._note(erasure, what, error.message if isinstance(error, AfterturnError) else type(error).__name__)
            raise
        await self._note(erasure, what, None)

    async def _note(self, erasure: ErasureRef, what: str, problem: str | None) -> None:
        """Where the database is away there is nobody to tell."""
        try:
            await self._erasures.note(erasure.tenant, erasure.erasure_id, what, problem)
        except AfterturnError as error:
            _log.warning("erasure_not_noted", what=what, error=error.message)
