"""The Temporal Schedule of the sweeper. Overlapping passes are skipped; a changed period is applied to the existing schedule."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError

from memory.model.errors import MemoryUnavailable
from memory.model.names import SWEEP_SCHEDULE_ID, SWEEP_WORKFLOW, TASK_QUEUE
from memory.model.steps import SweepInput
from memory.settings import Settings


def sweep_schedule(settings: Settings) -> Schedule:
    sweep = SweepInput(grace_s=settings.sweep_grace_s, staging_ttl_s=settings.staging_ttl_s)
    return Schedule(
        action=ScheduleActionStartWorkflow(
            SWEEP_WORKFLOW,
            sweep,
            id=SWEEP_SCHEDULE_ID,
            task_queue=TASK_QUEUE,
            execution_timeout=timedelta(minutes=30),
            static_summary="start what was recorded but not started; clear staging leftovers",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=settings.sweep_interval_s))]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=5)),
    )


async def ensure_sweep_schedule(client: Client, settings: Settings) -> bool:
    """Create the schedule (true), or bring an existing one to these settings (false). Safe to repeat and to race.

    Raises MemoryUnavailable when the server cannot be reached or refuses.
    """
    wanted = sweep_schedule(settings)
    try:
        try:
            await client.create_schedule(SWEEP_SCHEDULE_ID, wanted)
            return True
        except ScheduleAlreadyRunningError:

            def bring_up_to_date(existing: ScheduleUpdateInput) -> ScheduleUpdate:
                # Paused by an operator stays paused.
                wanted.state = existing.description.schedule.state
                return ScheduleUpdate(wanted)

            await client.get_schedule_handle(SWEEP_SCHEDULE_ID).update(bring_up_to_date)
            return False
    except RPCError as error:
        raise MemoryUnavailable(f"the sweep schedule cannot be set up: {error.status.name}") from None
