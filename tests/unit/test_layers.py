"""Imports go down only (see the layers in the README): held by looking at what a fresh interpreter loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DRIVERS = {
    "openai", "anthropic", "minio", "urllib3", "sqlmodel", "sqlalchemy", "psycopg", "alembic", "qdrant_client", "httpx", "httpx2",
    "requests", "tiktoken", "typer",
}  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after ``statement``."""
    code = f"import sys, json; {statement}; print(json.dumps(sorted(m for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("statement", ["import workflows", "import memory.ports", "import memory.model.steps", "import activities"])
def test_the_inner_layers_load_no_driver(statement: str) -> None:
    loaded = {module.split(".")[0] for module in loaded_by(statement)}
    assert not loaded & DRIVERS


def test_workflows_load_no_adapter_and_no_activity_code() -> None:
    loaded = loaded_by("import workflows")
    assert not {m for m in loaded if m.startswith(("memory.stores.", "memory.llm.", "activities", "starter", "memory.prompts"))}


def imports_of(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


ABOVE = ("activities", "workflows", "starter", "api")


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("memory/model", ("memory.ports", "memory.prompts", "memory.llm", "memory.stores", "memory.settings", *ABOVE)),
        ("memory/prompts", ("memory.llm", "memory.stores", "memory.settings", "activities", "workflows", "starter")),
        ("memory/stores", ("memory.llm", "memory.prompts", *ABOVE, "temporalio")),
        ("memory/llm", ("memory.stores", *ABOVE, "temporalio")),
        ("activities", ("memory.stores", "memory.llm", "memory.settings", "workflows", "starter", "api")),
        ("workflows", ("memory.stores", "memory.llm", "memory.settings", "memory.prompts", "activities", "starter", "api")),
    ],
)  # fmt: skip
def test_imports_go_down_only(folder: str, forbidden: tuple[str, ...]) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    for file in files:
        wrong = {name for name in imports_of(file) if name.startswith(forbidden)}
        assert not wrong, f"{file.relative_to(ROOT)} imports {sorted(wrong)}"


def test_only_settings_reads_the_environment() -> None:
    for folder in ("memory", "activities", "workflows", "starter", "api"):
        for file in (ROOT / folder).rglob("*.py"):
            if file == ROOT / "memory/settings.py":
                continue
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                reads = isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} and ast.unparse(node.value) == "os"
                assert not reads, f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', '?')} reads the environment"
