"""Encrypted payloads on a real server: what it stores, replay, keys that are changed under an open run, the codec server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from pydantic import SecretStr
from temporalio.api.common.v1 import Payload, SearchAttributes
from temporalio.api.history.v1 import MarkerRecordedEventAttributes
from temporalio.client import WorkflowHistory

from activities import build_activities
from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.ports import ChatReply, ChatRequest
from memory.settings import Settings
from starter.engines import TemporalServer, engine_binary
from starter.payloads import data_converter
from starter.processes import free_ports
from starter.replay import replay_files
from starter.temporal import connect
from tests.e2e.command import command, environment
from tests.support.models import ScriptedModel, profile_text
from tests.support.stack import GENEROUS, Stack, running_stack
from tests.support.waiting import until
from worker import build_workers

OLD = "2025:" + base64.b64encode(b"o" * 32).decode()
NEW = "2026:" + base64.b64encode(b"n" * 32).decode()
REWRITE = profile_text(identity="- Ann, at Globex")

KeyedStack = Callable[..., Any]


@pytest.fixture
def keyed(temporal_server: TemporalServer, s3_settings: Callable[..., Settings]) -> KeyedStack:
    """``async with keyed(keys) as s``: the whole product with these keys, or without."""

    @asynccontextmanager
    async def start(keys: str | None, *, model: ScriptedModel | None = None, workers: bool = True) -> AsyncGenerator[Stack]:
        secret = None if keys is None else SecretStr(keys)
        settings = s3_settings(**GENEROUS, payload_keys=secret, graceful_shutdown_s=0)
        client = await connect(settings, address=temporal_server.address)
        async with running_stack(client, settings, model=model, workers=workers) as stack:
            yield stack

    return start


def payloads(message: Message) -> Iterator[Payload]:
    """All of them but the search attributes, which Temporal needs in clear, and what the SDK notes of a local step for itself."""
    if isinstance(message, Payload):
        yield message
        return
    if isinstance(message, SearchAttributes):
        return
    if isinstance(message, MarkerRecordedEventAttributes):
        assert message.details.keys() == {"data", "result"}
        noted = json.loads(message.details["data"].payloads[0].data)
        assert noted.keys() <= {
            *("seq", "attempt", "activity_id", "activity_type", "activation_index"),
            *("complete_time", "backoff", "original_schedule_time"),
        }
        yield from message.details["result"].payloads
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        entry = field.message_type
        if entry.GetOptions().map_entry:
            parts = list(value.values()) if entry.fields_by_name["value"].message_type else []
        else:
            parts = list(value) if field.is_repeated else [value]
        for part in parts:
            yield from payloads(part)


async def history_of(stack: Stack, workflow_id: str) -> WorkflowHistory:
    return await stack.client.get_workflow_handle(workflow_id).fetch_history()


def key_ids(history: WorkflowHistory) -> set[str | None]:
    """Of the payloads; None for one in clear."""
    found: set[str | None] = set()
    for event in history.events:
        for payload in payloads(event):
            encrypted = payload.metadata.get("encoding") == b"binary/encrypted"
            found.add(payload.metadata["encryption-key-id"].decode() if encrypted else None)
    return found


class Blocking(ScriptedModel):
    """Says nothing until ``go`` is set."""

    def __init__(self) -> None:
        super().__init__({"gate": "UPDATE", "consolidate": REWRITE})
        self.go = asyncio.Event()
        self.asked = asyncio.Event()

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.stage == "consolidate":
            self.asked.set()
            await self.go.wait()
        return await super().complete(request)


async def test_with_keys_the_server_holds_ciphertext_alone_and_it_replays(keyed: KeyedStack, tmp_path: Path) -> None:
    async with keyed(NEW) as stack:
        user = stack.user()
        await stack.say(user, "My name is Ann and I work at Globex.")
        await stack.settle(user)
        profile = await stack.profile(user)
        assert "Globex" in profile.body
        saved = await stack.memory.edit_profile(user, profile.body + "\n- plays chess", expected_etag=profile.etag)
        assert saved.saved
        await stack.settle(user)
        runs = [run async for run in stack.client.list_workflows(f"AfterturnUser = '{user.user}'")]
        assert len(runs) == 2
        for run in runs:
            history = await stack.client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
            assert key_ids(history) == {"2026"}
            (tmp_path / f"{run.run_id}.json").write_text(history.to_json(), "utf-8")
        settings = stack.settings
    report = await replay_files(tmp_path, converter=data_converter(settings))
    assert (len(report.results), report.failed) == (2, 0), report
    blind = await replay_files(tmp_path)
    assert blind.failed == 2
    assert "AFTERTURN_PAYLOAD_KEYS" in (blind.results[0].cause or "")


async def test_keys_are_introduced_and_changed_under_an_open_run(keyed: KeyedStack) -> None:
    """Started in clear, worked on with one key, finished by a worker that has the next one first."""
    user = Scope.of("acme", f"rotating-{os.urandom(4).hex()}")
    async with keyed(None, workers=False) as stack:
        await stack.say(user, "I am Ann, at Globex.")
    waiting = Blocking()
    async with keyed(OLD, model=waiting):
        await asyncio.wait_for(waiting.asked.wait(), 30)
    answering = Blocking()
    answering.go.set()
    async with keyed(f"{NEW},{OLD}", model=answering) as stack:
        await stack.settle(user)
        (turn,) = (await stack.ledger(user)).values()
        assert turn.outcome is Outcome.UPDATED
        assert "Globex" in (await stack.profile(user)).body
        assert key_ids(await history_of(stack, user.post_answer_workflow_id)) == {None, "2025", "2026"}


async def test_turns_wait_while_the_only_worker_of_models_has_not_got_the_key_yet(keyed: KeyedStack) -> None:
    """The first key is introduced in the wrong order: nobody has to run these turns again."""
    async with keyed(NEW, model=ScriptedModel({"gate": "UPDATE", "consolidate": REWRITE}), workers=False) as stack:
        user = stack.user()
        (workflows,) = build_workers(stack.client, stack.settings, build_activities(stack.parts), (TASK_QUEUE,))
        blind = await connect(
            stack.settings.model_copy(update={"payload_keys": None}), address=stack.client.service_client.config.target_host
        )
        (without,) = build_workers(blind, stack.settings, build_activities(stack.parts), (MODEL_TASK_QUEUE,))
        (models,) = build_workers(stack.client, stack.settings, build_activities(stack.parts), (MODEL_TASK_QUEUE,))
        async with workflows:
            async with without:
                await stack.say(user, "I am Ann, at Globex.")

                async def waits() -> bool:
                    return "waiting_for_store" in str((await stack.memory.status(user)).stage)

                await until(waits, within_s=60)
            async with models:
                await stack.settle(user)
        (turn,) = (await stack.ledger(user)).values()
        assert (turn.outcome, turn.flags) == (Outcome.UPDATED, ())


async def test_the_command_temporal_reads_payloads_through_the_codec_server(keyed: KeyedStack, tmp_path: Path) -> None:
    async with keyed(NEW) as stack:
        user = stack.user()
        await stack.say(user, "My name is Ann.")
        await stack.settle(user)
        [port] = free_ports(1)
        env = {"AFTERTURN_PAYLOAD_KEYS": NEW, "AFTERTURN_CODEC_ADDRESS": f"127.0.0.1:{port}"}
        log = tmp_path / "codec.err"
        with log.open("wb") as errors:
            server = await asyncio.create_subprocess_exec(
                *command("codec-server"), cwd=tmp_path, env=environment(env), stdout=asyncio.subprocess.DEVNULL, stderr=errors
            )
        try:
            await until(lambda: "codec_server_started" in log.read_text("utf-8") or server.returncode is not None, within_s=60)
            assert server.returncode is None, log.read_text("utf-8")
            show = ["workflow", "show", "--workflow-id", user.post_answer_workflow_id, "--output", "json"]
            address = ["--address", stack.client.service_client.config.target_host]
            shown = [
                await _temporal(*show, *address),
                await _temporal(*show, *address, "--codec-endpoint", f"http://127.0.0.1:{port}"),
            ]
            inputs = [one["events"][0]["workflowExecutionStartedEventAttributes"]["input"] for one in shown]
            assert "user" not in json.dumps(inputs[0])
            (given,) = inputs[1]["payloads"]
            assert json.loads(base64.b64decode(given["data"])) == {"user": {"tenant": "acme", "user": user.user}, "resumed": None}
        finally:
            server.send_signal(signal.SIGTERM)
            code = await asyncio.wait_for(server.wait(), 30)
        told = log.read_text("utf-8")
        assert code == 0, told
        assert "codec_server_stopping" in told
        assert not any(secret in told for secret in (NEW[5:], user.user))


async def _temporal(*args: str) -> Any:
    done = await asyncio.to_thread(
        subprocess.run,
        [str(engine_binary("temporal")), *args],
        capture_output=True,
        timeout=60,
        check=True,
        env=environment({"HOME": "/nonexistent"}),
    )
    return json.loads(done.stdout)
