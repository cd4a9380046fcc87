"""Embeddings of OpenAI, and of every server that speaks its API (``embedder_base_url``)."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from time import time
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from memory.model.errors import (
    InvalidSettings,
    ModelError,
    ModelRateLimited,
    ModelRejected,
    ModelTimedOut,
    ModelUnavailable,
)
from memory.settings import Settings
from memory.stores.addresses import check_address, check_key
from memory.stores.embedders.texts import clean, unit
from memory.telemetry import store_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import APIStatusError, AsyncOpenAI

BASE_URL: Final = "https://api.openai.com/v1"
WEIGHT: Final = 10.0
MAX_BATCH: Final = 32
"""Texts in one request."""
MAX_TEXT_BYTES: Final = 8_000
"""A token of these models is at least one byte, so this fits their 8,191 tokens in any script."""
MAX_AT_ONCE: Final = 4
MAX_RETRY_AFTER_S: Final = 600.0

_NO_KEY = "no-key"
_MAX_TIMEOUT_S = 60.0
_CODE = re.compile(r"[A-Za-z0-9_.:/-]{1,80}")
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})


class OpenAIEmbedder:
    """The port ``Embedder`` over HTTP; one request for up to 32 texts, no second attempt. For one event loop.

    Raises ModelRateLimited, ModelTimedOut and ModelUnavailable for what may pass, ModelRejected for what will not, and
    InvalidSettings when the model gives vectors of another dimension than ``embedder_dimension``.
    """

    def __init__(self, name: str, *, dimension: int, base_url: str | None, api_key: str, timeout_s: float) -> None:
        """``name``: ``openai:<model>``. Connects to nothing yet."""
        self.name = name
        self.dimension = dimension
        self.weight = WEIGHT
        self._model = name.partition(":")[2]
        self._base_url = base_url
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._client: AsyncOpenAI | None = None
        self._asks_dimension = True
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)
        self._closed = False

    @classmethod
    def from_settings(cls, settings: Settings) -> OpenAIEmbedder:
        """Raises InvalidSettings for what is missing or cannot be."""
        name = settings.embedder.strip()
        if not re.fullmatch(r"openai:[!-~]{1,190}", name):
            raise InvalidSettings("AFTERTURN_EMBEDDER names no model: use for instance openai:text-embedding-3-small")
        if settings.embedder_dimension is None:
            raise InvalidSettings(f"AFTERTURN_EMBEDDER={name} needs AFTERTURN_EMBEDDER_DIMENSION, for instance 1536")
        own = (settings.embedder_base_url or "").strip()
        base_url = own or (settings.openai_base_url or "").strip() or None
        key = check_key("OPENAI_API_KEY", settings.openai_api_key.get_secret_value().strip() if settings.openai_api_key else "")
        if base_url is None and not key:
            raise InvalidSettings(f"AFTERTURN_EMBEDDER={name} needs OPENAI_API_KEY, or AFTERTURN_EMBEDDER_BASE_URL")
        if base_url is not None:
            check_address("AFTERTURN_EMBEDDER_BASE_URL" if own else "AFTERTURN_OPENAI_BASE_URL", "OPENAI_API_KEY", base_url)
        return cls(
            name,
            dimension=settings.embedder_dimension,
            base_url=base_url,
            api_key=key or _NO_KEY,
            timeout_s=min(settings.model_timeout_s, _MAX_TIMEOUT_S),
        )

    async def query(self, text: str) -> tuple[float, ...]:
        return (await self.passages([text]))[0]

    async def passages(self, texts: Sequence[str]) -> Sequence[tuple[float, ...]]:
        found: list[tuple[float, ...]] = []
        for start in range(0, len(texts), MAX_BATCH):
            found += await self._embed([_fitted(text) for text in texts[start : start + MAX_BATCH]])
        return found

    async def aclose(self) -> None:
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _embed(self, texts: list[str]) -> list[tuple[float, ...]]:
        asked = [text for text in texts if text]  # the API refuses an empty text
        try:
            with store_call("embedder", "openai"):
                async with asyncio.timeout(self._timeout_s), self._turns:
                    vectors = iter(await self._ask(asked) if asked else [])
        except TimeoutError:
            raise self._timed_out() from None
        return [next(vectors) if text else unit((0.0,) * self.dimension) for text in texts]

    async def _ask(self, texts: list[str]) -> list[tuple[float, ...]]:
        import openai

        try:
            reply = await self._opened().embeddings.with_raw_response.create(
                model=self._model,
                input=texts,
                encoding_format="float",
                dimensions=self.dimension if self._asks_dimension else openai.omit,
                timeout=self._timeout_s,
            )
        except openai.APITimeoutError:
            raise self._timed_out() from None
        except openai.APIStatusError as error:
            if self._asks_dimension and error.status_code in {400, 422} and "dimensions" in f"{error.param} {error.message}":
                # Many servers and older models have one dimension and do not know the option.
                self._asks_dimension = False
                return await self._ask(texts)
            raise _status_error(self.name, error) from None
        except openai.OpenAIError as error:
            cause = error.__cause__ or error
            raise ModelUnavailable(f"{self.name} could not be reached or broke off ({type(cause).__name__})") from None
        return self._read(reply.content, len(texts))

    def _read(self, body: bytes, count: int) -> list[tuple[float, ...]]:
        try:
            data = sorted(_Reply.model_validate_json(body).data, key=lambda item: item.index)
        except ValidationError:
            raise ModelUnavailable(f"{self.name} answered with something that is not a reply of its API") from None
        if [item.index for item in data] != list(range(count)):
            raise ModelUnavailable(f"{self.name} gave vectors for {len(data)} of {count} texts")
        wrong = next((len(item.embedding) for item in data if len(item.embedding) != self.dimension), None)
        if wrong is not None:
            raise InvalidSettings(
                f"{self.name} gives {wrong} dimensions, AFTERTURN_EMBEDDER_DIMENSION says {self.dimension}: set it right,"
                " then run `afterturn reindex`"
            )
        return [unit(item.embedding) for item in data]

    def _opened(self) -> AsyncOpenAI:
        if self._closed:
            raise ModelUnavailable(f"the embedder {self.name} was closed")
        if self._client is None:
            import openai

            # At debug level the SDK logs whole requests, and a variable of its own can switch that on when it is imported.
            for name in ("openai", "httpcore2"):
                library = logging.getLogger(name)
                library.setLevel(max(library.level, logging.INFO))
            self._client = openai.AsyncOpenAI(
                api_key=self._api_key,
                base_url=self._base_url or BASE_URL,
                max_retries=0,
                # The key and the texts go to the configured host and to no other.
                http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
            )
        return self._client

    def _timed_out(self) -> ModelTimedOut:
        return ModelTimedOut(f"{self.name} gave no vectors within {self._timeout_s:g} s")


class _Item(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)
    index: int
    embedding: list[float]


class _Reply(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)
    data: list[_Item]


def _fitted(text: str) -> str:
    """Within the model's limit; "" for a text of blanks only."""
    cut = clean(text, MAX_TEXT_BYTES).encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
    return cut if cut.strip() else ""


# ------------------------------------------------------------------------------------------------------------------ errors


def _status_error(name: str, error: APIStatusError) -> ModelError:
    """408 timed out; 429 and 529 rate limited; 409, 425 and 5xx unavailable, or rate limited where the server says when to come
    back; all else is rejected. A server's body may repeat the text, so nothing of it but a short code is told."""
    status, code = error.status_code, error.code or error.type
    message = f"{name} answered {status}"
    if code and _CODE.fullmatch(code):
        message += f" ({code})"
    if status == 429 and code in _SPENT:
        return ModelRejected(f"{message}: the account has no quota left")
    if status == 408:
        return ModelTimedOut(message)
    wait = _retry_after_s(error.response.headers)
    if status in {429, 529} or (status >= 500 and wait is not None):
        return ModelRateLimited(message, wait)
    if status >= 500 or status in {409, 425}:
        return ModelUnavailable(message)
    if status in {401, 403}:
        message += "; check OPENAI_API_KEY and what it may use"
    elif status == 404 or status < 400:
        message += "; check the model's name and AFTERTURN_EMBEDDER_BASE_URL"
    return ModelRejected(message)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
