"""What the sweeper and the index ask of the window ledger over all users; on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from memory.model.errors import InvalidInput
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.model.window import Extraction, Window, WindowState
from memory.ports import DueUser, TurnResult, WindowResult
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.rows import USER_COUNTERS
from memory.stores.tables.window_sweep import DUE_BY_FLUSH, DUE_BY_SIZE, DUE_BY_WINDOW, FAILED

NOW = datetime(2026, 6, 17, 12, 0, 0, 123456, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
CLEO = Scope.of("globex", "cleo")
SIZE = 5
DONE = WindowResult(WindowState.DONE)


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


def a_message(event_id: str, content: str | None = None) -> MessageEvent:
    return MessageEvent(timestamp=NOW, sender_id="user", content=content or f"text of {event_id}", event_id=event_id)


async def record(tables: Tables, scope: Scope, count: int, *, now: datetime = NOW) -> None:
    last = (await tables.windows.progress(scope)).last_seq
    await tables.log.record_events(scope, [a_message(f"m{last + n + 1}") for n in range(count)], now=now)


async def plan(tables: Tables, scope: Scope, first: int, last: int, *, planned_at: datetime = NOW) -> Window:
    window = Window(
        scope=scope, window_id=f"w{first}", first_seq=first, last_seq=last, events=last - first + 1, planned_at=planned_at
    )
    return await tables.windows.plan(window)


async def consume(tables: Tables, scope: Scope, first: int, last: int, result: WindowResult = DONE) -> None:
    window = await plan(tables, scope, first, last)
    assert await tables.windows.commit(scope, window.window_id, window.attempt, result, now=NOW)


async def due(tables: Tables, *, limit: int = 100) -> list[tuple[Scope, int, str]]:
    return [(user.scope, user.waiting, user.reason) for user in await tables.windows.due(size=SIZE, limit=limit)]


class TestDue:
    async def test_full_windows_the_longest_waiting_first(self, tables: Tables) -> None:
        await record(tables, CLEO, SIZE - 1, now=NOW - 9 * HOUR)
        await record(tables, ANN, SIZE, now=NOW - HOUR)
        await record(tables, BOB, SIZE + 2, now=NOW - 3 * HOUR)
        await record(tables, BOB, 1)
        assert await due(tables) == [(BOB, 8, "size"), (ANN, 5, "size")]
        assert await due(tables, limit=1) == [(BOB, 8, "size")]
        await consume(tables, BOB, 1, 5)
        assert await due(tables) == [(ANN, 5, "size")]

    async def test_a_flush_is_due_until_it_is_consumed(self, tables: Tables) -> None:
        await record(tables, ANN, 2)
        assert await due(tables) == []
        await tables.windows.flush(ANN, now=NOW)
        assert await due(tables) == [(ANN, 2, "flush")]
        await consume(tables, ANN, 1, 2)
        assert await due(tables) == []

    async def test_windows_left_by_a_crash_reopened_ones_and_chunks(self, tables: Tables) -> None:
        await record(tables, ANN, SIZE)
        await plan(tables, ANN, 1, 5, planned_at=NOW - HOUR)
        await record(tables, BOB, SIZE)
        await consume(tables, BOB, 1, 5, WindowResult(WindowState.FAILED))
        assert await due(tables) == [(ANN, 5, "planned")]
        await tables.windows.reopen(scope=BOB)
        await tables.windows.open_chunk(
            CLEO, [a_message("c")], chunk_id="chunk-1", categories=[], guidance=None, model=None, now=NOW + HOUR
        )
        assert await due(tables) == [(ANN, 5, "planned"), (BOB, 0, "reopened"), (CLEO, 0, "planned")]

    async def test_who_is_due_for_several_reasons_is_named_once(self, tables: Tables) -> None:
        await record(tables, ANN, 3 * SIZE)
        await tables.windows.flush(ANN, now=NOW)
        assert await due(tables) == [(ANN, 15, "flush")]
        await plan(tables, ANN, 1, 5)
        assert await due(tables) == [(ANN, 15, "planned")]

    async def test_nothing_is_due_and_bad_limits(self, tables: Tables) -> None:
        assert await due(tables) == []
        with pytest.raises(InvalidInput, match="limit"):
            await tables.windows.due(size=SIZE, limit=0)

    async def test_windows_that_are_not_well_are_counted_until_they_are(self, tables: Tables) -> None:
        assert await tables.windows.failed(limit=10) == 0
        for scope, state in ((ANN, WindowState.FAILED), (BOB, WindowState.PARTIAL), (CLEO, WindowState.DONE)):
            await record(tables, scope, SIZE)
            await consume(tables, scope, 1, SIZE, WindowResult(state))
        assert await tables.windows.failed(limit=10) == 2
        assert await tables.windows.failed(limit=1) == 1
        await tables.windows.reopen(scope=ANN, limit=10)
        assert await tables.windows.failed(limit=10) == 1
        with pytest.raises(InvalidInput, match="limit"):
            await tables.windows.failed(limit=0)

    async def test_the_questions_of_every_sweep_use_their_indexes(self, tables: Tables) -> None:
        quiet = [
            {"tenant": "acme", "user_id": f"quiet{n}", "last_seq": 100, "last_ordinal": 0, "consolidated_seq": 100}
            for n in range(2000)
        ]
        await tables.database.write(lambda c: c.execute(insert(USER_COUNTERS), quiet))
        explain = "EXPLAIN QUERY PLAN " if tables.database.is_sqlite else "EXPLAIN "

        def plan_of(connection: Any, statement: Any) -> str:
            if not tables.database.is_sqlite:
                connection.exec_driver_sql("ANALYZE user_counters")
                connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            compiled = statement.compile(dialect=connection.dialect)
            parameters = {**compiled.params, "b_limit": 5, "b_size": 5}
            values = tuple(parameters[name] for name in compiled.positiontup) if compiled.positiontup else parameters
            return "\n".join(str(row) for row in connection.exec_driver_sql(explain + str(compiled), values))

        for statement, index in (
            (DUE_BY_SIZE, "ix_user_counters_waiting"),
            (DUE_BY_FLUSH, "ix_user_counters_flushed"),
            (DUE_BY_WINDOW, "ix_windows_planned"),
            (FAILED, "ix_windows_unhappy"),
        ):
            assert index in await tables.database.write(lambda c, statement=statement: plan_of(c, statement))


class TestIdle:
    async def test_a_short_window_of_an_idle_user_is_asked_for(self, tables: Tables) -> None:
        await record(tables, ANN, 2, now=NOW - 3 * DAY)
        await record(tables, BOB, 2, now=NOW - 2 * DAY)
        await record(tables, CLEO, 2, now=NOW)
        found = await tables.windows.flush_idle(idle_since=NOW - DAY, limit=10)
        assert found == [DueUser(ANN, 2, "idle"), DueUser(BOB, 2, "idle")]
        assert await tables.windows.flush_idle(idle_since=NOW - DAY, limit=10) == []
        assert await due(tables) == [(ANN, 2, "idle"), (BOB, 2, "idle")]
        following = await tables.windows.next(ANN, size=SIZE, now=NOW)
        assert following is not None
        assert (following.first_seq, following.last_seq, following.trigger) == (1, 2, "idle")

    async def test_what_comes_later_starts_the_time_anew(self, tables: Tables) -> None:
        await record(tables, ANN, 1, now=NOW - 3 * DAY)
        await record(tables, ANN, 1, now=NOW)
        assert await tables.windows.flush_idle(idle_since=NOW - DAY, limit=10) == []

    async def test_a_user_with_nothing_waiting_is_left_alone(self, tables: Tables) -> None:
        await record(tables, ANN, SIZE, now=NOW - 3 * DAY)
        await consume(tables, ANN, 1, 5)
        assert await tables.windows.flush_idle(idle_since=NOW, limit=10) == []

    async def test_who_asked_in_words_keeps_that_as_the_reason(self, tables: Tables) -> None:
        await record(tables, ANN, 1, now=NOW - 3 * DAY)
        await tables.windows.flush(ANN, now=NOW)
        await record(tables, ANN, 1, now=NOW - 2 * DAY)
        await tables.windows.flush_idle(idle_since=NOW - DAY, limit=10)
        assert await due(tables) == [(ANN, 2, "flush")]

    async def test_sweepers_at_once_and_a_limit(self, tables: Tables) -> None:
        scopes = [Scope.of("acme", f"user{n}") for n in range(20)]
        for scope in scopes:
            await record(tables, scope, 1, now=NOW - 3 * DAY)
        assert len(await tables.windows.flush_idle(idle_since=NOW, limit=5)) == 5
        found = await asyncio.gather(*(tables.windows.flush_idle(idle_since=NOW, limit=50) for _ in range(4)))
        assert sorted(user.scope.user for some in found for user in some) == sorted({user.scope.user for s in found for user in s})
        await tables.windows.flush_idle(idle_since=NOW, limit=50)
        assert len(await due(tables)) == 20

    async def test_the_limit_holds_whatever_way_postgresql_takes(self, postgres_url: str) -> None:
        """With nothing hashed, merged or kept a subquery runs once per row, and locks more of them each time."""
        ways = ("hashjoin", "mergejoin", "hashagg", "material", "sort")
        tables = build_tables(f"{postgres_url}?options={'%20'.join(f'-c%20enable_{way}%3Doff' for way in ways)}")
        try:
            for n in range(20):
                await record(tables, Scope.of("acme", f"user{n}"), 1, now=NOW - 3 * DAY)
            assert len(await tables.windows.flush_idle(idle_since=NOW, limit=5)) == 5
            assert len(await due(tables)) == 5
        finally:
            await tables.aclose()


class TestIndex:
    async def test_numbers_and_term_statistics_move_together(self, tables: Tables) -> None:
        call = ManagerMethodEvent(timestamp=NOW, manager="Tasks", method="list", phase=Phase.INCOMING, calling_id="c")
        await tables.log.record_events(ANN, [a_message("a"), call, a_message("b"), a_message("c")], now=NOW)
        assert await tables.windows.advance_index(ANN, from_seq=0, to_seq=3, document_frequencies={1: 2, 2: 1}, length=6)
        assert not await tables.windows.advance_index(ANN, from_seq=0, to_seq=3, document_frequencies={1: 2}, length=6)
        assert await tables.windows.advance_index(ANN, from_seq=3, to_seq=4, document_frequencies={1: 1}, length=3)
        found = await tables.terms.statistics("acme", [Owner.user(ANN).key], "events", [1, 2])
        assert (found.documents, found.length, found.frequencies) == (3, 9, {1: 3, 2: 1})
        progress = await tables.windows.progress(ANN)
        assert (progress.indexed_seq, progress.embedded_seq) == (4, 0)

    async def test_two_processes_index_the_same_and_one_counts(self, tables: Tables) -> None:
        await record(tables, ANN, 4)
        did = await asyncio.gather(
            *(tables.windows.advance_index(ANN, from_seq=0, to_seq=4, document_frequencies={7: 4}, length=8) for _ in range(6))
        )
        assert sorted(did) == [False] * 5 + [True]
        assert (await tables.terms.statistics("acme", [Owner.user(ANN).key], "events", [7])).frequencies == {7: 4}

    async def test_embedding_goes_on_from_where_it_is(self, tables: Tables) -> None:
        await record(tables, ANN, 4)
        assert await tables.windows.advance_embedded(ANN, from_seq=0, to_seq=4)
        assert not await tables.windows.advance_embedded(ANN, from_seq=0, to_seq=4)
        assert not await tables.windows.advance_embedded(ANN, from_seq=4, to_seq=9)
        assert not await tables.windows.advance_embedded(BOB, from_seq=0, to_seq=1)
        with pytest.raises(InvalidInput, match="not back"):
            await tables.windows.advance_embedded(ANN, from_seq=4, to_seq=3)

    async def test_who_is_behind(self, tables: Tables) -> None:
        for scope, hours in ((ANN, 2), (BOB, 3), (CLEO, 1)):
            await record(tables, scope, SIZE, now=NOW - hours * HOUR)
        await consume(tables, ANN, 1, 5)
        await consume(tables, BOB, 1, 5)
        assert await tables.windows.unindexed(embedded=False, limit=10) == [BOB, ANN]
        await tables.windows.advance_index(BOB, from_seq=0, to_seq=5, document_frequencies={}, length=0)
        assert await tables.windows.unindexed(embedded=False, limit=10) == [ANN]
        assert await tables.windows.unindexed(embedded=True, limit=1) == [BOB]

    async def test_a_reset_begins_anew_for_one_or_for_all(self, tables: Tables) -> None:
        for scope in (ANN, BOB, CLEO):
            await record(tables, scope, 2)
            await tables.windows.advance_index(scope, from_seq=0, to_seq=2, document_frequencies={1: 2}, length=4)
            await tables.windows.advance_embedded(scope, from_seq=0, to_seq=2)

        async def documents() -> list[int]:
            owners = [(scope.tenant, Owner.user(scope).key) for scope in (ANN, BOB, CLEO)]
            return [(await tables.terms.statistics(tenant, [key], "events", [1])).documents for tenant, key in owners]

        assert await tables.windows.reset_index(ANN) == 1
        assert await documents() == [0, 2, 2]
        assert await tables.windows.reset_index() == 2
        assert await documents() == [0, 0, 0]
        progress = await tables.windows.progress(BOB)
        assert (progress.indexed_seq, progress.embedded_seq) == (0, 0)


class TestExpiry:
    async def texts(self, tables: Tables, scope: Scope) -> list[str | None]:
        stored = await tables.windows.events(scope, 1, 100)
        return [one.event.content for one in stored if isinstance(one.event, MessageEvent)]

    async def expire(self, tables: Tables, *, limit: int = 100, tenant: str = "acme") -> list[tuple[Scope, list[int]]]:
        before = NOW - 30 * DAY
        await tables.windows.expire_chunks(tenant, before=before, limit=limit)
        found = await tables.windows.expirable_events(tenant, before=before, limit=limit)
        gone = [due for due in found if await tables.windows.expire_events(due, document_frequencies={}, length=0)]
        return [(due.scope, list(due.seqs)) for due in gone]

    async def test_old_consolidated_text_goes_and_the_rest_stays(self, tables: Tables) -> None:
        await record(tables, ANN, 3, now=NOW - 40 * DAY)
        await record(tables, ANN, 3, now=NOW - 31 * DAY)
        await record(tables, ANN, 3, now=NOW)
        await consume(tables, ANN, 1, 5)
        assert await self.expire(tables) == [(ANN, [1, 2, 3, 4, 5])]
        assert await self.texts(tables, ANN) == [None] * 5 + [f"text of m{n}" for n in range(6, 10)]
        assert await self.expire(tables) == []
        await consume(tables, ANN, 6, 9)
        assert await self.expire(tables) == [(ANN, [6])]
        assert await self.expire(tables) == []

    async def test_what_is_gone_is_still_known_to_have_been_recorded(self, tables: Tables) -> None:
        events = [a_message("a"), a_message("b")]
        await tables.log.record_events(ANN, events, now=NOW - 40 * DAY)
        await consume(tables, ANN, 1, 2)
        await self.expire(tables)
        again = await tables.log.record_events(ANN, events, now=NOW)
        assert (again.recorded, again.duplicates, again.waiting) == (0, 2, 0)

    async def test_requests_of_managers_go_too(self, tables: Tables) -> None:
        call = ManagerMethodEvent(
            timestamp=NOW, manager="Tasks", method="update", phase=Phase.INCOMING, calling_id="c", payload={"t": "secret"}
        )
        await tables.log.record_events(ANN, [call], now=NOW - 40 * DAY)
        await consume(tables, ANN, 1, 1)
        assert await self.expire(tables) == [(ANN, [1])]
        [stored] = await tables.windows.events(ANN, 1, 1)
        assert isinstance(stored.event, ManagerMethodEvent)
        assert (stored.event.payload, stored.event.method) == ({}, "update")

    async def test_other_companies_keep_theirs_and_the_limit_holds(self, tables: Tables) -> None:
        for scope in (ANN, BOB, CLEO):
            await record(tables, scope, 4, now=NOW - 40 * DAY)
            await consume(tables, scope, 1, 4)
        assert await self.expire(tables, limit=6) == [(ANN, [1, 2, 3, 4]), (BOB, [1, 2])]
        assert await self.expire(tables, limit=6) == [(BOB, [3, 4])]
        assert await self.texts(tables, CLEO) == [f"text of m{n}" for n in range(1, 5)]

    async def test_a_turn_that_is_still_to_be_worked_on_keeps_its_text(self, tables: Tables) -> None:
        turn = Turn(turn_id="t1", user_text="hi", assistant_text="yes", occurred_at=NOW)
        await record(tables, ANN, 1, now=NOW - 40 * DAY)
        await tables.log.record_turn(ANN, turn, now=NOW - 40 * DAY)
        await record(tables, ANN, 1, now=NOW - 40 * DAY)
        await consume(tables, ANN, 1, 4)
        assert await self.expire(tables) == [(ANN, [1])]
        assert await self.expire(tables) == []
        [pending] = await tables.log.pending(ANN, limit=5)
        assert pending.turn.user_text == "hi"
        result = TurnResult("t1", 0, Outcome.NOOP, None, None, "r", "w", (), {}, {}, None)
        await tables.log.finish(ANN, [result], now=NOW)
        assert await self.expire(tables) == [(ANN, [2, 3, 4])]

    async def test_what_was_extracted_from_it_goes_too(self, tables: Tables) -> None:
        await record(tables, ANN, 5, now=NOW - 40 * DAY)
        await record(tables, ANN, 5, now=NOW)
        for first in (1, 6):
            await consume(tables, ANN, first, first + 4)
            extraction = Extraction(window_id=f"w{first}", attempt=0, prompt_version="v1", model="m")
            await tables.windows.save_extraction(ANN, extraction)
        await self.expire(tables)
        assert await tables.windows.extraction(ANN, "w1") is None
        assert await tables.windows.extraction(ANN, "w6") is not None
        assert await tables.windows.window(ANN, "w1") is not None

    async def test_old_chunks_lose_their_transcript_once_they_ended(self, tables: Tables) -> None:
        old = NOW - 40 * DAY
        for chunk_id, at in (("chunk-old", old), ("chunk-open", old), ("chunk-new", NOW)):
            await tables.windows.open_chunk(
                ANN, [a_message("c")], chunk_id=chunk_id, categories=[], guidance="dates", model=None, now=at
            )
        await tables.windows.commit(ANN, "chunk-old", 0, DONE, now=NOW)
        await tables.windows.commit(ANN, "chunk-new", 0, DONE, now=NOW)
        assert await self.expire(tables) == []
        left: dict[str, tuple[int, str | None]] = {}
        for window in await tables.windows.windows(scope=ANN):
            left[window.window_id] = (len(await tables.windows.window_events(window)), window.guidance)
        assert left == {"chunk-old": (0, None), "chunk-open": (1, "dates"), "chunk-new": (1, "dates")}

    async def test_two_sweepers_at_once_and_a_writer(self, tables: Tables) -> None:
        scopes = [Scope.of("acme", f"user{n}") for n in range(8)]
        for scope in scopes:
            await record(tables, scope, 4, now=NOW - 40 * DAY)
            await consume(tables, scope, 1, 4)
        found = await asyncio.gather(self.expire(tables), self.expire(tables), *(record(tables, scope, 1) for scope in scopes))
        gone = [(scope.user, seq) for some in found[:2] for scope, seqs in some or () for seq in seqs]
        assert sorted(gone) == sorted((scope.user, seq) for scope in scopes for seq in (1, 2, 3, 4))

    async def test_a_clock_of_another_machine_does_not_hide_text(self, tables: Tables) -> None:
        # Recorded later in the log, with an earlier time: it goes when its turn comes.
        await record(tables, ANN, 1, now=NOW)
        await record(tables, ANN, 1, now=NOW - 40 * DAY)
        await consume(tables, ANN, 1, 2)
        assert await self.expire(tables) == []
        [due] = await tables.windows.expirable_events("acme", before=NOW + DAY, limit=10)
        assert (due.scope, due.seqs) == (ANN, (1, 2))
