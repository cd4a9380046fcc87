"""What is asked of knowledge, done with it and said about it is in the stores and nowhere else: not in Temporal, not in a log.

As ``test_canary`` for turns: real processes, loops that go well and wrong, steered from a process of its own; then every byte that
Temporal keeps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from memory.model.knowledge_loop import EntryKind, LoopState
from memory.model.scope import Scope
from starter.engines import S3Server, TemporalServer
from tests.faults.test_canary import CANARY, NEEDLES, SAID, SECRET_NEEDLES, TOKEN, files, leaks, temporal_bytes
from tests.support.client_process import TENANT, client_process
from tests.support.fleet import Foreman, migrated_file, new_namespace, open_world, server_of, world_settings

pytestmark = pytest.mark.timeout(240)

TABLE = f"T_{TOKEN}"
FORM = {"type": "object", "properties": {TOKEN: {"type": "string"}}, "required": [TOKEN], "description": CANARY}
SCRIPT: list[Any] = [
    [
        ["create_table", {"name": TABLE, "description": CANARY, "columns": {f"c_{TOKEN}": "str", "n": "int"}}],
        ["add_rows", {"table": TABLE, "rows": [{f"c_{TOKEN}": CANARY, "n": 1}]}],
        ["add_rows", {"table": TABLE, "rows": [{f"c_{TOKEN}": CANARY, "n": CANARY}]}],
        ["add_rows", {"table": CANARY, "rows": [{TOKEN: CANARY}]}],
        ["add_rows", {TOKEN: CANARY}],
        ["delete_tables", {"tables": [TABLE]}],
        [f"tool_{TOKEN}", {TOKEN: CANARY}],
    ],
    [["request_clarification", {"question": f"{CANARY}?"}], ["ask", {"text": f"(nested) {CANARY}?"}]],
    [["filter", {"filter": f"c_{TOKEN} == '{CANARY}'", "tables": [TABLE]}], ["filter", {"filter": f"{TOKEN} ** '{CANARY}'"}]],
    f"It is done: {SAID}",
]


async def test_no_text_of_a_loop_reaches_temporal_or_a_log(
    tmp_path: Path, s3_server: S3Server, own_temporal_server: TemporalServer
) -> None:
    client = await new_namespace(own_temporal_server.address)
    settings = world_settings(tmp_path / "data", migrated_file(tmp_path), s3_server.settings)
    in_json = settings.model_copy(update={"log_format": "json"})
    shown: list[str] = []
    found: list[str] = []
    every = {**NEEDLES, **SECRET_NEEDLES}
    async with (
        Foreman(tmp_path / "workers") as foreman,
        open_world(settings, client) as world,
        client_process(in_json, server_of(client), tmp_path / "client.err") as caller,
        client_process(in_json, server_of(client), tmp_path / "other.err") as other,
    ):
        worker = await foreman.start(settings, client, script=SCRIPT)

        async def begin(loop_id: str, verb: str = "update", text: str = SAID, **options: Any) -> None:
            given = {
                "loop_id": loop_id,
                "case_specific_instructions": SAID,
                "context": [{"role": "user", "content": SAID}],
                **options,
            }
            shown.append(json.dumps(await caller.ask("knowledge", verb=verb, user="ann", text=text, options=given)))

        async def steer(loop_id: str, act: str, *given: Any) -> dict[str, Any]:
            """From a process that did not begin it."""
            reply = await other.ask("loop", user="ann", loop_id=loop_id, act=act, given=list(given))
            shown.append(json.dumps(reply))
            return reply

        states: dict[str, str] = {}
        await begin("plain", clarify=True, response_format=FORM)
        await steer("plain", "pause")
        await steer("plain", "interject", SAID)
        await steer("plain", "resume")
        await steer("plain", "answer", SAID)
        await steer("plain", "ask", SAID)
        states["plain"] = (await steer("plain", "result", 60))["state"]
        await begin("asked", verb="ask")
        states["asked"] = (await steer("asked", "result", 60))["state"]
        await begin("stopped", clarify=True)
        await steer("stopped", "next_clarification", 60)
        await steer("stopped", "stop", SAID)
        states["stopped"] = (await steer("stopped", "result", 60))["state"]
        for act in ("done", "status", "steps", "history", "next_notification"):
            await steer("plain", act)
        for wrong in (
            {"text": CANARY * 5_000},
            {"destination": f"team:{TOKEN}"},
            {"loop_id": CANARY},
            {"response_format": {"type": CANARY}},
        ):
            options: dict[str, Any] = {"loop_id": "wrong", **wrong}
            refused = await caller.ask("knowledge", verb="ask", user="ann", text=options.pop("text", "?"), options=options)
            assert refused["error"] == "InvalidInput", refused
        searched = 0
        async for where, data in temporal_bytes(world):
            searched += 1
            found += leaks(where, data, every)
        command_lines = [psutil.Process(process.pid).cmdline() for process in (worker, caller.process, other.process)]
        entries = await world.memory.knowledge.attach(Scope.of(TENANT, "ann"), "plain")
        kinds = {entry.kind for entry in await entries.history()}
        worker.terminate()
        assert await worker.wait() == 0, worker.log()
    assert states == {"plain": LoopState.FAILED, "asked": LoopState.DONE, "stopped": LoopState.STOPPED}
    assert kinds == set(EntryKind) - {EntryKind.STOP}
    quiet = [
        *((f"the log {name}", (tmp_path / name).read_bytes()) for name in ("client.err", "other.err")),
        ("the worker's log", worker.log().encode()),
        *(("a command line", " ".join(line).encode()) for line in command_lines),
        *(("a result that was printed", line.encode()) for line in shown),
        *files(own_temporal_server.folder),
    ]
    for where, data in quiet:
        found += leaks(where, data, every)
    # The text itself is where it belongs, so this search would find it.
    assert any(leaks(where, data, NEEDLES) for where, data in files(settings.data_dir))
    assert found == []
    assert searched > 100
