"""The Temporal Schedules of the sweeper and of the reconciliation.

Overlapping passes are skipped; a changed period is applied to the existing schedule.
"""

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
from memory.model.names import RECONCILE_SCHEDULE_ID, RECONCILE_WORKFLOW, SWEEP_SCHEDULE_ID, SWEEP_WORKFLOW, TASK_QUEUE
from memory.model.steps import SweepInput
from memory.model.window_steps import ReconcileInput
from memory.settings import Settings


def sweep_schedule(settings: Settings) -> Schedule:
    sweep = SweepInput(grace_s=settings.sweep_grace_s, staging_ttl_s=settings.staging_ttl_s, limit=settings.sweep_limit)
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


def reconcile_schedule(settings: Settings) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(
            RECONCILE_WORKFLOW,
            ReconcileInput(),
            id=RECONCILE_SCHEDULE_ID,
            task_queue=TASK_QUEUE,
            execution_timeout=timedelta(hours=2),
            static_summary="find and mend drift between rows and vectors",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=settings.reconcile_every_s))]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=5)),
    )


async def ensure_schedules(client: Client, settings: Settings) -> bool:
    """Create the schedules of the sweeper and of the reconciliation, or bring existing ones to these settings.

    Safe to repeat and to race. Returns whether one was created. Raises MemoryUnavailable when the server cannot be reached or
    refuses.
    """
    wanted = {SWEEP_SCHEDULE_ID: sweep_schedule(settings), RECONCILE_SCHEDULE_ID: reconcile_schedule(settings)}
    created = [await _ensure(client, schedule_id, schedule) for schedule_id, schedule in wanted.items()]
    return any(created)


async def _ensure(client: Client, schedule_id: str, wanted: Schedule) -> bool:
    try:
        try:
            await client.create_schedule(schedule_id, wanted)
            return True
        except ScheduleAlreadyRunningError:

            def bring_up_to_date(existing: ScheduleUpdateInput) -> ScheduleUpdate:
                # Paused by an operator stays paused.
                wanted.state = existing.description.schedule.state
                return ScheduleUpdate(wanted)

            await client.get_schedule_handle(schedule_id).update(bring_up_to_date)
            return False
    except RPCError as error:
        raise MemoryUnavailable(f"the {schedule_id} schedule cannot be set up: {error.status.name}") from None
