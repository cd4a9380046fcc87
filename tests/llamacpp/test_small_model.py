"""The adapters against a real server with a real model. What it says means nothing, so nothing of it is asserted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from memory.model.errors import ModelTimedOut
from memory.ports import ChatMessage, ChatRequest, ModelProvider, PromptPart, StopReason

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"decision": {"type": "string", "enum": ["UPDATE", "NOOP"]}},
    "required": ["decision"],
    "additionalProperties": False,
}


def ask(text: str, *, limit: int = 24, timeout_s: float = 60.0, schema: dict[str, Any] | None = None) -> ChatRequest:
    system = (PromptPart("You answer in one short sentence.", cacheable=True),)
    return ChatRequest("gate", system, (ChatMessage("user", (PromptPart(text),)),), limit, timeout_s, schema)


@pytest.fixture(params=["openai:small", "anthropic:small"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_a_reply_is_read(llama_models: ModelProvider, name: str) -> None:
    reply = await llama_models.model(name).complete(ask("What is the capital of France?"))
    assert reply.text
    assert reply.stop in {StopReason.END, StopReason.LENGTH}
    assert reply.usage.input_tokens > 10
    assert 0 < reply.usage.output_tokens <= 24


async def test_the_output_limit_is_kept_and_said(llama_models: ModelProvider, name: str) -> None:
    reply = await llama_models.model(name).complete(ask("Write a long story about a ship.", limit=4))
    assert reply.stop is StopReason.LENGTH
    assert reply.usage.output_tokens <= 4


async def test_structured_output_follows_the_schema(llama_models: ModelProvider) -> None:
    reply = await llama_models.model("openai:small").complete(ask("Is this news? I moved to Oslo.", limit=64, schema=SCHEMA))
    if reply.stop is StopReason.END:
        assert json.loads(reply.text)["decision"] in {"UPDATE", "NOOP"}
    else:
        assert reply.stop is StopReason.LENGTH


async def test_structured_output_where_it_is_ignored_is_no_error(llama_models: ModelProvider) -> None:
    reply = await llama_models.model("anthropic:small").complete(ask("Is this news? I moved to Oslo.", schema=SCHEMA))
    assert reply.stop in {StopReason.END, StopReason.LENGTH}


async def test_a_slow_reply_times_out_and_the_next_one_comes(llama_models: ModelProvider, name: str) -> None:
    model = llama_models.model(name)
    with pytest.raises(ModelTimedOut):
        await model.complete(ask("Write a long story about a ship. " * 50, limit=600, timeout_s=0.2))
    assert (await model.complete(ask("Say hello."))).usage.calls == 1


async def test_several_calls_at_once(llama_models: ModelProvider) -> None:
    model = llama_models.model("openai:small")
    replies = await asyncio.gather(*(model.complete(ask(f"Say the number {n}.", limit=8)) for n in range(6)))
    assert all(reply.usage.output_tokens <= 8 for reply in replies)
