"""The table of metrics for the documents, made from ``memory.model.metrics``: ``python -m starter.cli.metrics_table``."""

from __future__ import annotations

import sys

from memory.model.metrics import METRICS, Kind


def markdown() -> str:
    lines = ["| metric | kind | labels | reported by | meaning |", "|---|---|---|---|---|"]
    for metric in METRICS:
        kind = "gauge that only grows" if metric.kind is Kind.AMOUNT else metric.kind.value
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        by = ", ".join(one.value for one in metric.by)
        lines.append(f"| `{metric.name}` | {kind} | {labels} | {by} | {metric.help} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(markdown() + "\n")
