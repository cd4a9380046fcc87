"""What Prometheus and an OpenTelemetry collector see of a worker and an API at work, and what their logs say."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memory.model.metrics import METRICS, Kind, Process
from memory.model.names import SWEEP_WORKFLOW, TASK_QUEUE
from memory.model.scope import Scope
from memory.model.steps import SweepInput
from memory.stores.tables import build_tables
from starter.engines import S3Server, TemporalServer
from starter.processes import free_ports
from tests.api.test_auth_service import stored
from tests.api.test_serve import serving
from tests.support.collector import Collector, Span, collecting
from tests.support.fleet import (
    World,
    as_environment,
    migrated_file,
    new_namespace,
    open_world,
    server_of,
    worker_command,
    world_settings,
)
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

USER = Scope.of("acme", "walrus")
SAID = "The kolibri7431 sleeps under the violet piano"
TRACE = uuid.uuid4().hex
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
PRICES = {"simulated": [1.0, 0.1, 4.0]}


def scrape(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        return reply.read().decode()


def samples_of(text: str) -> dict[str, float]:
    """By name and labels."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_metrics_traces_and_log_lines_of_a_conversation(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    worker_port, api_port = free_ports(2)
    with collecting() as collector:
        settings = world_settings(
            tmp_path / "data",
            migrated_file(tmp_path),
            s3_server.settings,
            metrics_address=f"127.0.0.1:{worker_port}",
            otlp_endpoint=collector.url,
            log_format="json",
            model_prices=PRICES,
            window_size=2,
            memory_knowledge=True,
            embedder="none",
        )
        async with open_world(settings, await new_namespace(temporal_server.address)) as world:
            env = {**as_environment(settings), **server_of(world.client), "AFTERTURN_METRICS_ADDRESS": f"127.0.0.1:{api_port}"}
            async with worker_command(settings, world.client, tmp_path / "worker.err") as worker, serving(tmp_path, env) as api:
                await converse(world, api.base)
                await until(lambda: ended(world), within_s=60.0)
                await world.client.execute_workflow(
                    SWEEP_WORKFLOW, SweepInput(), id=f"sweep-{uuid.uuid4().hex}", task_queue=TASK_QUEUE
                )
                texts = [await asyncio.to_thread(scrape, f"127.0.0.1:{port}") for port in (worker_port, api_port)]
                worker.process.terminate()
                api.process.terminate()
                assert await worker.ended() == 0, worker.log()
                assert await api.process.wait() == 0, api.told
            check_metrics(*texts)
            check_spans(collector)
            check_lines([json.loads(line) for line in worker.log().splitlines() if line.startswith("{")])
            for place, text in {"worker": worker.log(), "API": api.told, "metrics": "".join(texts)}.items():
                assert "kolibri" not in text, place
            assert not any(b"kolibri" in body for body in collector.raw)
            assert "alembic" not in worker.log(), "our log is not where libraries introduce themselves"


async def converse(world: World, base: str) -> None:
    """One turn with words that are to be nowhere, a window of its two messages and more, an answer without memory, a loop."""
    tables = build_tables(world.settings)
    token = (await stored(tables.tokens, "acme", "read", "write")).text
    await tables.aclose()
    headers = {"Authorization": f"Bearer {token}", "Afterturn-User": "walrus"}
    turn = {"turn_id": "t1", "user_text": f"{SAID}. My name is Ann and I work at Globex.", "assistant_text": "Noted."}
    async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=60) as http:
        assert (await http.get("/v1/memory", params={"allow_user_memory": True})).status_code == 200
        told = await http.post("/v1/turns", json={**turn, "allow_user_memory": True}, headers={"traceparent": PARENT})
        assert told.status_code == 202, told.text
        loop = await http.post("/v1/knowledge/ask", json={"text": f"Is it true that {SAID}?"})
        assert loop.status_code in {200, 202}, loop.text


async def ended(world: World) -> bool:
    turns = await world.ledger(USER)
    windows = await world.parts.ledger.windows(scope=USER, limit=10)
    loops = await world.parts.loops.loops(USER, limit=10)
    done = all(turn.outcome is not None for turn in turns.values()) and all(one.finished_at is not None for one in windows)
    return bool(turns and windows and loops) and done and all(loop.ended_at is not None for loop in loops)


def check_metrics(worker: str, api: str) -> None:
    for process, text in ((Process.WORKER, worker), (Process.API, api)):
        shown = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
        for metric in METRICS:
            assert metric.name in shown or process not in metric.by, f"{metric.name} is not in the metrics of the {process}"
            if metric.name in shown and metric.kind is Kind.HISTOGRAM:
                bounds = dict.fromkeys(re.findall(rf'^{metric.name}_bucket{{.*le="([^"]+)"}}', text, re.MULTILINE))
                assert tuple(map(float, bounds)) == (*metric.buckets, float("inf")), metric.name
        assert {name for name in shown if name.startswith("afterturn_")} <= {metric.name for metric in METRICS}
        assert "walrus" not in text, "labels name no user"
    samples = samples_of(worker)
    assert sum(value for name, value in samples.items() if 'turns_total{outcome="updated"' in name) == 1
    assert sum(value for name, value in samples.items() if name.startswith("afterturn_freshness_lag_seconds_count")) == 1
    cost = {name: value for name, value in samples.items() if name.startswith("afterturn_model_cost_usd_total")}
    tokens = {name: value for name, value in samples.items() if name.startswith("afterturn_model_tokens_total")}
    paid = sum(value * PRICES["simulated"][place] for place, direction in enumerate(("input", "cached", "output"))
               for name, value in tokens.items() if f'direction="{direction}"' in name)  # fmt: skip
    assert [*cost] == ['afterturn_model_cost_usd_total{model="simulated",tenant="acme"}']
    assert abs(sum(cost.values()) - paid / 1_000_000) < 1e-9 < paid
    assert samples["afterturn_turns_waiting"] <= 1
    assert any(name.startswith("temporal_workflow_completed_total") for name in samples)
    assert any(name.startswith("temporal_activity_execution_latency_seconds_bucket") for name in samples)
    asked = samples_of(api)
    assert asked['afterturn_http_requests_total{method="POST",route="/v1/turns",status="202"}'] == 1
    assert asked['afterturn_loads_total{status="no_profile"}'] == 1
    assert asked['afterturn_recorded_total{status="recorded",what="turn"}'] == 1
    assert any(name.startswith("temporal_request_total") for name in asked), "the API's calls of Temporal are there too"


def check_spans(collector: Collector) -> None:
    spans = {span.span: span for span in collector.spans()}
    ours = [span for span in spans.values() if span.trace == TRACE]
    names = {span.name for span in ours}
    assert {
        "POST /v1/turns",
        "after_answer",
        "SignalWithStartWorkflow:PostAnswerWorkflow",
        "RunWorkflow:PostAnswerWorkflow",
    } <= names
    assert {"RunActivity:gate_turns", "RunActivity:consolidate_turns", "RunActivity:upload_profile", "objects write"} <= names
    assert {span.service for span in ours} == {"afterturn-api", "afterturn-worker"}
    assert not [span for span in spans.values() if span.name.startswith("fastapi")], "the framework's spans have addresses"
    for name in ("model call", "objects write"):
        path = [span.name for span in ancestors(spans, next(span for span in ours if span.name == name))]
        assert path[-1] == "POST /v1/turns", path
        assert any(one.startswith("RunActivity:") for one in path), path
        assert "RunWorkflow:PostAnswerWorkflow" in path, path


def ancestors(spans: dict[str, Span], span: Span) -> Sequence[Span]:
    found: list[Span] = []
    while (parent := spans.get(span.parent)) is not None:
        found.append(parent)
        span = parent
    return found


def check_lines(lines: Sequence[dict[str, Any]]) -> None:
    notice, *_ = [line for line in lines if "notice updating_started" in line["event"]]
    assert notice["activity"] == "send_notice"
    assert notice["workflow_id"] == "post-answer/acme/walrus"
    assert notice["trace_id"] == TRACE
    assert (bool(notice["run_id"]), notice["attempt"]) == (True, 1)
    assert datetime.fromisoformat(notice["timestamp"]).tzinfo == UTC
