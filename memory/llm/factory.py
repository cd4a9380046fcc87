"""From names like ``openai:gpt-4.1-mini`` to models.

To add a provider: write ``memory/llm/<name>.py`` with a :class:`~memory.ports.ChatModel`, write a :class:`Provider` for it
here (or there), add one line to ``PROVIDERS``, and add it to the providers of ``tests/contract/test_models.py``. SDKs are
imported when a model of theirs is first asked for: each costs a second of CPU that a process without them does not pay.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from pydantic import SecretStr

from memory.llm.tokens import counter_for
from memory.model.errors import InvalidInput, InvalidSettings
from memory.ports import ChatModel, ModelProvider, TokenCounter
from memory.settings import Settings

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

MAX_OPEN_MODELS: Final = 256
"""Names come from settings of spaces and from turns; the least recently used ones are forgotten."""
MAX_NAME_CHARS: Final = 200
NO_KEY: Final = "no-key"
"""Sent to a server for which no key is set: the SDKs insist on one, or look for credentials elsewhere."""

_NAME = re.compile(r"(?P<provider>[a-z][a-z0-9_]*)(?::(?P<model>[!-~]+))?")


class Provider(Protocol):
    """One provider: the client that its models share, and how to make a model."""

    def model(self, name: str, model: str) -> ChatModel:
        """Args: ``name`` as given (``openai:gpt-4.1``), ``model`` what follows the colon ("" without one).

        Raises InvalidInput when settings that this provider needs are missing; names them.
        """
        ...

    async def aclose(self) -> None: ...


class OpenAIProvider:
    def __init__(self, settings: Settings) -> None:
        self._access = _Access("OPENAI_API_KEY", settings.openai_api_key, "AFTERTURN_OPENAI_BASE_URL", settings.openai_base_url)
        self._reasoning = settings.reasoning_models
        self._client: AsyncOpenAI | None = None

    def model(self, name: str, model: str) -> ChatModel:
        from memory.llm.openai import OpenAIModel, openai_client

        self._access.check(name, model, example="openai:gpt-4.1-mini")
        if self._client is None:
            self._client = openai_client(base_url=self._access.base_url, api_key=self._access.key)
        reasoning = re.search(self._reasoning, name) is not None
        return OpenAIModel(self._client, name, model, reasoning=reasoning, compatible=bool(self._access.base_url))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class AnthropicProvider:
    def __init__(self, settings: Settings) -> None:
        self._access = _Access(
            "ANTHROPIC_API_KEY", settings.anthropic_api_key, "AFTERTURN_ANTHROPIC_BASE_URL", settings.anthropic_base_url
        )
        self._reasoning = settings.reasoning_models
        self._client: AsyncAnthropic | None = None

    def model(self, name: str, model: str) -> ChatModel:
        from memory.llm.anthropic import AnthropicModel, anthropic_client

        self._access.check(name, model, example="anthropic:claude-haiku-4-5")
        if self._client is None:
            self._client = anthropic_client(base_url=self._access.base_url, api_key=self._access.key)
        reasoning = re.search(self._reasoning, name) is not None
        return AnthropicModel(self._client, name, model, reasoning=reasoning, compatible=bool(self._access.base_url))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


class SimulatedProvider:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def model(self, name: str, model: str) -> ChatModel:
        from memory.llm.simulated import SimulatedModel

        settings = self._settings
        try:
            return SimulatedModel(
                name,
                settings.simulated_faults,
                settings.simulated_seed,
                settings.simulated_latency_ms,
                counter_for("simulated", model),
            )
        except InvalidInput as error:
            raise InvalidSettings(f"AFTERTURN_SIMULATED_FAULTS: {error.message}") from None

    async def aclose(self) -> None:
        pass


PROVIDERS: Final[Mapping[str, Callable[[Settings], Provider]]] = {
    "openai": OpenAIProvider,
    "anthropic": AnthropicProvider,
    "simulated": SimulatedProvider,
}


class SdkModels(ModelProvider):
    """Models by name; one client per provider, shared by its models and kept open. For one event loop.

    Names: ``provider:model``; ``simulated`` needs no model.
    """

    def __init__(self, settings: Settings, providers: Mapping[str, Callable[[Settings], Provider]] = PROVIDERS) -> None:
        try:
            re.compile(settings.reasoning_models)
        except re.error as error:
            raise InvalidSettings(f"AFTERTURN_REASONING_MODELS is not a pattern: {error}") from None
        self._settings = settings
        self._known = providers
        self._providers: dict[str, Provider] = {}
        self._models: OrderedDict[str, ChatModel] = OrderedDict()

    def model(self, name: str) -> ChatModel:
        open_model = self._models.get(name)
        if open_model is None:
            provider, model = self._split(name)
            if provider not in self._providers:
                self._providers[provider] = self._known[provider](self._settings)
            open_model = self._models[name] = self._providers[provider].model(name, model)
            if len(self._models) > MAX_OPEN_MODELS:
                self._models.popitem(last=False)
        else:
            self._models.move_to_end(name)
        return open_model

    def token_counter(self, name: str) -> TokenCounter:
        """Needs no key. Raises InvalidInput for an unknown provider."""
        return counter_for(*self._split(name))

    async def aclose(self) -> None:
        self._models.clear()
        async with AsyncExitStack() as stack:  # closes all, also when one fails
            while self._providers:
                stack.push_async_callback(self._providers.popitem()[1].aclose)

    def _split(self, name: str) -> tuple[str, str]:
        match = _NAME.fullmatch(name) if len(name) <= MAX_NAME_CHARS else None
        provider = match["provider"] if match else ""
        if match is None or provider not in self._known:
            # The name is shown only where it has the shape of one: it may come from anywhere.
            shown = f"unknown model provider {provider!r}" if match else "not a model name"
            raise InvalidInput(f"{shown}: use provider:model with a provider of {', '.join(sorted(self._known))}")
        return provider, match["model"] or ""


def build_models(settings: Settings) -> ModelProvider:
    """All providers of ``PROVIDERS`` with these settings. Nothing is imported or opened before a model is asked for."""
    return SdkModels(settings)


class _Access:
    """Key and address of a provider, as the settings give them. Raises InvalidSettings for a value that cannot be one."""

    def __init__(self, key_name: str, key: SecretStr | None, url_name: str, base_url: str | None) -> None:
        self._key_name = key_name
        self._key = key
        self._url_name = url_name
        self.base_url = (base_url or "").strip() or None
        # Checked here because an HTTP library that meets a bad header later shows it, and with it the key.
        if key is not None and not re.fullmatch(r"[!-~]*", key.get_secret_value().strip()):
            raise InvalidSettings(f"{key_name} has characters that no key has (blanks, line ends or beyond ASCII)")
        if self.base_url is not None:
            self._check_address(self.base_url)

    def _check_address(self, address: str) -> None:
        try:
            url = urlsplit(address)
            usable = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
            has_user = url.username is not None
        except ValueError:
            usable = has_user = False
        if has_user:
            raise InvalidSettings(f"{self._url_name} holds a user or password: addresses are logged; use {self._key_name}")
        if not usable:
            raise InvalidSettings(f"{self._url_name} is not the address of a server: use http://host:port/… or https://…")

    @property
    def key(self) -> str:
        return (self._key.get_secret_value().strip() if self._key else "") or NO_KEY

    def check(self, name: str, model: str, *, example: str) -> None:
        """Raises InvalidInput when the name has no model, or when neither key nor server is set."""
        if not model:
            raise InvalidInput(f"{name} names no model: use for instance {example}")
        if self.base_url is None and self.key == NO_KEY:
            raise InvalidInput(f"{name} needs a key: set {self._key_name}, or {self._url_name} for a server without one")
