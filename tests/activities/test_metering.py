"""What models cost is written down per user and day, and nothing more is asked once the day's tokens are spent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from memory.metering import Meter
from memory.model.errors import SpendCapReached, StoreUnavailable
from memory.model.scope import Scope
from memory.ports import ChatMessage, ChatModel, ChatReply, ChatRequest, PromptPart, StopReason, Usage
from memory.stores.tables import Tables, build_tables

ANN, BEN = Scope.of("acme", "ann"), Scope.of("acme", "ben")
ASK = ChatRequest("extract", (PromptPart("task"),), (ChatMessage("user", (PromptPart("text"),)),), 100, 10)


class Model(ChatModel):
    def __init__(self) -> None:
        self.calls = 0

    @property
    def name(self) -> str:
        return "simulated:counting"

    @property
    def reasoning(self) -> bool:
        return False

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        return ChatReply("{}", StopReason.END, Usage(input_tokens=70, output_tokens=30), self.name)


@pytest.fixture
async def tables() -> AsyncIterator[Tables]:
    made = build_tables("sqlite://")
    yield made
    await made.aclose()


async def test_every_reply_is_booked_by_user_stage_and_model(tables: Tables) -> None:
    meter = Meter(tables.usage, cap=0)
    for scope in (ANN, ANN, BEN):
        await meter.metered(Model(), scope).complete(ASK)
    rows = {row.user: row for row in await tables.usage.rows(tenant="acme")}
    assert (rows["ann"].usage.calls, rows["ann"].usage.input_tokens, rows["ben"].usage.output_tokens) == (2, 140, 30)
    assert (rows["ann"].stage, rows["ann"].model) == ("extract", "simulated:counting")


async def test_a_user_whose_tokens_are_spent_asks_nothing_more_and_others_do(tables: Tables) -> None:
    model = Model()
    meter = Meter(tables.usage, cap=150)
    await meter.metered(model, ANN).complete(ASK)
    await meter.metered(model, ANN).complete(ASK)
    with pytest.raises(SpendCapReached, match="AFTERTURN_DAILY_TOKEN_CAP"):
        await meter.metered(model, ANN).complete(ASK)
    assert model.calls == 2
    await meter.metered(model, BEN).complete(ASK)
    assert await meter.is_spent(ANN)
    assert not await meter.is_spent(BEN)


async def test_what_another_process_spent_counts(tables: Tables) -> None:
    await tables.usage.add(ANN, stage="gate", model="m", usage=Usage(100, 100), now=datetime.now(UTC))
    with pytest.raises(SpendCapReached):
        await Meter(tables.usage, cap=200).metered(Model(), ANN).complete(ASK)


async def test_a_reply_that_cannot_be_booked_is_not_lost_and_still_counts(tables: Tables) -> None:
    class Away:
        async def spent(self, scope: Scope, day: object) -> int:
            return 0

        async def add(self, *_: object, **__: object) -> int:
            raise StoreUnavailable("the database is away")

    meter = Meter(Away(), cap=100)  # type: ignore[arg-type]
    reply = await meter.metered(Model(), ANN).complete(ASK)
    assert (reply.text, meter.unbooked) == ("{}", 1)
    with pytest.raises(SpendCapReached):
        await meter.metered(Model(), ANN).complete(ASK)
