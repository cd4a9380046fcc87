"""OpenAI chat completions, and every server that speaks them (``openai_base_url``)."""

from __future__ import annotations

import re
from typing import Final

import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam
from openai.types.shared_params import ResponseFormatJSONSchema

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
        return frozenset(used)

    async def _send(self, request: ChatRequest, off: frozenset[Option]) -> bytes:
        used = self._options(request) - off
        # One of the two names; the server's word that it does not know the first one turns to the other.
        old_name = self._compatible != (Option.LIMIT in off)
        try:
            reply = await self._client.chat.completions.with_raw_response.create(
                model=self._model,
                messages=_messages(request),
                max_tokens=request.max_output_tokens if old_name else openai.omit,
                max_completion_tokens=openai.omit if old_name else request.max_output_tokens,
                temperature=0 if Option.TEMPERATURE in used else openai.omit,
                response_format=_response_format(request) if Option.STRUCTURED in used else openai.omit,
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
        )


def _messages(request: ChatRequest) -> list[ChatCompletionMessageParam]:
    # Plain strings: several compatible servers do not take lists of parts.
    messages: list[ChatCompletionMessageParam] = []
    if request.system_text:
        messages.append({"role": "system", "content": wire_text(request.system_text)})
    for message in request.messages:
        text = wire_text(message.text)
        if message.role == "user":
            messages.append({"role": "user", "content": text})
        else:
            messages.append({"role": "assistant", "content": text})
    return messages


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


class _Message(WireModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None

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
