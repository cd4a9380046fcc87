"""Events of the window as they are recorded, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from memory.model.directory import MemoryFacts
from memory.model.errors import InvalidInput
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.scope import Scope
from memory.model.turn import MAX_MESSAGE_BYTES, Turn
from memory.model.window import StoredEvent
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.event_rows import MAX_PAYLOAD_BYTES

NOW = datetime(2026, 6, 17, 12, 0, 0, 123456, tzinfo=UTC)
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
GLOBEX_ANN = Scope.of("globex", "ann")
AWKWARD_IDS = ["a/b/../c", "nul\x00inside", "back\\slash \\u0000", "💥" * 40, "x" * 4096, "lone \ud83d surrogate", "=h" + "0" * 64]


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


def a_message(event_id: str = "m1", content: str | None = "hello", **fields: Any) -> MessageEvent:
    given = {
        "timestamp": NOW,
        "sender_id": "user",
        "receiver_ids": ("assistant",),
        "event_id": event_id,
        "content": content,
    } | fields
    # model_copy does not validate: ids with lone surrogates cannot be made otherwise.
    return MessageEvent(timestamp=NOW, sender_id="user").model_copy(update=given)


def a_call(event_id: str = "c1", payload: dict[str, Any] | None = None, **fields: Any) -> ManagerMethodEvent:
    given = {"timestamp": NOW, "manager": "TaskManager", "method": "update", "phase": Phase.INCOMING, "calling_id": "call-1"}
    base = ManagerMethodEvent.model_validate(given)
    return base.model_copy(update={"event_id": event_id, "payload": payload or {}} | fields)


def messages(*event_ids: str) -> list[MessageEvent]:
    return [a_message(event_id, f"text of {event_id}") for event_id in event_ids]


async def log_of(tables: Tables, scope: Scope) -> Sequence[StoredEvent]:
    return await tables.windows.events(scope, 1, 5000)


class TestRecording:
    async def test_both_kinds_come_back_as_they_were(self, tables: Tables) -> None:
        said = a_message(
            timestamp=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=45))),
            sender_id="ada@example.com",
            receiver_ids=("user", "+49 170 1"),
            medium="email",
        )
        called = a_call(payload={"text": "ship it", "nested": [1, 2.5, None, {"a": True}]}, phase=Phase.OUTGOING)
        recorded = await tables.log.record_events(ANN, [said, called], space_id="sales/EU", now=NOW)
        assert (recorded.recorded, recorded.duplicates, recorded.dropped, recorded.waiting, recorded.last_seq) == (2, 0, 0, 2, 2)
        stored = await log_of(tables, ANN)
        assert [one.seq for one in stored] == [1, 2]
        assert [one.event for one in stored] == [said, called]
        assert {(one.space_id, one.recorded_at) for one in stored} == {("sales/EU", NOW)}

    async def test_a_turn_feeds_the_window_and_says_how_many_wait(self, tables: Tables) -> None:
        turn = Turn(turn_id="t1", user_text="hi", assistant_text="hello", occurred_at=NOW, space_id="sales")
        assert (await tables.log.record_turn(ANN, turn, now=NOW)).waiting == 2
        assert (await tables.log.record_turn(ANN, turn, now=NOW)).waiting == 2
        assert (await tables.log.record_events(ANN, messages("m1"), now=NOW)).waiting == 3
        stored = await log_of(tables, ANN)
        assert [(one.seq, one.space_id) for one in stored] == [(1, "sales"), (2, "sales"), (3, "default")]
        progress = await tables.windows.progress(ANN)
        assert (progress.last_seq, progress.waiting, progress.last_event_at) == (3, 3, NOW)

    async def test_what_says_nothing_and_calls_of_the_memory_are_dropped_and_counted(self, tables: Tables) -> None:
        events = [
            a_message("m1", None),
            a_message("m2", " \n\t"),
            a_message("m3", "\x00"),
            a_call("c1", manager="MemoryManager"),
            a_call("c2", manager="memory_manager"),
            a_message("m4", "kept"),
            a_call("c3"),
        ]
        recorded = await tables.log.record_events(ANN, events, now=NOW)
        assert (recorded.recorded, recorded.dropped, recorded.last_seq) == (2, 5, 2)
        assert [one.event.event_id for one in await log_of(tables, ANN)] == ["m4", "c3"]
        only_dropped = await tables.log.record_events(ANN, events[:3], now=NOW)
        assert (only_dropped.recorded, only_dropped.dropped, only_dropped.waiting) == (0, 3, 2)
        assert (await tables.log.record_events(BOB, events[:3], now=NOW)).waiting == 0
        assert (await tables.log.record_events(BOB, [], now=NOW)).last_seq == 0

    async def test_events_of_users_and_companies_stay_apart(self, tables: Tables) -> None:
        for scope in (ANN, BOB, GLOBEX_ANN):
            await tables.log.record_events(scope, [a_message("same", f"{scope.tenant} {scope.user}")], now=NOW)
        for scope in (ANN, BOB, GLOBEX_ANN):
            [stored] = await log_of(tables, scope)
            assert isinstance(stored.event, MessageEvent)
            assert stored.event.content == f"{scope.tenant} {scope.user}"

    @pytest.mark.parametrize("awkward", AWKWARD_IDS, ids=lambda text: ascii(text[:12]))
    async def test_any_outside_id_comes_back(self, tables: Tables, awkward: str) -> None:
        scope = Scope.of(awkward, awkward)
        events = [
            a_message(awkward, sender_id=awkward, receiver_ids=(awkward, "user")),
            a_call(f"{awkward}2"[-4096:], calling_id=awkward),
        ]
        await tables.log.record_events(scope, events, space_id=awkward, now=NOW)
        again = await tables.log.record_events(scope, events, space_id=awkward, now=NOW)
        assert (again.recorded, again.duplicates) == (0, 2)
        stored = await log_of(tables, scope)
        assert [one.event for one in stored] == events
        assert {one.space_id for one in stored} == {awkward}


class TestOnce:
    async def test_the_same_events_twice_change_nothing_and_waste_no_number(self, tables: Tables) -> None:
        await tables.log.record_events(ANN, messages("a", "b"), now=NOW)
        again = await tables.log.record_events(ANN, messages("a", "b"), now=NOW + timedelta(hours=1))
        assert (again.recorded, again.duplicates, again.waiting, again.last_seq) == (0, 2, 2, 2)
        mixed = await tables.log.record_events(ANN, messages("b", "c", "a", "d"), now=NOW)
        assert (mixed.recorded, mixed.duplicates, mixed.waiting, mixed.last_seq) == (2, 2, 4, 4)
        assert [(one.seq, one.event.event_id) for one in await log_of(tables, ANN)] == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]

    async def test_only_repeats_do_not_make_a_user_look_active(self, tables: Tables) -> None:
        await tables.log.record_events(ANN, messages("a"), now=NOW)
        await tables.log.record_events(ANN, messages("a"), now=NOW + timedelta(days=3))
        assert (await tables.windows.progress(ANN)).last_event_at == NOW

    async def test_an_id_twice_in_one_call_is_one_event_and_the_first_stays(self, tables: Tables) -> None:
        events = [a_message("a", "first"), a_message("b"), a_message("a", "second")]
        recorded = await tables.log.record_events(ANN, events, now=NOW)
        assert (recorded.recorded, recorded.duplicates) == (2, 1)
        stored = await log_of(tables, ANN)
        assert [one.event.event_id for one in stored] == ["a", "b"]
        assert isinstance(stored[0].event, MessageEvent)
        assert stored[0].event.content == "first"

    async def test_an_event_without_an_id_is_one_event_however_often_it_comes(self, tables: Tables) -> None:
        def made() -> MessageEvent:
            return MessageEvent(timestamp=NOW, sender_id="user", content="I moved to Berlin.")

        for expected in (0, 1, 1):
            assert (await tables.log.record_events(ANN, [made()], now=NOW)).duplicates == expected
        assert len(await log_of(tables, ANN)) == 1

    async def test_a_call_whose_answer_was_lost_is_simply_made_again(self, tables: Tables, sql_url: str) -> None:
        # The first process wrote and was gone before it could say so.
        first = build_tables(sql_url)
        await first.log.record_events(ANN, messages("a", "b", "c"), now=NOW)
        await first.aclose()
        again = await tables.log.record_events(ANN, messages("a", "b", "c"), now=NOW)
        assert (again.duplicates, again.waiting) == (3, 3)

    async def test_the_same_events_from_many_tasks_at_once(self, tables: Tables) -> None:
        batch = messages(*(f"m{n}" for n in range(30)))
        recorded = await asyncio.gather(*(tables.log.record_events(ANN, batch[n:], now=NOW) for n in range(12)))
        assert sum(one.recorded for one in recorded) == 30
        assert sum(one.duplicates for one in recorded) == sum(len(batch[n:]) for n in range(12)) - 30
        stored = await log_of(tables, ANN)
        assert [one.seq for one in stored] == list(range(1, 31))
        assert {one.event.event_id for one in stored} == {event.event_id for event in batch}

    async def test_two_processes_record_overlapping_events(self, tables: Tables, sql_url: str) -> None:
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", WRITER, str(number)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            for number in range(2)
        ]
        results = await asyncio.gather(*(process.communicate(sql_url.encode()) for process in processes))
        assert [(p.returncode, err.decode()) for p, (_, err) in zip(processes, results, strict=True)] == [(0, "")] * 2
        counts = [json.loads(out) for out, _ in results]
        assert sum(count["recorded"] for count in counts) == 150
        stored = await log_of(tables, ANN)
        assert [one.seq for one in stored] == list(range(1, 151))
        assert len({one.event.event_id for one in stored}) == 150


WRITER = """
import asyncio, json, sys
from datetime import UTC, datetime
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.stores.tables import build_tables

async def main():
    tables = build_tables(sys.stdin.read())
    now = datetime.now(UTC)
    ids = [f"shared-{n}" for n in range(50)] + [f"{sys.argv[1]}-{n}" for n in range(50)]
    events = [MessageEvent(timestamp=now, sender_id="user", content="hello", event_id=i) for i in ids]
    done = [await tables.log.record_events(Scope.of("acme", "ann"), events[n:n + 7], now=now) for n in range(0, 100, 7)]
    await tables.aclose()
    print(json.dumps({"recorded": sum(one.recorded for one in done)}))

asyncio.run(main())
"""


class TestNumbers:
    async def test_many_writers_of_one_user_leave_no_gap(self, tables: Tables) -> None:
        sizes = [n % 7 for n in range(40)]
        batches = [messages(*(f"{number}-{n}" for n in range(size))) for number, size in enumerate(sizes)]
        turns = [Turn(turn_id=f"t{n}", user_text="hi", assistant_text="yes", occurred_at=NOW) for n in range(10)]
        await asyncio.gather(
            *(tables.log.record_events(ANN, batch, now=NOW) for batch in batches),
            *(tables.log.record_turn(ANN, turn, now=NOW) for turn in turns),
        )
        stored = await log_of(tables, ANN)
        assert [one.seq for one in stored] == list(range(1, sum(sizes) + 21))
        places = {one.event.event_id: one.seq for one in stored}
        for batch in batches:
            numbers = [places[event.event_id] for event in batch]
            assert numbers == list(range(numbers[0], numbers[0] + len(batch))) if numbers else True
        assert [s.ordinal for s in await tables.log.pending(ANN, limit=50)] == list(range(1, 11))

    async def test_fifty_users_at_once_are_not_mixed(self, tables: Tables) -> None:
        scopes = [Scope.of(f"company {n % 5}", f"user {n}") for n in range(50)]
        await asyncio.gather(
            *(
                tables.log.record_events(scope, [a_message(f"m{n}", f"{scope.tenant} {scope.user} {n}")], now=NOW)
                for n in range(4)
                for scope in scopes
            )
        )
        for scope in scopes:
            stored = await log_of(tables, scope)
            assert [one.seq for one in stored] == [1, 2, 3, 4]
            said = {one.event.content for one in stored if isinstance(one.event, MessageEvent)}
            assert said == {f"{scope.tenant} {scope.user} {n}" for n in range(4)}


class TestBounds:
    async def test_a_thousand_events_and_not_one_more(self, tables: Tables) -> None:
        many = messages(*(f"m{n}" for n in range(1001)))
        with pytest.raises(InvalidInput, match="1001 events in one call; at most 1000"):
            await tables.log.record_events(ANN, many, now=NOW)
        assert (await tables.windows.progress(ANN)).last_seq == 0
        assert (await tables.log.record_events(ANN, many[:1000], now=NOW)).recorded == 1000

    async def test_one_event_that_is_too_large_keeps_all_of_the_call_out(self, tables: Tables) -> None:
        large = a_message("m2", "ü" * (MAX_MESSAGE_BYTES // 2))
        with pytest.raises(InvalidInput, match=rf"the number 2 message has {MAX_MESSAGE_BYTES + 1} bytes"):
            await tables.log.record_events(ANN, [a_message(), a_message("m2", f"{large.content}x")], now=NOW)
        assert await log_of(tables, ANN) == []
        assert (await tables.log.record_events(ANN, [large], now=NOW)).recorded == 1

    async def test_a_payload_is_bounded(self, tables: Tables) -> None:
        fits = {"text": "x" * (MAX_PAYLOAD_BYTES - 12)}
        assert (await tables.log.record_events(ANN, [a_call("c1", fits)], now=NOW)).recorded == 1
        with pytest.raises(InvalidInput, match=rf"event number 1 has {MAX_PAYLOAD_BYTES + 1} bytes of JSON"):
            await tables.log.record_events(ANN, [a_call("c2", {"text": fits["text"] + "x"})], now=NOW)

    async def test_a_payload_that_json_cannot_hold(self, tables: Tables) -> None:
        deep: dict[str, Any] = {}
        for _ in range(200):
            deep = {"in": deep}
        for payload in (deep, {"a": {1, 2}}, {"a": b"canary-7f3a"}, {"n": 10**5000}):
            with pytest.raises(InvalidInput, match="event number 1 is not JSON") as caught:
                await tables.log.record_events(ANN, [a_call(payload=payload)], now=NOW)
            assert "canary-7f3a" not in str(caught.value)

    async def test_text_that_no_store_takes_is_cleaned_everywhere(self, tables: Tables) -> None:
        payload = {
            "a\x00": "nul\x00 and \ud83d lone",
            "list": ["\x00", {"deep\ud83d": "\x00x"}],
            "nan": float("nan"),
            "inf": float("-inf"),
            "when": NOW,
            "你好": "🎉",
        }
        events = [a_message("m1", "a\x00b \ud83d c 🎉", medium="chat\x00"), a_call("c1", payload, manager="Task\x00s")]
        await tables.log.record_events(ANN, events, now=NOW)
        said, called = (one.event for one in await log_of(tables, ANN))
        assert isinstance(said, MessageEvent)
        assert isinstance(called, ManagerMethodEvent)
        assert (said.content, said.medium, called.manager) == ("ab \ufffd c 🎉", "chat", "Tasks")
        assert called.payload == {
            "a": "nul and \ufffd lone",
            "list": ["", {"deep\ufffd": "x"}],
            "nan": None,
            "inf": None,
            "when": NOW.isoformat(),
            "你好": "🎉",
        }

    async def test_a_time_without_a_zone_is_refused(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="time of the event must have a time zone"):
            await tables.log.record_events(ANN, [a_message(timestamp=NOW.replace(tzinfo=None))], now=NOW)
        with pytest.raises(InvalidInput, match="space id"):
            await tables.log.record_events(ANN, [a_message()], space_id="", now=NOW)

    async def test_an_error_holds_no_text_of_the_user(self, tables: Tables) -> None:
        for events in ([a_message("m", "canary-7f3a" * 200_000)], [a_call("c", {"t": "canary-7f3a" * 200_000})]):
            with pytest.raises(InvalidInput) as caught:
                await tables.log.record_events(ANN, events, now=NOW)
            assert "canary-7f3a" not in repr(caught.value) + str(caught.value.__cause__) + str(caught.value.__context__)


class TestConsent:
    async def test_consent_is_asked_within_the_transaction(self, tables: Tables) -> None:
        await tables.directory.set_preference(ANN, allow_user_memory=False)
        asked: list[MemoryFacts] = []

        def allowed(facts: MemoryFacts) -> bool:
            asked.append(facts)
            return facts.user_allows

        refused = await tables.log.record_events(ANN, messages("a", "b"), now=NOW, allowed=allowed)
        assert refused.refused_by == asked[0]
        assert (refused.recorded, (await tables.windows.progress(ANN)).last_seq) == (0, 0)
        await tables.directory.set_preference(ANN, allow_user_memory=True)
        taken = await tables.log.record_events(ANN, messages("a", "b"), now=NOW, allowed=allowed)
        assert (taken.recorded, taken.refused_by) == (2, None)

    async def test_a_repeat_after_an_opt_out_is_refused_too(self, tables: Tables) -> None:
        await tables.log.record_events(ANN, messages("a"), now=NOW)
        again = await tables.log.record_events(ANN, messages("a", "b"), now=NOW, allowed=lambda _: False)
        assert again.refused_by is not None
        assert len(await log_of(tables, ANN)) == 1
