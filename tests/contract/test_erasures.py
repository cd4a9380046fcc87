"""Receipts of erasures, the mark, and the deletion of all rows of a user, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Date, Table, event, func, insert, select
from sqlalchemy.types import JSON, Boolean, Float, Integer, TypeDecorator

from memory.model.directory import MemoryFacts
from memory.model.enablement import ReasonCode, effective_enablement
from memory.model.erasure import ErasureState, user_hash
from memory.model.errors import BeingForgotten, InvalidInput
from memory.model.event import MessageEvent
from memory.model.knowledge import CreateTable
from memory.model.knowledge_loop import Loop, Operation
from memory.model.library import Guidance
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.ports import CreateContact
from memory.stores.tables import Tables, build_tables, erasures
from memory.stores.tables.rows import METADATA, TURNS
from memory.stores.tables.rows_api import ERASED_USERS, ERASURES
from memory.stores.tables.scoping import RECORD_TABLES, Records
from tests.support.records import ANN, ANNS, NOW, add, create_task

SIMILAR = Scope.of("acme", "ann-2")
ELSEWHERE = Scope.of("acme-2", "ann")
TEAM = Owner.team("acme", "ann")
HER_TABLES = (*erasures.BY_USER, *erasures.BY_OWNER)
CANARY = "violet-ibex-canary"


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


def _value(column: Any, number: int) -> Any:
    kind = column.type.impl if isinstance(column.type, TypeDecorator) else column.type
    if isinstance(kind, Boolean):
        return True
    if isinstance(kind, Integer):
        return number
    if isinstance(kind, Float):
        return float(number)
    if isinstance(kind, JSON):
        return [f"{CANARY} {number}"]
    if isinstance(kind, Date):
        return date(2026, 1, 1) + timedelta(days=number)
    return NOW if "time" in type(kind).__name__.lower() else f"{CANARY} {number}"


def _fill(connection: Connection, table: Table, whose: Scope | Owner, count: int) -> None:
    """Rows of that user, or of that team, with something in every column."""
    owner = whose if isinstance(whose, Owner) else Owner.user(whose)
    placed = {"tenant", "user_id", "owner_key", "number"} if table.name == "notices" else {"tenant", "user_id", "owner_key"}
    rows = [
        {column.name: _value(column, number) for column in table.columns if column.name not in placed} for number in range(count)
    ]
    single = len(table.primary_key) == 2  # one row per user or owner
    if table in RECORD_TABLES:
        Records(connection, owner).insert(table, rows[: 1 if single else count])
    elif "owner_key" in table.c:
        connection.execute(insert(table), [{**row, "tenant": owner.tenant, "owner_key": owner.key} for row in rows])
    elif isinstance(whose, Scope):
        key = {"tenant": whose.tenant, "user_id": whose.user}
        connection.execute(insert(table), [{**row, **key} for row in rows[: 1 if single else count]])


def _count(connection: Connection, table: Table, whose: Scope | Owner) -> int:
    owner = whose if isinstance(whose, Owner) else Owner.user(whose)
    if table in RECORD_TABLES:
        return len(Records(connection, owner).rows(select(table.c.tenant)))
    if "owner_key" not in table.c and isinstance(whose, Owner):
        return 0
    column, value = (table.c.owner_key, owner.key) if "owner_key" in table.c else (table.c.user_id, owner.name)
    counted = select(func.count()).select_from(table).where(table.c.tenant == owner.tenant, column == value)
    return connection.execute(counted).scalar_one()


async def _counts(tables: Tables, whose: Scope | Owner) -> dict[str, int]:
    return {table.name: await tables.database.read(lambda c, t=table: _count(c, t, whose)) for table in HER_TABLES}


async def _fill_all(tables: Tables, whose: Scope | Owner, count: int = 3) -> None:
    for table in HER_TABLES:
        await tables.database.write(lambda c, t=table: _fill(c, t, whose, count))


def test_every_table_about_a_user_is_erased_or_says_why_it_stays() -> None:
    about = {t.name for t in METADATA.sorted_tables if {"user_id", "owner_key", "user_hash", "user"} & set(t.c.keys())}
    erased = {table.name for table in HER_TABLES}
    assert not erased & set(erasures.STAYS)
    assert about == erased | set(erasures.STAYS), "say in memory/stores/tables/erasures.py what becomes of its rows"
    assert all(erasures.STAYS.values())


class TestRows:
    async def test_all_rows_of_the_user_go_and_nobody_elses(self, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(erasures, "BATCH", 2)
        others: tuple[Scope | Owner, ...] = (SIMILAR, ELSEWHERE, TEAM)
        for whose in (ANN, *others):
            await _fill_all(tables, whose)
        before = {str(whose): await _counts(tables, whose) for whose in others}
        there = await _counts(tables, ANN)
        assert all(there.values())

        deleted = await tables.erasures.erase_rows(ANN)

        assert deleted == there
        assert not any((await _counts(tables, ANN)).values())
        assert {str(whose): await _counts(tables, whose) for whose in others} == before
        assert await tables.erasures.erase_rows(ANN) == {}

    async def test_transactions_are_bounded_and_each_counts_what_it_deletes(
        self, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(erasures, "BATCH", 10)
        await tables.database.write(lambda c: _fill(c, TURNS, ANN, 35))
        await tables.erasures.open(ANN, erasure_id="e1", requested_by="user", now=NOW)
        sizes: list[int] = []

        def watch(connection: Any, cursor: Any, sql: str, *_: Any) -> None:
            if sql.startswith("DELETE FROM turns"):
                sizes.append(cursor.rowcount)

        event.listen(tables.engine, "after_cursor_execute", watch)
        try:
            await tables.erasures.erase_rows(ANN, erasure_id="e1")
        finally:
            event.remove(tables.engine, "after_cursor_execute", watch)
        assert sizes == [10, 10, 10, 5]
        receipt = await tables.erasures.erasure(ANN.tenant, "e1")
        assert receipt is not None
        assert receipt.counts == {"rows.turns": 35}

    async def test_no_byte_of_it_is_left_in_the_files_of_sqlite(self, sqlite_url: str) -> None:
        tables = build_tables(sqlite_url)
        await _fill_all(tables, ANN, 40)
        path = Path(tables.database.url.database or "")

        def bytes_now() -> bytes:
            return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))

        assert CANARY.encode() in bytes_now()
        await tables.erasures.erase_rows(ANN)
        assert CANARY.encode() not in bytes_now()
        assert b"u/ann" not in bytes_now()
        await tables.aclose()

    async def test_nor_in_the_unused_part_of_a_page_that_was_split(self, sqlite_url: str) -> None:
        tables = build_tables(sqlite_url)
        path = Path(tables.database.url.database or "")
        for number in range(40):  # mixed with another's, so that pages of the indexes are split
            for scope in (ANN, ELSEWHERE):
                turn = Turn(turn_id=f"{CANARY} {number * 7919 % 40}", user_text=CANARY * 5, occurred_at=NOW, allow_user_memory=True)
                await tables.log.record_turn(scope, turn, now=NOW)
        for scope in (ANN, ELSEWHERE):
            await tables.erasures.open(scope, erasure_id="e1", requested_by="user", now=NOW)
            await tables.erasures.erase_rows(scope, erasure_id="e1")
            assert (await tables.erasures.done(scope.tenant, "e1", problems=(), now=NOW)).problems == ()
        assert CANARY.encode() not in b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
        await tables.aclose()

    async def test_of_a_file_too_large_to_be_written_anew_the_receipt_says_so(
        self, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(erasures, "MAX_VACUUM_BYTES", 0)
        tables = build_tables(sqlite_url)
        await tables.erasures.open(ANN, erasure_id="e1", requested_by="user", now=NOW)
        done = await tables.erasures.done("acme", "e1", problems=(), now=NOW)
        assert ["VACUUM" in problem for problem in done.problems] == [True]
        await tables.aclose()


class TestReceipts:
    async def test_of_a_log_that_is_read_without_a_pause_the_receipt_says_so(
        self, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(erasures, "LAST_CHECKPOINT_S", 0.0)
        tables = build_tables(sqlite_url, busy_timeout_s=0.05)
        try:
            await tables.erasures.open(ANN, erasure_id="e1", requested_by="caller", now=NOW)
            with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM erasures").fetchall()
                receipt = await tables.erasures.done("acme", "e1", problems=(), now=NOW)
            assert receipt.state is ErasureState.DONE
            assert [problem for problem in receipt.problems if "write-ahead log" in problem]
        finally:
            await tables.aclose()

    async def test_the_course_of_an_erasure(self, tables: Tables) -> None:
        ledger = tables.erasures
        opened = await ledger.open(ANN, erasure_id="e1", requested_by="admin", now=NOW)
        assert (opened.state, opened.requested_by, opened.started_at) == (ErasureState.RUNNING, "admin", NOW)
        assert await ledger.subject("acme", "e1") == ANN
        assert await ledger.open_ones() == [("acme", "e1")]
        assert await ledger.oldest_open() == NOW
        assert await ledger.open(ANN, erasure_id="e2", requested_by="user", now=NOW) == opened
        assert await ledger.erasure("acme", "e2") is None
        assert await ledger.erasure("acme-2", "e1") is None

        for _ in range(2):
            await ledger.add_counts("acme", "e1", {"objects.profile_versions": 7, "vectors.facts": 0}, step="objects")
        await ledger.note("acme", "e1", "objects", None)
        await ledger.add_counts("acme", "e1", {"objects.profile_versions": 1}, step="objects")
        await ledger.note("acme", "e1", "vectors", "away")
        await ledger.note("acme", "e1", "objects", "away too")
        await ledger.note("acme", "e1", "vectors", None)
        seen = await ledger.erasure("acme", "e1")
        assert seen is not None
        assert seen.counts == {"objects.profile_versions": 8}
        assert seen.problems == ("objects: away too",)

        later = NOW + timedelta(minutes=1)
        assert (await ledger.erased("acme", "e1", now=later)).state is ErasureState.ERASED
        assert (await ledger.erased("acme", "e1", now=later + timedelta(hours=1))).erased_at == later
        done = await ledger.done("acme", "e1", problems=(), now=later)
        assert (done.state, done.finished_at, done.problems, done.counts) == (ErasureState.DONE, later, (), seen.counts)
        assert await ledger.done("acme", "e1", problems=["x"], now=later + timedelta(hours=1)) == done
        assert await ledger.subject("acme", "e1") is None
        assert await ledger.open_ones() == []
        assert await ledger.oldest_open() is None
        assert list(await ledger.of_user(ANN)) == [done]
        assert list(await ledger.of_user(SIMILAR)) == []
        with pytest.raises(InvalidInput):
            await ledger.subject("acme", "nobody's")

        again = await ledger.open(ANN, erasure_id="e3", requested_by="user", now=later + timedelta(hours=2))
        assert [one.erasure_id for one in await ledger.of_user(ANN)] == ["e3", "e1"]
        assert again.counts == {}

    async def test_what_is_left_at_the_end_does_not_name_the_user(self, tables: Tables) -> None:
        scope = Scope.of("acme", "wanda.walrus@example.org")
        await tables.erasures.open(scope, erasure_id="e1", requested_by=f"user {scope.user_id}", now=NOW)
        await tables.erasures.erase_rows(scope, erasure_id="e1")
        await tables.erasures.done("acme", "e1", problems=(), now=NOW)

        def all_of(connection: Connection) -> str:
            return str([connection.execute(select(table)).all() for table in (ERASURES, ERASED_USERS)])

        kept = await tables.database.read(all_of)
        assert "walrus" not in kept
        assert user_hash(scope) in kept

    async def test_of_two_at_once_one_is_opened(self, tables: Tables) -> None:
        opened = await asyncio.gather(
            *(tables.erasures.open(ANN, erasure_id=f"e{n}", requested_by="user", now=NOW) for n in range(8))
        )
        assert len({one.erasure_id for one in opened}) == 1
        assert len(await tables.erasures.of_user(ANN)) == 1


def _why(facts: MemoryFacts, accepted_at: datetime | None = None) -> tuple[ReasonCode, ...]:
    return effective_enablement(
        feature_flag=True,
        allow_with_web_search=False,
        tenant="acme",
        facts=facts,
        allow_user_memory=True,
        web_search=None,
        accepted_at=accepted_at,
    ).codes


class TestMark:
    async def test_nothing_of_the_user_is_recorded_until_it_is_done(self, tables: Tables) -> None:
        turn = Turn(turn_id="t1", user_text="Hello", assistant_text="Hi", occurred_at=NOW, allow_user_memory=True)
        await tables.erasures.open(ANN, erasure_id="e1", requested_by="user", now=NOW)
        facts = await tables.directory.facts(ANN, "default")
        assert (facts.forgetting, facts.forgotten_before) == (True, NOW)
        assert _why(facts) == (ReasonCode.BEING_FORGOTTEN,)
        assert _why(await tables.directory.facts(SIMILAR, "default")) == ()
        assert _why(await tables.directory.facts(ELSEWHERE, "default")) == ()

        done = await tables.log.record_turn(ANN, turn, now=NOW, allowed=lambda facts: not _why(facts))
        assert done.refused_by == facts
        message = MessageEvent(timestamp=NOW, sender_id="ann", receiver_ids=("assistant",), medium="chat", content="Hello")
        recorded = await tables.log.record_events(ANN, [message], now=NOW, allowed=lambda facts: not _why(facts))
        assert recorded.refused_by == facts
        assert not any((await _counts(tables, ANN)).values())

        later = NOW + timedelta(minutes=5)
        await tables.erasures.done("acme", "e1", problems=(), now=later)
        facts = await tables.directory.facts(ANN, "default")
        assert (facts.forgetting, facts.forgotten_before) == (False, later)
        assert _why(facts) == ()
        assert _why(facts, later - timedelta(minutes=1)) == (ReasonCode.BEING_FORGOTTEN,)
        assert _why(facts, later + timedelta(seconds=1)) == ()
        assert (await tables.log.record_turn(ANN, turn, now=later, allowed=lambda facts: not _why(facts))).refused_by is None

    async def test_no_store_takes_anything_by_hand(self, tables: Tables) -> None:
        await tables.erasures.open(ANN, erasure_id="e1", requested_by="user", now=NOW)
        loop = Loop("l1", Operation.ASK, "What?", "personal", NOW)
        contact, how_to = (
            CreateContact("c", {"first_name": "Bo"}),
            Guidance(guidance_id="g1", owner=ANNS.key, title="How", content="So", created_at=NOW, updated_at=NOW),
        )
        refused: list[Any] = [
            lambda: tables.facts.apply(ANNS, [add()], now=NOW),
            lambda: tables.contacts.apply(ANN, [contact], origin="hand", now=NOW),
            lambda: tables.tasks.apply(ANN, [create_task()], now=NOW),
            lambda: tables.guidance.add(ANNS, [how_to], now=NOW),
            lambda: tables.loops.open(ANN, loop),
            lambda: tables.knowledge.write(ANNS, CreateTable("people"), effect="k", now=NOW),
            lambda: tables.directory.set_preference(ANN, allow_user_memory=True),
            lambda: tables.directory.set_teams(ANN, ["sales"]),
            lambda: tables.windows.open_chunk(ANN, [], chunk_id="chunk-1", categories=(), guidance=None, model=None, now=NOW),
        ]
        for call in refused:
            with pytest.raises(BeingForgotten, match="being deleted"):
                await call()
        assert await tables.contacts.list(ANN) == []
        assert await tables.directory.teams(ANN) == []
        # Others, and the team that has her name, go on.
        await tables.directory.set_preference(SIMILAR, allow_user_memory=False)
        await tables.knowledge.write(TEAM, CreateTable("people"), effect="k", now=NOW)
        # What keeps the index goes on beside it.
        assert await tables.facts.reset_index() == 0

    async def test_a_recording_that_read_before_the_mark_and_writes_after_the_deletion_is_found_by_the_next_pass(
        self, tables: Tables
    ) -> None:
        asked, go_on = threading.Event(), threading.Event()

        def allowed(facts: MemoryFacts) -> bool:
            asked.set()
            assert go_on.wait(5)
            return not _why(facts)

        turn = Turn(turn_id="t1", user_text="Hello", assistant_text="Hi", occurred_at=NOW, allow_user_memory=True)
        recording = asyncio.create_task(tables.log.record_turn(ANN, turn, now=NOW, allowed=allowed))
        assert await asyncio.to_thread(asked.wait, 5)

        async def first_pass() -> None:
            await tables.erasures.open(ANN, erasure_id="e1", requested_by="user", now=NOW)
            await tables.erasures.erase_rows(ANN)

        erasing = asyncio.create_task(first_pass())
        # SQLite lets nobody write meanwhile; PostgreSQL does not see what is not committed.
        await asyncio.wait({erasing}, timeout=0.2 if tables.database.is_sqlite else 10)
        go_on.set()
        await asyncio.gather(recording, erasing)
        await tables.erasures.erase_rows(ANN)
        assert not any((await _counts(tables, ANN)).values())
