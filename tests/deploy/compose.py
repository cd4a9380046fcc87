"""deploy/compose.yaml as data, with its variables filled in as Compose does it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILE = DEPLOY / "compose.yaml"
_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>\w+)(?P<rule>:[?-])?(?P<word>[^}]*)\})")


def variables(text: str) -> dict[str, tuple[str, str]]:
    """Each ``${NAME:?word}`` or ``${NAME:-word}``: rule and word."""
    return {m["name"]: (m["rule"] or "", m["word"]) for m in _VARIABLE.finditer(text) if m["name"]}


def fill(text: str, values: Mapping[str, str]) -> str:
    """Raises KeyError for a required variable without a value."""

    def one(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        value = values.get(match["name"], "")
        if not value and match["rule"] == ":?":
            raise KeyError(match["name"])
        return value or (match["word"] if match["rule"] == ":-" else "")

    return _VARIABLE.sub(one, text)


def read_env(path: Path) -> dict[str, str]:
    """``NAME=value`` lines of a file of variables."""
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith("#"))
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def load(values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file; with ``values`` the variables are filled in."""

    def walk(node: Any) -> Any:
        match node:
            case str():
                return node if values is None else fill(node, values)
            case dict():
                return {key: walk(value) for key, value in node.items()}
            case list():
                return [walk(value) for value in node]
            case _:
                return node

    return walk(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def is_ours(service: Mapping[str, Any]) -> bool:
    return "build" in service


def is_job(service: Mapping[str, Any]) -> bool:
    """Runs to its end, once."""
    return str(service.get("restart", "")).startswith("on-failure")
