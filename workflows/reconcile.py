"""The reconciliation, run by a Temporal Schedule: finds drift between rows and vectors, mends it and reports it."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from memory.model.names import RECONCILE, RECONCILE_WORKFLOW
    from memory.model.window_steps import ReconcileInput, ReconcileReply
    from workflows import policies


@workflow.defn(name=RECONCILE_WORKFLOW)
class ReconcileWorkflow:
    @workflow.run
    async def run(self, reconcile: ReconcileInput) -> ReconcileReply:
        return await workflow.execute_activity(
            RECONCILE, reconcile, result_type=ReconcileReply, summary="rows against vectors", **policies.RECONCILE.options()
        )
