"""A whole site on one machine: real engines, each its own process, several worker processes, one orchestrator (this process).

Temporal's development server with a database file, an S3 server, PostgreSQL with durable commits (or SQLite), Qdrant's engine in a
process that serves it to the workers. In a folder that is thrown away.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from temporalio.client import Client

from bench.results import BenchError
from bench.world import TENANT, WorkerProcess, cpu_seconds, peak_memory, worker_environment
from memory.model.directory import DEFAULT_ROOT_FOLDER
from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.profiles import Profiles
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import Tables, build_tables
from starter.client import MemoryClient
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from starter.temporal import connect
from tests.support.postgres import PostgresServer, find_postgres

ORCHESTRATOR: Final = "orchestrator"
WORKFLOW_WORKERS: Final = "workflow workers"
MODEL_WORKERS: Final = "model workers"
VECTORS: Final = "vector engine"
TEMPORAL: Final = "Temporal server"
POSTGRES: Final = "PostgreSQL"
S3: Final = "S3 server"

_VECTORS_PROCESS: Final = "vectors"
_PATIENCE_MS: Final = 60_000.0
"""What the machine cannot take must show as time, not as turns that the client gave up waiting for."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """``database``: ``postgresql`` or ``sqlite``. ``window``: events of a window. Workers: processes of each kind."""

    workflow_workers: int = 2
    model_workers: int = 1
    database: str = "postgresql"
    window: int = 50


@dataclass(frozen=True, slots=True)
class Site:
    folder: Path
    settings: Settings
    temporal: TemporalServer
    s3: S3Server
    client: Client
    memory: MemoryClient
    tables: Tables
    store: MinioObjectStore
    profiles: Profiles
    vectors: WorkerProcess
    workers: tuple[tuple[str, WorkerProcess], ...]
    postgres_pid: int | None

    def pids(self) -> dict[str, list[int]]:
        """The processes of each kind; of PostgreSQL the first one only."""
        if self.temporal.pid is None or self.s3.pid is None:
            raise BenchError("an engine does not run")
        found: dict[str, list[int]] = {ORCHESTRATOR: [os.getpid()]}
        for kind, process in self.workers:
            found.setdefault(kind, []).append(process.pid)
        found |= {VECTORS: [self.vectors.pid], TEMPORAL: [self.temporal.pid], S3: [self.s3.pid]}
        return found | ({POSTGRES: [self.postgres_pid]} if self.postgres_pid else {})

    def cpu(self) -> dict[str, float]:
        """CPU seconds by kind of process since they began. Of PostgreSQL those of its connections too, ended ones included."""
        return {
            kind: sum(_family_cpu(pid) if kind == POSTGRES else cpu_seconds(pid) for pid in pids)
            for kind, pids in self.pids().items()
        }

    def peak_memory(self) -> dict[str, list[float]]:
        """Bytes per process by kind: the highest so far; of PostgreSQL what all its processes share and have now."""
        return {
            kind: [_family_memory(pid) if kind == POSTGRES else peak_memory(pid) for pid in pids]
            for kind, pids in self.pids().items()
        }


def _family_cpu(pid: int) -> float:
    process = psutil.Process(pid)
    ended = process.cpu_times()
    return cpu_seconds(pid) + ended.children_user + ended.children_system + sum(cpu_seconds(c.pid) for c in process.children())


def _family_memory(pid: int) -> float:
    process = psutil.Process(pid)
    try:
        return float(sum(one.memory_full_info().pss for one in (process, *process.children())))
    except psutil.AccessDenied:
        # The server's processes belong to another account: shared pages count once per process, so this is too much.
        return float(sum(one.memory_info().rss for one in (process, *process.children())))


@asynccontextmanager
async def open_site(sizes: Sizes) -> AsyncGenerator[Site]:
    """Everything up; all of it is gone when the block ends. Raises BenchError where something is not there or does not start."""
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="afterturn-load-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        s3 = await stack.enter_async_context(S3Server(folder))
        temporal = await stack.enter_async_context(TemporalServer(folder, ui=False))
        postgres = _postgres(stack) if sizes.database == "postgresql" else None
        url = f"sqlite:///{folder / 'afterturn.db'}" if postgres is None else postgres.url(postgres.create_database(migrated=False))
        await asyncio.to_thread(migrate, url)
        settings = load_settings(
            {},
            data_dir=folder,
            feature_flag=True,
            embedder="none",
            database_url=url,
            window_size=sizes.window,
            load_budget_ms=_PATIENCE_MS,
            after_answer_budget_ms=_PATIENCE_MS,
            vector_api_key=secrets.token_urlsafe(24),
            **s3.settings,
        )
        vectors = await _vectors(stack, settings, temporal)
        settings = settings.model_copy(update={"vector_service_url": vectors.ready_file.read_text("utf-8")})
        client = await connect(settings, address=temporal.address, namespace=temporal.namespace)
        tables = build_tables(settings)
        stack.push_async_callback(tables.aclose)
        store = MinioObjectStore.from_settings(settings)
        stack.push_async_callback(store.aclose)
        profiles = Profiles(store, bucket_prefix=settings.bucket_prefix)
        await profiles.prepare(TENANT)
        await tables.directory.provision_root(TENANT, DEFAULT_ROOT_FOLDER)
        await ensure_schedules(client, settings)
        workers = await _workers(stack, sizes, settings, temporal)
        os.environ["TEMPORAL_ADDRESS"] = temporal.address  # where MemoryClient connects to
        stack.callback(os.environ.pop, "TEMPORAL_ADDRESS", None)
        memory = await stack.enter_async_context(MemoryClient(settings))
        yield Site(
            folder=folder,
            settings=settings,
            temporal=temporal,
            s3=s3,
            client=client,
            memory=memory,
            tables=tables,
            store=store,
            profiles=profiles,
            vectors=vectors,
            workers=workers,
            postgres_pid=postgres.pid if postgres else None,
        )


def _postgres(stack: AsyncExitStack) -> PostgresServer:
    binaries = find_postgres()
    if binaries is None:
        raise BenchError("no PostgreSQL can be run here; install it with: apt-get install postgresql, or give --database sqlite")
    server = PostgresServer(binaries)
    stack.callback(server.remove)
    server.create()
    # In this thread and not in one of a pool: the server ends with the thread that started it.
    server.start(durable=True)
    return server


async def _vectors(stack: AsyncExitStack, settings: Settings, temporal: TemporalServer) -> WorkerProcess:
    environment = worker_environment(settings, temporal)
    if settings.vector_api_key is not None:
        environment["AFTERTURN_VECTOR_API_KEY"] = settings.vector_api_key.get_secret_value()
    process = WorkerProcess(settings.data_dir, environment, name=_VECTORS_PROCESS, module="bench.vectors")
    stack.push_async_callback(process.stop)
    await process.start()
    return process


async def _workers(
    stack: AsyncExitStack, sizes: Sizes, settings: Settings, temporal: TemporalServer
) -> tuple[tuple[str, WorkerProcess], ...]:
    kinds = ((WORKFLOW_WORKERS, TASK_QUEUE, sizes.workflow_workers), (MODEL_WORKERS, MODEL_TASK_QUEUE, sizes.model_workers))
    environment = worker_environment(settings, temporal)
    workers = tuple(
        (kind, WorkerProcess(settings.data_dir, environment, name=f"{queue}-{number}", arguments=(queue,)))
        for kind, queue, count in kinds
        for number in range(count)
    )
    for _, process in workers:
        stack.push_async_callback(process.stop)
    await asyncio.gather(*(process.start() for _, process in workers))
    return workers
