"""Servers in this process that a test takes away and brings back on the same port: connections are cut, then refused."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from memory.llm.factory import build_models
from memory.settings import load_settings
from memory.stores.vectors.edge import EdgeVectors
from memory.stores.vectors.service import serve
from tests.support.model_stub import ModelStub, answer_with


class VectorService:
    """Qdrant's engine, served as `afterturn dev` serves it. ``async with``."""

    def __init__(self, folder: Path) -> None:
        self._engine = EdgeVectors(folder, owner="a test")
        self._token = secrets.token_urlsafe(16)
        self._url = "http://127.0.0.1:0"
        self._serving: AsyncExitStack | None = None

    @property
    def settings(self) -> dict[str, Any]:
        return {"vector_service_url": self._url, "vector_api_key": self._token}

    async def start(self) -> None:
        self._serving = AsyncExitStack()
        port = urlsplit(self._url).port or 0
        self._url = await self._serving.enter_async_context(serve(self._engine, token=self._token, port=port))

    async def stop(self) -> None:
        if self._serving is not None:
            await self._serving.aclose()
        self._serving = None

    async def __aenter__(self) -> VectorService:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self._engine.aclose()


class ModelServer:
    """The simulated model behind an OpenAI-compatible API. ``with``."""

    def __init__(self) -> None:
        self._answer = answer_with(build_models(load_settings({})).model("simulated"))
        self._stub = ModelStub(default=self._answer)

    @property
    def settings(self) -> dict[str, Any]:
        return {"language_model": "openai:stub", **self._stub.settings}

    def start(self) -> None:
        self._stub.start()

    def stop(self) -> None:
        port = urlsplit(self._stub.url).port or 0
        self._stub.stop()
        self._stub = ModelStub(default=self._answer, port=port)

    def __enter__(self) -> ModelServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stub.stop()
