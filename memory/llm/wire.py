"""What the HTTP adapters share: the call's time bound, options that a server refuses, status to error, bounded bodies.

A provider's error body may repeat the prompt, so nothing of it but a short code reaches an error of ours.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import httpx2
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from memory.model.errors import ModelError, ModelRateLimited, ModelRejected, ModelTimedOut, ModelUnavailable
from memory.ports import ChatModel, ChatReply, ChatRequest

logger = logging.getLogger(__name__)

MAX_RETRY_AFTER_S: Final = 600.0
"""A longer wait that a provider asks for is cut to this: a turn's run must not sleep for hours on one header."""
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_MODEL_NAME_CHARS: Final = 200

_CODE = re.compile(r"[A-Za-z0-9_.:/-]{1,80}")
_REFUSING_STATUSES = frozenset({400, 404, 415, 422, 501})
_PASSING_4XX = frozenset({409, 425})


class Option(StrEnum):
    """Parts of a request that some servers refuse and that a reply can do without."""

    STRUCTURED = "structured output"
    TEMPERATURE = "temperature"
    LIMIT = "output limit"
    """Not left out but given under its other name (``max_tokens``, ``max_completion_tokens``)."""
    TOOLS = "tools"
    """Not left out but described in the prompt, and their calls read from the text."""


_NAMED_BY: Final[Mapping[Option, re.Pattern[str]]] = {
    Option.STRUCTURED: re.compile(r"response_format|json_schema|output_config|output_format|structured.output", re.IGNORECASE),
    Option.TEMPERATURE: re.compile(r"\btemperature\b", re.IGNORECASE),
    # A limit that is merely too high must not be sent under a name that the server may ignore.
    Option.LIMIT: re.compile(
        r"(?=.*\bmax_(?:completion_)?tokens\b)"
        r"(?=.*(?:unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|extra|not permitted))",
        re.IGNORECASE | re.DOTALL,
    ),
    # A complaint about one tool's schema is no word against tools.
    Option.TOOLS: re.compile(
        r"\A(?!.*schema)"
        r"(?=.*(?:\btools?\b|\btool_choice\b|tool.?(?:use|call)|function.?call))"
        r"(?=.*(?:support|unrecogni[sz]ed|unknown|unexpected|extra|not (?:permitted|allowed|enabled|available|implemented)"
        r"|requires? (?:--|to be)|--(?:jinja|enable)))",
        re.IGNORECASE | re.DOTALL,
    ),
}


class CallFailed(Exception):
    """A call that a provider did not answer. Never leaves this package: ``detail`` may hold text of the prompt."""

    def __init__(self, error: ModelError, *, status: int | None = None, detail: str = "") -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status
        self.detail = detail

    def refused_option(self, in_use: frozenset[Option]) -> Option | None:
        """The option in use that the server says it does not take."""
        if self.status not in _REFUSING_STATUSES:
            return None
        return next((option for option in Option if option in in_use and _NAMED_BY[option].search(self.detail)), None)


class HttpChatModel(ChatModel, ABC):
    """One model behind an HTTP API.

    A call is one request. The exception: a server that refuses an option (structured output, temperature, tools, the name of the
    output limit) with an error that names it is asked again at once without it, within the same time bound; when that
    works the option stays off for the life of this object. A refused request is not answered and costs no tokens.
    """

    def __init__(self, name: str, model: str, *, reasoning: bool) -> None:
        self._name = name
        self._model = model
        self._reasoning = reasoning
        self._off: frozenset[Option] = frozenset()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def reasoning(self) -> bool:
        return self._reasoning

    async def complete(self, request: ChatRequest) -> ChatReply:
        try:
            # The SDK's time-out bounds each read; a server that drips a byte now and then needs a bound on the whole.
            async with asyncio.timeout(request.timeout_s):
                return await self._complete(request)
        except TimeoutError:
            raise self.timed_out(request) from None

    async def _complete(self, request: ChatRequest) -> ChatReply:
        off = self._off
        while True:
            try:
                body = await self._send(request, off)
            except CallFailed as failed:
                refused = failed.refused_option(self._options(request) - off)
                if refused is None:
                    raise failed.error from None
                off |= {refused}
                continue
            learned = off - self._off
            if learned:
                self._off |= learned
                logger.warning("%s does not take %s; asking without from now on", self._name, ", ".join(sorted(learned)))
            return self._settled(self._read(body), request)

    @abstractmethod
    def _options(self, request: ChatRequest) -> frozenset[Option]:
        """The options that this request would use."""

    @abstractmethod
    async def _send(self, request: ChatRequest, off: frozenset[Option]) -> bytes:
        """One request; the body of a 2xx reply. Raises CallFailed."""

    @abstractmethod
    def _read(self, body: bytes) -> ChatReply:
        """Raises ModelUnavailable for a body that is not a reply of this API."""

    @abstractmethod
    def _settled(self, reply: ChatReply, request: ChatRequest) -> ChatReply:
        """The reply with the calls that count, whether they came as such or in its text."""

    def timed_out(self, request: ChatRequest) -> ModelTimedOut:
        return ModelTimedOut(f"{self._name} gave no complete reply within {request.timeout_s:g} s")

    def unreadable(self, reason: str) -> ModelUnavailable:
        return ModelUnavailable(f"{self._name} answered with something that is not a reply of its API ({reason})")


# ------------------------------------------------------------------------------------------------------------------ errors


def status_error(
    name: str,
    status: int,
    *,
    headers: Mapping[str, str],
    code: str | None = None,
    request_id: str | None = None,
    key_name: str = "the API key",
) -> ModelError:
    """The error for a status that is no success.

    408 timed out; 429 and 529 (overloaded) rate limited; 409, 425 and 5xx unavailable, or rate limited where the
    provider says when to come back; all else is rejected, because the same request would fail again.
    """
    message = f"{name} answered {status}"
    if code and _CODE.fullmatch(code):
        message += f" ({code})"
    if request_id and _CODE.fullmatch(request_id):
        message += f", request {request_id}"
    if status == 408:
        return ModelTimedOut(message)
    wait = retry_after_s(headers)
    if status in {429, 529} or (status >= 500 and wait is not None):
        return ModelRateLimited(message, wait)
    if status >= 500 or status in _PASSING_4XX:
        return ModelUnavailable(message)
    match status:
        case 401 | 403:
            message += f"; check {key_name} and what it may use"
        case 404:
            message += "; check the model's name and the base URL"
        case _ if status < 400:
            message += "; redirects are not followed, set the base URL to the final address"
        case _:
            pass
    return ModelRejected(message)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the provider asks to wait, 0 to 600, from ``retry-after-ms`` or ``Retry-After`` (seconds or HTTP date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded_wait(milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return _bounded_wait(seconds)
    if not value:
        return None
    try:
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return _bounded_wait((date - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, OverflowError):
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _bounded_wait(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


# ------------------------------------------------------------------------------------------------------------------ bodies


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit:
                raise httpx2.ReadError(f"body of more than {self._limit} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bound_body(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _BoundedStream(response.stream, MAX_BODY_BYTES)


def http_client_options() -> dict[str, Any]:
    """Arguments for an SDK's default HTTP client.

    Redirects are off: the key and the prompt go to the configured host and to no other.
    """
    # At debug level SDKs log whole requests, prompts included, and a variable of theirs can switch that on when they are
    # imported. So after the import: not below info.
    for name in ("anthropic", "openai", "httpcore2"):
        sdk_logger = logging.getLogger(name)
        sdk_logger.setLevel(max(sdk_logger.level, logging.INFO))
    return {"follow_redirects": False, "event_hooks": {"response": [_bound_body]}}


def wire_text(text: str) -> str:
    """The text as it can be sent: a lone surrogate has no UTF-8 form and becomes ``?``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _tokens(value: Any) -> int:
    return max(0, int(value)) if isinstance(value, int | float) and math.isfinite(value) else 0


TokenCount = Annotated[int, BeforeValidator(_tokens)]
"""A count in a reply; what a server leaves out, or gives as something else than a number, is 0."""


class WireModel(BaseModel):
    """Base of the shapes that replies are read into: only what is used, unknown fields ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


Shape = TypeVar("Shape", bound=WireModel)

_SURROGATES = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def _joinable(body: bytes) -> bytes:
    """The JSON with escapes of lone surrogates as U+FFFD: a cut emoji must not make a whole reply unreadable."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _SURROGATES.sub(lambda match: match[1] + (match[2] or rb"\ufffd"), body)


def read_as(shape: type[Shape], body: bytes, model: HttpChatModel) -> Shape:
    """Raises ModelUnavailable, which says what kind of thing was wrong and none of the text."""
    try:
        return shape.model_validate_json(_joinable(body))
    except ValidationError as error:
        raise model.unreadable(
            str(error.errors(include_url=False, include_input=False, include_context=False)[0]["type"])
        ) from None
