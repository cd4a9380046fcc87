"""Rules and dashboards of deploy/monitoring as data, for the tests and for the pictures.

``python -m tests.deploy.monitoring`` makes ``prometheusrule.yaml`` anew from the rule files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/monitoring"
RULE_FILES = sorted((FOLDER / "rules").glob("*.yaml"))
RULE_TESTS = sorted((FOLDER / "rules/tests").glob("*.yaml"))
DASHBOARDS = sorted((FOLDER / "dashboards").glob("*.json"))
PROMETHEUS_RULE = FOLDER / "prometheusrule.yaml"

_HEAD = """\
# Made from rules/*.yaml for the Prometheus Operator by `python -m tests.deploy.monitoring`: change those, not this.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: afterturn
  labels:
    app.kubernetes.io/name: afterturn
    app.kubernetes.io/part-of: afterturn
spec:
  groups:
"""


def groups() -> Iterator[dict[str, Any]]:
    for path in RULE_FILES:
        yield from yaml.safe_load(path.read_text("utf-8"))["groups"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in groups() for rule in group["rules"]]


ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in rules() if "alert" in rule}
RECORDED: dict[str, str] = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}


def dashboard(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Without rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def filled_in(expression: str, *, rate: str = "5m", span: str = "3h") -> str:
    """A dashboard's expression as Grafana sends it: all companies, all models."""
    values = {"$__rate_interval": rate, "$__range": span, "$tenant": ".*", "$model": ".*"}
    for name, value in values.items():
        expression = expression.replace(name, value)
    return expression


def dashboard_expressions() -> dict[str, str]:
    """By a name that says where it is."""
    return {
        f"{path.stem}: {panel['title']}: {target['refId']}": filled_in(target["expr"])
        for path in DASHBOARDS
        for panel in panels(dashboard(path))
        for target in panel["targets"]
    }


def all_expressions() -> dict[str, str]:
    written = {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()}
    return {**written, **dashboard_expressions()}


_SELECTOR = re.compile(r"(?<![\w:])((?:afterturn|temporal)_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def selectors(expression: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """(metric, [(label, operator, value)]) of the raw series that an expression reads."""
    return [(name, _MATCHER.findall(inside or "")) for name, inside in _SELECTOR.findall(expression)]


def recorded_names(expression: str) -> set[str]:
    return set(re.findall(r"\bafterturn:[\w:]+", expression))


def grouping_labels(expression: str) -> set[str]:
    """Labels that stand behind ``by``."""
    return {
        label.strip() for inside in re.findall(r"\bby\s*\(([^)]*)\)", expression) for label in inside.split(",") if label.strip()
    }


def prometheus_rule() -> str:
    """The same groups as an object of the Prometheus Operator; comments are kept."""
    lines: list[str] = []
    for path in RULE_FILES:
        _, _, written = path.read_text("utf-8").partition("\ngroups:\n")
        lines += [f"  {line}".rstrip() for line in written.rstrip("\n").splitlines()]
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PROMETHEUS_RULE.write_text(prometheus_rule(), "utf-8")
