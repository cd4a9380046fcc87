"""Activities over the light adapters: SQLite in a file, object store in memory; both pass the ports' contract tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from activities.notices import NoticeActivities
from activities.profile import ProfileActivities
from activities.turns import PipelineRules, TurnActivities
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.profiles import Profiles
from memory.stores.migrations import migrate
from memory.stores.notices import LogNotifier
from memory.stores.objects.memory import MemoryObjectStore
from memory.stores.tables import Tables, build_tables


def rules(**changes: object) -> PipelineRules:
    values: dict[str, object] = {
        "default_model": "simulated",
        "feature_flag": True,
        "allow_with_web_search": False,
        "coalesce_max_turns": 10,
        "model_timeout_s": 5.0,
        "store_retry_for_s": 60.0,
        "model_retry_for_s": 60.0,
        "continue_as_new_after_turns": 500,
        "remote_notices": False,
    }
    return PipelineRules(**{**values, **changes})  # type: ignore[arg-type]


@dataclass
class World:
    tables: Tables
    store: MemoryObjectStore
    profiles: Profiles
    scope: Scope

    @property
    def user(self) -> UserRef:
        return UserRef.of(self.scope)

    def turns(self, **changes: object) -> TurnActivities:
        return TurnActivities(
            self.tables.log, self.tables.directory, NoticeActivities(LogNotifier(), review_url=None), rules(**changes)
        )

    @property
    def profile(self) -> ProfileActivities:
        return ProfileActivities(self.profiles, self.tables.directory)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    migrate(url)
    tables = build_tables(url)
    store = MemoryObjectStore()
    yield World(tables, store, Profiles(store, bucket_prefix="test"), Scope.of("acme", "ada"))
    await tables.aclose()
