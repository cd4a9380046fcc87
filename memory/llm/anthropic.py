"""Anthropic messages, and every server that speaks them (``anthropic_base_url``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import anthropic
from anthropic import AsyncAnthropic
from anthropic.types import (
    MessageParam,
    OutputConfigParam,
    TextBlockParam,
    ToolChoiceParam,
    ToolParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
)

from memory.llm.tool_calls import arguments_object, numbered, settled
from memory.llm.tool_text import as_text, with_text_calls
from memory.llm.wire import (
    MAX_MODEL_NAME_CHARS,
    CallFailed,
    HttpChatModel,
    Option,
    TokenCount,
    WireModel,
    http_client_options,
    read_as,
    status_error,
    wire_text,
)
from memory.model.errors import ModelError, ModelUnavailable
from memory.model.tools import ToolCall, ToolDefinition, ToolResult
from memory.ports import ChatMessage, ChatReply, ChatRequest, PromptPart, StopReason, Usage

BASE_URL: Final = "https://api.anthropic.com"
MAX_BREAKPOINTS: Final = 4
"""The API takes at most four ``cache_control`` marks in one request."""

_STOPS: Final = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSED,
}


def anthropic_client(*, base_url: str | None, api_key: str) -> AsyncAnthropic:
    """A client that makes one call per request. Address and key are given, so the SDK takes neither from elsewhere."""
    return AsyncAnthropic(
        api_key=api_key,
        base_url=base_url or BASE_URL,
        max_retries=0,
        # Said here so that no variable of the environment can put prompts into traces.
        open_telemetry={"traces": {"content_mode": "metadata_only"}},
        http_client=anthropic.DefaultAsyncHttpxClient(**http_client_options()),
    )


class AnthropicModel(HttpChatModel):
    """A messages model. Parts marked cacheable become cache breakpoints.

    ``Usage.input_tokens`` counts all input, as for the other providers: read from the cache, written to it, and neither.
    """

    def __init__(self, client: AsyncAnthropic, name: str, model: str, *, reasoning: bool, compatible: bool = False) -> None:
        super().__init__(name, model, reasoning=reasoning)
        self._client = client
        self._compatible = compatible

    def _options(self, request: ChatRequest) -> frozenset[Option]:
        used: set[Option] = set()
        if not self._reasoning:
            used.add(Option.TEMPERATURE)
        if request.schema is not None:
            used.add(Option.STRUCTURED)
        if request.tools:
            used.add(Option.TOOLS)
        return frozenset(used)

    async def _send(self, request: ChatRequest, off: frozenset[Option]) -> bytes:
        used = self._options(request) - off
        if Option.TOOLS not in used:
            request = as_text(request)
        tools, system, messages = _prompt(request)
        try:
            reply = await self._client.messages.with_raw_response.create(
                model=self._model,
                max_tokens=request.max_output_tokens,
                system=system or anthropic.omit,
                messages=messages,
                output_config=_output_config(request) if Option.STRUCTURED in used else anthropic.omit,
                tools=tools or anthropic.omit,
                tool_choice=_tool_choice(request) or anthropic.omit,
                # The SDK has no argument for it any more, the API takes it.
                extra_body={"temperature": 0} if Option.TEMPERATURE in used else None,
                timeout=request.timeout_s,
            )
        except anthropic.APITimeoutError:
            raise CallFailed(self.timed_out(request)) from None
        except anthropic.APIStatusError as error:
            raise CallFailed(
                _status_error(self._name, error),
                status=error.status_code,
                detail=f"{error.error_code} {error.message}"[:4000],
            ) from None
        except anthropic.AnthropicError as error:
            raise CallFailed(_connection_error(self._name, error)) from None
        return await reply.http_response.aread()

    def _settled(self, reply: ChatReply, request: ChatRequest) -> ChatReply:
        if self._compatible or Option.TOOLS in self._off:
            reply = with_text_calls(reply, request)
        return settled(reply, request)

    def _read(self, body: bytes) -> ChatReply:
        message = read_as(_Message, body, self)
        usage = message.usage or _Usage()
        return ChatReply(
            text="".join(block.text or "" for block in message.content or () if block.type == "text"),
            stop=_STOPS.get(message.stop_reason or "", StopReason.OTHER),
            usage=Usage(
                input_tokens=usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
                output_tokens=usage.output_tokens,
                cached_input_tokens=usage.cache_read_input_tokens,
            ),
            model=(message.model or self._model)[:MAX_MODEL_NAME_CHARS],
            tool_calls=numbered((block.id, block.name, block.input) for block in message.content or () if block.type == "tool_use"),
        )


_Block = TextBlockParam | ToolResultBlockParam | ToolUseBlockParam


def _prompt(request: ChatRequest) -> tuple[list[ToolParam], list[TextBlockParam], list[MessageParam]]:
    tools = [_tool(tool) for tool in request.tools]
    if tools:
        # Tools come before the system prompt in what is cached; they are the same for users whose instructions differ.
        tools[-1]["cache_control"] = {"type": "ephemeral"}
    system = _blocks(request.system)
    contents = [_content(message) for message in request.messages]
    marked = [block for blocks in (tools, system, *contents) for block in blocks if "cache_control" in block]
    # The first mark ends what all users share, the last ones end the longest prefixes.
    for block in marked[1 : len(marked) - MAX_BREAKPOINTS + 1]:
        del block["cache_control"]
    messages: list[MessageParam] = []
    for message, content in zip(request.messages, contents, strict=True):
        if message.role == "user":
            messages.append({"role": "user", "content": content})
        else:
            messages.append({"role": "assistant", "content": content})
    return tools, system, messages


def _content(message: ChatMessage) -> list[_Block]:
    """Results first, as the API wants it, then text, then calls. Empty text that is marked cacheable marks the last result."""
    results = [_result(result) for result in message.tool_results]
    text = _blocks(message.parts)
    if results and not text and any(part.cacheable for part in message.parts):
        results[-1]["cache_control"] = {"type": "ephemeral"}
    return [*results, *text, *map(_call, message.tool_calls)] or [_no_text()]


def _tool(tool: ToolDefinition) -> ToolParam:
    return {"name": tool.name, "description": wire_text(tool.description), "input_schema": dict(tool.parameters)}


def _call(call: ToolCall) -> ToolUseBlockParam:
    return {
        "type": "tool_use",
        "id": wire_text(call.call_id),
        "name": wire_text(call.name),
        "input": dict(arguments_object(call)),
    }


def _result(result: ToolResult) -> ToolResultBlockParam:
    made: ToolResultBlockParam = {
        "type": "tool_result",
        "tool_use_id": wire_text(result.call_id),
        "content": wire_text(result.content) or "(nothing)",
    }
    if result.is_error:
        made["is_error"] = True
    return made


def _tool_choice(request: ChatRequest) -> ToolChoiceParam | None:
    if not request.tools or request.tool_choice == "auto":
        return None
    return {"type": "none"} if request.tool_choice == "none" else {"type": "any"}


def _blocks(parts: Sequence[PromptPart]) -> list[TextBlockParam]:
    """Text blocks. The API refuses a blank block, so blank text goes with the block before or after it."""
    blocks: list[TextBlockParam] = []
    lead = ""
    for part in parts:
        text = lead + wire_text(part.text)
        lead = ""
        if text.strip():
            blocks.append({"type": "text", "text": text})
        elif blocks:
            blocks[-1]["text"] += text
        else:
            lead = text
            continue
        if part.cacheable:
            blocks[-1]["cache_control"] = {"type": "ephemeral"}
    return blocks


def _no_text() -> TextBlockParam:
    """Stands for a message without text (a model's empty reply that is shown to it again); the API refuses an empty one."""
    return {"type": "text", "text": "(no text)"}


def _output_config(request: ChatRequest) -> OutputConfigParam:
    return {"format": {"type": "json_schema", "schema": dict(request.schema or {})}}


def _status_error(name: str, error: anthropic.APIStatusError) -> ModelError:
    return status_error(
        name,
        error.status_code,
        headers=error.response.headers,
        code=error.type,
        request_id=error.request_id,
        key_name="ANTHROPIC_API_KEY",
    )


def _connection_error(name: str, error: anthropic.AnthropicError) -> ModelError:
    cause = error.__cause__ or error
    return ModelUnavailable(f"{name} could not be reached or broke off ({type(cause).__name__})")


class _ReplyBlock(WireModel):
    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _Usage(WireModel):
    input_tokens: TokenCount = 0
    output_tokens: TokenCount = 0
    cache_read_input_tokens: TokenCount = 0
    cache_creation_input_tokens: TokenCount = 0


class _Message(WireModel):
    type: str
    """Required: it tells a reply from some other JSON."""
    model: str | None = None
    content: list[_ReplyBlock] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
