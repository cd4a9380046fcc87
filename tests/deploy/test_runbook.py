"""Every alert is in the RUNBOOK, and the commands and queries of RUNBOOK and docs/operate.md are those that there really are."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from starter.engines import TemporalServer, engine_binary
from tests.deploy.monitoring import ALERTS, ROOT
from tests.unit.test_readme import LEAVES, anchors

RUNBOOK = ROOT / "deploy/RUNBOOK.md"
OPERATE = ROOT / "docs/operate.md"


def test_each_alert_has_its_section_and_each_section_its_alert() -> None:
    text = RUNBOOK.read_text("utf-8")
    assert re.findall(r"^### (Afterturn\w+)$", text, re.MULTILINE) == list(ALERTS)
    for name, section in re.findall(r"^### (Afterturn\w+)\n(.*?)(?=^##? |^### |\Z)", text, re.MULTILINE | re.DOTALL):
        assert "**Means:**" in section, name
        assert ("**Look:**" in section and "**Do:**" in section) or "**Look, Do:**" in section, name
    assert {rule["annotations"]["runbook"].partition("#")[2] for rule in ALERTS.values()} <= anchors(RUNBOOK)


def command_lines(page: Path, program: str) -> list[str]:
    """Every ``program …`` of a code block or of inline code."""
    text = page.read_text("utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [line for line in lines if line.startswith(f"{program} ") and not line.endswith("…")]


@pytest.mark.parametrize("page", [RUNBOOK, OPERATE], ids=lambda page: page.stem)
def test_every_command_of_ours_parses(page: Path) -> None:
    lines = command_lines(page, "afterturn")
    assert len(lines) > 10
    for line in lines:
        words = [word for word in shlex.split(line, comments=True)[1:] if word != "…"]
        path = next((tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in LEAVES), None)
        if path is None and any(leaf[: len(words)] == tuple(words) for leaf in LEAVES):
            continue  # a group, named
        assert path is not None, f"there is no command: {line}"
        if not words[len(path) :] and "`" + line + "`" in page.read_text("utf-8"):
            continue  # the command is only named
        try:
            LEAVES[path].make_context(" ".join(path), words[len(path) :])
        except click.UsageError as error:
            pytest.fail(f"{line}: {error.format_message()}")


@pytest.mark.parametrize("page", [RUNBOOK, OPERATE], ids=lambda page: page.stem)
def test_every_command_of_temporal_and_its_options_exist(page: Path) -> None:
    helps: dict[tuple[str, ...], str] = {}
    for line in command_lines(page, "temporal"):
        words = shlex.split(line, comments=True)[1:]
        path = tuple(word for word in words[: next((i for i, one in enumerate(words) if one.startswith("-")), len(words))])
        if path not in helps:
            command = [engine_binary("temporal"), *path, "--help"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            assert done.returncode == 0, line
            helps[path] = done.stdout
        assert f"temporal {' '.join(path)} [" in helps[path], f"there is no command: {line}"
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", helps[path]), f"{line}: no {option}"


def test_what_kubectl_is_told_to_look_at_is_in_the_manifests() -> None:
    base = "\n".join(path.read_text("utf-8") for path in (ROOT / "deploy/kubernetes/base").glob("*.yaml"))
    deployments = set(re.findall(r"kind: Deployment\nmetadata:\n  name: (\S+)", base))
    named = {name for line in command_lines(RUNBOOK, "kubectl") for name in re.findall(r"deploy/([a-z-]+)", line)}
    assert named
    assert named <= deployments
    assert {name for line in command_lines(RUNBOOK, "kubectl") for name in re.findall(r"-n (\S+)", line)} == {"afterturn"}


def shown_queries() -> set[str]:
    """What RUNBOOK and docs/operate.md give to ``--query``, ``--where`` and the Web UI's filter."""
    found = set[str]()
    for page in (RUNBOOK, OPERATE):
        text = page.read_text("utf-8")
        found |= set(re.findall(r"--(?:query|where) '([^']+)'", text))
        found |= {
            line for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL) for line in block.splitlines() if " = " in line
        }
    return found


async def test_every_query_is_one_that_temporal_takes(temporal_server: TemporalServer) -> None:
    client = await Client.connect(temporal_server.address)
    queries = shown_queries()
    assert len(queries) > 10
    for query in queries:
        try:
            await client.count_workflows(query)
        except RPCError as error:
            pytest.fail(f"{query}: {error.message}")
