"""What the OpenAI and Anthropic adapters send, and what they make of what a server does."""

from __future__ import annotations

import json
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from memory.llm import wire
from memory.llm.factory import build_models
from memory.model.errors import (
    ModelError,
    ModelRateLimited,
    ModelRejected,
    ModelTimedOut,
    ModelUnavailable,
)
from memory.ports import ChatMessage, ChatModel, ChatRequest, ModelProvider, PromptPart, StopReason
from memory.settings import load_settings
from tests.support.model_stub import ModelStub, StubReply, StubRequest

KEY = "sk-test-0123456789abcdef"
CANARY = "canary-7f3a9e"
SCHEMA = {"type": "object", "properties": {"ops": {"type": "array"}}, "required": ["ops"], "additionalProperties": False}

MakeModels = Callable[..., ModelProvider]


def ask(
    *,
    system: tuple[PromptPart, ...] = (PromptPart("Say what you see.", cacheable=True),),
    user: tuple[PromptPart, ...] = (PromptPart("hello"),),
    schema: dict[str, Any] | None = None,
    timeout_s: float = 20.0,
) -> ChatRequest:
    return ChatRequest("consolidate", system, (ChatMessage("user", user),), 321, timeout_s, schema, "profile_edits")


@pytest.fixture
async def make_models(model_stub: ModelStub) -> AsyncIterator[MakeModels]:
    opened: list[ModelProvider] = []

    def make(**settings: Any) -> ModelProvider:
        given = {"openai_api_key": KEY, "anthropic_api_key": KEY, **model_stub.settings, **settings}
        opened.append(build_models(load_settings({}, **given)))
        return opened[-1]

    yield make
    for models in opened:
        await models.aclose()


@pytest.fixture(params=["openai:gpt-4.1-mini", "anthropic:claude-haiku-4-5"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(name: str, make_models: MakeModels) -> ChatModel:
    return make_models().model(name)


async def failure(model: ChatModel, request: ChatRequest | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.complete(request or ask())
    return caught.value


# ------------------------------------------------------------------------------------------------------------ what is sent


async def test_openai_request(make_models: MakeModels, model_stub: ModelStub) -> None:
    conversation = ChatRequest(
        "repair",
        (PromptPart("rules, ", cacheable=True), PromptPart("profile")),
        (
            ChatMessage("user", (PromptPart("one "), PromptPart("two"))),
            ChatMessage("assistant", (PromptPart("bad"),)),
            ChatMessage("user", (PromptPart("again"),)),
        ),
        77,
        20.0,
        SCHEMA,
        "profile edits!",
    )
    await make_models().model("openai:gpt-4.1-mini").complete(conversation)
    [request] = model_stub.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "gpt-4.1-mini",
        "messages": [
            {"role": "system", "content": "rules, profile"},
            {"role": "user", "content": "one two"},
            {"role": "assistant", "content": "bad"},
            {"role": "user", "content": "again"},
        ],
        "max_tokens": 77,
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "profile_edits_", "schema": SCHEMA, "strict": True},
        },
    }


async def test_anthropic_request(make_models: MakeModels, model_stub: ModelStub) -> None:
    request = ask(
        system=(PromptPart("rules", cacheable=True),),
        user=(PromptPart("profile", cacheable=True), PromptPart("\n\n"), PromptPart(""), PromptPart("exchange")),
        schema=SCHEMA,
    )
    await make_models().model("anthropic:claude-haiku-4-5").complete(request)
    [sent] = model_stub.requests
    mark = {"cache_control": {"type": "ephemeral"}}
    assert sent.body == {
        "model": "claude-haiku-4-5",
        "system": [{"type": "text", "text": "rules", **mark}],
        # blank blocks are refused by the API; no character is lost
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "profile\n\n", **mark}, {"type": "text", "text": "exchange"}],
            }
        ],
        "max_tokens": 321,
        "temperature": 0,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    }


async def test_anthropic_takes_at_most_four_cache_marks_the_first_and_the_last(
    make_models: MakeModels, model_stub: ModelStub
) -> None:
    parts = tuple(PromptPart(f"part {n}", cacheable=True) for n in range(6))
    await make_models().model("anthropic:claude-haiku-4-5").complete(ask(system=parts[:3], user=parts[3:]))
    [sent] = model_stub.requests
    blocks = sent.body["system"] + sent.body["messages"][0]["content"]
    assert [block["text"] for block in blocks if "cache_control" in block] == ["part 0", "part 3", "part 4", "part 5"]


async def test_anthropic_messages_are_never_empty(make_models: MakeModels, model_stub: ModelStub) -> None:
    """A model's empty reply is shown to it again in a repair."""
    messages = (
        ChatMessage("user", (PromptPart("go"),)),
        ChatMessage("assistant", (PromptPart(""),)),
        ChatMessage("user", (PromptPart("again"),)),
    )
    await make_models().model("anthropic:m").complete(ChatRequest("repair", (), messages, 10, 20.0))
    [sent] = model_stub.requests
    assert "system" not in sent.body
    assert [text for _, text in sent.messages] == ["go", "(no text)", "again"]


@pytest.mark.parametrize("reasoning_name", ["openai:o3-mini", "openai:gpt-5-mini", "anthropic:claude-think-1"])
async def test_a_reasoning_model_gets_no_temperature(make_models: MakeModels, model_stub: ModelStub, reasoning_name: str) -> None:
    model = make_models().model(reasoning_name)
    assert model.reasoning
    await model.complete(ask())
    assert "temperature" not in model_stub.requests[0].body


async def test_what_counts_as_reasoning_is_a_setting(make_models: MakeModels) -> None:
    models = make_models(reasoning_models="deep")
    assert models.model("openai:my-deep-model").reasoning
    assert not models.model("openai:o3").reasoning


async def test_openai_itself_gets_max_completion_tokens(make_models: MakeModels, model_stub: ModelStub) -> None:
    """Only compatible servers get max_tokens; shown with the client of a model without base URL turned to the stub."""
    model = make_models(openai_base_url=None).model("openai:gpt-4.1")
    client = model._client  # type: ignore[attr-defined]
    assert str(client.base_url) == "https://api.openai.com/v1/"
    client.base_url = f"{model_stub.url}/v1"
    await model.complete(ask())
    assert model_stub.requests[0].body["max_completion_tokens"] == 321
    assert "max_tokens" not in model_stub.requests[0].body


async def test_addresses_and_keys_come_from_settings_only(
    name: str, make_models: MakeModels, model_stub: ModelStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDKs read many variables; another tool's token must not go to our server, nor our prompts to another one."""
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/elsewhere")
    for variable in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(variable, "another-tools-secret")
    await make_models().model(name).complete(ask())
    [request] = model_stub.requests
    assert "another-tools-secret" not in json.dumps(dict(request.headers))
    assert KEY in json.dumps(dict(request.headers))


async def test_a_server_without_a_key(name: str, make_models: MakeModels, model_stub: ModelStub) -> None:
    model = make_models(openai_api_key=None, anthropic_api_key=None).model(name)
    assert (await model.complete(ask())).text == "OK"
    assert "no-key" in json.dumps(dict(model_stub.requests[0].headers))


# -------------------------------------------------------------------------------------------------------- what comes back


@pytest.mark.parametrize(
    ("name", "word", "stop"),
    [
        ("openai:m", "stop", StopReason.END),
        ("openai:m", "length", StopReason.LENGTH),
        ("openai:m", "content_filter", StopReason.REFUSED),
        ("openai:m", "tool_calls", StopReason.OTHER),
        ("openai:m", "something_new", StopReason.OTHER),
        ("openai:m", None, StopReason.OTHER),
        ("anthropic:m", "end_turn", StopReason.END),
        ("anthropic:m", "stop_sequence", StopReason.END),
        ("anthropic:m", "max_tokens", StopReason.LENGTH),
        ("anthropic:m", "model_context_window_exceeded", StopReason.LENGTH),
        ("anthropic:m", "refusal", StopReason.REFUSED),
        ("anthropic:m", "pause_turn", StopReason.OTHER),
        ("anthropic:m", "tool_use", StopReason.OTHER),
        ("anthropic:m", None, StopReason.OTHER),
    ],
)
async def test_stop_reasons(make_models: MakeModels, model_stub: ModelStub, name: str, word: Any, stop: StopReason) -> None:
    model_stub.script(StubReply("text", stop=word))
    assert (await make_models().model(name).complete(ask())).stop is stop


async def test_null_content_is_an_empty_text(model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(StubReply(None))
    assert (await model.complete(ask())).text == ""


async def test_usage_is_counted_alike(model: ChatModel, model_stub: ModelStub) -> None:
    """Anthropic reports cached input beside input, OpenAI within it; ours is always within."""
    model_stub.script(StubReply(tokens=(100, 7, 60)))
    usage = (await model.complete(ask())).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.calls) == (100, 7, 60, 1)


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("openai:m", {"choices": [{"message": {"content": "hi"}}]}, "hi"),
        ("openai:m", {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": None}, "hi"),
        ("openai:m", {"choices": [{"message": {"content": "hi"}}], "usage": {"prompt_tokens": None}}, "hi"),
        ("openai:m", {"choices": [{"message": {"content": "hi"}}], "usage": {"prompt_tokens": "many"}}, "hi"),
        ("openai:m", {"choices": [{"message": {"content": [{"type": "text", "text": "h"}, {"text": "i"}]}}]}, "hi"),
        ("openai:m", {"choices": [{"message": {"refusal": "no", "content": None}, "finish_reason": "stop"}]}, ""),
        ("anthropic:m", {"type": "message", "content": [{"type": "text", "text": "hi"}]}, "hi"),
        ("anthropic:m", {"type": "message", "content": None, "usage": None}, ""),
        (
            "anthropic:m",
            {"type": "message", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]},
            "hi",
        ),
    ],
)
async def test_sparse_replies_of_compatible_servers(
    make_models: MakeModels, model_stub: ModelStub, name: str, body: dict[str, Any], text: str
) -> None:
    model_stub.script(StubReply(body=json.dumps(body)))
    reply = await make_models().model(name).complete(ask())
    assert reply.text == text
    assert reply.model == "m"
    assert reply.usage.input_tokens == 0


async def test_a_refusal_in_its_own_field(make_models: MakeModels, model_stub: ModelStub) -> None:
    body = {"choices": [{"message": {"refusal": "I cannot", "content": None}, "finish_reason": "stop"}]}
    model_stub.script(StubReply(body=json.dumps(body)))
    assert (await make_models().model("openai:m").complete(ask())).stop is StopReason.REFUSED


@pytest.mark.parametrize("body", ["", "<html>login</html>", "{", "[]", "{}", '{"choices": []}', '{"choices": null}', "\xff"])
async def test_a_body_that_is_no_reply(model: ChatModel, model_stub: ModelStub, body: str) -> None:
    model_stub.script(StubReply(body=body.encode("latin-1")))
    error = await failure(model)
    assert type(error) is ModelUnavailable
    assert "not a reply of its API" in error.message
    assert "login" not in error.message


async def test_a_body_without_end_in_sight_is_given_up(
    model: ChatModel, model_stub: ModelStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_BODY_BYTES", 10_000)
    model_stub.script(StubReply("x" * 20_000), StubReply(status=500, message="x" * 20_000))
    assert type(await failure(model)) is ModelUnavailable
    assert type(await failure(model)) is ModelUnavailable


# --------------------------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelRejected),
        (401, ModelRejected),
        (403, ModelRejected),
        (404, ModelRejected),
        (408, ModelTimedOut),
        (409, ModelUnavailable),
        (413, ModelRejected),
        (422, ModelRejected),
        (429, ModelRateLimited),
        (500, ModelUnavailable),
        (503, ModelUnavailable),
        (504, ModelUnavailable),
        (529, ModelRateLimited),
    ],
)
async def test_statuses(model: ChatModel, model_stub: ModelStub, status: int, kind: type[ModelError]) -> None:
    model_stub.script(StubReply(status=status, code="some_code"))
    error = await failure(model)
    assert type(error) is kind
    assert f"answered {status} (some_code), request req_" in error.message
    assert len(model_stub.requests) == 1, "Temporal owns retries"


async def test_error_bodies_that_are_not_json(model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(StubReply(status=502, body="<html>bad gateway</html>"), StubReply(status=400, body=b"\xff\xfe"))
    assert type(await failure(model)) is ModelUnavailable
    assert type(await failure(model)) is ModelRejected


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "3"}, 3, 3),
        ({"retry-after-ms": "1500"}, 1.5, 1.5),
        ({"Retry-After": "100000"}, 600, 600),
        ({"Retry-After": format_datetime(datetime.now(UTC) + timedelta(hours=6), usegmt=True)}, 1, 21_600),
    ],
)
async def test_retry_after(model: ChatModel, model_stub: ModelStub, headers: dict[str, str], low: float, high: float) -> None:
    model_stub.script(StubReply(status=429, headers=headers), StubReply(status=503, headers=headers))
    for _ in range(2):
        error = await failure(model)
        assert isinstance(error, ModelRateLimited)
        assert error.retry_after_s is not None
        assert low <= error.retry_after_s <= high


async def test_no_quota_left_is_not_retried(make_models: MakeModels, model_stub: ModelStub) -> None:
    model_stub.script(StubReply(status=429, code="insufficient_quota", headers={"Retry-After": "3"}))
    error = await failure(make_models().model("openai:gpt-4.1"))
    assert type(error) is ModelRejected
    assert "quota" in error.message


@pytest.mark.parametrize("fault", ["hang", "drip"])
async def test_the_whole_call_is_bounded(model: ChatModel, model_stub: ModelStub, fault: Any) -> None:
    model_stub.script(StubReply(fault=fault))
    error = await failure(model, ask(timeout_s=0.3))
    assert type(error) is ModelTimedOut
    assert "0.3 s" in error.message


@pytest.mark.parametrize("fault", ["drop", "cut"])
async def test_a_broken_connection(model: ChatModel, model_stub: ModelStub, fault: Any) -> None:
    model_stub.script(StubReply("a long reply " * 100, fault=fault))
    error = await failure(model)
    assert type(error) is ModelUnavailable
    assert (await model.complete(ask())).text == "OK"


async def test_nobody_listens(name: str, make_models: MakeModels) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = await failure(make_models(openai_base_url=url, anthropic_base_url=url).model(name))
    assert type(error) is ModelUnavailable
    assert "could not be reached" in error.message


async def test_redirects_are_not_followed(model: ChatModel, model_stub: ModelStub) -> None:
    """The key and the prompt go to no host but the configured one."""
    with ModelStub() as elsewhere:
        for status in (302, 307):
            model_stub.script(StubReply(status=status, headers={"Location": f"{elsewhere.url}/v1/messages"}))
            error = await failure(model)
            assert type(error) is ModelRejected
            assert "redirects" in error.message
        assert elsewhere.requests == []


async def test_an_error_that_repeats_prompt_and_key_is_not_repeated(
    name: str, make_models: MakeModels, model_stub: ModelStub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "anthropic")  # what ANTHROPIC_LOG=debug does: the SDK then logs prompts
    model = make_models().model(name)
    echo = f"Incorrect API key {KEY} for: my name is {CANARY}"
    for status in (400, 401, 429, 500):
        model_stub.script(StubReply(status=status, code=echo, message=echo, headers={"request-id": CANARY + " x"}))
        error = await failure(model, ask(user=(PromptPart(f"my name is {CANARY}"),)))
        shown = "".join(traceback.format_exception(error)) + repr(vars(error)) + caplog.text
        assert CANARY not in shown
        assert KEY not in shown
        assert error.__cause__ is None


# -------------------------------------------------------------------------------------------- options that servers refuse


def refusing(*options: str) -> Callable[[StubRequest], StubReply]:
    """A server that answers 400 to a request that has one of these fields."""

    def answer(request: StubRequest) -> StubReply:
        for option in options:
            if option in request.body:
                return StubReply(status=400, code="invalid_request_error", message=f"Unsupported parameter: '{option}'")
        return StubReply("plain")

    return answer


@pytest.mark.parametrize(
    ("name", "option"), [("openai:m", "response_format"), ("anthropic:m", "output_config"), ("anthropic:m", "temperature")]
)
async def test_a_refused_option_is_left_out_from_then_on(
    make_models: MakeModels, model_stub: ModelStub, caplog: pytest.LogCaptureFixture, name: str, option: str
) -> None:
    model_stub.default = refusing(option)
    model = make_models().model(name)
    for _ in range(3):
        assert (await model.complete(ask(schema=SCHEMA))).text == "plain"
    assert [option in request.body for request in model_stub.requests] == [True, False, False, False]
    assert "does not take" in caplog.text


async def test_several_options_may_be_refused(make_models: MakeModels, model_stub: ModelStub) -> None:
    model_stub.default = refusing("response_format", "temperature", "max_tokens")
    model = make_models().model("openai:m")
    assert (await model.complete(ask(schema=SCHEMA))).text == "plain"
    assert len(model_stub.requests) == 4
    assert model_stub.requests[-1].body.keys() == {"model", "messages", "max_completion_tokens"}


async def test_a_server_that_refuses_both_names_of_the_limit(make_models: MakeModels, model_stub: ModelStub) -> None:
    model_stub.default = refusing("max_tokens", "max_completion_tokens")
    assert type(await failure(make_models().model("openai:m"))) is ModelRejected
    assert len(model_stub.requests) == 2


async def test_what_did_not_help_is_not_remembered(model: ChatModel, model_stub: ModelStub) -> None:
    """A rejection that merely mentions an option (it may quote the prompt) changes nothing for the next call."""
    rejection = StubReply(status=400, message="bad request: json_schema and temperature")
    model_stub.script(*[rejection] * 3)
    assert type(await failure(model, ask(schema=SCHEMA))) is ModelRejected
    asked = len(model_stub.requests)
    assert asked <= 3
    await model.complete(ask(schema=SCHEMA))
    assert "temperature" in model_stub.requests[asked].body
    assert model_stub.requests[asked].schema == SCHEMA


async def test_an_ordinary_rejection_is_one_call(model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(StubReply(status=400, code="context_length_exceeded", message="maximum context length is 8192 tokens"))
    error = await failure(model, ask(schema=SCHEMA))
    assert type(error) is ModelRejected
    assert len(model_stub.requests) == 1
