"""The Prometheus endpoint of a process: what Temporal's SDK measures, and all of :mod:`memory.model.metrics`.

The SDK serves it from its own threads: it answers also while Python is busy, and for as long as the process lives.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Collection, Mapping
from typing import Final

import structlog
from temporalio.common import MetricCounter, MetricGaugeFloat, MetricHistogramFloat, MetricMeter
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from memory.model.errors import InvalidSettings
from memory.model.metrics import LAG_S, METRICS, STEP_S, Kind, Metric, Process
from memory.settings import Settings

OTHER: Final = "other"
MAX_MODELS: Final = 50
"""Names of models that metrics name: a space may be given any."""
_SETTING: Final = "AFTERTURN_METRICS_ADDRESS"
_SDK_BUCKETS: Final = {
    # The SDK's own end at a few seconds or minutes; a task waits for as long as no worker has room for it.
    "activity_schedule_to_start_latency": LAG_S,
    "workflow_task_schedule_to_start_latency": STEP_S,
    "activity_execution_latency": STEP_S,
    "activity_succeed_endtoend_latency": LAG_S,
    "workflow_endtoend_latency": LAG_S,
}
_log = structlog.get_logger("afterturn.metrics")


def metrics_runtime(settings: Settings) -> Runtime | None:
    """A runtime whose metrics are served at ``http://<metrics_address>/metrics``; None where the setting is not set.

    Blocks for as long as the look-up of the host's name takes.

    Raises:
        InvalidSettings: the host is not known, or nobody can listen there (the port is taken, say).
    """
    address = settings.metrics_address
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, socket.gaierror) else "not a name of a host"
        raise InvalidSettings(f"{_SETTING}: the host of {address} is not known: {why}") from None
    # A name may stand for several addresses, the first of which may be of a kind that this machine does not have.
    why = ""
    for family, _, _, _, place in found:
        bind = f"[{place[0]}]:{port}" if family is socket.AF_INET6 else f"{place[0]}:{port}"
        prometheus = PrometheusConfig(
            bind_address=bind,
            counters_total_suffix=True,
            unit_suffix=True,
            durations_as_seconds=True,
            histogram_bucket_overrides={**_SDK_BUCKETS, **{one.name: one.buckets for one in METRICS if one.buckets}},
        )
        try:
            return Runtime(telemetry=TelemetryConfig(metrics=prometheus, attach_service_name=False))
        except ValueError as error:
            why = why or _reason(str(error))
    raise InvalidSettings(f"{_SETTING}: cannot listen at {address}: {why}")


def _reason(text: str) -> str:
    """The operating system's words out of the SDK's: ``Failed starting …: Address already in use (os error 98)``."""
    return re.sub(r"^Failed starting Prometheus exporter: | \(os error \d+\)$", "", text)[:200].lower()


class SdkMeters:
    """:class:`memory.telemetry.Meters` on the meter of a runtime of Temporal's SDK. Safe for many threads.

    Args:
        tenants: companies that are named; the first so many that come, all others together.
        reports: what this process is; metrics of these have their zeros from now on.
    """

    def __init__(self, meter: MetricMeter, *, tenants: int, reports: Collection[Process]) -> None:
        self._meter = meter
        self._lock = threading.Lock()
        self._bounded = {"tenant": _Bounded(tenants), "model": _Bounded(MAX_MODELS)}
        self._counters: dict[Metric, MetricCounter] = {}
        self._histograms: dict[Metric, MetricHistogramFloat] = {}
        self._gauges: dict[Metric, MetricGaugeFloat] = {}
        self._amounts: dict[tuple[Metric, tuple[tuple[str, str], ...]], float] = {}
        self._told = False
        for metric in METRICS:
            if not set(metric.by).isdisjoint(reports):
                for zero in metric.zeros:
                    self._report(metric, 0, dict(zip(metric.labels, zero, strict=True)))

    def count(self, metric: Metric, number: float, labels: Mapping[str, str]) -> None:
        if number >= 0:
            self._report(metric, number, labels)

    def observe(self, metric: Metric, value: float, labels: Mapping[str, str]) -> None:
        self._report(metric, max(value, 0.0), labels)

    def set(self, metric: Metric, value: float, labels: Mapping[str, str]) -> None:
        self._report(metric, value, labels)

    def _report(self, metric: Metric, value: float, labels: Mapping[str, str]) -> None:
        try:
            self._to_sdk(metric, value, self._with_bounds(metric, labels))
        except Exception as error:  # noqa: BLE001 - what is measured must not suffer from its being measured
            if not self._told:
                self._told = True
                _log.error("metric_failed", metric=metric.name, error=type(error).__name__)

    def _with_bounds(self, metric: Metric, labels: Mapping[str, str]) -> dict[str, str]:
        if set(labels) != set(metric.labels):
            raise ValueError(metric.name)
        return {name: self._bounded[name].of(value) if name in self._bounded else value for name, value in labels.items()}

    def _to_sdk(self, metric: Metric, value: float, labels: dict[str, str]) -> None:
        match metric.kind:
            case Kind.COUNTER:
                counter = self._counters.get(metric)
                if counter is None:
                    # The SDK adds the suffix.
                    counter = self._meter.create_counter(metric.name.removesuffix("_total"), metric.help)
                    self._counters[metric] = counter
                counter.add(int(value), labels)
            case Kind.HISTOGRAM:
                histogram = self._histograms.get(metric)
                if histogram is None:
                    # Without a unit: the SDK would add it to the name in its own form.
                    histogram = self._histograms[metric] = self._meter.create_histogram_float(metric.name, metric.help)
                histogram.record(value, labels)
            case Kind.GAUGE | Kind.AMOUNT:
                gauge = self._gauges.get(metric)
                if gauge is None:
                    gauge = self._gauges[metric] = self._meter.create_gauge_float(metric.name, metric.help)
                with self._lock:
                    if metric.kind is Kind.AMOUNT:
                        key = (metric, tuple(sorted(labels.items())))
                        value = self._amounts[key] = self._amounts.get(key, 0.0) + value
                    gauge.set(value, labels)


class _Bounded:
    """Values of a label: the first so many, and one for all others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value
