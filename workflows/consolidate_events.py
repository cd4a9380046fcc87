"""Every 50 events: plan, extract, apply by category, commit with the watermark. One run per user works through all due windows.

The ledger says which windows are due and in which order; a signal only wakes the run. What a window is (its events, categories,
model) is the recorded result of the plan step, so a run never depends on the settings or the registry of the code it runs on.
A category that fails leaves the others standing. The run ends when the ledger has nothing more for this user.

Nothing here reads a text: inputs, results and signals are ids, numbers, counts and decisions.
"""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.common import SearchAttributeKey, VersioningBehavior
from temporalio.exceptions import is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from memory.model.names import (
        APPLY_CATEGORY,
        COMMIT_WINDOW,
        CONSOLIDATE_EVENTS_WORKFLOW,
        EVENTS_RECORDED_SIGNAL,
        EXTRACT_WINDOW,
        INDEX_EVENTS,
        MODEL_TASK_QUEUE,
        PLAN_WINDOW,
        SEARCH_OUTCOME,
        SEARCH_STAGE,
        STATUS_QUERY,
    )
    from memory.model.window import CategoryOutcome, WindowState
    from memory.model.window_steps import (
        ApplyInput,
        ApplyReply,
        CommitInput,
        ConsolidateInput,
        EventsRecorded,
        ExtractReply,
        IndexInput,
        IndexReply,
        WindowPlan,
        WindowRef,
        WindowStatusReply,
        WindowTotals,
    )
    from workflows import policies
    from workflows.patience import AWAY_OR_HANGING, STEP_FAILED, Patience, error_type, uninterrupted
    from workflows.versions import TO_NEWEST, newer_workers
    from workflows.window_details import WindowInHand, details_markdown
    from workflows.window_loops import start_window_loop

_OUTCOME = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
_STAGE = SearchAttributeKey.for_keyword(SEARCH_STAGE)
_SEVERITY = {WindowState.SKIPPED: 0, WindowState.DONE: 1, WindowState.PARTIAL: 2, WindowState.FAILED: 3}


@workflow.defn(name=CONSOLIDATE_EVENTS_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class ConsolidateEventsWorkflow:
    """All windows of one user, in order. Id: ``consolidate-events/<tenant>/<user>``."""

    @workflow.init
    def __init__(self, start: ConsolidateInput) -> None:
        self._user = start.user
        self._totals = start.resumed.next_run() if start.resumed else WindowTotals()
        self._windows_this_run = 0
        self._wakeups = 0
        self._window = WindowInHand()
        self._worst: WindowState | None = None
        self._history: list[str] = []
        self._patience = Patience(self._note_waiting)
        self._indexing: asyncio.Task[None] | None = None
        self._index_again = False

    @workflow.run
    async def run(self, start: ConsolidateInput) -> WindowTotals:
        seen = self._wakeups
        plan = await self._plan()
        while True:
            if plan.window_id is not None and not plan.capped:
                # What is recorded until the window is committed, the same step finds; a later wake-up asks again.
                seen = self._wakeups
                following = await self._process(plan, plan.window_id)
                if following is None:
                    return await self._end()
                self._index(plan)
                if self._should_continue_as_new(plan):
                    await self._indexed()
                    workflow.continue_as_new(
                        ConsolidateInput(user=self._user, resumed=self._totals), initial_versioning_behavior=TO_NEWEST
                    )
                plan = following
                continue
            if plan.capped:
                self._window.stage = "the user's tokens of today are spent"
                return await self._end()
            await workflow.wait_condition(lambda known=seen: self._index_done() or self._wakeups != known)
            if self._wakeups != seen:
                seen = self._wakeups
                plan = await self._plan()
            else:
                return await self._end()

    # --------------------------------------------------------------------------------------------------- signal and query

    @workflow.signal(name=EVENTS_RECORDED_SIGNAL)
    def events_recorded(self, events: EventsRecorded) -> None:
        self._wakeups += 1

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> WindowStatusReply:
        window = self._window
        return WindowStatusReply(
            stage=f"{window.stage}, waiting_for_store" if self._patience.waiting else window.stage,
            window_id=window.window_id,
            totals=self._totals,
            last_state=window.state,
            last_reason=window.reason,
        )

    # ---------------------------------------------------------------------------------------------------------- one window

    async def _process(self, plan: WindowPlan, window_id: str) -> WindowPlan | None:
        """Work off one window; gives the next one. None: the user's tokens were spent meanwhile, the window stays planned."""
        window = WindowInHand(window_id=window_id, events=plan.events, first_seq=plan.first_seq, last_seq=plan.last_seq)
        self._window = window
        if plan.skip is not None:
            window.end(WindowState.SKIPPED, plan.skip)
        else:
            extracted = await self._extract(plan, window_id, window)
            if window.capped:
                return None
            if extracted is not None:
                await self._apply(plan, window_id, window, extracted)
        return await uninterrupted(self._commit(plan, window_id, window))

    async def _extract(self, plan: WindowPlan, window_id: str, window: WindowInHand) -> ExtractReply | None:
        """None: it failed for good; the window is kept with the reason."""
        self._enter("extracting", window)
        argument = WindowRef(
            user=self._user,
            window_id=window_id,
            attempt=plan.attempt,
            model=plan.model,
            model_timeout_s=plan.model_timeout_s,
        )

        async def call() -> ExtractReply:
            return await workflow.execute_activity(
                EXTRACT_WINDOW,
                argument,
                result_type=ExtractReply,
                task_queue=MODEL_TASK_QUEUE,
                summary=window.name,
                **policies.EXTRACT.options(plan.model_timeout_s),
            )

        try:
            reply = await self._patience.run(call, plan.store_retry_for_s)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            kind = error_type(error)
            if kind == "SpendCapReached":
                window.capped = True
                return None
            window.end(WindowState.FAILED, f"extract_failed:{kind}")
            return None
        window.flags.extend(reply.flags)
        for stage, usage in reply.usage.items():
            window.spend(stage, usage)
        window.took("extract", reply.elapsed_ms)
        window.outcomes = {one.category: one for one in reply.categories}
        return reply

    async def _apply(self, plan: WindowPlan, window_id: str, window: WindowInHand, extracted: ExtractReply) -> None:
        """One category after the other: later ones refer to contacts that an earlier one made."""
        for category in plan.categories:
            if extracted.items.get(category, 0):
                self._enter(f"applying {category.value}", window)
                argument = ApplyInput(user=self._user, window_id=window_id, attempt=plan.attempt, category=category)
                window.outcomes[category] = await self._apply_one(plan, argument, window)
        failed = [one.category.value for one in window.outcomes.values() if one.state == "failed"]
        if failed and len(failed) == len(plan.categories):
            window.end(WindowState.FAILED, f"all_categories_failed:{_first_reason(window)}")
        elif failed:
            window.end(WindowState.PARTIAL, f"failed:{','.join(failed)}")
        else:
            window.end(WindowState.DONE, None)

    async def _apply_one(self, plan: WindowPlan, argument: ApplyInput, window: WindowInHand) -> CategoryOutcome:
        async def call() -> ApplyReply:
            return await workflow.execute_local_activity(
                APPLY_CATEGORY,
                argument,
                result_type=ApplyReply,
                summary=f"{window.name}: {argument.category.value}",
                **policies.APPLY.options(),
            )

        try:
            reply = await self._patience.run(call, plan.store_retry_for_s, AWAY_OR_HANGING)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            before = window.outcomes.get(argument.category, CategoryOutcome(category=argument.category))
            return before.model_copy(update={"state": "failed", "reason": f"apply_failed:{error_type(error)}"})
        window.took(f"apply {argument.category.value}", reply.elapsed_ms)
        for loop_id in reply.loops:
            # Recorded before: where this run ends here, the sweeper starts it.
            await start_window_loop(self._user, loop_id)
            window.loops.append(loop_id)
        return reply.outcome

    # --------------------------------------------------------------------------------------------------------------- steps

    async def _plan(self) -> WindowPlan:
        async def call() -> WindowPlan:
            return await workflow.execute_local_activity(
                PLAN_WINDOW, self._user, result_type=WindowPlan, **policies.PLAN_WINDOW.options()
            )

        return await self._patience.run(call, None, AWAY_OR_HANGING)

    async def _commit(self, plan: WindowPlan, window_id: str, window: WindowInHand) -> WindowPlan:
        """Outcome and watermark; gives the next window. Until this has happened the window stays planned."""
        state = window.state or WindowState.FAILED
        argument = CommitInput(
            user=self._user,
            window_id=window_id,
            attempt=plan.attempt,
            state=state,
            reason=window.reason,
            outcomes=tuple(window.outcomes.values()),
            flags=tuple(dict.fromkeys(window.flags)),
            usage=window.usage,
            durations_ms=window.durations_ms,
            model=plan.model or None,
        )

        async def call() -> WindowPlan:
            return await workflow.execute_local_activity(
                COMMIT_WINDOW,
                argument,
                result_type=WindowPlan,
                summary=f"{window.name}: {state.value}",
                **policies.COMMIT_WINDOW.options(),
            )

        following = await self._patience.run(call, None, AWAY_OR_HANGING)
        self._windows_this_run += 1
        self._totals = self._totals.model_copy(
            update={
                "windows": self._totals.windows + 1,
                "events": self._totals.events + plan.events,
                "applied": self._totals.applied + sum(one.applied for one in window.outcomes.values()),
                "failed": self._totals.failed + (state in (WindowState.FAILED, WindowState.PARTIAL)),
            }
        )
        if self._worst is None or _SEVERITY[state] > _SEVERITY[self._worst]:
            self._worst = state
        workflow.upsert_search_attributes([_OUTCOME.value_set(self._worst.value), _STAGE.value_set("done")])
        window.stage = "done"
        self._history = [*self._history[-19:], window.line()]
        self._show()
        return following

    def _index(self, plan: WindowPlan) -> None:
        """Make the consumed messages findable, beside the next windows; one call at a time."""
        self._index_again = True
        if self._indexing is None or self._indexing.done():
            self._indexing = asyncio.create_task(self._keep_indexing(plan.embed))

    async def _keep_indexing(self, embed: bool) -> None:
        while self._index_again:
            self._index_again = False
            try:
                await workflow.execute_activity(
                    INDEX_EVENTS,
                    IndexInput(user=self._user, embed=embed),
                    result_type=IndexReply,
                    summary="search index",
                    **policies.INDEX.options(),
                )
            except STEP_FAILED as error:
                if is_cancelled_exception(error):
                    raise
                # The sweeper finds what is not indexed; the windows themselves do not depend on it.
                self._history = [*self._history[-19:], f"index: {error_type(error)}"]

    def _index_done(self) -> bool:
        return self._indexing is None or self._indexing.done()

    async def _indexed(self) -> None:
        if self._indexing is not None:
            await self._indexing

    async def _end(self) -> WindowTotals:
        await self._indexed()
        self._show()
        return self._totals

    # ---------------------------------------------------------------------------------------------------------------- view

    def _should_continue_as_new(self, plan: WindowPlan) -> bool:
        return (
            workflow.info().is_continue_as_new_suggested()
            or newer_workers()
            or self._windows_this_run >= plan.continue_after_windows
            or self._wakeups >= policies.MAX_WAKEUPS_PER_RUN
        )

    def _note_waiting(self) -> None:
        workflow.upsert_search_attributes([_STAGE.value_set("waiting_for_store")])

    def _enter(self, stage: str, window: WindowInHand) -> None:
        window.stage = stage
        self._show()

    def _show(self) -> None:
        workflow.set_current_details(details_markdown(self._window, self._history, self._totals))


def _first_reason(window: WindowInHand) -> str:
    return next((one.reason or "" for one in window.outcomes.values() if one.state == "failed"), "")
