"""What the user's teams know is known to a window, and nothing is written to them; on real stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from memory.model.category import Category
from memory.model.fact import Fact, FactStatus
from memory.model.near_duplicate import statement_key
from memory.model.owner import Owner, View
from memory.ports import AddFact
from tests.support.extracted import WEDNESDAY, Memory, open_memory

K = Category.KNOWLEDGE
GARDEN, BOATS = Owner.team("acme", "garden"), Owner.team("acme", "boats")
SAID = "The Bergen plant runs on hydropower."


@pytest.fixture
async def memory(sql_url: str) -> AsyncIterator[Memory]:
    async with open_memory(sql_url) as made:
        made.teams = (GARDEN,)
        yield made


async def known_to(memory: Memory, owner: Owner, statement: str) -> str:
    fact_id = f"f-{owner.name}-{len(statement)}"
    at = WEDNESDAY - timedelta(days=9)
    fact = Fact(fact_id=fact_id, owner=owner.key, statement=statement, observed_at=at, created_at=at)
    await memory.stores.facts.apply(owner, [AddFact(f"e-{fact_id}", fact, statement_key(statement))], now=at)
    return fact_id


async def of_team(memory: Memory, owner: Owner) -> list[Fact]:
    view = View(memory.scope, (owner,))
    found = await memory.stores.facts.list(view, statuses=tuple(FactStatus), sources=True, limit=100)
    return [fact for fact in found if fact.owner == owner.key]


async def test_what_a_team_knows_already_is_known_and_not_written_again(memory: Memory) -> None:
    await known_to(memory, GARDEN, SAID)
    before = await of_team(memory, GARDEN)
    outcome = (await memory.take(K, [SAID], {"statement": SAID})).outcome
    assert (outcome.applied, outcome.confirmed, await memory.statements()) == (0, 1, [])
    assert await of_team(memory, GARDEN) == before, "not even the user's words as another source"
    memory.teams = ()
    await memory.again()
    assert await memory.statements() == [], "a window that is applied again decides nothing anew"


async def test_also_in_other_words_when_the_model_says_so(memory: Memory) -> None:
    known = await known_to(memory, GARDEN, SAID)
    item = {"statement": "The Bergen plant is powered by hydropower.", "relation": "same", "related": "f1"}
    outcome = (await memory.take(K, [item["statement"]], item, refs={"f1": known})).outcome
    assert (outcome.confirmed, await memory.statements()) == (1, [])


async def test_the_knowledge_of_a_team_that_the_user_is_not_in_does_not_count(memory: Memory) -> None:
    known = await known_to(memory, BOATS, SAID)
    item = {"statement": SAID, "relation": "same", "related": "f1"}
    outcome = (await memory.take(K, [SAID], item, refs={"f1": known})).outcome
    assert (outcome.applied, await memory.statements()) == (1, [SAID])


async def test_what_contradicts_a_team_is_the_users_own_and_the_teams_stands(memory: Memory) -> None:
    known = await known_to(memory, GARDEN, "The Bergen plant is led by Jonas Adler.")
    said = "The Bergen plant is now led by Ines Roth."
    outcome = (
        await memory.take(K, [said], {"statement": said, "relation": "supersedes", "related": "f1"}, refs={"f1": known})
    ).outcome
    assert (outcome.applied, await memory.statements()) == (1, [said])
    [theirs] = await of_team(memory, GARDEN)
    assert (theirs.status, theirs.superseded_by) == (FactStatus.ACTIVE, None)


async def test_an_own_fact_that_is_out_of_date_is_retired_although_the_team_knows_better(memory: Memory) -> None:
    await memory.take(K, ["The Bergen plant is led by Jonas Adler."], {"statement": "The Bergen plant is led by Jonas Adler."})
    said = "The Bergen plant is now led by Ines Roth."
    await known_to(memory, GARDEN, said)
    await memory.take(K, [said], {"statement": said})
    assert await memory.statements() == [said]
