"""What the workflow decides about windows: order, fail open by category, caps, wake-ups, cancellation. Real server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.worker import Worker

from memory.model.category import Category
from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.model.scope import Scope
from memory.model.window import WindowState
from memory.model.window_steps import WindowStatusReply, WindowTotals
from starter.scripted import fails
from starter.scripted_windows import ScriptedWindows, WindowStage
from workflows import ConsolidateEventsWorkflow
from workflows.sandbox import workflow_runner

Running = Callable[[ScriptedWindows], AbstractAsyncContextManager[WindowStage]]


@pytest.fixture
def running(temporal_client: Client) -> Running:
    """``async with running(ScriptedWindows(...)) as run``: workers for both queues until the block ends."""

    @asynccontextmanager
    async def start(world: ScriptedWindows) -> AsyncIterator[WindowStage]:
        async with (
            Worker(
                temporal_client,
                task_queue=TASK_QUEUE,
                workflows=[ConsolidateEventsWorkflow],
                activities=world.all(),
                workflow_runner=workflow_runner(),
            ),
            Worker(temporal_client, task_queue=MODEL_TASK_QUEUE, activities=[world.extract_window]),
        ):
            yield WindowStage(temporal_client, world, Scope.of("acme", uuid.uuid4().hex))

    return start


async def test_windows_are_worked_off_in_order_and_indexed(running: Running) -> None:
    async with running(ScriptedWindows()) as run:
        totals = await (await run.wake(3)).result()
    assert totals == WindowTotals(windows=3, events=150, applied=6)
    assert list(run.world.outcomes) == ["w1", "w51", "w101"]
    done = run.world.outcomes["w51"]
    assert (done.state, [one.category for one in done.outcomes]) == (WindowState.DONE, [Category.BIOS, Category.KNOWLEDGE])
    assert done.usage["extract"].input_tokens == 3000
    assert run.world.calls.count("index") >= 1


async def test_nothing_due_costs_one_step(running: Running) -> None:
    async with running(ScriptedWindows()) as run:
        totals = await (await run.wake(0)).result()
    assert (totals, run.world.calls) == (WindowTotals(), ["plan"])


async def test_all_categories_off_consumes_the_window_without_a_model(running: Running) -> None:
    async with running(ScriptedWindows(plan={"categories": (), "skip": "no_category"})) as run:
        await (await run.wake()).result()
    assert "extract" not in run.world.calls
    done = run.world.outcomes["w1"]
    assert (done.state, done.reason, run.world.watermark) == (WindowState.SKIPPED, "no_category", 50)


async def test_a_category_without_items_has_no_apply_step(running: Running) -> None:
    async with running(ScriptedWindows(empty=True)) as run:
        await (await run.wake()).result()
    assert run.world.calls[:3] == ["plan", "extract", "commit"]
    assert run.world.outcomes["w1"].state is WindowState.DONE


async def test_a_category_that_fails_leaves_the_others_standing(running: Running) -> None:
    async with running(ScriptedWindows(categories=(Category.BIOS, Category.KNOWLEDGE, Category.TASKS))) as run:
        run.world.then("apply:knowledge", fails("InvalidInput", final=True))
        await (await run.wake()).result()
    done = run.world.outcomes["w1"]
    assert (done.state, done.reason) == (WindowState.PARTIAL, "failed:knowledge")
    states = {one.category: (one.state, one.applied) for one in done.outcomes}
    assert states == {Category.BIOS: ("done", 1), Category.KNOWLEDGE: ("failed", 0), Category.TASKS: ("done", 1)}


async def test_an_apply_step_that_fails_once_is_tried_again(running: Running) -> None:
    async with running(ScriptedWindows()) as run:
        run.world.then("apply:bios", fails("Unexpected"))
        await (await run.wake()).result()
    assert run.world.calls.count("apply:bios") == 2
    assert run.world.outcomes["w1"].state is WindowState.DONE


async def test_an_unreadable_section_is_reported_and_the_rest_applied(running: Running) -> None:
    async with running(ScriptedWindows(unreadable=(Category.BIOS,))) as run:
        await (await run.wake()).result()
    assert "apply:bios" not in run.world.calls
    assert "apply:knowledge" in run.world.calls
    assert run.world.outcomes["w1"].state is WindowState.PARTIAL


@pytest.mark.parametrize("kind", ["ModelRejected", "SpendCapReached"])
async def test_a_window_that_cannot_be_extracted_is_failed_or_waits(running: Running, kind: str) -> None:
    """A refusal keeps the window and goes on with the next; a spent day begins nothing more."""
    async with running(ScriptedWindows()) as run:
        run.world.then("extract", fails(kind, final=True))
        totals = await (await run.wake(2)).result()
    if kind == "ModelRejected":
        assert run.world.outcomes["w1"].reason == "extract_failed:ModelRejected"
        assert {key: done.state for key, done in run.world.outcomes.items()} == {"w1": WindowState.FAILED, "w51": WindowState.DONE}
        assert totals.failed == 1
    else:
        assert (run.world.outcomes, run.world.watermark, totals.windows) == ({}, 0, 0)


async def test_extraction_attempts_are_bounded(running: Running) -> None:
    async with running(ScriptedWindows()) as run:
        run.world.then("extract", *[fails("MalformedOutput")] * 10)
        await (await run.wake()).result()
    assert run.world.calls.count("extract") == 4
    assert run.world.outcomes["w1"].state is WindowState.FAILED


async def test_a_store_that_is_away_is_waited_for(running: Running) -> None:
    async with running(ScriptedWindows()) as run:
        for step in ("plan", "extract", "apply:bios", "commit"):
            run.world.then(step, *[fails("StoreUnavailable")] * 3)
        await (await run.wake()).result()
    assert run.world.outcomes["w1"].state is WindowState.DONE


async def test_events_that_arrive_at_the_end_are_not_missed(running: Running) -> None:
    release = asyncio.Event()
    async with running(ScriptedWindows()) as run:
        run.world.then("index", release)
        handle = await run.wake()
        await run.reached("index")
        await run.wake()
        await run.reached("commit", 2)
        release.set()
        totals = await handle.result()
    assert totals.windows == 2


async def test_an_index_that_fails_does_not_fail_the_window(running: Running) -> None:
    async with running(ScriptedWindows()) as run:
        run.world.then("index", fails("InvalidSettings", final=True))
        totals = await (await run.wake()).result()
    assert (totals.windows, totals.failed) == (1, 0)


async def test_a_cancelled_run_leaves_its_window_planned(running: Running) -> None:
    never = asyncio.Event()
    async with running(ScriptedWindows()) as run:
        run.world.then("extract", never)
        handle = await run.wake()
        await run.reached("extract")
        status = await handle.query(ConsolidateEventsWorkflow.status)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        never.set()
        assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED
        assert run.world.outcomes == {}
        again = await (await run.wake(0)).result()
    assert status == WindowStatusReply(stage="extracting", window_id="w1")
    assert again.windows == 1


async def test_long_runs_continue_as_new_and_keep_their_totals(running: Running) -> None:
    async with running(ScriptedWindows(plan={"continue_after_windows": 2})) as run:
        totals = await (await run.wake(5)).result()
    assert (totals.windows, totals.events, totals.runs) == (5, 250, 3)


async def test_the_status_query_names_windows_and_counts(running: Running) -> None:
    async with running(ScriptedWindows()) as run:
        handle = await run.wake()
        await handle.result()
        status = await handle.query(ConsolidateEventsWorkflow.status)
    assert (status.stage, status.last_state, status.totals.applied) == ("done", WindowState.DONE, 2)


async def test_a_loop_that_a_window_names_runs_beside_it_and_outlives_it(running: Running, temporal_client: Client) -> None:
    """Nobody here works on loops: the run ends all the same, and the loop waits for somebody who does."""
    async with running(ScriptedWindows(loops=("w1-1",))) as run:
        totals = await (await run.wake(2)).result()
        loop = temporal_client.get_workflow_handle(run.scope.knowledge_workflow_id("w1-1"))
        described = await loop.describe()
        await loop.terminate()
    assert (totals.windows, totals.failed) == (2, 0)
    assert described.status is WorkflowExecutionStatus.RUNNING
    assert (described.workflow_type, described.parent_id) == ("KnowledgeLoopWorkflow", run.workflow_id)


async def test_a_loop_that_has_ended_is_not_run_again(running: Running, temporal_client: Client) -> None:
    async with running(ScriptedWindows(loops=("w1-1",))) as run:
        await (await run.wake()).result()
        loop = temporal_client.get_workflow_handle(run.scope.knowledge_workflow_id("w1-1"))
        await loop.terminate()
        await (await run.wake()).result()
        described = await loop.describe()
    assert described.status is WorkflowExecutionStatus.TERMINATED
    assert list(run.world.outcomes) == ["w1", "w51"]
