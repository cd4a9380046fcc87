"""A pod's container as a process here: command, environment, probes and grace are those of the manifest, used as a kubelet does.

What differs is named in one place (:class:`Machine`): the servers are those of the tests, the data folder is one here, and every
port is a free one, for the process as for its probes. Not here: the image, its user, its read-only disk, cgroups.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from starter.processes import free_ports
from tests.deploy.manifests import Manifests, container_of, given_env, pod_of, ports_of, secret_env
from tests.e2e.command import Done, afterturn, command
from tests.support.fleet import plain_environment
from tests.support.waiting import until

WAYS_IN = ("AFTERTURN_API_ADDRESS", "AFTERTURN_HEALTH_ADDRESS", "AFTERTURN_METRICS_ADDRESS")


@dataclass(frozen=True)
class Machine:
    """Where a manifest's processes run here.

    ``instead``: for a variable that names a server of the cluster those that name one of this machine; a variable that the manifest
    does not give is not given here either. ``secrets``: what the Secrets hold. ``more``: for a test alone.
    """

    manifests: Manifests
    folder: Path
    instead: Mapping[str, Mapping[str, str]]
    secrets: Mapping[str, str]
    more: Mapping[str, str]

    def environment(self, component: str, ports: Mapping[int, int]) -> dict[str, str]:
        workload = self.manifests.workload(component)
        given = given_env(self.manifests, workload)
        wanted = secret_env(self.manifests, workload)
        given |= {name: value for name, value in self.secrets.items() if name in wanted}
        for name in WAYS_IN:
            if address := given.get(name):
                host, _, port = address.rpartition(":")
                given[name] = f"{host}:{ports[int(port)]}"
        for name in given.keys() & self.instead.keys():
            del given[name]
            given |= self.instead[name]
        data = self.folder / component
        data.mkdir(parents=True, exist_ok=True)
        given["AFTERTURN_DATA_DIR"] = str(data)
        return plain_environment({**given, **self.more})

    async def run_job(self, component: str) -> Done:
        """The Job's command to its end, within its deadline."""
        workload = self.manifests.workload(component)
        return await self._run(component, container_of(workload)["args"], workload["spec"]["activeDeadlineSeconds"])

    async def _run(self, component: str, args: Sequence[str], within_s: float) -> Done:
        same = {number: number for number in ports_of(self.manifests.workload(component)).values()}
        env = self.environment(component, same)
        return await asyncio.to_thread(afterturn, *args, data_dir=self.folder / component, env=env, within_s=within_s)

    @asynccontextmanager
    async def pod(self, component: str) -> AsyncGenerator[Pod]:
        """The process, started and not waited for; killed at the end of the block if it still runs."""
        workload = self.manifests.workload(component)
        container = container_of(workload)
        there = ports_of(workload)
        ports = dict(zip(there.values(), free_ports(len(there)), strict=True))
        log = self.folder / f"{component}-{time.monotonic_ns()}.log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command(*container["args"]),
                cwd=self.folder,
                env=self.environment(component, ports),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        async with httpx2.AsyncClient() as http:
            pod = Pod(
                component,
                container,
                float(pod_of(workload)["spec"]["terminationGracePeriodSeconds"]),
                {name: ports[number] for name, number in there.items()},
                process,
                log,
                http,
            )
            try:
                yield pod
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


@dataclass
class Pod:
    """``ports``: where each named port of the container is on this machine."""

    component: str
    container: Mapping[str, Any]
    grace_s: float
    ports: Mapping[str, int]
    process: asyncio.subprocess.Process
    log_path: Path
    http: httpx2.AsyncClient

    def log(self) -> str:
        return self.log_path.read_text("utf-8", "replace")

    def address(self, port: str) -> str:
        return f"http://127.0.0.1:{self.ports[port]}"

    async def probe(self, kind: str) -> tuple[int, Any]:
        """As the kubelet asks, with its time-out. Status 0: no connection, or no answer in time."""
        asked = self.container[f"{kind}Probe"]
        try:
            reply = await self.http.get(
                self.address(asked["httpGet"]["port"]) + asked["httpGet"]["path"], timeout=asked["timeoutSeconds"]
            )
        except httpx2.TransportError:
            return 0, None
        return reply.status_code, reply.json()

    async def well(self, kind: str) -> bool:
        return 200 <= (await self.probe(kind))[0] < 400

    async def started(self) -> None:
        """Start-up probe, then readiness, each within what the manifest allows."""
        asked = self.container["startupProbe"]
        await self._within("startup", asked["periodSeconds"] * asked["failureThreshold"])
        await self._within("readiness", 60)
        assert await self.well("liveness")

    async def _within(self, kind: str, seconds: float) -> None:
        async def good() -> bool:
            assert self.process.returncode is None, self.log()
            return await self.well(kind)

        await until(good, within_s=seconds, every_s=0.2, what=f"{kind} of {self.component}:\n{self.log()}")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    async def drained(self) -> int:
        """The exit code after SIGTERM. At the end of the grace a kubelet would kill."""
        try:
            async with asyncio.timeout(self.grace_s):
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"{self.component} still runs {self.grace_s} s after SIGTERM:\n{self.log()}") from None
