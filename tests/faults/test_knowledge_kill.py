"""Kill -9 of the worker at every boundary of a knowledge loop's steps; another worker goes on. Real processes, Temporal and SQLite.

Whatever the moment: the loop ends as it would have, every row is there once, and the conversation has every entry once. All crash
points run at once, each in a Temporal namespace and a database of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memory.model.knowledge_loop import EntryKind, LoopState
from memory.model.scope import Scope
from memory.settings import Settings
from starter.engines import S3Server, TemporalServer
from tests.support.fleet import Foreman, World, migrated_file, new_namespace, open_world, world_settings
from tests.support.wires import Point

pytestmark = pytest.mark.timeout(240)

KILLED = -9
AT_ONCE = 24
USER = Scope.of("acme", "ada")
SCRIPT: list[Any] = [
    [
        ["create_table", {"name": "Cars", "columns": {"model": "str", "range_km": "int"}}],
        ["add_rows", {"table": "Cars", "rows": [{"model": "Leaf", "range_km": 270}]}],
    ],
    [
        ["tables_overview", {}],
        ["add_rows", {"table": "Cars", "rows": [{"model": "Zoe", "range_km": 395}, {"model": "e-Golf", "range_km": 230}]}],
    ],
    [["update_rows", {"table": "Cars", "updates": {"0": {"range_km": 385}}}]],
    "The Leaf, the Zoe and the e-Golf are in the table.",
]
POINTS = (
    # Every entry that a model step or a tool step writes is written, and nobody was told.
    *(Point("loops.append", "after", n) for n in range(1, 10)),
    # A change is made, and its result not yet written down.
    *(Point("knowledge.write", "after", n) for n in range(1, 5)),
    # A reply is paid for, and lost.
    *(Point("model.knowledge.update", "after", n) for n in (1, 3)),
    Point("loops.finish", "after"),
)


@dataclass
class Seen:
    """All that a loop leaves, without times and ids that are drawn."""

    answer: str = ""
    state: LoopState = LoopState.RUNNING
    steps: int = 0
    rows: list[Any] = field(default_factory=list[Any])
    entries: list[Any] = field(default_factory=list[Any])


async def look(world: World) -> Seen:
    handle = await world.memory.knowledge.attach(USER, "loop")
    answer = await handle.result(100)
    tables = await world.memory.knowledge.tables(USER)
    rows = [row async for row in world.memory.knowledge.export(USER, "Cars")]
    entries = [
        (entry.key, entry.kind, entry.body.get("content"), entry.body.get("is_error"))
        for entry in await handle.history()
        if entry.kind is not EntryKind.NOTICE
    ]
    return Seen(answer.text, answer.state, answer.steps, [[table.name for table in tables], rows], sorted(entries))


async def lived(folder: Path, template: Path, engine: dict[str, Any], server: str, foreman: Foreman, crash: Point | None) -> Seen:
    """A world of its own, in which the first worker dies at ``crash``."""
    settings: Settings = world_settings(folder, template, engine)
    client = await new_namespace(server)
    async with open_world(settings, client) as world:
        await world.memory.knowledge.update(USER, "Put these cars into a table.", loop_id="loop")
        if crash is not None:
            doomed = await foreman.start(settings, client, crash=crash, script=SCRIPT)
            assert await doomed.wait(90) == KILLED, doomed.log()
        healthy = await foreman.start(settings, client, script=SCRIPT)
        seen = await look(world)
        healthy.terminate()
        assert await healthy.wait() == 0, healthy.log()
    return seen


async def test_a_killed_worker_changes_nothing_in_the_end(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    template = migrated_file(tmp_path)
    room = asyncio.Semaphore(AT_ONCE)
    async with Foreman(tmp_path / "workers") as foreman:

        async def one(crash: Point | None) -> Seen:
            async with room:
                name = str(crash or "calm").replace(" ", "-").replace("#", "")
                return await lived(tmp_path / name, template, s3_server.settings, temporal_server.address, foreman, crash)

        calm, *others = await asyncio.gather(one(None), *(one(crash) for crash in POINTS))
    assert (calm.state, calm.steps) == (LoopState.DONE, 4)
    assert [(row["row_id"], row["model"], row["range_km"]) for row in calm.rows[1]] == [
        (0, "Leaf", 385), (1, "Zoe", 395), (2, "e-Golf", 230),
    ]  # fmt: skip
    for crash, seen in zip(POINTS, others, strict=True):
        assert seen == calm, f"killed at {crash}"
