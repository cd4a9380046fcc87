"""Forget a user: stop what runs, empty every store, wait out what was under way, empty them again, delete the executions.

The database knows who it is; here are a tenant, the erasure's id and counts. Every step can be repeated and every wait is a durable
timer, so an erasure goes on after a crash. A store that is away is waited for, the others are emptied meanwhile. It ends when a
pass finds nothing any more. A run that fails is followed by another one: the sweeper starts what is not done.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import SearchAttributeKey, VersioningBehavior
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from memory.model.erasure import ErasureState
    from memory.model.forget_steps import (
        EraseInput,
        EraseReply,
        ErasureRef,
        ForgetPlan,
        ForgetResult,
        MarkInput,
        RunsReply,
        StopReply,
    )
    from memory.model.names import (
        BEGIN_FORGET,
        DELETE_USER_RUNS,
        ERASE_USER,
        FORGET_USER_WORKFLOW,
        MARK_FORGET,
        SEARCH_STAGE,
        STOP_USER_RUNS,
    )
    from workflows import policies
    from workflows.patience import STEP_FAILED, error_type

_STAGE = SearchAttributeKey.for_keyword(SEARCH_STAGE)
_UNKNOWN = "InvalidInput"
_REFUSED = "InvalidSettings"
_HOLD_IDS = "they hold ids and counts, and go with their retention time"
_T = TypeVar("_T")


@workflow.defn(name=FORGET_USER_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class ForgetUserWorkflow:
    """One erasure. Id: ``forget/<erasure id>``."""

    @workflow.init
    def __init__(self, erasure: ErasureRef) -> None:
        self._erasure = erasure
        self._stage = "beginning"
        self._passes = 0
        self._counts: dict[str, int] = {}
        self._waits: dict[str, str] = {}
        self._retry_for_s: float | None = None

    @workflow.run
    async def run(self, erasure: ErasureRef) -> ForgetResult:
        plan = await self._step("begin", BEGIN_FORGET, erasure, ForgetPlan, policies.FORGET_STEP, final=_UNKNOWN)
        if not plan.open:
            return ForgetResult(state=ErasureState.DONE)
        self._retry_for_s = plan.retry_for_s
        while True:
            self._passes += 1
            stopped, found = await self._pass(plan)
            if self._passes == 1:
                await self._mark(ErasureState.ERASED)
            elif not found and not stopped.stopped:
                break
            if self._passes >= plan.max_passes:
                # The next run, which the sweeper starts, may find that whoever goes on writing has been stopped.
                raise ApplicationError(
                    f"after {self._passes} passes something is still written", type="StillWritten", non_retryable=True
                )
            self._enter("waiting for what was under way")
            await workflow.sleep(timedelta(seconds=stopped.settle_s))
        problems = await self._delete_runs(plan)
        await self._mark(ErasureState.DONE, problems)
        self._enter("done")
        workflow.upsert_search_attributes([_STAGE.value_set("done")])
        return ForgetResult(state=ErasureState.DONE, passes=self._passes, counts=self._counts, problems=problems)

    async def _pass(self, plan: ForgetPlan) -> tuple[StopReply, bool]:
        """Stop what runs, empty all stores beside each other. Whether something was there."""
        self._enter("stopping what runs")
        stopped = await self._step("stop", STOP_USER_RUNS, self._erasure, StopReply, policies.FORGET_STEP)
        self._enter("emptying the stores")
        arguments = [EraseInput(erasure=self._erasure, store=store, passed=self._passes) for store in plan.stores]
        replies = await asyncio.gather(
            *(self._step(one.store.value, ERASE_USER, one, EraseReply, policies.FORGET_ERASE) for one in arguments)
        )
        for reply in replies:
            for name, count in reply.counts.items():
                self._counts[name] = self._counts.get(name, 0) + count
        return stopped, any(sum(reply.counts.values()) for reply in replies)

    async def _delete_runs(self, plan: ForgetPlan) -> tuple[str, ...]:
        """The server deletes executions in its own time: asked again until none is listed. What is left then, and why."""
        self._enter("deleting workflow executions")
        begun = workflow.now()
        attempt = 0
        while True:
            try:
                reply = await self._step(
                    "executions", DELETE_USER_RUNS, self._erasure, RunsReply, policies.FORGET_ERASE, final=_REFUSED
                )
            except STEP_FAILED as error:
                if is_cancelled_exception(error) or error_type(error) != _REFUSED:
                    raise
                return (
                    "executions: Temporal does not let this worker delete them; they hold ids and go with their retention time",
                )
            if not reply.left:
                return ()
            attempt += 1
            delay = policies.DELETION_PATIENCE.delay(attempt)
            if (workflow.now() - begun + delay).total_seconds() > plan.runs_for_s:
                return (f"executions: {reply.left} are still listed; {_HOLD_IDS}",)
            await workflow.sleep(delay)

    async def _mark(self, state: ErasureState, problems: tuple[str, ...] = ()) -> None:
        argument = MarkInput(erasure=self._erasure, state=state, problems=problems)
        await self._step("receipt", MARK_FORGET, argument, ErasureRef, policies.FORGET_ERASE)

    async def _step(
        self,
        what: str,
        name: str,
        argument: Any,
        result_type: type[_T],
        policy: policies.LongStoreStep,
        *,
        final: str | None = None,
    ) -> _T:
        """Tried again, whatever the fault, with growing waits. ``final``: an error that time does not cure."""
        begun = workflow.now()
        attempt = 0
        while True:
            try:
                result: _T = await workflow.execute_activity(
                    name, argument, result_type=result_type, summary=what, **policy.options()
                )
            except STEP_FAILED as error:
                kind = error_type(error)
                if is_cancelled_exception(error) or kind == final:
                    raise
                attempt += 1
                delay = policies.FORGET_PATIENCE.delay(attempt)
                waited = (workflow.now() - begun + delay).total_seconds()
                if self._retry_for_s is not None and waited > self._retry_for_s:
                    raise
                if not self._waits:
                    workflow.upsert_search_attributes([_STAGE.value_set("waiting_for_store")])
                self._waits[what] = f"{kind}, try {attempt}"
                self._show()
            else:
                if self._waits.pop(what, None) is not None:
                    self._show()
                return result
            await workflow.sleep(delay)

    # ---------------------------------------------------------------------------------------------------------------- view

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._show()

    def _show(self) -> None:
        parts = [f"**{self._stage}**, pass {self._passes}"]
        parts += [f"- waits: {what} ({why})" for what, why in self._waits.items()]
        if self._counts:
            rows = [f"| {name} | {count} |" for name, count in sorted(self._counts.items())]
            parts.append("\n".join(["| deleted | count |", "|---|---|", *rows]))
        workflow.set_current_details("\n\n".join(parts))
