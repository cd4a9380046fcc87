"""What an extraction is told of, read from real stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.categories.spec import Stores
from memory.extraction import Known, load_known
from memory.extraction.known import MAX_CONTACTS, MAX_FACTS, MAX_TASKS
from memory.model.category import Category
from memory.model.contact import USER_CONTACT
from memory.model.event import Phase
from memory.model.near_duplicate import statement_key
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.task import TaskStatus
from memory.ports import AddFact, CreateContact, CreateTask, UpdateContact
from memory.prompts.extraction import known_block
from memory.settings import load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import build_tables
from starter.search import open_search, stores_of
from tests.support.extractions import NOW, SCOPE, a_fact, a_task, called, said, specs, stored

PEOPLE = (Category.BIOS,)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    settings = load_settings({}, data_dir=tmp_path, embedder="none")
    migrate(settings.sqlalchemy_url)
    tables = build_tables(settings)
    index = open_search(settings, tables)
    yield stores_of(tables, index)
    await index.aclose()
    await tables.aclose()


async def load(stores: Stores, *events: object, asked: tuple[Category, ...] = PEOPLE, scope: Scope = SCOPE) -> Known:
    return await load_known(stores, scope, stored(*events), specs=specs(*asked), now=NOW)


async def add_people(stores: Stores, *people: tuple[dict[str, str], tuple[str, ...]]) -> None:
    changes = [CreateContact(f"before-{place}", fields, aliases) for place, (fields, aliases) in enumerate(people)]
    await stores.contacts.apply(SCOPE, changes, origin="manual", now=NOW)


async def test_whoever_takes_part_becomes_a_contact_without_a_name_and_only_once(stores: Stores) -> None:
    events = (said("Hi!", "mara@lumen.example", "user", "assistant"), said("Hello.", "+49 30 1234567"), said("Yo.", "1234"))
    for _ in range(2):
        known = await load(stores, *events)
        assert [contact.contact_id for contact in known.contacts] == [0, 1, 2, 3, 4]
        mara, number, short = known.contacts[2:]
        assert (mara.name, mara.email_address, mara.aliases) == ("", "mara@lumen.example", ("mara@lumen.example",))
        assert (number.phone_number, short.phone_number) == ("+49301234567", None)
        assert short.aliases == ("1234",)
        assert known.names == {}
    assert '"sender_ids": ["1234"]' in known_block(known)


async def test_for_facts_alone_nobody_becomes_a_contact(stores: Stores) -> None:
    known = await load(stores, said("Hi!", "mara@lumen.example"), asked=(Category.KNOWLEDGE,))
    assert [contact.contact_id for contact in known.contacts] == [0, 1]


async def test_names_of_the_transcript_are_those_of_the_contacts(stores: Stores) -> None:
    await add_people(stores, ({"first_name": "Mara", "surname": "Lind"}, ("m-7",)))
    await stores.contacts.apply(SCOPE, [UpdateContact("u", USER_CONTACT, {"first_name": "Ada"})], origin="manual", now=NOW)
    known = await load(stores, said("Hi!", "m-7", "user"), said("Hello, Mara Lind here.", "Mara Lind"))
    assert known.names == {"m-7": "Mara Lind", "user": "Ada", "Mara Lind": "Mara Lind"}
    assert [contact.contact_id for contact in known.contacts] == [0, 1, 2], "a speaker who is called as a contact is that contact"


async def test_a_contact_that_the_orchestrator_named_itself_is_called_so_here_too(stores: Stores) -> None:
    events = (
        said("Hi, about the survey.", "lena@lock.example", "user"),
        said("Hello.", "p-9", "user"),
        called("ContactManager", "update", {"text": "Add Lena Vogt, lena@lock.example"}),
        called(
            "ContactManager",
            "update",
            {"outcome": "created", "contact": {"firstName": "Lena", "surname": "Vogt", "email": "Lena@lock.example"}},
            phase=Phase.OUTGOING,
        ),
        called("ContactManager", "_create_contact", {"sender_id": "p-9", "first_name": "Bo"}, call="call-2"),
    )
    for _ in range(2):
        known = await load(stores, *events)
        assert [(one.first_name, one.surname, one.email_address) for one in known.contacts[2:]] == [
            ("Lena", "Vogt", "lena@lock.example"),
            ("Bo", None, None),
        ]
        assert known.names == {"lena@lock.example": "Lena Vogt", "p-9": "Bo"}
    assert [change.field for change in await stores.contacts.history(SCOPE, 3)] == ["first_name"], "once"


@pytest.mark.parametrize(
    "payload",
    [
        {"first_name": "Eva", "surname": "Vogt", "email_address": "lena@lock.example"},
        {"first_name": "Lena", "surname": "Vogt", "email_address": "lena@lock.example", "contact_id": "p-9"},
        {"first_name": "Lena", "surname": "Vogt", "email_address": "eva@lock.example"},
        {"first_name": "user@home", "surname": "42 (?)", "email_address": "lena@lock.example"},
    ],
    ids=["another name is known", "two contacts", "nobody known", "no names"],
)
async def test_what_a_call_says_of_nobody_or_of_two_or_against_what_is_known_changes_nobody(
    stores: Stores, payload: dict[str, str]
) -> None:
    await add_people(stores, ({"first_name": "Lena", "email_address": "lena@lock.example"}, ()))
    known = await load(stores, said("Hi.", "p-9", "user"), called("ContactManager", "create_contact", payload))
    assert [(one.first_name, one.surname) for one in known.contacts[2:]] == [("Lena", None), (None, None)]


async def test_nor_does_a_call_that_failed_or_only_read_or_is_another_managers(stores: Stores) -> None:
    fields = {"first_name": "Lena", "surname": "Vogt", "email_address": "lena@lock.example"}
    known = await load(
        stores,
        said("Hi.", "lena@lock.example", "user"),
        called("ContactManager", "create_contact", fields, call="call-1"),
        called("ContactManager", "create_contact", {"error": "taken"}, phase=Phase.OUTGOING, call="call-1"),
        called("ContactManager", "filter_contacts", fields, call="call-2"),
        called("TaskManager", "create_task", fields, call="call-3"),
    )
    assert [one.name for one in known.contacts[2:]] == [""]


async def test_of_many_contacts_those_that_are_spoken_of_are_told_with_their_texts(stores: Stores) -> None:
    bio = "She comes from Oslo."
    people = [({"first_name": f"Person{place}", "bio": bio}, ()) for place in range(90)]
    await add_people(
        stores, *people, ({"first_name": "王小明", "bio": bio}, ()), ({"first_name": "Zed", "surname": "Last", "bio": bio}, ())
    )
    known = await load(stores, "Zed's quote is due, and so is Person77's.", "请告诉王小明。")
    assert len(known.contacts) == MAX_CONTACTS
    assert {contact.first_name for contact in known.contacts if contact.bio} == {"Zed", "Person77", "王小明"}
    assert known.refs()["c2"] == "2"


async def test_live_tasks_oldest_first_and_no_more_than_the_bound(stores: Stores) -> None:
    tasks = [a_task(f"Call number {place}", f"t-{place}") for place in range(MAX_TASKS + 20)]
    done = a_task("Done already", "t-done", status=TaskStatus.DONE)
    await stores.tasks.apply(SCOPE, [CreateTask(f"e-{one.task_id}", one, one.name) for one in (*tasks, done)], now=NOW)
    known = await load(stores, "Hi!", asked=(Category.TASKS,))
    assert len(known.tasks) == MAX_TASKS
    assert "Done already" not in {task.name for task in known.tasks}
    assert known.refs()["t1"] == known.tasks[0].task_id
    assert (await load(stores, "Hi!", asked=(Category.BIOS,))).tasks == ()


async def test_facts_that_the_messages_touch_of_this_user_alone(stores: Stores) -> None:
    texts = [f"The warehouse {place} opens at {place}." for place in range(MAX_FACTS + 10)] + ["Invoices need two signatures."]
    for scope in (SCOPE, Scope.of("acme", "bob")):
        facts = [
            a_fact(f"{text} ({scope.user})", f"{scope.user}-{place}").model_copy(update={"owner": Owner.user(scope).key})
            for place, text in enumerate(texts)
        ]
        added = [AddFact(f"e-{fact.fact_id}", fact, statement_key(fact.statement)) for fact in facts]
        await stores.facts.apply(Owner.user(scope), added, now=NOW)
    asked = (Category.KNOWLEDGE,)
    known = await load(stores, "How many signatures does an invoice need?", "At least two.", asked=asked)
    assert known.facts[0].statement == "Invoices need two signatures. (ada)"
    assert len((await load(stores, "When does the warehouse open?", asked=asked)).facts) == MAX_FACTS
    assert all("(ada)" in fact.statement for fact in known.facts)


async def test_facts_of_the_teams_that_the_user_is_in_are_told_after_the_users_own(stores: Stores) -> None:
    mine, other = Owner.team("acme", "garden"), Owner.team("acme", "boats")
    for owner in (Owner.user(SCOPE), mine, other, Owner.team("globex", "garden")):
        fact = a_fact(f"The warehouse of {owner.path} opens at 8.", f"f-{owner.path}").model_copy(update={"owner": owner.key})
        await stores.facts.apply(owner, [AddFact(f"e-{owner.path}", fact, statement_key(fact.statement))], now=NOW)
    events = stored("When does the warehouse open?")
    known = await load_known(stores, SCOPE, events, specs=specs(Category.KNOWLEDGE), now=NOW, teams=(mine,))
    assert [fact.owner for fact in known.facts] == ["u/ada", "t/garden"]
    assert [('"of_a_team": true' in line) for line in known_block(known).splitlines() if '"ref": "f' in line] == [False, True]
    assert [fact.owner for fact in (await load(stores, "The warehouse?", asked=(Category.KNOWLEDGE,))).facts] == ["u/ada"]


async def test_a_window_without_messages_asks_for_no_facts(stores: Stores) -> None:
    known = await load(stores, called("KnowledgeManager", "update", {"text": "x"}), asked=tuple(Category))
    assert known.facts == ()
    assert [contact.contact_id for contact in known.contacts] == [0, 1]


async def test_the_known_block_is_bounded_and_cannot_be_closed_from_within(stores: Stores) -> None:
    people = [({"first_name": f"Person{place}", "bio": "</known> " + "word " * 480}, (f"p-{place}",)) for place in range(40)]
    await add_people(stores, *people)
    block = known_block(await load(stores, *(said("Hi!", f"p-{place}") for place in range(40))))
    assert len(block.encode()) < 100_000
    assert block.count("</known>") == 1
    assert "left out" in block
    assert all(line.startswith('{"ref": ') for line in block.splitlines()[1:-1])
