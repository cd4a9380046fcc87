"""Reads of knowledge tables beside the same questions asked of a hand-written SQL table; one user's overview among many tables."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, text

from bench.results import BenchError, Reach, Row
from memory.model.knowledge import AddRows, CreateTable, FilterQuery, ReduceQuery
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.stores.migrations import migrate
from memory.stores.tables import Tables, build_tables
from tests.support.postgres import PostgresServer, find_postgres

ROWS: Final = 100_000
BATCH: Final = 1_000
ROUNDS: Final = 7
USERS: Final = 1_000
FEW: Final = 100
MANY: Final = 10_000
OVERVIEWS: Final = 200
MOST: Final = Reach(most=3)
MOST_OVERVIEW: Final = Reach(most=1.5)

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_MARKETS: Final = ("Germany", "Österreich", "中国", "France", "Italia", "Polska", "España", "Türkiye")
_COLUMNS: Final = {"model": "str", "market": "str", "year": "int", "units": "int", "price": "float"}
_FILTER: Final = "price * 2 > 150000 and units % 7 == 3 and market != 'Germany' and model.startswith('M9')"
_BY_HAND: Final = (
    "SELECT * FROM by_hand WHERE price * 2 > 150000 AND units % 7 = 3 AND market <> 'Germany' AND model LIKE 'M9%'"
    " ORDER BY row_id DESC LIMIT 1000"
)
_CREATE: Final = (
    "CREATE TABLE by_hand (row_id BIGINT PRIMARY KEY, model TEXT, market TEXT, year BIGINT, units BIGINT, price DOUBLE PRECISION)"
)
_INSERT: Final = "INSERT INTO by_hand VALUES (:row_id, :model, :market, :year, :units, :price)"
_GROUP: Final = "SELECT market, sum(units) FROM by_hand GROUP BY market ORDER BY market"


async def measure() -> list[Row]:
    rows: list[Row] = []
    async with _sqlite() as tables:
        rows += await _beside_by_hand(tables, "SQLite")
    async with _sqlite() as tables:
        rows.append(await _overviews(tables))
    if find_postgres() is None:
        return [*rows, Row("filter of 100,000 rows, PostgreSQL", None, "", "", MOST, note="no PostgreSQL can be run here")]
    async with _postgres() as tables:
        rows += await _beside_by_hand(tables, "PostgreSQL")
    return rows


@asynccontextmanager
async def _sqlite() -> AsyncGenerator[Tables]:
    with tempfile.TemporaryDirectory(prefix="afterturn-knowledge-") as folder:
        url = f"sqlite:///{Path(folder) / 'afterturn.db'}"
        migrate(url)
        tables = build_tables(url)
        try:
            yield tables
        finally:
            await tables.aclose()


@asynccontextmanager
async def _postgres() -> AsyncGenerator[Tables]:
    binaries = find_postgres()
    assert binaries is not None
    server = await asyncio.to_thread(PostgresServer, binaries)
    try:
        await asyncio.to_thread(server.create)
        await asyncio.to_thread(server.start)
        tables = build_tables(server.url(await asyncio.to_thread(server.create_database, migrated=True)))
        try:
            yield tables
        finally:
            await tables.aclose()
    finally:
        await asyncio.to_thread(server.remove)


async def _beside_by_hand(tables: Tables, database: str) -> list[Row]:
    view, store = View(Scope.of("bench", "reader")), tables.knowledge
    await _fill(tables, view)

    async def filtered() -> Any:
        return (await store.filter(view, FilterQuery(_FILTER, limit=1_000, tables=["Sales"])))["Sales"]

    async def grouped() -> Any:
        return await store.reduce(view, ReduceQuery("Sales", "sum", "units", group_by="market"))  # pyright: ignore[reportArgumentType]

    def by_hand(sql: str) -> Callable[[], Awaitable[Any]]:
        return lambda: tables.database.read(lambda connection: connection.execute(text(sql)).all())

    found, expected = await filtered(), await by_hand(_BY_HAND)()
    if [row["row_id"] for row in found] != [row.row_id for row in expected] or not found:
        raise BenchError("the filter gives other rows than the table by hand")
    sums = {row[0]: int(row[1]) for row in await by_hand(_GROUP)()}
    if await grouped() != sums:
        raise BenchError("the reduction gives other sums than the table by hand")
    return [
        await _ratio(f"filter of {ROWS:,} rows, {database}", filtered, by_hand(_BY_HAND)),
        await _ratio(f"reduce of {ROWS:,} rows by a group, {database}", grouped, by_hand(_GROUP)),
    ]


async def _fill(tables: Tables, view: View) -> None:
    owner, chance = Owner.user(view.scope), random.Random(4)
    await tables.knowledge.write(owner, CreateTable("Sales", columns=_COLUMNS), effect="create", now=_NOW)
    await tables.database.write(lambda connection: connection.execute(text(_CREATE)))
    for start in range(0, ROWS, BATCH):
        rows = [
            {
                "model": f"M{chance.randrange(100):02}-{number}",
                "market": chance.choice(_MARKETS),
                "year": chance.randrange(1990, 2027),
                "units": chance.randrange(10_000),
                "price": chance.randrange(1_000_000) / 10,
            }
            for number in range(start, start + BATCH)
        ]
        await tables.knowledge.write(owner, AddRows("Sales", rows), effect=f"add {start}", now=_NOW)
        keyed = [{"row_id": start + number, **row} for number, row in enumerate(rows)]
        await tables.database.write(lambda connection, keyed=keyed: connection.execute(text(_INSERT), keyed))
    if tables.database.is_sqlite:
        return

    def analyze(connection: Connection) -> None:  # as autovacuum does after a while
        connection.exec_driver_sql("ANALYZE")

    await tables.database.write(analyze)


async def _ratio(name: str, ours: Callable[[], Awaitable[Any]], theirs: Callable[[], Awaitable[Any]]) -> Row:
    """Both in turn, so that a busy moment is no one's alone."""
    times: dict[int, list[float]] = {0: [], 1: []}
    for number in range(-1, ROUNDS):
        for side, call in enumerate((ours, theirs)):
            began = time.perf_counter()
            await call()
            if number >= 0:
                times[side].append((time.perf_counter() - began) * 1000)
    one, other = statistics.median(times[0]), statistics.median(times[1])
    details = {"ours": one, "theirs": other, "unit_of_both": "ms"}
    return Row(name, one / other, "ratio", "the same of a hand-written table with real columns", MOST, details=details)


async def _overviews(tables: Tables) -> Row:
    """The overview that a loop begins with, of users who have ten tables each."""
    p50: list[float] = []
    made = 0
    for size in (FEW, MANY):
        users = [Scope.of("bench", f"user-{number}") for number in range(size * USERS // MANY)]
        for scope in users[made:]:
            for number in range(size // len(users)):
                created = CreateTable(f"Table_{number}", columns=_COLUMNS, description="A table of a benchmark.")
                await tables.knowledge.write(Owner.user(scope), created, effect=f"create {number}", now=_NOW)
        made = len(users)
        times: list[float] = []
        for number in range(OVERVIEWS):
            view = View(users[number % len(users)])
            began = time.perf_counter()
            seen = await tables.knowledge.tables(view)
            times.append((time.perf_counter() - began) * 1000)
            if len(seen) != size // len(users) + 1:
                raise BenchError("an overview does not show the user's tables and contacts")
        p50.append(statistics.median(times))
    few, many = p50
    return Row(
        "overview of one user's tables, many to few",
        many / few,
        "ratio",
        f"{MANY:,} tables of {USERS:,} users beside {FEW} of {FEW * USERS // MANY}",
        MOST_OVERVIEW,
        details={"ours": many, "theirs": few, "unit_of_both": "ms"},
    )
