"""An extraction through the real SDKs: the schema in each provider's own form, and servers that take no notice of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory.llm.factory import build_models
from memory.model.category import Category
from memory.model.extraction_schema import reply_schema
from memory.ports import ChatModel
from memory.settings import load_settings
from tests.support.extractions import ITEMS, claim, extract, quote, reply, stored, taken
from tests.support.model_stub import ModelStub, StubReply

KEY = "sk-test-0123456789abcdef"
RULE = "Invoices above 500 € need two signatures."
EVERYTHING = {**{category.value: [] for category in Category}, "knowledge": [claim(RULE, quote(1, "two signatures"))]}


@pytest.fixture(params=["openai:gpt-4.1-mini", "anthropic:claude-haiku-4-5"])
async def model(request: pytest.FixtureRequest, model_stub: ModelStub) -> AsyncIterator[ChatModel]:
    models = build_models(load_settings({}, openai_api_key=KEY, anthropic_api_key=KEY, **model_stub.settings))
    yield models.model(request.param)
    await models.aclose()


async def test_the_schema_goes_out_in_the_providers_own_form(model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(StubReply(reply(**EVERYTHING)))
    result = await extract(model, stored(RULE))
    assert [item.statement for item in taken(result, Category.KNOWLEDGE)] == [RULE]
    (sent,) = model_stub.requests
    wanted: dict[str, Any] = reply_schema(ITEMS)
    if sent.api == "openai":
        form = {"name": "window_items", "schema": wanted, "strict": True}
        assert sent.body["response_format"] == {"type": "json_schema", "json_schema": form}
    else:
        assert sent.body["output_config"] == {"format": {"type": "json_schema", "schema": wanted}}
        assert sent.body["system"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    "text",
    [
        f"Here you are:\n```json\n{reply(**EVERYTHING)}\n```\nAnything else?",
        f"<think>{{hm</think>\n{reply(knowledge=EVERYTHING['knowledge'])}",
        "\ufeff" + reply(**EVERYTHING, note="made by an obliging server"),
    ],
)
async def test_a_server_that_ignores_the_schema_is_read_all_the_same(model: ChatModel, model_stub: ModelStub, text: str) -> None:
    model_stub.script(StubReply(text))
    result = await extract(model, stored(RULE))
    assert len(taken(result, Category.KNOWLEDGE)) == 1
    assert all(one.failed is None for one in result.extraction.categories)


async def test_a_server_that_refuses_the_schema_is_asked_without_it(model: ChatModel, model_stub: ModelStub) -> None:
    param = "response_format" if model.name.startswith("openai") else "output_config"
    message = f"Unknown parameter: '{param}' is not supported"
    model_stub.script(StubReply(status=400, code="invalid_request_error", message=message), StubReply(reply(**EVERYTHING)))
    result = await extract(model, stored(RULE))
    assert len(taken(result, Category.KNOWLEDGE)) == 1
    assert model_stub.requests[-1].schema is None


async def test_a_reply_that_is_cut_off_is_asked_for_with_more_room(model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(StubReply(reply(**EVERYTHING)[:60], stop="length"), StubReply(reply(**EVERYTHING)))
    result = await extract(model, stored(RULE))
    assert len(taken(result, Category.KNOWLEDGE)) == 1
    first, second = model_stub.requests
    assert second.max_tokens == 2 * first.max_tokens
    assert result.usage["extract"].calls == 2


async def test_what_a_server_says_of_a_context_that_is_too_long_splits_the_window(model: ChatModel, model_stub: ModelStub) -> None:
    too_long = StubReply(status=400, code="context_length_exceeded", message="prompt is too long: 250000 tokens > 200000 maximum")
    nothing = StubReply(reply(**{category.value: [] for category in Category}))
    model_stub.script(too_long, StubReply(reply(**EVERYTHING)), nothing)
    result = await extract(model, stored(RULE, *("and more of it " * 200 for _ in range(9))))
    assert len(taken(result, Category.KNOWLEDGE)) == 1
    assert result.extraction.flags == ("split:rejected",)
