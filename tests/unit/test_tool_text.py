"""Calls that stand in the text of a reply, and JSON that is none."""

from __future__ import annotations

import json

import pytest

from memory.llm.tool_calls import MAX_KEPT_CALLS, numbered, settled, tool_call
from memory.llm.tool_text import as_text, calls_in, with_text_calls
from memory.model.tools import MAX_ARGUMENT_CHARS, MAX_TOOL_CALLS, ToolCall, ToolDefinition, ToolResult
from memory.ports import ChatMessage, ChatReply, ChatRequest, PromptPart, StopReason, Usage

TOOLS = (
    ToolDefinition("filter", "Rows of tables.", {"type": "object", "properties": {"tables": {"type": "array"}}}),
    ToolDefinition("reduce", "One figure.", {"type": "object"}),
    ToolDefinition("tables_overview", "All tables.", {"type": "object"}),
)
OFFERED = frozenset(tool.name for tool in TOOLS)
CALL = '{"name": "filter", "arguments": {"tables": ["Companies"], "filter": "name == \'Volta {x}\'"}}'
OTHER = '{"name": "reduce", "arguments": {"table": "Sales"}}'
ARGUMENTS = {"tables": ["Companies"], "filter": "name == 'Volta {x}'"}


def request(choice: str = "auto", tools: tuple[ToolDefinition, ...] = TOOLS) -> ChatRequest:
    messages = (ChatMessage("user", (PromptPart("go"),)),)
    return ChatRequest("knowledge.ask", (PromptPart("rules"),), messages, 10, 5.0, tools=tools, tool_choice=choice)  # type: ignore[arg-type]


def reply(text: str, stop: StopReason = StopReason.END, calls: tuple[ToolCall, ...] = ()) -> ChatReply:
    return ChatReply(text, stop, Usage(), "m", calls)


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"```json\n{CALL}\n```",
        f"````\n```json\n{CALL}\n```\n````",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}</tool_call>",
        f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>",
        f"<tool_calls>[{CALL}]</tool_calls>",
        f"[{CALL}]",
        f"[TOOL_CALLS] [{CALL}]",
        f"<|python_tag|>{CALL}",
        '{"tool_calls": [' + CALL + "]}",
        '{"type": "function", "function": ' + CALL + "}",
        '{"id": "x1", "type": "function", "function": ' + CALL.replace("{x}", "{x}") + "}",
        json.dumps({"function": {"name": "filter", "arguments": json.dumps(ARGUMENTS)}}),
        json.dumps({"function": "filter", "parameters": ARGUMENTS}),
        json.dumps({"tool": "filter", "args": ARGUMENTS}),
        json.dumps({"tool_name": "filter", "input": ARGUMENTS}),
        f"<think>Maybe {OTHER}? No.</think>\n{CALL}",
        json.dumps(json.loads(CALL), indent=2),
    ],
)
def test_one_call_in_many_shapes(text: str) -> None:
    found = calls_in(text, OFFERED)
    assert [(call.name, call.arguments) for call in found.calls] == [("filter", ARGUMENTS)]
    assert found.text == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"I look it up.\n```json\n{CALL}\n```", "I look it up."),
        (f"I look it up. {CALL} That is all.", "I look it up.\n That is all."),
        (f"First:\n<tool_call>\n{CALL}\n</tool_call>\nThen I answer.", "First:\n\nThen I answer."),
    ],
)
def test_prose_around_a_call_stays(text: str, left: str) -> None:
    found = calls_in(text, OFFERED)
    assert [call.name for call in found.calls] == ["filter"]
    assert found.text == left


@pytest.mark.parametrize(
    "text",
    [
        f"{CALL}\n{OTHER}",
        f"[{CALL}, {OTHER}]",
        f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{OTHER}\n</tool_call>",
        f"```json\n{CALL}\n```\nand\n```\n{OTHER}\n```",
    ],
)
def test_several_calls_keep_their_order_and_get_ids_of_their_own(text: str) -> None:
    calls = calls_in(text, OFFERED).calls
    assert [call.name for call in calls] == ["filter", "reduce"]
    assert len({call.call_id for call in calls}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "There are 12 companies.",
        '{"name": "Volta", "arguments": {"founded": 2012}}',
        '{"name": "filter"}',
        '{"name": "filter", "price": 12.5, "arguments": {}}',
        '{"name": "filter", "founded": 2012}',
        '{"rows": [{"name": "filter", "arguments": {}}]}',
        '[{"name": "filter", "arguments": {}}, {"name": "Volta"}]',
        '{"filter": {"tables": ["Companies"]}}',
        "The table filter holds {coffee, oil} and [two] sizes.",
        f"<think>I could do {CALL}</think>There are 12.",
        f"<think>I could do {CALL}",
        '{"name": "delete_tables", "arguments": {"tables": ["Companies"]}}',
        '{"name": "filter", "arguments": [1]}',
    ],
)
def test_json_that_is_an_answer_is_no_call(text: str) -> None:
    found = calls_in(text, OFFERED)
    assert (found.calls, found.text, found.cut) == ((), text, False)


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("end", range(35, len(CALL)))
def test_a_call_that_is_cut_off_is_no_call_and_no_answer(end: int, tagged: bool) -> None:
    text = ("<tool_call>\n" if tagged else "I will look.\n```json\n") + CALL[:end]
    settled_reply = with_text_calls(reply(text), request())
    assert settled_reply.tool_calls == ()
    assert settled_reply.stop is StopReason.LENGTH


def test_whole_calls_before_one_that_is_cut_off_are_not_made_either() -> None:
    found = calls_in(f"{CALL}\n{OTHER[:40]}", OFFERED)
    assert found.calls == ()
    assert found.cut


def test_a_call_without_arguments_counts_in_its_tag() -> None:
    found = calls_in('<tool_call>{"name": "tables_overview"}</tool_call>', OFFERED)
    assert [(call.name, call.arguments) for call in found.calls] == [("tables_overview", {})]


def test_a_whole_call_that_is_no_json_is_one_with_unreadable_arguments() -> None:
    found = calls_in("<tool_call>{'name': 'filter', 'arguments': {'tables': ['A'],}}</tool_call>", OFFERED)
    [call] = found.calls
    assert (call.name, call.arguments) == ("filter", None)
    assert "'tables'" in call.raw


@pytest.mark.parametrize("text", ["[" * 200_000, '{"filter":' * 50_000, "<tool_call>" * 40_000 + "filter", "`" * 200_000 + CALL])
def test_hostile_texts_are_read_in_linear_time(text: str) -> None:
    """Quadratic work would run into the test's time-out."""
    calls_in(text + " filter", OFFERED)


# -------------------------------------------------------------------------------------------------------- calls as such


def test_arguments_are_read_tolerantly() -> None:
    assert tool_call("a", "filter", "").arguments == {}
    assert tool_call("a", "filter", None).arguments == {}
    assert tool_call("a", "filter", {"k": 1}).arguments == {"k": 1}
    assert tool_call("a", "filter", json.dumps(json.dumps({"k": 1}))).arguments == {"k": 1}
    for broken in ('{"k": ', "[1]", "12", '{"k": NaN}', "nonsense", "[" * 100_000, '{"k": ' + "9" * 5_000 + "}"):
        call = tool_call("a", "filter", broken)
        assert call.arguments is None
        assert call.raw == broken


def test_arguments_beyond_the_bound_are_not_read() -> None:
    call = tool_call("a", "filter", json.dumps({"k": "x" * MAX_ARGUMENT_CHARS}))
    assert call.arguments is None
    assert len(call.raw) == MAX_ARGUMENT_CHARS


def test_deep_arguments_are_not_taken() -> None:
    assert tool_call("a", "filter", '{"k": ' * 100 + "1" + "}" * 100).arguments is None


def test_lone_surrogates_cannot_leave() -> None:
    call = tool_call("a", "fil\ud83d", '{"\\ud83d": ["\\udc00 x"]}')
    json.dumps([call.name, call.arguments, call.raw], ensure_ascii=False).encode()
    assert call.arguments == {"\ufffd": ["\ufffd x"]}


def test_calls_beyond_the_limit_are_kept_and_marked() -> None:
    calls = numbered((None, "filter", "{}") for _ in range(MAX_TOOL_CALLS + 3))
    assert [call.beyond for call in calls] == [False] * MAX_TOOL_CALLS + [True] * 3
    assert len(numbered((None, "filter", "{}") for _ in range(10_000))) == MAX_KEPT_CALLS


def test_ids_are_unique_and_plain() -> None:
    ids = [call.call_id for call in numbered((given, "filter", "{}") for given in ("a", "a", None, "b c", "x" * 99, "call1"))]
    assert ids[0] == "a"
    assert len(set(ids)) == len(ids)
    assert all(one.isalnum() for one in ids)


def test_what_is_cut_off_or_only_shown_calls_nothing() -> None:
    call = (ToolCall("a", "filter", {}),)
    assert settled(reply("x", StopReason.LENGTH, call), request()).tool_calls == ()
    assert settled(reply("x", StopReason.TOOLS, call), request("none")) == reply("x")
    assert settled(reply("x", StopReason.TOOLS, call), request(tools=())) == reply("x")
    assert settled(reply("", StopReason.END, call), request()).stop is StopReason.TOOLS
    assert with_text_calls(reply(CALL, StopReason.LENGTH), request()).tool_calls == ()
    assert with_text_calls(reply(CALL), request("none")) == reply(CALL)


def test_a_request_told_in_text() -> None:
    calls = (ToolCall("a", "filter", {"tables": ["</tool_call>"]}), ToolCall("b", "reduce", None, "{oops"))
    results = (ToolResult("a", "filter", '{"Companies": []}'), ToolResult("b", "reduce", "no JSON <tool_call>", is_error=True))
    asked = ChatRequest(
        "knowledge.ask",
        (PromptPart("rules"),),
        (
            ChatMessage("user", (PromptPart("go"),)),
            ChatMessage("assistant", (PromptPart("I look."),), tool_calls=calls),
            ChatMessage("user", (PromptPart("faster"),), tool_results=results),
        ),
        10,
        5.0,
        tools=TOOLS,
        tool_choice="required",
    )
    told = as_text(asked)
    assert told.tools == ()
    assert all(f'"name": "{tool.name}"' in told.system_text for tool in TOOLS)
    assert "at least one tool" in told.system_text
    assert not any(message.tool_calls or message.tool_results for message in told.messages)
    said, got = told.messages[1].text, told.messages[2].text
    assert said.startswith("I look.\n<tool_call>\n")
    assert said.count("</tool_call>") == 2
    assert [(call.name, call.arguments) for call in calls_in(said, OFFERED).calls] == [
        ("filter", {"tables": ["</tool_call>"]}),
        ("reduce", {"unreadable": "{oops"}),
    ]
    assert got.endswith("faster")
    assert got.count("<tool_result>") == 2
    assert "<tool_call>" not in got
