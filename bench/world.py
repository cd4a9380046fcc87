"""The real engines of one measure, in a folder that is thrown away: Temporal, S3, SQLite, a client, and a worker.

Each measure has a world of its own, so none finds what another left behind. Everything that was started is stopped.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil
from temporalio.client import Client, WorkflowHandle

from bench.bare import BARE_QUEUE, BARE_WINDOW, BARE_WORKFLOW
from bench.results import BenchError
from bench.scripted_model import UPDATE_MARK, bullet_text
from memory.model.directory import DEFAULT_ROOT_FOLDER
from memory.model.profile import SECTIONS, Profile
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.profiles import Profiles
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import Tables, build_tables
from starter.client import MemoryClient
from starter.engines import S3Server, TemporalServer
from starter.processes import ChildProcess
from starter.temporal import connect
from starter.views import ReceiptStatus

ROOT: Final = Path(__file__).parents[1]
TENANT: Final = "bench"
RESULT_WITHIN_S: Final = 60.0
READY_WITHIN_S: Final = 60.0
CLIENT_BUDGET_MS: Final = 60_000.0
"""Load beyond what the machine can take must show as time, not as turns that the client gave up waiting for."""


class WorkerProcess:
    """``bench.worker``, or another module that writes a file when it is ready, as a child process."""

    def __init__(
        self,
        data_dir: Path,
        environment: dict[str, str],
        *,
        name: str = "worker",
        module: str = "bench.worker",
        arguments: Sequence[str] = (),
    ) -> None:
        """``name``: of its files. ``arguments``: after the file's path."""
        self.name = name
        self.ready_file = data_dir / f"{name}.ready"
        self._log = data_dir / "logs" / f"{name}.log"
        argv = [sys.executable, "-m", module, str(self.ready_file), *arguments]
        self._child = ChildProcess(argv, env=environment, cwd=ROOT, log=self._log)

    @property
    def pid(self) -> int:
        if self._child.pid is None:
            raise BenchError(f"the process {self.name} was not started")
        return self._child.pid

    async def start(self) -> None:
        """Until it polls. Raises BenchError with the end of its log when it does not come up."""
        await asyncio.to_thread(self._child.start)
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.ready_file.exists():
            if not self._child.running or time.monotonic() > deadline:
                tail = " | ".join(self._log.read_text("utf-8", "replace").splitlines()[-3:])
                raise BenchError(f"the process {self.name} did not start: {tail}")
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        await asyncio.to_thread(self._child.stop, 20.0)


@dataclass(frozen=True, slots=True)
class World:
    """``worker`` is None where the measure needs none. ``tables`` and ``profiles`` are for preparing and checking only."""

    settings: Settings
    s3: S3Server
    temporal: TemporalServer
    client: Client
    memory: MemoryClient
    tables: Tables
    profiles: Profiles
    worker: WorkerProcess | None

    async def seed(self, scope: Scope, *, bullets: int) -> None:
        """A profile of so many bullets, as an earlier life of the user would have left it."""
        rows: dict[str, list[str]] = {name: [] for name in SECTIONS}
        for number in range(bullets):
            rows[SECTIONS[number % len(SECTIONS)]].append(bullet_text(number, seed=1))
        rows["Recent Topics"] = [f"2026-01-02 03:04 UTC: {text}" for text in rows["Recent Topics"]]
        base = await self.profiles.read(scope, DEFAULT_ROOT_FOLDER)
        document = self.profiles.compose(base, Profile.of(rows), scope=scope, rewrite=True, now=datetime.now(UTC))
        await self.profiles.commit(
            scope,
            DEFAULT_ROOT_FOLDER,
            document,
            base_etag=base.etag,
            base_version=base.version,
            write_key="seed",
            cause="edit",
            applied_turns=(),
        )

    async def bare(self, workflow_id: str) -> None:
        """One bare workflow from its start to its result."""
        await _result(await self.client.start_workflow(BARE_WORKFLOW, id=workflow_id, task_queue=BARE_QUEUE))

    async def bare_window(self, workflow_id: str, kinds: str) -> None:
        """One bare workflow with empty activities of these kinds."""
        await _result(await self.client.start_workflow(BARE_WINDOW, kinds, id=workflow_id, task_queue=BARE_QUEUE))

    async def window(self, scope: Scope) -> None:
        """Until the run that works off the user's windows has ended."""
        await _result(self.client.get_workflow_handle(scope.consolidate_events_workflow_id))

    async def turn(self, scope: Scope, turn_id: str, *, update: bool) -> None:
        """One turn from ``after_answer`` to the end of the run that worked it off. One at a time per user.

        Raises BenchError when it was not recorded, or its workflow not started.
        """
        await self._hand_over(scope, turn_id, update)
        await self._worked_off(scope)

    async def burst(self, scope: Scope, turn_ids: Sequence[str], *, update: bool) -> None:
        """As :meth:`turn`, with several turns at once, which the pipeline may take together."""
        await asyncio.gather(*(self._hand_over(scope, turn_id, update) for turn_id in turn_ids))
        await self._worked_off(scope)

    async def _hand_over(self, scope: Scope, turn_id: str, update: bool) -> None:
        receipt = await self.memory.after_answer(scope, make_turn(turn_id, update=update))
        if receipt.status is not ReceiptStatus.RECORDED or not receipt.started:
            raise BenchError(f"turn {turn_id} was {receipt.status}, started {receipt.started}: {receipt.reason}")

    async def _worked_off(self, scope: Scope) -> None:
        await _result(self.client.get_workflow_handle(scope.post_answer_workflow_id))

    async def check_outcomes(self, expected: dict[Outcome, int]) -> None:
        """Every turn of this world ended as the script says. Raises BenchError."""
        total = sum(expected.values())
        rows = await self.tables.log.summaries(tenant=TENANT, limit=total + 1)
        found = Counter(row.outcome.value if row.outcome else row.state for row in rows)
        if found != {outcome.value: count for outcome, count in expected.items()}:
            reasons = sorted({f"{row.outcome}: {row.reason}" for row in rows if row.outcome not in expected})[:3]
            raise BenchError(f"the turns ended as {dict(found)}, expected {expected}; {'; '.join(reasons)}")


async def _result(handle: WorkflowHandle[Any, Any]) -> None:
    """Until the run has ended. Raises BenchError for one that hangs: that is a fault of its own, not a slow measure."""
    try:
        async with asyncio.timeout(RESULT_WITHIN_S):
            await handle.result()
    except TimeoutError:
        raise BenchError(f"the run {handle.id} did not end within {RESULT_WITHIN_S:g} s") from None


def make_turn(turn_id: str, *, update: bool) -> Turn:
    """A turn of everyday size. ``update``: the scripted gate will say UPDATE."""
    user = (
        "Could you look at the plan for the spring launch again? I moved the review to Thursday and told the design team about it."
    )
    answer = (
        "The review on Thursday fits the plan: the texts are due the day before, so the design team has them in time. You may want "
        "to tell the printer as well, since the proofs were promised for Wednesday evening. The remaining dates stay as they were."
    )
    return Turn(
        turn_id=turn_id,
        user_text=f"{UPDATE_MARK} {user}" if update else user,
        assistant_text=answer,
        occurred_at=datetime.now(UTC),
        allow_user_memory=True,
    )


@asynccontextmanager
async def open_world(*, worker: bool = True, in_memory: bool = False) -> AsyncGenerator[World]:
    """Everything up and warm enough to answer; all of it is gone when the block ends.

    Args:
        worker: start the worker process too.
        in_memory: Temporal keeps its state in memory; otherwise in a database file as `afterturn dev` does.
    """
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="afterturn-bench-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        s3 = await stack.enter_async_context(S3Server(folder))
        temporal = await stack.enter_async_context(TemporalServer(folder, in_memory=in_memory, ui=False))
        settings = load_settings(
            {},
            data_dir=folder,
            feature_flag=True,
            embedder="none",
            load_budget_ms=CLIENT_BUDGET_MS,
            after_answer_budget_ms=CLIENT_BUDGET_MS,
            **s3.settings,
        )
        await asyncio.to_thread(migrate, settings.sqlalchemy_url)
        client = await connect(settings, address=temporal.address, namespace=temporal.namespace)
        tables = build_tables(settings)
        stack.push_async_callback(tables.aclose)
        store = MinioObjectStore.from_settings(settings)
        stack.push_async_callback(store.aclose)
        profiles = Profiles(store, bucket_prefix=settings.bucket_prefix)
        await profiles.prepare(TENANT)
        await tables.directory.provision_root(TENANT, DEFAULT_ROOT_FOLDER)
        process = None
        if worker:
            process = WorkerProcess(settings.data_dir, worker_environment(settings, temporal))
            stack.push_async_callback(process.stop)
            await process.start()
        os.environ["TEMPORAL_ADDRESS"] = temporal.address  # where MemoryClient connects to
        stack.callback(os.environ.pop, "TEMPORAL_ADDRESS", None)
        memory = await stack.enter_async_context(MemoryClient(settings))
        yield World(settings, s3, temporal, client, memory, tables, profiles, process)


def worker_environment(settings: Settings, temporal: TemporalServer) -> dict[str, str]:
    """The worker's whole environment: nothing of the caller's leaks into the measure."""
    given = {
        "DATA_DIR": str(settings.data_dir),
        "FEATURE_FLAG": "true",
        "EMBEDDER": "none",
        "WINDOW_SIZE": str(settings.window_size),
        "OBJECT_STORE_ENDPOINT": settings.object_store_endpoint,
        "OBJECT_STORE_ACCESS_KEY": settings.object_store_access_key.get_secret_value(),
        "OBJECT_STORE_SECRET_KEY": settings.object_store_secret_key.get_secret_value(),
        "OBJECT_STORE_REGION": settings.object_store_region,
    }
    if settings.database_url is not None:
        given["DATABASE_URL"] = settings.database_url.get_secret_value()
    if settings.vector_service_url is not None and settings.vector_api_key is not None:
        given |= {"VECTOR_SERVICE_URL": settings.vector_service_url, "VECTOR_API_KEY": settings.vector_api_key.get_secret_value()}
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(settings.data_dir),
        "LANG": "C.UTF-8",
        "TEMPORAL_ADDRESS": temporal.address,
        "TEMPORAL_NAMESPACE": temporal.namespace,
        **{f"AFTERTURN_{name}": value for name, value in given.items()},
    }


# ------------------------------------------------------------------------------------------------------------- clocks


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds that processes have used since they began."""

    temporal: float
    worker: float
    s3: float

    @classmethod
    def now(cls, world: World) -> Cpu:
        if world.worker is None or world.temporal.pid is None or world.s3.pid is None:
            raise BenchError("an engine does not run")
        return cls(cpu_seconds(world.temporal.pid), cpu_seconds(world.worker.pid), cpu_seconds(world.s3.pid))

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.temporal - other.temporal, self.worker - other.worker, self.s3 - other.s3)

    def per(self, count: int) -> Cpu:
        return replace(self, temporal=self.temporal / count, worker=self.worker / count, s3=self.s3 / count)


def cpu_seconds(pid: int) -> float:
    """CPU seconds that a process has used since it began, its children not counted."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def peak_memory(pid: int) -> float:
    """The highest resident memory of a process so far, bytes. Raises BenchError where the system does not tell."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    raise BenchError("this system does not tell the peak memory of a process (Linux does)")


async def timed(action: Callable[[], Awaitable[object]]) -> float:
    """Seconds that an action takes."""
    began = time.perf_counter()
    await action()
    return time.perf_counter() - began
