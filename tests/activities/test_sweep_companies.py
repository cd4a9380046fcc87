"""A pass of the sweeper takes no longer with many companies: it looks at so many of them, and in time at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlalchemy import insert
from temporalio.testing import ActivityEnvironment

from activities.sweep import COMPANIES_PER_PASS
from memory.model.steps import SweepInput, SweepReport
from memory.stores.tables import build_tables
from memory.stores.tables.rows import ROOTS
from tests.support.sweeping import Nobody, sweep_steps

COMPANIES = 3 * COMPANIES_PER_PASS


class Counting(Nobody):
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def sweep_staging(self, *given: Any, **__: Any) -> int:
        self.asked[given[0]] += 1
        return 0


async def test_a_pass_looks_at_so_many_companies_and_the_passes_at_all() -> None:
    tables, profiles = build_tables("sqlite://"), Counting()
    names = [f"company-{number}" for number in range(COMPANIES)]
    rows = [{"tenant": name, "folder": "user-memory", "active": True} for name in names]
    await tables.database.write(lambda connection: connection.execute(insert(ROOTS), rows))
    steps = sweep_steps(tables, profiles)

    async def sweep() -> Counter[str]:
        profiles.asked.clear()
        report: SweepReport = await ActivityEnvironment().run(steps.sweep, SweepInput())
        assert not report.failed_parts
        return Counter(profiles.asked)

    first = await sweep()
    assert (len(first), first.total()) == (COMPANIES_PER_PASS, COMPANIES_PER_PASS), "none is asked twice in a pass"
    seen = set(first)
    for _ in range(60):  # a company is missed by all of them once in 10^10 times
        seen |= set(await sweep())
        if len(seen) == COMPANIES:
            break
    assert seen == set(names)
    await tables.aclose()
