"""FAULTS 34 and 37: SIGTERM in the middle of a step, a worker that dies in the middle of a model call, calls that block.

The workers are real processes: the command `afterturn worker`.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.testing import ActivityEnvironment

from activities.model_steps import ModelActivities
from memory.llm.factory import build_models
from memory.llm.simulated_prompt import read_request
from memory.metering import Meter
from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.model.scope import Scope
from memory.model.steps import BatchInput, Plan, TurnRef, UserRef
from memory.model.turn import Outcome, StoredTurn, Turn
from memory.profiles import Profiles
from memory.settings import load_settings
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import build_tables
from starter.engines import S3Server, TemporalServer
from tests.starter.test_health import ask
from tests.support.fleet import World, migrated_file, new_namespace, open_world, worker_command, world_settings
from tests.support.model_stub import ModelStub, StubReply, StubRequest, answer_with
from tests.support.waiting import until
from tests.support.webhook import WebhookReceiver

pytestmark = pytest.mark.timeout(180)

START = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
USER = Scope.of("acme", "ada")
GRACE_S = 30


def turn(number: int = 1, text: str = "My name is Ada Keller.") -> Turn:
    return Turn(
        turn_id=f"t{number}",
        user_text=text,
        assistant_text="Noted.",
        occurred_at=START + timedelta(minutes=number),
        allow_user_memory=True,
    )


class SlowModel:
    """The simulated model over HTTP, which rewrites when it is released."""

    def __init__(self, stub: ModelStub) -> None:
        self.stub = stub
        self.release = threading.Event()
        self._answer = answer_with(build_models(load_settings({})).model("simulated"))
        stub.default = self._step

    def _step(self, request: StubRequest) -> StubReply:
        reply = self._answer(request)
        if _task(request) != "rewrite":
            return reply
        return replace(reply, hold=self.release)

    def asked(self, task: str) -> int:
        return [_task(request) for request in list(self.stub.requests)].count(task)


def _task(request: StubRequest) -> str:
    return read_request(request.chat_request()).task


@asynccontextmanager
async def a_world(folder: Path, s3: S3Server, temporal: TemporalServer, **overrides: Any) -> AsyncGenerator[World]:
    values = {"graceful_shutdown_s": GRACE_S, "notice_log": False, **overrides}
    settings = world_settings(folder / "data", migrated_file(folder), s3.settings, **values)
    async with open_world(settings, await new_namespace(temporal.address)) as world:
        yield world


async def events(world: World) -> Sequence[HistoryEvent]:
    return (await world.client.get_workflow_handle(USER.post_answer_workflow_id).fetch_history()).events


# ------------------------------------------------------------------------------------------------------------- 34: SIGTERM


async def test_sigterm_lets_a_model_call_end_and_nothing_is_done_twice(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, model_stub: ModelStub
) -> None:
    model = SlowModel(model_stub)
    async with a_world(tmp_path, s3_server, temporal_server, language_model="openai:stub", **model_stub.settings) as world:
        async with worker_command(world.settings, world.client, tmp_path / "first.err") as first:
            await world.record(USER, [turn()])
            await until(lambda: model.asked("rewrite") == 1, within_s=60)
            first.process.terminate()
            await until(lambda: "worker_stopping" in first.log())
            model.release.set()
            assert await first.ended() == 0, first.log()
        async with worker_command(world.settings, world.client, tmp_path / "second.err") as second:
            await world.settle(USER)
            second.process.terminate()
            assert await second.ended() == 0, second.log()
        row = (await world.ledger(USER))["t1"]
        history = await world.memory.history(USER)
        done = [event for event in await events(world) if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED]
    assert model.asked("rewrite") == 1
    assert model.asked("gate") == 1
    assert {event.activity_task_started_event_attributes.attempt for event in done} == {1}
    assert (row.outcome, row.profile_version) == (Outcome.UPDATED, 1)
    assert [version.cause for version in history] == ["turns"]
    assert "worker_stopped" in first.log()


async def test_sigterm_ends_a_worker_whose_model_never_answers_and_another_one_takes_over(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, model_stub: ModelStub
) -> None:
    model = SlowModel(model_stub)
    settings: dict[str, Any] = {"language_model": "openai:stub", "graceful_shutdown_s": 1, **model_stub.settings}
    async with a_world(tmp_path, s3_server, temporal_server, **settings) as world:
        async with worker_command(world.settings, world.client, tmp_path / "first.err") as first:
            await world.record(USER, [turn()])
            await until(lambda: model.asked("rewrite") == 1, within_s=60)
            first.process.terminate()
            assert await first.ended() == 0, first.log()
        model.release.set()
        async with worker_command(world.settings, world.client, tmp_path / "second.err"):
            await world.settle(USER)
        row = (await world.ledger(USER))["t1"]
        history = await world.memory.history(USER)
    assert model.asked("rewrite") == 2
    assert (row.outcome, row.profile_version) == (Outcome.UPDATED, 1)
    assert len(history) == 1


async def test_sigterm_in_a_store_step_loses_nothing_and_the_probes_tell_of_it(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, unused_tcp_port: int
) -> None:
    """A notice, sent by a local activity: those run inside the worker of the workflows."""

    async def probe(path: str) -> tuple[int, Any]:
        return await asyncio.to_thread(ask, unused_tcp_port, path)

    async def ready() -> bool:
        return (await probe("/readyz"))[0] == 200

    with WebhookReceiver() as webhook:
        values = {"notice_timeout_s": 10, "health_address": f"127.0.0.1:{unused_tcp_port}", **webhook.settings}
        async with a_world(tmp_path, s3_server, temporal_server, **values) as world:
            webhook.hold.clear()
            async with worker_command(world.settings, world.client, tmp_path / "first.err") as first:
                assert (await probe("/startupz"))[0] == 200
                await until(ready)
                assert (await probe("/readyz"))[1]["polling"] == {TASK_QUEUE: True, MODEL_TASK_QUEUE: True}
                await world.record(USER, [turn()])
                await until(lambda: webhook.notices, within_s=60)
                assert (await probe("/livez"))[0] == 200
                first.process.terminate()
                await until(lambda: "worker_stopping" in first.log())
                status, body = await probe("/readyz")
                assert (status, body["stage"]) == (503, "stopping")
                assert (await probe("/livez"))[0] == 200, "a worker that lets its steps end is alive"
                webhook.hold.set()
                assert await first.ended() == 0, first.log()
            async with worker_command(world.settings, world.client, tmp_path / "second.err") as second:
                await world.settle(USER)
                second.process.terminate()
                assert await second.ended() == 0, second.log()
            row = (await world.ledger(USER))["t1"]
            history = await world.memory.history(USER)
    assert webhook.failures == []
    assert (row.outcome, row.flags) == (Outcome.UPDATED, ())
    assert len(history) == 1
    assert [notice["step"] for notice in webhook.notices][-1] == "updating_completed"


# ----------------------------------------------------------------------------------------------------------- 37: heartbeats


async def test_a_worker_that_dies_in_a_model_call_is_noticed_by_its_heartbeats(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, model_stub: ModelStub
) -> None:
    """Its time-out for the whole step is many minutes; another worker has the step after one missed heartbeat."""
    model = SlowModel(model_stub)
    async with a_world(tmp_path, s3_server, temporal_server, language_model="openai:stub", **model_stub.settings) as world:
        async with (
            worker_command(world.settings, world.client, tmp_path / "store.err", "workflows"),
            worker_command(world.settings, world.client, tmp_path / "first.err", "models") as first,
        ):
            await world.record(USER, [turn()])
            await until(lambda: model.asked("rewrite") == 1, within_s=60)
            first.process.send_signal(signal.SIGKILL)
            assert await first.ended() == -signal.SIGKILL
            model.release.set()
            async with worker_command(world.settings, world.client, tmp_path / "second.err", "models"):
                await world.settle(USER)
        all_events = await events(world)
        row = (await world.ledger(USER))["t1"]
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in all_events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    started = [
        event.activity_task_started_event_attributes
        for event in all_events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    ]
    assert scheduled[-1].start_to_close_timeout.ToSeconds() > 300
    assert started[-1].attempt == 2
    assert started[-1].last_failure.timeout_failure_info.timeout_type == TimeoutType.TIMEOUT_TYPE_HEARTBEAT
    assert row.outcome is Outcome.UPDATED


async def test_a_blocking_store_call_does_not_starve_the_heartbeats(tmp_path: Path) -> None:
    """The object store accepts and never answers; its driver blocks. The beats go on until it gives up."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = load_settings(
            {},
            data_dir=tmp_path,
            object_store_endpoint=f"127.0.0.1:{silent.getsockname()[1]}",
            object_store_access_key="a",
            object_store_secret_key="b",
            object_store_timeout_s=30,
        )
        store = MinioObjectStore.from_settings(settings)
        models = build_models(settings)

        at = datetime.now(UTC)

        class Ledger:
            async def turns(self, scope: Scope, turn_ids: Sequence[str]) -> list[StoredTurn]:
                turn = Turn(turn_id="t1", user_text="I live in Porto.", occurred_at=at)
                return [StoredTurn(turn=turn, ordinal=1, attempt=0, state="pending", recorded_at=at)]

        log: Any = Ledger()
        steps = ModelActivities(
            models,
            log,
            Profiles(store, bucket_prefix="test"),
            Meter(build_tables("sqlite://").usage, cap=0),
            loss_guard_max_lost_fraction=0.5,
            loss_guard_min_bullets=2,
        )
        beats = 0
        enough = asyncio.Event()

        def beat(*_: object) -> None:
            nonlocal beats
            beats += 1
            if beats == 5:
                enough.set()

        environment = ActivityEnvironment()
        environment.info = replace(environment.info, heartbeat_timeout=timedelta(seconds=0.3))
        environment.on_heartbeat = beat
        batch = BatchInput(user=UserRef.of(USER), plan=Plan(turns=(TurnRef(turn_id="t1", attempt=0, ordinal=1),)))
        step = asyncio.create_task(environment.run(steps.gate_turns, batch))
        async with asyncio.timeout(60):
            await enough.wait()
        assert not step.done()
        step.cancel()
        await asyncio.gather(step, return_exceptions=True)
        await store.aclose()
        await models.aclose()
