"""The README's example, as it stands there, against the real engines of this machine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from starter import MemoryClient
from starter.dev import LocalStack
from tests.e2e.command import environment
from tests.support.waiting import until
from tests.unit.test_readme import ROOT, code

USER = ("acme", "user_123")


async def run_example(folder: Path, *args: str) -> list[str]:
    """Lines that it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "example.py",
        *args,
        cwd=folder,
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().splitlines()


async def test_the_example_remembers_from_one_turn_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(code("example"), "utf-8")
    async with LocalStack(tmp_path / ".afterturn") as stack, MemoryClient(stack.settings) as memory:
        first = await run_example(tmp_path, "Hi, I am Ana. I live in Lisbon.")
        assert first[0] == "You are a helpful assistant."
        assert "What I know about you" not in "\n".join(first)
        # On a busy machine the first turn of a process may miss the budget; it is recorded a moment later then.
        assert first[-1] in {"recorded", "spooled", "pending"}

        async def learned() -> bool:
            return "Lisbon" in (await memory.get_profile(USER)).body

        await until(learned, within_s=60)
        second = await run_example(tmp_path, "Thanks! What is the capital of Peru?")
    told = "\n".join(second)
    assert "# What I know about you" in told
    assert "- Lives in Lisbon" in told
    assert second[-2] == "Understood."


async def test_the_example_of_knowledge_fills_asks_and_shows(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(code("example", (ROOT / "docs/knowledge.md").read_text("utf-8")), "utf-8")
    async with LocalStack(tmp_path / ".afterturn"):
        first = await run_example(tmp_path)
        assert first[0].startswith("(simulated) Added Brenta")
        assert first[1:3] == ["True", "(simulated) Number of Suppliers: 3."]
        assert first[3:] == ["2 Brenta personal", "0 Nordwind personal"]
        # Once more: the import and the update are made once, or say that it is there.
        again = await run_example(tmp_path)
        assert again[2:] == first[2:]
