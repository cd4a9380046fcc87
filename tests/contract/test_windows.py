"""The window ledger: what is next, plan, commit with the watermark, rerun, chunks; on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.model.category import Category
from memory.model.errors import InvalidInput
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.scope import Scope
from memory.model.window import (
    CategoryExtraction,
    CategoryOutcome,
    Extraction,
    Window,
    WindowKind,
    WindowState,
    WindowTrigger,
)
from memory.ports import NextEvents, WindowPlace, WindowResult
from memory.stores.tables import Tables, build_tables

NOW = datetime(2026, 6, 17, 12, 0, 0, 123456, tzinfo=UTC)
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
GLOBEX_ANN = Scope.of("globex", "ann")
SIZE = 5
DONE = WindowResult(WindowState.DONE)
BIOS, TASKS = Category.BIOS, Category.TASKS


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


def a_message(event_id: str, content: str | None = None, **fields: Any) -> MessageEvent:
    return MessageEvent(timestamp=NOW, sender_id="user", content=content or f"text of {event_id}", event_id=event_id, **fields)


async def record(tables: Tables, count: int, *, scope: Scope = ANN, prefix: str = "m", now: datetime = NOW) -> int:
    events = [a_message(f"{prefix}{n}") for n in range(count)]
    return (await tables.log.record_events(scope, events, now=now)).waiting


def a_window(first: int, last: int, *, scope: Scope = ANN, **fields: Any) -> Window:
    given: dict[str, Any] = {"categories": (BIOS, TASKS), "planned_at": NOW, "model": "simulated"} | fields
    return Window(scope=scope, window_id=f"w{first}", first_seq=first, last_seq=last, events=last - first + 1, **given)


async def upcoming(tables: Tables, scope: Scope = ANN, *, size: int = SIZE) -> NextEvents | None:
    return await tables.windows.next(scope, size=size, now=NOW)


async def span(tables: Tables, scope: Scope = ANN) -> tuple[int, int, str] | None:
    """The run of events that is next."""
    found = await upcoming(tables, scope)
    if found is None:
        return None
    assert found.window is None
    return found.first_seq, found.last_seq, found.trigger.value


async def open_window(tables: Tables, scope: Scope = ANN) -> str | None:
    """The id of the window that is to be taken up again."""
    found = await upcoming(tables, scope)
    return found.window.window_id if found is not None and found.window is not None else None


async def consume(
    tables: Tables, first: int, last: int, *, scope: Scope = ANN, result: WindowResult = DONE, **fields: Any
) -> Window:
    window = await tables.windows.plan(a_window(first, last, scope=scope, **fields))
    assert await tables.windows.commit(scope, window.window_id, window.attempt, result, now=NOW)
    found = await tables.windows.window(scope, window.window_id)
    assert found is not None
    return found


async def watermark(tables: Tables, scope: Scope = ANN) -> int:
    return (await tables.windows.progress(scope)).consolidated_seq


class TestNext:
    async def test_nothing_is_due_before_the_window_is_full(self, tables: Tables) -> None:
        assert await upcoming(tables) is None
        await record(tables, SIZE - 1)
        assert await upcoming(tables) is None
        await record(tables, 1, prefix="last")
        assert await span(tables) == (1, SIZE, "size")

    async def test_full_windows_come_one_after_the_other(self, tables: Tables) -> None:
        await record(tables, 2 * SIZE + 2)
        assert await span(tables) == (1, 5, "size")
        await consume(tables, 1, 5)
        assert await span(tables) == (6, 10, "size")
        await consume(tables, 6, 10)
        assert await upcoming(tables) is None
        progress = await tables.windows.progress(ANN)
        assert (progress.consolidated_seq, progress.last_seq, progress.waiting) == (10, 12, 2)

    async def test_a_planned_window_is_taken_up_before_anything_else(self, tables: Tables) -> None:
        await record(tables, 2 * SIZE)
        planned = await tables.windows.plan(a_window(1, 5))
        found = await upcoming(tables)
        assert found is not None
        assert found.window == planned
        assert await watermark(tables) == 0

    async def test_a_flush_ends_in_a_short_window_up_to_where_it_was_asked_for(self, tables: Tables) -> None:
        await record(tables, SIZE + 2)
        asked = await tables.windows.flush(ANN, now=NOW)
        assert (asked.flush_seq, asked.waiting) == (7, 7)
        await record(tables, 1, prefix="later")
        assert await span(tables) == (1, 5, "size")
        await consume(tables, 1, 5)
        assert await span(tables) == (6, 7, "flush")
        await consume(tables, 6, 7)
        assert await upcoming(tables) is None
        assert (await tables.windows.progress(ANN)).waiting == 1

    async def test_a_flush_with_nothing_waiting_asks_for_nothing(self, tables: Tables) -> None:
        assert (await tables.windows.flush(ANN, now=NOW)).last_seq == 0
        await record(tables, SIZE)
        await consume(tables, 1, 5)
        assert (await tables.windows.flush(ANN, now=NOW)).waiting == 0
        assert await upcoming(tables) is None

    async def test_of_several_open_windows_the_oldest_is_first(self, tables: Tables) -> None:
        await record(tables, SIZE)
        await tables.windows.open_chunk(
            ANN, [a_message("c")], chunk_id="chunk-1", categories=[BIOS], guidance=None, model=None, now=NOW - timedelta(hours=1)
        )
        await tables.windows.plan(a_window(1, 5))
        assert await open_window(tables) == "chunk-1"
        await tables.windows.commit(ANN, "chunk-1", 0, DONE, now=NOW)
        assert await open_window(tables) == "w1"

    async def test_what_is_next_is_that_of_the_user(self, tables: Tables) -> None:
        await record(tables, SIZE)
        await tables.windows.plan(a_window(1, 5))
        for scope in (BOB, GLOBEX_ANN):
            assert await upcoming(tables, scope) is None
            assert await tables.windows.window(scope, "w1") is None
            assert await tables.windows.events(scope, 1, 5) == []


class TestPlan:
    async def test_the_same_window_again_gives_the_one_that_is_there(self, tables: Tables) -> None:
        await record(tables, SIZE)
        first = await tables.windows.plan(a_window(1, 5, spaces_off={BIOS: ("nul\x00 \ud83d", "sales")}, reason="why"))
        again = await tables.windows.plan(a_window(1, 5, categories=(), planned_at=NOW + timedelta(hours=1), model="other"))
        assert again == first
        assert await tables.windows.window(ANN, "w1") == first
        assert len(await tables.windows.windows(scope=ANN)) == 1

    async def test_triggered_twice_at_once_there_is_one_window(self, tables: Tables) -> None:
        await record(tables, 3 * SIZE)
        planned = await asyncio.gather(*(tables.windows.plan(a_window(1, last)) for last in (5, 7, 9, 5, 3, 11)))
        assert len({window.last_seq for window in planned}) == 1
        [window] = await tables.windows.windows(scope=ANN)
        assert {one.last_seq for one in planned} == {window.last_seq}

    async def test_a_window_that_was_committed_meanwhile_is_not_planned_again(self, tables: Tables) -> None:
        await record(tables, 2 * SIZE)
        await consume(tables, 1, 5)
        late = await tables.windows.plan(a_window(1, 5))
        assert late.state is WindowState.DONE
        assert await watermark(tables) == 5

    @pytest.mark.parametrize(("first", "last"), [(2, 5), (6, 10), (1, 11), (1, 0)])
    async def test_a_window_that_leaves_a_gap_or_goes_too_far(self, tables: Tables, first: int, last: int) -> None:
        await record(tables, 2 * SIZE)
        with pytest.raises(InvalidInput, match="does not begin right after the watermark 0 or goes beyond the last event 10"):
            await tables.windows.plan(a_window(first, last))
        assert await tables.windows.windows() == []

    async def test_events_are_in_one_open_window_only(self, tables: Tables) -> None:
        await record(tables, SIZE)
        await tables.windows.plan(a_window(1, 5))
        with pytest.raises(InvalidInput, match="the window w1 holds these events and has not ended"):
            await tables.windows.plan(a_window(1, 5).model_copy(update={"window_id": "w99"}))

    async def test_pages_cover_all_windows_of_a_user_once(self, tables: Tables) -> None:
        await record(tables, 7 * SIZE)
        for first in range(1, 7 * SIZE, SIZE):
            await consume(tables, first, first + SIZE - 1, planned_at=NOW + timedelta(hours=first // 15))
        seen: list[Window] = []
        place: WindowPlace | None = None
        while page := await tables.windows.windows(scope=ANN, limit=2, after=place):
            seen += page
            place = WindowPlace(page[-1].planned_at, page[-1].first_seq, page[-1].window_id)
        assert [window.first_seq for window in seen] == [31, 26, 21, 16, 11, 6, 1]

    async def test_windows_of_users_do_not_meet(self, tables: Tables) -> None:
        for scope in (ANN, BOB, GLOBEX_ANN):
            await record(tables, SIZE, scope=scope)
            await tables.windows.plan(a_window(1, 5, scope=scope))
        assert len(await tables.windows.windows()) == 3
        assert {window.scope for window in await tables.windows.windows(tenant="acme")} == {ANN, BOB}
        assert [window.scope for window in await tables.windows.windows(scope=BOB)] == [BOB]


class TestCommit:
    async def test_the_outcome_and_the_watermark_are_there_together(self, tables: Tables) -> None:
        await record(tables, SIZE)
        result = WindowResult(
            WindowState.PARTIAL,
            reason="bad\x00 reply",
            outcomes=(
                CategoryOutcome(category=BIOS, proposed=3, applied=1, confirmed=1, dropped={"no_quote": 1}),
                CategoryOutcome(category=TASKS, state="failed", reason="malformed"),
            ),
            flags=("split:2", "more_room"),
            usage={"extract": {"input_tokens": 10, "calls": 1}},
            durations_ms={"extract": 12},
            model="openai:gpt-5",
            run_id="run-1",
            workflow_id="wf",
        )
        window = await consume(tables, 1, 5, result=result)
        assert (window.state, window.reason, window.outcomes) == (WindowState.PARTIAL, "bad reply", result.outcomes)
        assert (window.flags, window.usage, window.durations_ms) == (result.flags, result.usage, result.durations_ms)
        assert (window.model, window.run_id, window.workflow_id) == ("openai:gpt-5", "run-1", "wf")
        assert window.finished_at == NOW
        assert await watermark(tables) == 5

    async def test_a_commit_whose_answer_was_lost_is_simply_made_again(self, tables: Tables) -> None:
        await record(tables, 2 * SIZE)
        await consume(tables, 1, 5)
        failed = WindowResult(WindowState.FAILED, reason="too late")
        assert not await tables.windows.commit(ANN, "w1", 0, failed, now=NOW + timedelta(hours=1))
        found = await tables.windows.window(ANN, "w1")
        assert found is not None
        assert (found.state, found.reason, found.finished_at) == (WindowState.DONE, None, NOW)
        assert await watermark(tables) == 5

    async def test_two_workers_commit_at_once_and_one_does_it(self, tables: Tables) -> None:
        await record(tables, SIZE)
        await tables.windows.plan(a_window(1, 5))
        results = [WindowResult(WindowState.DONE, reason=str(n)) for n in range(8)]
        did = await asyncio.gather(*(tables.windows.commit(ANN, "w1", 0, result, now=NOW) for result in results))
        assert sorted(did) == [False] * 7 + [True]
        found = await tables.windows.window(ANN, "w1")
        assert found is not None
        assert found.reason == str(did.index(True))
        assert await watermark(tables) == 5

    async def test_a_crash_before_the_commit_leaves_the_window_to_be_taken_up(self, tables: Tables, sql_url: str) -> None:
        await record(tables, SIZE)
        window = await tables.windows.plan(a_window(1, 5))
        await tables.aclose()
        after = build_tables(sql_url)
        try:
            assert await open_window(after) == "w1"
            assert [one.seq for one in await after.windows.window_events(window)] == [1, 2, 3, 4, 5]
            assert await watermark(after) == 0
        finally:
            await after.aclose()

    @pytest.mark.parametrize("state", [WindowState.FAILED, WindowState.SKIPPED, WindowState.PARTIAL])
    async def test_a_window_that_failed_is_kept_and_later_ones_go_on(self, tables: Tables, state: WindowState) -> None:
        await record(tables, 2 * SIZE)
        window = await consume(tables, 1, 5, result=WindowResult(state, reason="why"))
        assert (window.state, window.reason) == (state, "why")
        assert await span(tables) == (6, 10, "size")
        assert len(await tables.windows.window_events(window)) == 5

    async def test_an_older_attempt_is_not_taken(self, tables: Tables) -> None:
        await record(tables, SIZE)
        await consume(tables, 1, 5, result=WindowResult(WindowState.FAILED))
        await tables.windows.reopen(scope=ANN)
        assert not await tables.windows.commit(ANN, "w1", 0, DONE, now=NOW)
        assert await open_window(tables) == "w1"

    async def test_what_cannot_be_committed(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="this user has no window 'w1'"):
            await tables.windows.commit(ANN, "w1", 0, DONE, now=NOW)
        await record(tables, SIZE)
        await tables.windows.plan(a_window(1, 5))
        with pytest.raises(InvalidInput, match="ends as done"):
            await tables.windows.commit(ANN, "w1", 0, WindowResult(WindowState.PLANNED), now=NOW)
        with pytest.raises(InvalidInput, match="no window"):
            await tables.windows.commit(BOB, "w1", 0, DONE, now=NOW)

    async def test_two_processes_work_through_one_log(self, tables: Tables, sql_url: str) -> None:
        await record(tables, 4 * SIZE)
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", WORKER, str(number)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            for number in range(2)
        ]
        for n in range(8 * SIZE):
            await tables.log.record_events(ANN, [a_message(f"while-{n}")], now=NOW)
        results = await asyncio.gather(*(process.communicate(sql_url.encode()) for process in processes))
        assert [(p.returncode, err.decode()) for p, (_, err) in zip(processes, results, strict=True)] == [(0, "")] * 2
        windows = sorted(await tables.windows.windows(scope=ANN, limit=1000), key=lambda window: window.first_seq)
        covered = [seq for window in windows for seq in range(window.first_seq, window.last_seq + 1)]
        assert covered == list(range(1, 12 * SIZE + 1))
        assert {window.state for window in windows} == {WindowState.DONE}
        assert await watermark(tables) == 12 * SIZE


WORKER = """
import asyncio, sys
from datetime import UTC, datetime
from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from memory.model.window import Window, WindowState
from memory.ports import WindowResult
from memory.stores.tables import build_tables

async def main():
    tables, scope, now = build_tables(sys.stdin.read()), Scope.of("acme", "ann"), datetime.now(UTC)
    while (await tables.windows.progress(scope)).consolidated_seq < 60:
        found = await tables.windows.next(scope, size=5, now=now)
        if found is None:
            continue
        window = found.window
        if window is None:
            first, last = found.first_seq, found.last_seq
            window = Window(scope=scope, window_id=f"w{first}", first_seq=first, last_seq=last, events=5, planned_at=now)
            try:
                window = await tables.windows.plan(window)
            except InvalidInput:
                continue  # the other one was quicker by a whole window
        await tables.windows.commit(scope, window.window_id, window.attempt, WindowResult(WindowState.DONE), now=now)
    await tables.aclose()

asyncio.run(main())
"""


class TestReopen:
    async def test_a_partial_window_runs_again_with_what_failed_and_keeps_what_stands(self, tables: Tables) -> None:
        await record(tables, 2 * SIZE)
        stands = CategoryOutcome(category=BIOS, applied=2)
        result = WindowResult(
            WindowState.PARTIAL, outcomes=(stands, CategoryOutcome(category=TASKS, state="failed", reason="malformed"))
        )
        await consume(tables, 1, 5, result=result)
        [window] = await tables.windows.reopen(scope=ANN)
        assert (window.state, window.attempt, window.categories) == (WindowState.PLANNED, 1, (TASKS,))
        assert (window.outcomes, window.reason, window.finished_at) == ((stands,), None, None)
        assert await open_window(tables) == "w1"

        again = CategoryOutcome(category=TASKS, applied=1)
        assert await tables.windows.commit(ANN, "w1", 1, WindowResult(WindowState.DONE, outcomes=(again,)), now=NOW)
        ended = await tables.windows.window(ANN, "w1")
        assert ended is not None
        assert (ended.state, ended.outcomes) == (WindowState.DONE, (stands, again))

    async def test_an_operator_can_run_a_whole_window_again(self, tables: Tables) -> None:
        await record(tables, SIZE)
        outcomes = tuple(CategoryOutcome(category=category) for category in (BIOS, TASKS))
        await consume(tables, 1, 5, result=WindowResult(WindowState.DONE, outcomes=outcomes))
        assert await tables.windows.reopen(scope=ANN) == []
        [window] = await tables.windows.reopen(scope=ANN, window_ids=["w1"], states=[WindowState.DONE])
        assert (window.categories, window.outcomes, window.attempt) == ((BIOS, TASKS), (), 1)

    async def test_a_rerun_does_not_move_the_watermark(self, tables: Tables) -> None:
        await record(tables, 3 * SIZE)
        await consume(tables, 1, 5, result=WindowResult(WindowState.FAILED))
        await consume(tables, 6, 10)
        [again] = await tables.windows.reopen(scope=ANN)
        assert await watermark(tables) == 10
        assert await tables.windows.commit(ANN, "w1", again.attempt, DONE, now=NOW)
        progress = await tables.windows.progress(ANN)
        assert (progress.consolidated_seq, progress.waiting) == (10, 5)
        assert await span(tables) == (11, 15, "size")

    async def test_a_rerun_in_work_does_not_hold_up_the_next_plan(self, tables: Tables) -> None:
        await record(tables, 2 * SIZE)
        await consume(tables, 1, 5, result=WindowResult(WindowState.FAILED))
        await tables.windows.reopen(scope=ANN)
        assert (await tables.windows.plan(a_window(6, 10))).state is WindowState.PLANNED

    async def test_only_so_many_times_and_not_too_soon(self, tables: Tables) -> None:
        await record(tables, SIZE)
        await consume(tables, 1, 5, result=WindowResult(WindowState.FAILED))
        assert await tables.windows.reopen(ended_before=NOW) == []
        later = NOW + timedelta(seconds=1)
        for attempt in (1, 2):
            [window] = await tables.windows.reopen(ended_before=later, max_attempt=2)
            assert window.attempt == attempt
            assert await tables.windows.reopen(ended_before=later, max_attempt=2) == []
            await tables.windows.commit(ANN, "w1", attempt, WindowResult(WindowState.FAILED), now=NOW)
        assert await tables.windows.reopen(ended_before=later, max_attempt=2) == []

    async def test_two_operators_at_once_reopen_a_window_once(self, tables: Tables) -> None:
        for scope in (ANN, BOB, GLOBEX_ANN):
            await record(tables, SIZE, scope=scope)
            await consume(tables, 1, 5, scope=scope, result=WindowResult(WindowState.FAILED))
        reopened = await asyncio.gather(*(tables.windows.reopen() for _ in range(6)))
        assert sorted((w.scope.tenant, w.scope.user, w.attempt) for some in reopened for w in some) == [
            ("acme", "ann", 1),
            ("acme", "bob", 1),
            ("globex", "ann", 1),
        ]

    async def test_by_company_user_and_id(self, tables: Tables) -> None:
        for scope in (ANN, BOB, GLOBEX_ANN):
            await record(tables, 2 * SIZE, scope=scope)
            for first in (1, 6):
                await consume(tables, first, first + 4, scope=scope, result=WindowResult(WindowState.FAILED))
        assert [w.window_id for w in await tables.windows.reopen(scope=ANN, window_ids=["w6", "w7"])] == ["w6"]
        assert {w.scope for w in await tables.windows.reopen(tenant="globex")} == {GLOBEX_ANN}
        assert len(await tables.windows.reopen(limit=1)) == 1
        assert len(await tables.windows.reopen()) == 2

    async def test_who_opted_out_is_not_run_again(self, tables: Tables) -> None:
        await record(tables, 2 * SIZE)
        await consume(tables, 1, 5, result=WindowResult(WindowState.SKIPPED, reason="user_opted_out"))
        await consume(tables, 6, 10, result=WindowResult(WindowState.SKIPPED, reason="no_category"))
        assert [w.window_id for w in await tables.windows.reopen(states=[WindowState.SKIPPED])] == ["w6"]

    async def test_a_skipped_one_comes_back_without_categories_of_its_old_plan(self, tables: Tables) -> None:
        await record(tables, SIZE)
        await tables.windows.plan(a_window(1, 5, spaces_off={BIOS: ("lab",)}))
        await tables.windows.commit(ANN, "w1", 0, WindowResult(WindowState.SKIPPED, reason="space_off"), now=NOW)
        [again] = await tables.windows.reopen(scope=ANN, states=[WindowState.SKIPPED])
        assert (again.state, again.attempt, again.categories, again.spaces_off) == (WindowState.PLANNED, 1, (), {})

    async def test_what_cannot_be_reopened(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="can be run again"):
            await tables.windows.reopen(states=[WindowState.PLANNED])
        with pytest.raises(InvalidInput, match="can be run again"):
            await tables.windows.reopen(states=[])
        with pytest.raises(InvalidInput, match="belong to a user"):
            await tables.windows.reopen(window_ids=["w1"])
        with pytest.raises(InvalidInput, match="limit"):
            await tables.windows.reopen(limit=0)


class TestReplan:
    async def test_a_planned_window_gets_other_categories_and_what_was_extracted_is_forgotten(self, tables: Tables) -> None:
        await record(tables, SIZE)
        planned = await tables.windows.plan(a_window(1, 5))
        for window_id in ("w1", "w6"):
            await tables.windows.save_extraction(ANN, Extraction(window_id=window_id, attempt=0, prompt_version="v", model="m"))
        changed = planned.model_copy(update={"categories": (TASKS,), "spaces_off": {TASKS: ("lab",)}, "reason": None, "model": "n"})
        assert await tables.windows.replan(changed) == changed
        assert await tables.windows.window(ANN, "w1") == changed
        assert await tables.windows.extraction(ANN, "w1") is None
        assert await tables.windows.extraction(ANN, "w6") is not None

    async def test_one_that_ended_or_is_at_another_attempt_is_left_alone(self, tables: Tables) -> None:
        await record(tables, SIZE)
        ended = await consume(tables, 1, 5, result=WindowResult(WindowState.FAILED))
        changed = ended.model_copy(update={"categories": ()})
        assert (await tables.windows.replan(changed)).categories == (BIOS, TASKS)
        await tables.windows.reopen(scope=ANN)
        assert (await tables.windows.replan(changed)).attempt == 1
        with pytest.raises(InvalidInput, match="no window 'w2'"):
            await tables.windows.replan(a_window(2, 3))


class TestExtraction:
    def extraction(self, attempt: int = 0, **fields: Any) -> Extraction:
        item = {"text": "nul\x00 and \ud83d lone", "evidence": [{"event": 1, "quote": "你好 🎉"}]}
        one = CategoryExtraction(category=BIOS, items=({"key": "k", "item": item},), proposed=2)
        return Extraction(window_id="w1", attempt=attempt, prompt_version="v1", model="m", categories=(one,), **fields)

    async def test_what_was_extracted_comes_back_cleaned(self, tables: Tables) -> None:
        await tables.windows.save_extraction(ANN, self.extraction(refs={"c1": "1"}, flags=("split:2",)))
        found = await tables.windows.extraction(ANN, "w1")
        assert found is not None
        assert (found.refs, found.flags, found.prompt_version) == ({"c1": "1"}, ("split:2",), "v1")
        read = found.of(BIOS)
        assert read is not None
        assert read.items[0]["item"] == {"text": "nul and \ufffd lone", "evidence": [{"event": 1, "quote": "你好 🎉"}]}
        assert read.proposed == 2

    async def test_the_same_attempt_overwrites_and_the_newest_is_given(self, tables: Tables) -> None:
        for attempt, flag in ((0, "a"), (0, "b"), (1, "c")):
            await tables.windows.save_extraction(ANN, self.extraction(attempt, flags=(flag,)))
        newest, first = await asyncio.gather(tables.windows.extraction(ANN, "w1"), tables.windows.extraction(ANN, "w1", 0))
        assert newest is not None
        assert first is not None
        assert (newest.flags, first.flags) == (("c",), ("b",))
        assert await tables.windows.extraction(ANN, "w1", 7) is None
        assert await tables.windows.extraction(BOB, "w1") is None

    async def test_a_late_one_leaves_what_is_there(self, tables: Tables) -> None:
        first = self.extraction(flags=("a",))
        kept = [await tables.windows.save_extraction(ANN, one, replaces=False) for one in (first, self.extraction(flags=("b",)))]
        assert [one.flags for one in kept] == [("a",), ("a",)]
        assert (await tables.windows.save_extraction(ANN, self.extraction(1, flags=("c",)), replaces=False)).flags == ("c",)
        assert (await tables.windows.save_extraction(ANN, self.extraction(flags=("d",)))).flags == ("d",)
        stored = await tables.windows.extraction(ANN, "w1", 0)
        assert stored is not None
        assert stored.flags == ("d",)


class TestChunks:
    async def chunk(self, tables: Tables, *, scope: Scope = ANN, chunk_id: str = "chunk-1", **fields: Any) -> Window:
        events = [
            a_message("m1", "lone \ud83d nul \x00".replace("\ud83d", "🎉"), receiver_ids=("assistant",), medium="email"),
            MessageEvent(timestamp=NOW, sender_id="user", content=" "),
            ManagerMethodEvent(
                timestamp=NOW, manager="Tasks", method="update", phase=Phase.OUTGOING, calling_id="c", payload={"a": [1]}
            ),
        ]
        given: dict[str, Any] = {"categories": [TASKS], "guidance": "look for dates", "model": None, "now": NOW} | fields
        return await tables.windows.open_chunk(scope, given.pop("events", events), chunk_id=chunk_id, **given)

    async def test_a_chunk_is_a_window_of_its_own(self, tables: Tables) -> None:
        window = await self.chunk(tables)
        assert (window.kind, window.trigger, window.first_seq, window.last_seq, window.events) == (
            WindowKind.CHUNK,
            WindowTrigger.CHUNK,
            1,
            2,
            2,
        )
        assert (window.categories, window.guidance, window.state) == ((TASKS,), "look for dates", WindowState.PLANNED)
        said, called = await tables.windows.window_events(window)
        assert isinstance(said.event, MessageEvent)
        assert isinstance(called.event, ManagerMethodEvent)
        assert (said.seq, said.event.content, said.event.medium, said.event.receiver_ids, said.event.timestamp) == (
            1,
            "lone 🎉 nul ",
            "email",
            ("assistant",),
            NOW,
        )
        assert (called.seq, called.event.payload, called.event.phase, called.recorded_at) == (2, {"a": [1]}, Phase.OUTGOING, NOW)

    async def test_it_keeps_where_it_was_said(self, tables: Tables) -> None:
        for number, space in enumerate(("default", "the lab \\ \ud83d", "x" * 300)):
            window = await self.chunk(tables, chunk_id=f"chunk-{number}", space_id=space)
            assert {stored.space_id for stored in await tables.windows.window_events(window)} == {space}
        with pytest.raises(InvalidInput, match="space id"):
            await self.chunk(tables, chunk_id="chunk-9", space_id="")

    async def test_it_does_not_touch_the_log_or_the_watermark(self, tables: Tables) -> None:
        await record(tables, SIZE)
        window = await self.chunk(tables)
        assert await open_window(tables) == "chunk-1"
        assert await tables.windows.commit(ANN, window.window_id, 0, DONE, now=NOW)
        progress = await tables.windows.progress(ANN)
        assert (progress.consolidated_seq, progress.last_seq) == (0, 5)
        assert await span(tables) == (1, 5, "size")

    async def test_the_same_id_again_gives_what_is_there(self, tables: Tables) -> None:
        first = await self.chunk(tables)
        opened = await asyncio.gather(*(self.chunk(tables, events=[a_message("other")], guidance="other") for _ in range(4)))
        assert opened == [first] * 4
        await tables.windows.commit(ANN, "chunk-1", 0, DONE, now=NOW)
        assert (await self.chunk(tables)).state is WindowState.DONE
        assert (await self.chunk(tables, scope=BOB)).state is WindowState.PLANNED

    async def test_a_chunk_of_a_user_without_a_log(self, tables: Tables) -> None:
        await self.chunk(tables, scope=GLOBEX_ANN)
        assert await open_window(tables, GLOBEX_ANN) == "chunk-1"
        assert await tables.windows.commit(GLOBEX_ANN, "chunk-1", 0, DONE, now=NOW)

    async def test_bounds(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="begins with chunk-"):
            await self.chunk(tables, chunk_id="w1")
        with pytest.raises(InvalidInput, match="1001 events"):
            await self.chunk(tables, events=[a_message(f"m{n}") for n in range(1001)])
        with pytest.raises(InvalidInput, match=r"the chunk has \d+ bytes of JSON; at most 8388608"):
            await self.chunk(tables, events=[a_message(f"m{n}", "x" * 1024 * 1024) for n in range(8)])
        assert await tables.windows.windows() == []


class TestReading:
    async def test_events_by_number(self, tables: Tables) -> None:
        await record(tables, 700)
        found = await tables.windows.events_by_seq(ANN, [700, 3, 3, 999, *range(10, 620)])
        assert [one.seq for one in found] == [3, *range(10, 620), 700]
        assert await tables.windows.events_by_seq(ANN, []) == []
        assert [one.seq for one in await tables.windows.events(ANN, 698, 900)] == [698, 699, 700]
        with pytest.raises(InvalidInput, match="5001 events"):
            await tables.windows.events(ANN, 1, 5001)
        with pytest.raises(InvalidInput, match="5001 events"):
            await tables.windows.events_by_seq(ANN, range(5001))

    async def test_windows_are_newest_first_and_filtered(self, tables: Tables) -> None:
        await record(tables, 3 * SIZE)
        for number, state in enumerate((WindowState.DONE, WindowState.FAILED, WindowState.DONE)):
            first = number * SIZE + 1
            await tables.windows.plan(a_window(first, first + 4, planned_at=NOW + timedelta(seconds=number)))
            await tables.windows.commit(ANN, f"w{first}", 0, WindowResult(state), now=NOW)

        async def ids(**filters: Any) -> list[str]:
            return [window.window_id for window in await tables.windows.windows(**filters)]

        assert await ids() == ["w11", "w6", "w1"]
        assert await ids(limit=2) == ["w11", "w6"]
        assert await ids(scope=ANN, states=[WindowState.FAILED]) == ["w6"]
        assert await ids(tenant="globex") == []
        assert await ids(states=[]) == []

    async def test_no_text_is_in_a_window_or_its_representation(self, tables: Tables) -> None:
        await tables.windows.open_chunk(
            ANN, [a_message("m", "canary-7f3a")], chunk_id="chunk-1", categories=[], guidance="canary-7f3a", model=None, now=NOW
        )
        [window] = await tables.windows.windows()
        assert "canary-7f3a" not in repr(window)
        assert "canary-7f3a" not in repr(await tables.windows.window_events(window))

    async def test_a_reader_and_a_writer_at_once(self, tables: Tables, sql_url: str) -> None:
        # Another set of connections, as another process has them.
        other = build_tables(sql_url)
        try:

            async def write() -> None:
                for n in range(40):
                    await tables.log.record_events(ANN, [a_message(f"{n}-{k}") for k in range(SIZE)], now=NOW)
                    await consume(tables, n * SIZE + 1, (n + 1) * SIZE)

            writer = asyncio.create_task(write())
            looks = 0
            while not writer.done():
                progress = await other.windows.progress(ANN)
                ended = [w for w in await other.windows.windows(scope=ANN, limit=100) if w.state is WindowState.DONE]
                assert progress.consolidated_seq <= max((w.last_seq for w in ended), default=0)
                assert progress.consolidated_seq % SIZE == 0
                await other.windows.due(size=SIZE, limit=5)
                await other.windows.flush(BOB, now=NOW)
                looks += 1
            await writer
            assert looks > 1
            assert await watermark(other) == 40 * SIZE
        finally:
            await other.aclose()
