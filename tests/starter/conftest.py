"""A client on a real SQLite database and an object store in memory, with a stand-in for Temporal and switches to break things."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from memory.llm.factory import build_models
from memory.model.errors import StoreUnavailable
from memory.model.profile import Profile, render_body
from memory.model.scope import Scope
from memory.model.steps import TurnsRecorded
from memory.ports import EventLog
from memory.profiles import Profiles
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.objects.memory import MemoryObjectStore
from memory.stores.tables import Tables, build_tables
from starter.client import MemoryClient, Parts
from starter.search import open_search, stores_of

GUARD_S = 30.0
"""Far above every budget in these tests: what would wait for ever fails."""


class FakeTemporal:
    """Takes signals; can be down or hang."""

    def __init__(self) -> None:
        self.down = False
        self.gate: asyncio.Event | None = None
        self.signalled: list[tuple[str, tuple[str, ...]]] = []

    async def start_workflow(self, workflow: str, arg: object, **options: Any) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.down:
            raise RPCError("down", RPCStatusCode.UNAVAILABLE, b"")
        (signal,) = options["start_signal_args"]
        assert isinstance(signal, TurnsRecorded)
        self.signalled.append((options["id"], signal.turn_ids))

    @property
    def turn_ids(self) -> list[str]:
        return [turn_id for _, ids in self.signalled for turn_id in ids]


class Switched:
    """A collaborator with a switch: ``down`` makes its calls fail, ``gate`` makes them hang, ``error`` raises that."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.down = False
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if self.gate is not None:
                await self.gate.wait()
            if self.down:
                raise StoreUnavailable("the database is away (switched off)")
            if self.error is not None:
                raise self.error
            return await real(*args, **kwargs)

        return call


class World:
    def __init__(self, settings: Settings, tables: Tables) -> None:
        self.settings = settings
        self.tables = tables
        self.store = MemoryObjectStore()
        self.profiles = Profiles(self.store, bucket_prefix=settings.bucket_prefix)
        self.log = Switched(tables.log)
        self.directory = Switched(tables.directory)
        self.temporal = FakeTemporal()
        self.clients: list[MemoryClient] = []
        self.index = open_search(self.settings, tables)

    @property
    def real_log(self) -> EventLog:
        return self.tables.log

    def client(self, *, on_notice: Any = None, **overrides: Any) -> MemoryClient:
        async def connected() -> Client:
            return self.temporal  # type: ignore[return-value]

        parts = Parts(
            directory=self.directory,  # type: ignore[arg-type]
            log=self.log,  # type: ignore[arg-type]
            profiles=self.profiles,
            models=build_models(self.settings),
            temporal=connected,
            ledger=self.tables.windows,
            stores=stores_of(self.tables, self.index),
            index=self.index,
            usage=self.tables.usage,
            loops=self.tables.loops,
            knowledge=self.tables.knowledge,
            erasures=self.tables.erasures,
        )
        settings = self.settings.model_copy(update=overrides)
        client = MemoryClient.from_parts(settings, parts, on_notice=on_notice)
        self.clients.append(client)
        return client

    async def save(self, who: tuple[str, str], profile: Profile | str, root: str = "user-memory") -> str:
        """Put a profile where a load finds it; a string is the body as it is. Returns the stored body."""
        scope = Scope.of(*who)
        await self.profiles.prepare(scope.tenant)
        body = profile if isinstance(profile, str) else render_body(profile)
        current = await self.profiles.read(scope, root)
        await self.profiles.commit(
            scope,
            root,
            f"---\nuser_id: x\nschema_version: 1\nturn_count: 3\n---\n\n{body}",
            base_etag=current.etag,
            base_version=current.version,
            write_key=f"w{current.version}",
            cause="edit",
            applied_turns=(),
        )
        return body

    async def recorded(self, who: tuple[str, str]) -> list[str]:
        """Turn ids in the ledger, in order."""
        return [turn.turn.turn_id for turn in await self.real_log.pending(Scope.of(*who), limit=1000)]


MakeWorld = Callable[..., World]


@pytest.fixture
async def make_world(tmp_path: Path) -> AsyncIterator[MakeWorld]:
    made: list[World] = []

    def make(**overrides: Any) -> World:
        # Budgets as wide as a busy machine needs them; tests of the budgets set their own.
        wide = {"load_budget_ms": 20_000, "after_answer_budget_ms": 20_000}
        settings = load_settings({}, **{"data_dir": tmp_path, "feature_flag": True, "embedder": "none", **wide, **overrides})
        migrate(settings.sqlalchemy_url)
        world = World(settings, build_tables(settings))
        made.append(world)
        return world

    yield make
    for world in made:
        for switch in (world.log, world.directory, world.temporal):
            if switch.gate is not None:
                switch.gate.set()
        for client in world.clients:
            await client.aclose()
        await world.tables.aclose()


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world()
