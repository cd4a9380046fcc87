"""Tool calling on the wire: what the adapters send and read, with the real SDKs against a local server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from memory.llm.factory import build_models
from memory.model.errors import ModelRejected
from memory.model.tools import MAX_ARGUMENT_CHARS, MAX_TOOL_CALLS, ToolCall, ToolDefinition, ToolResult
from memory.ports import ChatMessage, ChatModel, ChatRequest, ModelProvider, PromptPart, StopReason
from memory.settings import load_settings
from tests.support.model_stub import ModelStub, StubReply

KEY = "sk-test-0123456789abcdef"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"tables": {"type": "array", "items": {"type": "string"}}}}
TOOLS = (ToolDefinition("filter", "Rows of tables.", SCHEMA), ToolDefinition("reduce", "One figure.", {"type": "object"}))
MARK = {"cache_control": {"type": "ephemeral"}}
MakeModels = Callable[..., ModelProvider]


def ask(*, choice: str = "auto", tools: tuple[ToolDefinition, ...] = TOOLS) -> ChatRequest:
    return ChatRequest(
        "knowledge.ask",
        (PromptPart("rules", cacheable=True),),
        (ChatMessage("user", (PromptPart("how many?", cacheable=True),)),),
        321,
        20.0,
        tools=tools,
        tool_choice=choice,  # type: ignore[arg-type]
    )


def conversation(*, said: str = "and in Norway?") -> ChatRequest:
    calls = (ToolCall("c1", "filter", {"tables": ["Companies"]}), ToolCall("c2", "reduce", None, "{oops"))
    results = (ToolResult("c1", "filter", '{"Companies": []}'), ToolResult("c2", "reduce", "no JSON", is_error=True))
    return replace(
        ask(),
        messages=(
            *ask().messages,
            ChatMessage("assistant", (PromptPart("I look."),), tool_calls=calls),
            ChatMessage("user", (PromptPart(said, cacheable=True),), tool_results=results),
        ),
    )


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


@pytest.fixture(params=["openai:m", "anthropic:m"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(name: str, make_models: MakeModels) -> ChatModel:
    return make_models().model(name)


def calling(name: str, *calls: tuple[str | None, str, Any], text: str | None = None, stop: str | None = None) -> StubReply:
    """A reply with these calls (id, name, arguments), as the API writes it."""
    if name.startswith("openai"):
        made = [
            {"id": call_id, "type": "function", "function": {"name": tool, "arguments": given}} for call_id, tool, given in calls
        ]
        message = {"role": "assistant", "content": text, "tool_calls": made}
        body: dict[str, Any] = {
            "id": "1",
            "object": "chat.completion",
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": stop or "tool_calls"}],
        }
    else:
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        for call_id, tool, given in calls:
            try:
                value = json.loads(given) if isinstance(given, str) else given
            except ValueError:
                value = given
            blocks.append({"type": "tool_use", "id": call_id, "name": tool, "input": value})
        words = {"length": "max_tokens", None: "tool_use"}
        body = {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": blocks,
            "stop_reason": words.get(stop, stop),
        }
    return StubReply(body=json.dumps(body))


# ------------------------------------------------------------------------------------------------------------ what is sent


async def test_openai_sends_tools_calls_and_results(make_models: MakeModels, model_stub: ModelStub) -> None:
    await make_models().model("openai:m").complete(conversation())
    [sent] = model_stub.requests
    assert sent.body["tools"] == [
        {"type": "function", "function": {"name": "filter", "description": "Rows of tables.", "parameters": SCHEMA}},
        {"type": "function", "function": {"name": "reduce", "description": "One figure.", "parameters": {"type": "object"}}},
    ]
    assert "tool_choice" not in sent.body
    assert not sent.body.get("stream")
    assert sent.body["messages"] == [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "how many?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "filter", "arguments": '{"tables": ["Companies"]}'}},
                {"id": "c2", "type": "function", "function": {"name": "reduce", "arguments": '{"unreadable": "{oops"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"Companies": []}'},
        {"role": "tool", "tool_call_id": "c2", "content": "no JSON"},
        {"role": "user", "content": "and in Norway?"},
    ]


async def test_openai_leaves_out_the_user_message_that_says_nothing(make_models: MakeModels, model_stub: ModelStub) -> None:
    await make_models().model("openai:m").complete(conversation(said=""))
    assert [message["role"] for message in model_stub.requests[0].body["messages"]][-2:] == ["tool", "tool"]


async def test_anthropic_sends_tools_calls_and_results(make_models: MakeModels, model_stub: ModelStub) -> None:
    await make_models().model("anthropic:m").complete(conversation())
    [sent] = model_stub.requests
    assert sent.body["tools"] == [
        {"name": "filter", "description": "Rows of tables.", "input_schema": SCHEMA},
        {"name": "reduce", "description": "One figure.", "input_schema": {"type": "object"}, **MARK},
    ]
    assert "tool_choice" not in sent.body
    assert sent.body["system"] == [{"type": "text", "text": "rules", **MARK}]
    assert sent.body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "how many?", **MARK}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "filter", "input": {"tables": ["Companies"]}},
                {"type": "tool_use", "id": "c2", "name": "reduce", "input": {"unreadable": "{oops"}},
            ],
        },
        {
            "role": "user",
            # results first: the API refuses text before them
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": '{"Companies": []}'},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no JSON", "is_error": True},
                {"type": "text", "text": "and in Norway?", **MARK},
            ],
        },
    ]


async def test_anthropic_marks_the_last_result_where_nothing_is_said(make_models: MakeModels, model_stub: ModelStub) -> None:
    await make_models().model("anthropic:m").complete(conversation(said=""))
    blocks = model_stub.requests[0].body["messages"][-1]["content"]
    assert [block.get("cache_control") for block in blocks] == [None, MARK["cache_control"]]


async def test_anthropic_sends_at_most_four_cache_marks_the_tools_first(make_models: MakeModels, model_stub: ModelStub) -> None:
    request = conversation()
    parts = tuple(PromptPart(f"part {number}", cacheable=True) for number in range(4))
    await make_models().model("anthropic:m").complete(replace(request, system=parts))
    body = model_stub.requests[0].body
    assert "cache_control" in body["tools"][-1]
    assert json.dumps(body).count("cache_control") == 4
    assert "cache_control" in body["messages"][-1]["content"][-1]


@pytest.mark.parametrize(
    ("name", "choice", "sent"),
    [
        ("openai:m", "required", "required"),
        ("openai:m", "none", "none"),
        ("anthropic:m", "required", {"type": "any"}),
        ("anthropic:m", "none", {"type": "none"}),
    ],
)
async def test_tool_choice(model: ChatModel, model_stub: ModelStub, choice: str, sent: Any) -> None:
    await model.complete(ask(choice=choice))
    assert model_stub.requests[0].body["tool_choice"] == sent


async def test_without_tools_nothing_about_them_is_sent(model: ChatModel, model_stub: ModelStub) -> None:
    await model.complete(ask(tools=()))
    assert not {"tools", "tool_choice"} & model_stub.requests[0].body.keys()


async def test_a_conversation_with_calls_is_text_where_no_tools_are_offered(model: ChatModel, model_stub: ModelStub) -> None:
    """Both APIs refuse calls of tools that the request does not define."""
    await model.complete(replace(conversation(), tools=()))
    assert [role for role, _ in model_stub.requests[0].messages] == ["user", "assistant", "user"]
    assert "<tool_call>" in model_stub.requests[0].messages[1][1]


async def test_lone_surrogates_are_sent_safely(model: ChatModel, model_stub: ModelStub) -> None:
    bad = "\ud83d"
    request = replace(
        ask(tools=(replace(TOOLS[0], description=f"Rows {bad}"),)),
        messages=(
            ChatMessage("user", (PromptPart("go"),)),
            ChatMessage(
                "assistant", (), tool_calls=(ToolCall("c1", "filter", {"filter": bad}), ToolCall("c2", "filter", None, bad))
            ),
            ChatMessage("user", (), tool_results=(ToolResult("c1", "filter", bad), ToolResult("c2", "filter", "x"))),
        ),
    )
    await model.complete(request)
    assert bad.encode("utf-8", "surrogatepass") not in model_stub.requests[0].raw
    assert b"\\ud83d" not in model_stub.requests[0].raw.lower()


# -------------------------------------------------------------------------------------------------------- what comes back


async def test_calls_are_read(name: str, model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(
        calling(name, ("c1", "filter", '{"tables": ["A"]}'), ("c2", "nobody_knows", '{"x": 1}'), text="I look. \ud83d")
    )
    reply = await model.complete(ask())
    assert reply.stop is StopReason.TOOLS
    assert reply.text.startswith("I look.")
    assert [(call.call_id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("c1", "filter", {"tables": ["A"]}),
        ("c2", "nobody_knows", {"x": 1}),
    ]


@pytest.mark.parametrize("given", ['{"tables": ["A"', "tables=A", "[1]", json.dumps({"x": "y" * MAX_ARGUMENT_CHARS})])
async def test_arguments_that_cannot_be_read_are_kept_as_they_came(
    name: str, model: ChatModel, model_stub: ModelStub, given: str
) -> None:
    model_stub.script(calling(name, ("c1", "filter", given)))
    [call] = (await model.complete(ask())).tool_calls
    assert call.arguments is None
    assert len(call.raw) <= MAX_ARGUMENT_CHARS
    assert call.raw[:8] == given[:8]


async def test_surrogates_in_arguments_can_be_stored(name: str, model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(calling(name, ("c1", "filter", '{"filter": "\\ud83d", "tables": ["\\ud83d\\ude00"]}')))
    [call] = (await model.complete(ask())).tool_calls
    assert call.arguments == {"filter": "\ufffd", "tables": ["\U0001f600"]}
    call.raw.encode()


async def test_calls_beyond_the_limit_are_marked(name: str, model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(calling(name, *((f"c{number}", "filter", "{}") for number in range(MAX_TOOL_CALLS + 2))))
    calls = (await model.complete(ask())).tool_calls
    assert [call.beyond for call in calls] == [False] * MAX_TOOL_CALLS + [True, True]
    assert [call.call_id for call in calls][-1] == f"c{MAX_TOOL_CALLS + 1}"


async def test_missing_and_repeated_ids_are_replaced(name: str, model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(calling(name, (None, "filter", "{}"), ("a", "filter", "{}"), ("a", "filter", "{}"), ("", "filter", "{}")))
    ids = [call.call_id for call in (await model.complete(ask())).tool_calls]
    assert len(set(ids)) == 4
    assert all(ids)


async def test_a_reply_that_is_cut_off_calls_nothing(name: str, model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(calling(name, ("c1", "filter", "{}"), ("c2", "filter", '{"a'), stop="length"))
    reply = await model.complete(ask())
    assert (reply.tool_calls, reply.stop) == ((), StopReason.LENGTH)


async def test_calls_that_nobody_allowed_are_dropped(name: str, model: ChatModel, model_stub: ModelStub) -> None:
    for request in (ask(choice="none"), ask(tools=())):
        model_stub.script(calling(name, ("c1", "filter", "{}"), text="There are 3."))
        reply = await model.complete(request)
        assert (reply.tool_calls, reply.stop, reply.text) == ((), StopReason.END, "There are 3.")


async def test_a_stop_that_says_end_beside_calls_is_no_end(name: str, model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(calling(name, ("c1", "filter", "{}"), stop="stop" if name.startswith("openai") else "end_turn"))
    assert (await model.complete(ask())).stop is StopReason.TOOLS


async def test_the_older_form_of_one_call(make_models: MakeModels, model_stub: ModelStub) -> None:
    message = {"content": None, "function_call": {"name": "filter", "arguments": {"tables": ["A"]}}}
    model_stub.script(StubReply(body=json.dumps({"choices": [{"message": message, "finish_reason": "function_call"}]})))
    [call] = (await make_models().model("openai:m").complete(ask())).tool_calls
    assert (call.name, call.arguments) == ("filter", {"tables": ["A"]})


async def test_a_call_in_the_text_counts_on_a_compatible_server(model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(StubReply('Sure.\n```json\n{"name": "filter", "arguments": {"tables": ["A"]}}\n```'))
    reply = await model.complete(ask())
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("filter", {"tables": ["A"]})]
    assert (reply.text, reply.stop) == ("Sure.", StopReason.TOOLS)


@pytest.mark.parametrize("setting", ["openai_base_url", "anthropic_base_url"])
async def test_the_providers_themselves_are_taken_at_their_word(
    make_models: MakeModels, model_stub: ModelStub, setting: str
) -> None:
    """Their models call tools as such; JSON in the text is an answer."""
    provider = setting.split("_")[0]
    model = make_models(**{setting: None}).model(f"{provider}:m")
    client = model._client  # type: ignore[attr-defined]
    client.base_url = f"{model_stub.url}/v1" if provider == "openai" else model_stub.url
    text = '{"name": "filter", "arguments": {}}'
    model_stub.script(StubReply(text))
    reply = await model.complete(ask())
    assert (reply.text, reply.tool_calls, reply.stop) == (text, (), StopReason.END)


# --------------------------------------------------------------------------------------------------- servers without tools


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "registry.example/smollm does not support tools"),
        (404, "No endpoints found that support tool use"),
        (500, "tools param requires --jinja flag"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (422, "Extra inputs are not permitted: tools"),
        (501, "function calling is not implemented"),
    ],
)
async def test_a_server_that_refuses_tools_is_told_of_them_in_the_prompt(
    model: ChatModel, model_stub: ModelStub, status: int, message: str
) -> None:
    call = '<tool_call>\n{"name": "filter", "arguments": {"tables": ["A"]}}\n</tool_call>'
    model_stub.script(StubReply(status=status, message=message), StubReply(call), StubReply("There are 3."))
    if status == 500:
        # a server's own failure is no word about an option
        with pytest.raises(Exception, match="500"):
            await model.complete(conversation())
        return
    reply = await model.complete(conversation())
    assert [(one.name, one.arguments) for one in reply.tool_calls] == [("filter", {"tables": ["A"]})]
    refused, told = model_stub.requests
    assert "tools" in refused.body
    assert "tools" not in told.body
    assert '"name": "filter", "description": "Rows of tables."' in told.system
    assert [role for role, _ in told.messages] == ["user", "assistant", "user"]
    assert "<tool_result>" in told.messages[-1][1]
    assert told.messages[-1][1].endswith("and in Norway?")
    # learned: the next one is asked in text at once
    assert (await model.complete(ask())).text == "There are 3."
    assert "tools" not in model_stub.requests[2].body
    assert len(model_stub.requests) == 3


async def test_a_complaint_about_a_tools_schema_does_not_turn_tools_off(model: ChatModel, model_stub: ModelStub) -> None:
    model_stub.script(StubReply(status=400, message="Invalid schema for function 'filter': 'foo' is not supported in tools"))
    with pytest.raises(ModelRejected):
        await model.complete(ask())
    await model.complete(ask())
    assert "tools" in model_stub.requests[-1].body
