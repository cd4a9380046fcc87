"""``add_rows`` of 10,000 rows in batches of 500, against inserts that are written by hand into a table with real columns.

Ours: the product's store as a tool calls it, with checks, types, catalogue and idempotency, none of which the others have. By hand:
an INSERT of SQLAlchemy Core on the same pool of connections, a transaction per batch. Beside it, reported only: the driver's own
``executemany``. All on one SQLite file; rounds alternate.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Double, Integer, MetaData, Table, Text, insert
from sqlalchemy.schema import CreateTable as CreateSqlTable

from bench.results import BenchError, Reach, Row, ratio_row
from memory.model.knowledge import AddRows, CreateTable
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.settings import load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import Tables, build_tables

ROWS: Final = 10_000
BATCH: Final = 500
ROUNDS: Final = 9
LEAST: Final = Reach(least=0.3)
OWNER: Final = Owner.user(Scope.of("bench", "writer"))
COLUMNS: Final = {
    "name": "str",
    "city": "str",
    "founded": "date",
    "size": "int",
    "revenue": "float",
    "listed": "bool",
    "note": "str",
    "score": "float",
}


async def measure() -> list[Row]:
    rows = [_row(number) for number in range(ROWS)]
    ours: list[float] = []
    by_hand: list[float] = []
    by_driver: list[float] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="afterturn-knowledge-")))
        settings = load_settings({}, data_dir=folder, embedder="none")
        migrate(settings.sqlalchemy_url)
        tables = build_tables(settings)
        stack.push_async_callback(tables.aclose)
        driver = stack.enter_context(closing(sqlite3.connect(str(tables.database.url.database), isolation_level=None, timeout=30)))
        driver.execute("PRAGMA synchronous=NORMAL")  # as the product's own connections
        for number in range(-1, ROUNDS):
            seconds = (
                await _by_tool(tables, f"Companies_{number + 1}", rows),
                await _by_hand(tables, f"by_hand_{number + 1}", rows),
                _by_driver(driver, f"by_driver_{number + 1}", rows),
            )
            if number >= 0:  # the first round warms up
                for side, taken in zip((ours, by_hand, by_driver), seconds, strict=True):
                    side.append(ROWS / taken)
    what = f"{ROWS:,} rows of {len(COLUMNS)} columns into a table of their own, batches of {BATCH}, by hand"
    return [
        ratio_row(
            "add_rows, rows per second",
            ours,
            by_hand,
            compared_with=f"{what} with SQLAlchemy on the same pool",
            reach=LEAST,
            unit_of_both="rows/s",
        ),
        ratio_row(
            "add_rows, rows per second, to the driver's own",
            ours,
            by_driver,
            compared_with=f"{what} with the driver's executemany, no pool, no thread",
            reach=None,
            unit_of_both="rows/s",
        ),
    ]


def _row(number: int) -> dict[str, Any]:
    return {
        "name": f"Company {number}",
        "city": f"City {number % 50}",
        "founded": f"20{number % 20 + 10}-0{number % 9 + 1}-{number % 19 + 10}",
        "size": number % 1_000,
        "revenue": number / 3,
        "listed": number % 2 == 0,
        "note": "makes what others need, and sells it at a price",
        "score": number * 0.5,
    }


async def _by_hand(tables: Tables, name: str, rows: list[dict[str, Any]]) -> float:
    """Seconds."""
    kinds: dict[str, Any] = {"int": BigInteger, "bool": BigInteger, "float": Double}
    columns = (Column(column, kinds.get(type_, Text)) for column, type_ in COLUMNS.items())
    table = Table(name, MetaData(), Column("row_id", Integer, primary_key=True), *columns)
    await tables.database.write(lambda connection: connection.execute(CreateSqlTable(table)))
    began = time.perf_counter()
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        await tables.database.write(lambda connection, some=some: connection.execute(insert(table), some))
    return time.perf_counter() - began


def _by_driver(driver: sqlite3.Connection, name: str, rows: list[dict[str, Any]]) -> float:
    """Seconds."""
    kinds = {"int": "INTEGER", "bool": "INTEGER", "float": "REAL"}
    columns = ", ".join(f"{column} {kinds.get(type_, 'TEXT')}" for column, type_ in COLUMNS.items())
    driver.execute(f"CREATE TABLE {name} (row_id INTEGER PRIMARY KEY, {columns})")
    statement = f"INSERT INTO {name} ({', '.join(COLUMNS)}) VALUES ({', '.join('?' for _ in COLUMNS)})"
    began = time.perf_counter()
    for start in range(0, len(rows), BATCH):
        driver.execute("BEGIN IMMEDIATE")
        driver.executemany(statement, [tuple(row.values()) for row in rows[start : start + BATCH]])
        driver.execute("COMMIT")
    return time.perf_counter() - began


async def _by_tool(tables: Tables, name: str, rows: list[dict[str, Any]]) -> float:
    now = datetime.now(UTC)
    await tables.knowledge.write(OWNER, CreateTable(name, None, COLUMNS), effect=f"{name}/create", now=now)
    began = time.perf_counter()
    for start in range(0, len(rows), BATCH):
        change = AddRows(name, rows[start : start + BATCH])
        result = await tables.knowledge.write(OWNER, change, effect=f"{name}/{start}", now=now)
        if result["details"]["length"] != BATCH:
            raise BenchError("rows were not added")
    return time.perf_counter() - began
