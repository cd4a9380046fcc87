"""Everything on one machine: the engines, the database's schema, the worker, the schedules and the API of one data folder.

``afterturn dev`` runs it in ``.afterturn`` and announces it to other commands in ``dev.json``; the demo runs it in a folder that
is thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import structlog
from pydantic import SecretStr
from temporalio.client import Client

from activities import Collaborators, build_activities
from memory.llm.factory import build_models
from memory.model.errors import MemoryUnavailable
from memory.settings import DEV_FILE, Settings, load_settings
from memory.settings_api import split_address
from memory.stores.folder_lock import FolderLock
from memory.stores.http_server import listening, serving
from memory.stores.migrations import migrate
from memory.stores.vectors import serve_vectors
from starter.backlogs import backlogs_measured
from starter.engines import Engine, S3Server, TemporalServer
from starter.heartbeat import announced
from starter.observing import ALL, observed
from starter.processes import free_ports
from starter.schedules import ensure_schedules
from starter.temporal import connect
from worker import build_workers, check_dependencies, open_collaborators

_log = structlog.get_logger("afterturn.dev")

MAX_RESTARTS = 3
RESTART_WINDOW_S = 300.0
STOP_GRACE_S = 10.0


class LocalStack:
    """The whole of afterturn in this process and its children, while the ``async with`` block runs.

    Attributes that can be used inside the block: ``settings``, ``client`` (Temporal), ``parts`` (adapters), ``urls``.

    Args:
        data_dir: the folder that holds all state; locked against other processes.
        overrides: settings by field name that win over the environment.
        throw_away: for a demo: only stores of its own, whatever the environment names; Temporal keeps its state in memory
            (faster); an engine that ends is not started again.
        progress: called with a short text before each step.

    Raises on entering:
        FolderInUse: another process runs on this folder; names it.
        InvalidSettings, InvalidInput, MemoryUnavailable: one line; everything that had been started is stopped.
    """

    settings: Settings
    client: Client
    parts: Collaborators
    urls: dict[str, str]

    def __init__(
        self,
        data_dir: Path,
        *,
        overrides: Mapping[str, Any] | None = None,
        throw_away: bool = False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self._overrides = dict(overrides or {})
        self._throw_away = throw_away
        self._progress = progress
        self._stack = AsyncExitStack()
        self._engines: list[Engine] = []
        self._vectors: dict[str, Any] = {}

    @property
    def dev_file(self) -> Path:
        return self.data_dir / DEV_FILE

    @property
    def client_settings(self) -> Settings:
        """For a client beside this stack: the same, but the vector engine is reached through its owner."""
        key = self._vectors.get("vector_api_key")
        update = {**self._vectors, "vector_api_key": SecretStr(key) if key else None} if self._vectors else {}
        return self.settings.model_copy(update=update)

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        lock = FolderLock(self.data_dir, owner="afterturn dev")
        await asyncio.to_thread(lock.acquire)
        self._stack.callback(lock.release)
        # We hold the lock, so whoever wrote this file is gone, even if its process id lives on in a stranger.
        self.dev_file.unlink(missing_ok=True)
        asked = load_settings(data_dir=self.data_dir, **self._asked())

        # Before the servers: what cannot be used stops the start at once.
        await _check_model(asked)
        await self._stack.enter_async_context(observed(asked, "afterturn-dev", ALL))

        self._progress("starting the servers")
        # Nobody reads again what is thrown away, so its servers need not put anything in order at their end.
        grace_s = 0.0 if self._throw_away else STOP_GRACE_S
        codec, endpoint = self._codec_listener(asked)
        temporal = TemporalServer(self.data_dir, in_memory=self._throw_away, stop_grace_s=grace_s, codec_endpoint=endpoint)
        foreign_store = "object_store_endpoint" in asked.model_fields_set and not self._throw_away
        own_store = None if foreign_store else S3Server(self.data_dir, stop_grace_s=grace_s)
        self._engines = [engine for engine in (temporal, own_store) if engine is not None]
        # Registered before the start: a start that is cancelled half-way is stopped as well.
        self._stack.push_async_callback(self._stop_engines)
        self._progress("starting the servers and bringing the database to its schema")
        starts = [engine.start() for engine in self._engines]
        done = await asyncio.gather(*starts, asyncio.to_thread(migrate, asked.sqlalchemy_url), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result

        store_settings: dict[str, Any] = own_store.settings if own_store else {}
        flag: dict[str, Any] = {} if "feature_flag" in asked.model_fields_set else {"feature_flag": True}
        pages: dict[str, Any] = {}
        listener: socket.socket | None = None
        if not self._throw_away:
            listener = _listener(asked, "api_address", name="the API")
            self._stack.callback(listener.close)
            pages = _page_settings(asked, listener, temporal.ui_url)
        self.settings = load_settings(data_dir=self.data_dir, **{**flag, **store_settings, **pages, **self._asked()})
        self._progress("checking the stores and starting the worker")
        self.client = await connect(self.settings, address=temporal.address, namespace=temporal.namespace)
        self.parts = await self._stack.enter_async_context(open_collaborators(self.settings, self.client))
        await check_dependencies(self.settings, self.client, self.parts)
        await self._stack.enter_async_context(announced(self.parts.processes, kind="worker", settings=self.settings))
        for worker in build_workers(self.client, self.settings, build_activities(self.parts)):
            await self._stack.enter_async_context(worker)
        parts = self.parts
        await self._stack.enter_async_context(backlogs_measured(self.settings, parts.log, parts.ledger, parts.erasures))
        await ensure_schedules(self.client, self.settings)
        if self.settings.vector_url is None:
            # The engine is in this process: all others, and clients in this one, search through it.
            key = secrets.token_urlsafe(24)
            address = await self._stack.enter_async_context(serve_vectors(self.parts.index.vectors, token=key))
            self._vectors = {"vector_service_url": address, "vector_api_key": key}

        self.urls = {"web_ui": temporal.ui_url or "", "temporal_metrics": temporal.metrics_url}
        if self.settings.metrics_address is not None:
            self.urls["metrics"] = f"http://{self.settings.metrics_address}/metrics"
        self.urls["object_store"] = (
            f"http{'s' if self.settings.object_store_secure else ''}://{self.settings.object_store_endpoint}"
        )
        local: dict[str, Any] = {}
        if codec is not None:
            await self._serve_codec(codec, temporal.ui_url)
        if listener is not None:
            self._progress("starting the API")
            from api.dev import dev_api  # what serves HTTP is slow to load, and a demo does without

            serving = dev_api(self.client_settings, self.client, self.parts, listener=listener)
            served = await self._stack.enter_async_context(serving)
            self.urls |= served.urls
            local["api_key"] = served.key
        write_dev_file(
            self.dev_file,
            {
                "pid": os.getpid(),
                "temporal_address": temporal.address,
                "temporal_namespace": temporal.namespace,
                "urls": self.urls,
                **local,
                "settings": {**_shared_settings(self.settings), **self._vectors},
            },
        )
        self._stack.callback(self.dev_file.unlink, missing_ok=True)

    def _codec_listener(self, asked: Settings) -> tuple[socket.socket | None, str | None]:
        """Where the Web UI will have encrypted payloads decrypted; it is told at its start. None where nothing is encrypted."""
        if asked.payload_keys is None:
            return None, None
        listener = _listener(asked, "codec_address", name="the codec server")
        self._stack.callback(listener.close)
        return listener, f"http://{_address_of(listener)}"

    async def _serve_codec(self, listener: socket.socket, web_ui: str | None) -> None:
        from api.codec_server import NAME, codec_for, web_ui_origins

        settings = self.settings.model_copy(update={"codec_address": _address_of(listener)})
        if settings.temporal_ui_url is None:
            settings = settings.model_copy(update={"temporal_ui_url": web_ui})
        app = await self._stack.enter_async_context(codec_for(settings, origins=web_ui_origins(settings)))
        host, port = listener.getsockname()[:2]
        serving_it = serving(app, name=NAME, host=host, port=port, given=listener)
        self.urls["codec_server"] = await self._stack.enter_async_context(serving_it)

    async def _stop_engines(self) -> None:
        """Both at once: each takes a second or two."""
        stopped = await asyncio.gather(*(engine.stop() for engine in self._engines), return_exceptions=True)
        for error in stopped:
            if isinstance(error, BaseException):
                raise error

    def _asked(self) -> dict[str, Any]:
        if not self._throw_away:
            return self._overrides
        # Nothing that the environment names is written to or told by a demo.
        alone: dict[str, Any] = {
            "database_url": f"sqlite:///{self.data_dir / 'afterturn.db'}",
            "spool_path": None,
            "notice_webhook_url": None,
            "metrics_address": None,
            "payload_keys": None,
            "feature_flag": True,
            "bucket_prefix": "demo",
            # Nobody waits for an answer here: a first turn on a busy machine must not go by way of the spool.
            "load_budget_ms": 5_000,
            "after_answer_budget_ms": 10_000,
        }
        return {**alone, **self._overrides}

    async def watch(self) -> None:
        """Start engines again that end; runs until cancelled.

        Raises MemoryUnavailable when one ends and must not be started again, or ends for the fourth time in five minutes.
        """
        tasks = [asyncio.create_task(self._guard(engine)) for engine in self._engines]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _guard(self, engine: Engine) -> None:
        clock = asyncio.get_running_loop().time
        restarts: deque[float] = deque()
        while True:
            code = await engine.wait()
            while restarts and clock() - restarts[0] > RESTART_WINDOW_S:
                restarts.popleft()
            if self._throw_away or len(restarts) >= MAX_RESTARTS:
                raise MemoryUnavailable(f"the {engine.title} ended with exit code {code}; see {engine.log}")
            _log.warning("engine_ended_restarting", engine=engine.name, exit_code=code, log=str(engine.log))
            restarts.append(clock())
            await engine.restart()


async def _check_model(settings: Settings) -> None:
    models = build_models(settings)
    try:
        models.model(settings.language_model)
    finally:
        await models.aclose()


def _listener(asked: Settings, setting: str, *, name: str) -> socket.socket:
    """Has the port that a setting names from now on, before its address is told to anybody: a free one where the usual one is
    taken. Raises MemoryUnavailable: the address is taken, and was asked for.
    """
    host, port = split_address(getattr(asked, setting)) or ("127.0.0.1", 0)
    try:
        return listening(host, port, name=name)
    except MemoryUnavailable:
        if setting in asked.model_fields_set:
            raise
    return listening(host, free_ports(1)[0], name=name)


def _address_of(listener: socket.socket) -> str:
    """``host:port``."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _page_settings(asked: Settings, listener: socket.socket, web_ui: str | None) -> dict[str, Any]:
    """What the API of `afterturn dev` needs and nobody gave: its address, a secret of this start, links to its pages."""
    address = _address_of(listener)
    base = (asked.public_url or f"http://{address}").rstrip("/")
    made = {
        "api_address": address,
        "session_secret": SecretStr(secrets.token_urlsafe(48)),
        "review_url": f"{base}/settings",
        "temporal_ui_url": web_ui,
    }
    return {name: value for name, value in made.items() if name not in asked.model_fields_set}


def write_dev_file(path: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all, readable by its owner only: it holds the keys of the local engines."""
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            scratch.unlink()
        raise


def _shared_settings(settings: Settings) -> dict[str, Any]:
    """What another command needs in order to work with the same stores by the same rules."""
    flag = settings.feature_flag
    keys = settings.payload_keys
    return {
        **({"payload_keys": keys.get_secret_value()} if keys else {}),
        "database_url": settings.sqlalchemy_url,
        "object_store_endpoint": settings.object_store_endpoint,
        "object_store_access_key": settings.object_store_access_key.get_secret_value(),
        "object_store_secret_key": settings.object_store_secret_key.get_secret_value(),
        "object_store_region": settings.object_store_region,
        "object_store_secure": settings.object_store_secure,
        "bucket_prefix": settings.bucket_prefix,
        "language_model": settings.language_model,
        "feature_flag": flag if isinstance(flag, bool) else sorted(flag),
        "embedder": settings.embedder,
        "window_size": settings.window_size,
        **{f"memory_{category.value}": on for category, on in settings.memory_flags.items()},
    }
