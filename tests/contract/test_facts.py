"""Facts on SQLite and on PostgreSQL: their life, their sources, their effects, and what the index sees of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.fact import Fact, FactKind, FactStatus
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.ports import AddFact, ConfirmFact, EndFact, FactChange, IndexMark, Position
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.engine import database_url, make_engine
from memory.stores.tables.scoping import RECORD_TABLES
from tests.support.records import ANN, ANNS, BOBS, NOW, SALES, add, losing, said, see

DAY = timedelta(days=1)
ME = see(ANN)


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


async def ids(tables: Tables, **asked: Any) -> list[str]:
    return [fact.fact_id for fact in await tables.facts.list(ME, **asked)]


async def one(tables: Tables, fact_id: str) -> Fact:
    return (await tables.facts.get(ME, [fact_id], sources=True))[fact_id]


class TestAdding:
    async def test_a_fact_comes_back_as_it_was(self, tables: Tables) -> None:
        change = add(
            "f1",
            subject="Ann",
            statement="安住在柏林 🎉; she moved there in May.",
            kind=FactKind.DECISION,
            topics=("home", "città"),
            confidence=0.75,
            observed_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=45))),
            valid_from=NOW - DAY,
            valid_until=NOW + 30 * DAY,
            sources=(said("I moved to Berlin", seq=7, said_at=NOW),),
        )
        [result] = await tables.facts.apply(ANNS, [change], now=NOW)
        assert (result.did, result.fact_id, result.superseded, result.repeated) == ("added", "f1", (), False)
        assert await one(tables, "f1") == change.fact
        [listed] = await tables.facts.list(ME)
        assert listed == change.fact.model_copy(update={"sources": ()})

    async def test_text_that_no_store_takes_is_cleaned(self, tables: Tables) -> None:
        dirty = add("f1").fact.model_copy(update={"statement": "a\x00b \ud83d c", "subject": "\x00s", "topics": ("t\x00",)})
        source = said("q").model_copy(update={"quote": "x\x00 \udc00", "event_id": "e\x00\ud83d"})
        await tables.facts.apply(ANNS, [AddFact("e", dirty.model_copy(update={"sources": (source,)}), "k")], now=NOW)
        fact = await one(tables, "f1")
        assert fact.statement.startswith("ab ")
        assert fact.statement.endswith(" c")
        assert (fact.subject, fact.topics) == ("s", ("t",))
        assert fact.sources[0].event_id == "e\x00\ud83d"
        fact.model_dump_json(exclude={"sources"}).encode("utf-8")

    async def test_a_key_that_is_held_is_confirmed(self, tables: Tables) -> None:
        """The same thing in ten conversations is one fact with ten sources."""
        for number in range(10):
            change = add(f"f{number}", "the key", sources=(said(f"in Berlin, {number}", f"e{number}"),))
            [result] = await tables.facts.apply(ANNS, [change], now=NOW + number * DAY)
            assert (result.did, result.fact_id) == ("added" if number == 0 else "confirmed", "f0")
        [fact] = await tables.facts.list(ME, sources=True)
        assert [source.event_id for source in fact.sources] == [f"e{number}" for number in range(10)]

    async def test_a_key_of_any_length_is_a_key(self, tables: Tables) -> None:
        long = "ключ " * 4000
        await tables.facts.apply(ANNS, [add("f1", long), add("f2", long + "x")], now=NOW)
        found = await tables.facts.by_key(ANNS, [long, long + "x", "unknown"])
        assert {key: fact.fact_id for key, fact in found.items()} == {long: "f1", long + "x": "f2"}

    async def test_a_statement_that_comes_back_has_a_life_of_its_own(self, tables: Tables) -> None:
        """Berlin, Bonn, Berlin again: nothing of the first time is lost."""
        await tables.facts.apply(ANNS, [add("berlin", effect="1")], now=NOW)
        await tables.facts.apply(ANNS, [add("bonn", effect="2", supersedes=("berlin",), observed_at=NOW + DAY)], now=NOW + DAY)
        back = add("berlin", effect="3", supersedes=("bonn",), observed_at=NOW + 2 * DAY, created_at=NOW + 2 * DAY)
        [result] = await tables.facts.apply(ANNS, [back], now=NOW + 2 * DAY)
        assert result.did == "superseded"
        assert result.fact_id not in {"berlin", "bonn"}
        assert await ids(tables) == [result.fact_id]
        assert [fact.fact_id for fact in await tables.facts.history(ME, "berlin")] == ["berlin", "bonn", result.fact_id]

    @pytest.mark.parametrize("blank", ["", "  \n", "\x00"])
    async def test_nothing_is_no_statement(self, tables: Tables, blank: str) -> None:
        fact = add("f1").fact.model_copy(update={"statement": blank})
        with pytest.raises(InvalidInput, match="a statement and a key"):
            await tables.facts.apply(ANNS, [AddFact("e", fact, "k")], now=NOW)

    async def test_a_batch_is_all_or_nothing(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput):
            await tables.facts.apply(ANNS, [add("f1"), add("f2", owner=BOBS)], now=NOW)
        with pytest.raises(InvalidInput, match="effect key is empty"):
            await tables.facts.apply(ANNS, [add("f1"), ConfirmFact("", "f1", ())], now=NOW)
        assert await ids(tables) == []
        [result] = await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        assert not result.repeated


class TestSources:
    async def test_the_same_quote_of_the_same_event_is_there_once(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1", sources=(said("a", "e1"), said("a", "e1")))], now=NOW)
        more = (said("a", "e1"), said("b", "e1"), said("a", "e2"), said("", None), said("", None))
        [result] = await tables.facts.apply(ANNS, [ConfirmFact("c", "f1", more)], now=NOW + DAY)
        assert result.did == "confirmed"
        fact = await one(tables, "f1")
        assert [(s.event_id, s.quote) for s in fact.sources] == [("e1", "a"), ("e1", "b"), ("e2", "a"), (None, "")]

    async def test_oldest_first(self, tables: Tables) -> None:
        spoken = [said(f"quote {day}", f"e{day}", said_at=NOW - day * DAY) for day in (2, 5, 1)]
        await tables.facts.apply(ANNS, [add("f1", sources=tuple(spoken))], now=NOW)
        assert [source.event_id for source in (await one(tables, "f1")).sources] == ["e5", "e2", "e1"]

    async def test_a_fact_that_has_ended_is_not_confirmed(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1"), EndFact("x", "f1")], now=NOW)
        results = await tables.facts.apply(
            ANNS, [ConfirmFact("c", "f1", (said("q"),)), ConfirmFact("d", "unknown", (said("q"),)), EndFact("y", "f1")], now=NOW
        )
        assert [result.did for result in results] == ["nothing"] * 3
        assert (await one(tables, "f1")).sources == ()


class TestSuperseding:
    async def test_a_correction_ends_what_it_corrects(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1"), add("f2")], now=NOW)
        later = NOW + DAY
        change = add("f3", supersedes=("f1", "unknown", "f1"), observed_at=later, created_at=later)
        [result] = await tables.facts.apply(ANNS, [change], now=later)
        assert (result.did, result.superseded) == ("superseded", ("f1",))
        old = await one(tables, "f1")
        assert (old.status, old.superseded_by, old.ended_at) == (FactStatus.SUPERSEDED, "f3", later)
        assert await ids(tables) == ["f3", "f2"]

    async def test_what_has_ended_is_not_superseded_again(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1"), EndFact("x", "f1")], now=NOW)
        [result] = await tables.facts.apply(ANNS, [add("f2", supersedes=("f1",))], now=NOW)
        assert (result.did, result.superseded) == ("added", ())
        assert (await one(tables, "f1")).status is FactStatus.INVALIDATED

    async def test_one_that_is_known_supersedes_the_other(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("berlin"), add("bonn")], now=NOW)
        [result] = await tables.facts.apply(ANNS, [add("again", "key of bonn", supersedes=("berlin", "bonn"))], now=NOW)
        assert (result.did, result.fact_id, result.superseded) == ("superseded", "bonn", ("berlin",))
        assert await ids(tables) == ["bonn"]

    async def test_nothing_supersedes_itself(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        [result] = await tables.facts.apply(ANNS, [add("f2", "key of f1", supersedes=("f1",))], now=NOW)
        assert (result.did, result.fact_id, result.superseded) == ("confirmed", "f1", ())
        assert (await one(tables, "f1")).status is FactStatus.ACTIVE

    async def test_the_history_is_the_whole_chain_from_any_of_it(self, tables: Tables) -> None:
        for number in range(4):
            moment = NOW + number * DAY
            before = (f"f{number - 1}",) if number else ()
            change = add(f"f{number}", supersedes=before, observed_at=moment, created_at=moment, sources=(said(f"q{number}"),))
            await tables.facts.apply(ANNS, [change], now=moment)
        await tables.facts.apply(ANNS, [add("other")], now=NOW)
        for start in ("f0", "f2", "f3"):
            chain = await tables.facts.history(ME, start)
            assert [fact.fact_id for fact in chain] == ["f0", "f1", "f2", "f3"]
            assert [fact.sources[0].quote for fact in chain] == ["q0", "q1", "q2", "q3"]
        assert [fact.fact_id for fact in await tables.facts.history(ME, "other")] == ["other"]

    async def test_two_chains_that_meet_are_one(self, tables: Tables) -> None:
        for number, (new, old) in enumerate([("a1", ()), ("b1", ()), ("a2", ("a1",)), ("b2", ("b1",)), ("c", ("a2", "b2"))]):
            moment = NOW + number * DAY
            await tables.facts.apply(ANNS, [add(new, supersedes=old, observed_at=moment, created_at=moment)], now=moment)
        for start in ("a1", "b2", "c"):
            assert [fact.fact_id for fact in await tables.facts.history(ME, start)] == ["a1", "b1", "a2", "b2", "c"]


class TestTime:
    async def test_a_list_as_of_a_time_agrees_with_the_facts_themselves(self, tables: Tables) -> None:
        spans: list[dict[str, Any]] = [
            {},
            {"valid_from": NOW - 10 * DAY},
            {"valid_until": NOW + 10 * DAY},
            {"valid_from": NOW + 5 * DAY, "valid_until": NOW + 6 * DAY},
            {"valid_from": NOW + 6 * DAY, "valid_until": NOW + 5 * DAY},
        ]
        await tables.facts.apply(ANNS, [add(f"f{n}", **span) for n, span in enumerate(spans)], now=NOW)
        await tables.facts.apply(
            ANNS, [EndFact("x", "f0"), add("g", supersedes=("f1",), observed_at=NOW + 3 * DAY)], now=NOW + 3 * DAY
        )
        everything = await tables.facts.list(ME, statuses=tuple(FactStatus))
        for hours in range(-11 * 24, 12 * 24, 8):
            for moment in (NOW + timedelta(hours=hours), NOW + timedelta(hours=hours, microseconds=1)):
                expected = {fact.fact_id for fact in everything if fact.holds_at(moment)}
                assert set(await ids(tables, as_of=moment)) == expected

    async def test_a_reassignment_holds_from_when_it_was_said(self, tables: Tables) -> None:
        """Old conversations that are consolidated today: the past is theirs, not today's."""
        january, march = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3))
        await tables.facts.apply(ANNS, [add("berlin", observed_at=january)], now=NOW)
        await tables.facts.apply(ANNS, [add("bonn", observed_at=march, supersedes=("berlin",))], now=NOW)
        assert await ids(tables, as_of=january + DAY) == ["berlin"]
        assert await ids(tables, as_of=march) == ["bonn"]
        assert await ids(tables, as_of=NOW) == ["bonn"]

    async def test_what_is_to_come_leaves_the_present_alone(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("now")], now=NOW)
        await tables.facts.apply(ANNS, [add("then", valid_from=NOW + 9 * DAY, supersedes=("now",))], now=NOW)
        assert await ids(tables, as_of=NOW + 8 * DAY) == ["now"]
        assert await ids(tables, as_of=NOW + 9 * DAY) == ["then"]

    async def test_a_time_needs_a_zone(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="time zone"):
            await tables.facts.list(ME, as_of=NOW.replace(tzinfo=None))
        with pytest.raises(InvalidInput, match="time zone"):
            await tables.facts.apply(ANNS, [add()], now=NOW.replace(tzinfo=None))


class TestLists:
    async def test_pages_cover_everything_once_newest_first(self, tables: Tables) -> None:
        changes = [add(f"f{n:02}", created_at=NOW + timedelta(hours=n // 3)) for n in range(25)]
        await tables.facts.apply(ANNS, changes, now=NOW)
        await tables.facts.apply(SALES, [add("team", owner=SALES, created_at=NOW + timedelta(hours=4))], now=NOW)
        view = see(ANN, "sales")
        seen: list[Fact] = []
        while page := await tables.facts.list(view, limit=4, after=seen[-1].fact_id if seen else None):
            seen += page
        assert len(seen) == 26
        assert len({fact.fact_id for fact in seen}) == 26
        assert [fact.created_at for fact in seen] == sorted((fact.created_at for fact in seen), reverse=True)
        with pytest.raises(InvalidInput, match="cannot go on after"):
            await tables.facts.list(view, after="unknown")
        with pytest.raises(InvalidInput, match="at least 1"):
            await tables.facts.list(view, limit=0)

    async def test_a_walk_goes_on_behind_a_fact_that_was_forgotten(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add(f"f{n}", created_at=NOW + timedelta(hours=n // 2)) for n in range(6)], now=NOW)
        seen: list[Fact] = []
        while page := await tables.facts.list(ME, limit=2, after=Position(seen[-1].created_at, seen[-1].fact_id) if seen else None):
            seen += page
            await tables.facts.delete(ANNS, [page[-1].fact_id], now=NOW)
        assert [fact.fact_id for fact in seen] == ["f5", "f4", "f3", "f2", "f1", "f0"]

    async def test_filters(self, tables: Tables) -> None:
        changes = [
            add("f1", subject="Ann", kind=FactKind.POLICY),
            add("f2", subject="ANN  ", kind=FactKind.DECISION),
            add("f3", subject="Straße", kind=FactKind.POLICY),
        ]
        await tables.facts.apply(ANNS, changes, now=NOW)
        assert await ids(tables, kinds=[FactKind.POLICY]) == ["f3", "f1"]
        assert await ids(tables, kinds=[]) == []
        assert await ids(tables, subject="ann") == ["f2", "f1"]
        assert await ids(tables, subject="STRASSE", kinds=[FactKind.POLICY]) == ["f3"]
        assert await ids(tables, statuses=[]) == []
        assert await ids(tables, statuses=[FactStatus.SUPERSEDED]) == []

    async def test_many_ids_in_one_call(self, tables: Tables) -> None:
        names = [f"f{number}" for number in range(700)]
        await tables.facts.apply(ANNS, [add(name) for name in names], now=NOW)
        assert set(await tables.facts.get(ME, [*names, "unknown"])) == set(names)
        assert len(await tables.facts.by_key(ANNS, [f"key of {name}" for name in names])) == 700
        with pytest.raises(InvalidInput, match="1001 changes"):
            await tables.facts.apply(ANNS, [add(str(number)) for number in range(1001)], now=NOW)


class TestForgetting:
    async def test_the_text_is_gone_at_once_and_the_row_when_its_vector_is(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1", subject="Ann", sources=(said("the quote"),)), add("f2")], now=NOW)
        await tables.facts.mark_indexed([IndexMark(name, ANNS, 1, (1, 2), 2) for name in ("f1", "f2")])
        assert await tables.facts.delete(ANNS, ["f1", "unknown"], now=NOW) == 1

        assert await ids(tables, statuses=tuple(FactStatus)) == ["f2"]
        assert await tables.facts.get(ME, ["f1"], sources=True) == {}
        assert await tables.facts.history(ME, "f1") == []
        assert await tables.facts.by_key(ANNS, ["key of f1"]) == {}
        [tombstone] = await tables.facts.pending()
        assert (tombstone.document_id, tombstone.live, tombstone.text, tombstone.payload) == ("f1", False, "", {})

        assert await tables.facts.mark_indexed([IndexMark("f1", ANNS, tombstone.revision, (), 0)]) == 1
        assert await tables.facts.pending() == []
        assert [d.document_id for d in await tables.facts.documents(after=None)] == ["f2"]
        assert (await tables.terms.statistics("acme", [ANNS.key], "facts", [1])).frequencies == {1: 1}

    async def test_it_stays_deleted_through_a_reset_and_a_retry(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        await tables.facts.delete(ANNS, ["f1"], now=NOW)
        assert await tables.facts.delete(ANNS, ["f1"], now=NOW) == 0
        await tables.facts.reset_index()
        assert [(d.live, d.text) for d in await tables.facts.pending()] == [(False, "")]
        [again] = await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        assert again.repeated
        assert await ids(tables) == []

    async def test_said_again_later_it_is_a_new_fact(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        await tables.facts.delete(ANNS, ["f1"], now=NOW)
        [result] = await tables.facts.apply(ANNS, [add("f1", effect="another window")], now=NOW)
        assert (result.did, result.repeated) == ("added", False)
        assert await ids(tables) == [result.fact_id]

    async def test_the_text_is_in_no_column(self, tables: Tables, sql_url: str) -> None:
        canary = "zebra-canary-71"
        change = add("f1", canary, effect="e", subject=canary, statement=canary, topics=(canary,), sources=(said(canary),))
        await tables.facts.apply(ANNS, [change], now=NOW)
        await tables.facts.delete(ANNS, ["f1"], now=NOW)

        engine = make_engine(database_url(sql_url), pool_size=1)
        with engine.connect() as connection:
            for table in RECORD_TABLES:
                assert canary not in repr(connection.execute(select(table)).all()), table.name
        engine.dispose()


class TestIndex:
    async def test_what_is_indexed(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1", subject="Ann", topics=("home", "city"), kind=FactKind.POLICY)], now=NOW)
        [document] = await tables.facts.pending()
        assert (document.document_id, document.owner, document.revision, document.live) == ("f1", ANNS, 1, True)
        assert document.text.split() == ["Ann", "Ann", "lives", "in", "Berlin.", "home", "city"]
        assert document.payload == {"kind": "policy", "status": "active"}
        assert tables.facts.kind == "facts"

    async def test_a_row_is_pending_until_its_own_revision_is_marked(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        [first] = await tables.facts.pending(owner=ANNS)
        await tables.facts.apply(ANNS, [add("f2", supersedes=("f1",))], now=NOW)
        # The mark of the revision before counts, and leaves the row pending.
        assert await tables.facts.mark_indexed([IndexMark("f1", ANNS, first.revision, (1, 2), 3)]) == 1
        assert [(d.document_id, d.revision, d.live) for d in await tables.facts.pending()] == [("f1", 2, False), ("f2", 1, True)]
        statistics = await tables.terms.statistics("acme", [ANNS.key], "facts", [1, 2])
        assert (statistics.documents, statistics.length, statistics.frequencies) == (1, 3, {1: 1, 2: 1})

        marks = [IndexMark("f1", ANNS, 2, (), 0), IndexMark("f2", ANNS, 1, (2, 3), 5)]
        assert await tables.facts.mark_indexed(marks) == 2
        assert await tables.facts.mark_indexed([IndexMark("f1", ANNS, 1, (1, 2), 3)]) == 0  # it came late
        assert await tables.facts.pending() == []
        statistics = await tables.terms.statistics("acme", [ANNS.key], "facts", [1, 2, 3])
        assert (statistics.documents, statistics.length, statistics.frequencies) == (1, 5, {2: 1, 3: 1})
        assert [fact.fact_id for fact in await tables.facts.history(ME, "f1")] == ["f1", "f2"]

    async def test_marking_twice_counts_once(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        mark = IndexMark("f1", ANNS, 1, (1, 2), 3)
        await tables.facts.mark_indexed([mark, mark])
        await tables.facts.mark_indexed([mark, IndexMark("unknown", ANNS, 1, (9,), 1), IndexMark("f1", BOBS, 1, (9,), 1)])
        statistics = await tables.terms.statistics("acme", [ANNS.key, BOBS.key], "facts", [1, 2, 9])
        assert (statistics.documents, statistics.length, statistics.frequencies) == (1, 3, {1: 1, 2: 1})

    async def test_confirming_changes_nothing_for_the_index(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        await tables.facts.mark_indexed([IndexMark("f1", ANNS, 1, (1,), 1)])
        await tables.facts.apply(ANNS, [ConfirmFact("c", "f1", (said("q"),))], now=NOW)
        assert await tables.facts.pending() == []

    async def test_documents_of_everybody_page_by_page(self, tables: Tables) -> None:
        owners = [ANNS, BOBS, SALES, Owner.user(Scope.of("globex", "ann"))]
        for owner in owners:
            await tables.facts.apply(owner, [add(f"f{n}", owner=owner) for n in range(3)], now=NOW)
        seen: list[tuple[str, str]] = []
        while page := await tables.facts.documents(after=seen[-1] if seen else None, limit=5):
            seen += [(document.owner.path, document.document_id) for document in page]
        assert sorted(seen) == sorted((owner.path, f"f{n}") for owner in owners for n in range(3))

    async def test_a_reset_of_one_tenant(self, tables: Tables) -> None:
        globex = Owner.user(Scope.of("globex", "ann"))
        for owner in (ANNS, SALES, globex):
            await tables.facts.apply(owner, [add("f1", owner=owner)], now=NOW)
            await tables.facts.mark_indexed([IndexMark("f1", owner, 1, (1,), 4)])
        assert await tables.facts.pending() == []
        assert await tables.facts.reset_index("acme") == 2
        assert {document.owner for document in await tables.facts.pending()} == {ANNS, SALES}
        assert (await tables.terms.statistics("acme", [ANNS.key, SALES.key], "facts", [1])).documents == 0
        assert (await tables.terms.statistics("globex", [globex.key], "facts", [1])).documents == 1
        assert await tables.facts.mark_indexed([IndexMark("f1", ANNS, 1, (1,), 4)]) == 1
        assert (await tables.terms.statistics("acme", [ANNS.key], "facts", [1])).frequencies == {1: 1}
        assert await tables.facts.reset_index() == 3
        assert (await tables.terms.statistics("globex", [globex.key], "facts", [1])).length == 0


class TestEffects:
    async def test_a_retry_after_a_lost_answer_gives_the_first_result(self, tables: Tables) -> None:
        changes: list[FactChange] = [add("f1", sources=(said("q"),)), add("f2", supersedes=("f1",)), EndFact("x", "unknown")]
        with pytest.raises(StoreUnavailable):
            await losing(tables.facts).apply(ANNS, changes, now=NOW)
        results = await tables.facts.apply(ANNS, changes, now=NOW + DAY)
        assert [(r.effect, r.did, r.fact_id, r.superseded, r.repeated) for r in results] == [
            ("add f1", "added", "f1", (), True),
            ("add f2", "superseded", "f2", ("f1",), True),
            ("x", "nothing", "unknown", (), True),
        ]
        assert await ids(tables) == ["f2"]
        assert (await one(tables, "f1")).ended_at == NOW

    async def test_the_same_effect_twice_in_one_call(self, tables: Tables) -> None:
        first, second = await tables.facts.apply(ANNS, [add("f1"), add("f2", effect="add f1")], now=NOW)
        assert (first.fact_id, first.repeated, second.fact_id, second.repeated) == ("f1", False, "f1", True)
        assert await ids(tables) == ["f1"]

    async def test_any_text_is_an_effect_key(self, tables: Tables) -> None:
        keys = ["a/b", "nul\x00", "\ud83d", "x" * 4000, "é" * 4000]
        for repeated in (False, True):
            for number, key in enumerate(keys):
                [result] = await tables.facts.apply(ANNS, [add(f"f{number}", effect=key)], now=NOW)
                assert (result.effect, result.repeated) == (key, repeated)


FACT_IDS = st.sampled_from(["a", "b", "c", "d"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), FACT_IDS, FACT_IDS, st.lists(FACT_IDS, max_size=2)),
        st.tuples(st.just("confirm"), FACT_IDS, st.integers(0, 2)),
        st.tuples(st.just("end"), FACT_IDS),
    ),
    min_size=1,
    max_size=8,
)
_numbers = itertools.count()


def made(described: Sequence[tuple[Any, ...]], owner: Owner) -> list[FactChange]:
    changes: list[FactChange] = []
    for number, (what, *rest) in enumerate(described):
        moment = NOW + number * timedelta(minutes=1)
        if what == "add":
            fact = {"owner": owner, "observed_at": moment, "created_at": moment, "sources": (said(f"q{number}"),)}
            changes.append(add(rest[0], f"key {rest[1]}", effect=str(number), supersedes=rest[2], **fact))
        elif what == "confirm":
            changes.append(ConfirmFact(str(number), rest[0], (said(f"c{rest[1]}"),)))
        else:
            changes.append(EndFact(str(number), rest[0]))
    return changes


class TestAnyHistory:
    @given(described=CHANGES, data=st.data())
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    async def test_repeats_in_any_order_change_nothing(
        self, tables: Tables, described: Sequence[tuple[Any, ...]], data: st.DataObject
    ) -> None:
        """Once each, in order; again in batches with earlier ones repeated and some answers lost: the same in the end."""
        number = next(_numbers)
        plain, retried = (Owner.user(Scope.of(f"{name}{number}", "ann")) for name in ("plain", "retried"))
        changes = made(described, plain)
        expected = [(await tables.facts.apply(plain, [change], now=NOW))[0] for change in changes]

        done: dict[str, Any] = {}
        for place in range(len(changes)):
            again = data.draw(st.lists(st.integers(0, place), max_size=3))
            batch = [changes[at] for at in (*again, place)] + [changes[at] for at in again]
            if data.draw(st.booleans()):
                with pytest.raises(StoreUnavailable):
                    await losing(tables.facts).apply(retried, batch, now=NOW)
            for result in await tables.facts.apply(retried, batch, now=NOW):
                first = done.setdefault(result.effect, result)
                assert (result.did, result.fact_id, result.superseded) == (first.did, first.fact_id, first.superseded)
        assert [(r.did, r.fact_id, r.superseded) for r in expected] == [
            (done[r.effect].did, done[r.effect].fact_id, done[r.effect].superseded) for r in expected
        ]
        ends: list[Any] = []
        for owner in (plain, retried):
            view = see(Scope(owner.tenant, "ann"))
            facts = await tables.facts.list(view, statuses=tuple(FactStatus), sources=True)
            ends.append(facts)
            by_id = {fact.fact_id: fact for fact in facts}
            for fact in facts:
                assert (fact.status is FactStatus.SUPERSEDED) == (fact.superseded_by is not None)
                assert fact.superseded_by is None or fact.superseded_by in by_id
                assert (fact.status is FactStatus.ACTIVE) == (fact.ended_at is None)
            active = await tables.facts.by_key(owner, [f"key {name}" for name in "abcd"])
            assert len(active) == sum(fact.status is FactStatus.ACTIVE for fact in facts)
        assert ends[0] == ends[1]


class TestTwoWriters:
    async def test_the_same_fact_from_many_writers_is_one(self, sql_url: str) -> None:
        """Two processes' worth of connections at once."""
        both = [build_tables(sql_url), build_tables(sql_url)]
        try:
            changes = [add(f"f{n}", "the key", effect=f"e{n}", sources=(said(f"q{n}", f"event {n}"),)) for n in range(12)]
            results = await asyncio.gather(
                *(both[n % 2].facts.apply(ANNS, [change], now=NOW) for n, change in enumerate([*changes, *changes]))
            )
            flat = [result for [result] in results]
            assert sorted(r.did for r in flat if not r.repeated) == ["added"] + ["confirmed"] * 11
            assert len({r.fact_id for r in flat}) == 1
            [fact] = await both[0].facts.list(ME, sources=True)
            assert {source.quote for source in fact.sources} == {f"q{n}" for n in range(12)}
        finally:
            for made_tables in both:
                await made_tables.aclose()

    async def test_two_corrections_of_one_fact_at_once(self, sql_url: str) -> None:
        both = [build_tables(sql_url), build_tables(sql_url)]
        try:
            await both[0].facts.apply(ANNS, [add("old")], now=NOW)
            results = await asyncio.gather(
                *(both[n % 2].facts.apply(ANNS, [add(f"new{n}", supersedes=("old",))], now=NOW) for n in range(6))
            )
            assert sorted(result.did for [result] in results) == ["added"] * 5 + ["superseded"]
            [winner] = [result.fact_id for [result] in results if result.did == "superseded"]
            old = (await both[1].facts.get(ME, ["old"]))["old"]
            assert old.superseded_by == winner
        finally:
            for made_tables in both:
                await made_tables.aclose()

    async def test_writing_and_indexing_at_once_lose_no_count(self, sql_url: str) -> None:
        both = [build_tables(sql_url), build_tables(sql_url)]
        try:

            async def write() -> None:
                for n in range(15):
                    before = (f"f{n - 1}",) if n % 3 == 1 else ()
                    await both[0].facts.apply(ANNS, [add(f"f{n}", supersedes=before)], now=NOW)

            async def index(tables: Tables) -> None:
                for _ in range(12):
                    documents = await tables.facts.pending(owner=ANNS)
                    marks = [IndexMark(d.document_id, ANNS, d.revision, (1,) if d.live else (), 2 * d.live) for d in documents]
                    await tables.facts.mark_indexed(marks)

            await asyncio.gather(write(), index(both[0]), index(both[1]))
            await index(both[0])
            active = await both[0].facts.list(ME)
            statistics = await both[0].terms.statistics("acme", [ANNS.key], "facts", [1])
            assert (statistics.documents, statistics.length) == (len(active), 2 * len(active))
            assert statistics.frequencies == {1: len(active)}
        finally:
            for made_tables in both:
                await made_tables.aclose()
