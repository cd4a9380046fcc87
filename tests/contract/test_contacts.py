"""Contacts on SQLite and on PostgreSQL: create or fill, update, merge, find, and the history of every field."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from memory.model.contact import Contact
from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.ports import ContactChangeRequest, ContactResult, CreateContact, IndexMark, MergeContacts, UpdateContact
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.engine import database_url, make_engine
from memory.stores.tables.provenance import sources_of
from memory.stores.tables.rows_records import CONTACTS
from memory.stores.tables.scoping import Records
from tests.support.records import ANN, ANNS, BOB, NOW, create_task, losing, said

DAY = timedelta(days=1)


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


_effects = itertools.count()


def create(*aliases: str, effect: str | None = None, sources: Any = (), **fields: Any) -> CreateContact:
    return CreateContact(effect or f"effect {next(_effects)}", fields, aliases, sources)


def change(contact_id: int, *, effect: str | None = None, **fields: Any) -> UpdateContact:
    return UpdateContact(effect or f"effect {next(_effects)}", contact_id, fields)


def merge(keep: int, drop: int, *, effect: str | None = None, sources: Any = ()) -> MergeContacts:
    return MergeContacts(effect or f"effect {next(_effects)}", keep, drop, sources)


async def do(tables: Tables, *changes: ContactChangeRequest, origin: str = "window:w1", now: Any = NOW) -> list[ContactResult]:
    return list(await tables.contacts.apply(ANN, changes, origin=origin, now=now))


async def contact(tables: Tables, contact_id: int) -> Contact:
    return (await tables.contacts.get(ANN, [contact_id]))[contact_id]


async def history(tables: Tables, contact_id: int) -> list[tuple[str, str | None, str | None]]:
    return [(entry.field, entry.before, entry.after) for entry in await tables.contacts.history(ANN, contact_id)]


class TestSystemContacts:
    @pytest.mark.parametrize("first", ["get", "by_alias", "list", "history", "apply"])
    async def test_the_assistant_and_the_user_are_there_from_the_first_use_on(self, tables: Tables, first: str) -> None:
        match first:
            case "get":
                assert set(await tables.contacts.get(ANN, [0, 1, 2])) == {0, 1}
            case "by_alias":
                assert set(await tables.contacts.by_alias(ANN, ["user", "assistant", "nobody"])) == {"user", "assistant"}
            case "history":
                assert await tables.contacts.history(ANN, 1) == []
            case "apply":
                assert (await do(tables, create("bo-1")))[0].contact_id == 2
            case _:
                assert len(await tables.contacts.list(ANN)) == 2
        found = await tables.contacts.get(ANN, [0, 1])
        assert [(c.contact_id, c.is_system, c.aliases) for c in found.values()] == [(0, True, ("assistant",)), (1, True, ("user",))]

    async def test_many_first_uses_at_once(self, tables: Tables) -> None:
        await asyncio.gather(*(tables.contacts.list(ANN) for _ in range(10)), *(do(tables, create(f"s{n}")) for n in range(5)))
        assert [c.contact_id for c in await tables.contacts.list(ANN)] == list(range(7))

    async def test_they_are_updated_and_never_merged_away(self, tables: Tables) -> None:
        await do(tables, create("bo-1", first_name="Bo"))
        assert (await do(tables, change(1, bio="You work with Ann.")))[0].did == "updated"
        for keep, drop in ((2, 1), (2, 0), (0, 1), (1, 0)):
            [result] = await do(tables, merge(keep, drop))
            assert (result.did, result.conflict) == ("nothing", "system")
        assert len(await tables.contacts.list(ANN)) == 3


class TestCreating:
    async def test_a_contact_comes_back_as_it_was(self, tables: Tables) -> None:
        fields = {
            "first_name": " Ada ",
            "surname": "Lovelace",
            "email_address": "Ada@Example.COM",
            "phone_number": "+44 (0)20 7946-0000",
            "whatsapp_number": "+44 20 7946 0001",
            "timezone": "europe/london",
            "job_title": "Analyst",
            "bio": "She wrote the first program.\n\nSie schrieb das erste Programm.",
            "rolling_summary": "她最近很忙 🎉",
            "response_policy": "You answer in English.",
            "should_respond": False,
        }
        [result] = await do(tables, create("ada@mail", "ada\x00\ud83d", **fields))
        assert (result.contact_id, result.did, set(result.changed)) == (2, "created", set(fields))
        found = await contact(tables, 2)
        assert found.model_dump() | {"aliases": set(found.aliases)} == {
            **fields,
            "contact_id": 2,
            "first_name": "Ada",
            "email_address": "Ada@example.com",
            "phone_number": "+442079460000",
            "whatsapp_number": "+442079460001",
            "timezone": "Europe/London",
            "is_system": False,
            "aliases": {"ada@mail", "ada\x00\ud83d"},
            "merged_into": None,
            "created_at": NOW,
            "updated_at": NOW,
        }
        assert found.name == "Ada Lovelace"

    async def test_one_that_is_known_by_an_alias_gets_what_it_does_not_have_yet(self, tables: Tables) -> None:
        await do(tables, create("bo-1"))
        [result] = await do(tables, create("bo-1", "bo-2", first_name="Bo", bio="Likes tea."))
        assert (result.contact_id, result.did, result.changed) == (2, "updated", ("first_name", "bio"))
        [result] = await do(tables, create("bo-2", first_name="Robert", surname="Smith", should_respond=False))
        assert (result.contact_id, result.changed) == (2, ("surname",))
        found = await contact(tables, 2)
        assert (found.name, found.should_respond, set(found.aliases)) == ("Bo Smith", True, {"bo-1", "bo-2"})
        [result] = await do(tables, create("bo-1", first_name="Robert"))
        assert (result.did, result.changed) == ("nothing", ())

    @pytest.mark.parametrize(
        ("field", "first", "second"),
        [
            ("email_address", "Bo@example.com", "bo@EXAMPLE.com"),
            ("phone_number", "+49 151 1", "+49-151-1"),
            ("whatsapp_number", "01511", "01511"),
        ],
    )
    async def test_or_by_a_unique_field(self, tables: Tables, field: str, first: str, second: str) -> None:
        await do(tables, create(**{field: first}))
        [result] = await do(tables, create("bo-9", surname="Smith", **{field: second}))
        assert (result.contact_id, result.did, result.changed) == (2, "updated", ("surname",))
        assert (await contact(tables, 2)).aliases == ("bo-9",)
        assert len(await tables.contacts.list(ANN)) == 3

    async def test_an_alias_and_an_address_of_two_people_are_a_conflict(self, tables: Tables) -> None:
        await do(tables, create("bo-1"), create(email_address="eve@example.com"))
        [result] = await do(tables, create("bo-1", "bo-2", first_name="Bo", email_address="eve@example.com"))
        assert (result.contact_id, result.did, result.conflict) == (2, "nothing", "email_address")
        found = await contact(tables, 2)
        assert (found.first_name, found.aliases) == (None, ("bo-1",))

    async def test_an_alias_stays_with_whom_it_belongs_to(self, tables: Tables) -> None:
        await do(tables, create("a"), create("b"), create("a", "b", first_name="Bo"))
        assert {sender: c.contact_id for sender, c in (await tables.contacts.by_alias(ANN, ["a", "b"])).items()} == {"a": 2, "b": 3}

    async def test_the_rules_are_kept_and_a_call_is_all_or_nothing(self, tables: Tables) -> None:
        for wrong in ({"first_name": "<b>"}, {"email_address": "nope"}, {"is_system": True}, {"bio": "word " * 501}, {"shoe": "x"}):
            for bad in (create(**wrong), change(1, **wrong)):
                with pytest.raises(InvalidInput) as caught:
                    await do(tables, create("bo-1"), bad)
                assert "nope" not in str(caught.value)
        assert len(await tables.contacts.list(ANN)) == 2


class TestUpdating:
    async def test_only_what_changes_is_written(self, tables: Tables) -> None:
        await do(tables, create(first_name="Bo", bio="old"))
        [result] = await do(tables, change(2, first_name="Bo", bio="new", job_title="Baker"), now=NOW + DAY)
        assert (result.did, result.changed) == ("updated", ("job_title", "bio"))
        assert (await contact(tables, 2)).updated_at == NOW + DAY
        [result] = await do(tables, change(2, bio="new"), now=NOW + 2 * DAY)
        assert (result.did, result.changed) == ("nothing", ())
        assert (await contact(tables, 2)).updated_at == NOW + DAY

    async def test_a_field_can_be_emptied(self, tables: Tables) -> None:
        await do(tables, create(email_address="bo@example.com", bio="old"))
        await do(tables, change(2, email_address=None, bio=""))
        found = await contact(tables, 2)
        assert (found.email_address, found.bio) == (None, None)
        [result] = await do(tables, create("eve", email_address="bo@example.com"))
        assert (result.contact_id, result.did) == (3, "created")

    async def test_a_unique_field_of_somebody_else_is_a_conflict(self, tables: Tables) -> None:
        await do(tables, create(email_address="bo@example.com"), create("eve"))
        [result] = await do(tables, change(3, first_name="Eve", email_address="BO@example.com"))
        assert (result.did, result.conflict, result.changed) == ("nothing", "email_address", ())
        assert (await contact(tables, 3)).first_name is None
        [result] = await do(tables, change(2, email_address="BO@example.com"))
        assert (result.did, result.conflict) == ("updated", None)

    @pytest.mark.parametrize("unknown", [7, -1, 2**40])
    async def test_somebody_who_is_not_there(self, tables: Tables, unknown: int) -> None:
        results = await do(tables, change(unknown, bio="x"), merge(1, unknown), merge(unknown, 1))
        assert [(r.did, r.conflict) for r in results] == [("nothing", "unknown")] * 3
        assert await tables.contacts.get(ANN, [unknown]) == {}
        assert await tables.contacts.history(ANN, unknown) == []


class TestHistory:
    async def test_every_change_of_every_field_oldest_first(self, tables: Tables) -> None:
        await do(tables, create("bo-1", first_name="Bo"), origin="window:w1")
        await do(tables, change(2, bio="first", should_respond=False), origin="manual", now=NOW + DAY)
        await do(tables, change(2, bio="second"), origin="window:w2", now=NOW + 2 * DAY)
        entries = await tables.contacts.history(ANN, 2)
        assert [(e.contact_id, e.field, e.before, e.after, e.origin, e.at) for e in entries] == [
            (2, "first_name", None, "Bo", "window:w1", NOW),
            (2, "bio", None, "first", "manual", NOW + DAY),
            (2, "should_respond", "true", "false", "manual", NOW + DAY),
            (2, "bio", "first", "second", "window:w2", NOW + 2 * DAY),
        ]
        assert [e.after for e in await tables.contacts.history(ANN, 2, limit=2)] == ["false", "second"]

    async def test_nothing_written_is_nothing_noted(self, tables: Tables) -> None:
        await do(tables, create(email_address="bo@example.com"), create("eve"))
        await do(tables, change(3, email_address="bo@example.com", bio="x"), merge(3, 1), change(9, bio="x"))
        assert await history(tables, 3) == []


class TestMerging:
    async def two(self, tables: Tables) -> None:
        await do(
            tables,
            create("bo-1", first_name="Bo", bio="The kept bio.", email_address="bo@example.com", sources=(said("a", "e1"),)),
            create(
                "robert-1",
                first_name="Robert",
                surname="Smith",
                bio="The other bio.",
                email_address="robert@example.com",
                phone_number="+49151",
                sources=(said("a", "e1"), said("b", "e2")),
            ),
        )

    async def test_the_kept_one_is_filled_and_everything_leads_to_it(self, tables: Tables) -> None:
        await self.two(tables)
        await tables.tasks.apply(ANN, [create_task("t1", contact_id=3), create_task("t2", contact_id=2)], now=NOW)
        [result] = await do(tables, merge(2, 3, sources=(said("Bo is Robert", "e3"),)), now=NOW + DAY)
        assert (result.contact_id, result.did, set(result.changed)) == (2, "merged", {"surname", "phone_number"})

        kept = await contact(tables, 2)
        assert (kept.name, kept.bio, kept.email_address, kept.phone_number) == (
            "Bo Smith",
            "The kept bio.",
            "bo@example.com",
            "+49151",
        )
        senders = ["bo-1", "robert-1", "2", "3", "bo@example.com", "Robert@example.com", "+49 151"]
        found = await tables.contacts.by_alias(ANN, senders)
        assert {sender: c.contact_id for sender, c in found.items()} == dict.fromkeys(senders, 2)
        assert (await tables.contacts.get(ANN, [3]))[3] == kept
        assert [c.contact_id for c in await tables.contacts.list(ANN)] == [0, 1, 2]
        assert [task.contact_id for task in await tables.tasks.list(ANN)] == [2, 2]
        assert len(await tables.tasks.list(ANN, contact_id=3)) == 2

    async def test_both_histories_are_kept(self, tables: Tables) -> None:
        await self.two(tables)
        await do(tables, merge(2, 3), now=NOW + DAY)
        entries = await tables.contacts.history(ANN, 2)
        assert await tables.contacts.history(ANN, 3) == entries
        texts = {(e.contact_id, e.field, e.after) for e in entries}
        assert {(2, "bio", "The kept bio."), (3, "bio", "The other bio."), (3, "email_address", "robert@example.com")} <= texts
        merged = [(e.contact_id, e.field, e.before, e.after) for e in entries if e.origin == "merge:3"]
        assert (3, "merged_into", None, "2") in merged
        assert (2, "surname", None, "Smith") in merged
        assert (3, "email_address", "robert@example.com", None) in merged

    async def test_provenance_moves_without_repeating_itself(self, tables: Tables) -> None:
        await self.two(tables)
        await do(tables, merge(2, 3, sources=(said("c", "e3"),)))
        cited = await tables.database.read(lambda c: sources_of(Records(c, ANNS), "contact", ["2", "3"]))
        assert {item: sorted(s.quote for s in sources) for item, sources in cited.items()} == {(ANNS.key, "2"): ["a", "b", "c"]}

    async def test_unique_fields_are_free_again(self, tables: Tables) -> None:
        await self.two(tables)
        await do(tables, merge(2, 3))
        [result] = await do(tables, change(2, email_address="robert@example.com"))
        assert (result.did, result.conflict) == ("updated", None)

    async def test_chains_and_circles_of_merges_end(self, tables: Tables) -> None:
        await do(tables, create("a", bio="A"), create("b"), create("c"), create("d"))
        results = await do(tables, merge(3, 2), merge(4, 3), merge(5, 4), merge(2, 5), merge(5, 2))
        assert [(r.contact_id, r.did) for r in results] == [
            (3, "merged"),
            (4, "merged"),
            (5, "merged"),
            (5, "nothing"),
            (5, "nothing"),
        ]
        for old in (2, 3, 4, 5):
            assert (await contact(tables, old)).contact_id == 5
        assert (await contact(tables, 2)).bio == "A"
        assert set((await contact(tables, 2)).aliases) == {"a", "b", "c", "d"}
        assert (await do(tables, change(2, job_title="Baker")))[0].contact_id == 5

    async def test_who_is_not_to_be_answered_stays_so(self, tables: Tables) -> None:
        await do(tables, create("a"), create("b", should_respond=False), create("c", should_respond=False))
        await do(tables, merge(2, 3), merge(1, 4))
        assert not (await contact(tables, 2)).should_respond
        assert (await contact(tables, 1)).should_respond

    async def test_into_the_user(self, tables: Tables) -> None:
        await do(tables, create("ann@mail", first_name="Ann"))
        [result] = await do(tables, merge(1, 2))
        assert (result.contact_id, result.did) == (1, "merged")
        assert (await tables.contacts.by_alias(ANN, ["ann@mail"]))["ann@mail"].contact_id == 1
        assert (await contact(tables, 1)).is_system


class TestFinding:
    async def test_by_whatever_names_a_sender(self, tables: Tables) -> None:
        await do(
            tables,
            create("bo-1", email_address="Bo@Example.com", phone_number="+49 151 234567", whatsapp_number="0049151"),
            create("3", first_name="Odd"),
        )
        expected = {
            "user": 1,
            "assistant": 0,
            "bo-1": 2,
            "bo@example.COM": 2,
            "mailto:bo@example.com": 2,
            "+49151234567": 2,
            "+49 (151) 234-567": 2,
            "0049151": 2,
            "0": 0,
            "2": 2,
            "3": 3,
        }
        wanted = [*expected, "nobody", "4", "03", "-1", "9" * 30, "", "a/b\x00\ud83d", "x" * 4000]
        assert {sender: c.contact_id for sender, c in (await tables.contacts.by_alias(ANN, wanted)).items()} == expected

    async def test_an_alias_goes_before_an_id(self, tables: Tables) -> None:
        await do(tables, create("1", first_name="Bo"))
        assert (await tables.contacts.by_alias(ANN, ["1"]))["1"].contact_id == 2

    async def test_filters(self, tables: Tables) -> None:
        await do(
            tables,
            create(first_name="Bo", timezone="Europe/Berlin", email_address="bo@example.com"),
            create(first_name="Bo", should_respond=False),
            create(surname="Smith"),
        )

        async def ids(**where: Any) -> list[int]:
            return [c.contact_id for c in await tables.contacts.list(ANN, where=where)]

        assert await ids(first_name="Bo") == [2, 3]
        assert await ids(first_name=" Bo ", timezone="europe/berlin") == [2]
        assert await ids(email_address="BO@example.com") == [2]
        assert await ids(should_respond=False) == [3]
        assert await ids(is_system=True) == [0, 1]
        assert await ids(first_name=None, is_system=False) == [4]
        assert await ids(contact_id=3) == [3]
        for wrong in ({"shoe": 1}, {"contact_id": "3"}, {"is_system": "yes"}, {"merged_into": 1}, {"tenant": "acme"}):
            with pytest.raises(InvalidInput):
                await tables.contacts.list(ANN, where=wrong)

    async def test_pages(self, tables: Tables) -> None:
        await do(tables, *(create(f"s{n}") for n in range(10)), merge(4, 5))
        seen: list[int] = []
        while page := await tables.contacts.list(ANN, limit=4, after=seen[-1] if seen else None):
            seen += [c.contact_id for c in page]
        assert seen == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
        assert set(await tables.contacts.get(ANN, range(-1, 600))) == set(range(12))


class TestIndex:
    async def test_what_is_indexed_is_what_a_person_would_search(self, tables: Tables) -> None:
        await do(
            tables,
            create(
                "bo-1",
                first_name="Bo",
                surname="Smith",
                job_title="Baker",
                bio="Likes tea.",
                rolling_summary="Wants bread.",
                response_policy="Be kind.",
                email_address="bo@example.com",
                phone_number="+49151",
            ),
        )
        documents = {d.document_id: d for d in await tables.contacts.pending(owner=ANNS)}
        assert documents["2"].live
        assert documents["2"].text.split("\n") == ["Bo Smith", "Baker", "Likes tea.", "Wants bread.", "Be kind."]
        assert documents["2"].payload == {"contact_id": 2}
        assert not documents["0"].live  # there is nothing to find it by
        assert tables.contacts.kind == "contacts"

    async def test_what_is_not_searched_by_leaves_the_index_alone(self, tables: Tables) -> None:
        await do(tables, create("bo-1", first_name="Bo"))
        await self.index_all(tables)
        await do(tables, change(2, email_address="bo@example.com", should_respond=False, timezone="Europe/Berlin"))
        assert await tables.contacts.pending() == []
        await do(tables, change(2, bio="Likes tea."))
        assert [(d.document_id, d.revision) for d in await tables.contacts.pending()] == [("2", 2)]

    async def test_who_is_merged_away_leaves_the_index_and_keeps_the_row(self, tables: Tables) -> None:
        await do(tables, create("a", first_name="Bo"), create("b", first_name="Robert"))
        await self.index_all(tables)
        await do(tables, merge(2, 3))
        assert [(d.document_id, d.live, d.text) for d in await tables.contacts.pending()] == [("3", False, "")]
        await self.index_all(tables)
        assert (await tables.terms.statistics("acme", [ANNS.key], "contacts", [1])).frequencies == {1: 1}
        assert (await contact(tables, 3)).contact_id == 2
        assert [d.document_id for d in await tables.contacts.documents(after=(ANNS.path, "1"))] == ["2", "3"]

    async def index_all(self, tables: Tables) -> None:
        marks = [
            IndexMark(d.document_id, d.owner, d.revision, (1,) if d.live else (), int(d.live))
            for d in await tables.contacts.pending()
        ]
        await tables.contacts.mark_indexed(marks)


SENDERS = st.sampled_from(["a", "b", "c"])
EMAILS = st.sampled_from(["a@example.com", "b@example.com", None])
IDS = st.integers(0, 5)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.lists(SENDERS, max_size=2), EMAILS, st.sampled_from(["Bo", None])),
        st.tuples(st.just("update"), IDS, EMAILS, st.sampled_from(["Eve", None])),
        st.tuples(st.just("merge"), IDS, IDS),
    ),
    min_size=1,
    max_size=8,
)
_numbers = itertools.count()


def made(described: Sequence[tuple[Any, ...]]) -> list[ContactChangeRequest]:
    changes: list[ContactChangeRequest] = []
    for number, (what, *rest) in enumerate(described):
        if what == "create":
            changes.append(CreateContact(str(number), {"email_address": rest[1], "first_name": rest[2]}, tuple(rest[0])))
        elif what == "update":
            changes.append(UpdateContact(str(number), rest[0], {"email_address": rest[1], "first_name": rest[2]}))
        else:
            changes.append(MergeContacts(str(number), rest[0], rest[1]))
    return changes


class TestEffects:
    async def test_a_retry_after_a_lost_answer_gives_the_first_result(self, tables: Tables) -> None:
        changes = [create("bo-1", first_name="Bo"), create("robert-1"), merge(2, 3), change(7, bio="x")]
        with pytest.raises(StoreUnavailable):
            await losing(tables.contacts).apply(ANN, changes, origin="window:w1", now=NOW)
        before = await tables.contacts.history(ANN, 2)
        results = await do(tables, *changes, now=NOW + DAY)
        assert [(r.contact_id, r.did, r.conflict, r.repeated) for r in results] == [
            (2, "created", None, True),
            (3, "created", None, True),
            (2, "merged", None, True),
            (7, "nothing", "unknown", True),
        ]
        assert results[0].changed == ("first_name",)
        assert await tables.contacts.history(ANN, 2) == before
        assert [c.contact_id for c in await tables.contacts.list(ANN)] == [0, 1, 2]

    @given(described=CHANGES, data=st.data())
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    async def test_repeats_in_any_order_change_nothing(
        self, tables: Tables, described: Sequence[tuple[Any, ...]], data: st.DataObject
    ) -> None:
        number = next(_numbers)
        plain, retried = (Scope.of(f"{name}{number}", "ann") for name in ("plain", "retried"))
        changes = made(described)
        expected = [(await tables.contacts.apply(plain, [one], origin="manual", now=NOW))[0] for one in changes]
        first: dict[str, Any] = {}
        for place in range(len(changes)):
            again = data.draw(st.lists(st.integers(0, place), max_size=3))
            batch = [changes[at] for at in (*again, place)] + [changes[at] for at in again]
            if data.draw(st.booleans()):
                with pytest.raises(StoreUnavailable):
                    await losing(tables.contacts).apply(retried, batch, origin="manual", now=NOW)
            for result in await tables.contacts.apply(retried, batch, origin="manual", now=NOW):
                told = (result.contact_id, result.did, result.changed, result.conflict)
                assert first.setdefault(result.effect, told) == told
        assert [(r.contact_id, r.did, r.changed, r.conflict) for r in expected] == list(first.values())

        ends: list[Any] = []
        for scope in (plain, retried):
            contacts = await tables.contacts.list(scope)
            emails = [c.email_address for c in contacts if c.email_address]
            assert len(emails) == len(set(emails))
            assert {c.contact_id for c in contacts} >= {0, 1}
            every = await tables.contacts.get(scope, range(12))
            ends.append((contacts, every, [await tables.contacts.history(scope, one) for one in every]))
        assert ends[0] == ends[1]


class TestTwoWriters:
    async def test_the_same_person_from_many_writers_is_one(self, sql_url: str) -> None:
        both = [build_tables(sql_url), build_tables(sql_url)]
        try:
            results = await asyncio.gather(
                *(
                    both[n % 2].contacts.apply(
                        ANN, [create(f"alias {n}", email_address="bo@example.com"), create(f"own {n}")], origin="manual", now=NOW
                    )
                    for n in range(10)
                )
            )
            assert {same.contact_id for same, _ in results} == {results[0][0].contact_id}
            assert len({own.contact_id for _, own in results}) == 10
            contacts = await both[0].contacts.list(ANN)
            assert [c.contact_id for c in contacts] == list(range(13))
            [bo] = [c for c in contacts if c.email_address]
            assert len(bo.aliases) == 10
        finally:
            for made_tables in both:
                await made_tables.aclose()

    async def test_merging_both_ways_at_once_keeps_one(self, sql_url: str) -> None:
        both = [build_tables(sql_url), build_tables(sql_url)]
        try:
            for _ in range(5):
                [a, b] = await both[0].contacts.apply(ANN, [create(), create()], origin="manual", now=NOW)
                await asyncio.gather(
                    both[0].contacts.apply(ANN, [merge(a.contact_id, b.contact_id)], origin="manual", now=NOW),
                    both[1].contacts.apply(ANN, [merge(b.contact_id, a.contact_id)], origin="manual", now=NOW),
                )
                found = await both[0].contacts.get(ANN, [a.contact_id, b.contact_id])
                assert found[a.contact_id] == found[b.contact_id]
        finally:
            for made_tables in both:
                await made_tables.aclose()


async def test_the_database_itself_holds_unique_fields_apart(tables: Tables, sql_url: str) -> None:
    """The indexes, should the code ever be wrong."""
    await do(tables, create(email_address="bo@example.com"), create("eve"))
    await tables.contacts.apply(BOB, [create(email_address="bo@example.com")], origin="manual", now=NOW)

    def same(records: Records, column: str, value: str) -> int:
        return records.update(CONTACTS, CONTACTS.c.contact_id == 3, values={column: value})

    with pytest.raises(InvalidInput, match="refused a value"):
        await tables.database.write(lambda c: same(Records(c, ANNS), "email_key", "bo@example.com"))
    engine = make_engine(database_url(sql_url), pool_size=1)
    with engine.connect() as connection:
        keys = connection.execute(select(CONTACTS.c.owner_key, CONTACTS.c.email_key).where(CONTACTS.c.email_key.is_not(None))).all()
    engine.dispose()
    assert sorted(tuple(row) for row in keys) == [(ANNS.key, "bo@example.com"), (Owner.user(BOB).key, "bo@example.com")]
