"""What is found, and in which order, is a matter of the rows: not of how far the index is, nor of who holds the engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from memory.model.errors import FolderInUse
from memory.model.owner import View
from memory.retrieval import SearchIndex
from memory.retrieval.fusion import in_order
from memory.stores.tables import Tables
from memory.stores.vectors.edge import EdgeVectors
from tests.retrieval.conftest import World
from tests.support.records import ANN, BOBS

PROJECTS = ("Atlas", "Harbour", "Meadow", "Quarry", "Lantern", "Orchard")
ASKED = "Correction: the deadline of the Quarry project is 9 June 2026. We decided that Atlas uses oak."
HALF = 12
ALL = 30


def statement(number: int) -> str:
    """Some of one form and one length, so that many fit equally well."""
    project = PROJECTS[number % len(PROJECTS)]
    if number % 5 == 4:
        return f"We decided that the {project} project uses oak for the stairs."
    return f"The deadline of the {project} project is {1 + number} May 2026."


async def fill(world: World, first: int, last: int) -> None:
    for number in range(first, last):
        ends = (f"f{number - 6:02}",) if number >= HALF and number % 7 == 0 else ()
        await world.add_fact(f"f{number:02}", statement(number), subject=statement(number).split()[4], supersedes=ends)


async def order(index: SearchIndex) -> Sequence[str]:
    return [found.fact.fact_id for found in await index.facts.search(View(ANN), ASKED, limit=12)]


async def test_settled_facts_come_in_one_order_however_far_the_index_was(world: World) -> None:
    await fill(world, 0, HALF)
    await world.index.sync_documents(ANN)
    await fill(world, HALF, ALL)
    # Words alone: what waits has no vector of its meaning yet.
    before = await order(world.index)
    await world.index.facts.settle(View(ANN))
    settled = await order(world.index)
    assert before == settled or world.embedder is not None
    assert not await world.tables.facts.pending(owner=None)
    await world.index.reindex(["facts"])
    assert await order(world.index) == settled


async def test_a_worker_beside_the_engines_owner_finds_them_in_the_same_order(
    stores: tuple[Tables, EdgeVectors], tmp_path: Path
) -> None:
    world = World(*stores, None)
    await fill(world, 0, HALF)
    await world.index.facts.settle(View(ANN))
    await fill(world, HALF, ALL)
    others = EdgeVectors(tmp_path / "vectors", timeout_s=60)
    beside = World(world.tables, others, None).index
    with pytest.raises(FolderInUse):
        await beside.facts.settle(View(ANN))
    beside.facts.rows_when_in_use = True
    await beside.facts.settle(View(ANN))
    found = await beside.facts.search(View(ANN), ASKED, limit=12)
    assert {one.why for one in found} == {"rows"}
    await world.index.facts.settle(View(ANN))
    assert [one.fact.fact_id for one in found] == await order(world.index)
    await others.aclose()


async def test_nothing_is_settled_of_others_and_no_more_than_can_be(hybrid: World) -> None:
    embedder = hybrid.embedder
    assert embedder is not None
    await hybrid.add_fact("mine", "The Atlas project uses oak")
    await hybrid.add_fact("bobs", "The Atlas project uses pine", owner=BOBS)
    embedder.away = True
    await hybrid.index.facts.settle(View(ANN))
    assert await hybrid.find_facts("Atlas oak") == ["mine"]
    embedder.away = False
    await hybrid.index.facts.settle(View(ANN))
    assert [one.document_id for one in await hybrid.tables.facts.pending()] == ["bobs"]


def test_equal_scores_are_told_apart_by_name_and_not_by_rounding() -> None:
    scores = {"c": 2.0, "b": 2.0 * (1 + 3e-8), "a": 2.0 * (1 - 5e-8), "x": 1.999, "y": 2.1, "z": 0.0}
    assert in_order(scores) == ["y", "a", "b", "c", "x", "z"]
    assert in_order({}) == []
