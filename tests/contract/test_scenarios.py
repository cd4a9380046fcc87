"""The scenarios through the real tools and a real store: the simulated model plans, the toolbox carries out, rows are looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.knowledge.moved import moved_by
from memory.knowledge.search import KnowledgeSearch
from memory.knowledge.toolbox import Toolbox
from memory.llm.simulated_knowledge import next_move
from memory.model.knowledge import PERSONAL, AddRows, CreateTable, FilterQuery, Row
from memory.model.knowledge_loop import Entry, EntryKind, Loop, Operation
from memory.prompts.knowledge import LoopView, loop_request
from memory.stores.migrations import migrate
from memory.stores.tables import Tables, build_tables
from starter.scenarios import SCENARIOS, Scenario, load_scenario
from tests.support.knowledge_twin import says
from tests.support.records import ANN, ANNS, see
from tests.support.vectors import MemoryVectors

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
STEPS = 40


class House:
    """A user's tables with the toolbox over them."""

    def __init__(self, tables: Tables) -> None:
        self.store = tables.knowledge
        self.search = KnowledgeSearch(tables.knowledge, tables.embeddings, vectors=MemoryVectors(), embedder=None)
        self.loops = 0

    async def fill(self, scenario: Scenario) -> None:
        for number, table in enumerate([scenario.refactor["table"], *(one.model_dump() for one in scenario.tables)]):
            create = CreateTable(table["name"], table["description"], table["columns"], table["unique_key_name"])
            await self.store.write(ANNS, create, effect=f"create {number}", now=NOW)
            await self.store.write(ANNS, AddRows(table["name"], table["rows"]), effect=f"fill {number}", now=NOW)

    async def rows(self, table: str, where: str | None = None) -> list[Row]:
        """Oldest first."""
        found = await self.store.filter(see(ANN), FilterQuery(where, limit=1_000, tables=[table]))
        return list(reversed(found[table]))

    async def everything(self) -> dict[str, Any]:
        names = [table.name for table in await self.store.tables(see(ANN)) if table.name != "Contacts"]
        return {name: await self.rows(name) for name in names}

    async def play(self, text: str, operation: Operation = Operation.ASK) -> str:
        """The answer of a loop, as its steps would make it."""
        self.loops += 1
        loop = Loop(f"l{self.loops}", operation, text, PERSONAL, NOW)
        tools = Toolbox(tables=self.store, search=self.search, stores=None, view=see(ANN), loop=loop, writable={PERSONAL: ANNS})
        entries: list[Entry] = []
        for step in range(1, STEPS):
            view = LoopView(
                loop=loop,
                entries=entries,
                overview=await tools.overview(),
                now=NOW,
                tools=tools.definitions(several_tables=True),
                timeout_s=5.0,
            )
            move = next_move(loop_request(view))
            calls = [{"call_id": one.call_id, "name": one.name, "arguments": one.arguments, "raw": one.raw} for one in move.calls]
            entries.append(Entry(f"model/{step}", EntryKind.MODEL, step, {"text": move.text, "calls": calls}))
            if not move.calls:
                return move.text
            for place, call in enumerate(move.calls):
                effect = f"loop/{loop.loop_id}/{step}/{place}"
                outcome = await tools.run(call, effect=effect, said=[text], moved=moved_by(loop, entries), now=NOW)
                body = {"call_id": call.call_id, "name": call.name, "content": outcome.content, "is_error": outcome.is_error}
                entries.append(Entry(f"result/{step}/{place}", EntryKind.RESULT, step, body))
        raise AssertionError(f"no answer after {STEPS} steps")


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return load_scenario(request.param)


@pytest.fixture
async def house(scenario: Scenario, tmp_path: Path) -> AsyncIterator[House]:
    migrate(f"sqlite:///{tmp_path / 'memory.db'}")
    tables = build_tables(f"sqlite:///{tmp_path / 'memory.db'}")
    house = House(tables)
    await house.fill(scenario)
    yield house
    await tables.aclose()


async def test_every_question_is_answered_right_and_nothing_is_written(house: House, scenario: Scenario) -> None:
    before = await house.everything()
    wrong: dict[str, str] = {}
    for question in scenario.questions:
        answer = await house.play(question.text)
        if not says(answer, question.contains):
            wrong[question.text] = answer
    assert wrong == {}
    assert await house.everything() == before


async def test_every_update_leads_to_its_state(house: House, scenario: Scenario) -> None:
    for update in scenario.updates:
        answer = await house.play(update["text"], Operation.UPDATE)
        for then in update["then"]:
            rows = await house.rows(then["table"], then["filter"])
            assert len(rows) == len(then["rows"]), (update["text"], answer, rows)
            assert [row | wanted for row, wanted in zip(rows, then["rows"], strict=True)] == rows, (update["text"], answer)


async def test_the_refactor_loses_no_value(house: House, scenario: Scenario) -> None:
    old, then = scenario.refactor["table"], scenario.refactor["then"]
    answer = await house.play(scenario.refactor["text"], Operation.REFACTOR)
    assert "Migration report" in answer
    new = {row[then["key"]]: row for row in await house.rows(then["new_table"])}
    assert len(new) == then["rows"], answer
    label, *others = then["moved"]
    for row, before in zip(await house.rows(old["name"]), old["rows"], strict=True):
        assert not row.keys() & set(then["moved"]), answer
        moved = new[row[then["key"]]]
        assert [moved["name"], *(moved[one] for one in others)] == [before[one] for one in (label, *others)]
