"""OpenTelemetry traces: one trace from the orchestrator's call through the workflow and its steps to models and stores.

Spans go to a collector in batches, from a thread of their own; what it does not take is dropped, and nobody waits for it. They hold
ids, counts and types of errors. What an exception says stays out of them: :class:`_WithoutWords` is the last gate.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from memory.model.errors import InvalidSettings
from memory.settings import Settings
from memory.telemetry import Attributes, error_name

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import TracerProvider
    from temporalio.client import Plugin

EXPORT_S: Final = 5.0
"""One delivery to the collector, with its repeats."""
FLUSH_S: Final = 5.0
"""At the end of a process, for what was not delivered yet."""
PATH: Final = "/v1/traces"
SCOPE: Final = "afterturn"
_SETTING: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


def start_tracing(settings: Settings, service: str) -> Tracing | None:
    """None where there is no collector. Only now OpenTelemetry is loaded: a process without traces does not pay for it.

    In a process that has a tracer provider of its own already (an orchestrator's), that one gets the spans.
    ``OTEL_TRACES_SAMPLER``, ``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_BSP_…`` and ``OTEL_EXPORTER_OTLP_…`` (headers, certificates) mean
    what they mean to every program with OpenTelemetry's SDK.

    Raises InvalidSettings: not an address.
    """
    foreign = _foreign_provider()
    if foreign is not None:
        return Tracing(foreign, None)
    if settings.otlp_endpoint is None:
        return None
    address = _checked(settings.otlp_endpoint)
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider, create_tracer_provider

    # Of a collector that is away they would tell for every batch; the collector's own metrics say that it is.
    for chatty in ("opentelemetry.exporter.otlp", "opentelemetry.sdk._shared_internal"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    provider = trace.get_tracer_provider()
    if not isinstance(provider, ReplaySafeTracerProvider):
        resource = Resource.create({"service.name": service, "service.version": version("afterturn")})
        provider = create_tracer_provider(resource=resource, shutdown_on_exit=False)
        trace.set_tracer_provider(provider)
    processor = BatchSpanProcessor(cast("SpanExporter", _WithoutWords(OTLPSpanExporter(endpoint=address, timeout=EXPORT_S))))
    provider.add_span_processor(processor)
    return Tracing(provider, processor)


def _foreign_provider() -> TracerProvider | None:
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None  # the API alone is there, by way of the web framework say
    from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider

    return None if isinstance(provider, ReplaySafeTracerProvider) else provider


def _checked(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InvalidSettings(f"{_SETTING}: must be http(s)://host:port of a collector that takes OTLP over HTTP")
    base = endpoint.rstrip("/")
    return base if base.endswith(PATH) else base + PATH


class Tracing:
    """:class:`memory.telemetry.Tracer` on OpenTelemetry. ``processor``: what delivers, where that is this project's to end."""

    def __init__(self, provider: TracerProvider, processor: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer(SCOPE, version("afterturn"))
        self._processor = processor
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, attributes: Attributes, *, server: bool, carrier: Mapping[str, str] | None) -> Generator[None]:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        context = self._propagator.extract(carrier) if carrier else None
        kind = SpanKind.SERVER if server else SpanKind.INTERNAL
        with self._tracer.start_as_current_span(
            name,
            context=context,
            kind=kind,
            attributes=dict(attributes),
            # Its message and its frames may quote what the code choked on.
            record_exception=False,
            set_status_on_exception=False,
        ) as current:
            try:
                yield
            except Exception as error:
                current.set_attribute("error.type", error_name(error))
                current.set_status(Status(StatusCode.ERROR, error_name(error)))
                raise

    def note(self, attributes: Attributes, name: str | None) -> None:
        from opentelemetry.trace import get_current_span

        current = get_current_span()
        current.set_attributes(dict(attributes))
        if name is not None:
            current.update_name(name)

    def trace_id(self) -> str | None:
        from opentelemetry.trace import format_trace_id, get_current_span

        context = get_current_span().get_span_context()
        return format_trace_id(context.trace_id) if context.is_valid else None

    def plugin(self) -> Plugin:
        """For clients of Temporal: spans of starts, signals, updates, runs and steps, and the trace's id in their headers."""
        from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

        return OpenTelemetryPlugin(add_temporal_spans=True)

    def stop(self) -> None:
        """Deliver what is left, for at most ``FLUSH_S``."""
        if self._processor is not None:
            # In a thread that may be left behind: a collector that hangs must not hold up the end of a process.
            ending = threading.Thread(target=self._processor.shutdown, name="afterturn-traces-end", daemon=True)
            ending.start()
            ending.join(FLUSH_S)


class _WithoutWords:
    """Spans of Temporal's SDK record exceptions with message and stack, and say the message in their status. Only types pass."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([_without_words(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _without_words(span: ReadableSpan) -> ReadableSpan:
    if not span.events and not span.status.description:
        return span
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status

    said = (span.status.description or "").partition(":")[0]
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        events=[_type_alone(event) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code, said if said.isidentifier() else None),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _type_alone(event: Event) -> Event:
    from opentelemetry.sdk.trace import Event

    kept = {name: value for name, value in (event.attributes or {}).items() if name == "exception.type"}
    return Event(event.name, kept, event.timestamp)
