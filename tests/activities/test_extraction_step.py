"""The extract step: what a model is shown. Real SQLite, a model that notes its prompt."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.extraction import ExtractionActivities
from memory.categories.spec import Stores
from memory.metering import Meter
from memory.model.category import Category
from memory.model.event import MessageEvent
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.window import Window
from memory.model.window_steps import WindowRef
from memory.ports import ChatReply, ChatRequest, StopReason, Usage
from memory.stores.tables import build_tables

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
        return ChatReply(text='{"bios": []}', stop=StopReason.END, usage=Usage(1, 1), model=self.name)


async def test_what_was_said_where_memory_is_off_is_not_shown_to_a_model() -> None:
    tables, model = build_tables("sqlite://"), Noting()
    provider: Any = model
    nothing_to_search: Any = None
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
    stores = Stores(
        facts=tables.facts,
        contacts=tables.contacts,
        tasks=tables.tasks,
        guidance=tables.guidance,
        functions=tables.functions,
        search=nothing_to_search,
    )
    steps = ExtractionActivities(provider, tables.windows, stores, Meter(tables.usage, cap=0))
    job = WindowRef(user=UserRef.of(ANN), window_id="w1", attempt=0, model="noting", model_timeout_s=60)
    await ActivityEnvironment().run(steps.extract_window, job)
    await tables.aclose()
    assert "The gate closes at six." in "\n".join(model.shown)
    assert "canary" not in "\n".join(model.shown)
