"""The part of the demo that asks, fills and asks again the tables of a ready scenario, step by step."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from memory.model.scope import Scope
from starter.cli.output import safe_text
from starter.client import MemoryClient
from starter.loop_view import LoopView
from starter.scenarios import install, load_scenario
from starter.steering import LoopAnswer

SCENARIO: Final = "electric-vehicles"
PLAYED: Final = (
    ("ask", "Which company sold the most units?"),
    ("update", "Add the company Volta from Norway, founded 2012"),
    ("ask", "Which companies are from Norway?"),
    ("ask", "How many units were sold in Norway in 2023?"),
)
"""Operation and text, one after the other."""


@dataclass(frozen=True, slots=True)
class KnowledgeReport:
    """``answers``: operation, text, and how its loop ended."""

    answers: tuple[tuple[str, str, LoopAnswer], ...] = field(repr=False)
    seconds: float

    @property
    def ok(self) -> bool:
        return all(answer.ok for _, _, answer in self.answers)

    @property
    def last_line(self) -> str:
        steps = sum(answer.steps for _, _, answer in self.answers)
        return f"knowledge: {len(self.answers)} loops, {steps} steps, {self.seconds:.1f} s"

    def as_json(self) -> dict[str, Any]:
        shown = [
            {"operation": operation, "text": text, "state": answer.state, "answer": answer.text, "steps": answer.steps}
            for operation, text, answer in self.answers
        ]
        return {"loops": shown, "ok": self.ok}


async def play_knowledge(client: MemoryClient, scope: Scope, console: Console) -> KnowledgeReport:
    """Make the scenario's tables for this user and run the loops, each shown as it goes. Raises MemoryUnavailable."""
    clock = asyncio.get_running_loop().time
    started = clock()
    scenario = load_scenario(SCENARIO)
    await install(client.knowledge, scope, scenario)
    tables = ", ".join(f"{table.name} ({len(table.rows)} rows)" for table in scenario.tables)
    console.print()
    console.print(Text(f"Knowledge in tables: {scenario.title}. {scenario.about}", style="bold"))
    console.print(Text(tables, style="dim"))
    answers: list[tuple[str, str, LoopAnswer]] = []
    for operation, text in PLAYED:
        console.print(Text(f"{operation}  {text}", style="bold"))
        handle = await getattr(client.knowledge, operation)(scope, text)
        answer = await LoopView(handle, console, steer=False).follow()
        console.print(Text(safe_text(f"     {answer.text}")))
        answers.append((operation, text, answer))
    return KnowledgeReport(tuple(answers), clock() - started)
