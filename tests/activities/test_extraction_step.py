"""The extract step: what a model is shown. Real SQLite, a model that notes its prompt."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.extraction import ExtractionActivities
from memory.metering import Meter
from memory.model.category import Category
from memory.model.event import MessageEvent
from memory.model.fact import Fact
from memory.model.near_duplicate import statement_key
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.window import Window
from memory.model.window_steps import WindowRef
from memory.ports import AddFact, ChatReply, ChatRequest, StopReason, Usage
from memory.stores.tables import build_tables
from tests.support.extracted import stores_on

ANN = Scope.of("acme", "ann")
AT = datetime(2026, 3, 2, 9, tzinfo=UTC)


class Noting:
    """Finds nothing in what it is shown. Also the provider of itself."""

    name = "noting"
    reasoning = False

    def __init__(self) -> None:
        self.shown: list[str] = []

    def model(self, name: str) -> Noting:
        return self

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.shown += [message.text for message in request.messages]
        return ChatReply(text='{"bios": [], "knowledge": []}', stop=StopReason.END, usage=Usage(1, 1), model=self.name)


async def test_a_model_is_told_what_the_users_teams_know_and_no_other_team() -> None:
    tables, model = build_tables("sqlite://"), Noting()
    provider: Any = model
    await tables.directory.set_teams(ANN, ["garden"])
    for tenant, team, statement in (
        ("acme", "garden", "The gate of the garden closes at six."),
        ("acme", "boats", "The gate of the canary closes at six."),
        ("globex", "garden", "The gate of the canary closes at seven."),
    ):
        owner = Owner.team(tenant, team)
        fact = Fact(fact_id=owner.path, owner=owner.key, statement=statement, observed_at=AT, created_at=AT)
        await tables.facts.apply(owner, [AddFact(owner.path, fact, statement_key(statement))], now=AT)
    said = MessageEvent(event_id="e1", timestamp=AT, sender_id="user", content="When does the gate close?")
    await tables.log.record_events(ANN, [said], now=AT)
    await tables.windows.plan(
        Window(scope=ANN, window_id="w1", first_seq=1, last_seq=1, events=1, categories=(Category.KNOWLEDGE,), planned_at=AT)
    )
    steps = ExtractionActivities(provider, tables.windows, tables.directory, stores_on(tables), Meter(tables.usage, cap=0))
    job = WindowRef(user=UserRef.of(ANN), window_id="w1", attempt=0, model="noting", model_timeout_s=60)
    await ActivityEnvironment().run(steps.extract_window, job)
    await tables.aclose()
    assert "The gate of the garden closes at six." in "\n".join(model.shown)
    assert "canary" not in "\n".join(model.shown)


async def test_what_was_said_where_memory_is_off_is_not_shown_to_a_model() -> None:
    tables, model = build_tables("sqlite://"), Noting()
    provider: Any = model
    for space, text in (("default", "The gate closes at six."), ("lab", "The canary sings at noon.")):
        said = MessageEvent(event_id=space, timestamp=AT, sender_id="user", content=text)
        await tables.log.record_events(ANN, [said], space_id=space, now=AT)
    window = Window(
        scope=ANN,
        window_id="w1",
        first_seq=1,
        last_seq=2,
        events=2,
        categories=(Category.BIOS,),
        spaces_off={Category.BIOS: ("lab",)},
        planned_at=AT,
    )
    await tables.windows.plan(window)
    steps = ExtractionActivities(provider, tables.windows, tables.directory, stores_on(tables), Meter(tables.usage, cap=0))
    job = WindowRef(user=UserRef.of(ANN), window_id="w1", attempt=0, model="noting", model_timeout_s=60)
    await ActivityEnvironment().run(steps.extract_window, job)
    await tables.aclose()
    assert "The gate closes at six." in "\n".join(model.shown)
    assert "canary" not in "\n".join(model.shown)


class Held(Noting):
    """Its first call waits until it is let go; every reply has another number of made-up items."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.shown += [message.text for message in request.messages]
        number = len(self.shown)
        if number == 1:
            self.reached.set()
            await self.let_go.wait()
        made_up = [{"contact": "c1", "text": "Owns a canary.", "evidence": []}] * number
        return ChatReply(text=json.dumps({"bios": made_up}), stop=StopReason.END, usage=Usage(1, 1), model=self.name)


async def test_a_try_that_ends_late_asks_the_same_and_changes_nothing_that_others_build_on() -> None:
    tables, model = build_tables("sqlite://"), Held()
    provider: Any = model
    said = MessageEvent(event_id="e1", timestamp=AT, sender_id="user", content="The gate closes at six.")
    await tables.log.record_events(ANN, [said], now=AT)
    await tables.windows.plan(
        Window(scope=ANN, window_id="w1", first_seq=1, last_seq=1, events=1, categories=(Category.BIOS,), planned_at=AT)
    )
    steps = ExtractionActivities(provider, tables.windows, tables.directory, stores_on(tables), Meter(tables.usage, cap=0))
    job = WindowRef(user=UserRef.of(ANN), window_id="w1", attempt=0, model="noting", model_timeout_s=60)
    late = asyncio.create_task(ActivityEnvironment().run(steps.extract_window, job))
    await model.reached.wait()
    reply = await ActivityEnvironment().run(steps.extract_window, job)
    built_on = await tables.windows.extraction(ANN, "w1", 0)
    assert built_on is not None
    await tables.windows.save_extraction(ANN, built_on.model_copy(update={"refs": {**built_on.refs, "new1": "7"}}))
    model.let_go.set()
    assert (await late).categories == reply.categories
    stored = await tables.windows.extraction(ANN, "w1", 0)
    assert stored is not None
    assert (stored.categories, stored.refs["new1"]) == (built_on.categories, "7")
    await tables.aclose()
    assert len(set(model.shown)) == 1
    assert "Today is 2026-03-02." in model.shown[0]
