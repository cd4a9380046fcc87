"""Real worker processes under a test's control, and what an orchestrator and an operator see of the world that they work in."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from google.protobuf.duration_pb2 import Duration
from pydantic import SecretStr
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities import build_activities
from memory.llm.factory import build_models
from memory.model.errors import InvalidSettings, MemoryUnavailable
from memory.model.names import RECONCILE_SCHEDULE_ID, SWEEP_SCHEDULE_ID
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.ports import TurnSummary
from memory.profiles import Profiles
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import build_tables
from starter import MemoryClient
from starter.client import Parts
from starter.schedules import ensure_schedules
from starter.search import open_search, stores_of
from starter.temporal import connect, ensure_search_attributes
from tests.support.crashing_worker import Job
from tests.support.waiting import until
from tests.support.wires import Point, Wire, wired
from worker import QUEUES, build_workers, open_collaborators

ROOT = Path(__file__).parents[2]
START_S = 60.0
STOP_S = 45.0
COMMAND_STOP_S = 60.0


def plain_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any setting of the product, so that only what a test says counts."""
    ours = ("AFTERTURN", "TEMPORAL", "OPENAI", "ANTHROPIC", "FEATURE", "ALLOW_CONTEXT")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(ours)}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error,ignore:Cannot find activity to cancel:UserWarning",
        "LC_ALL": "C.UTF-8",
        **(extra or {}),
    }


# -------------------------------------------------------------------------------------------------------- worker processes


@dataclass
class WorkerProcess:
    """``ended``: the exit code when it has ended; the negative signal number where a signal ended it."""

    job: Job
    pid: int = 0
    started: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    ended: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def running(self) -> bool:
        return self.started.done() and not self.ended.done()

    async def wait(self, within_s: float = STOP_S) -> int:
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.shield(self.ended)
        except TimeoutError:
            raise AssertionError(f"worker {self.job.job_id} still runs after {within_s} s:\n{self.log()}") from None

    def kill(self) -> None:
        if self.running:
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def log(self) -> str:
        path = Path(self.job.log)
        return path.read_text("utf-8", "replace") if path.exists() else ""


class Foreman:
    """Starts worker processes cheaply (see ``tests.support.crashing_worker``). ``async with``; all end with the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workers: dict[str, WorkerProcess] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "foreman.err").open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.crashing_worker"),
                cwd=ROOT,
                env=plain_environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_S):
            first = await self._process.stdout.readline()
        assert first, (self._folder / "foreman.err").read_text()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading

    async def start(
        self,
        settings: Settings,
        client: Client,
        *,
        crash: Point | None = None,
        queues: Sequence[str] = QUEUES,
        flaky: float = 0.0,
        script: Sequence[Any] | None = None,
        command: bool = False,
    ) -> WorkerProcess:
        """A worker on the client's server and namespace; returns when its process exists. ``flaky``: see ``wires.Flaky``.
        ``command``: it is `afterturn worker`."""
        job_id = f"worker-{next(self._numbers)}"
        job = Job(
            job_id=job_id,
            address=client.service_client.config.target_host,
            namespace=client.namespace,
            log=str(self._folder / f"{job_id}.err"),
            settings=as_json(settings),
            queues=tuple(queues),
            crash=crash,
            flaky=flaky,
            script=None if script is None else list(script),
            command=plain_environment({**as_environment(settings), **server_of(client)}) if command else None,
        )
        worker = self._workers[job_id] = WorkerProcess(job)
        assert self._process.stdin is not None
        self._process.stdin.write(job.to_json().encode() + b"\n")
        async with asyncio.timeout(START_S):
            await worker.started
        return worker

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = json.loads(line)
            worker = self._workers[event["job"]]
            if "pid" in event:
                worker.pid = event["pid"]
                worker.started.set_result(None)
            else:
                worker.ended.set_result(event["ended"])


def as_json(settings: Settings) -> dict[str, Any]:
    """All settings that are not the default, in a form that JSON holds. Secrets are in plain form: for a pipe only."""

    def plain(value: Any) -> Any:
        if isinstance(value, SecretStr):
            return value.get_secret_value()
        if isinstance(value, frozenset):
            return ",".join(sorted(value))
        return str(value) if isinstance(value, Path) else value

    changed = settings.model_dump(exclude_defaults=True)
    return {name: plain(value) for name, value in changed.items()}


def as_environment(settings: Settings) -> dict[str, str]:
    """The same as ``AFTERTURN_…`` variables, for the real commands."""
    return {
        f"AFTERTURN_{name.upper()}": json.dumps(value) if isinstance(value, bool | dict) else str(value)
        for name, value in as_json(settings).items()
    }


@dataclass
class Command:
    """A running `afterturn worker`."""

    process: asyncio.subprocess.Process
    log_path: Path

    def log(self) -> str:
        return self.log_path.read_text("utf-8", "replace")

    async def ended(self) -> int:
        try:
            async with asyncio.timeout(COMMAND_STOP_S):
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"still runs {COMMAND_STOP_S} s after SIGTERM:\n{self.log()}") from None


def server_of(client: Client) -> dict[str, str]:
    """The ``TEMPORAL_…`` variables that lead a process to the same server and namespace."""
    return {"TEMPORAL_ADDRESS": client.service_client.config.target_host, "TEMPORAL_NAMESPACE": client.namespace}


@asynccontextmanager
async def worker_command(
    settings: Settings, client: Client, log: Path, queue: str = "all", *, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[Command]:
    """`afterturn worker`, ready to work; killed at the end of the block if it still runs.

    ``environment``: in place of the variables that lead to the client's server.
    """
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "starter.cli", "worker", "--queue", queue),
            cwd=settings.data_dir,
            env=plain_environment({**as_environment(settings), **(environment or server_of(client))}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
    command = Command(process, log)
    try:
        await until(lambda: "worker_started" in command.log() or process.returncode is not None, within_s=60, what="worker_started")
        assert process.returncode is None, command.log()
        yield command
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


# --------------------------------------------------------------------------------------------------------------- namespaces


async def new_namespace(address: str) -> Client:
    """A client in a fresh namespace that knows our search attributes: nobody else's workers poll there."""
    name = f"ns-{uuid.uuid4().hex[:12]}"
    settings = load_settings({})
    client = await connect(settings, address=address, namespace=name)
    retention = Duration(seconds=86_400)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=retention)
    )

    async def known() -> bool:
        try:
            await ensure_search_attributes(client)
        except (InvalidSettings, MemoryUnavailable):
            return False  # the server's parts hear of a new namespace one after the other
        try:
            return await client.count_workflows("AfterturnTenant = '-'") is not None
        except RPCError as error:
            if error.status in {RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT}:
                return False
            raise

    await until(known, within_s=60.0, what="a usable namespace")
    return client


@asynccontextmanager
async def scheduled(client: Client, settings: Settings) -> AsyncGenerator[None]:
    """The product's schedules, for as long as the block runs: a shared server would go on starting sweeps every second."""
    await ensure_schedules(client, settings)
    try:
        yield
    finally:
        for schedule_id in (SWEEP_SCHEDULE_ID, RECONCILE_SCHEDULE_ID):
            await client.get_schedule_handle(schedule_id).delete()


# ------------------------------------------------------------------------------------------------------------------- worlds


@dataclass
class World:
    """One company's memory: client, ledger, profiles, and the Temporal namespace that its workers poll."""

    settings: Settings
    client: Client
    parts: Parts
    memory: MemoryClient

    async def record(self, scope: Scope, turns: Iterable[Turn]) -> None:
        for turn in turns:
            receipt = await self.memory.after_answer(scope, turn)
            assert receipt.status.value in {"recorded", "duplicate", "pending"}, receipt

    async def ledger(self, scope: Scope) -> dict[str, TurnSummary]:
        rows = await self.parts.log.summaries(scope=scope, limit=1000)
        return {row.turn_id: row for row in reversed(rows)}

    async def settle(self, *scopes: Scope, timeout_s: float = 90.0) -> None:
        for scope in scopes:
            assert await self.memory.wait_until_idle(scope, timeout_s=timeout_s), (
                f"{scope} is not idle: {await self.memory.status(scope)}"
            )


@asynccontextmanager
async def open_world(settings: Settings, client: Client) -> AsyncGenerator[World]:
    """A client of its own connections; no worker."""
    async with AsyncExitStack() as exits:
        tables = build_tables(settings)
        exits.push_async_callback(tables.aclose)
        store = MinioObjectStore.from_settings(settings)
        exits.push_async_callback(store.aclose)
        models = build_models(settings)
        exits.push_async_callback(models.aclose)

        async def connected() -> Client:
            return client

        index = open_search(settings, tables)
        exits.push_async_callback(index.aclose)
        parts = Parts(
            tables.directory,
            tables.log,
            Profiles(store, bucket_prefix=settings.bucket_prefix),
            models,
            connected,
            tables.windows,
            stores_of(tables, index),
            index,
            tables.usage,
            tables.loops,
            tables.knowledge,
            tables.erasures,
        )
        memory = await exits.enter_async_context(MemoryClient.from_parts(settings, parts))
        yield World(settings, client, parts, memory)


def migrated_file(folder: Path) -> Path:
    """A SQLite file with this version's tables, for copying."""
    path = folder / "template.db"
    migrate(f"sqlite:///{path}")
    return path


def world_settings(folder: Path, template: Path, engine: Mapping[str, Any], **overrides: Any) -> Settings:
    """Settings of a world in ``folder``: an own migrated SQLite file and own buckets on the S3 server of ``engine``."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(template, folder / "afterturn.db")
    values: dict[str, Any] = {
        "data_dir": folder,
        "bucket_prefix": f"t{uuid.uuid4().hex[:12]}",
        "feature_flag": True,
        "load_budget_ms": 20_000,
        "after_answer_budget_ms": 20_000,
        "embedder": "none",
        **engine,
        **overrides,
    }
    return load_settings({}, **values)


@asynccontextmanager
async def working(world: World, wire: Wire) -> AsyncGenerator[None]:
    """Workers of this world in this process, with a wire around their ports, while the block runs."""
    async with AsyncExitStack() as exits:
        parts = await exits.enter_async_context(open_collaborators(world.settings, world.client))
        for worker in build_workers(world.client, world.settings, build_activities(wired(parts, wire))):
            await exits.enter_async_context(worker)
        yield
