"""The reconciliation, run by a Temporal Schedule: finds drift between rows and vectors, mends it and reports it.

A pass looks at a bounded number of rows. Its result holds the place, and the schedule hands it to the next pass: whichever worker
runs that one, it goes on there, so that in time everything is looked at.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from memory.model.names import RECONCILE, RECONCILE_WORKFLOW
    from memory.model.window_steps import ReconcileInput, ReconcileReply
    from workflows import policies


@workflow.defn(name=RECONCILE_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class ReconcileWorkflow:
    @workflow.run
    async def run(self, reconcile: ReconcileInput) -> ReconcileReply:
        if workflow.has_last_completion_result():
            before = workflow.get_last_completion_result(ReconcileReply)
            reconcile = reconcile.model_copy(update={"places": before.places if before else {}})
        return await workflow.execute_activity(
            RECONCILE, reconcile, result_type=ReconcileReply, summary="rows against vectors", **policies.RECONCILE.options()
        )
