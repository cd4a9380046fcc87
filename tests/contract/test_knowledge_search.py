"""Search over tables: by meaning on the embedded vector engine, by words without an embedder, on both databases."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from memory.knowledge.search import KnowledgeSearch
from memory.model.errors import InvalidSettings
from memory.model.knowledge import (
    AddRows,
    CreateTable,
    DeleteColumn,
    DeleteRows,
    DeleteTables,
    JoinStep,
    RenameColumn,
    Row,
    SearchQuery,
    TableChange,
    ToolProblem,
    UpdateRows,
)
from memory.model.owner import Owner, View
from memory.ports import CreateContact
from memory.retrieval import SearchIndex
from memory.retrieval.reconcile import Cursor, ReconcileReport
from memory.retrieval.tables import TableVectors
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ROWS, KNOWLEDGE_TABLES
from memory.stores.tables.scoping import Records
from memory.stores.vectors.edge import EdgeVectors
from tests.retrieval.conftest import ToyEmbedder
from tests.support.records import ANN, ANNS, BOB, BOBS, NOW, SALES, see

_numbers = itertools.count()
COLLECTION = "afterturn_knowledge"
CARS: list[dict[str, Any]] = [
    {"name": "Polestar 2", "about": "a quiet electric sedan from Gothenburg", "year": 2019},
    {"name": "Cybertruck", "about": "a steel pickup truck with sharp edges", "year": 2023},
    {"name": "Zoe", "about": "a small electric hatchback for the city", "year": 2012},
    {"name": "Kona", "about": None, "year": 2018},
    {"name": "F-150 Lightning", "about": "a pickup truck for farmers", "year": 2022},
    {"name": "Leaf", "about": "   ", "year": 2010},
]


class World:
    """A user's tables, an embedder that needs no model, and the vectors."""

    def __init__(self, tables: Tables, vectors: EdgeVectors) -> None:
        self.tables, self.vectors, self.embedder = tables, vectors, ToyEmbedder()
        self.search = KnowledgeSearch(tables.knowledge, tables.embeddings, vectors=vectors, embedder=self.embedder)
        self.by_words = KnowledgeSearch(tables.knowledge, tables.embeddings, vectors=vectors, embedder=None)

    async def write(self, change: TableChange, owner: Owner = ANNS) -> Mapping[str, Any]:
        return await self.tables.knowledge.write(owner, change, effect=f"effect {next(_numbers)}", now=NOW)

    async def cars(self, owner: Owner = ANNS, rows: Sequence[Mapping[str, Any]] = CARS) -> None:
        await self.write(CreateTable("Cars", None, {"name": "str", "about": "str", "year": "int"}, "car_id"), owner)
        await self.write(AddRows("Cars", rows), owner)

    async def rows(self, references: Mapping[str, str], *, view: View | None = None, words: bool = False, **more: Any) -> list[Row]:
        query = SearchQuery(references=references, **({"table": "Cars"} if "joins" not in more else {}) | more)
        return list(await (self.by_words if words else self.search).search(view or see(ANN), query))

    async def names(self, references: Mapping[str, str], **more: Any) -> list[str]:
        return [row["name"] for row in await self.rows(references, **more)]

    async def points(self, owner: Owner | None = None) -> int:
        return await self.vectors.count(COLLECTION, owner=None if owner is None else owner.path)

    def index(self, embedder: ToyEmbedder | None = None) -> SearchIndex:
        tables = self.tables
        return SearchIndex(
            vectors=self.vectors,
            embedder=embedder or self.embedder,
            terms=tables.terms,
            ledger=tables.windows,
            facts=tables.facts,
            contacts=tables.contacts,
            guidance=tables.guidance,
            functions=tables.functions,
            embeddings=tables.embeddings,
        )

    async def reconciled(self) -> ReconcileReport:
        report = ReconcileReport()
        await TableVectors(self.vectors, self.tables.embeddings, self.embedder).reconcile(report, Cursor(), limit=10_000)
        return report

    async def stored(self) -> tuple[Any, ...]:
        """Every byte of Ann's tables."""

        def work(connection: Any) -> tuple[Any, ...]:
            found = [Records(connection, ANNS).rows(select(table)) for table in (KNOWLEDGE_TABLES, KNOWLEDGE_ROWS)]
            return tuple(tuple(map(tuple, rows)) for rows in found)

        return await self.tables.database.read(work)


@pytest.fixture
async def world(sql_url: str, tmp_path: Path) -> AsyncIterator[World]:
    tables = build_tables(sql_url)
    vectors = EdgeVectors(tmp_path / "vectors", owner="test")
    yield World(tables, vectors)
    await vectors.aclose()
    await tables.aclose()


async def test_rows_come_by_meaning_and_are_filled_up_with_the_newest_that_have_none(world: World) -> None:
    await world.cars()
    names = await world.names({"about": "pickup truck for farmers"}, k=10)
    assert names[0] == "F-150 Lightning"
    assert names[1] == "Cybertruck"
    assert names[4:] == ["Leaf", "Kona"], "nothing to compare: newest first"
    assert await world.names({"about": "pickup truck"}, k=1) in (["F-150 Lightning"], ["Cybertruck"])
    (row,) = await world.rows({"about": "pickup truck for farmers"}, k=1)
    assert row == {"car_id": 4, **CARS[4], "_source": "personal"}


async def test_a_search_changes_no_byte_of_the_tables(world: World) -> None:
    await world.cars()
    before = await world.stored()
    await world.rows({"about": "pickup"}, k=3)
    await world.rows({"about + ' ' + name": "pickup"}, k=3, filter="year > 2000")
    assert await world.stored() == before


async def test_a_row_is_embedded_once_and_again_when_it_has_changed(world: World) -> None:
    await world.cars()
    await world.rows({"about": "pickup"})
    assert len(world.embedder.texts) == 4
    await world.rows({"about": "something else"})
    await world.rows({"{about}": "the same column"})
    assert len(world.embedder.texts) == 4
    await world.write(UpdateRows("Cars", {3: {"about": "a pickup truck for farmers in Texas"}}))
    assert (await world.names({"about": "a pickup truck for farmers in Texas"}))[0] == "Kona"
    assert world.embedder.texts[4:] == ["a pickup truck for farmers in Texas"]
    await world.write(UpdateRows("Cars", {3: {"about": None}}))
    assert (await world.names({"about": "a pickup truck for farmers in Texas"}))[-1] == "Kona"
    assert await world.points() == 4


async def test_deleted_rows_never_come_back(world: World) -> None:
    await world.cars()
    assert "Zoe" in await world.names({"about": "electric"})
    await world.write(DeleteRows(filter="name == 'Zoe'", tables=["Cars"]))
    assert "Zoe" not in await world.names({"about": "a small electric hatchback for the city"}, k=100)
    assert await world.points() == 3
    await world.index().reindex(["knowledge"])
    assert await world.points() == 0
    assert "Zoe" not in await world.names({"about": "a small electric hatchback for the city"}, k=100)
    assert await world.points() == 3


async def test_distances_of_several_references_add_up(world: World) -> None:
    rows = [
        {"name": "both", "about": "red apples", "more": "green pears"},
        {"name": "first", "about": "red apples", "more": "xxxx yyyy"},
        {"name": "second", "about": "zzzz qqqq", "more": "green pears"},
        {"name": "half", "about": "red apples", "more": None},
    ]
    await world.write(CreateTable("Cars"))
    await world.write(AddRows("Cars", rows))
    names = await world.names({"about": "red apples", "more": "green pears"}, k=10)
    assert names[0] == "both"
    assert set(names) == {"both", "first", "second", "half"}


async def test_the_union_of_candidates_is_scored_exactly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is near to both and nearest to none is found, though each reference alone names others."""
    monkeypatch.setattr("memory.knowledge.distances.MIN_DEPTH", 3)
    rows = [{"name": f"a{n}", "about": "red apples", "more": f"{'wxyz'[n]}{n} unlike"} for n in range(2)]
    rows += [{"name": f"b{n}", "about": f"{'wxyz'[n]}{n} unlike", "more": "green pears"} for n in range(2)]
    rows += [{"name": "both", "about": "red apples today", "more": "green pears today"}]
    rows += [{"name": f"c{n}", "about": f"qqqq {n}", "more": f"vvvv {n}"} for n in range(3)]
    await world.write(CreateTable("Cars"))
    await world.write(AddRows("Cars", rows))
    assert await world.names({"about": "red apples", "more": "green pears"}, k=1) == ["both"]


@pytest.mark.parametrize("words", [False, True])
async def test_a_filter_holds_for_all_rows(world: World, words: bool) -> None:
    await world.cars()
    found = await world.rows({"about": "pickup truck"}, filter="year < 2020", k=10, words=words)
    assert {row["name"] for row in found} == {"Polestar 2", "Zoe", "Kona", "Leaf"}
    assert [row["name"] for row in found][2:] == ["Leaf", "Kona"]
    with pytest.raises(ToolProblem) as caught:
        await world.rows({"about": "x"}, filter="os.system('x')", words=words)
    assert caught.value.code == "bad_expression"


async def test_a_filter_over_many_rows_goes_by_the_nearest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.knowledge.search.MAX_EXACT", 2)
    await world.cars()
    names = await world.names({"about": "pickup truck for farmers"}, filter="year > 2000 or (\n1 == 1\n)", k=4)
    assert names[:2] == ["F-150 Lightning", "Cybertruck"]
    assert len(names) == 4
    assert await world.names({"about": "pickup truck"}, filter="year < 2020 # old", k=2) in (
        ["Zoe", "Polestar 2"],
        ["Polestar 2", "Zoe"],
    )


async def test_a_filter_over_many_rows_may_be_long(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory.knowledge.search.MAX_EXACT", 2)
    await world.cars()
    for number in range(4):
        rows = [{"name": "x", "about": f"car {n}", "year": 2000} for n in range(100)]
        await world.write(AddRows("Cars", rows if number else [{"name": "y", "about": "a pickup truck for farmers", "year": 1}]))
    long = " or ".join(["year == 1"] * 600) + " or year == 2000"
    assert (await world.names({"about": "pickup truck for farmers"}, filter=long, k=3))[0] == "y"


async def test_a_table_of_another_type_does_not_keep_others_from_being_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.cars()
    await world.write(CreateTable("Cars", None, {"name": "str", "about": "str", "year": "str"}), SALES)
    await world.write(AddRows("Cars", [{"name": "Team's", "about": "a pickup truck for farmers", "year": "1"}] * 3), SALES)
    view = see(ANN, "sales")
    for words in (False, True):
        found = await world.names({"about": "a pickup truck for farmers"}, view=view, k=100, words=words)
        assert found[:4].count("Team's") == 3
        assert len(found) == len(CARS) + 3
        for most in (5_000, 2):
            monkeypatch.setattr("memory.knowledge.search.MAX_EXACT", most)
            found = await world.names({"about": "a pickup truck for farmers"}, view=view, filter="year > 2000", words=words)
            assert found[0] == "F-150 Lightning"
            assert "Team's" not in found
        found = await world.names({"about + str(year + 1)": "a pickup truck for farmers"}, view=view, k=1, words=words)
        assert found == ["F-150 Lightning"]


async def test_without_an_embedder_words_count(world: World) -> None:
    await world.cars()
    names = await world.names({"about": "Pickup trucks for a farmer"}, words=True, k=10)
    assert names[:2] == ["F-150 Lightning", "Cybertruck"]
    assert names[4:] == ["Leaf", "Kona"]
    assert not world.embedder.texts


async def test_while_the_embedder_or_the_vectors_are_away_words_count(world: World) -> None:
    await world.cars()
    world.embedder.away = True
    assert (await world.names({"about": "pickup truck for farmers"}))[0] == "F-150 Lightning"
    world.embedder.away = False
    await world.vectors.aclose()
    assert (await world.names({"about": "pickup truck for farmers"}))[0] == "F-150 Lightning"


async def test_only_what_the_view_shows_is_found_each_row_with_its_source(world: World) -> None:
    await world.cars()
    await world.cars(BOBS, [{"name": "Bob's", "about": "a pickup truck for farmers", "year": 1}])
    await world.cars(SALES, [{"name": "Team's", "about": "a pickup truck for farmers", "year": 2}])
    found = await world.rows({"about": "a pickup truck for farmers"}, k=100)
    assert {row["_source"] for row in found} == {"personal"}
    assert len(found) == len(CARS)
    found = await world.rows({"about": "a pickup truck for farmers"}, k=2, view=see(ANN, "sales"))
    assert {row["name"] for row in found} == {"Team's", "F-150 Lightning"}
    assert {row["_source"] for row in found} == {"personal", "team:sales"}
    assert await world.names({"about": "x"}, view=see(BOB)) == ["Bob's"]
    assert await world.names({"about": "x"}, table="team:sales.Cars", view=see(ANN, "sales")) == ["Team's"]
    assert await world.points(BOBS) == 1
    for words in (False, True):
        with pytest.raises(ToolProblem) as caught:
            await world.rows({"about": "x"}, table="team:sales.Cars", words=words)
        assert caught.value.code == "unknown_table"


async def test_how_rare_a_word_is_does_not_depend_on_other_owners(world: World) -> None:
    await world.cars()
    before = await world.rows({"about": "electric truck"}, words=True, k=10)
    await world.cars(BOBS, [{"name": str(n), "about": "truck truck truck", "year": n} for n in range(200)])
    assert await world.rows({"about": "electric truck"}, words=True, k=10) == before


async def test_a_renamed_column_keeps_its_vectors_and_another_of_that_name_gets_none(world: World) -> None:
    await world.cars()
    await world.rows({"about": "pickup"})
    await world.write(RenameColumn("Cars", "about", "description"))
    assert (await world.names({"description": "pickup truck for farmers"}))[0] == "F-150 Lightning"
    assert len(world.embedder.texts) == 4
    await world.write(RenameColumn("Cars", "name", "about"))
    found = await world.rows({"about": "Zoe"}, k=1)
    assert found[0]["about"] == "Zoe"


async def test_a_column_that_takes_a_deleted_ones_place_has_vectors_of_its_own(world: World) -> None:
    await world.cars()
    await world.rows({"about": "pickup"})
    await world.write(DeleteColumn("Cars", "about"))
    await world.write(UpdateRows("Cars", {0: {"name": "n"}}))
    with pytest.raises(ToolProblem) as caught:
        await world.rows({"about": "pickup"})
    assert caught.value.code == "unknown_column"


async def test_an_embedding_column_is_made_completed_and_searched_by_its_name(world: World) -> None:
    from memory.model.knowledge import VectorizeColumn

    await world.cars()
    await world.write(VectorizeColumn("Cars", "name + ': ' + about", "name_and_about"))
    some = await world.search.vectorize(see(ANN), ANNS, "Cars", "name + ': ' + about", keys=[0, 1, 99])
    assert (some.embedded, some.left) == (2, 0)
    rest = await world.search.vectorize(see(ANN), ANNS, "Cars", "name + ': ' + about")
    assert rest.left == 0
    count = len(world.embedder.texts)
    assert (await world.names({"name_and_about": "F-150 Lightning: a pickup truck for farmers"}))[0] == "F-150 Lightning"
    assert len(world.embedder.texts) == count
    with pytest.raises(ToolProblem):
        await world.search.vectorize(see(ANN), SALES, "Cars", "about")


async def test_other_types_are_compared_as_text(world: World) -> None:
    await world.write(CreateTable("Cars", None, {"name": "str", "tags": "list", "data": "dict", "day": "date"}))
    rows = [
        {"name": "a", "tags": ["blue", "fast"], "data": {"maker": "Volvo"}, "day": "2024-05-01"},
        {"name": "b", "tags": ["slow"], "data": {"maker": "Renault"}, "day": "1999-12-31"},
    ]
    await world.write(AddRows("Cars", rows))
    for words in (False, True):
        assert (await world.names({"tags": "blue and fast"}, words=words))[0] == "a"
        assert (await world.names({"data['maker']": "Renault"}, words=words))[0] == "b"
        assert (await world.names({"data": "Renault"}, words=words))[0] == "b"
        assert (await world.names({"str(day)": "1999-12-31"}, words=words))[0] == "b"


async def test_contacts_are_searched_too_and_again_when_they_change(world: World) -> None:
    for number, (name, bio) in enumerate([("Ada", "a mathematician"), ("Ben", "sells pickup trucks"), ("Cleo", None)]):
        fields = {"first_name": name, "bio": bio} if bio else {"first_name": name}
        await world.tables.contacts.apply(ANN, [CreateContact(f"c{number}", fields)], origin="test", now=NOW)
    found = await world.rows({"bio": "pickup trucks"}, table="Contacts", k=1)
    assert found[0]["first_name"] == "Ben"
    count = len(world.embedder.texts)
    assert (await world.rows({"bio": "mathematics"}, table="Contacts", k=1))[0]["first_name"] == "Ada"
    assert len(world.embedder.texts) == count


JOIN = JoinStep(
    ["Cars", "Makers"], "Cars.maker == Makers.maker_id", {"Cars.name": "name", "Cars.about": "about", "Makers.story": "story"}
)


async def joined(world: World) -> None:
    await world.write(CreateTable("Makers", None, {"title": "str", "story": "str"}, "maker_id"))
    await world.write(
        AddRows("Makers", [{"title": "Ford", "story": "from Detroit"}, {"title": "Volvo", "story": "from Gothenburg"}])
    )
    await world.write(CreateTable("Cars", None, {"name": "str", "about": "str", "maker": "int"}, "car_id"))
    rows = [
        {"name": "Lightning", "about": "a pickup truck", "maker": 0},
        {"name": "Focus", "about": "a small car", "maker": 0},
        {"name": "EX30", "about": "a small car", "maker": 1},
        {"name": "Nameless", "about": None, "maker": 1},
    ]
    await world.write(AddRows("Cars", rows))


@pytest.mark.parametrize("words", [False, True])
async def test_rows_of_a_join_come_by_meaning(world: World, words: bool) -> None:
    await joined(world)
    names = await world.names({"about": "small car", "story": "from Gothenburg"}, joins=[JOIN], words=words)
    assert names[0] == "EX30"
    assert len(names) == 4
    assert await world.names({"Cars.about": "pickup truck"}, joins=[JOIN], k=1, words=words) == ["Lightning"]
    names = await world.names({"about": "pickup truck"}, joins=[JOIN], filter="name != 'Lightning'", words=words)
    assert "Lightning" not in names
    assert names[-1] == "Nameless"


async def test_a_chain_of_joins_is_followed_back_to_the_tables(world: World) -> None:
    await joined(world)
    await world.write(CreateTable("Sales", None, {"car": "int", "note": "str"}))
    await world.write(AddRows("Sales", [{"car": 2, "note": "sold in Berlin"}, {"car": 0, "note": "sold in Texas"}]))
    first = JoinStep(
        ["Cars", "Makers"], "Cars.maker == Makers.maker_id", {"Cars.car_id": "c", "Cars.name": "n", "Makers.story": "s"}
    )
    second = JoinStep(["$prev", "Sales"], "$prev.c == Sales.car", {"$prev.n": "name", "$prev.s": "origin", "Sales.note": "note"})
    found = await world.rows({"origin": "from Gothenburg"}, joins=[first, second])
    assert [row["name"] for row in found] == ["EX30", "Lightning"]
    assert (await world.names({"note": "Texas"}, joins=[first, second], k=1)) == ["Lightning"]


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("about + story", "bad_expression"),
        ("'x'", "bad_expression"),
        ("nothing", "unknown_column"),
        ("about +", "bad_expression"),
        ("__import__('os').system('x')", "unknown_column"),
    ],
)
async def test_a_reference_of_a_join_that_cannot_be_is_told(world: World, reference: str, code: str) -> None:
    await joined(world)
    with pytest.raises(ToolProblem) as caught:
        await world.rows({reference: "x"}, joins=[JOIN])
    assert caught.value.code == code


async def test_vectors_of_what_is_gone_are_removed_and_what_is_missing_is_made_again(world: World) -> None:
    await world.cars()
    await world.cars(BOBS, CARS[:1])
    await world.rows({"about": "pickup"})
    await world.rows({"name": "pickup"})
    await world.rows({"about": "pickup"}, view=see(BOB))
    assert await world.points() == 4 + 6 + 1
    report = await world.reconciled()
    assert report.drift == 0
    await world.write(DeleteColumn("Cars", "name"))
    report = await world.reconciled()
    assert report.orphaned["knowledge"] == 6
    await world.write(DeleteTables(["Cars"]))
    report = await world.reconciled()
    assert report.orphaned["knowledge"] == 4
    assert await world.points() == 1
    await world.vectors.delete_owner(COLLECTION, BOBS.path)
    report = await world.reconciled()
    assert report.missing["knowledge"] == 1
    assert await world.names({"about": "electric"}, view=see(BOB)) == ["Polestar 2"]
    assert await world.points() == 1
    assert (await world.reconciled()).drift == 0


async def test_another_embedder_is_told_at_the_start(world: World) -> None:
    await world.cars()
    await world.rows({"about": "pickup"})
    other = world.index(ToyEmbedder("other", 16))
    assert other.tables is not None
    with pytest.raises(InvalidSettings, match="reindex"):
        await other.tables.ready()
    assert await other.reindex(["knowledge"]) == {"knowledge": 6}
    await other.tables.ready()
    assert not await world.vectors.missing_indexes(other.tables.spec())


async def test_a_search_of_many_rows_embeds_likely_ones_first_and_goes_on_next_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.knowledge.distances.SEARCH_BUDGET_S", 0.0)
    rows = [{"name": f"n{n}", "about": f"common words number {n}"} for n in range(100)]
    rows[50] = {"name": "wanted", "about": "a zebra in the garden"}
    await world.write(CreateTable("Cars", None, {"name": "str", "about": "str"}))
    await world.write(AddRows("Cars", rows))
    assert (await world.names({"about": "zebra"}, k=3))[0] == "wanted"
    assert 0 < await world.points() < 100
    for _ in range(4):
        await world.names({"about": "zebra"}, k=3)
    assert await world.points() == 100
