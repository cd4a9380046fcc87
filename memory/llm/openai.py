"""OpenAI chat completions, and every server that speaks them (``openai_base_url``)."""

from __future__ import annotations

import re
from typing import Any, Final

import openai
from openai import AsyncOpenAI
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageFunctionToolCallParam,
    ChatCompletionMessageParam,
)
from openai.types.shared_params import ResponseFormatJSONSchema

from memory.llm.tool_calls import arguments_text, numbered, settled
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
from memory.model.errors import ModelError, ModelRejected, ModelUnavailable
from memory.model.tools import ToolCall, ToolDefinition
from memory.ports import ChatReply, ChatRequest, StopReason, Usage

BASE_URL: Final = "https://api.openai.com/v1"

_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_STOPS: Final = {
    "stop": StopReason.END,
    "eos": StopReason.END,
    "eos_token": StopReason.END,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "content_filter": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}


def openai_client(*, base_url: str | None, api_key: str) -> AsyncOpenAI:
    """A client that makes one call per request. Address and key are given, so the SDK takes neither from the environment."""
    return AsyncOpenAI(
        api_key=api_key,
        base_url=base_url or BASE_URL,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(**http_client_options()),
    )


class OpenAIModel(HttpChatModel):
    """A chat-completions model.

    The reply's parts are sent in order, so that OpenAI's own prefix cache serves the stable ones. The output limit is
    ``max_completion_tokens``, or ``max_tokens`` on a compatible server (many know only that).
    """

    def __init__(self, client: AsyncOpenAI, name: str, model: str, *, reasoning: bool, compatible: bool) -> None:
        super().__init__(name, model, reasoning=reasoning)
        self._client = client
        self._compatible = compatible

    def _options(self, request: ChatRequest) -> frozenset[Option]:
        used = {Option.LIMIT}
        if not self._reasoning:
            used.add(Option.TEMPERATURE)
        if request.schema is not None:
            used.add(Option.STRUCTURED)
        if request.tools:
            used.add(Option.TOOLS)
        return frozenset(used)

    async def _send(self, request: ChatRequest, off: frozenset[Option]) -> bytes:
        used = self._options(request) - off
        # One of the two names; the server's word that it does not know the first one turns to the other.
        old_name = self._compatible != (Option.LIMIT in off)
        if Option.TOOLS not in used:
            request = as_text(request)
        try:
            reply = await self._client.chat.completions.with_raw_response.create(
                model=self._model,
                messages=_messages(request),
                max_tokens=request.max_output_tokens if old_name else openai.omit,
                max_completion_tokens=openai.omit if old_name else request.max_output_tokens,
                temperature=0 if Option.TEMPERATURE in used else openai.omit,
                response_format=_response_format(request) if Option.STRUCTURED in used else openai.omit,
                tools=[_tool(tool) for tool in request.tools] or openai.omit,
                tool_choice=openai.omit if not request.tools or request.tool_choice == "auto" else request.tool_choice,
                timeout=request.timeout_s,
            )
        except openai.APITimeoutError:
            raise CallFailed(self.timed_out(request)) from None
        except openai.APIStatusError as error:
            raise CallFailed(
                _status_error(self._name, error),
                status=error.status_code,
                detail=f"{error.param} {error.code} {error.message}"[:4000],
            ) from None
        except openai.OpenAIError as error:
            raise CallFailed(_connection_error(self._name, error)) from None
        return reply.content

    def _settled(self, reply: ChatReply, request: ChatRequest) -> ChatReply:
        if self._compatible or Option.TOOLS in self._off:
            reply = with_text_calls(reply, request)
        return settled(reply, request)

    def _read(self, body: bytes) -> ChatReply:
        completion = read_as(_Completion, body, self)
        if not completion.choices:
            raise self.unreadable("no choices")
        choice = completion.choices[0]
        usage = completion.usage or _Usage()
        refused = bool(choice.message.refusal)
        return ChatReply(
            text="" if refused else choice.message.text,
            stop=StopReason.REFUSED if refused else _STOPS.get(choice.finish_reason or "", StopReason.OTHER),
            usage=Usage(
                input_tokens=usage.prompt_tokens,
                output_tokens=usage.completion_tokens,
                cached_input_tokens=usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0,
            ),
            model=(completion.model or self._model)[:MAX_MODEL_NAME_CHARS],
            tool_calls=() if refused else choice.message.calls,
        )


def _messages(request: ChatRequest) -> list[ChatCompletionMessageParam]:
    # Plain strings: several compatible servers do not take lists of parts.
    messages: list[ChatCompletionMessageParam] = []
    if request.system_text:
        messages.append({"role": "system", "content": wire_text(request.system_text)})
    for message in request.messages:
        text = wire_text(message.text)
        for result in message.tool_results:
            messages.append({"role": "tool", "tool_call_id": wire_text(result.call_id), "content": wire_text(result.content)})
        if message.role == "assistant":
            calls: list[ChatCompletionMessageFunctionToolCallParam] = [
                {
                    "id": wire_text(call.call_id),
                    "type": "function",
                    "function": {"name": wire_text(call.name), "arguments": arguments_text(call)},
                }
                for call in message.tool_calls
            ]
            if calls:
                messages.append({"role": "assistant", "content": text or None, "tool_calls": calls})
            else:
                messages.append({"role": "assistant", "content": text})
        elif text or not message.tool_results:
            messages.append({"role": "user", "content": text})
    return messages


def _tool(tool: ToolDefinition) -> ChatCompletionFunctionToolParam:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": wire_text(tool.description), "parameters": dict(tool.parameters)},
    }


def _response_format(request: ChatRequest) -> ResponseFormatJSONSchema:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", request.schema_name)[:64]
    return {"type": "json_schema", "json_schema": {"name": name, "schema": dict(request.schema or {}), "strict": True}}


def _status_error(name: str, error: openai.APIStatusError) -> ModelError:
    code = error.code or error.type
    if error.status_code == 429 and code in _SPENT:
        # 429 by status, but no wait will help: somebody has to pay first, and then the turn can be run again.
        return ModelRejected(f"{name} answered 429 ({code}): the account has no quota left")
    return status_error(
        name,
        error.status_code,
        headers=error.response.headers,
        code=code,
        request_id=error.request_id,
        key_name="OPENAI_API_KEY",
    )


def _connection_error(name: str, error: openai.OpenAIError) -> ModelError:
    cause = error.__cause__ or error
    return ModelUnavailable(f"{name} could not be reached or broke off ({type(cause).__name__})")


class _Part(WireModel):
    text: str | None = None


class _Function(WireModel):
    name: str | None = None
    arguments: Any = None
    """JSON text; an object from some servers."""


class _Call(WireModel):
    id: str | None = None
    function: _Function | None = None


class _Message(WireModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    """The older form, of one call."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        given = self.tool_calls or ([_Call(function=self.function_call)] if self.function_call else [])
        return numbered((call.id, call.function.name, call.function.arguments) for call in given if call.function)

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class _Choice(WireModel):
    message: _Message
    finish_reason: str | None = None


class _Cached(WireModel):
    cached_tokens: TokenCount = 0


class _Usage(WireModel):
    prompt_tokens: TokenCount = 0
    completion_tokens: TokenCount = 0
    prompt_tokens_details: _Cached | None = None


class _Completion(WireModel):
    model: str | None = None
    choices: list[_Choice]
    usage: _Usage | None = None
