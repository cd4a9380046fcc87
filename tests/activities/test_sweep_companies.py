"""A pass of the sweeper takes no longer with many companies: it looks at so many of them, and in time at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlalchemy import insert
from temporalio.testing import ActivityEnvironment

from activities.sweep import COMPANIES_PER_PASS, SweepActivities
from memory.metering import Meter
from memory.model.steps import SweepInput, SweepReport
from memory.retrieval import SearchIndex
from memory.stores.tables import build_tables
from memory.stores.tables.rows import ROOTS
from tests.activities.test_retention import Nobody
from tests.activities.test_window_plan import RULES
from tests.support.vectors import MemoryVectors

COMPANIES = 3 * COMPANIES_PER_PASS


class Counting(Nobody):
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def sweep_staging(self, *given: Any, **__: Any) -> int:
        self.asked[given[0]] += 1
        return 0


async def test_a_pass_looks_at_so_many_companies_and_the_passes_at_all() -> None:
    tables, profiles = build_tables("sqlite://"), Counting()
    index = SearchIndex(
        vectors=MemoryVectors(),
        embedder=None,
        terms=tables.terms,
        ledger=tables.windows,
        facts=tables.facts,
        contacts=tables.contacts,
        guidance=tables.guidance,
        functions=tables.functions,
    )
    names = [f"company-{number}" for number in range(COMPANIES)]
    rows = [{"tenant": name, "folder": "user-memory", "active": True} for name in names]
    await tables.database.write(lambda connection: connection.execute(insert(ROOTS), rows))
    asked: Any = profiles
    steps = SweepActivities(
        tables.log,
        tables.directory,
        asked,
        profiles,
        ledger=tables.windows,
        loops=tables.loops,
        index=index,
        meter=Meter(tables.usage, cap=0),
        rules=RULES,
    )

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
