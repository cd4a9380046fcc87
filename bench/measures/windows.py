"""What the event window costs: recording events, working off windows with a model that takes no time, tokens per 1,000 events."""

from __future__ import annotations

import asyncio
import sqlite3
import time
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.bare import LOCAL, REGULAR
from bench.results import BenchError, Reach, Row, ratio_row
from bench.scripted_model import bullet_text
from bench.world import TENANT, World, open_world
from memory.categories import REGISTRY
from memory.extraction import Extractor, Known
from memory.llm.factory import build_models
from memory.model.category import ON_BY_DEFAULT, Category
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.window import StoredEvent, Window
from memory.settings import load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import build_tables
from starter.event_files import load_events

BATCH: Final = 50
BATCHES: Final = 200
ROUNDS: Final = 5
RECORD_LEAST: Final = Reach(least=0.8)

WINDOWS: Final = 100
WINDOW_ROUNDS: Final = 3
WINDOW_MOST: Final = Reach(most=1.5)
SAME_KINDS: Final = LOCAL + REGULAR + 2 * LOCAL + LOCAL + REGULAR
"""Plan, extract, two categories with something to apply, commit, index: what a window of the scripted model takes."""
ALL_REGULAR: Final = REGULAR * len(SAME_KINDS)

CONVERSATION: Final = Path(__file__).parents[2] / "starter" / "conversations" / "events-office.jsonl"


def _events(first: int, count: int, whose: str = "") -> list[MessageEvent]:
    """``whose``: nobody else says the same, so that nothing which a process remembers of one user's text helps with another's."""
    at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=first)
    seed = zlib.crc32(whose.encode())
    return [
        MessageEvent(
            event_id=f"e-{number}",
            timestamp=at + timedelta(minutes=number - first),
            sender_id="user" if number % 2 else "assistant",
            receiver_ids=("assistant" if number % 2 else "user",),
            content=f"Message {number}: {bullet_text(number, seed)}, and the proofs are due by then.",
        )
        for number in range(first, first + count)
    ]


async def recording() -> list[Row]:
    """Batches of 50, one after the other, over 20 users; the bare side inserts the same rows, in as many transactions."""
    ours: list[float] = []
    bare: list[float] = []
    users = [Scope.of(TENANT, f"user-{number}") for number in range(20)]
    for _ in range(ROUNDS):
        with TemporaryDirectory(prefix="afterturn-bench-") as folder:
            url = f"sqlite:///{folder}/ours.db"
            await asyncio.to_thread(migrate, url)
            batches = [_events(place * BATCH, BATCH) for place in range(BATCHES)]
            tables = build_tables(url)
            await tables.windows.progress(users[0])
            began = time.perf_counter()
            for place, batch in enumerate(batches):
                await tables.log.record_events(users[place % len(users)], batch, now=datetime.now(UTC))
            ours.append(time.perf_counter() - began)
            await tables.aclose()
            bare.append(await asyncio.to_thread(_bare_inserts, Path(folder) / "ours.db"))
    count = BATCH * BATCHES
    return [
        ratio_row(
            "recording events, per second",
            [count / one for one in ours],
            [count / one for one in bare],
            compared_with="bare executemany of the same rows in as many transactions, SQLite",
            reach=RECORD_LEAST,
            unit_of_both="events/s",
            batch=BATCH,
        )
    ]


def _bare_inserts(path: Path) -> float:
    """Seconds to insert the rows of the events table into the same table of a database with the same schema and pragmas."""
    source = sqlite3.connect(path)
    columns = [row[1] for row in source.execute("PRAGMA table_info(events)")]
    rows = source.execute("SELECT * FROM events ORDER BY rowid").fetchall()
    source.close()
    target_path = path.with_name("bare.db")
    migrate(f"sqlite:///{target_path}")
    target = sqlite3.connect(target_path, isolation_level=None)
    target.execute("PRAGMA journal_mode=WAL")
    target.execute("PRAGMA synchronous=NORMAL")
    statement = f"INSERT INTO events VALUES ({','.join('?' * len(columns))})"
    began = time.perf_counter()
    for start in range(0, len(rows), BATCH):
        target.execute("BEGIN IMMEDIATE")
        target.executemany(statement, rows[start : start + BATCH])
        target.execute("COMMIT")
    took = time.perf_counter() - began
    target.close()
    return took


async def consolidating() -> list[Row]:
    """100 users with a full window each, all at once, from the first wake-up to the last run's end."""
    ours: list[float] = []
    same: list[float] = []
    regular: list[float] = []
    async with open_world() as world:
        await _windows(world, "warm", 10)
        await _bare(world, "warm", 10, SAME_KINDS)
        for number in range(WINDOW_ROUNDS):
            same.append(await _bare(world, f"s{number}", WINDOWS, SAME_KINDS))
            ours.append(await _windows(world, f"r{number}", WINDOWS))
            regular.append(await _bare(world, f"r{number}", WINDOWS, ALL_REGULAR))
    count = len(SAME_KINDS)
    local = SAME_KINDS.count(LOCAL)
    return [
        ratio_row(
            f"{WINDOWS} windows, wall time",
            ours,
            same,
            compared_with=f"bare workflows of {count} empty activities, {local} of them local, as in a window",
            reach=WINDOW_MOST,
            unit_of_both="s",
            note="no embedder",
        ),
        ratio_row(
            f"{WINDOWS} windows, wall time, beside regular activities",
            ours,
            regular,
            compared_with=f"bare workflows of {count} empty regular activities",
            reach=None,
            unit_of_both="s",
            note="no embedder",
        ),
    ]


async def _windows(world: World, name: str, count: int) -> float:
    users = [Scope.of(TENANT, f"{name}-{number}") for number in range(count)]
    for scope in users:
        await world.tables.log.record_events(scope, _events(0, world.settings.window_size, scope.user), now=datetime.now(UTC))
    began = time.perf_counter()

    async def one(scope: Scope) -> None:
        await world.memory.windows.flush(scope)
        await world.window(scope)

    await asyncio.gather(*(one(scope) for scope in users))
    took = time.perf_counter() - began
    for scope in users:
        window = await world.tables.windows.window(scope, "w1")
        applied = sum(outcome.applied for outcome in window.outcomes) if window else 0
        if window is None or window.state != "done" or applied != 2:
            raise BenchError(
                f"a window ended as {window.state if window else 'nothing'} with {applied} applied, expected done with 2"
            )
    return took


async def _bare(world: World, name: str, count: int, kinds: str) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(world.bare_window(f"bare-{name}-{number}", kinds) for number in range(count)))
    return time.perf_counter() - began


async def extraction() -> list[Row]:
    """The shipped conversation through the extractor with the simulated model, by set of categories."""
    sets: dict[str, frozenset[Category]] = {
        "the default categories": ON_BY_DEFAULT,
        "knowledge and tasks": frozenset({Category.KNOWLEDGE, Category.TASKS}),
        "all categories": frozenset(Category),
    }
    rows: list[Row] = []
    models = build_models(load_settings({}, feature_flag=True))
    events = _stored()
    for name, wanted in sets.items():
        specs = [spec for spec in REGISTRY if spec.category in wanted]
        calls = given = said = 0
        for start in range(0, len(events), 50):
            part = events[start : start + 50]
            window = Window(
                scope=Scope.of(TENANT, "tokens"),
                window_id=f"w{start + 1}",
                first_seq=start + 1,
                last_seq=start + len(part),
                events=len(part),
                planned_at=datetime.now(UTC),
            )
            result = await Extractor(models.model("simulated"), timeout_s=60).run(
                window, part, Known(), specs, now=part[-1].event.timestamp
            )
            for used in result.usage.values():
                calls += used.calls
                given += used.input_tokens
                said += used.output_tokens
        per = 1000 / len(events)
        rows.append(
            Row(
                f"tokens per 1,000 events, {name}",
                (given + said) * per,
                "tokens",
                "nothing",
                note="simulated model; without what is known of contacts, tasks and facts",
                details={"calls": calls * per, "input_tokens": given * per, "output_tokens": said * per},
            )
        )
    await models.aclose()
    return rows


def _stored() -> Sequence[StoredEvent]:
    events: Sequence[Any] = load_events(str(CONVERSATION)).events
    return [StoredEvent(seq=place, event=event, recorded_at=datetime.now(UTC)) for place, event in enumerate(events, 1)]
