"""The store of loops: entries without gaps under concurrent writers, keys once, an end once, everything bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.knowledge_loop import Entry, EntryKind, Limits, Loop, LoopState, Operation
from memory.ports import Position, Usage
from memory.ports.knowledge import LoopStore
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.loops import MAX_BODY_BYTES, MAX_ENTRIES
from tests.support.records import ANN, ANNS, BOB, NOW, OTHER_ANN, losing


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


@pytest.fixture
def loops(tables: Tables) -> LoopStore:
    return tables.loops


def a_loop(loop_id: str = "l1", **fields: Any) -> Loop:
    given: dict[str, Any] = {"operation": Operation.UPDATE, "text": "Note that Ann moved.", "destination": "personal"}
    given |= {"loop_id": loop_id, "created_at": NOW, **fields}
    return Loop(**given)


def entry(key: str, text: str = "hello", kind: EntryKind = EntryKind.INTERJECTION) -> Entry:
    return Entry(key, kind, 1, {"text": text})


USAGE = Usage(100, 20)


async def finish(loops: LoopStore, **fields: Any) -> Loop:
    given: dict[str, Any] = {"state": LoopState.DONE, "answer": "Done.", "steps": 3, "usage": USAGE, "now": NOW}
    return await loops.finish(ANN, "l1", **(given | fields))


NAN, INF = float("nan"), float("inf")
BAD_LIMITS: list[dict[str, Any]] = [
    *({name: value} for name in ("wall_s", "clarification_wait_s") for value in (NAN, INF, -INF, 0, -1.0, True, "9", None)),
    *({name: value} for name in ("steps", "tokens") for value in (NAN, INF, 2.5, 3.0, 0, -1, True, "9", None, 10**400)),
]


class TestOpening:
    async def test_limits_that_no_workflow_could_carry_are_refused(self, loops: LoopStore) -> None:
        for given in BAD_LIMITS:
            with pytest.raises(InvalidInput, match=f"the limit {next(iter(given))} is a"):
                await loops.open(ANN, a_loop(limits=Limits(**given)))
        assert await loops.loop(ANN, "l1") is None

    async def test_a_loop_comes_back_as_it_was_opened(self, loops: LoopStore) -> None:
        given = a_loop(
            instructions="Be brief.",
            context=({"role": "user", "content": "Wo? 東京"},),
            response_format={"type": "object"},
            clarify=True,
            limits=Limits(steps=7, wall_s=1.5),
            model="simulated:x",
            parent="l0",
        )
        assert await loops.open(ANN, given) == given
        assert await loops.loop(ANN, "l1") == given

    async def test_the_same_id_again_gives_what_is_there(self, loops: LoopStore) -> None:
        first = await loops.open(ANN, a_loop())
        assert await loops.open(ANN, a_loop(text="Something else.")) == first
        both = await asyncio.gather(*(loops.open(ANN, a_loop("l2", text=f"Text {n}")) for n in range(4)))
        assert len({loop.text for loop in both}) == 1

    async def test_text_that_no_database_takes_is_cleaned(self, loops: LoopStore) -> None:
        await loops.open(ANN, a_loop(text="a\x00b\ud800", context=({"role": "user", "content": "\x00"},)))
        stored = await loops.loop(ANN, "l1")
        assert stored is not None
        assert stored.text == "ab\ufffd"
        assert stored.context == ({"role": "user", "content": ""},)
        assert await loops.loop(ANN, "l\x00") is None

    @pytest.mark.parametrize(
        "fields",
        [
            {"text": "x" * 70_000},
            {"instructions": "x" * 20_000},
            {"context": ({"role": "user", "content": "x"},) * 51},
            {"context": ({"role": "user", "content": "x" * 70_000},)},
            {"response_format": {"description": "x" * 40_000}},
            {"destination": "team:" + "x" * 300},
        ],
    )
    async def test_what_is_too_large_is_refused(self, loops: LoopStore, fields: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            await loops.open(ANN, a_loop(**fields))
        assert await loops.loop(ANN, "l1") is None

    async def test_newest_first_of_this_user_and_state(self, loops: LoopStore) -> None:
        for number in range(4):
            await loops.open(ANN, a_loop(f"l{number}", created_at=NOW + timedelta(seconds=number % 3)))
        await loops.open(BOB, a_loop("of bob"))
        await finish(loops)
        assert [loop.loop_id for loop in await loops.loops(ANN)] == ["l2", "l1", "l3", "l0"]
        assert [loop.loop_id for loop in await loops.loops(ANN, state=LoopState.RUNNING, limit=2)] == ["l2", "l3"]
        assert [loop.loop_id for loop in await loops.loops(ANN, state=LoopState.DONE)] == ["l1"]
        assert await loops.loops(OTHER_ANN) == []
        walked: list[str] = []
        after: Position | None = None
        while page := await loops.loops(ANN, after=after, limit=1):
            walked.append(page[0].loop_id)
            after = Position(page[0].created_at, page[0].loop_id)
        assert walked == ["l2", "l1", "l3", "l0"]

    async def test_what_the_user_said_is_kept_and_nothing_is_not_no_such_thing(self, loops: LoopStore) -> None:
        for number, said in enumerate((None, (), ("Delete Volta.", "No!"))):
            await loops.open(ANN, a_loop(f"l{number}", said=said))
            found = await loops.loop(ANN, f"l{number}")
            assert found is not None
            assert found.said == said

    async def test_those_that_a_window_opened_and_that_wait(self, loops: LoopStore) -> None:
        for number, (scope, parent) in enumerate(
            ((ANN, "window:w1"), (BOB, "chunk:ab"), (ANN, "window:w51"), (ANN, None), (ANN, "l0"), (ANN, "window:w101"))
        ):
            await loops.open(scope, a_loop(f"l{number}", parent=parent, only=("Cars",), created_at=NOW + timedelta(minutes=number)))
        await loops.finish(ANN, "l0", state=LoopState.DONE, answer="Done.", steps=1, usage=USAGE, now=NOW)
        week, soon = NOW - timedelta(days=7), NOW + timedelta(minutes=5)
        assert [one.loop_id for one in await loops.of_windows(ANN, after=week, before=soon)] == ["l2"]
        everybody = await loops.of_windows(None, after=week, before=soon + timedelta(hours=1))
        assert [(one.scope, one.loop_id) for one in everybody] == [(BOB, "l1"), (ANN, "l2"), (ANN, "l5")]
        assert await loops.of_windows(None, after=NOW + timedelta(hours=1), before=NOW + timedelta(hours=2)) == []
        assert len(await loops.of_windows(None, after=week, before=soon, limit=1)) == 1
        (of_window,) = await loops.loops(ANN, parent="window:w51")
        assert (of_window.loop_id, of_window.only, of_window.is_of_window) == ("l2", ("Cars",), True)
        assert [loop.is_of_window for loop in await loops.loops(ANN, parent="l0")] == [False]


class TestEntries:
    @pytest.fixture(autouse=True)
    async def _opened(self, loops: LoopStore) -> None:
        await loops.open(ANN, a_loop())

    async def test_numbers_count_up_from_one(self, loops: LoopStore) -> None:
        added = await loops.append(ANN, "l1", [entry("a"), entry("b")], now=NOW)
        assert [(one.key, one.number, one.at) for one in added] == [("a", 1, NOW), ("b", 2, NOW)]
        assert await loops.entries(ANN, "l1") == added
        assert await loops.entries(ANN, "l1", after=1) == added[1:]
        assert await loops.entries(ANN, "l1", limit=1) == added[:1]

    async def test_a_key_that_is_there_stays_as_it_is(self, loops: LoopStore) -> None:
        await loops.append(ANN, "l1", [entry("a", "first")], now=NOW)
        again = await loops.append(ANN, "l1", [entry("b"), entry("a", "second"), entry("b", "third")], now=NOW)
        assert [(one.number, one.body["text"]) for one in again] == [(2, "hello"), (1, "first"), (2, "hello")]
        assert len(await loops.entries(ANN, "l1")) == 2

    async def test_a_retry_after_a_lost_answer_adds_nothing(self, tables: Tables) -> None:
        with pytest.raises(StoreUnavailable):
            await losing(tables.loops).append(ANN, "l1", [entry("a")], now=NOW)
        again = await tables.loops.append(ANN, "l1", [entry("a")], now=NOW + timedelta(minutes=1))
        assert [(one.number, one.at) for one in again] == [(1, NOW)]

    async def test_many_writers_at_once_leave_no_gap(self, loops: LoopStore) -> None:
        keys = [[f"{writer}/{number}" for number in range(3)] + ["shared"] for writer in range(8)]
        await asyncio.gather(*(loops.append(ANN, "l1", [entry(key) for key in some], now=NOW) for some in keys))
        stored = await loops.entries(ANN, "l1")
        assert [one.number for one in stored] == list(range(1, 26))
        assert {one.key for one in stored} == {key for some in keys for key in some}

    async def test_nobody_reaches_the_loop_of_another(self, loops: LoopStore) -> None:
        await loops.append(ANN, "l1", [entry("a")], now=NOW)
        for stranger in (BOB, OTHER_ANN):
            assert await loops.loop(stranger, "l1") is None
            assert await loops.entries(stranger, "l1") == []
            with pytest.raises(InvalidInput):
                await loops.append(stranger, "l1", [entry("b")], now=NOW)
            with pytest.raises(InvalidInput):
                await loops.finish(stranger, "l1", state=LoopState.DONE, answer="", steps=1, usage=USAGE, now=NOW)

    async def test_bodies_are_bounded_and_clean(self, loops: LoopStore) -> None:
        nested = Entry("n", EntryKind.MODEL, 1, {"calls": [{"raw": "\x00\ud800"}], "text": None})
        (stored,) = await loops.append(ANN, "l1", [nested], now=NOW)
        assert stored.body == {"calls": [{"raw": "\ufffd"}], "text": None}
        for bad in (entry("x", "y" * MAX_BODY_BYTES), Entry("x", EntryKind.NOTICE, 1, {"text": float("nan")}), entry("k" * 300)):
            with pytest.raises(InvalidInput):
                await loops.append(ANN, "l1", [entry("ok"), bad], now=NOW)
        assert len(await loops.entries(ANN, "l1")) == 1

    async def test_a_loop_takes_no_more_entries_than_its_bound(self, loops: LoopStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memory.stores.tables.loops.MAX_ENTRIES", 2)
        assert MAX_ENTRIES > 2
        await loops.append(ANN, "l1", [entry("a")], now=NOW)
        with pytest.raises(InvalidInput):
            await loops.append(ANN, "l1", [entry("b"), entry("c")], now=NOW)
        assert [one.key for one in await loops.entries(ANN, "l1")] == ["a"]


class TestTheEnd:
    @pytest.fixture(autouse=True)
    async def _opened(self, loops: LoopStore) -> None:
        await loops.open(ANN, a_loop())

    async def test_a_loop_ends_once(self, loops: LoopStore) -> None:
        ended = await finish(loops, structured={"n": [1, None]}, reason="why\x00")
        assert ended == replace(
            a_loop(),
            state=LoopState.DONE,
            answer="Done.",
            structured={"n": [1, None]},
            reason="why",
            steps=3,
            input_tokens=100,
            output_tokens=20,
            ended_at=NOW,
        )
        assert await finish(loops, state=LoopState.STOPPED, answer="Other.", now=NOW + timedelta(1)) == ended
        assert await loops.loop(ANN, "l1") == ended

    async def test_of_two_ends_at_once_both_are_told_the_same(self, loops: LoopStore) -> None:
        ends = await asyncio.gather(*(finish(loops, answer=f"Answer {n}") for n in range(4)))
        assert len({loop.answer for loop in ends}) == 1

    async def test_running_is_no_end_and_answers_are_bounded(self, loops: LoopStore) -> None:
        for fields in ({"state": LoopState.RUNNING}, {"answer": "x" * 300_000}, {"structured": float("inf")}):
            with pytest.raises(InvalidInput):
                await finish(loops, **fields)
        stored = await loops.loop(ANN, "l1")
        assert stored is not None
        assert stored.state is LoopState.RUNNING

    async def test_there_is_talk_after_the_end(self, loops: LoopStore) -> None:
        await finish(loops)
        (question,) = await loops.append(ANN, "l1", [entry("q1", kind=EntryKind.SIDE_QUESTION)], now=NOW)
        assert question.number == 1

    async def test_forgetting_a_user_forgets_the_loops(self, tables: Tables) -> None:
        await tables.loops.append(ANN, "l1", [entry("a")], now=NOW)
        await tables.loops.open(BOB, a_loop())
        await tables.knowledge.delete_owner(ANNS)
        assert await tables.loops.loops(ANN) == []
        assert await tables.loops.entries(ANN, "l1") == []
        assert len(await tables.loops.loops(BOB)) == 1
