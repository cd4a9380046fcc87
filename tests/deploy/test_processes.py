"""What the manifests name runs as it stands there: jobs in their order, then the processes with their probes, up to their end."""

from __future__ import annotations

import asyncio
import json
import shlex
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from memory.model.names import CONSOLIDATE_TURNS, GATE_TURNS
from memory.stores.vectors import serve_vectors
from memory.stores.vectors.edge import EdgeVectors
from starter.engines import S3Server, TemporalServer
from tests.deploy.manifests import BUILDS, Manifests, component_of, container_of, pod_of
from tests.deploy.pods import Machine, Pod
from tests.deploy.test_docs_deploy import BLOCKS
from tests.e2e.command import command
from tests.support.waiting import until

KEY = "key-of-the-vector-service"
PROCESSES = ("workflows", "models", "api")


def test_all_overlays_run_the_same_processes() -> None:
    """So what is shown of one of them below holds for all."""
    for folder in BUILDS:
        one, base = Manifests(folder), Manifests("base")
        assert {component_of(each) for each in one.lasting()} == set(PROCESSES)
        for workload in base.workloads():
            same = one.workload(component_of(workload))
            here, there = container_of(same), container_of(workload)
            for part in ("args", "ports", "startupProbe", "livenessProbe", "readinessProbe", "lifecycle"):
                assert here.get(part) == there.get(part), (folder, component_of(workload), part)
            plain = [[each for each in one.get("env", ()) if "value" in each] for one in (here, there)]
            assert plain[0] == plain[1]
            assert "command" not in here, "the image's entry point is `afterturn`"
            grace = "terminationGracePeriodSeconds"
            assert pod_of(same)["spec"][grace] == pod_of(workload)["spec"][grace]


@pytest.fixture
async def machine(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, empty_postgres_url: str
) -> AsyncGenerator[Machine]:
    """The overlay `local` with the servers of the tests: nothing is prepared in them but an empty namespace."""
    namespace = f"pods-{uuid.uuid4().hex[:12]}"
    client = await Client.connect(temporal_server.address)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=Duration(seconds=86_400))
    )
    store = s3_server.settings
    engine = EdgeVectors(tmp_path / "vectors", owner="the test")
    async with serve_vectors(engine, token=KEY) as vectors:
        yield Machine(
            Manifests("overlays/local"),
            tmp_path,
            instead={
                "TEMPORAL_ADDRESS": {"TEMPORAL_ADDRESS": temporal_server.address},
                "TEMPORAL_NAMESPACE": {"TEMPORAL_NAMESPACE": namespace},
                "AFTERTURN_OBJECT_STORE_ENDPOINT": {"AFTERTURN_OBJECT_STORE_ENDPOINT": store["object_store_endpoint"]},
                "AFTERTURN_BUCKET_PREFIX": {"AFTERTURN_BUCKET_PREFIX": f"t{uuid.uuid4().hex[:12]}"},
                # No Qdrant can be run here: the same engine, behind the service of `afterturn dev`.
                "AFTERTURN_VECTOR_URL": {"AFTERTURN_VECTOR_SERVICE_URL": vectors, "AFTERTURN_VECTOR_API_KEY": KEY},
                # Its weights would be loaded by every process, and nothing here looks for anything.
                "AFTERTURN_EMBEDDER": {"AFTERTURN_EMBEDDER": "none"},
            },
            secrets={
                "AFTERTURN_DATABASE_URL": empty_postgres_url,
                "AFTERTURN_OBJECT_STORE_ACCESS_KEY": store["object_store_access_key"],
                "AFTERTURN_OBJECT_STORE_SECRET_KEY": store["object_store_secret_key"],
            },
            # Long enough to be told to stop in the middle of a call, shorter than the grace.
            more={"AFTERTURN_SIMULATED_LATENCY_MS": "4000"},
        )
    await engine.aclose()


async def prepare(machine: Machine) -> None:
    """The jobs in their order; one that fails is started again, as a Job does. (Safe to repeat: tests/e2e/test_cli_dev.py.)"""
    for job, said in (
        ("migrate", "the database is at schema"),
        ("search-attributes", "AfterturnTenant"),
        ("schedules", "sweep schedule, every 60 s: created"),
    ):
        tries = machine.manifests.workload(job)["spec"]["backoffLimit"] + 1
        for _ in range(tries):
            done = await machine.run_job(job)
            if done.code == 0:
                break
        assert done.code == 0, done.err
        assert said in done.out


@pytest.mark.timeout(240)
async def test_from_an_empty_cluster_to_a_turn_and_to_the_end_of_its_pods(machine: Machine) -> None:
    await prepare(machine)
    environment = machine.environment("workflows", {8081: 1, 9464: 1})
    temporal = await Client.connect(environment["TEMPORAL_ADDRESS"], namespace=environment["TEMPORAL_NAMESPACE"])
    async with AsyncExitStack() as pods:
        workflows, models, api = [await pods.enter_async_context(machine.pod(name)) for name in PROCESSES]
        await asyncio.gather(workflows.started(), models.started(), api.started())
        for pod in (workflows, models):
            assert (await pod.probe("readiness"))[1]["polling"]
        http = await pods.enter_async_context(httpx2.AsyncClient(timeout=30))
        for pod in (workflows, models, api):
            scraped = await http.get(pod.address("metrics") + "/metrics")
            assert scraped.status_code == 200, pod.component
            assert "# HELP" in scraped.text

        page = Page(machine, api)
        assert json.loads(await page.shell("turn"))["status"] == "recorded"

        # Told to stop in the middle of the turn's last model call: it may end, and so may the pod. (Pods that come after those that
        # go: tests/faults/test_rolling.py, under load.)
        await until(lambda: calling(temporal), within_s=30, what="the model call")
        models.terminate()
        await stops_taking_work(models)
        assert await models.drained() == 0
        assert json.loads(models.log().splitlines()[-1])["event"] == "worker_stopped"

        run = temporal.get_workflow_handle("post-answer/acme/ann")
        await asyncio.wait_for(run.result(), 90)
        taught = await page.shell("taught")
        assert "updated" in taught
        assert "Lisbon" in taught
        history = await run.fetch_history()
        calls = [e for e in history.events if e.HasField("activity_task_scheduled_event_attributes")]
        again = [e for e in history.events if e.HasField("activity_task_timed_out_event_attributes")]
        assert not again, "no call was lost with its pod"
        names = [e.activity_task_scheduled_event_attributes.activity_type.name for e in calls]
        assert [names.count(name) for name in (GATE_TURNS, CONSOLIDATE_TURNS)] == [1, 1]

        last = (api, workflows)
        for pod in last:
            pod.terminate()
        await stops_taking_work(workflows)
        assert [await pod.drained() for pod in last] == [0, 0]
        assert json.loads(workflows.log().splitlines()[-1])["event"] == "worker_stopped"


class Page:
    """Runs what docs/deploy.md shows, with a `kubectl` that has no cluster: what it would execute in a pod is executed here."""

    def __init__(self, machine: Machine, api: Pod) -> None:
        self._folder = machine.folder / "page"
        self._folder.mkdir()
        kubectl = self._folder / "kubectl"
        run = shlex.join(command())
        kubectl.write_text(f'#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift 2\nexec {run} "$@"\n', "utf-8")
        kubectl.chmod(0o755)
        env = machine.environment("api", {8080: api.ports["http"], 9464: api.ports["metrics"]})
        self._env = {**env, "PATH": f"{self._folder}:{env['PATH']}", "MEMORY_URL": api.address("http"), "NO_PROXY": "127.0.0.1"}

    async def shell(self, block: str) -> str:
        """What a block prints. Variables that it sets are there for the next one."""
        kept = self._folder / "variables"
        before = kept.read_text("utf-8") if kept.exists() else ""
        script = f"{before}\n{BLOCKS[block]}\nprintf 'MEMORY_TOKEN=%s\\n' \"$MEMORY_TOKEN\" > {shlex.quote(str(kept))}\n"
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-eu", "-c", script),
            cwd=self._folder,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(90):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode() + out.decode()
        return out.decode()


async def calling(temporal: Client) -> bool:
    """Whether a worker is in the middle of the turn's last model call."""
    try:
        described = await temporal.get_workflow_handle("post-answer/acme/ann").describe()
    except RPCError:
        return False
    pending = described.raw_description.pending_activities
    started = [one.activity_type.name for one in pending if one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED]
    return CONSOLIDATE_TURNS in started


async def stops_taking_work(pod: Pod) -> None:
    """Not ready from now on, and alive until the end: a kubelet that found it dead would kill it at once."""
    await until(lambda: unready(pod), within_s=5, what=f"{pod.component} is not ready")
    status, _ = await pod.probe("liveness")
    assert status in (200, 0), "alive, or at its end already"


async def unready(pod: Pod) -> bool:
    return not await pod.well("readiness")
