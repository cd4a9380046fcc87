"""What people say in events, and what was made of it, is in the stores and nowhere else: not in Temporal, not in a log.

As ``test_canary`` for turns: real processes, windows that end in every way, then every byte that Temporal keeps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from memory.model.scope import Scope
from memory.model.window import WindowState
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from starter.views import ReceiptStatus
from tests.faults.test_canary import CANARY, NEEDLES, SAID, SECRET_NEEDLES, TOKEN, failing, files, leaks, temporal_bytes
from tests.support.client_process import TENANT, client_process
from tests.support.fleet import migrated_file, new_namespace, open_world, server_of, worker_command, world_settings
from tests.support.model_stub import ModelStub, StubReply, StubRequest

pytestmark = pytest.mark.timeout(240)

QUOTED = [{"event": 1, "quote": CANARY}]
NAME = TOKEN.capitalize()
ITEMS: Mapping[str, list[dict[str, Any]]] = {
    "contacts": [{"action": "create", "contact": "new1", "first_name": NAME, "evidence": QUOTED}],
    "bios": [{"contact": "c1", "text": f"{CANARY}.", "evidence": QUOTED}],
    "rolling_summaries": [{"contact": "c1", "text": f"Said that {CANARY}.", "evidence": QUOTED}],
    "response_policies": [{"contact": "c1", "text": f"Always mention the {TOKEN}.", "evidence": [{"event": 2, "quote": TOKEN}]}],
    "knowledge": [{"statement": CANARY, "subject": TOKEN, "topics": [TOKEN], "evidence": QUOTED}],
    "tasks": [{"action": "create", "name": f"Send the {TOKEN}", "evidence": [{"event": 3, "quote": f"send the {TOKEN}"}]}],
}
UNGROUNDED = {name: [{**items[0], "evidence": [{"event": 1, "quote": f"{SAID} {SAID}"}]}] for name, items in ITEMS.items()}
FINE = StubReply(json.dumps(ITEMS))
CASES: Mapping[str, StubReply] = {
    "taken": FINE,
    "dropped": StubReply(json.dumps(UNGROUNDED)),
    "unreadable": StubReply(json.dumps({**ITEMS, "knowledge": SAID, "tasks": [SAID, {SAID: SAID}]})),
    "prose": StubReply(f"I would rather say: {SAID}"),
    "cut": StubReply(json.dumps(ITEMS)[:-60], stop="length"),
    "refused": StubReply(SAID, stop="refused"),
    "rejected": failing(400),
    "down": failing(503),
    "othershape": StubReply(body=json.dumps({"choices": [{"message": {"content": {"text": SAID}}}], SAID: SAID})),
}
STATES = {
    "taken": WindowState.DONE,
    "dropped": WindowState.DONE,
    "unreadable": WindowState.PARTIAL,
    "prose": WindowState.FAILED,
    "cut": WindowState.FAILED,
    "refused": WindowState.FAILED,
    "rejected": WindowState.FAILED,
    "down": WindowState.FAILED,
    "othershape": WindowState.FAILED,
}


def answer(request: StubRequest) -> StubReply:
    """The case is a word of the transcript."""
    return CASES[re.findall(r"case-(\w+)", request.messages[-1][1])[-1]]


def events(case: str) -> list[dict[str, Any]]:
    at = "2026-06-17T12:0{}:00+00:00"
    told = (SAID, f"Always mention the {TOKEN} when you answer me.", f"Please send the {TOKEN} to me by 3 May. case-{case}")
    call = {
        "manager": "TaskManager",
        "method": "ask",
        "phase": "incoming",
        "calling_id": "c1",
        "payload": {"text": SAID, SAID: SAID},
    }
    return [
        *({"timestamp": at.format(n), "sender_id": "user", "content": text} for n, text in enumerate(told)),
        {"timestamp": at.format(3), **call},
        {"timestamp": at.format(4), "sender_id": f"{TOKEN}@example.org", "receiver_ids": ["user"], "content": CANARY},
    ]


async def test_no_text_of_events_or_of_what_is_made_of_them_reaches_temporal_or_a_log(
    tmp_path: Path, s3_server: S3Server, own_temporal_server: TemporalServer, model_stub: ModelStub
) -> None:
    model_stub.default = answer
    client = await new_namespace(own_temporal_server.address)
    settings = world_settings(
        tmp_path / "data",
        migrated_file(tmp_path),
        s3_server.settings,
        language_model="openai:stub",
        sweep_interval_s=2,
        sweep_grace_s=0,
        window_retry_s=3600,
        memory_contacts=True,
        memory_knowledge=True,
        memory_tasks=True,
        **model_stub.settings,
    )
    in_json = settings.model_copy(update={"log_format": "json"})
    shown: list[str] = []
    found: list[str] = []
    every = {**NEEDLES, **SECRET_NEEDLES}
    async with (
        open_world(settings, client) as world,
        worker_command(settings, client, tmp_path / "worker.err") as worker,
        client_process(in_json, server_of(client), tmp_path / "client.err") as caller,
    ):
        await ensure_schedules(client, settings)

        async def ask(do: str, **step: Any) -> dict[str, Any]:
            reply = await caller.ask(do, **step)
            shown.append(json.dumps(reply))
            return reply

        for case in CASES:
            assert (await ask("events", user=case, events=events(case)))["status"] in {
                ReceiptStatus.RECORDED,
                ReceiptStatus.PENDING,
            }
            await ask("flush", user=case, wait_s=0)
        wrong: list[dict[str, Any]] = [
            {"timestamp": CANARY, "sender_id": "user", "content": CANARY},
            {"timestamp": "2026-06-17T12:00:00+00:00", "sender_id": CANARY * 400, "content": CANARY},
            {"timestamp": "2026-06-17T12:00:00+00:00", "sender_id": "user", "content": CANARY * 40_000},
            {"timestamp": "2026-06-17T12:00:00+00:00", "sender_id": "user", "content": [CANARY]},
        ]
        for one in wrong:
            assert (await ask("events", user="taken", events=[one]))["status"] == ReceiptStatus.REFUSED
        chunk = await ask("chunk", user="chunk", transcript=f"user: {SAID} case-taken", guidance=f"Look for {SAID}")
        assert chunk["state"] == WindowState.DONE
        states: dict[str, str] = {}
        for case in CASES:
            assert (await ask("flush", user=case, wait_s=60))["waiting"] == 0
            states[case] = (await ask("windows", user=case))["states"][0]

        searched = 0
        async for where, data in temporal_bytes(world):
            searched += 1
            found += leaks(where, data, every)
        command_lines = [psutil.Process(process.pid).cmdline() for process in (worker.process, caller.process)]
        worker.process.terminate()
        assert await worker.ended() == 0
        # The worker held the search engine of the folder; the client opens it now.
        assert all((await ask("search", user="taken", query=CANARY))["found"])
        await ask("add_fact", user="taken", statement=f"{CANARY} and snores")
        assert "error" in await ask("add_fact", user="taken", statement=CANARY * 400)
        assert "error" in await ask("search", user="taken", query=CANARY * 4000)
        assert (await ask("forget", user="taken"))["gone"] == 2
        stored = await world.parts.stores.contacts.list(Scope.of(TENANT, "taken"), limit=100)
    assert states == STATES

    quiet = [
        *((f"the log {name}", (tmp_path / name).read_bytes()) for name in ("worker.err", "client.err")),
        *(("a command line", " ".join(line).encode()) for line in command_lines),
        *(("a result that was printed", line.encode()) for line in shown),
        *files(own_temporal_server.folder),
    ]
    for where, data in quiet:
        found += leaks(where, data, every)
    # The text itself is where it belongs, so this search would find it; the secret is nowhere.
    assert any(TOKEN in (one.bio or "") for one in stored)
    assert any(leaks(where, data, NEEDLES) for where, data in files(settings.data_dir))
    for where, data in files(settings.data_dir):
        found += leaks(where, data, SECRET_NEEDLES)
    assert found == []
    assert searched > 10 * len(CASES)
