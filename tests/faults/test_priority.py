"""Under a burst of windows a turn does not wait behind them: background work has a lower priority in the task queues."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.window import WindowState
from starter.engines import S3Server, TemporalServer
from tests.faults.test_shutdown import a_world, turn
from tests.support.fleet import World, worker_command
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(180)

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
USERS = 12
SIZE = 4


async def began(client: Client, workflow_id: str) -> datetime:
    """When a worker took the first task of that run."""
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
            return event.event_time.ToDatetime(tzinfo=UTC)
    raise AssertionError(f"nobody worked on {workflow_id}")


async def all_done(world: World, users: list[Scope]) -> bool:
    for scope in users:
        windows = await world.parts.ledger.windows(scope=scope, limit=10)
        if [window.state for window in windows] != [WindowState.DONE]:
            return False
    return True


async def test_turns_go_before_windows_that_waited_longer(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    with_windows = [Scope.of("acme", f"window-{number}") for number in range(USERS)]
    with_turns = [Scope.of("acme", f"turn-{number}") for number in range(USERS)]
    async with a_world(tmp_path, s3_server, temporal_server, window_size=SIZE, max_concurrent_workflow_tasks=2) as world:
        for scope in with_windows:
            said = [MessageEvent(timestamp=NOW, sender_id="user", content=f"Line {n}.", event_id=f"e{n}") for n in range(SIZE)]
            receipt = await world.memory.record_events(scope, said, allow_user_memory=True)
            assert receipt.status.value == "recorded", receipt
            await until(lambda scope=scope: started(world, scope.consolidate_events_workflow_id), what="its run waits")
        for scope in with_turns:
            await world.record(scope, [turn()])
            await until(lambda scope=scope: started(world, scope.post_answer_workflow_id), what="its run waits")
        async with worker_command(world.settings, world.client, tmp_path / "worker.err") as worker:
            await world.settle(*with_turns)
            await until(lambda: all_done(world, with_windows), within_s=90)
            worker.process.terminate()
            assert await worker.ended() == 0, worker.log()
        turns = sorted([await began(world.client, scope.post_answer_workflow_id) for scope in with_turns])
        windows = sorted([await began(world.client, scope.consolidate_events_workflow_id) for scope in with_windows])
    # Two at once, and a poller may have asked before the last turn was in the queue.
    assert sum(one < turns[-3] for one in windows) <= 2, (turns, windows)


async def started(world: World, workflow_id: str) -> bool:
    async for _ in world.client.list_workflows(f"WorkflowId = '{workflow_id}'"):
        return True
    return False
