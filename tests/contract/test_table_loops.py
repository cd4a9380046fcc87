"""Claims of a window that belong in a table: handed to a loop once, bound to that table, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from memory.categories.table_loops import TableLoops
from memory.knowledge.search import KnowledgeSearch
from memory.knowledge.toolbox import Toolbox
from memory.model.category import Category
from memory.model.knowledge import PERSONAL, AddRows, CreateTable
from memory.model.knowledge_loop import Loop, LoopState, Operation
from memory.model.knowledge_steps import CallKind
from memory.model.owner import Owner, View
from memory.model.table_claims import REQUEST, fact_of, statement_of
from memory.model.tools import ToolCall
from memory.ports import Usage
from memory.stores.tables import Tables, build_tables
from tests.support.extracted import WEDNESDAY, Memory, stores_on
from tests.support.vectors import MemoryVectors

COLUMNS = {"name": "str", "city": "str", "delivery_days": "int"}
CITY = "The city of the supplier Nordholz is Lübeck."


class World(Memory):
    """A user with tables."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(stores_on(tables))
        self.tables = tables
        self.handing = TableLoops(tables.knowledge, tables.loops)

    async def table(
        self, name: str = "Suppliers", columns: Mapping[str, str] = COLUMNS, rows: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        owner = Owner.user(self.scope)
        await self.tables.knowledge.write(owner, CreateTable(name, None, columns), effect=f"make {name}", now=WEDNESDAY)
        if rows:
            await self.tables.knowledge.write(owner, AddRows(name, rows), effect=f"fill {name}", now=WEDNESDAY)

    async def learn(self, *statements: str, **fields: Any) -> int:
        """A window in which this is said; gives how many loops are new."""
        items = [{"statement": text, "line": place, **fields} for place, text in enumerate(statements, 1)]
        await self.take(Category.KNOWLEDGE, statements, *items)
        return await self.hand_over()

    async def hand_over(self) -> int:
        """The last window's step once more, and what it added to the loops."""
        applied = await self.again()
        assert self.last is not None
        return await self.handing.open(self.last[2], applied.added)

    async def loops(self) -> list[Loop]:
        return list(reversed(await self.tables.loops.loops(self.scope)))

    async def said(self) -> list[list[str | None]]:
        return [[statement_of(message["content"]) for message in loop.context] for loop in await self.loops()]

    async def end(self, loop_id: str) -> None:
        await self.tables.loops.finish(
            self.scope, loop_id, state=LoopState.DONE, answer="Done.", steps=1, usage=Usage(1, 1), now=WEDNESDAY
        )


@pytest.fixture
async def world(sql_url: str) -> AsyncIterator[World]:
    tables = build_tables(sql_url)
    yield World(tables)
    await tables.aclose()


async def test_a_claim_is_handed_over_as_data_bound_to_its_table(world: World) -> None:
    await world.table(columns={**COLUMNS, "source_fact": "str"})
    await world.table("Projects", {"name": "str", "deadline": "date"})
    assert await world.learn(CITY, "The office cat is grey.") == 1
    (loop,) = await world.loops()
    fact = await world.fact(CITY)
    assert (loop.operation, loop.text, loop.destination, loop.clarify) == (Operation.UPDATE, REQUEST, PERSONAL, False)
    assert (loop.parent, loop.only) == ("window:w1", ("Suppliers",))
    assert loop.loop_id.startswith("w1-")
    (message,) = loop.context
    assert (message["role"], fact_of(message["content"])) == ("document", fact.fact_id)
    assert CITY in message["content"]
    assert "Lübeck" not in loop.text + (loop.instructions or "")
    assert "source_fact" in (loop.instructions or "")
    assert "`Suppliers`" in (loop.instructions or "")


async def test_applied_again_nothing_is_handed_over_twice(world: World) -> None:
    await world.table()
    assert await world.learn(CITY, "The supplier Holzmann delivers within 4 days.") == 1
    assert await world.hand_over() == 0
    (loop,) = await world.loops()
    assert await world.handing.next(world.scope) == loop.loop_id
    await world.end(loop.loop_id)
    assert await world.hand_over() == 0
    assert await world.handing.next(world.scope) is None
    # Said again in a later window it is known already.
    assert await world.learn(CITY) == 0
    assert len(await world.loops()) == 1


async def test_a_rerun_that_finds_more_hands_over_what_is_new(world: World) -> None:
    await world.table()
    texts = (CITY, "The supplier Holzmann delivers within 4 days.")
    window, events = world.window(*texts)
    await world.apply(Category.KNOWLEDGE, window, events, [{"statement": texts[0]}])
    assert await world.hand_over() == 1
    await world.apply(Category.KNOWLEDGE, window, events, [{"statement": text, "line": n} for n, text in enumerate(texts, 1)])
    assert await world.hand_over() == 1
    assert await world.said() == [[texts[0]], [texts[1]]]


async def test_the_loops_of_a_user_take_turns(world: World) -> None:
    await world.table()
    await world.learn(CITY)
    await world.learn("The supplier Holzmann delivers within 4 days.")
    first, second = await world.loops()
    assert await world.handing.next(world.scope) == first.loop_id
    await world.end(first.loop_id)
    assert await world.handing.next(world.scope) == second.loop_id


async def test_a_correction_names_what_it_takes_the_place_of(world: World) -> None:
    await world.table()
    await world.learn(CITY)
    old = await world.fact(CITY)
    new = "Correction: the city of the supplier Nordholz is Kiel."
    await world.take(
        Category.KNOWLEDGE,
        [new],
        {"statement": "The city of the supplier Nordholz is Kiel.", "relation": "supersedes", "related": "f1"},
        refs={"f1": old.fact_id},
    )
    assert await world.hand_over() == 1
    assert f"in place of: {CITY}" in (await world.loops())[-1].context[0]["content"]


@pytest.mark.parametrize("with_table", [False, True])
async def test_what_is_no_row_opens_no_loop(world: World, with_table: bool) -> None:
    if with_table:
        await world.table()
    assert await world.learn("The deadline of the Atlas project is 3 May 2027.", "The library is closed on Mondays.") == 0
    assert await world.learn("Every supplier must have a delivery note.", kind="policy") == 0
    assert await world.loops() == []


async def test_a_user_without_tables_has_no_loop(world: World) -> None:
    assert await world.learn(CITY) == 0
    assert await world.loops() == []


async def test_a_thing_is_known_by_its_row(world: World) -> None:
    """``Nordholz`` alone says nothing; it is the name of a supplier among a thousand."""
    await world.table(rows=[{"name": f"Firm {number}", "city": "Kiel"} for number in range(900)] + [{"name": "NORDHOLZ"}])
    assert await world.learn("Nordholz has a delivery time of 3 days.", "Holzmann has a delivery time of 9 days.") == 1
    assert await world.said() == [["Nordholz has a delivery time of 3 days."]]


async def test_very_many_claims_are_several_loops(world: World) -> None:
    await world.table()
    texts = [f"The city of the supplier Firm{number} is Lübeck{number}, {'known for its wood ' * 40}." for number in range(30)]
    assert await world.learn(*texts) > 1
    given = [one for loop in await world.said() for one in loop]
    assert len(given) == len(set(given)) == 30


async def test_its_tools_reach_the_rows_of_these_tables_and_nothing_else(world: World) -> None:
    await world.table()
    await world.table("Prices", {"name": "str"})
    await world.learn(CITY)
    (loop,) = await world.loops()
    mine, team = Owner.user(world.scope), Owner.team(world.scope.tenant, "sales")
    search = KnowledgeSearch(world.tables.knowledge, world.tables.embeddings, vectors=MemoryVectors(), embedder=None)
    tools = Toolbox(
        tables=world.tables.knowledge,
        search=search,
        stores=None,
        view=View(world.scope, (team,)),
        loop=loop,
        writable={PERSONAL: mine, "team:sales": team},
    )
    offered = {one.name for one in tools.definitions(several_tables=True)}
    assert {"filter", "search", "add_rows", "update_rows"} <= offered
    assert not offered & {"create_table", "delete_rows", "delete_tables", "rename_column", "transform_column", "ask"}
    assert tools.kind("delete_tables") is CallKind.REFUSED

    async def call(tool: str, **arguments: Any) -> str | None:
        done = await tools.run(
            ToolCall("c", tool, arguments), effect=f"e/{tool}/{arguments}", said=["Delete all."], moved=(), now=WEDNESDAY
        )
        return done.code if done.is_error else "done"

    row = [{"name": "Nordholz", "city": "Lübeck"}]
    assert await call("add_rows", table="Suppliers", rows=row) == "done"
    assert await call("add_rows", table="Prices", rows=row) == "not_permitted"
    assert await call("add_rows", table="Suppliers", rows=row, destination="team:sales") == "not_permitted"
    assert await call("create_table", name="Notes") == "not_permitted"
    assert await call("delete_rows", filter="row_id >= 0", tables=["Suppliers"]) == "not_permitted"
