"""Which categories a window has: flags of the deployment, of spaces, the user's own wish; written down once. Real SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.window_plan import WindowRules
from activities.windows import WindowActivities
from memory.metering import Meter
from memory.model.category import ON_BY_DEFAULT, Category
from memory.model.directory import SpaceSettings
from memory.model.event import ManagerMethodEvent, MessageEvent, Phase
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.window import Extraction, Window, WindowState, shown_events
from memory.ports import Usage, WindowResult
from memory.stores.tables import Tables, build_tables

ANN = Scope.of("acme", "ann")
AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
RULES = WindowRules(
    size=4,
    flags={category: category in ON_BY_DEFAULT for category in Category},
    model="simulated",
    model_timeout_s=60,
    store_retry_for_s=60,
    feature_flag=True,
    allow_with_web_search=False,
    embed_events=False,
    idle_s=3600,
    attempts=3,
    retry_s=0,
    retention_days={},
)


@pytest.fixture
async def tables() -> AsyncIterator[Tables]:
    made = build_tables("sqlite://")
    yield made
    await made.aclose()


def steps(tables: Tables, rules: WindowRules = RULES, cap: int = 0) -> WindowActivities:
    unused: Any = None
    return WindowActivities(tables.windows, tables.directory, unused, unused, Meter(tables.usage, cap=cap), rules, unused)


async def record(tables: Tables, count: int, *, space: str = "default", first: int = 0) -> None:
    events = [
        MessageEvent(event_id=f"e{number}", timestamp=AT + timedelta(minutes=number), sender_id="user", content=f"message {number}")
        for number in range(first, first + count)
    ]
    await tables.log.record_events(ANN, events, space_id=space, now=datetime.now(UTC))


async def test_nothing_is_due_below_the_size(tables: Tables) -> None:
    await record(tables, 3)
    assert (await steps(tables).plan_window(UserRef.of(ANN))).window_id is None


async def test_the_plan_is_written_down_and_outlives_a_change_of_settings(tables: Tables) -> None:
    await record(tables, 4)
    first = await steps(tables).plan_window(UserRef.of(ANN))
    assert (first.window_id, first.events, set(first.categories)) == ("w1", 4, set(ON_BY_DEFAULT))
    off = replace(RULES, flags=dict.fromkeys(Category, False), model="openai:other")
    assert await steps(tables, off).plan_window(UserRef.of(ANN)) == first


async def test_all_categories_off_is_a_reason_to_skip(tables: Tables) -> None:
    await record(tables, 4)
    plan = await steps(tables, replace(RULES, flags=dict.fromkeys(Category, False))).plan_window(UserRef.of(ANN))
    assert (plan.categories, plan.skip) == ((), "no_category")


async def test_a_space_switches_categories_on_and_off_for_what_was_said_in_it(tables: Tables) -> None:
    await tables.directory.save_space(
        "acme", "lab", SpaceSettings(memory_categories={Category.KNOWLEDGE: True, Category.BIOS: False})
    )
    await record(tables, 2)
    await record(tables, 2, space="lab", first=2)
    plan = await steps(tables).plan_window(UserRef.of(ANN))
    assert {Category.KNOWLEDGE, Category.BIOS} <= set(plan.categories)
    window = await tables.windows.window(ANN, "w1")
    assert window is not None
    assert window.spaces_off[Category.KNOWLEDGE] == ("default",)
    assert window.spaces_off[Category.BIOS] == ("lab",)


async def test_who_opted_out_meanwhile_is_not_learned_about(tables: Tables) -> None:
    await record(tables, 4)
    await tables.directory.set_preference(ANN, allow_user_memory=False)
    plan = await steps(tables).plan_window(UserRef.of(ANN))
    assert (plan.categories, plan.skip) == ((), "user_opted_out")


async def test_a_planned_window_is_skipped_when_its_user_opts_out_before_it_is_worked_on(tables: Tables) -> None:
    await record(tables, 4)
    assert (await steps(tables).plan_window(UserRef.of(ANN))).categories
    await tables.directory.set_preference(ANN, allow_user_memory=False)
    again = await steps(tables).plan_window(UserRef.of(ANN))
    assert (again.window_id, again.categories, again.skip) == ("w1", (), "user_opted_out")


# ------------------------------------------------------------------------------------- what was switched off since it was planned


@pytest.mark.parametrize(
    ("rules", "space", "why"),
    [
        (replace(RULES, feature_flag=frozenset({"globex"})), None, "feature_flag_off"),
        (RULES, SpaceSettings(context_memory=False), "space_off"),
        (RULES, SpaceSettings(memory_categories=dict.fromkeys(Category, False)), "no_category"),
    ],
    ids=["the company's flag", "the space", "all its categories"],
)
async def test_a_planned_window_asks_again_whether_memory_is_on_where_it_was_said(
    tables: Tables, rules: WindowRules, space: SpaceSettings | None, why: str
) -> None:
    await record(tables, 4, space="lab")
    assert (await steps(tables).plan_window(UserRef.of(ANN))).categories
    if space is not None:
        await tables.directory.save_space("acme", "lab", space)
    again = await steps(tables, rules).plan_window(UserRef.of(ANN))
    assert (again.window_id, again.categories, again.skip) == ("w1", (), why)


async def test_a_window_that_runs_again_does_too(tables: Tables) -> None:
    await record(tables, 4, space="lab")
    await steps(tables).plan_window(UserRef.of(ANN))
    await ended(tables, "w1", WindowState.FAILED)
    await tables.windows.reopen(scope=ANN)
    await tables.directory.save_space("acme", "lab", SpaceSettings(context_memory=False))
    again = await steps(tables).plan_window(UserRef.of(ANN))
    assert (again.attempt, again.categories, again.skip) == (1, (), "space_off")


async def test_of_two_spaces_the_one_that_was_switched_off_is_left_out_and_not_shown(tables: Tables) -> None:
    await record(tables, 2)
    await record(tables, 2, space="lab", first=2)
    first = await steps(tables).plan_window(UserRef.of(ANN))
    await tables.windows.save_extraction(ANN, Extraction(window_id="w1", attempt=0, prompt_version="1", model="m"))
    await tables.directory.save_space("acme", "lab", SpaceSettings(context_memory=False))
    assert await steps(tables).plan_window(UserRef.of(ANN)) == first, "its categories are those of the plan"
    window = await the_window(tables)
    assert dict(window.spaces_off) == dict.fromkeys(first.categories, ("lab",))
    assert await tables.windows.extraction(ANN, "w1") is None, "what was read of both spaces is not used"
    assert [stored.seq for stored in shown_events(window, await tables.windows.window_events(window))] == [1, 2]


async def test_all_reasons_are_given(tables: Tables) -> None:
    await record(tables, 4)
    await tables.directory.set_preference(ANN, allow_user_memory=False)
    plan = await steps(tables, replace(RULES, feature_flag=False)).plan_window(UserRef.of(ANN))
    assert plan.skip == "feature_flag_off,user_opted_out"
    await ended(tables, "w1", WindowState.SKIPPED, plan.skip)
    assert await tables.windows.reopen(scope=ANN, states=[WindowState.SKIPPED]) == [], "who opted out is never run again"


# --------------------------------------------------------------------------------------------------------------------- chunks


async def chunk(tables: Tables, *categories: Category, space: str = "lab") -> None:
    said = [MessageEvent(timestamp=AT, sender_id="user", content="The gate closes at 18:00.")]
    await tables.windows.open_chunk(
        ANN, said, chunk_id="chunk-1", categories=categories, guidance=None, model=None, now=AT, space_id=space
    )


async def test_a_chunk_has_the_categories_that_were_asked_for_whatever_the_flags_say(tables: Tables) -> None:
    await chunk(tables, Category.KNOWLEDGE)
    plan = await steps(tables).plan_window(UserRef.of(ANN))
    assert (plan.window_id, plan.categories) == ("chunk-1", (Category.KNOWLEDGE,))


async def test_a_chunk_without_has_those_that_are_on_in_its_space(tables: Tables) -> None:
    await tables.directory.save_space(
        "acme", "lab", SpaceSettings(memory_categories={Category.KNOWLEDGE: True, Category.BIOS: False})
    )
    await chunk(tables)
    plan = await steps(tables).plan_window(UserRef.of(ANN))
    assert set(plan.categories) == {Category.KNOWLEDGE, *ON_BY_DEFAULT} - {Category.BIOS}


@pytest.mark.parametrize("why", ["feature_flag_off", "space_off", "user_opted_out", "no_category"])
async def test_a_chunk_is_skipped_where_memory_is_off(tables: Tables, why: str) -> None:
    rules = replace(RULES, feature_flag=why != "feature_flag_off")
    if why == "space_off":
        await tables.directory.save_space("acme", "lab", SpaceSettings(context_memory=False))
    if why == "no_category":
        await tables.directory.save_space("acme", "lab", SpaceSettings(memory_categories={Category.KNOWLEDGE: False}))
    if why == "user_opted_out":
        await tables.directory.set_preference(ANN, allow_user_memory=False)
    await chunk(tables, Category.KNOWLEDGE)
    plan = await steps(tables, rules).plan_window(UserRef.of(ANN))
    assert (plan.window_id, plan.categories, plan.skip) == ("chunk-1", (), why)


# -------------------------------------------------------------------------------------------------------------- skipped, again


async def ended(tables: Tables, window_id: str, state: WindowState, reason: str | None = None) -> None:
    window = await the_window(tables, window_id)
    assert await tables.windows.commit(ANN, window_id, window.attempt, WindowResult(state, reason), now=datetime.now(UTC))


async def the_window(tables: Tables, window_id: str = "w1") -> Window:
    window = await tables.windows.window(ANN, window_id)
    assert window is not None
    return window


async def test_a_skipped_window_that_runs_again_is_planned_with_the_settings_of_today(tables: Tables) -> None:
    await record(tables, 4)
    off = replace(RULES, flags=dict.fromkeys(Category, False))
    assert (await steps(tables, off).plan_window(UserRef.of(ANN))).skip == "no_category"
    await ended(tables, "w1", WindowState.SKIPPED, "no_category")
    await tables.windows.reopen(scope=ANN, states=[WindowState.SKIPPED])
    on = replace(RULES, flags=dict.fromkeys(Category, True), model="openai:newer")
    plan = await steps(tables, on).plan_window(UserRef.of(ANN))
    assert (plan.window_id, plan.attempt, plan.skip, plan.model) == ("w1", 1, None, "openai:newer")
    assert set(plan.categories) == set(Category)
    window = await the_window(tables)
    assert (window.categories, window.reason, window.model) == (plan.categories, None, "openai:newer")


# -------------------------------------------------------------------------------------------------------------- a spent day


async def test_a_spent_day_begins_nothing(tables: Tables) -> None:
    await record(tables, 4)
    await tables.usage.add(ANN, stage="gate", model="m", usage=Usage(60, 60), now=datetime.now(UTC))
    plan = await steps(tables, cap=100).plan_window(UserRef.of(ANN))
    assert (plan.capped, plan.window_id) == (True, None)
    assert await tables.windows.windows(scope=ANN) == []


async def spend(tables: Tables) -> WindowActivities:
    await tables.usage.add(ANN, stage="gate", model="m", usage=Usage(60, 60), now=datetime.now(UTC))
    return steps(tables, cap=100)


async def test_a_spent_day_does_not_hold_up_what_is_switched_off(tables: Tables) -> None:
    await record(tables, 4)
    await tables.directory.save_space("acme", "default", SpaceSettings(context_memory=False))
    plan = await (await spend(tables)).plan_window(UserRef.of(ANN))
    assert (plan.capped, plan.window_id, plan.skip) == (False, "w1", "space_off")


async def test_nor_calls_without_a_message(tables: Tables) -> None:
    calls = [
        ManagerMethodEvent(
            event_id=f"c{number}",
            timestamp=AT,
            manager="TaskManager",
            method="list",
            phase=Phase.INCOMING,
            calling_id=f"c{number}",
            payload={},
        )
        for number in range(4)
    ]
    await tables.log.record_events(ANN, calls, now=datetime.now(UTC))
    plan = await (await spend(tables)).plan_window(UserRef.of(ANN))
    assert (plan.capped, plan.window_id) == (False, "w1")


async def test_nor_what_was_extracted_already(tables: Tables) -> None:
    await record(tables, 4)
    first = await steps(tables).plan_window(UserRef.of(ANN))
    spent = await spend(tables)
    assert (await spent.plan_window(UserRef.of(ANN))).capped
    await tables.windows.save_extraction(ANN, Extraction(window_id="w1", attempt=0, prompt_version="1", model="m"))
    assert await spent.plan_window(UserRef.of(ANN)) == first
