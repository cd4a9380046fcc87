"""The sweep's retention: out of the index first, then out of the log. Real SQLite, vectors in memory that can be away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.steps import SweepInput, SweepReport
from memory.model.window import Window, WindowState
from memory.ports import WindowResult
from memory.stores.tables import Tables, build_tables
from starter.search import index_over
from tests.support.sweeping import Nobody, sweep_steps
from tests.support.vectors import MemoryVectors

ANN = Scope.of("acme", "ann")
NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=40)


@pytest.fixture
async def tables() -> AsyncIterator[Tables]:
    made = build_tables("sqlite://")
    yield made
    await made.aclose()


async def test_while_the_vectors_are_away_nothing_goes_and_afterwards_all_of_it(tables: Tables) -> None:
    vectors = MemoryVectors()
    index = index_over(tables, vectors)
    said = [MessageEvent(event_id=f"e{n}", timestamp=OLD, sender_id="user", content=f"The heron {n} nests.") for n in range(3)]
    await tables.log.record_events(ANN, said, now=OLD)
    await tables.windows.plan(Window(scope=ANN, window_id="w1", first_seq=1, last_seq=3, events=3, planned_at=OLD))
    await tables.windows.commit(ANN, "w1", 0, WindowResult(WindowState.SKIPPED), now=OLD)
    await index.events.index(ANN)
    steps = sweep_steps(tables, Nobody(), index, retention_days={"acme": 30})

    async def sweep() -> tuple[SweepReport, set[str | None]]:
        report: SweepReport = await ActivityEnvironment().run(steps.sweep, SweepInput())
        stored = await tables.windows.events(ANN, 1, 3)
        return report, {one.event.content for one in stored if isinstance(one.event, MessageEvent)}

    vectors.away = True
    report, texts = await sweep()
    assert ("retention" in report.failed_parts, report.events_expired) == (True, 0)
    assert len(texts) == 3, "what may still be found is still known to be expired"
    vectors.away = False
    report, texts = await sweep()
    assert ("retention" in report.failed_parts, report.events_expired, texts) == (False, 3, {None})
    assert await vectors.count("afterturn_events") == 0
    assert (await tables.terms.statistics("acme", ["u/ann"], "events", [])).documents == 0
