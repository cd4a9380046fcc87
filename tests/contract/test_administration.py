"""Settings of spaces with versions, and the reports for administrators, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from memory.model.category import Category
from memory.model.directory import SpaceSettings
from memory.model.errors import InvalidInput
from memory.model.event import MessageEvent
from memory.model.ids import encode_segment
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.model.window import CategoryOutcome, Window, WindowState
from memory.ports import TurnResult, Usage, WindowResult
from memory.ports.administration import SpaceRecord, SpaceUsage, UsageKey, UsageSum
from memory.stores.tables import Tables, build_tables

NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
ANN = Scope.of("acme", "ann")
BOB = Scope.of("acme", "bob")
OTHER = Scope.of("globex", "ann")
AWKWARD_IDS = ["a/b", "nul\x00", "lone \ud83d", "💥", "x" * 4096, "é" * 4096, "back\\slash", "..", "%2e"]


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


async def put_by_hand(tables: Tables, settings: str) -> None:
    await tables.database.write(lambda c: c.execute(text("UPDATE space_settings SET settings = :s"), {"s": settings}))


class TestSpaces:
    async def test_what_is_stored_is_told_apart_from_the_defaults(self, tables: Tables) -> None:
        nothing = await tables.spaces.space("acme", "sales")
        assert nothing == SpaceRecord("sales", {}, None, SpaceSettings())
        assert await tables.directory.roots("acme") == []
        saved = await tables.spaces.replace("acme", "sales", SpaceSettings(max_tokens=900), expected=None)
        assert saved is not None
        assert saved.stored == {"max_tokens": 900}
        assert saved.settings == SpaceSettings(max_tokens=900, root_folder="user-memory")
        assert saved == await tables.spaces.space("acme", "sales")
        assert [(root.folder, root.active) for root in await tables.directory.roots("acme")] == [("user-memory", True)]
        assert (await tables.directory.facts(ANN, "sales")).space.max_tokens == 900
        # As the command saves it.
        await tables.directory.save_space("acme", "sales", SpaceSettings(max_tokens=901))
        assert (await tables.spaces.space("acme", "sales")).stored == {"max_tokens": 901}

    async def test_the_second_of_two_who_save_is_told(self, tables: Tables) -> None:
        spaces = tables.spaces
        first = await spaces.replace("acme", "sales", SpaceSettings(max_tokens=900), expected=None)
        assert first is not None
        assert await spaces.replace("acme", "sales", SpaceSettings(max_tokens=501), expected=None) is None
        second = await spaces.replace("acme", "sales", SpaceSettings(web_search=True), expected=first.version)
        assert second is not None
        assert second.stored == {"web_search": True}
        assert second.version != first.version
        assert await spaces.replace("acme", "sales", SpaceSettings(max_tokens=1000), expected=first.version) is None
        assert await spaces.space("acme", "sales") == second
        # All at once: one of them, and only one.
        many = [spaces.replace("acme", "hr", SpaceSettings(max_tokens=500 + n), expected=None) for n in range(8)]
        assert [one is None for one in await asyncio.gather(*many)].count(False) == 1

    async def test_what_another_version_wrote_stays_and_what_is_wrong_is_named(self, tables: Tables) -> None:
        await tables.spaces.replace("acme", "sales", SpaceSettings(), expected=None)
        await put_by_hand(tables, '{"mood": "sunny", "max_tokens": 9, "web_search": true, "memory_categories": {"dreams": true}}')
        found = await tables.spaces.space("acme", "sales")
        assert found.problem is not None
        assert "max_tokens" in found.problem
        assert found.settings == SpaceSettings(web_search=True, root_folder="user-memory")
        assert set(found.stored) == {"max_tokens", "web_search", "memory_categories"}
        mended = await tables.spaces.replace("acme", "sales", SpaceSettings(max_tokens=900), expected=found.version)
        assert mended is not None
        assert mended.problem is None
        raw = await tables.database.read(lambda c: c.execute(text("SELECT settings FROM space_settings")).scalar_one())
        assert "sunny" in str(raw)

    async def test_spaces_in_pages_whatever_they_are_called(self, tables: Tables) -> None:
        for number, space_id in enumerate(AWKWARD_IDS):
            await tables.spaces.replace("acme", space_id, SpaceSettings(max_tokens=500 + number), expected=None)
        await tables.spaces.replace("globex", "elsewhere", SpaceSettings(), expected=None)
        seen: list[SpaceRecord] = []
        while some := await tables.spaces.spaces("acme", after=encode_segment(seen[-1].space_id) if seen else None, limit=2):
            assert len(some) <= 2
            seen += some
        assert {one.space_id: one.settings.max_tokens for one in seen} == {id_: 500 + n for n, id_ in enumerate(AWKWARD_IDS)}
        with pytest.raises(InvalidInput, match="limit"):
            await tables.spaces.spaces("acme", limit=0)
        with pytest.raises(InvalidInput, match="space id is empty"):
            await tables.spaces.replace("acme", "", SpaceSettings(), expected=None)

    async def test_a_root_that_the_settings_name_is_provisioned(self, tables: Tables) -> None:
        await tables.spaces.replace("acme", "a", SpaceSettings(root_folder="one"), expected=None)
        await tables.spaces.replace("acme", "b", SpaceSettings(), expected=None)
        assert (await tables.spaces.space("acme", "b")).settings.root_folder == "one"
        await tables.spaces.replace("acme", "c", SpaceSettings(root_folder="two"), expected=None)
        assert {root.folder for root in await tables.directory.roots("acme") if root.active} == {"one", "two"}


async def all_sums(tables: Tables, *by: UsageKey, limit: int = 2, days: int = 30) -> list[UsageSum]:
    seen: list[UsageSum] = []
    since = (NOW - timedelta(days=days)).date()
    while True:
        last = seen[-1] if seen else None
        some = await tables.reports.usage("acme", by=by, since=since, until=NOW.date(), after=last, limit=limit)
        if not some:
            return seen
        seen += some


class TestUsage:
    async def test_sums_by_any_of_the_keys_in_pages(self, tables: Tables) -> None:
        for day in range(3):
            for scope, tokens in ((ANN, 10), (BOB, 100), (OTHER, 1000)):
                for stage in ("gate", "consolidate"):
                    moment = NOW - timedelta(days=day)
                    await tables.usage.add(scope, stage=stage, model="m", usage=Usage(tokens, 1, 2), now=moment)
        assert await all_sums(tables, "user") == [
            UsageSum(Usage(600, 6, 12, 6), user="bob"),
            UsageSum(Usage(60, 6, 12, 6), user="ann"),
        ]
        days = await all_sums(tables, "day")
        assert [one.day for one in days] == [(NOW - timedelta(days=n)).date() for n in range(3)]
        assert {one.usage for one in days} == {Usage(220, 4, 8, 4)}
        # Equal sums are told apart by name.
        assert [one.stage for one in await all_sums(tables, "stage", limit=1)] == ["consolidate", "gate"]
        finest = await all_sums(tables, "day", "user", "stage", "model")
        assert len(finest) == len(set(finest)) == 12
        assert [(one.user, one.stage) for one in finest[:3]] == [("ann", "consolidate"), ("ann", "gate"), ("bob", "consolidate")]
        assert len(await all_sums(tables, "user", "model", days=0)) == 2
        with pytest.raises(InvalidInput, match="day, user, stage, model"):
            await all_sums(tables)

    async def test_turns_by_space(self, tables: Tables) -> None:
        await self._turn(tables, ANN, "a1", "sales", Outcome.UPDATED, gate=5, consolidate=50)
        await self._turn(tables, BOB, "b1", "sales", Outcome.KEPT, gate=7)
        await self._turn(tables, BOB, "b2", "sales", None)
        await self._turn(tables, ANN, "a2", "odd\x00id\\", Outcome.NOOP, gate=1)
        await self._turn(tables, ANN, "a3", "hr", Outcome.SKIPPED)
        await self._turn(tables, OTHER, "o1", "sales", Outcome.UPDATED, gate=1000)
        await self._turn(tables, ANN, "a0", "sales", Outcome.UPDATED, recorded=NOW - timedelta(days=9), gate=10_000)
        seen: list[SpaceUsage] = []
        since = NOW - timedelta(days=1)
        while some := await tables.reports.usage_by_space("acme", since=since, after=seen[-1] if seen else None, limit=1):
            seen += some
        assert seen == [
            SpaceUsage("sales", 3, 2, {"updated": 1, "kept": 1, "pending": 1}, Usage(62, 3, 0, 3), NOW),
            SpaceUsage("hr", 1, 1, {"skipped": 1}, Usage(calls=0), NOW),
            SpaceUsage("odd\x00id\\", 1, 1, {"noop": 1}, Usage(1, 1, 0, 1), NOW),
        ]

    async def _turn(
        self,
        tables: Tables,
        scope: Scope,
        turn_id: str,
        space: str,
        outcome: Outcome | None,
        *,
        recorded: datetime = NOW,
        **tokens: int,
    ) -> None:
        turn = Turn(turn_id=turn_id, user_text="I moved.", assistant_text="Noted.", occurred_at=NOW, space_id=space)
        await tables.log.record_turn(scope, turn, now=recorded)
        if outcome is not None:
            await tables.log.finish(scope, [a_result(turn_id, outcome, tokens)], now=NOW)


def a_result(turn_id: str, outcome: Outcome, tokens: dict[str, int]) -> TurnResult:
    usage = {stage: {"input_tokens": n, "output_tokens": 1, "cached_input_tokens": 0, "calls": 1} for stage, n in tokens.items()}
    given: dict[str, Any] = {"reason": "model_unavailable" if outcome is Outcome.KEPT else None, "flags": ("gate_failed",)}
    return TurnResult(
        turn_id, 0, outcome, profile_version=None, run_id="r", workflow_id="w", usage=usage, durations_ms={}, model="m", **given
    )


class TestFailures:
    async def test_turns_that_were_kept_newest_first_in_pages(self, tables: Tables) -> None:
        for number in range(5):
            scope = (ANN, BOB)[number % 2]
            turn = Turn(turn_id=f"t{number}", user_text="I moved.", occurred_at=NOW)
            await tables.log.record_turn(scope, turn, now=NOW + timedelta(seconds=number // 2))
            await tables.log.finish(scope, [a_result(f"t{number}", Outcome.KEPT, {})], now=NOW)
        await tables.log.record_turn(OTHER, Turn(turn_id="o", user_text="x", occurred_at=NOW), now=NOW)
        await tables.log.finish(OTHER, [a_result("o", Outcome.KEPT, {})], now=NOW)
        await tables.log.record_turn(ANN, Turn(turn_id="fine", user_text="x", occurred_at=NOW), now=NOW)
        await tables.log.finish(ANN, [a_result("fine", Outcome.UPDATED, {})], now=NOW)
        seen: list[str] = []
        last: tuple[datetime, str, int] | None = None
        while some := await tables.reports.kept_turns("acme", after=last, limit=2):
            seen += [turn.turn_id for turn in some]
            last = (some[-1].recorded_at, some[-1].scope.user, some[-1].ordinal)
        assert seen == ["t4", "t3", "t2", "t1", "t0"]

    async def test_windows_that_failed_newest_first_in_pages(self, tables: Tables) -> None:
        states = [WindowState.FAILED, WindowState.PARTIAL, WindowState.DONE, WindowState.FAILED]
        for number, state in enumerate(states):
            event = MessageEvent(timestamp=NOW, sender_id="user", content="I moved.")
            window = await tables.windows.open_chunk(
                (ANN, BOB)[number % 2],
                [event],
                chunk_id=f"chunk-{number}",
                categories=[Category.TASKS],
                guidance="look for the canary",
                model=None,
                now=NOW + timedelta(seconds=number),
            )
            outcomes = (CategoryOutcome(category=Category.TASKS, state="failed", reason="malformed"),)
            result = WindowResult(state, reason="the model is away", outcomes=outcomes, run_id="r", workflow_id="w")
            await tables.windows.commit(window.scope, window.window_id, 0, result, now=NOW)
        seen: list[Window] = []
        last: tuple[datetime, str, str] | None = None
        while some := await tables.reports.unhappy_windows("acme", after=last, limit=1):
            seen += some
            last = (some[-1].planned_at, some[-1].scope.user, some[-1].window_id)
        assert [one.window_id for one in seen] == ["chunk-3", "chunk-1", "chunk-0"]
        assert {one.guidance for one in seen} == {None}
        assert await tables.reports.unhappy_windows("globex") == []
