"""A stream of 5,000 events of 40 users, a model that misbehaves, workers that are killed at random points.

Whatever the moments: every event is in exactly one window, the watermark is the number of events, nothing is stored twice, and what
is stored is what a run stores that nobody disturbed.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.model.window import WindowState
from starter.engines import S3Server, TemporalServer
from tests.support.event_stream import (
    CATEGORIES,
    EVENTS,
    MISBEHAVIOUR,
    SEED,
    Seen,
    check_nothing_twice,
    differences,
    look,
    stream,
    user,
)
from tests.support.fleet import Foreman, World, migrated_file, new_namespace, open_world, working, world_settings
from tests.support.wires import Flaky, Point

pytestmark = pytest.mark.timeout(500)

USERS = 40
CREWS = 3
"""Workers at a time; each is followed by another one when it dies."""
CRASHES = 4
"""Of each crew."""
REACH_S = 15
"""A worker that has not come to its point by then is killed where it is."""
CALLS = (
    "ledger.next",
    "ledger.plan",
    "ledger.save_extraction",
    "ledger.commit",
    "ledger.advance_index",
    "facts.apply",
    "facts.mark_indexed",
    "contacts.apply",
    "tasks.apply",
    "model.extract",
)
FLAKY = 0.08
"""Of the model's calls: rate limited, or an error of the server."""


async def record(world: World, number: int) -> None:
    """In small batches, some of them twice."""
    events = stream(number)
    for start in range(0, EVENTS, 25):
        batch = events[start : start + 25]
        for _ in range(2 if start == 50 else 1):
            receipt = await world.memory.record_events(user(number), batch, allow_user_memory=True)
            assert receipt.reason is None, receipt


async def all_consolidated(world: World, users: int) -> None:
    """Ask for the short windows, and again for what a lost start or a failed try left, until nothing waits."""
    for number in range(users):
        await world.parts.ledger.flush(user(number), now=datetime.now(UTC))
    async with asyncio.timeout(400):
        while True:
            await world.parts.ledger.reopen(states=(WindowState.FAILED, WindowState.PARTIAL), limit=1000)
            due = await world.parts.ledger.due(size=50, limit=1000)
            if not due:
                return
            for one in due:
                await world.memory._window_waker.wake(one.scope, one.waiting)
            for one in due:
                await world.memory.windows.wait_until_idle(one.scope, timeout_s=20)


async def check_windows(world: World, users: int) -> None:
    for number in range(users):
        scope = user(number)
        progress = await world.parts.ledger.progress(scope)
        assert (progress.last_seq, progress.consolidated_seq) == (EVENTS, EVENTS), scope
        windows = await world.parts.ledger.windows(scope=scope, limit=100)
        covered = Counter(itertools.chain.from_iterable(range(w.first_seq, w.last_seq + 1) for w in windows))
        assert covered == Counter(range(1, EVENTS + 1)), scope
        assert {window.state for window in windows} == {WindowState.DONE}, [(w.window_id, w.state, w.reason) for w in windows]


Runs = Callable[[int, int, int], Awaitable[dict[str, Seen]]]


@pytest.fixture
def runs(tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer) -> Runs:
    """Both runs for so many users, crews and crashes of each: what each leaves, ``calm`` and ``wild``."""

    async def both(users: int, crews: int, crashes: int) -> dict[str, Seen]:
        return await _both(tmp_path, s3_server, temporal_server, users, crews, crashes)

    return both


async def test_random_crashes_lose_nothing_store_nothing_twice_and_change_nothing(runs: Runs) -> None:
    """The everyday size; :func:`test_a_stream_of_5000_events` is the full one."""
    check(await runs(4, 1, 3), least=5)


@pytest.mark.crash
async def test_a_stream_of_5000_events(runs: Runs) -> None:
    """`make crash`: 40 users, 12 killed workers."""
    check(await runs(USERS, CREWS, CRASHES), least=USERS + 1)


def check(states: dict[str, Seen], *, least: int) -> None:
    for seen in states.values():
        check_nothing_twice(seen)
    assert sum(len(whose["facts"]) for whose in states["calm"].values()) >= least
    for what, (only_calm, only_wild) in differences(states["calm"], states["wild"]).items():
        assert (only_calm, only_wild) == (None, None), what


async def _both(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, users: int, crew_count: int, crashes: int
) -> dict[str, Seen]:
    template = migrated_file(tmp_path)
    overrides: dict[str, Any] = {f"memory_{name}": True for name in CATEGORIES}
    overrides |= {"simulated_faults": MISBEHAVIOUR, "simulated_seed": SEED, "daily_token_cap": 0, "model_concurrency": 4}
    states: dict[str, Seen] = {}

    async def undisturbed() -> None:
        settings = world_settings(tmp_path / "calm", template, s3_server.settings, **overrides)
        async with open_world(settings, await new_namespace(temporal_server.address)) as world:
            await asyncio.gather(*(record(world, number) for number in range(users)))
            async with working(world, Flaky(FLAKY, "calm")):
                await all_consolidated(world, users)
            await check_windows(world, users)
            states["calm"] = await look(world.parts.stores, [user(number) for number in range(users)])

    async def disturbed() -> int:
        settings = world_settings(tmp_path / "wild", template, s3_server.settings, **overrides)
        draw = random.Random(SEED)
        chosen = [
            [Point(draw.choice(CALLS), draw.choice(("before", "after")), draw.randint(1, 12)) for _ in range(crashes)]
            for _ in range(crew_count)
        ]
        deaths: list[int] = []
        async with (
            open_world(settings, await new_namespace(temporal_server.address)) as world,
            Foreman(tmp_path / "workers") as foreman,
        ):

            async def crew(points: Sequence[Point]) -> None:
                for point in points:
                    worker = await foreman.start(world.settings, world.client, crash=point, flaky=FLAKY)
                    try:
                        async with asyncio.timeout(REACH_S):
                            deaths.append(await worker.wait(60))
                    except TimeoutError:
                        worker.kill()
                        deaths.append(await worker.wait(60))
                last = await foreman.start(world.settings, world.client, flaky=FLAKY)
                await done.wait()
                last.terminate()
                assert await last.wait() == 0, last.log()

            done = asyncio.Event()
            crews = [asyncio.create_task(crew(points)) for points in chosen]
            try:
                await asyncio.gather(*(record(world, number) for number in range(users)))
                await all_consolidated(world, users)
            finally:
                done.set()
            await asyncio.gather(*crews)
            await check_windows(world, users)
            states["wild"] = await look(world.parts.stores, [user(number) for number in range(users)])
        assert set(deaths) == {-9}
        return len(deaths)

    await undisturbed()
    assert await disturbed() == crew_count * crashes
    return states
