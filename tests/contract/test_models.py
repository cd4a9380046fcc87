"""What every language model of the port does, whoever provides it.

OpenAI and Anthropic are the real SDKs against a server on this machine; the simulated model misbehaves by its own faults.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from memory.llm.factory import build_models
from memory.model.errors import ModelError, ModelRateLimited, ModelRejected, ModelTimedOut, ModelUnavailable
from memory.model.profile import EMPTY_PROFILE
from memory.model.turn import Turn
from memory.ports import ChatModel, ChatReply, ChatRequest, ModelProvider, StopReason
from memory.prompts import gate_request
from memory.settings import load_settings
from tests.support.model_stub import ModelStub, StubReply

NAMES = {"openai": "openai:gpt-4.1-mini", "anthropic": "anthropic:claude-haiku-4-5", "simulated": "simulated"}
SHORT_S = 0.3
CANARY = "canary-7f3a9e"
KEY = "sk-test-0123456789abcdef"

STUBBED = {
    "answer": StubReply("NOOP"),
    "empty": StubReply(""),
    "truncated": StubReply("NO", stop="length"),
    "refused": StubReply("I cannot", stop="refused"),
    "rate_limited": StubReply(status=429),
    "rate_limited_retry_after": StubReply(status=429, headers={"Retry-After": "2"}),
    "server_error": StubReply(status=500),
    "rejected": StubReply(status=400),
    "timeout": StubReply(fault="hang"),
}


def ask(text: str, *, timeout_s: float = 20.0) -> ChatRequest:
    turn = Turn(turn_id="t1", user_text=text, assistant_text="I see.", occurred_at=datetime(2026, 6, 17, 12, tzinfo=UTC))
    return gate_request(EMPTY_PROFILE, [turn], reasoning=False, timeout_s=timeout_s)


@dataclass
class Bench:
    """A provider under test. ``model_that(kind)`` gives a model whose next reply is of that kind."""

    provider: str
    model_that: Callable[[str], ChatModel]
    models: ModelProvider


@pytest.fixture(params=NAMES)
async def bench(request: pytest.FixtureRequest, model_stub: ModelStub) -> AsyncIterator[Bench]:
    opened: list[ModelProvider] = []

    def models(**settings: str) -> ModelProvider:
        opened.append(build_models(load_settings({}, openai_api_key=KEY, anthropic_api_key=KEY, **model_stub.settings, **settings)))
        return opened[-1]

    def stubbed(kind: str) -> ChatModel:
        model_stub.script(STUBBED[kind])
        return first.model(NAMES[request.param])

    def simulated(kind: str) -> ChatModel:
        return models(simulated_faults="" if kind == "answer" else f"{kind}=1").model("simulated")

    first = models()
    yield Bench(request.param, simulated if request.param == "simulated" else stubbed, first)
    for provider in opened:
        await provider.aclose()


async def failure(model: ChatModel, request: ChatRequest) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.complete(request)
    return caught.value


async def test_a_reply_has_text_stop_usage_and_model(bench: Bench) -> None:
    model = bench.model_that("answer")
    reply = await model.complete(ask("Thanks, that is all."))
    assert reply.text.strip() == "NOOP"
    assert reply.stop is StopReason.END
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0
    assert 0 <= reply.usage.cached_input_tokens <= reply.usage.input_tokens
    assert reply.usage.calls == 1
    assert reply.model
    assert model.name == NAMES[bench.provider]
    assert model.reasoning is False


async def test_an_empty_reply_is_no_error(bench: Bench) -> None:
    assert (await bench.model_that("empty").complete(ask("hello"))).text == ""


async def test_a_reply_cut_at_the_output_limit_says_so(bench: Bench) -> None:
    assert (await bench.model_that("truncated").complete(ask("I am Ada."))).stop is StopReason.LENGTH


async def test_a_refusal_says_so(bench: Bench) -> None:
    assert (await bench.model_that("refused").complete(ask("I am Ada."))).stop is StopReason.REFUSED


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("rate_limited", ModelRateLimited),
        ("server_error", ModelUnavailable),
        ("rejected", ModelRejected),
        ("timeout", ModelTimedOut),
    ],
)
async def test_failures_have_their_error(bench: Bench, kind: str, error: type[ModelError]) -> None:
    caught = await failure(bench.model_that(kind), ask("I am Ada.", timeout_s=SHORT_S if kind == "timeout" else 20))
    assert type(caught) is error
    assert len(caught.message) <= 500


async def test_a_rate_limit_tells_the_wait_that_was_asked_for(bench: Bench) -> None:
    plain = await failure(bench.model_that("rate_limited"), ask("I am Ada."))
    told = await failure(bench.model_that("rate_limited_retry_after"), ask("I am Ada."))
    assert isinstance(plain, ModelRateLimited)
    assert plain.retry_after_s is None
    assert isinstance(told, ModelRateLimited)
    assert told.retry_after_s is not None
    assert 0 < told.retry_after_s <= 600


async def test_neither_text_nor_key_is_in_errors_representations_or_logs(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    request = ask(f"My name is {CANARY}.", timeout_s=SHORT_S)
    shown = [repr(request), repr(bench.models)]
    causes: list[BaseException | None] = []
    for kind in STUBBED:
        model = bench.model_that(kind)
        shown.append(repr(model))
        try:
            shown.append(repr(await model.complete(request)))
        except ModelError as error:
            shown.append("".join(traceback.format_exception(error)))
            causes.append(error.__cause__)
    everything = "\n".join([*shown, caplog.text])
    assert causes == [None] * 5, "Temporal would record a cause, whose body may repeat the prompt"
    assert len(shown) == 2 + 2 * len(STUBBED)
    assert CANARY not in everything
    assert KEY not in everything


async def test_fifty_calls_at_once_each_get_their_own_reply(bench: Bench, model_stub: ModelStub) -> None:
    """User n says n; every second one has something lasting to say."""
    model_stub.default = lambda request: StubReply(f"{(request.messages[-1][1].count('My name is') and 'UPDATE') or 'NOOP'}")
    model = bench.models.model(NAMES[bench.provider])
    asked = [ask(f"My name is Ada{n} and I live in Paris." if n % 2 else f"Thanks, number {n}!") for n in range(50)]
    replies: list[ChatReply] = await asyncio.gather(*(model.complete(request) for request in asked))
    assert [reply.text.strip() for reply in replies] == ["NOOP", "UPDATE"] * 25
    assert len(model_stub.requests) == (0 if bench.provider == "simulated" else 50)


async def test_the_same_model_is_one_object_and_works_after_a_failure(bench: Bench) -> None:
    failed = await failure(bench.model_that("server_error"), ask("hello"))
    assert isinstance(failed, ModelUnavailable)
    model = bench.model_that("answer")
    assert (await model.complete(ask("Thanks, that is all."))).stop is StopReason.END
    assert bench.models.model(NAMES[bench.provider]) is bench.models.model(NAMES[bench.provider])


async def test_cancelling_a_call_ends_it(bench: Bench, model_stub: ModelStub) -> None:
    model = bench.model_that("timeout")
    call = asyncio.create_task(model.complete(ask("hello", timeout_s=60)))
    if bench.provider == "simulated":
        await asyncio.sleep(0)
    else:
        await asyncio.to_thread(model_stub.wait_for_requests, 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_text_that_no_encoding_can_send_does_not_fail(bench: Bench) -> None:
    request = ask("hello")
    message = request.messages[-1]
    broken = replace(request, messages=(replace(message, parts=(replace(message.parts[0], text="a\ud83d\x00b"),)),))
    assert (await bench.model_that("answer").complete(broken)).usage.calls == 1
