"""Worker processes that kill themselves with SIGKILL at a chosen call of a port, and ones that do not.

``python -m tests.support.crashing_worker`` imports the product once and then forks a worker for every line of JSON on its
standard input (:class:`Job`); it reports each worker's start and end as a line of JSON on standard output. A fork is a process of
its own in every respect that matters here, and spares the seconds of CPU that an interpreter with all imports costs. When standard
input ends, all workers are killed: none outlives the test. Secrets go through the pipe, not through the command line.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import selectors
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from activities import build_activities
from memory.llm.factory import build_models
from memory.settings import load_settings
from starter import cli
from starter.logs import configure_logging
from starter.temporal import connect
from tests.support.loop_model import LoopModel
from tests.support.models import ScriptedProvider
from tests.support.wires import Flaky, Point, wired
from worker import QUEUES, build_workers, open_collaborators


@dataclass(frozen=True)
class Job:
    """One worker process. ``settings``: by field name, as JSON. ``log``: file for its standard error. ``flaky``: the share of model
    calls that fail. ``script``: of a :class:`tests.support.loop_model.LoopModel`, in place of the settings' model. ``command``: the
    environment of the command `afterturn worker`, which the process then runs as it is; the rest does not count."""

    job_id: str
    address: str
    namespace: str
    log: str
    settings: dict[str, Any] = field(repr=False)
    queues: tuple[str, ...] = QUEUES
    crash: Point | None = None
    flaky: float = 0.0
    script: list[Any] | None = None
    command: dict[str, str] | None = field(default=None, repr=False)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Job:
        values = json.loads(line)
        crash = values.pop("crash")
        return cls(**{**values, "queues": tuple(values["queues"])}, crash=Point(**crash) if crash else None)


@dataclass
class Tripwire:
    """SIGKILL to this process at the chosen point; calls of the model fail as ``flaky`` says."""

    crash: Point | None
    flaky: Flaky

    async def at(self, point: Point) -> None:
        if point == self.crash:
            os.kill(os.getpid(), signal.SIGKILL)
        await self.flaky.at(point)


# ------------------------------------------------------------------------------------------------------------- the processes


async def work(job: Job) -> None:
    """A worker until SIGTERM, as ``worker.run_worker``."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = load_settings({}, **job.settings)
    configure_logging(settings)
    client = await connect(settings, address=job.address, namespace=job.namespace)
    async with open_collaborators(settings, client) as parts:
        if job.script is not None:
            parts = replace(parts, models=ScriptedProvider(LoopModel(job.script)))
        activities = build_activities(wired(parts, Tripwire(job.crash, Flaky(job.flaky, job.job_id))))
        workers = build_workers(client, settings, activities, job.queues)
        running = [asyncio.create_task(worker.run()) for worker in workers]
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({stopped, *running}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        await asyncio.gather(*(worker.shutdown() for worker in workers))
        await asyncio.gather(*running)


def run_command(job: Job, environment: Mapping[str, str]) -> int:
    os.environ.clear()
    os.environ.update(environment)
    queue = {QUEUES: "all", QUEUES[:1]: "workflows", QUEUES[1:]: "models"}[job.queues]
    sys.argv = ["afterturn", "worker", "--queue", queue]
    return cli.main(sys.argv[1:])


def become_worker(job: Job) -> NoReturn:
    """In the fork: nothing of the foreman's is left but its imports."""
    code = 1
    try:
        log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if job.command is not None:
            code = run_command(job, job.command)
        else:
            asyncio.run(work(job))
            code = 0
    except BaseException:  # noqa: BLE001 - the fork must not go on as a second foreman
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def report(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def warm_up() -> None:
    """What every worker would load for itself."""
    models = build_models(load_settings({}))
    models.model("simulated")
    models.token_counter("simulated").count("warm")


def foreman() -> None:
    """Fork on request, report ends, kill all at the end of standard input. One thread only: it forks."""
    warm_up()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    workers: dict[int, str] = {}
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    report(ready=os.getpid())
    pending = b""
    try:
        while True:
            for key, _ in selector.select():
                if key.fd == woken:
                    os.read(woken, 4096)
                    continue
                chunk = os.read(0, 1 << 16)
                if not chunk:
                    return
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    job = Job.from_json(line.decode())
                    if job.command is not None:
                        importlib.import_module("starter.cli.app")  # once, and not in every fork
                    pid = os.fork()
                    if pid == 0:
                        become_worker(job)
                    workers[pid] = job.job_id
                    report(job=job.job_id, pid=pid)
            for pid in list(workers):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    report(job=workers.pop(pid), ended=os.waitstatus_to_exitcode(status))
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        for pid in workers:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    foreman()
