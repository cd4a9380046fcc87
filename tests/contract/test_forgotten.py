"""What a user has forgotten is gone at once, and does not come back by a rerun: facts, contacts and tasks, on both databases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from memory.categories.spec import Applied
from memory.model.category import Category
from memory.model.contact import Contact
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.task import TaskStatus
from memory.ports import CreateContact, IndexMark, MergeContacts, UpdateContact, UpdateTask
from memory.stores.tables import Tables, build_tables
from tests.support.extracted import open_memory
from tests.support.records import ANN, ANNS, BOB, BOBS, NOW, add, create_task, said, see

DAY = timedelta(days=1)
CANARY = "zebrafink"


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


async def everything(tables: Tables) -> str:
    """All that is in the database, as text."""

    def work(connection: Any) -> str:
        names = [name for name in tables.database.engine.dialect.get_table_names(connection) if name != "alembic_version"]
        # Plain SQL on these tables is refused but for a test that asks the driver.
        driver = connection.connection.dbapi_connection
        cursor = driver.cursor()
        found: list[Any] = []
        for name in names:
            cursor.execute(f"SELECT * FROM {name}")
            found += cursor.fetchall()
        return json.dumps(found, default=str, ensure_ascii=False)

    return await tables.database.read(work)


class TestFacts:
    SOURCE = said("I live in Berlin and I love it", "e1")

    async def test_the_same_words_do_not_bring_it_back_in_other_wordings(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1", sources=(self.SOURCE,))], now=NOW)
        await tables.facts.apply(BOBS, [add("f1", owner=BOBS, sources=(self.SOURCE,))], now=NOW)
        assert await tables.facts.delete(ANNS, ["f1"], now=NOW) == 1
        for number, quote in enumerate(["I live in Berlin and I love it", "I live in Berlin", "live in Berlin and I love"]):
            change = add(f"again {number}", statement="Ann's home is Berlin.", sources=(said(quote, "e1"),))
            [result] = await tables.facts.apply(ANNS, [change], now=NOW)
            assert result.did == "forgotten", quote
        assert await tables.facts.list(see(ANN)) == []
        assert len(await tables.facts.list(see(BOB))) == 1

    async def test_said_anew_or_by_hand_it_is_remembered_anew(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1", sources=(self.SOURCE,))], now=NOW)
        await tables.facts.delete(ANNS, ["f1"], now=NOW)
        changes = [
            add("later", sources=(said("I live in Berlin and I love it", "e2"),)),
            add("both", sources=(self.SOURCE, said("Berlin it is", "e3"))),
            add("by hand", sources=(said("I live in Berlin and I love it", None),)),
            add("bare"),
            add("another matter", sources=(said("my sister plays the cello", "e1"),)),
        ]
        assert [result.did for result in await tables.facts.apply(ANNS, changes, now=NOW)] == ["added"] * 5

    async def test_a_fact_that_stands_is_confirmed_by_words_that_were_forgotten_with_another(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add(one, sources=(self.SOURCE,)) for one in ("f1", "f2")], now=NOW)
        await tables.facts.delete(ANNS, ["f1"], now=NOW)
        [result] = await tables.facts.apply(ANNS, [add("x", "key of f2", effect="rerun", sources=(self.SOURCE,))], now=NOW)
        assert (result.did, result.fact_id) == ("confirmed", "f2")

    async def test_forgetting_more_of_one_message_adds_to_what_is_known_of_it(self, tables: Tables) -> None:
        quotes = {"f1": "I live in Berlin", "f2": "my sister plays the cello", "f3": "我住在柏林市中心"}
        for fact_id, quote in quotes.items():
            await tables.facts.apply(ANNS, [add(fact_id, sources=(said(quote, "e1"),))], now=NOW)
            await tables.facts.delete(ANNS, [fact_id], now=NOW)
        for fact_id, quote in quotes.items():
            change = add(f"{fact_id} again", sources=(said(quote, "e1"),))
            assert [result.did for result in await tables.facts.apply(ANNS, [change], now=NOW)] == ["forgotten"]

    async def test_no_text_stays(self, tables: Tables) -> None:
        fact = add("f1", statement=f"Ann keeps a {CANARY}.", subject=CANARY, sources=(said(f"I keep a {CANARY}"),))
        await tables.facts.apply(ANNS, [fact], now=NOW)
        assert CANARY in await everything(tables)
        await tables.facts.delete(ANNS, ["f1"], now=NOW)
        assert CANARY not in await everything(tables)


async def contacts(tables: Tables, scope: Scope = ANN) -> dict[int, Contact]:
    return {one.contact_id: one for one in await tables.contacts.list(scope)}


MARA = CreateContact(
    "c",
    {"first_name": "Mara", "email_address": "mara@example.com", "bio": f"Keeps a {CANARY}."},
    ("mara-1", "MARA@example.com"),
    (said("Mara, mara@example.com, joins us", said_at=NOW),),
)


async def make(tables: Tables, *changes: Any, scope: Scope = ANN, now: Any = NOW) -> list[Any]:
    return list(await tables.contacts.apply(scope, changes, origin="window:w1", now=now))


class TestContacts:
    async def test_all_of_it_goes_and_tasks_lose_the_link(self, tables: Tables) -> None:
        for scope in (ANN, BOB):
            await make(tables, MARA, CreateContact("d", {"first_name": "Tom"}, ("tom",)), scope=scope)
            tasks = [create_task("t1", contact_id=2), create_task("t2", contact_id=3)]
            await tables.tasks.apply(scope, tasks, now=NOW)
        assert [source.quote for source in await tables.contacts.sources(ANN, 2)] == ["Mara, mara@example.com, joins us"]
        assert await tables.contacts.delete(ANN, [2, 99, -1, 2**70], now=NOW + DAY) == 1
        assert set(await contacts(tables)) == {0, 1, 3}
        assert await tables.contacts.get(ANN, [2]) == {}
        assert await tables.contacts.by_alias(ANN, ["mara-1", "mara@example.com", "2"]) == {}
        assert await tables.contacts.history(ANN, 2) == []
        assert await tables.contacts.sources(ANN, 2) == ()
        assert await tables.contacts.list(ANN, where={"email_address": "mara@example.com"}) == []
        assert {task.task_id: task.contact_id for task in await tables.tasks.list(ANN)} == {"t1": None, "t2": 3}
        assert await tables.contacts.delete(ANN, [2], now=NOW + DAY) == 0
        assert set(await contacts(tables, BOB)) == {0, 1, 2, 3}
        assert (await tables.tasks.get(BOB, ["t1"]))["t1"].contact_id == 2

    async def test_no_text_stays(self, tables: Tables) -> None:
        rename = UpdateContact("u", 2, {"bio": "Nothing."})
        await make(tables, MARA, CreateContact("d", {"surname": "Merged", "bio": CANARY}), rename, MergeContacts("m", 2, 3))
        assert CANARY in await everything(tables)
        await tables.contacts.delete(ANN, [2], now=NOW + DAY)
        left = await everything(tables)
        assert all(word not in left for word in (CANARY, "Mara", "mara", "Merged"))

    async def test_the_row_stays_until_its_vector_is_gone(self, tables: Tables) -> None:
        await make(tables, MARA)
        [mara] = [one for one in await tables.contacts.pending() if one.document_id == "2"]
        await tables.contacts.mark_indexed([IndexMark("2", ANNS, mara.revision, (7, 8), 2)])
        await tables.contacts.delete(ANN, [2], now=NOW + DAY)
        [gone] = [one for one in await tables.contacts.pending() if one.document_id == "2"]
        assert (gone.live, gone.text, gone.payload) == (False, "", {})
        await tables.contacts.mark_indexed([IndexMark("2", ANNS, gone.revision, (), 0)])
        assert "2" not in {one.document_id for one in await tables.contacts.documents(after=None)}
        assert (await tables.terms.statistics("acme", [ANNS.key], "contacts", [7])).documents == 0

    async def test_those_of_the_system_stay_and_what_was_merged_goes_with_the_other(self, tables: Tables) -> None:
        await make(tables, MARA, CreateContact("d", {"first_name": "Tom"}, ("tom",)), CreateContact("e", {"first_name": "Io"}))
        await make(tables, MergeContacts("m", 1, 3), UpdateContact("u", 1, {"bio": "The user."}))
        assert await tables.contacts.delete(ANN, [0, 1, 3], now=NOW + DAY) == 0
        assert (await contacts(tables))[1].bio == "The user."
        await make(tables, MergeContacts("n", 2, 4))
        assert await tables.contacts.delete(ANN, [4], now=NOW + DAY) == 1, "4 is 2 by now"
        assert set(await contacts(tables)) == {0, 1}
        assert set(await tables.contacts.get(ANN, [3])) == {3}

    async def test_its_number_is_not_given_again_and_changes_of_it_find_nothing(self, tables: Tables) -> None:
        await make(tables, MARA)
        await tables.contacts.delete(ANN, [2], now=NOW + DAY)
        again, late, merge = await make(
            tables, MARA, UpdateContact("late", 2, {"bio": "back"}), MergeContacts("m", 1, 2), now=NOW + 2 * DAY
        )
        assert (again.repeated, again.contact_id) == (True, 2)
        assert (late.conflict, merge.conflict) == ("unknown", "unknown")
        [new] = await make(tables, CreateContact("x", {"first_name": "Ada"}))
        assert new.contact_id == 3

    @pytest.mark.parametrize(
        "again",
        [
            CreateContact("r", {"first_name": "Mara"}, (), (said("Mara, mara@example.com, joins", said_at=NOW),)),
            CreateContact("r", {}, ("mara-1",), seen_at=NOW),
            CreateContact("r", {"email_address": "Mara@Example.com"}, (), (said("write to her", "e7", said_at=NOW - DAY),)),
        ],
    )
    async def test_old_messages_do_not_bring_it_back(self, tables: Tables, again: CreateContact) -> None:
        await make(tables, MARA)
        await tables.contacts.delete(ANN, [2], now=NOW + DAY)
        [result] = await make(tables, again, now=NOW + 2 * DAY)
        assert (result.did, result.conflict) == ("nothing", "forgotten")
        assert set(await contacts(tables)) == {0, 1}

    @pytest.mark.parametrize(
        "again",
        [
            CreateContact("r", {"first_name": "Mara"}, (), (said("Mara is back", "e9", said_at=NOW + 2 * DAY),)),
            CreateContact("r", {}, ("mara-1",), seen_at=NOW + 2 * DAY),
            CreateContact("r", {"first_name": "Mara", "email_address": "mara@example.com"}),
        ],
    )
    async def test_a_new_message_or_a_person_does(self, tables: Tables, again: CreateContact) -> None:
        await make(tables, MARA)
        await tables.contacts.delete(ANN, [2], now=NOW + DAY)
        [result] = await make(tables, again, now=NOW + 2 * DAY)
        assert (result.did, result.contact_id) == ("created", 3)


class TestTasks:
    async def test_it_goes_with_its_quotes_and_stays_away(self, tables: Tables) -> None:
        source = said(f"please feed the {CANARY} on Friday")
        for scope in (ANN, BOB):
            made = create_task("t1", name=f"Feed the {CANARY}", sources=(source,))
            await tables.tasks.apply(scope, [made, create_task("t2")], now=NOW)
        assert await tables.tasks.delete(ANN, ["t1", "unknown"], now=NOW) == 1
        assert [task.task_id for task in await tables.tasks.list(ANN)] == ["t2"]
        rerun = create_task("t9", name="Give the bird its food", effect="rerun", sources=(said("feed the zebrafink on Friday"),))
        late = UpdateTask("late", "t1", {"status": TaskStatus.DONE}, (source,))
        assert [one.did for one in await tables.tasks.apply(ANN, [made, rerun, late], now=NOW)] == [
            "created",  # the effect of the first time, again
            "forgotten",
            "nothing",
        ]
        assert [task.task_id for task in await tables.tasks.list(ANN)] == ["t2"]
        assert len(await tables.tasks.list(BOB)) == 2
        assert await tables.tasks.delete(BOB, ["t1"], now=NOW) == 1
        assert CANARY not in await everything(tables)
        [anew] = await tables.tasks.apply(ANN, [create_task("t10", sources=(said("feed the bird", "e5"),))], now=NOW)
        assert anew.did == "created"


async def test_a_window_that_is_read_again_says_what_it_left_out(sql_url: str) -> None:
    """By a model that words it differently the second time."""
    async with open_memory(sql_url) as memory:
        window, events = memory.window(
            "Invoices above 500 € need two signatures.",
            "My colleague Mara Lind joins us, her address is mara@lumen.example.",
            "Please send Mara the contract by Friday.",
        )

        async def read(wordings: tuple[str, str, str]) -> list[Applied]:
            statement, first_name, name = wordings
            items = {
                Category.KNOWLEDGE: {"statement": statement, "subject": "invoices"},
                Category.CONTACTS: {"action": "create", "contact": "new1", "first_name": first_name, "surname": "Lind", "line": 2},
                Category.TASKS: {"action": "create", "name": name, "line": 3},
            }
            return [await memory.apply(category, window, events, [item]) for category, item in items.items()]

        first = await read(("Invoices above 500 € need two signatures.", "Mara", "Send Mara the contract"))
        assert [one.outcome.applied for one in first] == [1, 1, 1]
        scope, stores, later = memory.scope, memory.stores, window.planned_at + DAY
        await stores.facts.delete(Owner.user(scope), [fact.fact_id for fact in await memory.facts()], now=later)
        await stores.contacts.delete(scope, [2], now=later)
        await stores.tasks.delete(scope, [task.task_id for task in await memory.tasks()], now=later)

        await read(("Invoices above 500 € need two signatures.", "Mara", "Send Mara the contract"))
        assert [await memory.facts(), await memory.tasks(), await memory.contacts()] == [[], [], []], (
            "the same words are one effect"
        )
        again = await read(("An invoice above 500 € is signed by two.", "Ms Mara", "Get Mara her contract"))
        assert [one.outcome.dropped for one in again] == [{"forgotten": 1}] * 3
        assert [await memory.facts(), await memory.tasks(), await memory.contacts()] == [[], [], []]
