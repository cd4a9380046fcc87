"""What a window learned and that belongs in a table: one row, whatever happens on the way. Real Temporal, S3 and SQLite."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import ActivityEnvironment

from activities.sweep import SweepActivities
from memory.model.knowledge import CreateTable
from memory.model.knowledge_loop import Loop, LoopState, Operation
from memory.model.scope import Scope
from memory.model.steps import SweepInput, SweepReport
from memory.model.table_claims import REQUEST
from memory.model.window import WindowState
from memory.ports import Usage
from starter import MemoryClient
from starter.engines import S3Server, TemporalServer
from tests.faults.test_windows import KNOWLEDGE_ONLY, said, statements, window
from tests.support.fleet import Foreman, World, migrated_file, new_namespace, open_world, world_settings
from tests.support.stack import Stack, StartStack
from tests.support.wires import Point

pytestmark = pytest.mark.timeout(240)

SUPPLIERS = CreateTable("Suppliers", "One supplier each.", {"name": "str", "city": "str", "delivery_days": "int"})
CITY = "The city of the supplier Nordholz is Lübeck."
KILLED = -9


async def suppliers(memory: MemoryClient, user: Scope) -> list[tuple[Any, Any]]:
    return [(row["name"], row["city"]) async for row in memory.knowledge.export(user, "Suppliers")]


async def ended(s: Stack, user: Scope, window_id: str) -> tuple[Loop, ...]:
    """The loops of a window, when they have ended."""
    for loop in (await s.memory.windows.show(user, window_id)).loops:
        await (await s.memory.knowledge.attach(user, loop.loop_id)).result(60)
    return (await s.memory.windows.show(user, window_id)).loops


async def test_a_claim_about_a_thing_of_a_table_becomes_its_row_once(stack: StartStack) -> None:
    async with stack(**KNOWLEDGE_ONLY) as s:
        user = s.user()
        await s.memory.knowledge.import_rows(user, "Suppliers", [], create=SUPPLIERS)
        first = await window(s, user, said(CITY), said("The deadline of the Atlas project is 3 May 2027."))
        (loop,) = await ended(s, user, first.window_id)
        assert (first.state, loop.state, loop.only) == (WindowState.DONE, LoopState.DONE, ("Suppliers",)), loop.answer
        assert await suppliers(s.memory, user) == [("Nordholz", "Lübeck")]
        assert CITY in await statements(s, user)

        await s.memory.windows.rerun(
            scope=user, window_ids=[first.window_id], states=frozenset(WindowState) - {WindowState.PLANNED}
        )
        await s.memory.windows.wait_until_idle(user, timeout_s=60)
        assert await ended(s, user, first.window_id) == (loop,)
        assert await suppliers(s.memory, user) == [("Nordholz", "Lübeck")]

        second = await window(s, user, said("Correction: the city of the supplier Nordholz is Kiel."))
        (changed,) = await ended(s, user, second.window_id)
        assert changed.state is LoopState.DONE
        assert await suppliers(s.memory, user) == [("Nordholz", "Kiel")]
        assert [table.name for table in await s.memory.knowledge.tables(user)] == ["Contacts", "Suppliers"]
        # What was said, and how a table is called, is in the stores and not in Temporal.
        for workflow_id in (user.consolidate_events_workflow_id, user.knowledge_workflow_id(loop.loop_id)):
            history = await s.client.get_workflow_handle(workflow_id).fetch_history()
            kept = b"".join(event.SerializeToString() for event in history.events)
            assert not any(word in kept for word in (b"Nordholz", b"Suppliers", b"Kiel")), workflow_id


async def test_a_user_without_tables_has_no_loop(stack: StartStack) -> None:
    async with stack(**KNOWLEDGE_ONLY) as s:
        user = s.user()
        done = await window(s, user, said(CITY))
        assert (await s.memory.windows.show(user, done.window_id)).loops == ()
        assert await s.memory.knowledge.loops(user) == ()
        assert CITY in await statements(s, user)


async def test_a_user_whose_tokens_are_spent_has_the_loop_later(stack: StartStack) -> None:
    """The window's own call crosses the cap; the sweeper starts the loop on a day that is not spent."""
    async with stack(**KNOWLEDGE_ONLY, daily_token_cap=1) as s:
        user = s.user()
        await s.memory.knowledge.import_rows(user, "Suppliers", [], create=SUPPLIERS)
        done = await window(s, user, said(CITY))
        (loop,) = (await s.memory.windows.show(user, done.window_id)).loops
        assert (done.state, loop.state) == (WindowState.DONE, LoopState.RUNNING)
        assert (await sweep(s)).window_loops_started == 0
        s.parts.meter.cap = 0
        assert (await sweep(s)).window_loops_started == 1
        (loop,) = await ended(s, user, done.window_id)
        assert await suppliers(s.memory, user) == [("Nordholz", "Lübeck")]


async def sweep(s: Stack) -> SweepReport:
    parts = s.parts
    sweeper = SweepActivities(
        parts.log,
        parts.directory,
        parts.profiles,
        parts.waker,
        ledger=parts.ledger,
        loops=parts.loops,
        index=parts.index,
        meter=parts.meter,
        rules=parts.window_rules,
    )
    report: SweepReport = await ActivityEnvironment().run(sweeper.sweep, SweepInput(loop_grace_s=0))
    assert report.failed_parts == ()
    return report


async def test_the_sweeper_starts_what_was_left_and_leaves_what_was_terminated(stack: StartStack) -> None:
    async with stack(**KNOWLEDGE_ONLY, workers=False) as s:
        user, now = s.user(), datetime.now(UTC)
        waiting = Loop("w1-a", Operation.UPDATE, REQUEST, "personal", now - timedelta(hours=1), parent="window:w1", only=("T",))
        for loop in (
            waiting,
            replace(waiting, loop_id="w51-b", created_at=now - timedelta(minutes=30)),
            replace(waiting, loop_id="w101-c", created_at=now - timedelta(days=9)),
            replace(waiting, loop_id="own", parent=None),
        ):
            await s.parts.loops.open(user, loop)

        async def runs(loop_id: str) -> bool:
            handle = s.client.get_workflow_handle(user.knowledge_workflow_id(loop_id))
            try:
                return (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
            except Exception:  # noqa: BLE001 - there is none
                return False

        # The oldest first, and one at a time; neither one of long ago nor one that somebody asked for.
        assert (await sweep(s)).window_loops_started == 1
        assert [await runs(name) for name in ("w1-a", "w51-b", "w101-c", "own")] == [True, False, False, False]
        await s.client.get_workflow_handle(user.knowledge_workflow_id("w1-a")).terminate()
        assert (await sweep(s)).window_loops_started == 1
        assert [await runs(name) for name in ("w1-a", "w51-b")] == [False, True]
        await s.client.get_workflow_handle(user.knowledge_workflow_id("w51-b")).terminate()
        for name in ("w1-a", "w51-b"):
            await s.parts.loops.finish(user, name, state=LoopState.STOPPED, answer=None, steps=0, usage=Usage(0, 0), now=now)
        assert (await sweep(s)).window_loops_started == 0


# ------------------------------------------------------------------------------------------------------------------- kill -9

USER = Scope.of("acme", "ada")
POINTS = (
    # The facts are stored, and nobody was told; the loop is recorded, and nobody was told.
    Point("facts.apply", "after"),
    Point("loops.open", "after"),
    # The row is there, and its result not written down; the end is written down, and nobody was told.
    Point("knowledge.write", "after"),
    Point("loops.finish", "after"),
)


async def lived(folder: Path, template: Path, engine: dict[str, Any], server: str, foreman: Foreman, crash: Point | None) -> Any:
    """A world of its own, in which the first worker dies at ``crash``."""
    settings = world_settings(folder, template, engine, **KNOWLEDGE_ONLY)
    client = await new_namespace(server)
    async with open_world(settings, client) as world:
        await world.memory.knowledge.import_rows(USER, "Suppliers", [], create=SUPPLIERS, import_id="i")
        await world.memory.record_events(
            USER, [said(CITY), said("The delivery days of the supplier Holzmann are 5.")], allow_user_memory=True
        )
        await world.memory.flush(USER)
        if crash is not None:
            doomed = await foreman.start(settings, client, crash=crash)
            assert await doomed.wait(90) == KILLED, doomed.log()
        healthy = await foreman.start(settings, client)
        seen = await left_by(world)
        healthy.terminate()
        assert await healthy.wait() == 0, healthy.log()
    return seen


async def left_by(world: World) -> Any:
    await world.memory.windows.wait_until_idle(USER, timeout_s=90)
    (done,) = await world.memory.windows.list(scope=USER)
    loops = (await world.memory.windows.show(USER, done.window_id)).loops
    answers = [(await (await world.memory.knowledge.attach(USER, loop.loop_id)).result(90)).state for loop in loops]
    facts = sorted(fact.statement for fact in await world.memory.facts(USER))
    return done.state, answers, sorted(await suppliers(world.memory, USER)), facts


async def test_a_killed_worker_changes_nothing_in_the_end(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    template = migrated_file(tmp_path)
    async with Foreman(tmp_path / "workers") as foreman:

        async def one(crash: Point | None) -> Any:
            name = str(crash or "calm").replace(" ", "-").replace("#", "")
            return await lived(tmp_path / name, template, s3_server.settings, temporal_server.address, foreman, crash)

        calm, *others = await asyncio.gather(one(None), *(one(crash) for crash in POINTS))
    assert calm[:3] == (WindowState.DONE, [LoopState.DONE], [("Holzmann", None), ("Nordholz", "Lübeck")])
    for crash, seen in zip(POINTS, others, strict=True):
        assert seen == calm, f"killed at {crash}"
