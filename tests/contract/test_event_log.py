"""The event log and turn ledger, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select

from memory.model.errors import InvalidInput, InvalidSettings, StoreUnavailable
from memory.model.scope import Scope
from memory.model.turn import MAX_MESSAGE_BYTES, Outcome, Turn
from memory.ports import TurnResult, Waiting
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.rows import EVENTS, TURNS
from memory.stores.tables.statements import PENDING, WAITING

NOW = datetime(2026, 6, 17, 12, 0, 0, 123456, tzinfo=UTC)
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
AWKWARD_IDS = [
    "plain",
    "a/b/../c",
    "nul\x00inside",
    "back\\slash \\u0000",
    "💥" * 40,
    "x" * 4096,
    "\x00" * 4096,
    "é" * 4096,
    "lone \ud83d surrogate",
    "%2e%2e",
    ".hidden",
    "=h" + "0" * 64,
    "'; DROP TABLE turns; --",
]


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


def a_turn(turn_id: str = "t1", **fields: Any) -> Turn:
    # model_copy does not validate: ids with lone surrogates cannot be made otherwise.
    given = {"turn_id": turn_id, "user_text": "I moved to Berlin.", "assistant_text": "Noted.", "occurred_at": NOW} | fields
    return Turn(turn_id="t", occurred_at=NOW).model_copy(update=given)


def a_result(turn_id: str = "t1", outcome: Outcome = Outcome.UPDATED, **fields: Any) -> TurnResult:
    given: dict[str, Any] = {
        "attempt": 0,
        "reason": None,
        "profile_version": 3,
        "run_id": "run-1",
        "workflow_id": ANN.post_answer_workflow_id,
        "flags": ("repaired", "condensed"),
        "usage": {"gate": {"input_tokens": 100, "output_tokens": 1, "cached_input_tokens": 60, "calls": 1}},
        "durations_ms": {"gate": 12, "consolidate": 340},
        "model": "simulated",
    } | fields
    return TurnResult(turn_id, outcome=outcome, **given)


async def events_of(tables: Tables, scope: Scope) -> list[Any]:
    wanted = select(EVENTS).where(EVENTS.c.tenant == scope.tenant, EVENTS.c.user_id == scope.user).order_by(EVENTS.c.seq)
    return await tables.database.read(lambda c: list(c.execute(wanted)))


class TestRecording:
    async def test_a_turn_comes_back_as_it_was(self, tables: Tables) -> None:
        turn = a_turn(
            occurred_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=45))),
            space_id="sales/EU",
            conversation_id="c-9",
            medium="email",
            language_model="openai:gpt-5",
            allow_user_memory=True,
            web_search=False,
        )
        recorded = await tables.log.record_turn(ANN, turn, now=NOW)
        assert (recorded.ordinal, recorded.duplicate, recorded.outcome) == (1, False, None)

        [stored] = await tables.log.pending(ANN, limit=10)
        assert stored.turn == turn
        assert stored.turn.occurred_at.utcoffset() == timedelta(0)
        assert (stored.ordinal, stored.attempt, stored.state, stored.outcome) == (1, 0, "pending", None)
        assert stored.recorded_at == NOW
        assert stored.recorded_at.tzinfo is not None

    async def test_a_turn_is_two_message_events(self, tables: Tables) -> None:
        await tables.log.record_turn(ANN, a_turn(medium="sms"), now=NOW)
        events = await events_of(tables, ANN)
        assert [(e.seq, e.sender_id, e.receiver_ids, e.content) for e in events] == [
            (1, "user", ["assistant"], "I moved to Berlin."),
            (2, "assistant", ["user"], "Noted."),
        ]
        assert {(e.kind, e.medium, e.timestamp, e.turn_key) for e in events} == {("message", "sms", NOW, "t1")}
        assert events[0].event_key != events[1].event_key

    @pytest.mark.parametrize(
        ("user_text", "assistant_text"), list(itertools.product([None, "", " \n\t", "text"], [None, "", "  ", "answer"]))
    )
    async def test_an_empty_side_makes_no_event_and_comes_back(
        self, tables: Tables, user_text: str | None, assistant_text: str | None
    ) -> None:
        turn = a_turn(user_text=user_text, assistant_text=assistant_text)
        await tables.log.record_turn(ANN, turn, now=NOW)
        [stored] = await tables.log.turns(ANN, ["t1"])
        assert stored.turn == turn
        said = [text for text in (user_text, assistant_text) if text and text.strip()]
        assert [e.content for e in await events_of(tables, ANN)] == said

    @pytest.mark.parametrize("awkward", AWKWARD_IDS, ids=lambda text: ascii(text[:12]))
    async def test_any_outside_id_comes_back(self, tables: Tables, awkward: str) -> None:
        scope = Scope.of(awkward, awkward)
        turn = a_turn(awkward, space_id=awkward, conversation_id=awkward)
        assert not (await tables.log.record_turn(scope, turn, now=NOW)).duplicate
        assert (await tables.log.record_turn(scope, turn, now=NOW)).duplicate
        [stored] = await tables.log.turns(scope, [awkward])
        assert stored.turn == turn
        [waiting] = await tables.log.backlog(recorded_before=NOW + timedelta(seconds=1), limit=10)
        assert (waiting.scope, waiting.oldest_turn_id) == (scope, awkward)
        assert await tables.log.finish(scope, [a_result(awkward)], now=NOW) == 1
        [summary] = await tables.log.summaries(scope=scope)
        assert (summary.turn_id, summary.space_id, summary.outcome) == (awkward, awkward, Outcome.UPDATED)

    async def test_ids_that_look_alike_stay_apart(self, tables: Tables) -> None:
        for number, awkward in enumerate(AWKWARD_IDS):
            await tables.log.record_turn(ANN, a_turn(awkward, user_text=f"number {number}"), now=NOW)
        stored = await tables.log.turns(ANN, AWKWARD_IDS)
        assert [s.turn.turn_id for s in stored] == AWKWARD_IDS
        assert [s.turn.user_text for s in stored] == [f"number {number}" for number in range(len(AWKWARD_IDS))]

    async def test_text_that_no_store_takes_is_cleaned(self, tables: Tables) -> None:
        turn = a_turn(user_text="a\x00b \ud83d c 你好 🎉", assistant_text="\x00", medium="chat\x00")
        await tables.log.record_turn(ANN, turn, now=NOW)
        [stored] = await tables.log.pending(ANN, limit=1)
        assert stored.turn.user_text is not None
        assert stored.turn.user_text.startswith("ab ")
        assert stored.turn.user_text.endswith(" c 你好 🎉")
        stored.turn.user_text.encode("utf-8")
        assert stored.turn.assistant_text == ""
        assert stored.turn.medium == "chat"

    @pytest.mark.parametrize("side", ["user", "assistant"])
    async def test_a_message_up_to_the_limit_is_kept_and_more_is_refused(self, tables: Tables, side: str) -> None:
        text = "ü" * (MAX_MESSAGE_BYTES // 2)
        await tables.log.record_turn(ANN, a_turn(**{f"{side}_text": text}), now=NOW)
        [stored] = await tables.log.pending(ANN, limit=1)
        assert getattr(stored.turn, f"{side}_text") == text
        with pytest.raises(
            InvalidInput, match=f"the {side} message has {MAX_MESSAGE_BYTES + 1} bytes .* at most {MAX_MESSAGE_BYTES}"
        ):
            await tables.log.record_turn(ANN, a_turn("t2", **{f"{side}_text": text + "x"}), now=NOW)
        assert len(await tables.log.pending(ANN, limit=5)) == 1
        assert len(await events_of(tables, ANN)) == 2

    async def test_a_time_without_a_zone_or_outside_the_calendar_is_refused(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="time zone"):
            await tables.log.record_turn(ANN, a_turn(), now=NOW.replace(tzinfo=None))
        early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
        with pytest.raises(InvalidInput, match="time of the turn"):
            await tables.log.record_turn(ANN, a_turn(occurred_at=early), now=NOW)

    @pytest.mark.parametrize("moment", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
    async def test_the_ends_of_the_calendar_come_back(self, tables: Tables, moment: datetime) -> None:
        await tables.log.record_turn(ANN, a_turn(occurred_at=moment), now=NOW)
        [stored] = await tables.log.pending(ANN, limit=1)
        assert stored.turn.occurred_at == moment


class TestOnce:
    async def test_the_same_id_twice_is_one_turn_and_the_first_text_stays(self, tables: Tables) -> None:
        await tables.log.record_turn(ANN, a_turn(user_text="first"), now=NOW)
        again = await tables.log.record_turn(ANN, a_turn(user_text="second", assistant_text=None), now=NOW)
        assert (again.ordinal, again.duplicate, again.outcome) == (1, True, None)
        [stored] = await tables.log.pending(ANN, limit=5)
        assert stored.turn.user_text == "first"
        assert len(await events_of(tables, ANN)) == 2

    async def test_a_repeat_of_a_finished_turn_says_how_it_ended(self, tables: Tables) -> None:
        await tables.log.record_turn(ANN, a_turn(), now=NOW)
        await tables.log.finish(ANN, [a_result(outcome=Outcome.NOOP)], now=NOW)
        again = await tables.log.record_turn(ANN, a_turn(), now=NOW)
        assert (again.duplicate, again.outcome) == (True, Outcome.NOOP)
        assert await tables.log.pending(ANN, limit=5) == []

    async def test_repeats_leave_no_gap_in_the_numbers(self, tables: Tables) -> None:
        for turn_id in ("t1", "t1", "t1", "t2", "t1", "t3"):
            await tables.log.record_turn(ANN, a_turn(turn_id), now=NOW)
        assert [s.ordinal for s in await tables.log.pending(ANN, limit=9)] == [1, 2, 3]
        assert [e.seq for e in await events_of(tables, ANN)] == [1, 2, 3, 4, 5, 6]

    async def test_the_same_turn_from_many_tasks_at_once(self, tables: Tables) -> None:
        recorded = await asyncio.gather(*(tables.log.record_turn(ANN, a_turn(user_text=f"{n}"), now=NOW) for n in range(20)))
        assert sorted(r.duplicate for r in recorded) == [False] + [True] * 19
        assert {r.ordinal for r in recorded} == {1}
        assert len(await events_of(tables, ANN)) == 2

    async def test_the_same_id_of_two_users_is_two_turns(self, tables: Tables) -> None:
        other_company = Scope.of("globex", "ann")
        for scope in (ANN, BOB, other_company):
            assert not (await tables.log.record_turn(scope, a_turn(user_text=scope.user + scope.tenant), now=NOW)).duplicate
        for scope in (ANN, BOB, other_company):
            [stored] = await tables.log.turns(scope, ["t1"])
            assert stored.turn.user_text == scope.user + scope.tenant


class TestNumbers:
    async def test_fifty_writers_of_one_user(self, tables: Tables) -> None:
        sizes = [(f"t{n}", "hi" if n % 3 else None, "yes" if n % 2 else None) for n in range(50)]
        recorded = await asyncio.gather(
            *(tables.log.record_turn(ANN, a_turn(t, user_text=u, assistant_text=a), now=NOW) for t, u, a in sizes)
        )
        assert sorted(r.ordinal for r in recorded) == list(range(1, 51))
        events = await events_of(tables, ANN)
        assert [e.seq for e in events] == list(range(1, sum(bool(u) + bool(a) for _, u, a in sizes) + 1))
        # The events lie in the order of their turns, each turn's user before its assistant.
        stored = await tables.log.pending(ANN, limit=50)
        expected = [s for t in stored for s in (t.turn.turn_id,) * (bool(t.turn.user_text) + bool(t.turn.assistant_text))]
        assert [e.turn_key for e in events] == expected

    async def test_fifty_users_at_once_are_not_mixed(self, tables: Tables) -> None:
        scopes = [Scope.of(f"company {n % 5}", f"user {n}") for n in range(50)]
        await asyncio.gather(
            *(
                tables.log.record_turn(scope, a_turn(f"t{turn}", user_text=f"{scope.tenant} {scope.user} {turn}"), now=NOW)
                for turn in range(4)
                for scope in scopes
            )
        )
        for scope in scopes:
            stored = await tables.log.pending(scope, limit=10)
            assert [s.ordinal for s in stored] == [1, 2, 3, 4]
            assert {s.turn.user_text for s in stored} == {f"{scope.tenant} {scope.user} {turn}" for turn in range(4)}
            assert [e.seq for e in await events_of(tables, scope)] == list(range(1, 9))

    async def test_a_reader_never_sees_a_gap(self, tables: Tables) -> None:
        count = select(func.count(), func.coalesce(func.max(EVENTS.c.seq), 0)).select_from(EVENTS)
        writers = asyncio.gather(*(tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW) for n in range(60)))
        looks = 0
        while not writers.done():
            found, highest = await tables.database.read(lambda c: tuple(c.execute(count).one()))
            assert found == highest
            looks += 1
        await writers
        assert looks > 1

    async def test_several_processes_write_for_one_user(self, tables: Tables, sql_url: str) -> None:
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", WRITER, str(number)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            for number in range(3)
        ]
        results = await asyncio.gather(*(process.communicate(sql_url.encode()) for process in processes))
        assert [(p.returncode, err.decode()) for p, (_, err) in zip(processes, results, strict=True)] == [(0, "")] * 3
        stored = await tables.log.pending(ANN, limit=200)
        assert [s.ordinal for s in stored] == list(range(1, 62))
        assert len({s.turn.turn_id for s in stored}) == 61
        assert [e.seq for e in await events_of(tables, ANN)] == list(range(1, 123))


WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.stores.tables import build_tables

async def main():
    tables = build_tables(sys.stdin.read())
    now = datetime.now(UTC)
    ids = ["shared"] + [f"{sys.argv[1]}-{n}" for n in range(20)]
    turns = [Turn(turn_id=i, user_text="hello", assistant_text="hi", occurred_at=now) for i in ids]
    await asyncio.gather(*(tables.log.record_turn(Scope.of("acme", "ann"), turn, now=now) for turn in turns))
    await tables.aclose()

asyncio.run(main())
"""


class TestReading:
    async def test_pending_gives_the_oldest_first_up_to_the_limit(self, tables: Tables) -> None:
        for n in range(5):
            await tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW + timedelta(seconds=n))
        await tables.log.finish(ANN, [a_result("t1")], now=NOW)
        assert [s.turn.turn_id for s in await tables.log.pending(ANN, limit=3)] == ["t0", "t2", "t3"]
        assert await tables.log.pending(BOB, limit=3) == []

    async def test_turns_leaves_out_unknown_ids(self, tables: Tables) -> None:
        for turn_id in ("t2", "t1"):
            await tables.log.record_turn(ANN, a_turn(turn_id), now=NOW)
        await tables.log.record_turn(BOB, a_turn("t3"), now=NOW)
        assert [s.turn.turn_id for s in await tables.log.turns(ANN, ["t1", "t3", "t2", "none"])] == ["t2", "t1"]
        assert await tables.log.turns(ANN, []) == []

    async def test_a_limit_below_one_or_too_many_ids_are_refused(self, tables: Tables) -> None:
        for call in (
            tables.log.pending(ANN, limit=0),
            tables.log.summaries(limit=0),
            tables.log.reopen(limit=-1),
            tables.log.backlog(recorded_before=NOW, limit=0),
        ):
            with pytest.raises(InvalidInput, match="limit"):
                await call
        with pytest.raises(InvalidInput, match="1001 turn ids"):
            await tables.log.turns(ANN, ["t"] * 1001)


class TestFinishing:
    async def test_an_outcome_is_recorded_once(self, tables: Tables) -> None:
        await tables.log.record_turn(ANN, a_turn(), now=NOW)
        later = NOW + timedelta(seconds=9)
        assert await tables.log.finish(ANN, [a_result(reason="a reason")], now=later) == 1
        assert await tables.log.finish(ANN, [a_result(outcome=Outcome.KEPT, reason="other")], now=NOW) == 0
        assert await tables.log.pending(ANN, limit=5) == []

        [stored] = await tables.log.turns(ANN, ["t1"])
        assert (stored.state, stored.outcome, stored.reason, stored.profile_version) == ("done", Outcome.UPDATED, "a reason", 3)
        assert stored.finished_at == later
        assert stored.turn == a_turn()

        [summary] = await tables.log.summaries()
        assert (summary.scope, summary.turn_id, summary.ordinal, summary.attempt) == (ANN, "t1", 1, 0)
        assert summary.flags == ("repaired", "condensed")
        assert summary.usage == a_result().usage
        assert summary.durations_ms == {"gate": 12, "consolidate": 340}
        assert (summary.run_id, summary.model, summary.profile_version) == ("run-1", "simulated", 3)
        assert (summary.recorded_at, summary.finished_at) == (NOW, later)

    async def test_a_batch_counts_what_it_changed(self, tables: Tables) -> None:
        for n in range(4):
            await tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW)
        await tables.log.record_turn(BOB, a_turn("t9"), now=NOW)
        await tables.log.finish(ANN, [a_result("t0")], now=NOW)
        results = [a_result(turn_id) for turn_id in ("t3", "t0", "t9", "unknown", "t1")]
        assert await tables.log.finish(ANN, results, now=NOW) == 2
        assert [s.turn.turn_id for s in await tables.log.pending(ANN, limit=5)] == ["t2"]
        assert [s.turn.turn_id for s in await tables.log.pending(BOB, limit=5)] == ["t9"]
        assert await tables.log.finish(ANN, [], now=NOW) == 0

    async def test_two_finishers_at_once(self, tables: Tables) -> None:
        for n in range(10):
            await tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW)
        results = [a_result(f"t{n}") for n in range(10)]
        changed = await asyncio.gather(
            *(tables.log.finish(ANN, batch, now=NOW) for batch in (results, results[::-1], results[5:] + results[:5]))
        )
        assert sum(changed) == 10

    async def test_text_that_no_store_takes_does_not_block_an_outcome(self, tables: Tables) -> None:
        await tables.log.record_turn(ANN, a_turn(), now=NOW)
        assert await tables.log.finish(ANN, [a_result(reason="bad \x00 \udc00", model="m\x00")], now=NOW) == 1
        [summary] = await tables.log.summaries()
        assert summary.model == "m"
        assert summary.reason is not None
        assert summary.reason.startswith("bad ")


class TestReopening:
    @pytest.fixture
    async def finished(self, tables: Tables) -> Tables:
        for n, outcome in enumerate([Outcome.UPDATED, Outcome.KEPT, Outcome.NOOP, Outcome.KEPT, Outcome.SKIPPED]):
            for scope in (ANN, BOB):
                await tables.log.record_turn(scope, a_turn(f"t{n}"), now=NOW)
                await tables.log.finish(scope, [a_result(f"t{n}", outcome, reason="model away")], now=NOW)
        return tables

    async def test_only_kept_turns_come_back_with_the_next_attempt(self, finished: Tables) -> None:
        reopened = await finished.log.reopen(scope=ANN)
        assert [(s.scope, s.turn_id, s.attempt, s.state, s.outcome, s.reason) for s in reopened] == [
            (ANN, "t1", 1, "pending", None, None),
            (ANN, "t3", 1, "pending", None, None),
        ]
        assert [(s.turn.turn_id, s.attempt) for s in await finished.log.pending(ANN, limit=9)] == [("t1", 1), ("t3", 1)]
        assert await finished.log.pending(BOB, limit=9) == []
        assert await finished.log.reopen(scope=ANN) == []

    async def test_a_late_result_of_the_earlier_attempt_is_ignored(self, finished: Tables) -> None:
        await finished.log.reopen(scope=ANN, turn_ids=["t1"])
        assert await finished.log.finish(ANN, [a_result("t1", Outcome.KEPT)], now=NOW) == 0
        assert await finished.log.finish(ANN, [a_result("t1", attempt=1)], now=NOW) == 1
        [summary] = [s for s in await finished.log.summaries(scope=ANN) if s.turn_id == "t1"]
        assert (summary.attempt, summary.outcome) == (1, Outcome.UPDATED)

    async def test_filters_and_limit(self, finished: Tables) -> None:
        assert await finished.log.reopen(scope=ANN, turn_ids=["t0", "t2", "unknown"]) == []
        assert await finished.log.reopen(turn_ids=[]) == []
        assert await finished.log.reopen(tenant="globex") == []
        assert [(s.scope.user, s.turn_id) for s in await finished.log.reopen(turn_ids=["t3"])] == [("ann", "t3"), ("bob", "t3")]
        assert [(s.scope.user, s.turn_id) for s in await finished.log.reopen(tenant="acme", limit=1)] == [("ann", "t1")]
        assert [(s.scope.user, s.turn_id) for s in await finished.log.reopen()] == [("bob", "t1")]

    async def test_skipped_turns_come_back_where_they_are_asked_for(self, finished: Tables) -> None:
        reopened = await finished.log.reopen(scope=ANN, outcomes=(Outcome.KEPT, Outcome.SKIPPED))
        assert [(s.turn_id, s.attempt, s.state) for s in reopened] == [(f"t{n}", 1, "pending") for n in (1, 3, 4)]
        assert [s.turn_id for s in await finished.log.reopen(scope=BOB, outcomes=[Outcome.SKIPPED])] == ["t4"]
        assert [s.turn_id for s in await finished.log.reopen(scope=BOB)] == ["t1", "t3"]

    async def test_what_its_user_had_switched_off_stays_skipped(self, tables: Tables) -> None:
        reasons = ["feature_flag_off", None, "user_opted_out", "space_off,user_opted_out,root_clash", "user-opted-out"]
        for n, reason in enumerate(reasons):
            await tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW)
            await tables.log.finish(ANN, [a_result(f"t{n}", Outcome.SKIPPED, reason=reason)], now=NOW)
        assert [s.turn_id for s in await tables.log.reopen(outcomes=[Outcome.SKIPPED])] == ["t0", "t1", "t4"]
        assert await tables.log.reopen(scope=ANN, turn_ids=["t2", "t3"], outcomes=[Outcome.SKIPPED]) == []

    @pytest.mark.parametrize("outcomes", [[], [Outcome.UPDATED], [Outcome.KEPT, Outcome.NOOP]])
    async def test_a_turn_that_was_handled_is_not_run_again(self, finished: Tables, outcomes: list[Outcome]) -> None:
        with pytest.raises(InvalidInput, match="kept or skipped can be run again"):
            await finished.log.reopen(outcomes=outcomes)

    async def test_two_operators_at_once_reopen_a_turn_once(self, finished: Tables) -> None:
        reopened = await asyncio.gather(*(finished.log.reopen() for _ in range(6)))
        assert sum(len(some) for some in reopened) == 4
        assert {s.attempt for s in await finished.log.pending(ANN, limit=9)} == {1}


class TestOperators:
    async def test_backlog_lists_the_users_who_wait_longest(self, tables: Tables) -> None:
        for number, (scope, seconds) in enumerate([(BOB, 5), (ANN, 10), (ANN, 20), (BOB, 30), (Scope.of("zeta", "z"), 1)]):
            await tables.log.record_turn(scope, a_turn(f"t{number}"), now=NOW + timedelta(seconds=seconds))
        await tables.log.finish(BOB, [a_result("t0")], now=NOW)
        found = await tables.log.backlog(recorded_before=NOW + timedelta(seconds=25), limit=10)
        assert [(b.scope.user, b.pending, b.oldest_turn_id, b.oldest_recorded_at) for b in found] == [
            ("z", 1, "t4", NOW + timedelta(seconds=1)),
            ("ann", 2, "t1", NOW + timedelta(seconds=10)),
        ]
        assert len(await tables.log.backlog(recorded_before=NOW + timedelta(seconds=31), limit=2)) == 2
        assert await tables.log.backlog(recorded_before=NOW, limit=10) == []
        assert await tables.log.waiting(limit=10) == Waiting(4, NOW + timedelta(seconds=1))
        assert (await tables.log.waiting(limit=2)).turns == 2

    async def test_nobody_waits(self, tables: Tables) -> None:
        assert await tables.log.waiting(limit=10) == Waiting(0, None)
        with pytest.raises(InvalidInput, match="limit"):
            await tables.log.waiting(limit=0)

    async def test_summaries_are_newest_first_and_filtered(self, tables: Tables) -> None:
        zed = Scope.of("zeta", "z")
        for number, scope in enumerate([ANN, BOB, ANN, zed]):
            await tables.log.record_turn(scope, a_turn(f"t{number}"), now=NOW + timedelta(seconds=number))
        await tables.log.finish(ANN, [a_result("t0", Outcome.KEPT), a_result("t2", Outcome.NOOP)], now=NOW)

        async def ids(**filters: Any) -> list[str]:
            return [s.turn_id for s in await tables.log.summaries(**filters)]

        assert await ids() == ["t3", "t2", "t1", "t0"]
        assert await ids(limit=2) == ["t3", "t2"]
        assert await ids(tenant="acme") == ["t2", "t1", "t0"]
        assert await ids(scope=ANN) == ["t2", "t0"]
        assert await ids(outcome=Outcome.KEPT) == ["t0"]
        assert await ids(outcome=Outcome.NOOP, tenant="acme") == ["t2"]
        assert await ids(state="pending") == ["t3", "t1"]
        assert await ids(state="done", scope=BOB) == []
        assert await ids(run_ids={"run-1", "run-of-nobody"}) == ["t2", "t0"]
        assert await ids(run_ids=["run-1"], scope=ANN, outcome=Outcome.NOOP) == ["t2"]
        assert await ids(run_ids=["run-of-nobody"]) == await ids(run_ids=[]) == []

    async def test_no_text_of_the_user_is_in_a_summary(self, tables: Tables) -> None:
        await tables.log.record_turn(ANN, a_turn(user_text="canary-7f3a"), now=NOW)
        assert "canary-7f3a" not in repr(await tables.log.summaries())
        assert "canary-7f3a" not in repr(await tables.log.pending(ANN, limit=1))

    async def test_the_hot_queries_use_their_indexes(self, tables: Tables) -> None:
        binds = {"b_tenant": "acme", "b_user": "ann", "b_limit": 1}
        explain = "EXPLAIN QUERY PLAN " if tables.database.is_sqlite else "EXPLAIN "

        def work(statement: Any, connection: Any) -> str:
            if not tables.database.is_sqlite:
                connection.exec_driver_sql("SET enable_seqscan = off")
                connection.exec_driver_sql("SET enable_sort = off")
            compiled = statement.compile(dialect=connection.dialect)
            parameters = {**compiled.params, **binds}
            values = parameters if not compiled.positiontup else tuple(parameters[name] for name in compiled.positiontup)
            plan = connection.exec_driver_sql(explain + str(compiled), values).all()
            return "\n".join(str(row) for row in plan)

        for statement in (PENDING, WAITING):
            assert "ix_turns_pending" in await tables.database.write(partial(work, statement))

    async def test_ping(self, tables: Tables) -> None:
        await tables.log.ping()
        await tables.database.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = 'future'"))
        with pytest.raises(InvalidSettings, match="newer afterturn"):
            await tables.log.ping()
        await tables.database.write(lambda c: c.exec_driver_sql("DELETE FROM alembic_version"))
        with pytest.raises(InvalidSettings, match="run `afterturn migrate`"):
            await tables.log.ping()

    async def test_after_close(self, tables: Tables) -> None:
        await tables.log.record_turn(ANN, a_turn(), now=NOW)
        await asyncio.gather(tables.aclose(), tables.log.aclose())
        with pytest.raises(StoreUnavailable, match="closed"):
            await tables.log.pending(ANN, limit=1)

    async def test_an_error_holds_no_text_of_the_user(self, tables: Tables) -> None:
        await tables.database.write(lambda c: TURNS.drop(c))
        with pytest.raises(InvalidSettings, match="run `afterturn migrate`") as caught:
            await tables.log.record_turn(ANN, a_turn(user_text="canary-7f3a"), now=NOW)
        seen: BaseException | None = caught.value
        while seen is not None:
            assert "canary-7f3a" not in repr(seen) + str(seen)
            seen = seen.__cause__ or seen.__context__


async def test_a_database_in_memory() -> None:
    tables = build_tables("sqlite://")
    await tables.log.ping()
    recorded = await asyncio.gather(*(tables.log.record_turn(ANN, a_turn(f"t{n}"), now=NOW) for n in range(10)))
    assert sorted(r.ordinal for r in recorded) == list(range(1, 11))
    assert len(await tables.log.pending(ANN, limit=20)) == 10
    await tables.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "not a url",
        "mysql://u:hunter2@h/d",
        "postgres://u:hunter2@h/d",
        "postgresql+asyncpg://u:hunter2@h/d",
        "sqlite:///x?mode=ro",
    ],
)
def test_a_wrong_url_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_DATABASE_URL") as caught:
        build_tables(url)
    assert "hunter2" not in str(caught.value)
