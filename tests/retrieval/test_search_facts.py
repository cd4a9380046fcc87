"""Searching facts: what is found right after a write, what is never shown, and what a search still finds when something is away."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.fact import FactKind, FactStatus
from memory.model.lexical import query_terms
from memory.model.owner import Owner, View
from memory.ports import EndFact, Point, SparseVector
from memory.retrieval.documents import point_id
from tests.retrieval.conftest import World
from tests.support.records import ANN, ANNS, BOB, BOBS, NOW, OTHER_ANN, SALES, see

DAY = timedelta(days=1)


@pytest.mark.parametrize("synced", [False, True])
class TestFinding:
    async def test_the_fact_that_fits_comes_first_before_and_after_the_sync(self, world: World, synced: bool) -> None:
        await world.add_fact("f1", "Ann's car insurance ends in May")
        await world.add_fact("f2", "Ann prefers tea to coffee")
        await world.add_fact("f3", "The office moved to Hamburg")
        if synced:
            assert await world.index.sync_documents(ANN) >= 3
        assert (await world.find_facts("When do the insurances of the car end?"))[0] == "f1"
        assert (await world.find_facts("Hamburg"))[0] == "f3"

    @pytest.mark.parametrize(
        ("query", "statement"),
        [
            ("Versicherung", "Anns Krankenversicherung läuft bis Mai"),
            ("苹果", "她喜欢吃苹果"),
            ("東京", "来週東京に行く"),
            ("서울", "서울에서 회의가 있다"),
            ("กาแฟ", "แอนชอบดื่มกาแฟตอนเช้า"),
            ("مدرسة", "تعمل آن في المدرسة الجديدة"),
            ("🎉", "The launch is on Friday 🎉"),
        ],
    )
    async def test_in_any_language(self, world: World, synced: bool, query: str, statement: str) -> None:
        await world.add_fact("other", "Ann has two brothers and a red bicycle")
        await world.add_fact("wanted", statement)
        if synced:
            await world.index.sync_documents(ANN)
        assert (await world.find_facts(query))[0] == "wanted"

    async def test_a_changed_fact_is_found_by_what_it_says_now(self, world: World, synced: bool) -> None:
        await world.add_fact("f1", "Ann lives in Berlin")
        await world.index.sync_documents(ANN)
        await world.add_fact("f2", "Ann lives in Lisbon", supersedes=("f1",))
        if synced:
            await world.index.sync_documents(ANN)
        assert await world.find_facts("Where does Ann live? Berlin?") == ["f2"]

    async def test_ended_and_deleted_facts_are_gone_at_once(self, world: World, synced: bool) -> None:
        await world.add_fact("f1", "Ann lives in Berlin")
        await world.add_fact("f2", "Ann works in Berlin")
        await world.index.sync_documents(ANN)
        await world.tables.facts.apply(ANNS, [EndFact("end", "f1")], now=NOW)
        await world.tables.facts.delete(ANNS, ["f2"], now=NOW)
        if synced:
            await world.index.sync_documents(ANN)
            assert await world.points("facts") == 0
        assert await world.find_facts("Berlin") == []

    async def test_nobody_sees_what_is_somebody_elses(self, world: World, synced: bool) -> None:
        await world.add_fact("mine", "The secret garden is in Berlin")
        await world.add_fact("bobs", "The secret garden is in Paris", owner=BOBS)
        await world.add_fact("teams", "The secret garden is in Rome", owner=SALES)
        await world.add_fact("other-tenant", "The secret garden is in Oslo", owner=Owner.user(OTHER_ANN))
        if synced:
            await world.index.sync_documents(None)
        asked = "secret garden"
        assert await world.find_facts(asked) == ["mine"]
        assert await world.find_facts(asked, view=View(BOB)) == ["bobs"]
        assert set(await world.find_facts(asked, view=see(ANN, "sales"))) == {"mine", "teams"}
        assert await world.find_facts(asked, view=see(OTHER_ANN, "sales")) == ["other-tenant"]

    async def test_by_kind(self, world: World, synced: bool) -> None:
        await world.add_fact("f1", "Invoices are paid within ten days", kind=FactKind.POLICY)
        await world.add_fact("f2", "Invoices were late in May")
        if synced:
            await world.index.sync_documents(ANN)
        assert await world.find_facts("invoices", kinds=[FactKind.POLICY]) == ["f1"]
        assert await world.find_facts("invoices", kinds=[]) == []


async def test_as_of_a_time_and_by_status(world: World) -> None:
    await world.add_fact("f1", "Ann lives in Berlin", observed_at=NOW - 30 * DAY)
    await world.add_fact("f2", "Ann lives in Lisbon", supersedes=("f1",))
    await world.index.sync_documents(ANN)
    assert await world.find_facts("Where does Ann live?", as_of=NOW - 3 * DAY) == ["f1"]
    assert await world.find_facts("Where does Ann live?", as_of=NOW + DAY) == ["f2"]
    assert await world.find_facts("Berlin", statuses=[FactStatus.SUPERSEDED]) == ["f1"]


async def test_a_vector_that_drifted_shows_nothing_that_is_gone_or_somebody_elses(world: World) -> None:
    await world.add_fact("f1", "Ann lives in Berlin")
    await world.add_fact("b1", "Bob lives in Berlin", owner=BOBS)
    await world.index.sync_documents(None)
    await world.tables.facts.delete(ANNS, ["f1"], now=NOW)
    await world.index.sync_documents(None)
    # Points as a crash or a restored folder may leave them: of a row that is gone, and under the wrong owner.
    words = query_terms("Berlin")
    sparse = SparseVector(tuple(sorted(words)), tuple(1.0 for _ in words))
    for name in ("f1", "b1"):
        payload = {"id": name, "revision": 1, "kind": "fact", "status": "active"}
        await world.vectors.upsert("afterturn_facts", [Point(point_id(ANNS, "facts", name), ANNS.path, sparse, None, payload)])
    assert await world.find_facts("Berlin") == []
    assert await world.find_facts("Berlin", view=View(BOB)) == ["b1"]


async def test_a_long_statement_and_a_long_query_are_bounded(world: World) -> None:
    await world.add_fact("f1", "insurance " + "word " * 300)
    await world.index.sync_documents(ANN)
    assert await world.find_facts("insurance " + "and something quite different " * 2_000) == ["f1"]
    with pytest.raises(InvalidInput):
        await world.find_facts("insurance", limit=0)
    assert await world.find_facts("  ") == []


class TestSomethingIsAway:
    async def test_without_the_embedder_words_count_and_the_answer_says_so(self, hybrid: World) -> None:
        await hybrid.add_fact("f1", "Ann lives in Berlin")
        await hybrid.index.sync_documents(ANN)
        assert [found.why for found in await hybrid.facts("Berlin")] == ["hybrid"]
        assert hybrid.embedder is not None
        hybrid.embedder.away = True
        assert [(found.fact.fact_id, found.why) for found in await hybrid.facts("Berlin")] == [("f1", "lexical, embedder away")]

    async def test_what_is_written_meanwhile_is_found_and_embedded_later(self, hybrid: World) -> None:
        assert hybrid.embedder is not None
        hybrid.embedder.away = True
        await hybrid.add_fact("f1", "Ann lives in Berlin")
        with pytest.raises(StoreUnavailable):
            await hybrid.index.sync_documents(ANN)
        assert await hybrid.find_facts("Berlin") == ["f1"]
        hybrid.embedder.away = False
        assert await hybrid.index.sync_documents(ANN) == 1
        [hit] = await hybrid.vectors.scroll("afterturn_facts")
        assert hit.payload["embedded"] == 1

    async def test_without_the_vectors_rows_are_ranked(self, world: World) -> None:
        await world.add_fact("f1", "Ann lives in Berlin")
        await world.add_fact("f2", "Ann plays the violin")
        await world.index.sync_documents(ANN)
        await world.vectors.aclose()
        assert [(found.fact.fact_id, found.why) for found in await world.facts("Berlin")] == [("f1", "rows")]


async def test_a_search_embeds_no_document(hybrid: World) -> None:
    """What waits for the index is compared by its words: a search does not wait for a slow embedder."""
    for number in range(20):
        await hybrid.add_fact(f"f{number}", f"Statement number {number} about the garden")
    assert len(await hybrid.find_facts("garden", limit=20)) == 20
    assert hybrid.embedder is not None
    assert hybrid.embedder.texts == []


async def test_two_syncs_at_once_count_every_term_once(world: World) -> None:
    for number in range(10):
        await world.add_fact(f"f{number}", f"garden number{number}")
    other = world.another(world.embedder)
    await asyncio.gather(world.index.sync_documents(ANN), other.sync_documents(ANN))
    await world.index.sync_documents(ANN)
    statistics = await world.tables.terms.statistics("acme", [ANNS.key], "facts", [])
    assert statistics.documents == 10
    assert await world.points("facts") == 10
