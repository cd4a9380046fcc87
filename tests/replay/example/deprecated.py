"""The example of docs/changing.md: no run without the new step is left, so the old way has gone."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

STEP = timedelta(seconds=30)


@workflow.defn(name="DigestWorkflow")
class DigestWorkflow:
    @workflow.run
    async def run(self, week: int) -> str:
        found = await workflow.execute_activity("collect", week, result_type=int, start_to_close_timeout=STEP)
        workflow.deprecate_patch("leave-out-repeats")
        found = await workflow.execute_activity("leave_out_repeats", found, result_type=int, start_to_close_timeout=STEP)
        return await workflow.execute_activity("publish", found, result_type=str, start_to_close_timeout=STEP)
