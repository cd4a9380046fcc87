"""What only the workflow of an erasure decides: passes, waits, when it is done, what it says."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from memory.model.erasure import ErasureState
from memory.model.forget_steps import ErasureRef, ForgetResult
from memory.model.names import TASK_QUEUE
from starter.scripted import fails
from starter.scripted_forget import ForgetStage, ScriptedForget
from tests.support.waiting import until
from workflows import ForgetUserWorkflow
from workflows.sandbox import workflow_runner


@asynccontextmanager
async def running(client: Client, world: ScriptedForget) -> AsyncIterator[ForgetStage]:
    stage = ForgetStage(client, world, ErasureRef(tenant="acme", erasure_id=uuid.uuid4().hex))
    async with Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[ForgetUserWorkflow],
        activities=world.all(),
        workflow_runner=workflow_runner(),
    ):
        yield stage


async def forgotten(client: Client, world: ScriptedForget) -> ForgetResult:
    async with running(client, world) as stage:
        return await (await stage.start()).result()


async def test_a_second_pass_finds_nothing_and_then_it_is_done(temporal_client: Client) -> None:
    world = ScriptedForget()
    result = await forgotten(temporal_client, world)
    assert (result.state, result.passes, result.problems) == (ErasureState.DONE, 2, ())
    assert result.counts == {"rows.things": 2, "vectors.things": 2, "objects.things": 2}
    assert [mark.state for mark in world.marks] == [ErasureState.ERASED, ErasureState.DONE]
    first_mark, last = world.calls.index("mark:erased"), world.calls.index("mark:done")
    assert {f"erase:{store}" for store in ("rows", "vectors", "objects")} <= set(world.calls[:first_mark])
    assert world.calls[:2] == ["begin", "stop"]
    assert world.calls[first_mark + 1] == "stop"
    assert world.calls.count("delete") >= 2
    assert world.calls[last - 1] == "delete"


async def test_it_goes_on_until_a_pass_finds_nothing(temporal_client: Client) -> None:
    world = ScriptedForget(left={(2, "rows"): 1, (3, "vectors"): 5})
    result = await forgotten(temporal_client, world)
    assert result.passes == 4
    assert result.counts == {"rows.things": 3, "vectors.things": 7, "objects.things": 2}


async def test_a_run_that_was_stopped_in_the_second_pass_is_waited_out_too(temporal_client: Client) -> None:
    assert (await forgotten(temporal_client, ScriptedForget(stopped=[{}, {"PostAnswerWorkflow": 1}]))).passes == 3


async def test_the_other_stores_are_emptied_while_one_is_away_and_the_details_say_which(temporal_client: Client) -> None:
    world = ScriptedForget()
    world.then("erase:objects", *[fails("StoreUnavailable")] * 4)
    async with running(temporal_client, world) as stage:
        handle = await stage.start()

        async def told() -> bool:
            description = await handle.describe()
            details = await description.static_details() or ""
            shown = await handle.query("__temporal_workflow_metadata")
            return "waits: objects (StoreUnavailable" in f"{details}{shown}"

        await until(told, what="the details name the store")
        assert {"erase:rows", "erase:vectors"} <= set(world.calls)
        assert world.marks == []
        assert (await handle.result()).problems == ()


async def test_what_is_done_is_left_alone(temporal_client: Client) -> None:
    world = ScriptedForget(plan={"open": False})
    assert (await forgotten(temporal_client, world)).state is ErasureState.DONE
    assert world.calls == ["begin"]


async def test_executions_that_stay_are_in_the_receipt(temporal_client: Client) -> None:
    listed = ScriptedForget(plan={"runs_for_s": 1.5}, listed=[2])
    refused = ScriptedForget()
    refused.then("delete", fails("InvalidSettings", final=True))
    for world, said in ((listed, "2 are still listed"), (refused, "does not let")):
        result = await forgotten(temporal_client, world)
        assert result.state is ErasureState.DONE
        assert [said in problem for problem in result.problems] == [True]
        assert world.marks[-1].problems == result.problems


async def test_where_somebody_goes_on_writing_it_fails_and_is_not_done(temporal_client: Client) -> None:
    world = ScriptedForget(plan={"max_passes": 3}, left={(number, "rows"): 1 for number in range(1, 4)})
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(forgotten(temporal_client, world), 60)
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "StillWritten"
    assert {mark.state for mark in world.marks} == {ErasureState.ERASED}


async def test_a_step_is_given_up_after_its_time_and_the_run_fails(temporal_client: Client) -> None:
    world = ScriptedForget(plan={"retry_for_s": 1.0})
    world.then("erase:vectors", *[fails("Unexpected", final=True)] * 5)
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(forgotten(temporal_client, world), 60)
    assert world.marks == []
