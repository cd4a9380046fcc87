"""A server goes away in the middle of things and comes back: Temporal, the object store, the database. Real servers.

In every outage one user is at each stage of a turn, and another turn of each is handed over while the server is away. All turns
reach one outcome, the profile is that of an undisturbed run, and what the orchestrator calls never raises.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.settings import Settings, load_settings
from starter import MemoryClient
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from starter.temporal import connect
from starter.views import LoadedMemory, LoadReason, Receipt, ReceiptStatus
from tests.support.fleet import World, as_json, migrated_file, new_namespace, open_world, scheduled, working, world_settings
from tests.support.postgres import PostgresServer
from tests.support.seen import Seen, look
from tests.support.waiting import until
from tests.support.webhook import WebhookReceiver
from tests.support.wires import Pause, Point

pytestmark = pytest.mark.timeout(180)

START = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
USER = Scope.of("acme", "ada")
SAYINGS = ("My name is Ada Keller and I work at Northwind.", "Thanks, that helps!", "I live in Porto.")
STAGES: Sequence[Point | None] = (
    None,  # between two turns: nothing runs
    Point("log.pending", "after"),
    Point("model.gate", "after"),
    Point("model.consolidate", "after"),
    Point("profiles.commit", "before"),
    Point("profiles.commit", "after"),
    Point("log.finish", "before"),
)
SWEEP = {"sweep_interval_s": 1, "sweep_grace_s": 0}


def turn(number: int) -> Turn:
    return Turn(
        turn_id=f"t{number}",
        user_text=SAYINGS[number - 1],
        assistant_text="Noted.",
        occurred_at=START + timedelta(minutes=number),
        allow_user_memory=True,
    )


@pytest.fixture(scope="module")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """Of this file alone: its two dozen namespaces would keep the server that all others share busy until the end."""
    with TemporalServer(tmp_path_factory.mktemp("outages"), in_memory=True, ui=False, stop_grace_s=2) as server:
        yield server


Step = Callable[[], Awaitable[Any]]


@dataclass
class Outage:
    """``away`` and ``back`` take the server away and bring it back; ``loaded`` and ``receipt`` judge what callers got meanwhile."""

    away: Step
    back: Step
    loaded: Callable[[LoadedMemory], bool]
    receipt: Callable[[Receipt], bool]


@dataclass
class Place:
    """One user's world: at this stage when the outage comes."""

    world: World
    webhook: WebhookReceiver
    stage: Point | None


@asynccontextmanager
async def a_place(settings: Settings, temporal: TemporalServer, stage: Point | None) -> AsyncGenerator[Place]:
    with WebhookReceiver() as webhook:
        told = load_settings({}, **{**as_json(settings), **webhook.settings, "notice_timeout_s": 10, "notice_log": False})
        async with open_world(told, await new_namespace(temporal.address)) as world:
            yield Place(world, webhook, stage)
    assert webhook.failures == []


async def undisturbed(settings: Settings, temporal: TemporalServer) -> Seen:
    async with a_place(settings, temporal, None) as place, working(place.world, Pause(Point("nothing", "before"))):
        await place.world.record(USER, [turn(1), turn(2), turn(3)])
        await place.world.settle(USER)
        return await look(place.world, USER, place.webhook)


async def live_through(outage: Outage, settings: Sequence[Settings], temporal: TemporalServer) -> list[Seen]:
    async with AsyncExitStack() as exits:
        places = await asyncio.gather(
            *(exits.enter_async_context(a_place(its, temporal, stage)) for its, stage in zip(settings, STAGES, strict=True))
        )
        pauses = [Pause(place.stage or Point("nothing", "before")) for place in places]
        for place, pause in zip(places, pauses, strict=True):
            await place.world.record(USER, [turn(1), turn(2)])
            await exits.enter_async_context(working(place.world, pause))
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(
                    pause.reached.wait() if place.stage else place.world.settle(USER)
                    for place, pause in zip(places, pauses, strict=True)
                )
            )
        await outage.away()
        try:
            for pause in pauses:
                pause.release.set()
            await asyncio.gather(*(meanwhile(place, outage) for place in places))
        finally:
            await outage.back()
        await asyncio.gather(*(afterwards(place) for place in places))
        return list(await asyncio.gather(*(look(place.world, USER, place.webhook) for place in places)))


async def meanwhile(place: Place, outage: Outage) -> None:
    loaded = await place.world.memory.load(USER, allow_user_memory=True)
    assert outage.loaded(loaded), loaded
    receipt = await place.world.memory.after_answer(USER, turn(3))
    assert outage.receipt(receipt), receipt
    again = await place.world.memory.load(USER, allow_user_memory=True)
    assert outage.loaded(again), again


async def afterwards(place: Place) -> None:
    """The client and the sweeper do it by themselves."""
    world = place.world

    async def all_done() -> bool:
        ledger = await world.ledger(USER)
        return len(ledger) == 3 and {row.state for row in ledger.values()} == {"done"}

    async with scheduled(world.client, world.settings):
        await until(all_done, within_s=120, what="an outcome of all three turns")
        await world.settle(USER)
    assert world.memory.lost_turns == 0


def check(lives: Sequence[Seen], expected: Seen) -> None:
    told = {str(stage): seen for stage, seen in zip(STAGES, lives, strict=True)}
    assert told == dict.fromkeys(told, expected)
    for seen in lives:
        seen.check_notices()


# ------------------------------------------------------------------------------------------------------------ the outages


async def test_temporal_is_killed_and_started_again(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, own_temporal_server: TemporalServer
) -> None:
    database = migrated_file(tmp_path)

    def settings(name: str) -> Settings:
        return world_settings(
            tmp_path / name, database, s3_server.settings, coalesce_turns=False, after_answer_budget_ms=5_000, **SWEEP
        )

    outage = Outage(
        away=own_temporal_server.kill,
        back=own_temporal_server.restart,
        loaded=lambda loaded: loaded.reason in {None, LoadReason.NO_PROFILE},
        receipt=lambda receipt: receipt.status in {ReceiptStatus.RECORDED, ReceiptStatus.PENDING} and not receipt.started,
    )
    check(
        *await asyncio.gather(
            live_through(outage, [settings(f"w{n}") for n, _ in enumerate(STAGES)], own_temporal_server),
            undisturbed(settings("calm"), temporal_server),
        )
    )


async def test_the_object_store_is_killed_and_started_again(
    tmp_path: Path, s3_server: S3Server, own_s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    database = migrated_file(tmp_path)

    def settings(name: str, server: S3Server) -> Settings:
        return world_settings(tmp_path / name, database, server.settings, coalesce_turns=False, **SWEEP)

    outage = Outage(
        away=own_s3_server.kill,
        back=own_s3_server.restart,
        loaded=lambda loaded: loaded.reason is LoadReason.UNAVAILABLE and loaded.body == "",
        receipt=lambda receipt: receipt.status is ReceiptStatus.RECORDED and receipt.started,
    )
    check(
        *await asyncio.gather(
            live_through(outage, [settings(f"w{n}", own_s3_server) for n, _ in enumerate(STAGES)], temporal_server),
            undisturbed(settings("calm", s3_server), temporal_server),
        )
    )


async def test_postgresql_is_stopped_and_started_again(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, postgres_server: PostgresServer
) -> None:
    unused = migrated_file(tmp_path)
    names = [postgres_server.create_database(migrated=True) for _ in (*STAGES, "calm")]

    def settings(name: str) -> Settings:
        return world_settings(
            tmp_path / name, unused, s3_server.settings, coalesce_turns=False, database_url=postgres_server.url(name), **SWEEP
        )

    async def away() -> None:
        await asyncio.to_thread(postgres_server.stop)

    async def back() -> None:
        # In this thread: the server ends with the thread that started it, and other tests use it too.
        postgres_server.start()

    outage = Outage(
        away=away,
        back=back,
        loaded=lambda loaded: loaded.reason is LoadReason.UNAVAILABLE and loaded.body == "",
        receipt=lambda receipt: receipt.status is ReceiptStatus.SPOOLED,
    )
    try:
        lives = await live_through(outage, [settings(name) for name in names[1:]], temporal_server)
        check(lives, await undisturbed(settings(names[0]), temporal_server))
    finally:
        for name in names:
            postgres_server.drop_database(name)


LOCK = """
import sqlite3, sys
held = [sqlite3.connect(path, timeout=30, isolation_level=None) for path in sys.argv[1:]]
for connection in held:
    connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


async def test_another_process_holds_the_lock_of_the_default_database(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    """For longer than SQLite waits: until a turn of each user had to go to the spool."""
    database = migrated_file(tmp_path)
    folders = [tmp_path / f"w{n}" for n, _ in enumerate(STAGES)]
    holder: list[asyncio.subprocess.Process] = []

    def settings(folder: Path) -> Settings:
        return world_settings(folder, database, s3_server.settings, coalesce_turns=False, **SWEEP)

    async def away() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", LOCK, *(str(folder / "afterturn.db") for folder in folders)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        holder.append(process)
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"locked\n"

    async def back() -> None:
        for process in holder:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()

    outage = Outage(
        away=away,
        back=back,
        loaded=lambda loaded: loaded.reason in {None, LoadReason.NO_PROFILE},
        receipt=lambda receipt: receipt.status is ReceiptStatus.SPOOLED,
    )
    check(
        *await asyncio.gather(
            live_through(outage, [settings(folder) for folder in folders], temporal_server),
            undisturbed(settings(tmp_path / "calm"), temporal_server),
        )
    )


# ------------------------------------------------------------------------------------------------- the answering path alone


async def test_a_frozen_object_store_is_left_alone_and_found_again(
    tmp_path: Path, own_s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    """It accepts connections and never answers. With the budgets of the default."""
    settings = world_settings(
        tmp_path / "w", migrated_file(tmp_path), own_s3_server.settings, load_budget_ms=300, object_store_timeout_s=5
    )
    client = await new_namespace(temporal_server.address)
    async with open_world(settings, client) as world:
        await until(lambda: _loads(world, {LoadReason.NO_PROFILE}))
        pid = own_s3_server.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
            reasons = [(await world.memory.load(USER, allow_user_memory=True)).reason for _ in range(12)]
        finally:
            os.kill(pid, signal.SIGCONT)
        assert set(reasons) <= {LoadReason.TIMEOUT, LoadReason.BUSY}
        assert reasons[0] is LoadReason.TIMEOUT
        assert reasons[-1] is LoadReason.BUSY
        await until(lambda: _loads(world, {LoadReason.NO_PROFILE}), within_s=60)


async def _loads(world: World, reasons: set[LoadReason | None]) -> bool:
    return (await world.memory.load(USER, allow_user_memory=True)).reason in reasons


async def test_turns_are_recorded_before_temporal_was_ever_seen_and_the_sweeper_starts_them(
    tmp_path: Path, s3_server: S3Server, own_temporal_server: TemporalServer
) -> None:
    settings = world_settings(tmp_path / "w", migrated_file(tmp_path), s3_server.settings, after_answer_budget_ms=3_000, **SWEEP)
    client = await new_namespace(own_temporal_server.address)
    await own_temporal_server.kill()
    async with open_world(settings, client) as world:

        async def first_use() -> Any:
            return await connect(settings, address=own_temporal_server.address, namespace=client.namespace, lazy=True)

        parts = replace(world.parts, temporal=first_use, close=())
        async with MemoryClient.from_parts(settings, parts) as memory:
            receipts = [await memory.after_answer(USER, turn(number)) for number in (1, 2, 3)]
            assert {receipt.started for receipt in receipts} == {False}
            assert {receipt.status for receipt in receipts} <= {ReceiptStatus.RECORDED, ReceiptStatus.PENDING}
        assert list(await world.ledger(USER)) == ["t1", "t2", "t3"]
        await own_temporal_server.restart()
        async with working(world, Pause(Point("nothing", "before"))):
            await ensure_schedules(client, settings)

            async def done() -> bool:
                return {row.state for row in (await world.ledger(USER)).values()} == {"done"}

            await until(done, within_s=90)
        view = await world.memory.get_profile(USER)
    assert "Ada Keller" in view.body
    assert "Porto" in view.body
