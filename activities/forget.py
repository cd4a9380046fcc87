"""The steps of an erasure. Whoever is to be forgotten is read from the database by each of them: no history holds the user's id."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import structlog
from temporalio import activity

from activities.common import since
from activities.errors import translated
from activities.heartbeat import heartbeats
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

    async def delete(self, scope: Scope) -> int:
        """Ask the server to delete all. Returns how many it listed; it may take its time over them.

        Raises MemoryUnavailable, or InvalidSettings where it does not let us.
        """
        ...


@dataclass(frozen=True, slots=True)
class ForgetRules:
    """``settle_s``: how long what was under way may still write when no run was found. ``after``: the same by the type of a
    workflow whose run was stopped: its longest step, for a worker that does not hear of it."""

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
        async with heartbeats():
            loops = await self._loops.loops(scope, state=LoopState.RUNNING, limit=MAX_LOOPS)
            stopped = await self._runs.stop(scope, [loop.loop_id for loop in loops])
        settle_s = max([self._rules.settle_s, *(self._rules.after.get(kind, 0.0) for kind in stopped)])
        return StopReply(stopped=dict(stopped), settle_s=settle_s)

    @activity.defn(name=ERASE_USER)
    @translated
    async def erase_user(self, job: EraseInput) -> EraseReply:
        """Empty one store. What was there is counted in the receipt before it goes, once in this run and pass."""
        began = time.perf_counter()
        scope = await self._subject(job.erasure)
        if scope is None:
            return EraseReply()
        erase = {ErasedStore.ROWS: self._rows, ErasedStore.VECTORS: self._vectors, ErasedStore.OBJECTS: self._objects}
        try:
            async with heartbeats():
                found = await erase[job.store](scope, job)
        except AfterturnError as error:
            await self._note(job, error.message)
            raise
        await self._note(job, None)
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
        async with heartbeats():
            left = await self._runs.delete(scope)
            await self._erasures.add_counts(
                erasure.tenant, erasure.erasure_id, {"temporal.executions": left}, step=f"{_run()}/executions"
            )
        return RunsReply(left=left)

    @activity.defn(name=MARK_FORGET)
    @translated
    async def mark_forget(self, mark: MarkInput) -> ErasureRef:
        tenant, erasure_id = mark.erasure.tenant, mark.erasure.erasure_id
        now = datetime.now(UTC)
        if mark.state is ErasureState.DONE:
            scope = await self._subject(mark.erasure)
            if scope is not None:
                self._profiles.forget_recent(scope)
            await self._erasures.done(tenant, erasure_id, problems=mark.problems, now=now)
        else:
            await self._erasures.erased(tenant, erasure_id, now=now)
        return mark.erasure

    async def _subject(self, erasure: ErasureRef) -> Scope | None:
        return await self._erasures.subject(erasure.tenant, erasure.erasure_id)

    async def _count(self, job: EraseInput, found: Mapping[str, int]) -> None:
        step = f"{_run()}/{job.passed}/{job.store.value}"
        await self._erasures.add_counts(job.erasure.tenant, job.erasure.erasure_id, found, step=step)

    async def _note(self, job: EraseInput, problem: str | None) -> None:
        """For whoever waits for the receipt; where the database is away there is nobody to tell."""
        try:
            await self._erasures.note(job.erasure.tenant, job.erasure.erasure_id, job.store.value, problem)
        except AfterturnError as error:
            _log.warning("erasure_not_noted", store=job.store.value, error=error.message)


def _run() -> str:
    return (activity.info().workflow_run_id or "")[:8]
