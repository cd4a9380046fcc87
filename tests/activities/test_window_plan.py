"""Which categories a window has: flags of the deployment, of spaces, the user's own wish; written down once. Real SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.windows import WindowActivities, WindowRules
from memory.metering import Meter
from memory.model.category import ON_BY_DEFAULT, Category
from memory.model.directory import SpaceSettings
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.steps import UserRef
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
    return WindowActivities(tables.windows, tables.directory, unused, unused, Meter(tables.usage, cap=cap), rules)


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


async def test_a_spent_day_begins_nothing(tables: Tables) -> None:
    from memory.ports import Usage

    await record(tables, 4)
    await tables.usage.add(ANN, stage="gate", model="m", usage=Usage(60, 60), now=datetime.now(UTC))
    plan = await steps(tables, cap=100).plan_window(UserRef.of(ANN))
    assert (plan.capped, plan.window_id) == (True, None)
    assert await tables.windows.windows(scope=ANN) == []
