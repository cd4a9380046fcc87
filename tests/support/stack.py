"""The whole product against real engines in one test process: client, workers, SQLite (or PostgreSQL), S3, Temporal."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest
from temporalio.client import Client

from activities import Collaborators, build_activities
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.ports import ChatModel, TurnSummary
from memory.settings import Settings
from memory.stores.migrations import migrate
from starter import MemoryClient
from starter.client_parts import shared_parts
from starter.views import ProfileView
from tests.support.models import ScriptedProvider
from worker import build_workers, open_collaborators

START = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
GENEROUS: Mapping[str, Any] = {"load_budget_ms": 20_000, "after_answer_budget_ms": 20_000, "feature_flag": True}
"""A busy machine is no reason for a test to fail."""


@dataclass
class Stack:
    """``memory`` is what an orchestrator uses; ``parts`` are the worker's adapters, for looking behind the scenes."""

    settings: Settings
    client: Client
    parts: Collaborators
    memory: MemoryClient

    def user(self, name: str | None = None, tenant: str = "acme") -> Scope:
        """A user that no other test has."""
        return Scope.of(tenant, f"{name or 'user'}-{uuid.uuid4().hex[:8]}")

    async def say(self, scope: Scope, user_text: str | None, assistant_text: str | None = "Noted.", **fields: Any) -> str:
        """Hand over one turn; gives its id. Fails the test when it was not recorded and started."""
        turn = make_turn(user_text, assistant_text, **fields)
        receipt = await self.memory.after_answer(scope, turn)
        assert receipt.status.value in {"recorded", "duplicate", "pending"}, receipt
        return turn.turn_id

    async def settle(self, *scopes: Scope, timeout_s: float = 60.0) -> None:
        """Wait until nothing is waiting or running for these users."""
        for scope in scopes:
            assert await self.memory.wait_until_idle(scope, timeout_s=timeout_s), f"{scope} is not idle after {timeout_s} s"

    async def profile(self, scope: Scope) -> ProfileView:
        return await self.memory.get_profile(scope)

    async def ledger(self, scope: Scope) -> dict[str, TurnSummary]:
        """The user's turns by id, oldest first."""
        rows = await self.parts.log.summaries(scope=scope, limit=1000)
        return {row.turn_id: row for row in reversed(rows)}


class StartStack(Protocol):
    def __call__(
        self, *, model: ChatModel | None = None, workers: bool = True, parts: Mapping[str, Any] | None = None, **settings: Any
    ) -> AbstractAsyncContextManager[Stack]: ...


_moment = START


def make_turn(user_text: str | None, assistant_text: str | None = "Noted.", **fields: Any) -> Turn:
    """A turn with consent and a time of its own, later than the one before."""
    global _moment
    _moment += timedelta(minutes=1)
    values: dict[str, Any] = {"turn_id": uuid.uuid4().hex, "occurred_at": _moment, "allow_user_memory": True, **fields}
    return Turn(user_text=user_text, assistant_text=assistant_text, **values)


@pytest.fixture
def stack(temporal_client: Client, s3_settings: Callable[..., Settings]) -> StartStack:
    """``async with stack(model=…) as s``: everything runs until the block ends.

    ``model``: a model behind the port; None: the settings' own (``simulated``). ``parts``: collaborators to put in place of the
    worker's. ``workers=False``: nobody works. Other keywords are settings.
    """

    @asynccontextmanager
    async def start(
        *, model: ChatModel | None = None, workers: bool = True, parts: Mapping[str, Any] | None = None, **overrides: Any
    ) -> AsyncGenerator[Stack]:
        settings = s3_settings(**{**GENEROUS, **overrides})
        async with running_stack(temporal_client, settings, model=model, workers=workers, parts=parts) as running:
            yield running

    return start


@asynccontextmanager
async def running_stack(
    temporal_client: Client,
    settings: Settings,
    *,
    model: ChatModel | None = None,
    workers: bool = True,
    parts: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Stack]:
    """What the fixture ``stack`` starts; for fixtures that live longer than one test."""
    migrate(settings.sqlalchemy_url)
    async with AsyncExitStack() as exits:
        built = await exits.enter_async_context(open_collaborators(settings, temporal_client))
        if model is not None:
            built = replace(built, models=ScriptedProvider(model))
        built = replace(built, **(parts or {}))
        if workers:
            for worker in build_workers(temporal_client, settings, build_activities(built)):
                await exits.enter_async_context(worker)

        client_parts = shared_parts(built, temporal_client)
        memory = await exits.enter_async_context(MemoryClient.from_parts(settings, client_parts))
        yield Stack(settings, temporal_client, built, memory)
