"""How metrics and spans are made: bounds of labels, amounts, what never goes wrong, what never leaves."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from memory import telemetry
from memory.model import metrics
from memory.model.errors import InvalidSettings, MalformedOutput, ProfileConflict, StoreUnavailable
from memory.model.metrics import METRICS, Kind, Process
from memory.settings import load_settings
from memory.telemetry import store_call
from starter.cli.metrics_table import markdown
from starter.metrics import SdkMeters, metrics_runtime
from starter.tracing import start_tracing
from workflows.sandbox import workflow_runner

ROOT = Path(__file__).parents[2]


class Read:
    """What a scrape of these meters says, by name and labels."""

    def __init__(self, port: int, tenants: int) -> None:
        settings = load_settings({}, metrics_address=f"127.0.0.1:{port}")
        runtime = metrics_runtime(settings)
        assert runtime is not None
        self._runtime = runtime
        self._url = f"http://127.0.0.1:{port}/metrics"
        self.meters = SdkMeters(runtime.metric_meter, tenants=tenants, reports=[Process.WORKER])

    def samples(self) -> dict[str, float]:
        with urllib.request.urlopen(self._url, timeout=10) as reply:
            lines = (line.rpartition(" ") for line in reply.read().decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines if name}


@pytest.fixture
def read(unused_tcp_port: int) -> Iterator[Read]:
    found = Read(unused_tcp_port, tenants=2)
    telemetry.install(meters=found.meters)
    yield found
    telemetry.install()


def test_the_list_is_what_prometheus_expects() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert metric.name.startswith("afterturn_")
        assert metric.name.endswith("_total") == (metric.kind in {Kind.COUNTER, Kind.AMOUNT}), metric.name
        assert (metric.kind is Kind.HISTOGRAM) == bool(metric.buckets), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name
        assert {len(zero) for zero in metric.zeros} <= {len(metric.labels)}, metric.name
        assert "user" not in metric.labels
        assert "|" not in metric.help
        assert f"| `{metric.name}` |" in markdown()


def test_companies_and_models_are_bounded_and_the_rest_is_other(read: Read) -> None:
    for tenant in ("a", "b", "c", "d", "a"):
        telemetry.count(metrics.MODEL_COST, 0.25, model="m", tenant=tenant)
    for number in range(60):
        telemetry.count(metrics.MODEL_CALLS, model=f"m{number}", stage="gate", result="ok")
    samples = read.samples()
    cost = {name: value for name, value in samples.items() if "cost" in name}
    assert cost == {f'afterturn_model_cost_usd_total{{model="m",tenant="{who}"}}': 0.5 if who != "b" else 0.25
                    for who in ("a", "b", "other")}  # fmt: skip
    models = [name for name in samples if name.startswith("afterturn_model_calls_total")]
    assert len(models) == 50
    assert sum("other" in name for name in models) == 1


def test_what_has_not_happened_is_zero_and_nothing_is_lost_to_a_wrong_label(read: Read) -> None:
    assert read.samples()['afterturn_gate_decisions_total{decision="noop"}'] == 0
    telemetry.count(metrics.GATE_DECISIONS, decision="noop")
    telemetry.count(metrics.GATE_DECISIONS, wrong="noop")
    telemetry.observe(metrics.FRESHNESS_LAG, -3.0)
    samples = read.samples()
    assert samples['afterturn_gate_decisions_total{decision="noop"}'] == 1
    assert samples["afterturn_freshness_lag_seconds_sum"] == 0, "clocks of two machines may differ"
    assert not [name for name in samples if "wrong" in name or "loads" in name]


def test_a_store_that_fails_is_counted_and_one_that_answers_no_is_not(read: Read) -> None:
    for error in (StoreUnavailable("away"), ProfileConflict("newer")):
        with pytest.raises(type(error)), store_call("objects", "write"):
            raise error
    counted = {name: value for name, value in read.samples().items() if "store_errors" in name and value}
    assert counted == {'afterturn_store_errors_total{error="StoreUnavailable",store="objects"}': 1}
    assert telemetry.error_name(MalformedOutput("x")) == "MalformedOutput"
    assert telemetry.error_name(ValueError("x")) == "Unexpected"


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector", "http://", "http://user:secret@collector:4318"])
def test_an_address_of_a_collector_that_is_none_stops_the_start_without_being_quoted(endpoint: str) -> None:
    with pytest.raises(InvalidSettings) as raised:
        start_tracing(load_settings({}, otlp_endpoint=endpoint), "test")
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in raised.value.message
    assert "secret" not in raised.value.message


ALONE = """
import asyncio, socket, sys
from memory import telemetry
from memory.settings import load_settings
from starter import observing, tracing
from workflows.sandbox import workflow_runner

async def main():
    silent = socket.create_server(("127.0.0.1", 0))
    tracing.FLUSH_S = 0.2
    assert "opentelemetry" not in sys.modules
    settings = load_settings({}, otlp_endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
    async with observing.observed(settings, "alone"):
        with telemetry.span("outer"):
            first = telemetry.trace_id()
            with telemetry.store_call("rows", main):
                assert telemetry.trace_id() == first
        try:
            with telemetry.span("failing"):
                raise ValueError("kolibri")
        except ValueError:
            pass
        assert telemetry.trace_id() is None
        plugin, _ = observing.plugins()
        # The sandbox imports what it does not pass through anew for every single run.
        runner = plugin.workflow_runner(workflow_runner())
        assert "opentelemetry" in runner.restrictions.passthrough_modules
        assert type(runner) is type(workflow_runner())
    assert len(observing.plugins()) == 1
    print(first)

asyncio.run(main())
"""


def test_a_collector_that_never_answers_holds_nothing_up() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.strip()) == 32


def test_what_sdks_say_of_an_exception_stays_here() -> None:
    """Temporal's spans have its message and its stack in them."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Status, StatusCode

    from starter.tracing import _without_words  # pyright: ignore[reportPrivateUsage]

    span: Any = TracerProvider().get_tracer("test").start_span("RunActivity:x")
    span.record_exception(ValueError("kolibri"))
    span.set_status(Status(StatusCode.ERROR, "ValueError: kolibri"))
    span.end()
    clean = _without_words(span)
    assert "kolibri" not in clean.to_json()
    assert (clean.status.description, clean.events[0].attributes) == ("ValueError", {"exception.type": "ValueError"})
    assert clean.get_span_context() == span.get_span_context()


def test_the_sandbox_is_what_it_is_without_traces() -> None:
    runner = workflow_runner()
    assert isinstance(runner, SandboxedWorkflowRunner)
    assert "opentelemetry" not in runner.restrictions.passthrough_modules
