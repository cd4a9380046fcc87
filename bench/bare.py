"""What the product's turns are measured against: workflows of empty activities, and nothing else."""

from __future__ import annotations

from datetime import timedelta

from temporalio import activity, workflow

BARE_QUEUE = "bench-bare"
UNWORKED_QUEUE = "bench-nobody"
"""No worker polls it: only the server's part of a start is paid."""
BARE_WORKFLOW = "BareWorkflow"
WAKE = "wake"
ACTIVITIES = 4
BARE_WINDOW = "BareWindow"
"""A bare workflow with as many empty activities as it is told, of the kinds that it is told."""
REGULAR, LOCAL = "r", "l"


@activity.defn(name="nothing")
async def nothing() -> None:
    """Takes nothing, does nothing, gives nothing."""


@workflow.defn(name=BARE_WORKFLOW)
class BareWorkflow:
    @workflow.run
    async def run(self) -> None:
        for _ in range(ACTIVITIES):
            await workflow.execute_activity("nothing", start_to_close_timeout=timedelta(seconds=60))

    @workflow.signal(name=WAKE)
    def wake(self) -> None:
        """For signal-with-start; the run does not wait for it."""


@workflow.defn(name=BARE_WINDOW)
class BareWindow:
    @workflow.run
    async def run(self, kinds: str) -> None:
        """``kinds``: a letter per activity, in order: regular or local."""
        for kind in kinds:
            limit = timedelta(seconds=60)
            if kind == LOCAL:
                await workflow.execute_local_activity("nothing", start_to_close_timeout=limit)
            else:
                await workflow.execute_activity("nothing", start_to_close_timeout=limit)
