"""A PostAnswerWorkflow as a careless change would leave it: the gate is asked before the turns are claimed."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from memory.model import names
    from memory.model.steps import (
        BatchInput,
        EditRequest,
        Plan,
        PostAnswerInput,
        RollbackRequest,
        RunStatus,
        RunTotals,
        TurnsRecorded,
    )


@workflow.defn(name=names.POST_ANSWER_WORKFLOW)
class ChangedOrder:
    @workflow.run
    async def run(self, start: PostAnswerInput) -> RunTotals:
        await workflow.execute_activity(
            names.GATE_TURNS,
            BatchInput(user=start.user, plan=Plan(turns=())),
            task_queue=names.MODEL_TASK_QUEUE,
            start_to_close_timeout=timedelta(seconds=5),
        )
        await workflow.execute_local_activity(names.CLAIM_TURNS, start.user, start_to_close_timeout=timedelta(seconds=5))
        return RunTotals()

    @workflow.signal(name=names.TURNS_RECORDED_SIGNAL)
    def turns_recorded(self, turns: TurnsRecorded) -> None: ...

    @workflow.update(name=names.EDIT_UPDATE)
    async def edit(self, request: EditRequest) -> None: ...

    @workflow.update(name=names.ROLLBACK_UPDATE)
    async def rollback(self, request: RollbackRequest) -> None: ...

    @workflow.query(name=names.STATUS_QUERY)
    def status(self) -> RunStatus:
        return RunStatus(stage="changed")
