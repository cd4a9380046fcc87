"""A sentence that users, models and broken servers say must be in the stores and nowhere else; a secret must be nowhere at all.

One conversation after the other goes well or wrong in every way that this project knows, through real processes. Then every byte
that Temporal keeps is searched, and every line that the processes logged.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import re
import sys
import threading
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.workflowservice.v1 import QueryWorkflowRequest
from temporalio.client import WorkflowExecutionStatus

from memory.llm.simulated_prompt import read_request
from memory.model.directory import ConsolidationMode, SpaceSettings
from memory.model.errors import StoreUnavailable
from memory.model.names import HISTORY_QUERY, STATUS_QUERY
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.settings import load_settings
from memory.stores.objects.minio import MinioObjectStore
from starter.engines import S3Server, TemporalServer
from starter.logs import configure_logging, told
from starter.schedules import ensure_schedules
from starter.views import ReceiptStatus
from tests.support.client_process import TENANT, ClientProcess, client_process
from tests.support.fleet import World, migrated_file, new_namespace, open_world, server_of, worker_command, world_settings
from tests.support.model_stub import ModelStub, StubReply, StubRequest
from tests.support.models import profile_text
from tests.support.waiting import until
from tests.support.webhook import WebhookReceiver

pytestmark = pytest.mark.timeout(240)

TOKEN = "kolibri7431"
CANARY = f"The {TOKEN} sleeps under the violet piano"
SECRET_CORE = "Qm7xVb2LkT9sWc4RzN8pHd3JfG6yXa1"
SECRET = f"sk-ant-api03-{SECRET_CORE}-{SECRET_CORE[::-1]}AA"
SAID = f"{CANARY}, and my key is {SECRET}. "

UPDATE = StubReply("UPDATE")
LEARNED = profile_text(identity=f"- {CANARY}\n- The key is {SECRET}")
FOUR = profile_text(identity="\n".join(f"- {hobby} of pre{TOKEN}post" for hobby in ("Collector", "Painter", "Breeder", "Student")))
NONE_OF_FOUR = profile_text(topics=f"- 2026-06-17 12:01 UTC: {CANARY}")


def failing(status: int) -> StubReply:
    return StubReply(status=status, message=f"cannot read: {SAID}")


CASES: Mapping[str, tuple[StubReply, StubReply]] = {
    # what the gate and the rewrite say; the same again when they are asked again
    "updated": (UPDATE, StubReply(LEARNED)),
    "noop": (StubReply("NOOP"), StubReply(LEARNED)),
    "gateecho": (StubReply(SAID), StubReply("NOOP")),
    "gaterefused": (StubReply(SAID, stop="refused"), StubReply("NOOP")),
    "gatecut": (StubReply(SAID, stop="length"), StubReply("NOOP")),
    "gatedown": (failing(500), StubReply("NOOP")),
    "gaterejected": (failing(400), StubReply("NOOP")),
    "malformed": (UPDATE, StubReply(f"I would rather say: {SAID}")),
    "thinking": (UPDATE, StubReply(f"<think>{SAID}")),
    "cut": (UPDATE, StubReply(LEARNED[: len(LEARNED) // 2], stop="length")),
    "nothing": (UPDATE, StubReply(None)),
    "refused": (UPDATE, StubReply(SAID, stop="refused")),
    "rejected": (UPDATE, failing(400)),
    "unauthorized": (UPDATE, failing(401)),
    "limited": (UPDATE, replace(failing(429), headers={"Retry-After": "0.1"})),
    "down": (UPDATE, failing(503)),
    "proxy": (UPDATE, StubReply(status=502, body=f"<html><title>{SAID}</title></html>")),
    "notjson": (UPDATE, StubReply(body=SAID)),
    "othershape": (UPDATE, StubReply(body=json.dumps({"choices": [{"message": {"content": {"text": SAID}}}], SAID: SAID}))),
    "dropped": (UPDATE, StubReply(LEARNED, fault="cut")),
    "edits": (UPDATE, StubReply(json.dumps({"edits": [{"op": "delete", "target": SAID, "to": SAID, "text": SAID}]}))),
    "editsecho": (UPDATE, StubReply(SAID)),
    "scrubbed": (UPDATE, StubReply(LEARNED)),
    "lossy": (UPDATE, StubReply(NONE_OF_FOUR)),
    "meets": (UPDATE, StubReply(LEARNED)),
    "cancelled": (UPDATE, StubReply(LEARNED)),
    "broken": (UPDATE, StubReply(LEARNED)),
    "spooled": (UPDATE, StubReply(LEARNED)),
}
SPACES = {
    "edits": SpaceSettings(consolidation_mode=ConsolidationMode.EDITS),
    "editsecho": SpaceSettings(consolidation_mode=ConsolidationMode.EDITS),
    "scrubbed": SpaceSettings(privacy_scrub=True),
}
EXPECTED = {
    "noop": (Outcome.NOOP, "gate"),
    "malformed": (Outcome.KEPT, "malformed_output"),
    "cut": (Outcome.KEPT, "malformed_output"),
    "rejected": (Outcome.KEPT, "consolidate_failed:ModelRejected"),
    "refused": (Outcome.KEPT, "consolidate_failed:ModelRejected"),
    "limited": (Outcome.KEPT, "consolidate_failed:ModelRateLimited"),
    "down": (Outcome.KEPT, "consolidate_failed:ModelUnavailable"),
    "notjson": (Outcome.KEPT, "consolidate_failed:ModelUnavailable"),
    "scrubbed": (Outcome.KEPT, "privacy_scrub"),
    "lossy": (Outcome.KEPT, "loss_guard"),
    "cancelled": (Outcome.KEPT, "cancelled"),
    "meets": (Outcome.UPDATED, None),
    "broken": (Outcome.UPDATED, None),
    "spooled": (Outcome.UPDATED, None),
    "updated": (Outcome.UPDATED, None),
}


class TwoFaced:
    """The model: it tells the cases apart by a word in the last thing that the user said."""

    def __init__(self, stub: ModelStub) -> None:
        self.held = {name: threading.Event() for name in ("meets", "cancelled")}
        self.reached: set[str] = set()
        stub.default = self._answer

    def _answer(self, request: StubRequest) -> StubReply:
        brief = read_request(request.chat_request())
        if brief.task == "scrub":
            return StubReply(SAID)
        said = brief.turns[-1].user
        name = re.findall(r"case-(\w+)", said)[-1]
        if name == "seed":
            return UPDATE if brief.task == "gate" else StubReply(FOUR)
        gate, rewrite = CASES[name]
        if brief.task == "gate":
            return gate
        self.reached.add(name)
        return replace(rewrite, hold=self.held[name]) if name in self.held else rewrite


# ------------------------------------------------------------------------------------------------------------------ search


def forms(word: str) -> list[bytes]:
    """How a word can stand in bytes: as it is, and in the middle of base64 at each of its three offsets."""
    data = word.encode()
    found = [data, data.hex().encode(), word.encode("utf-16-le")]
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data)
        found.append(encoded[4 if offset else 0 : len(encoded) // 4 * 4 - 4])
    return found


ASKED = {
    STATUS_QUERY: {"PostAnswerWorkflow", "ConsolidateEventsWorkflow", "KnowledgeLoopWorkflow"},
    HISTORY_QUERY: {"KnowledgeLoopWorkflow"},
}
"""Queries of our own, and who answers them."""
NEEDLES = {**{f"canary {n}": form for n, form in enumerate(forms(TOKEN))}}
SECRET_NEEDLES = {f"secret {n}": form for n, form in enumerate(forms(SECRET_CORE))}


def leaks(where: str, data: bytes, needles: Mapping[str, bytes]) -> list[str]:
    lower = data.lower()
    return [f"{name} in {where}" for name, needle in needles.items() if needle in data or needle.lower() in lower]


def test_the_search_finds_what_it_should() -> None:
    padded = [base64.b64encode(b"x" * n + CANARY.encode()) for n in range(9)]
    assert all(leaks("base64", data, NEEDLES) for data in [*padded, CANARY.encode(), CANARY.upper().encode()])
    assert not leaks("clean", b"The colibri sleeps", NEEDLES)


async def temporal_bytes(world: World) -> AsyncGenerator[tuple[str, bytes]]:
    """Everything that Temporal tells of every run: histories, descriptions with search attributes and memo, query results."""
    async for run in world.client.list_workflows():
        handle = world.client.get_workflow_handle(run.id, run_id=run.run_id)
        name = f"{run.id} {run.run_id}"
        history = await handle.fetch_history()
        for event in history.events:
            yield f"event {event.event_id} of {name}", event.SerializeToString()
        yield f"JSON history of {name}", history.to_json().encode()
        yield f"decoded payloads of {name}", b"\n".join(decoded(json.loads(history.to_json())))
        described = await handle.describe()
        yield f"description of {name}", described.raw_description.SerializeToString()
        yield f"list entry of {name}", run.raw_info.SerializeToString()
        yield f"summary of {name}", f"{await described.static_summary()} {await described.static_details()}".encode()
        for query in (STATUS_QUERY, HISTORY_QUERY, "__temporal_workflow_metadata", "__stack_trace"):
            if not query.startswith("__") and run.workflow_type not in ASKED[query]:
                continue
            answer = await world.client.workflow_service.query_workflow(
                QueryWorkflowRequest(
                    namespace=world.client.namespace,
                    execution=WorkflowExecution(workflow_id=run.id, run_id=run.run_id),
                    query=WorkflowQuery(query_type=query),
                )
            )
            yield f"query {query} of {name}", json.dumps(MessageToDict(answer)).encode() + answer.SerializeToString()


def decoded(node: Any) -> Iterable[bytes]:
    """Every ``data`` of a history in JSON, without its base64."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "data" and isinstance(value, str):
                yield base64.b64decode(value)
            else:
                yield from decoded(value)
    elif isinstance(node, list):
        for value in node:
            yield from decoded(value)


async def objects(world: World) -> AsyncGenerator[tuple[str, bytes]]:
    """Every version of every object in this world's buckets."""
    store = MinioObjectStore.from_settings(world.settings)
    profiles = world.parts.profiles
    tenant = Scope.of(TENANT, "x").tenant
    for bucket in (profiles.bucket(tenant), profiles.staging_bucket(tenant)):
        for item in await store.list(bucket, ""):
            for version in await store.list_versions(bucket, item.key):
                stored = await store.get(bucket, item.key, version.version_id)
                if stored is not None:
                    yield f"{bucket}/{item.key}", stored.data + json.dumps(dict(stored.info.metadata)).encode()
    await store.aclose()


def files(folder: Path) -> Iterable[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()


# ------------------------------------------------------------------------------------------------------------------- story


def turn(case: str, number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "turn_id": f"{case}-{number}",
        "user_text": f"{SAID} case-{case}",
        "assistant_text": f"So you say: {SAID}",
        "occurred_at": f"2026-06-17T12:{number:02}:00+00:00",
        "space_id": case if case in SPACES else "default",
        "allow_user_memory": True,
        **fields,
    }


LOCK = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def locked(path: Path) -> AsyncGenerator[None]:
    """Another process holds the write lock of a SQLite file."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", LOCK, str(path)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"locked\n"
        yield
    finally:
        process.stdin.close()
        await process.wait()


@dataclass
class Story:
    world: World
    client: ClientProcess
    model: TwoFaced
    shown: list[str] = field(default_factory=list)
    """What results look like where a program prints them."""

    async def say(self, case: str, **fields: Any) -> None:
        answer = await self.client.ask("say", user=case, turn=turn(case, **fields))
        assert answer["status"] in {ReceiptStatus.RECORDED, ReceiptStatus.PENDING}, answer

    async def ask(self, do: str, **step: Any) -> dict[str, Any]:
        answer = await self.client.ask(do, **step)
        self.shown.append(json.dumps(answer))
        return answer

    async def tell(self) -> None:
        await self.world.parts.profiles.prepare(Scope.of(TENANT, "x").tenant)
        for case in CASES:
            if case == "lossy":
                await self.say("lossy", number=1, user_text=f"{SAID} case-seed")
                await self.world.settle(Scope.of(TENANT, "lossy"))
            if case == "broken":
                await self._break_a_file()
            if case != "spooled":
                await self.say(case, number=2)
        await self._spool()
        await self._cancel()
        await self._save_meets_turn()
        await self._refused_turns()
        await self.world.settle(*(Scope.of(TENANT, case) for case in CASES), timeout_s=120)
        await self._saves()
        for case in CASES:
            await self.ask("status", user=case)
            await self.ask("load", user=case, space="default")
        assert (await self.ask("rerun", user="malformed"))["reopened"] == 1
        await self.world.settle(Scope.of(TENANT, "malformed"))

    async def _break_a_file(self) -> None:
        """Somebody put a file there that is no profile."""
        scope = Scope.of(TENANT, "broken")
        store = MinioObjectStore.from_settings(self.world.settings)
        bucket, key = self.world.parts.profiles.bucket(scope.tenant), self.world.parts.profiles.key(scope, "user-memory")
        text = f"---\nuser_id: [{CANARY}\n\tturn_count: {CANARY}: {CANARY}\n---\n## Identty\n- {CANARY}\n{CANARY}"
        await store.put(bucket, key, text.encode())
        await store.aclose()

    async def _spool(self) -> None:
        async with locked(self.world.settings.data_dir / "afterturn.db"):
            answer = await self.ask("say", user="spooled", turn=turn("spooled", 2))
            assert answer["status"] == ReceiptStatus.SPOOLED, answer
            spooled = self.world.settings.spool_file.read_bytes()
        assert leaks("the spool", spooled, NEEDLES)
        assert not leaks("the spool", spooled, SECRET_NEEDLES)

        async def recorded() -> bool:
            return bool(await self.world.ledger(Scope.of(TENANT, "spooled")))

        await until(recorded, within_s=60)

    async def _cancel(self) -> None:
        scope = Scope.of(TENANT, "cancelled")
        await until(lambda: "cancelled" in self.model.reached, within_s=60)
        handle = self.world.client.get_workflow_handle(scope.post_answer_workflow_id)
        await handle.cancel()

        async def over() -> bool:
            return (await handle.describe()).status is WorkflowExecutionStatus.CANCELED

        await until(over, within_s=60)
        self.model.held["cancelled"].set()

    async def _save_meets_turn(self) -> None:
        await until(lambda: "meets" in self.model.reached, within_s=60)
        saved = await self.ask("edit", user="meets", document=f"## Identity\n- {SAID}", etag=None)
        assert saved["status"] == "saved", saved
        self.model.held["meets"].set()

    async def _refused_turns(self) -> None:
        for wrong in (
            {"user_text": CANARY * 40_000},
            {"medium": CANARY * 40},
            {"turn_id": "", "conversation_id": ""},
            {"user_text": [CANARY]},
            {CANARY: CANARY},
            {"occurred_at": CANARY},
        ):
            answer = await self.client.ask("say", user="refused", turn=turn("refused", 9, **wrong))
            assert answer["status"] == ReceiptStatus.REFUSED, answer
            if CANARY not in wrong:  # the name of a field is the caller's own, not the user's
                self.shown.append(json.dumps(answer))

    async def _saves(self) -> None:
        read = await self.world.memory.get_profile((TENANT, "updated"))
        saved = await self.ask("edit", user="updated", document=f"{read.body}\n- {SAID}", etag=read.etag)
        assert saved["status"] == "saved", saved
        conflict = await self.ask("edit", user="updated", document=SAID, etag=read.etag)
        assert conflict["status"] == "conflict", conflict
        back = await self.ask("rollback", user="updated", to=1)
        assert back["status"] == "saved", back
        assert (await self.ask("rollback", user="updated", to=99))["status"] == "not_found"
        too_long = await self.ask("edit", user="updated", document=CANARY * 40_000, etag=saved["etag"])
        assert too_long["error"] == "InvalidInput"


async def test_no_text_of_a_user_reaches_temporal_or_a_log_and_no_secret_reaches_a_store(
    tmp_path: Path, s3_server: S3Server, own_temporal_server: TemporalServer, model_stub: ModelStub
) -> None:
    database = migrated_file(tmp_path)
    client = await new_namespace(own_temporal_server.address)
    with WebhookReceiver() as webhook:
        settings = world_settings(
            tmp_path / "data",
            database,
            s3_server.settings,
            language_model="openai:stub",
            object_store_timeout_s=30,
            model_retry_for_s=0,
            sweep_interval_s=2,
            sweep_grace_s=0,
            **model_stub.settings,
            **webhook.settings,
        )
        in_json = settings.model_copy(update={"log_format": "json"})
        async with (
            open_world(settings, client) as world,
            worker_command(settings, client, tmp_path / "worker.err") as worker,
            client_process(in_json, server_of(client), tmp_path / "client.err") as caller,
        ):
            for space_id, space in SPACES.items():
                await world.parts.directory.save_space(Scope.of(TENANT, "x").tenant, space_id, space)
            await ensure_schedules(client, settings)
            story = Story(world, caller, TwoFaced(model_stub))
            await story.tell()
            command_lines = [psutil.Process(process.pid).cmdline() for process in (worker.process, caller.process)]

            found: list[str] = []
            searched = 0
            async for where, data in temporal_bytes(world):
                searched += 1
                found += leaks(where, data, {**NEEDLES, **SECRET_NEEDLES})
            rows = {case: (await world.ledger(Scope.of(TENANT, case)))[f"{case}-2"] for case in CASES}
            stored = [(where, data) async for where, data in objects(world)]
            worker.process.terminate()
            assert await worker.ended() == 0
        notices = [("a notice", json.dumps(notice).encode()) for notice in webhook.notices]
    assert webhook.failures == []
    assert {case: (rows[case].outcome, rows[case].reason) for case in EXPECTED if case != "malformed"} == {
        case: outcome for case, outcome in EXPECTED.items() if case != "malformed"
    }
    assert {row.state for row in rows.values()} == {"done"}

    logs = {path.name: path.read_bytes() for path in (tmp_path / "worker.err", tmp_path / "client.err")}
    quiet = [
        *((f"the log {name}", data) for name, data in logs.items()),
        *(("a command line", " ".join(line).encode()) for line in command_lines),
        *(("a result that was printed", line.encode()) for line in story.shown),
        *files(own_temporal_server.folder),
        *notices,
        *((f"operators' data of {case}", repr(row).encode()) for case, row in rows.items()),
    ]
    for where, data in quiet:
        found += leaks(where, data, {**NEEDLES, **SECRET_NEEDLES})
    # The text itself is where it belongs, so this search would find it.
    kept = [*files(settings.data_dir), *stored, *files(s3_server.folder / "data")]
    for place in (stored, files(settings.data_dir), files(s3_server.folder / "data")):
        assert any(leaks(where, data, NEEDLES) for where, data in place)
    assert any(b"updated-2" in data for _, data in files(own_temporal_server.folder))
    for where, data in kept:
        found += leaks(where, data, SECRET_NEEDLES)
    assert found == []
    assert searched > 10 * len(CASES)
    assert b"notice updating_started" in logs["worker.err"]
    assert b"spooled" in logs["client.err"]


# -------------------------------------------------------------------------------------------------------- tracebacks in logs


def _fail(text: str) -> None:
    """With the text in a local variable, in the message, and in the message of the cause."""
    quoted = text + "!"
    try:
        raise KeyError(quoted)
    except KeyError as error:
        raise ValueError(f"cannot read {quoted}") from error


def _caught(text: str) -> Exception:
    try:
        _fail(text)
    except ValueError as error:
        return error
    raise AssertionError("it did not fail")


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_logged_traceback_shows_places_and_no_text(log_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        configure_logging(load_settings({}, log_format=log_format))
        logging.getLogger("a.library").error("it failed", exc_info=_caught(CANARY))
    finally:
        root.handlers[:], _ = before
        root.setLevel(before[1])
    line = out.getvalue()
    assert TOKEN not in line
    assert "it failed" in line
    assert "KeyError" in line
    assert "ValueError" in line
    assert "test_canary.py" in line
    assert "_fail" in line


def test_our_own_messages_are_shown() -> None:
    error = StoreUnavailable("the database is away")
    assert told((StoreUnavailable, error, None)) == "StoreUnavailable: the database is away"
