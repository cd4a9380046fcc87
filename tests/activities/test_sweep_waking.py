"""What a pass of the sweeper starts: so many users, so many of them at once, and one that cannot be started holds up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.sweep import WOKEN_AT_ONCE
from memory.model.errors import MemoryUnavailable
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.steps import SweepInput, SweepReport
from memory.model.turn import Turn
from memory.stores.tables import Tables, build_tables
from tests.support.sweeping import Nobody, sweep_steps

BEFORE = datetime.now(UTC) - timedelta(minutes=5)
USERS = [Scope.of("acme", f"user-{number:02}") for number in range(40)]


class Slow(Nobody):
    """Takes its time; ``away``: users for whom Temporal does not answer."""

    def __init__(self, away: set[Scope] | None = None) -> None:
        self.away = away or set()
        self.woken: list[Scope] = []
        self.under_way = self.most = 0

    async def wake(self, scope: Scope, turn_ids: tuple[str, ...]) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        if scope in self.away:
            raise MemoryUnavailable("Temporal does not answer")
        self.woken.append(scope)

    async def wake_windows(self, scope: Scope, waiting: int) -> None:
        await self.wake(scope, ())


@pytest.fixture
async def tables() -> AsyncIterator[Tables]:
    made = build_tables("sqlite://")
    yield made
    await made.aclose()


async def sweep(tables: Tables, waker: Slow, limit: int) -> SweepReport:
    return await ActivityEnvironment().run(sweep_steps(tables, waker).sweep, SweepInput(limit=limit))


async def record_turns(tables: Tables) -> None:
    for number, scope in enumerate(USERS):
        turn = Turn(turn_id="t", user_text="Hello.", assistant_text="Hi.", occurred_at=BEFORE, allow_user_memory=True)
        await tables.log.record_turn(scope, turn, now=BEFORE + timedelta(seconds=number))


async def test_users_with_turns_are_woken_several_at_once_up_to_the_limit_oldest_first(tables: Tables) -> None:
    await record_turns(tables)
    waker = Slow()
    report = await sweep(tables, waker, 30)
    assert sorted(waker.woken, key=USERS.index) == USERS[:30]
    assert 1 < waker.most <= WOKEN_AT_ONCE
    assert (report.users_started, report.failed, report.more, report.failed_parts) == (30, 0, True, ())
    report = await sweep(tables, waker, 100)
    assert (report.users_started, report.more) == (40, False)


async def test_users_for_whom_temporal_does_not_answer_are_counted_and_keep_nobody_else_back(tables: Tables) -> None:
    await record_turns(tables)
    waker = Slow(away=set(USERS[:5]))
    report = await sweep(tables, waker, 100)
    assert set(waker.woken) == set(USERS[5:])
    assert (report.users_started, report.failed, report.failed_parts) == (35, 5, ())


async def test_windows_that_are_due_are_woken_in_the_same_way(tables: Tables) -> None:
    for scope in USERS:
        messages = [MessageEvent(event_id=f"e{n}", timestamp=BEFORE, sender_id="user", content=f"Line {n}.") for n in range(4)]
        await tables.log.record_events(scope, messages, now=BEFORE)
    waker = Slow(away={USERS[0]})
    report = await sweep(tables, waker, 30)
    assert (report.window_users_started + report.failed, report.more) == (30, True)
    assert 1 < waker.most <= WOKEN_AT_ONCE
    report = await sweep(tables, waker, 100)
    assert (report.window_users_started, report.failed, report.more) == (39, 1, False)
