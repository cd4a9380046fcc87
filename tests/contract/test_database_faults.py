"""The database locked, away, restarted or frozen: a bounded wait, a clear error, nothing lost, and back to work by itself."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.model.errors import InvalidSettings, StoreUnavailable
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.stores.tables import build_tables
from memory.stores.tables.engine import READERS, WRITERS
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
ANN = Scope.of("acme", "ann")


def a_turn(turn_id: str) -> Turn:
    return Turn(turn_id=turn_id, user_text="hello", assistant_text="hi", occurred_at=NOW)


async def test_a_locked_sqlite_file_can_be_read_and_written_when_it_is_free(sqlite_url: str) -> None:
    tables = build_tables(sqlite_url, busy_timeout_s=0.05)
    await tables.log.record_turn(ANN, a_turn("before"), now=NOW)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="database is locked"):
        await tables.log.record_turn(ANN, a_turn("during"), now=NOW)
    assert len(await tables.log.pending(ANN, limit=5)) == 1
    other.execute("ROLLBACK")
    other.close()
    assert (await tables.log.record_turn(ANN, a_turn("during"), now=NOW)).ordinal == 2
    await tables.aclose()


async def test_a_short_lock_is_waited_for(sqlite_url: str) -> None:
    tables = build_tables(sqlite_url)
    await tables.log.record_turn(ANN, a_turn("before"), now=NOW)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.gather(*(tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW) for n in range(5)))
    # A read goes through while the writers wait.
    assert len(await tables.log.pending(ANN, limit=9)) == 1
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    assert sorted(r.ordinal for r in await waiting) == [2, 3, 4, 5, 6]
    await tables.aclose()


async def test_a_reader_and_many_writers_at_once_on_one_file(sqlite_url: str) -> None:
    one, two = build_tables(sqlite_url), build_tables(sqlite_url)
    calls = [t.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW) for n in range(40) for t in (one, two)]
    calls += [t.log.pending(ANN, limit=50) for _ in range(20) for t in (one, two)]  # type: ignore[misc]
    await asyncio.gather(*calls)
    assert [s.ordinal for s in await one.log.pending(ANN, limit=99)] == list(range(1, 41))
    await asyncio.gather(one.aclose(), two.aclose())


async def test_a_missing_sqlite_file_is_not_made_by_use(tmp_path: Path) -> None:
    tables = build_tables(f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(InvalidSettings, match="run `afterturn migrate`"):
        await tables.directory.facts(ANN, "space")
    await tables.aclose()
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


async def test_a_call_that_finds_no_free_thread_gives_up(sqlite_url: str) -> None:
    tables = build_tables(sqlite_url, call_timeout_s=0.3, busy_timeout_s=0.2)
    await tables.log.record_turn(ANN, a_turn("before"), now=NOW)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    results = await asyncio.gather(
        *(tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW) for n in range(30)), return_exceptions=True
    )
    other.close()
    assert {type(result) for result in results} == {StoreUnavailable}
    # Nothing of the refused calls is written later.
    assert len(await tables.log.pending(ANN, limit=50)) == 1
    await tables.aclose()


async def test_a_server_that_is_away_is_reported_at_once() -> None:
    tables = build_tables("postgresql+psycopg://app:hunter2@127.0.0.1:1/afterturn")
    for call in (tables.log.ping(), tables.directory.facts(ANN, "s"), tables.log.record_turn(ANN, a_turn("t"), now=NOW)):
        with pytest.raises(StoreUnavailable, match=r"PostgreSQL at 127\.0\.0\.1:1 is unavailable") as caught:
            await call
        assert "hunter2" not in str(caught.value)
    await tables.aclose()


async def test_a_restarted_server_is_used_again_without_a_failed_call(postgres_server: PostgresServer, postgres_url: str) -> None:
    tables = build_tables(postgres_url)
    await asyncio.gather(*(tables.log.record_turn(ANN, a_turn(f"a{n}"), now=NOW) for n in range(20)))
    await asyncio.gather(*(tables.log.pending(ANN, limit=50) for _ in range(20)))
    postgres_server.stop()
    try:
        with pytest.raises(StoreUnavailable):
            await tables.log.record_turn(ANN, a_turn("while away"), now=NOW)
    finally:
        postgres_server.start()
    # Pooled connections of all threads are dead now; every call finds a fresh one.
    await asyncio.gather(*(tables.log.record_turn(ANN, a_turn(f"b{n}"), now=NOW) for n in range(20)))
    assert [s.ordinal for s in await tables.log.pending(ANN, limit=50)] == list(range(1, 41))
    await tables.aclose()


async def test_a_frozen_server_holds_no_one_for_ever(postgres_server: PostgresServer, postgres_url: str) -> None:
    tables = build_tables(postgres_url, call_timeout_s=1.0)
    # More calls than threads, so that connections are open in all of them.
    await asyncio.gather(*(tables.log.record_turn(ANN, a_turn(f"a{n}"), now=NOW) for n in range(4 * WRITERS)))
    await asyncio.gather(*(tables.log.pending(ANN, limit=1) for _ in range(4 * READERS)))
    postgres_server.freeze()
    try:
        given_up = [asyncio.create_task(tables.log.record_turn(ANN, a_turn(f"b{n}"), now=NOW)) for n in range(WRITERS)]
        async with asyncio.timeout(30):
            results = await asyncio.gather(
                *(tables.log.record_turn(ANN, a_turn(f"c{n}"), now=NOW) for n in range(2 * WRITERS)),
                *(tables.log.pending(ANN, limit=1) for _ in range(2 * READERS)),
                return_exceptions=True,
            )
        assert {type(result) for result in results} == {StoreUnavailable}
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
    finally:
        postgres_server.resume()

    async def works() -> bool:
        try:
            return (await tables.log.record_turn(ANN, a_turn("after"), now=NOW)).ordinal > 0
        except StoreUnavailable:
            return False

    await until(works)
    stored = await tables.log.pending(ANN, limit=99)
    assert [s.ordinal for s in stored] == list(range(1, len(stored) + 1))
    await tables.aclose()


async def test_a_cancelled_caller_does_not_keep_a_thread(postgres_server: PostgresServer, postgres_url: str) -> None:
    tables = build_tables(postgres_url, call_timeout_s=0.5)
    await asyncio.gather(*(tables.log.record_turn(ANN, a_turn(f"a{n}"), now=NOW) for n in range(4 * WRITERS)))
    postgres_server.freeze()
    try:
        for _ in range(2 * WRITERS):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await tables.log.record_turn(ANN, a_turn("never"), now=NOW)
    finally:
        postgres_server.resume()
    await tables.log.record_turn(ANN, a_turn("after"), now=NOW)
    await tables.aclose()
