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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.fact import FactStatus
from memory.model.owner import View
from memory.model.scope import Scope
from memory.model.window import WindowState
from starter.engines import S3Server, TemporalServer
from tests.support.fleet import Foreman, World, migrated_file, new_namespace, open_world, working, world_settings
from tests.support.wires import Pause, Point

pytestmark = pytest.mark.timeout(500)

SEED = 20261130
USERS = 40
EVENTS = 125
"""Of each user: two full windows and a short one."""
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
MISBEHAVIOUR = (
    "hallucinated=0.15,duplicated=0.1,double_handled=0.1,fenced=0.1,preamble=0.1,truncated=0.05,rate_limited=0.04,server_error=0.04"
)
CATEGORIES = ("contacts", "bios", "rolling_summaries", "response_policies", "knowledge", "tasks")
PEOPLE = ("Mara Lind", "Jonas Adler", "Ines Roth", "Paul Weber", "Lea Brandt", "Tom Falk")
PROJECTS = ("Atlas", "Harbour", "Meadow", "Quarry", "Lantern", "Orchard")


def user(number: int) -> Scope:
    return Scope.of("acme", f"user-{number:02}")


def stream(number: int) -> list[MessageEvent | ManagerMethodEvent]:
    """What happens to a user: statements, changes, repeats, requests, small talk, manager calls."""
    draw = random.Random(f"{SEED}:{number}")
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    events: list[MessageEvent | ManagerMethodEvent] = []
    for place in range(EVENTS):
        project, person, day = draw.choice(PROJECTS), draw.choice(PEOPLE), draw.randint(1, 28)
        first, last = person.split()
        address = f"{first}.{last}@example.org".lower()
        said = draw.choice(
            (
                f"The deadline of the {project} project is {day} May 2026.",
                f"Correction: the deadline of the {project} project is {day} June 2026.",
                f"My colleague {person} works on the {project} project, her email is {address}.",
                f"We decided that the {project} project uses oak for the stairs.",
                f"Please send the plans of {project} to {first} by {day} April 2026.",
                "Always answer me in German.",
                "I work as an architect and I live in Porto.",
                "Thanks, that helps.",
                "What is the weather like today?",
            )
        )
        when = at + timedelta(minutes=7 * place)
        sender = "assistant" if place % 4 == 3 else "user"
        if place % 31 == 30:
            events.append(
                ManagerMethodEvent(
                    event_id=f"e{place}",
                    timestamp=when,
                    manager="KnowledgeManager",
                    method="update",
                    phase=Phase.INCOMING,
                    calling_id=f"call-{place}",
                    payload={"text": said},
                )
            )
            continue
        content = f"Noted: {said}" if sender == "assistant" else said
        events.append(MessageEvent(event_id=f"e{place}", timestamp=when, sender_id=sender, medium="chat", content=content))
    return events


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


async def look(world: World, users: int) -> dict[str, Any]:
    """Everything that was stored, without times of writing."""
    seen: dict[str, Any] = {}
    stores = world.parts.stores
    for number in range(users):
        scope = user(number)
        facts = await stores.facts.list(View(scope), statuses=tuple(FactStatus), sources=True, limit=1000)
        contacts = await stores.contacts.list(scope, limit=1000)
        tasks = await stores.tasks.list(scope, sources=True, limit=1000)
        said = {fact.fact_id: fact.statement for fact in facts}
        seen[scope.user] = {
            "facts": sorted(
                (
                    f.statement,
                    f.status.value,
                    said.get(f.superseded_by or "", ""),
                    sorted((s.event_id or "", s.quote) for s in f.sources),
                )
                for f in facts
            ),
            "contacts": [(c.contact_id, c.name, c.email_address, c.bio, c.rolling_summary, c.response_policy) for c in contacts],
            "tasks": sorted((t.name, t.status.value, str(t.deadline), sorted(s.quote for s in t.sources)) for t in tasks),
        }
    return seen


async def check_windows(world: World, users: int) -> None:
    for number in range(users):
        scope = user(number)
        progress = await world.parts.ledger.progress(scope)
        assert (progress.last_seq, progress.consolidated_seq) == (EVENTS, EVENTS), scope
        windows = await world.parts.ledger.windows(scope=scope, limit=100)
        covered = Counter(itertools.chain.from_iterable(range(w.first_seq, w.last_seq + 1) for w in windows))
        assert covered == Counter(range(1, EVENTS + 1)), scope
        assert {window.state for window in windows} == {WindowState.DONE}, [(w.window_id, w.state, w.reason) for w in windows]


def check_nothing_twice(seen: dict[str, Any]) -> None:
    for whose in seen.values():
        active = [statement for statement, status, *_ in whose["facts"] if status == "active"]
        assert len(active) == len(set(active)), whose
        addresses = [address for *_, address, _bio, _summary, _policy in whose["contacts"] if address]
        assert len(addresses) == len(set(addresses)), whose
        live = [name for name, status, *_ in whose["tasks"] if status in ("open", "in_progress")]
        assert len(live) == len(set(live)), whose


Runs = Callable[[int, int, int], Awaitable[dict[str, dict[str, Any]]]]


@pytest.fixture
def runs(tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer) -> Runs:
    """Both runs for so many users, crews and crashes of each: what each leaves, ``calm`` and ``wild``."""

    async def both(users: int, crews: int, crashes: int) -> dict[str, dict[str, Any]]:
        return await _both(tmp_path, s3_server, temporal_server, users, crews, crashes)

    return both


async def test_random_crashes_lose_nothing_and_store_nothing_twice(runs: Runs) -> None:
    """The everyday size; :func:`test_a_stream_of_5000_events` is the full one."""
    states = await runs(4, 1, 3)
    for seen in states.values():
        check_nothing_twice(seen)
        assert sum(len(whose["facts"]) for whose in seen.values()) > 4


@pytest.mark.crash
async def test_a_stream_of_5000_events(runs: Runs) -> None:
    """`make crash`: 40 users, 12 killed workers, and the same end state as the undisturbed run."""
    states = await runs(USERS, CREWS, CRASHES)
    calm, wild = states["calm"], states["wild"]
    check_nothing_twice(calm)
    check_nothing_twice(wild)
    assert sum(len(whose["facts"]) for whose in calm.values()) > USERS
    for name, whose in calm.items():
        for what, things in whose.items():
            only_calm = [one for one in things if one not in wild[name][what]]
            only_wild = [one for one in wild[name][what] if one not in things]
            assert (only_calm, only_wild) == ([], []), f"{what} of {name}"


async def _both(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, users: int, crew_count: int, crashes: int
) -> dict[str, dict[str, Any]]:
    template = migrated_file(tmp_path)
    overrides: dict[str, Any] = {f"memory_{name}": True for name in CATEGORIES}
    overrides |= {"simulated_faults": MISBEHAVIOUR, "simulated_seed": SEED, "daily_token_cap": 0, "model_concurrency": 4}
    states: dict[str, dict[str, Any]] = {}

    async def undisturbed() -> None:
        settings = world_settings(tmp_path / "calm", template, s3_server.settings, **overrides)
        async with open_world(settings, await new_namespace(temporal_server.address)) as world:
            await asyncio.gather(*(record(world, number) for number in range(users)))
            async with working(world, Pause(Point("nothing", "before"))):
                await all_consolidated(world, users)
            await check_windows(world, users)
            states["calm"] = await look(world, users)

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
                    worker = await foreman.start(world.settings, world.client, crash=point)
                    try:
                        async with asyncio.timeout(REACH_S):
                            deaths.append(await worker.wait(60))
                    except TimeoutError:
                        worker.kill()
                        deaths.append(await worker.wait(60))
                last = await foreman.start(world.settings, world.client)
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
            states["wild"] = await look(world, users)
        assert set(deaths) == {-9}
        return len(deaths)

    await undisturbed()
    assert await disturbed() == crew_count * crashes
    return states
