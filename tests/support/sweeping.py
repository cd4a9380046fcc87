"""The sweeper's activities on real tables, with vectors in memory and nobody to wake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from activities.sweep import SweepActivities
from memory.metering import Meter
from memory.model.scope import Scope
from memory.retrieval import SearchIndex
from memory.stores.tables import Tables
from starter.search import index_over
from tests.activities.test_window_plan import RULES
from tests.support.vectors import MemoryVectors


class Nobody:
    """Starts no run and has no staged files."""

    async def wake(self, scope: Scope, turn_ids: tuple[str, ...]) -> None: ...

    async def wake_windows(self, scope: Scope, waiting: int) -> None: ...

    async def start_loop(self, scope: Scope, loop_id: str) -> bool:
        return False

    async def start_forget(self, tenant: str, erasure_id: str) -> None: ...

    async def sweep_staging(self, *_: Any, **__: Any) -> int:
        return 0


def sweep_steps(tables: Tables, nobody: Nobody, index: SearchIndex | None = None, **rules: Any) -> SweepActivities:
    """``nobody``: waker and profiles in one. ``rules``: changes to the rules of windows."""
    profiles: Any = nobody
    return SweepActivities(
        tables.log,
        tables.directory,
        profiles,
        nobody,
        ledger=tables.windows,
        loops=tables.loops,
        index=index or index_over(tables, MemoryVectors()),
        meter=Meter(tables.usage, cap=0),
        rules=replace(RULES, **rules),
    )
