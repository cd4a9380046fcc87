"""The example of docs/changing.md: old runs go on without the new step, new ones take it."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

STEP = timedelta(seconds=30)


@workflow.defn(name="DigestWorkflow")
class DigestWorkflow:
    @workflow.run
    async def run(self, week: int) -> str:
        found = await workflow.execute_activity("collect", week, result_type=int, start_to_close_timeout=STEP)
        if workflow.patched("leave-out-repeats"):
            found = await workflow.execute_activity("leave_out_repeats", found, result_type=int, start_to_close_timeout=STEP)
        return await workflow.execute_activity("publish", found, result_type=str, start_to_close_timeout=STEP)
