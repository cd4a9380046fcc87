"""The Prometheus endpoint of a worker process: what Temporal's SDK measures, and our counter of outcomes.

The SDK serves it from its own threads: it answers also while Python is busy, and for as long as the process lives.
"""

from __future__ import annotations

import re
import socket

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from memory.model.errors import InvalidSettings
from memory.settings import Settings

_SETTING = "AFTERTURN_METRICS_ADDRESS"


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
        prometheus = PrometheusConfig(bind_address=bind, counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True)
        try:
            return Runtime(telemetry=TelemetryConfig(metrics=prometheus))
        except ValueError as error:
            why = why or _reason(str(error))
    raise InvalidSettings(f"{_SETTING}: cannot listen at {address}: {why}")


def _reason(text: str) -> str:
    """The operating system's words out of the SDK's: ``Failed starting …: Address already in use (os error 98)``."""
    return re.sub(r"^Failed starting Prometheus exporter: | \(os error \d+\)$", "", text)[:200].lower()
