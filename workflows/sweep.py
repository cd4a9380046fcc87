"""The sweeper, run by a Temporal Schedule: starts turns that were recorded but not started and clears what was left over."""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from memory.model.names import SWEEP, SWEEP_WORKFLOW
    from memory.model.steps import SweepInput, SweepReport
    from workflows import policies


@workflow.defn(name=SWEEP_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class SweepWorkflow:
    @workflow.run
    async def run(self, sweep: SweepInput) -> SweepReport:
        return await workflow.execute_activity(
            SWEEP,
            sweep,
            result_type=SweepReport,
            start_to_close_timeout=policies.SWEEP_TIMEOUT,
            retry_policy=policies.SWEEP_RETRIES,
            summary="due turns and leftovers",
        )
