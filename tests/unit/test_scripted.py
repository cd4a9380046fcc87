"""The activities under control that tests of workflows stand on."""

from __future__ import annotations

import dataclasses

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from memory.model.forget_steps import ErasureRef
from starter.scripted import fails
from starter.scripted_forget import ScriptedForget

ERASURE = ErasureRef(tenant="acme", erasure_id="one")


def step(activity_id: str) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, activity_id=activity_id)
    return environment


async def test_a_step_that_is_tried_again_after_its_answer_was_lost_gets_the_same_answer() -> None:
    world = ScriptedForget(stopped=[{"PostAnswerWorkflow": 1}])
    first = [(await step("1").run(world.stop, ERASURE)).stopped for _ in range(2)]
    assert first == [{"PostAnswerWorkflow": 1}] * 2
    assert (await step("2").run(world.stop, ERASURE)).stopped == {}
    assert world.calls == ["stop", "stop"]


async def test_a_step_that_failed_goes_on_in_the_script() -> None:
    world = ScriptedForget()
    world.then("stop", fails("StoreUnavailable"))
    with pytest.raises(ApplicationError):
        await step("1").run(world.stop, ERASURE)
    assert (await step("1").run(world.stop, ERASURE)).stopped == {}
    assert world.calls == ["stop", "stop"]
