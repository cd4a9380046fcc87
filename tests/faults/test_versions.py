"""A rollout: two versions of the workers on the development server, and what becomes of the runs that are open meanwhile.

The commands are those of docs/changing.md.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle

from memory.model.errors import InvalidSettings
from memory.model.names import FORGET_USER_WORKFLOW, POST_ANSWER_WORKFLOW
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.settings import load_settings
from starter.engines import S3Server, TemporalServer, engine_binary
from starter.replay import lesson, replay_namespace
from tests.faults.test_shutdown import SlowModel, a_world, turn
from tests.replay.changed_order import ChangedOrder
from tests.support.fleet import ROOT, Command, plain_environment, server_of, worker_command
from tests.support.model_stub import ModelStub
from tests.support.waiting import until
from worker import deployment_of
from workflows import ForgetUserWorkflow

pytestmark = pytest.mark.timeout(240)

ANN, BOB, EVE = (Scope.of("acme", name) for name in ("ann", "bob", "eve"))
DOCUMENT = ROOT / "docs" / "changing.md"


def documented(command: str) -> list[str]:
    """The arguments of the one command of the document that begins so; continued lines are one."""
    text = DOCUMENT.read_text("utf-8").replace("\\\n", " ")
    (line,) = {" ".join(found.split()) for found in re.findall(rf"^({re.escape(command)}[^#\n]*)", text, re.MULTILINE)}
    return line.split()


async def temporal(arguments: Sequence[str], client: Client) -> tuple[int, str]:
    """Runs a command of Temporal's own program; gives its exit code and what it prints."""
    assert arguments[0] == "temporal"
    process = await asyncio.create_subprocess_exec(
        *(str(engine_binary("temporal")), *arguments[1:]),
        env=plain_environment(server_of(client)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def make_current(client: Client, build: str) -> None:
    arguments = documented("temporal worker deployment set-current-version")
    arguments[arguments.index("--build-id") + 1] = build

    async def done() -> bool:
        # The server hears of a version with its first poll, a moment after the worker has started.
        code, said = await temporal(arguments, client)
        assert code == 0 or "not" in said or "no Worker Deployment found" in said, said
        return code == 0

    await until(done, what=f"{build} is current")


async def builds(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """The versions that did a run's workflow tasks, in order, each once."""
    events = (await handle.fetch_history()).events
    found = [
        event.workflow_task_completed_event_attributes.deployment_version.build_id
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    return list(dict.fromkeys(found))


async def runs_of(client: Client, workflow_id: str) -> list[WorkflowHandle[Any, Any]]:
    """All runs of an id, oldest first."""
    found = [run async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'")]
    found.sort(key=lambda run: run.start_time)
    return [client.get_workflow_handle(run.id, run_id=run.run_id) for run in found]


async def stop(worker: Command) -> None:
    worker.process.terminate()
    assert await worker.ended() == 0, worker.log()


async def test_a_second_version_takes_over_while_the_first_one_ends_what_it_began(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, model_stub: ModelStub
) -> None:
    model = SlowModel(model_stub)
    values: dict[str, Any] = {
        "language_model": "openai:stub",
        "coalesce_turns": False,
        "forget_settle_s": 12,
        "deployment_name": "afterturn",
        **model_stub.settings,
    }
    async with a_world(tmp_path, s3_server, temporal_server, **values) as world:
        first_settings = world.settings.model_copy(update={"build_id": "one"})
        # Vectors belong to one process; an own, empty folder of them lets the second worker empty its own.
        (tmp_path / "second").mkdir()
        database = SecretStr(world.settings.sqlalchemy_url)
        elsewhere = {"build_id": "two", "data_dir": tmp_path / "second", "database_url": database}
        second_settings = world.settings.model_copy(update=elsewhere)
        async with (
            worker_command(first_settings, world.client, tmp_path / "one.err") as first,
            worker_command(second_settings, world.client, tmp_path / "two.err") as second,
        ):
            await make_current(world.client, "one")
            # Open when the new version comes: a turn whose model works, another one behind it, an erasure that waits.
            await world.record(ANN, [turn(1)])
            await until(lambda: model.asked("rewrite") == 1, within_s=60)
            await world.record(ANN, [turn(2, "I live in Porto.")])
            erasure = await world.memory.forget(EVE)
            forgetting = world.client.get_workflow_handle(f"forget/{erasure.erasure_id}")

            async def waits() -> bool:
                events = (await forgetting.fetch_history()).events
                return any(event.event_type == EventType.EVENT_TYPE_TIMER_STARTED for event in events)

            await until(waits, within_s=60)
            await make_current(world.client, "two")
            open_runs = await replay_namespace(world.client, limit=100, open_only=True)
            assert {result.workflow_type for result in open_runs.results} == {POST_ANSWER_WORKFLOW, FORGET_USER_WORKFLOW}
            assert open_runs.failed == 0, lesson(open_runs)
            model.release.set()
            await world.record(BOB, [turn(3, "I work at Globex.")])
            await world.settle(ANN, BOB)

            async def forgotten() -> bool:
                return (await forgetting.describe()).status is WorkflowExecutionStatus.COMPLETED

            await until(forgotten, within_s=90)

            ann = await runs_of(world.client, ANN.post_answer_workflow_id)
            assert [await builds(run) for run in ann] == [["one"], ["two"]], "what was begun ends, what waited moves on"
            bob = await runs_of(world.client, BOB.post_answer_workflow_id)
            assert [await builds(run) for run in bob] == [["two"]]
            assert await builds(forgetting) == ["one", "two"], "a long run goes on with the new version"

            every_run = await replay_namespace(world.client, limit=100)
            assert len(every_run.results) >= 4
            assert every_run.failed == 0, lesson(every_run)
            careless = await replay_namespace(world.client, limit=100, workflows=(ChangedOrder, ForgetUserWorkflow))
            assert {result.workflow_type for result in careless.results if result.diverged} == {POST_ANSWER_WORKFLOW}

            left = documented("temporal workflow count")
            query = shlex.split(" ".join(left))[-1].replace("afterturn:2026-11-29-3", "afterturn:one")
            left[left.index("--query") + 1 :] = [query]
            assert (await temporal(left, world.client))[1].split() == ["Total:", "0"]
            await stop(first)
            await world.record(BOB, [turn(4, "I prefer short answers.")])
            await world.settle(BOB)
            await stop(second)
        ledgers: list[Mapping[str, Any]] = [await world.ledger(ANN), await world.ledger(BOB)]
        histories = [await world.memory.history(ANN), await world.memory.history(BOB)]
    assert [row.outcome for ledger in ledgers for row in ledger.values()] == [Outcome.UPDATED] * 4
    assert [len(history) for history in histories] == [2, 2]
    assert model.asked("rewrite") == 4, "nothing was done twice"


def test_half_a_version_is_refused() -> None:
    assert deployment_of(load_settings({})) is None
    with pytest.raises(InvalidSettings, match="TEMPORAL_WORKER_BUILD_ID is missing"):
        deployment_of(load_settings({}, deployment_name="afterturn"))
    with pytest.raises(InvalidSettings, match="TEMPORAL_DEPLOYMENT_NAME is missing"):
        deployment_of(load_settings({}, build_id="one"))
    with pytest.raises(InvalidSettings, match="must not hold a dot"):
        deployment_of(load_settings({}, deployment_name="after.turn", build_id="one"))
    config = deployment_of(load_settings({}, deployment_name="afterturn", build_id="one"))
    assert config is not None
    assert config.use_worker_versioning
