"""What waits in the database, as metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from memory import telemetry
from memory.model.metrics import Metric
from memory.model.scope import Scope
from memory.stores.tables import Tables, build_tables
from starter.backlogs import look
from tests.support.records import ANN


class Gauges:
    """What was set last."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def set(self, metric: Metric, value: float, labels: Mapping[str, str]) -> None:
        self.values[metric.name] = value

    def count(self, metric: Metric, number: float, labels: Mapping[str, str]) -> None: ...

    def observe(self, metric: Metric, value: float, labels: Mapping[str, str]) -> None: ...


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


@pytest.fixture
def gauges() -> Iterator[dict[str, float]]:
    found = Gauges()
    telemetry.install(meters=found)
    yield found.values
    telemetry.install()


async def test_an_erasure_that_is_stuck_shows_its_age_while_others_are_done(tables: Tables, gauges: dict[str, float]) -> None:
    now = datetime.now(UTC)
    stuck, other = ANN, Scope.of("acme", "ben")
    await tables.erasures.open(stuck, erasure_id="e1", requested_by="user", now=now - timedelta(hours=7))
    await tables.erasures.open(other, erasure_id="e2", requested_by="user", now=now)

    async def seen() -> tuple[float, int]:
        await look(tables.log, tables.windows, tables.erasures, window_size=50)
        return gauges["afterturn_erasures_open"], round(gauges["afterturn_oldest_erasure_seconds"] / 3600)

    assert await seen() == (2, 7)
    await tables.erasures.done("acme", "e2", problems=(), now=now)
    assert await seen() == (1, 7)
    await tables.erasures.done("acme", "e1", problems=(), now=now)
    assert await seen() == (0, 0)
    assert gauges["afterturn_oldest_turn_waiting_seconds"] == 0
