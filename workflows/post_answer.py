"""After the answer: gate, consolidate, notify, upload. One run per user works through all of that user's waiting turns.

The ledger says which turns are due and in which order; a signal only wakes the run. So a lost, repeated or reordered signal
changes nothing. The run ends when the ledger has nothing more for this user: an idle user costs nothing.

Nothing here reads a text: inputs, results and signals are ids, hashes, counts and decisions.
"""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.common import SearchAttributeKey, VersioningBehavior
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from memory.model.names import (
        CLAIM_TURNS,
        CONSOLIDATE_TURNS,
        EDIT_PROFILE,
        EDIT_UPDATE,
        FINISH_TURNS,
        GATE_TURNS,
        MODEL_TASK_QUEUE,
        POST_ANSWER_WORKFLOW,
        ROLLBACK_PROFILE,
        ROLLBACK_UPDATE,
        SEARCH_OUTCOME,
        SEARCH_PROMPTS,
        SEARCH_STAGE,
        SEND_NOTICE,
        STATUS_QUERY,
        TURNS_RECORDED_SIGNAL,
        UPLOAD_PROFILE,
    )
    from memory.model.steps import (
        BatchInput,
        ConsolidateReply,
        Decision,
        EditInput,
        EditRequest,
        FinishInput,
        GateReply,
        NoticeInput,
        Plan,
        PostAnswerInput,
        RollbackInput,
        RollbackRequest,
        RunStatus,
        RunTotals,
        StageUsage,
        TurnRef,
        TurnsRecorded,
        UploadInput,
        WriteReply,
        WriteStatus,
    )
    from memory.model.turn import Outcome
    from workflows import policies
    from workflows.details import Batch, details_markdown
    from workflows.patience import AWAY_OR_HANGING, MODEL_AWAY, STEP_FAILED, Patience, error_type, uninterrupted
    from workflows.versions import TO_NEWEST, newer_workers

_OUTCOME = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
_STAGE = SearchAttributeKey.for_keyword(SEARCH_STAGE)
_PROMPTS = SearchAttributeKey.for_keyword_list(SEARCH_PROMPTS)
_SEVERITY = {Outcome.SKIPPED: 0, Outcome.NOOP: 1, Outcome.UPDATED: 2, Outcome.KEPT: 3}


@workflow.defn(name=POST_ANSWER_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class PostAnswerWorkflow:
    """All writes to one user's profile, in order. Id: ``post-answer/<tenant>/<user>``."""

    @workflow.init
    def __init__(self, start: PostAnswerInput) -> None:
        self._user = start.user
        self._totals = start.resumed.next_run() if start.resumed else RunTotals()
        self._turns_this_run = 0
        self._wakeups = 0
        self._batch = Batch()
        self._version: int | None = None
        self._worst: Outcome | None = None
        self._prompts: set[str] = set()
        self._history: list[str] = []
        self._patience = Patience(lambda: self._note_waiting("store"))
        self._model_patience = Patience(lambda: self._note_waiting("model"), policies.MODEL_PATIENCE)
        # Held for a write, and for the whole of a turn's last try; never while a model works on an earlier one.
        self._profile = asyncio.Lock()

    @workflow.run
    async def run(self, start: PostAnswerInput) -> RunTotals:
        seen = self._wakeups
        plan = await self._claim()
        while True:
            if plan.turns or plan.skipped:
                # What is recorded until the outcome is, the same step finds; a later wake-up asks again.
                seen = self._wakeups
                if plan.skipped:
                    following = await self._finish(Batch(turns=plan.skipped, outcome=plan.skip_outcome, reason=plan.skip_reason))
                else:
                    following = await self._process(plan)
                if self._should_continue_as_new(plan):
                    await workflow.wait_condition(workflow.all_handlers_finished)
                    workflow.continue_as_new(
                        PostAnswerInput(user=self._user, resumed=self._totals), initial_versioning_behavior=TO_NEWEST
                    )
                plan = following
                continue
            await workflow.wait_condition(lambda known=seen: workflow.all_handlers_finished() or self._wakeups != known)
            if self._wakeups != seen:
                seen = self._wakeups
                plan = await self._claim()
            elif workflow.all_handlers_finished():
                return self._totals

    # ------------------------------------------------------------------------------------------- signals, updates, query

    @workflow.signal(name=TURNS_RECORDED_SIGNAL)
    def turns_recorded(self, turns: TurnsRecorded) -> None:
        self._wakeups += 1

    @workflow.update(name=EDIT_UPDATE)
    async def edit_profile(self, request: EditRequest) -> WriteReply:
        """The user's own save. It waits for a write in progress, not for a model: a turn that meets it consolidates again."""
        async with self._profile:
            return await self._write(EDIT_PROFILE, EditInput(user=self._user, request=request))

    @workflow.update(name=ROLLBACK_UPDATE)
    async def rollback_profile(self, request: RollbackRequest) -> WriteReply:
        async with self._profile:
            return await self._write(ROLLBACK_PROFILE, RollbackInput(user=self._user, request=request))

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> RunStatus:
        batch = self._batch
        away = "store" if self._patience.waiting else "model" if self._model_patience.waiting else None
        return RunStatus(
            stage=f"{batch.stage}, waiting_for_{away}" if away else batch.stage,
            turn_ids=tuple(turn.turn_id for turn in batch.turns),
            totals=self._totals,
            profile_version=self._version,
            last_outcome=batch.outcome,
            last_reason=batch.reason,
        )

    # ----------------------------------------------------------------------------------------------------------- one batch

    async def _process(self, plan: Plan) -> Plan:
        """Work off one batch; gives the next one."""
        batch = Batch(turns=plan.turns, model=plan.model)
        self._batch = batch
        try:
            await self._decide(plan, batch)
        except BaseException as error:
            if is_cancelled_exception(error):
                batch.end(Outcome.KEPT, "cancelled")
                await uninterrupted(self._finish(batch, plan))
            elif batch.notice is not None:
                # A fault of this code: the turns stay due, the notice goes.
                await batch.notice
                await self._notify(self._notice(plan, batch, "updating_completed"), batch)
            raise
        return await uninterrupted(self._finish(batch, plan))

    async def _decide(self, plan: Plan, batch: Batch) -> None:
        if plan.empty:
            batch.end(Outcome.NOOP, "empty_exchange")
            return
        if plan.gate and not await self._gate(plan, batch):
            batch.end(Outcome.NOOP, "gate")
            return
        if plan.notice:
            started = self._notice(plan, batch, "updating_started")
            batch.notice = asyncio.create_task(self._notify(started, batch, remote=plan.remote_notices))
        await self._consolidate(plan, batch)

    async def _gate(self, plan: Plan, batch: Batch) -> bool:
        """Only an explicit NOOP skips the rewrite; every failure counts as UPDATE."""
        self._enter("gating", batch)
        argument = BatchInput(user=self._user, plan=plan)

        async def call() -> GateReply:
            return await workflow.execute_activity(
                GATE_TURNS,
                argument,
                result_type=GateReply,
                task_queue=MODEL_TASK_QUEUE,
                summary=_summary(plan.turns),
                **policies.GATE.options(plan.model_timeout_s),
            )

        try:
            reply = await self._patience.run(call, plan.store_retry_for_s)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            batch.flags.append(f"gate_failed:{error_type(error)}")
            return True
        batch.flags.extend(reply.flags)
        batch.spend("gate", reply.usage, reply.elapsed_ms)
        self._note_prompts(reply.prompts)
        return reply.update

    async def _consolidate(self, plan: Plan, batch: Batch) -> None:
        """Consolidate and upload; again after a conflict. The last try holds the lock, so that no further save can meet it."""
        for conflicts in range(policies.MAX_CONFLICTS + 1):
            if conflicts < policies.MAX_CONFLICTS:
                if await self._try_once(plan, batch, conflicts, exclusive=False):
                    return
            else:
                async with self._profile:
                    if await self._try_once(plan, batch, conflicts, exclusive=True):
                        return
        batch.end(Outcome.KEPT, "conflict")

    async def _try_once(self, plan: Plan, batch: Batch, conflicts: int, *, exclusive: bool) -> bool:
        """True when the batch has its outcome, False after a conflict."""
        self._enter("consolidating" if not conflicts else f"consolidating again after conflict {conflicts}", batch)
        # Who holds the lock does not wait for a model: the user's own saves would wait along.
        wait_s = 0.0 if exclusive else plan.model_retry_for_s
        try:
            reply = await self._rewrite(plan, BatchInput(user=self._user, plan=plan, conflicts=conflicts), wait_s)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            batch.end(Outcome.KEPT, f"consolidate_failed:{error_type(error)}")
            return True
        batch.flags.extend(reply.flags)
        for stage, usage in reply.usage.items():
            batch.spend(stage, usage, 0)
        batch.spend("consolidate", StageUsage(), reply.elapsed_ms)
        self._note_prompts(reply.prompts)
        if reply.decision is Decision.NOOP:
            batch.end(Outcome.NOOP, reply.reason or "model")
            return True
        if reply.decision is Decision.KEPT:
            batch.end(Outcome.KEPT, reply.reason)
            return True
        if reply.decision is Decision.APPLIED:
            batch.flags.append("already_applied")
            batch.end(Outcome.UPDATED, None, reply.applied_version)
            return True
        if reply.candidate is None:
            raise ApplicationError("consolidate returned no candidate", type="BrokenContract", non_retryable=True)
        if exclusive:
            written = await self._upload(plan, batch, reply, reply.candidate)
        else:
            async with self._profile:
                written = await self._upload(plan, batch, reply, reply.candidate)
        if written.status is WriteStatus.CONFLICT:
            batch.flags.append("conflict")
            return False
        if written.status is WriteStatus.SAVED:
            batch.end(Outcome.UPDATED, None, written.version)
        elif written.status is WriteStatus.OPTED_OUT:
            batch.end(Outcome.SKIPPED, written.reason)
        else:
            batch.end(Outcome.KEPT, written.reason or "upload_failed")
        return True

    async def _rewrite(self, plan: Plan, argument: BatchInput, wait_s: float) -> ConsolidateReply:
        """The bounded attempts; then, for ``wait_s`` at most, one attempt after each durable wait while the model is away.

        Later turns of the user wait behind this one, so they are learned in order.
        """
        attempts: int | None = None

        async def call() -> ConsolidateReply:
            return await workflow.execute_activity(
                CONSOLIDATE_TURNS,
                argument,
                result_type=ConsolidateReply,
                task_queue=MODEL_TASK_QUEUE,
                summary=_summary(plan.turns),
                **policies.CONSOLIDATE.options(plan.model_timeout_s, attempts=attempts),
            )

        async def in_a_store_outage_too() -> ConsolidateReply:
            nonlocal attempts
            try:
                return await self._patience.run(call, plan.store_retry_for_s)
            finally:
                attempts = 1

        return await self._model_patience.run(in_a_store_outage_too, wait_s, MODEL_AWAY)

    async def _upload(self, plan: Plan, batch: Batch, reply: ConsolidateReply, candidate: str) -> WriteReply:
        self._enter("uploading", batch)
        argument = UploadInput(
            user=self._user,
            plan=plan,
            candidate=candidate,
            base_etag=reply.base_etag,
            base_version=reply.base_version,
            prompts=reply.prompts,
        )

        async def call() -> WriteReply:
            return await workflow.execute_local_activity(
                UPLOAD_PROFILE, argument, result_type=WriteReply, **policies.UPLOAD.options()
            )

        try:
            written = await self._patience.run(call, plan.store_retry_for_s, AWAY_OR_HANGING)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            return WriteReply(status=WriteStatus.FAILED, reason=f"upload_failed:{error_type(error)}")
        batch.spend("upload", StageUsage(), written.elapsed_ms)
        return written

    # --------------------------------------------------------------------------------------------------------------- steps

    async def _claim(self) -> Plan:
        async def call() -> Plan:
            return await workflow.execute_local_activity(CLAIM_TURNS, self._user, result_type=Plan, **policies.CLAIM.options())

        return await self._patience.run(call, None, AWAY_OR_HANGING)

    async def _finish(self, batch: Batch, plan: Plan | None = None) -> Plan:
        """Remove the notice, record the outcome of every turn of the batch; gives the next batch.

        Until this has happened the turns stay due.
        """
        shown = batch.notice is not None and plan is not None
        if batch.notice is not None:
            await batch.notice
        argument = FinishInput(
            user=self._user,
            turns=batch.turns,
            outcome=batch.outcome or Outcome.KEPT,
            reason=batch.reason,
            flags=tuple(dict.fromkeys(batch.flags)),
            profile_version=batch.version,
            model=batch.model,
            usage=batch.usage,
            durations_ms=batch.durations_ms,
            notice=self._notice(plan, batch, "updating_completed") if shown and plan else None,
        )
        tries = [argument]

        async def call() -> Plan:
            # The notice goes before the record: once tried, it is not repeated for as long as the event log is away.
            attempt = tries.pop() if tries else argument.model_copy(update={"notice": None})
            return await workflow.execute_local_activity(
                FINISH_TURNS,
                attempt,
                result_type=Plan,
                summary=f"{_summary(batch.turns)}: {argument.outcome}",
                **policies.FINISH.options(),
            )

        following = await self._patience.run(call, None, AWAY_OR_HANGING)
        count = len(batch.turns)
        self._turns_this_run += count
        total = argument.outcome.value
        self._totals = self._totals.model_copy(update={total: getattr(self._totals, total) + count})
        if batch.version is not None:
            self._version = batch.version
        if self._worst is None or _SEVERITY[argument.outcome] > _SEVERITY[self._worst]:
            self._worst = argument.outcome
        prompts = [_PROMPTS.value_set(sorted(self._prompts))] if self._prompts else []
        workflow.upsert_search_attributes([_OUTCOME.value_set(self._worst.value), _STAGE.value_set("done"), *prompts])
        batch.stage = "done"
        self._batch = batch
        self._history = [*self._history[-19:], batch.line()]
        self._show()
        return following

    async def _write(self, activity: str, argument: EditInput | RollbackInput) -> WriteReply:
        async def call() -> WriteReply:
            return await workflow.execute_local_activity(activity, argument, result_type=WriteReply, **policies.WRITE.options())

        try:
            reply = await self._patience.run(call, 30.0, AWAY_OR_HANGING)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            return WriteReply(status=WriteStatus.FAILED, reason=error_type(error))
        if reply.status is WriteStatus.SAVED:
            self._version = reply.version
            self._totals = self._totals.model_copy(update={"edits": self._totals.edits + 1})
        return reply

    def _notice(self, plan: Plan, batch: Batch, step: str) -> NoticeInput:
        return NoticeInput(
            user=self._user,
            notice_id=f"{plan.turns[0].turn_id}:{plan.turns[0].attempt}",
            step=step,
            turn_ids=tuple(turn.turn_id for turn in plan.turns),
            conversation_ids=plan.conversation_ids,
            at=workflow.now().isoformat(),
            outcome=batch.outcome,
        )

    async def _notify(self, notice: NoticeInput, batch: Batch, *, remote: bool = False) -> None:
        """Fails open: a notice that cannot be sent is skipped and the run says so."""
        # The commands of a workflow task leave with its last local activity, so a slow one would hold back the rewrite.
        send = workflow.execute_activity if remote else workflow.execute_local_activity
        try:
            await send(SEND_NOTICE, notice, **policies.NOTICE.options())
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            batch.flags.append(f"notice_failed:{notice.step}")

    def _note_waiting(self, what: str) -> None:
        """For operators: "which users wait for a store (a model)?" The normal course costs no update of the search index."""
        workflow.upsert_search_attributes([_STAGE.value_set(f"waiting_for_{what}")])

    def _note_prompts(self, version: str | None) -> None:
        """What activities say, never what this code is deployed with. Replies of old histories say nothing."""
        if version is not None and len(self._prompts) < policies.MAX_PROMPTS_NOTED:
            self._prompts.add(version)

    # ---------------------------------------------------------------------------------------------------------------- view

    def _should_continue_as_new(self, plan: Plan) -> bool:
        return (
            workflow.info().is_continue_as_new_suggested()
            or newer_workers()
            or self._turns_this_run >= plan.continue_after_turns
            or self._wakeups >= policies.MAX_WAKEUPS_PER_RUN
        )

    def _enter(self, stage: str, batch: Batch) -> None:
        batch.stage = stage
        self._show()

    def _show(self) -> None:
        workflow.set_current_details(details_markdown(self._batch, self._history, self._totals, self._version))


def _summary(turns: tuple[TurnRef, ...]) -> str:
    first, last = turns[0].ordinal, turns[-1].ordinal
    return f"turn {first}" if first == last else f"turns {first} to {last}"
