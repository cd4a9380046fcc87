"""What the workflow decides about a knowledge loop: order of calls, steering, limits, repairs, ends. Scripted steps."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from memory.model.knowledge_loop import LoopState
from memory.model.knowledge_steps import LoopResult, Steer
from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.model.scope import Scope
from starter.scripted import fails
from starter.scripted_loops import LOOP_SHAPES, QUESTION_SHAPES, LoopStage, ScriptedLoops, answers, calls, unusable
from workflows import KnowledgeLoopWorkflow, KnowledgeQuestionWorkflow
from workflows.sandbox import workflow_runner

Running = Callable[[ScriptedLoops], AbstractAsyncContextManager[LoopStage]]


@pytest.fixture
def running(temporal_client: Client) -> Running:
    """``async with running(ScriptedLoops(...)) as run``: workers for both queues until the block ends."""

    @asynccontextmanager
    async def start(world: ScriptedLoops) -> AsyncIterator[LoopStage]:
        async with (
            Worker(
                temporal_client,
                task_queue=TASK_QUEUE,
                workflows=[KnowledgeLoopWorkflow, KnowledgeQuestionWorkflow],
                activities=world.store(),
                workflow_runner=workflow_runner(),
            ),
            Worker(temporal_client, task_queue=MODEL_TASK_QUEUE, activities=world.model()),
        ):
            yield LoopStage(temporal_client, world, Scope.of("acme", uuid.uuid4().hex))

    return start


async def shaped(running: Running, name: str) -> tuple[ScriptedLoops, LoopStage]:
    """Bring a run into one of the shapes."""
    make, act = LOOP_SHAPES[name]
    world = make()
    async with running(world) as run:
        await act(run)
    return world, run


EXPECTED: dict[str, tuple[LoopState, str | None, int]] = {
    "answer-at-once": (LoopState.DONE, None, 1),
    "reads-and-writes": (LoopState.DONE, None, 3),
    "refused": (LoopState.FAILED, "feature_flag_off", 0),
    "refused-calls": (LoopState.DONE, None, 2),
    "nested": (LoopState.DONE, None, 2),
    "paused": (LoopState.DONE, None, 3),
    "interjected": (LoopState.DONE, None, 3),
    "clarification-answered": (LoopState.DONE, None, 2),
    "clarification-unanswered": (LoopState.DONE, None, 2),
    "stopped-thinking": (LoopState.STOPPED, "stopped", 0),
    "stopped-reading": (LoopState.STOPPED, "stopped", 1),
    "stopped-writing": (LoopState.STOPPED, "stopped", 1),
    "stopped-paused": (LoopState.STOPPED, "stopped", 1),
    "stopped-waiting": (LoopState.STOPPED, "stopped", 1),
    "stopped-nested": (LoopState.STOPPED, "stopped", 1),
    "cancelled": (LoopState.STOPPED, "cancelled", 0),
    "limit-of-steps": (LoopState.LIMIT, "steps", 3),
    "limit-of-tokens": (LoopState.LIMIT, "tokens", 3),
    "limit-of-time": (LoopState.LIMIT, "time", 2),
    "limit-without-answer": (LoopState.LIMIT, "steps", 2),
    "repaired": (LoopState.DONE, None, 4),
    "malformed": (LoopState.FAILED, "empty", 3),
    "structured": (LoopState.DONE, None, 3),
    "not-in-form": (LoopState.FAILED, "response_format", 3),
    "rate-limited": (LoopState.DONE, None, 3),
    "model-rejected": (LoopState.FAILED, "model_failed:ModelRejected", 0),
    "store-outage-and-failed-write": (LoopState.DONE, None, 3),
    "continue-as-new": (LoopState.DONE, None, 6),
    "continue-as-new-paused": (LoopState.DONE, None, 3),
    "mixed-calls": (LoopState.DONE, None, 2),
    "another-follows": (LoopState.DONE, None, 1),
    "cancelled-another-follows": (LoopState.STOPPED, "cancelled", 0),
}


@pytest.mark.parametrize("name", list(LOOP_SHAPES))
async def test_every_shape_ends_as_it_should(running: Running, name: str) -> None:
    _, run = await shaped(running, name)
    assert (run.end.state, run.end.reason, run.end.steps) == EXPECTED[name]


async def test_reads_of_a_reply_run_side_by_side_and_writes_wait_for_what_stands_before_them(running: Running) -> None:
    world = ScriptedLoops(replies=deque([calls("filter", "reduce", "add_rows", "update_rows", "filter")]))
    first, second, write = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with running(world) as run:
        world.then("filter", first)
        world.then("reduce", second)
        world.then("add_rows", write)
        handle = await run.begin()
        await run.reached("filter")
        await run.reached("reduce")
        first.set()
        assert "add_rows" not in world.calls
        second.set()
        await run.reached("add_rows")
        status = await handle.query(KnowledgeLoopWorkflow.status)
        assert (status.doing, status.tools, world.calls.count("filter")) == ("using", ("add_rows",), 1)
        write.set()
        await handle.result()
        history = await handle.query(KnowledgeLoopWorkflow.history)
    assert world.calls[-5:] == ["add_rows", "update_rows", "filter", "think", "finish"]
    assert [line.calls for line in history.lines] == [("filter", "reduce", "add_rows", "update_rows", "filter"), ()]


async def test_a_write_decided_before_an_interjection_is_not_made_and_the_answer_is_thought_over(running: Running) -> None:
    world, _ = await shaped(running, "interjected")
    assert "add_rows" not in world.calls
    assert [(one.name, one.outcome) for one in world.settled] == [("add_rows", "overtaken")]
    assert world.calls.count("filter") == 1
    assert world.calls.count("think") == 3


async def test_a_pause_holds_before_the_next_step(running: Running) -> None:
    world = ScriptedLoops(replies=deque([calls("filter"), calls("add_rows")]))
    release = asyncio.Event()
    async with running(world) as run:
        world.then("filter", release)
        handle = await run.begin()
        await run.reached("filter")
        told = await handle.execute_update(KnowledgeLoopWorkflow.pause)
        assert told.progress.paused
        release.set()
        await run.at(handle, "paused")
        assert world.calls.count("think") == 1
        await handle.execute_update(KnowledgeLoopWorkflow.resume)
        result = await handle.result()
    assert result.state is LoopState.DONE
    assert world.calls.count("think") == 3


async def test_a_stop_gives_up_a_read_and_lets_a_write_end(running: Running) -> None:
    world, _ = await shaped(running, "stopped-writing")
    assert world.cancelled == []
    assert "update_rows" not in world.calls
    world, run = await shaped(running, "stopped-reading")
    assert "add_rows" not in world.calls
    assert run.end.reason == "stopped"


async def test_a_nested_loop_ends_with_the_one_that_asked(running: Running) -> None:
    world, run = await shaped(running, "stopped-nested")
    assert world.ended["loop.1.0"].state is LoopState.STOPPED
    child = run.client.get_workflow_handle(run.scope.knowledge_workflow_id("loop.1.0"))
    assert (await child.describe()).status is WorkflowExecutionStatus.CANCELED


async def test_a_nested_loop_counts_in_the_tokens(running: Running) -> None:
    world, run = await shaped(running, "nested")
    assert run.end.input_tokens == 4000
    assert [(one.nested, one.outcome) for one in world.settled] == [("loop.1.0", "settled")]


async def test_an_answer_to_a_question_that_is_not_open_is_refused(running: Running) -> None:
    world = ScriptedLoops(replies=deque([calls("request_clarification")]))
    async with running(world) as run:
        handle = await run.begin()
        await run.at(handle, "waiting_for_answer")
        assert (await handle.query(KnowledgeLoopWorkflow.status)).clarification == "clarification/1/0"
        for wrong in ("clarification/2/0", "", "nonsense"):
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update(KnowledgeLoopWorkflow.answer_clarification, Steer(entry=1, clarification=wrong))
        said = run.says().model_copy(update={"clarification": "clarification/1/0"})
        await handle.execute_update(KnowledgeLoopWorkflow.answer_clarification, said)
        await handle.result()
    assert [(one.clarification, one.outcome) for one in world.settled] == [("clarification/1/0", "settled")]


async def test_a_run_in_place_of_a_lost_one_knows_what_that_one_was_told(running: Running) -> None:
    """Its write of the last step that was thought may have been made; a write after that was not."""
    world = ScriptedLoops(replies=deque([calls("add_rows")] * 2), plan={"steered": 5, "thought": 1, "max_steps": 3})
    async with running(world) as run:
        await (await run.begin()).result()
    assert [(one.name, one.outcome) for one in world.settled] == [("add_rows", "in_doubt"), ("add_rows", "overtaken")]
    assert "add_rows" not in world.calls
    stopped = ScriptedLoops(plan={"stopping": True})
    async with running(stopped) as run:
        result = await (await run.begin()).result()
    assert (result.state, result.reason, "think" in stopped.calls) == (LoopState.STOPPED, "stopped", False)


async def test_what_is_said_while_the_answer_is_put_into_its_form_is_thought_over(running: Running) -> None:
    world = ScriptedLoops(replies=deque([answers(unstructured=True), answers(), answers()]))
    first, second = asyncio.Event(), asyncio.Event()
    world.then("think", first, second)
    first.set()
    async with running(world) as run:
        handle = await run.begin()
        await run.reached("think", 2)
        await handle.execute_update(KnowledgeLoopWorkflow.interject, run.says())
        second.set()
        result = await handle.result()
    assert [job.structure for job in world.thinks] == [False, True, False]
    assert (result.state, result.steps) == (LoopState.DONE, 3)


async def test_who_corrects_a_loop_that_gives_its_last_answer_is_told(running: Running) -> None:
    world = ScriptedLoops(replies=deque([calls("filter"), answers(unstructured=True)]), plan={"max_steps": 2})
    steps = [asyncio.Event() for _ in range(3)]
    world.then("think", *steps)
    async with running(world) as run:
        handle = await run.begin()
        await run.reached("think")
        await handle.execute_update(KnowledgeLoopWorkflow.interject, run.says())
        steps[0].set()
        for number in (2, 3):
            await run.reached("think", number)
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await handle.execute_update(KnowledgeLoopWorkflow.interject, run.says())
            assert isinstance(refused.value.cause, ApplicationError)
            assert refused.value.cause.type == "LoopEnded"
            steps[number - 1].set()
        result = await handle.result()
    assert (result.state, result.reason) == (LoopState.LIMIT, "steps")


async def test_what_a_person_takes_to_answer_or_to_resume_does_not_count_as_work(running: Running) -> None:
    world = ScriptedLoops(replies=deque([calls("request_clarification")]), plan={"clarification_wait_s": 1.5})
    async with running(world) as run:
        handle = await run.begin()
        await handle.result()
        status = await handle.query(KnowledgeLoopWorkflow.status)
    assert status.progress.worked_s < 1.5


async def test_who_steers_a_loop_that_is_stopping_is_told(running: Running) -> None:
    world = ScriptedLoops(replies=deque([calls("add_rows")]))
    release = asyncio.Event()
    async with running(world) as run:
        world.then("add_rows", release)
        handle = await run.begin()
        await run.reached("add_rows")
        await handle.signal(KnowledgeLoopWorkflow.stop, run.says())
        for update, given in (("pause", []), ("resume", []), ("interject", [Steer(entry=1)])):
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await handle.execute_update(update, args=given)
            assert isinstance(refused.value.cause, ApplicationError)
            assert refused.value.cause.type == "LoopEnded"
        release.set()
        await handle.result()


async def test_a_tool_that_fails_for_good_is_told_to_the_model_and_the_loop_goes_on(running: Running) -> None:
    world = ScriptedLoops(replies=deque([calls("filter", "add_rows")]))
    async with running(world) as run:
        world.then("filter", fails("InvalidInput", final=True))
        world.then("add_rows", *[fails("Unexpected")] * 3)
        handle = await run.begin()
        result = await handle.result()
        history = await handle.query(KnowledgeLoopWorkflow.history)
    assert result.state is LoopState.DONE
    assert [one.outcome for one in world.settled] == ["failed:InvalidInput", "failed:Unexpected"]
    assert history.lines[0].calls == ("filter: failed:InvalidInput", "add_rows: failed:Unexpected")


async def test_the_last_step_before_a_limit_has_no_tools(running: Running) -> None:
    world, _ = await shaped(running, "limit-of-steps")
    assert [job.last for job in world.thinks] == [False, False, True]


async def test_an_unusable_reply_is_asked_for_anew_with_what_was_wrong(running: Running) -> None:
    world, _ = await shaped(running, "repaired")
    assert [job.problem for job in world.thinks] == [None, "empty", "truncated", None]


async def test_model_attempts_are_bounded(running: Running) -> None:
    async with running(ScriptedLoops()) as run:
        run.world.then("think", *[fails("MalformedOutput")] * 9)
        result = await (await run.begin()).result()
    assert (result.state, result.reason) == (LoopState.FAILED, "model_failed:MalformedOutput")
    assert run.world.calls.count("think") == 4


async def test_a_cancelled_run_says_so_in_its_row_too(running: Running) -> None:
    _, run = await shaped(running, "cancelled")
    handle = run.client.get_workflow_handle(run.workflow_id)
    assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED
    with pytest.raises(WorkflowFailureError):
        await handle.result()


async def test_a_loop_continues_as_new_in_the_middle_with_all_that_was_said(running: Running) -> None:
    world, run = await shaped(running, "continue-as-new-paused")
    result = await run.client.get_workflow_handle(run.workflow_id, result_type=LoopResult).result()
    assert (result.runs, result.steps, result.input_tokens) == (3, 3, 3000)
    assert world.calls.count("begin") == 1
    # The second interjection was read by the second think: the first step of the new run.
    assert world.calls.count("think") == 3


async def test_a_question_beside_a_loop_is_answered_or_says_why_not(running: Running) -> None:
    for name, (make, act) in QUESTION_SHAPES.items():
        async with running(make()) as run:
            await act(run)
            reply = await run.client.get_workflow_handle(run.workflow_id).result()
        assert (reply["answered"], reply["problem"]) == {
            "answered": (True, None),
            "failed": (False, "model_failed:ModelRejected"),
        }[name]


async def test_replies_are_unusable_only_in_a_row(running: Running) -> None:
    bad = [unusable("empty"), unusable("empty")]
    world = ScriptedLoops(replies=deque([*bad, calls("filter"), *bad, answers()]))
    async with running(world) as run:
        result = await (await run.begin()).result()
    assert (result.state, result.steps) == (LoopState.DONE, 6)


@pytest.mark.parametrize("shape", ["another-follows", "cancelled-another-follows"])
async def test_the_loop_that_follows_is_started_and_ends_for_itself(running: Running, shape: str) -> None:
    world, _ = await shaped(running, shape)
    assert list(world.ended)[-1] == "next"
    assert world.ended["next"].state is LoopState.DONE
