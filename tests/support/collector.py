"""An OpenTelemetry collector that keeps what it is sent: OTLP over HTTP, traces only."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


@dataclass(frozen=True)
class Span:
    """``parent``: empty for the first one of a trace. Ids are in hexadecimal."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    error: str


@dataclass
class Collector:
    """``raw``: everything that came, as it came."""

    url: str
    raw: list[bytes] = field(default_factory=list[bytes])

    def spans(self) -> list[Span]:
        found: list[Span] = []
        for body in list(self.raw):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                names = {one.key: one.value.string_value for one in resource.resource.attributes}
                found += [
                    Span(
                        names.get("service.name", ""),
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.status.message,
                    )
                    for scope in resource.scope_spans
                    for span in scope.spans
                ]
        return found


@contextmanager
def collecting() -> Generator[Collector]:
    """On loopback and a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            collector.raw.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing to the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
