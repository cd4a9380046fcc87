"""The reconciliation's place goes from one scheduled pass to the next, over the death of whoever ran it."""

from __future__ import annotations

import uuid
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client, Schedule, ScheduleActionStartWorkflow, ScheduleHandle, ScheduleSpec
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from memory.model.names import RECONCILE
from memory.model.steps import UserRef
from memory.model.window_steps import ReconcileInput, ReconcilePlace, ReconcileReply
from tests.support.waiting import until
from workflows import ReconcileWorkflow
from workflows.sandbox import workflow_runner


class Pass:
    """Goes three rows further at each pass; the second pass fails."""

    def __init__(self) -> None:
        self.began: list[int] = []

    @activity.defn(name=RECONCILE)
    async def reconcile(self, job: ReconcileInput) -> ReconcileReply:
        row = job.places.get("facts", ReconcilePlace()).row
        first = int(row[1]) if row else 0
        self.began.append(first)
        if len(self.began) == 2:
            raise ApplicationError("the vectors were lost", non_retryable=True)
        user = UserRef(tenant="acme", user="ann")
        return ReconcileReply(places={"facts": ReconcilePlace(row=("acme/u/ann", str(first + 3)), user=user)})


async def passed(schedule: ScheduleHandle, count: int) -> bool:
    info = (await schedule.describe()).info
    return info.num_actions >= count and not info.running_actions


async def test_a_worker_that_was_started_anew_goes_on_where_the_last_pass_ended(temporal_client: Client) -> None:
    queue = f"reconcile-{uuid.uuid4().hex}"
    action = ScheduleActionStartWorkflow(
        ReconcileWorkflow.run, ReconcileInput(), id=queue, task_queue=queue, execution_timeout=timedelta(minutes=1)
    )
    schedule = await temporal_client.create_schedule(queue, Schedule(action=action, spec=ScheduleSpec()))
    one = Pass()
    try:
        for number in range(1, 4):
            async with Worker(
                temporal_client,
                task_queue=queue,
                workflows=[ReconcileWorkflow],
                activities=[one.reconcile],
                workflow_runner=workflow_runner(),
            ):
                await schedule.trigger()
                await until(lambda count=number: passed(schedule, count), what="the pass")
    finally:
        await schedule.delete()
    assert one.began == [0, 3, 3], "a pass that failed is made again"
