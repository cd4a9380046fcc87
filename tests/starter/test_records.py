"""The client's records as a developer uses them: on a real database, with vectors in memory that can be switched off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from memory.model.errors import InvalidInput, MemoryUnavailable, NotPermitted
from memory.model.event import MessageEvent
from memory.model.fact import FactKind, FactStatus, Source
from memory.model.near_duplicate import statement_key
from memory.model.owner import Owner, View
from memory.model.routing import Store
from memory.model.scope import Scope
from memory.model.task import TaskStatus
from memory.ports import UpdateTask, Usage
from memory.settings import load_settings
from memory.stores.tables import Tables, build_tables
from starter.loops import Loops
from starter.record_facts import Statement
from starter.records import Records
from starter.search import index_over, stores_of
from tests.support.records import create_task
from tests.support.vectors import MemoryVectors

ANN = ("acme", "ann")
BOB = ("acme", "bob")
NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
UNKNOWN: Any = "gossip"


@dataclass
class Desk:
    records: Records
    tables: Tables
    vectors: MemoryVectors


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    tables, vectors = build_tables("sqlite://"), MemoryVectors()
    index = index_over(tables, vectors)
    stores = stores_of(tables, index)

    async def away() -> Client:
        raise MemoryUnavailable("Temporal is away")

    loops = Loops(load_settings({}), store=tables.loops, directory=tables.directory, temporal=away)
    records = Records(directory=tables.directory, stores=stores, index=index, usage=tables.usage, loops=loops)
    yield Desk(records, tables, vectors)
    await index.aclose()
    await tables.aclose()


async def record(desk: Desk, *messages: tuple[str, str, str], who: tuple[str, str] = ANN) -> None:
    events = [
        MessageEvent(
            timestamp=NOW + timedelta(minutes=place), sender_id=sender, receiver_ids=("user",), medium=medium, content=content
        )
        for place, (sender, medium, content) in enumerate(messages)
    ]
    await desk.tables.log.record_events(Scope.of(*who), events, now=NOW)


# ------------------------------------------------------------------------------------------------------------------- facts


async def test_a_statement_is_kept_with_its_origin_and_found_at_once(desk: Desk) -> None:
    (added,) = await desk.records.facts.add(ANN, "Invoices above 500 € need two signatures.")
    assert added.did == "added"
    (found,) = await desk.records.facts.search(ANN, "who signs an invoice?", sources=True)
    assert found.fact.fact_id == added.fact.fact_id
    assert [source.origin for source in found.fact.sources] == ["manual"]
    assert await desk.records.facts.search(BOB, "invoice") == ()


async def test_the_same_statement_is_confirmed_and_not_added_again(desk: Desk) -> None:
    (first,) = await desk.records.facts.add(ANN, "The archive closes at 18:00.")
    (again,) = await desk.records.facts.add(ANN, "The archive closes at 18:00!")
    assert (again.did, again.fact.fact_id) == ("confirmed", first.fact.fact_id)
    assert len(await desk.records.facts.list(ANN)) == 1


async def test_a_repeated_call_is_one_call(desk: Desk) -> None:
    first = await desk.records.facts.add(ANN, ["The lift is broken.", "The roof is green."], request_id="r1")
    again = await desk.records.facts.add(ANN, ["The lift is broken.", "The roof is green."], request_id="r1")
    assert [one.fact.fact_id for one in again] == [one.fact.fact_id for one in first]
    assert len(await desk.records.facts.list(ANN)) == 2


async def test_a_statement_takes_the_place_of_another_and_the_history_shows_both(desk: Desk) -> None:
    (old,) = await desk.records.facts.add(ANN, {"statement": "Mara leads Atlas.", "subject": "Atlas"})
    (new,) = await desk.records.facts.add(
        ANN, Statement(statement="Tom leads Atlas.", subject="Atlas", kind=FactKind.DECISION, supersedes=(old.fact.fact_id,))
    )
    assert (new.did, new.superseded) == ("superseded", (old.fact.fact_id,))
    assert [fact.statement for fact in await desk.records.facts.list(ANN)] == ["Tom leads Atlas."]
    chain = await desk.records.facts.history(ANN, new.fact.fact_id)
    assert [(fact.statement, fact.status) for fact in chain] == [
        ("Mara leads Atlas.", FactStatus.SUPERSEDED),
        ("Tom leads Atlas.", FactStatus.ACTIVE),
    ]
    assert await desk.records.facts.history(BOB, new.fact.fact_id) == ()
    ended = await desk.records.facts.list(ANN, statuses=["superseded"])
    assert [fact.fact_id for fact in ended] == [old.fact.fact_id]
    assert [fact.statement for fact in await desk.records.facts.list(ANN, kinds=["decision"])] == ["Tom leads Atlas."]


async def test_what_held_at_a_time_is_found_as_of_that_time(desk: Desk) -> None:
    until = datetime.now(UTC) + timedelta(days=10)
    await desk.records.facts.add(ANN, {"statement": "Parking in the yard is allowed.", "valid_until": until})
    before, after = until - timedelta(days=1), until + timedelta(days=1)
    assert len(await desk.records.facts.search(ANN, "parking yard", as_of=before)) == 1
    assert await desk.records.facts.search(ANN, "parking yard", as_of=after) == ()


async def test_a_secret_in_a_statement_is_redacted(desk: Desk) -> None:
    (added,) = await desk.records.facts.add(ANN, "The password for the server is Sommer!2026xyz.")
    assert "Sommer" not in added.fact.statement
    (stored,) = await desk.records.facts.list(ANN, sources=True)
    assert "Sommer" not in stored.statement + "".join(source.quote for source in stored.sources)


async def test_what_is_forgotten_is_gone_and_what_is_not_ones_own_stays(desk: Desk) -> None:
    (added,) = await desk.records.facts.add(ANN, "The roof is green.")
    assert await desk.records.facts.forget(BOB, [added.fact.fact_id]) == 0
    assert await desk.records.facts.forget(ANN, added.fact.fact_id) == 1
    assert await desk.records.facts.list(ANN, statuses=list(FactStatus)) == ()
    assert await desk.records.facts.search(ANN, "green roof") == ()
    assert await desk.vectors.count("afterturn_facts") == 0, "its vector is gone too"


async def test_facts_of_a_team_are_seen_by_its_members_only(desk: Desk) -> None:
    with pytest.raises(NotPermitted, match="not in the team 'sales'"):
        await desk.records.facts.add(ANN, "The discount is 5 %.", team="sales")
    await desk.records.set_teams(ANN, ["sales"])
    assert await desk.records.teams(ANN) == ("sales",)
    (added,) = await desk.records.facts.add(ANN, "The discount is 5 %.", team="sales")
    assert await desk.records.facts.search(BOB, "discount") == ()
    await desk.records.set_teams(BOB, ["sales", "sports"])
    assert [one.fact.statement for one in await desk.records.facts.search(BOB, "discount")] == ["The discount is 5 %."]
    assert await desk.records.facts.forget(ANN, added.fact.fact_id) == 0, "not among the user's own"
    assert await desk.records.facts.forget(BOB, added.fact.fact_id, team="sales") == 1
    await desk.records.set_teams(BOB, [])
    with pytest.raises(NotPermitted):
        await desk.records.facts.forget(BOB, added.fact.fact_id, team="sales")


async def test_a_list_can_be_paged(desk: Desk) -> None:
    await desk.records.facts.add(ANN, [f"Shelf {number} holds {number} books." for number in range(1, 8)])
    seen: list[str] = []
    after = None
    while page := await desk.records.facts.list(ANN, limit=3, after=after):
        seen += [fact.fact_id for fact in page]
        after = page[-1].fact_id
    assert len(seen) == len(set(seen)) == 7


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"query": " "}, "the query is empty"),
        ({"query": "x" * 20_001}, "the query has 20001 characters; at most 20000 are accepted"),
        ({"query": "x", "limit": 0}, "the limit must be 1 to 100"),
        ({"query": "x", "limit": 101}, "the limit must be 1 to 100"),
        ({"query": "x", "kinds": [UNKNOWN]}, "'gossip' is no kind of fact; there are fact, policy, definition,"),
        ({"query": "x", "kinds": []}, "name at least one kind of fact, or leave them out"),
        ({"query": "x", "as_of": datetime(2026, 1, 1)}, "as_of must be a datetime with a time zone"),  # noqa: DTZ001
    ],
)
async def test_arguments_that_cannot_be_used_are_named(desk: Desk, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await desk.records.facts.search(ANN, **arguments)
    assert caught.value.message.startswith(complaint)


@pytest.mark.parametrize(
    ("statements", "complaint"),
    [
        (["fine", ""], "statement 2 is not valid: statement: String should have at least 1 character"),
        (["fine", " \n"], "the text of statement 2 is empty"),
        ([{"statement": "x", "kind": "gossip"}], "statement 1 is not valid: kind: Input should be 'fact'"),
        ([{"statement": "x", "colour": "red"}], "statement 1 is not valid: colour: Extra inputs are not permitted"),
        ([{"statement": "x", "valid_from": NOW, "valid_until": NOW}], "statement 1 is not valid: it ends before it begins"),
        (["x"] * 101, "101 statements in one call; at most 100 are accepted"),
    ],
)
async def test_a_statement_that_cannot_be_used_is_named_and_none_is_kept(desk: Desk, statements: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await desk.records.facts.add(ANN, statements)
    assert caught.value.message.startswith(complaint)
    assert await desk.records.facts.list(ANN) == ()


async def test_a_search_goes_on_by_words_while_the_vectors_are_away(desk: Desk) -> None:
    await desk.records.facts.add(ANN, ["The archive closes at 18:00.", "The roof is green."])
    await desk.records.guidance.add(ANN, "Plotting", "First load the roll, then press Feed.")
    await desk.records.contacts.add(ANN, first_name="Ada", bio="Ada keeps the archive.")
    desk.vectors.away = True
    (fact,) = await desk.records.facts.search(ANN, "archive", limit=1)
    assert fact.fact.statement == "The archive closes at 18:00."
    assert [one.guidance.title for one in await desk.records.guidance.search(ANN, "load the roll")] == ["Plotting"]
    assert (await desk.records.contacts.search(ANN, "archive"))[0].contact.first_name == "Ada"
    with pytest.raises(MemoryUnavailable):
        await desk.records.search_events(ANN, "archive")


# ---------------------------------------------------------------------------------------------------------------- contacts


async def test_contacts_are_added_found_changed_and_their_history_is_kept(desk: Desk) -> None:
    contacts = desk.records.contacts
    ada = await contacts.add(ANN, first_name="Ada", surname="Holm", email_address="ada@holm.example", aliases=["ada-w"])
    assert [one.contact_id for one in await contacts.filter(ANN)] == [0, 1, ada.contact_id]
    assert [one.contact_id for one in await contacts.filter(ANN, surname="Holm")] == [ada.contact_id]
    for name in (ada.contact_id, "ada@holm.example", "ada-w", str(ada.contact_id)):
        found = await contacts.get(ANN, name)
        assert found is not None
        assert found.name == "Ada Holm"
    changed = await contacts.update(ANN, ada.contact_id, job_title="harbour master", timezone="Europe/Berlin")
    assert (changed.job_title, changed.timezone) == ("harbour master", "Europe/Berlin")
    assert (await contacts.search(ANN, "harbour master"))[0].contact.contact_id == ada.contact_id
    history = await contacts.history(ANN, ada.contact_id)
    assert ("job_title", None, "harbour master", "manual") in [(one.field, one.before, one.after, one.origin) for one in history]
    assert await contacts.get(BOB, "ada@holm.example") is None


async def test_an_exact_address_comes_first_in_a_search(desk: Desk) -> None:
    contacts = desk.records.contacts
    nameless = await contacts.add(ANN, phone_number="+49 451 555 0990")
    await contacts.add(ANN, first_name="Ada", bio="Ada has no number.")
    (found,) = await contacts.search(ANN, "+494515550990")
    assert found.contact.contact_id == nameless.contact_id
    assert found.contact.name == ""


async def test_two_contacts_become_one_with_all_that_both_had(desk: Desk) -> None:
    contacts = desk.records.contacts
    keep = await contacts.add(ANN, first_name="Lena", aliases=["lena"])
    drop = await contacts.add(ANN, email_address="lena@mail.example", aliases=["lena@mail.example"])
    merged = await contacts.merge(ANN, keep.contact_id, drop.contact_id)
    assert merged.email_address == "lena@mail.example"
    assert set(merged.aliases) == {"lena", "lena@mail.example"}
    gone = await contacts.get(ANN, drop.contact_id)
    assert gone is not None
    assert gone.contact_id == keep.contact_id


async def test_what_contacts_may_not_do_is_said(desk: Desk) -> None:
    contacts = desk.records.contacts
    ada = await contacts.add(ANN, first_name="Ada", email_address="ada@holm.example")
    lena = await contacts.add(ANN, first_name="Lena")
    bad: list[tuple[Any, str]] = [
        (lambda: contacts.update(ANN, lena.contact_id, email_address="ada@holm.example"), "belongs to another contact"),
        (lambda: contacts.update(ANN, 99, first_name="X"), "there is no contact 99"),
        (lambda: contacts.update(ANN, ada.contact_id, shoe_size="43"), "has no field 'shoe_size'"),
        (lambda: contacts.update(ANN, ada.contact_id, email_address="nonsense"), "email_address is not one"),
        (lambda: contacts.update(ANN, ada.contact_id), "name at least one field"),
        (lambda: contacts.update(ANN, -1, first_name="X"), "a contact id is a whole number"),
        (lambda: contacts.merge(ANN, ada.contact_id, 1), "never merged away"),
        (lambda: contacts.merge(ANN, ada.contact_id, ada.contact_id), "merged with itself"),
        (lambda: contacts.merge(ANN, ada.contact_id, 99), "there is no contact 2 or 99"),
        (lambda: contacts.filter(ANN, mood="good"), "cannot be filtered by 'mood'"),
        (lambda: contacts.add(ANN), "needs at least one field"),
    ]
    for call, complaint in bad:
        with pytest.raises(InvalidInput, match=complaint):
            await call()


async def test_a_repeated_change_of_a_contact_is_made_once(desk: Desk) -> None:
    contacts = desk.records.contacts
    ada = await contacts.add(ANN, first_name="Ada", request_id="new")
    assert (await contacts.add(ANN, first_name="Ada", request_id="new")).contact_id == ada.contact_id
    await contacts.update(ANN, ada.contact_id, job_title="pilot", request_id="r1")
    await contacts.update(ANN, ada.contact_id, job_title="captain")
    assert (await contacts.update(ANN, ada.contact_id, job_title="pilot", request_id="r1")).job_title == "captain"


# ------------------------------------------------------------------------------------------- tasks, guidance and functions


async def test_tasks_are_listed_by_status_and_deadline_and_shown_with_their_quotes(desk: Desk) -> None:
    scope = Scope.of(*ANN)
    source = Source(event_id="e1", quote="call the dentist", origin="window:w1")
    await desk.tables.tasks.apply(
        scope,
        [
            create_task("t1", deadline=NOW, sources=(source,)),
            create_task("t2", name="Water the plants"),
            create_task("t3", name="Z"),
        ],
        now=NOW,
    )
    await desk.tables.tasks.apply(scope, [UpdateTask("done", "t3", {"status": TaskStatus.DONE})], now=NOW)
    tasks = desk.records.tasks
    assert {task.task_id for task in await tasks.list(ANN)} == {"t1", "t2", "t3"}
    assert [task.task_id for task in await tasks.list(ANN, statuses=["done"])] == ["t3"]
    assert [task.task_id for task in await tasks.list(ANN, due_before=NOW + timedelta(days=1))] == ["t1"]
    found = await tasks.get(ANN, "t1")
    assert found is not None
    assert [one.quote for one in found.sources] == ["call the dentist"]
    assert await tasks.get(BOB, "t1") is None
    with pytest.raises(InvalidInput, match="'late' is no status of a task; there are open, in_progress, done, cancelled"):
        await tasks.list(ANN, statuses=["late"])


async def test_guidance_is_kept_by_title_found_and_forgotten(desk: Desk) -> None:
    guidance = desk.records.guidance
    first = await guidance.add(ANN, "Plot on the big machine", "First the vacuum, then the roll.", tags=["office"])
    again = await guidance.add(ANN, "Plot on the big machine", "First the vacuum, then the roll, then Feed twice.")
    assert again.guidance_id == first.guidance_id
    (found,) = await guidance.search(ANN, "how do I plot?")
    assert found.guidance.content.endswith("Feed twice.")
    assert [one.title for one in await guidance.list(ANN)] == ["Plot on the big machine"]
    assert await guidance.list(BOB) == ()
    assert await guidance.forget(ANN, first.guidance_id) == 1
    assert await guidance.search(ANN, "plot") == ()
    with pytest.raises(InvalidInput, match="the title is empty"):
        await guidance.add(ANN, " ", "x")


async def test_a_function_is_stored_by_name_and_found_by_what_it_does(desk: Desk) -> None:
    functions = desk.records.functions
    source = "def mean_of(values):\n    return sum(values) / len(values)\n"
    stored = await functions.add(ANN, "mean_of", source, docstring="The average of some numbers.", dependencies=["sum_of"])
    assert stored.source == source
    assert stored.dependencies == ("sum_of",)
    assert [one.function.name for one in await functions.search(ANN, "average of numbers")] == ["mean_of"]
    await functions.add(ANN, "mean_of", "def mean_of(v): ...", docstring="The average.")
    assert [one.docstring for one in await functions.list(ANN)] == ["The average."]
    with pytest.raises(InvalidInput, match="the function is not valid: name"):
        await functions.add(ANN, "mean of", "x")
    with pytest.raises(InvalidInput, match="its source is empty"):
        await functions.add(ANN, "empty", " ")
    assert await functions.forget(ANN, [stored.function_id, "unknown"]) == 1


async def test_guidance_of_a_team_reaches_its_members(desk: Desk) -> None:
    await desk.records.set_teams(ANN, ["ops"])
    await desk.records.guidance.add(ANN, "Restart", "First stop the pump, then wait.", team="ops")
    assert await desk.records.guidance.search(BOB, "restart pump") == ()
    await desk.records.set_teams(BOB, ["ops"])
    assert [one.guidance.title for one in await desk.records.guidance.search(BOB, "restart pump")] == ["Restart"]


# ------------------------------------------------------------------------------------------------- events, route and usage


async def test_messages_are_found_with_their_neighbours_by_contact_medium_and_time(desk: Desk) -> None:
    await record(
        desk,
        ("ada", "email", "The keys are kept at the harbour office."),
        ("lena", "sms", "Thank you!"),
        ("lena", "sms", "The keys of the cellar are mine."),
    )
    found = await desk.records.search_events(ANN, "where are the keys of the harbour?", limit=1)
    assert [one.event.event.sender_id for one in found if isinstance(one.event.event, MessageEvent)] == ["ada"]
    assert [one.seq for one in found[0].after] == [2]
    by_sms = await desk.records.search_events(ANN, "keys", media=["sms"], neighbours=0)
    assert {one.event.seq for one in by_sms} <= {2, 3}
    assert by_sms[0].event.seq == 3
    from_ada = await desk.records.search_events(ANN, "keys", contacts=["ada"])
    assert {one.event.seq for one in from_ada} == {1}
    late = await desk.records.search_events(ANN, "keys", since=NOW + timedelta(seconds=90))
    assert {one.event.seq for one in late} == {3}
    assert await desk.records.search_events(BOB, "keys") == ()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"neighbours": 11}, "neighbours must be 0 to 10"),
        ({"since": NOW, "until": NOW - timedelta(days=1)}, "until is before since"),
        ({"since": datetime(2026, 1, 1)}, "since must be a datetime with a time zone"),  # noqa: DTZ001
        ({"limit": 1000}, "the limit must be 1 to 100"),
    ],
)
async def test_bounds_of_an_event_search_are_checked(desk: Desk, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await desk.records.search_events(ANN, "keys", **arguments)
    assert caught.value.message == complaint


def test_a_piece_of_content_is_routed_to_its_store() -> None:
    assert Records.route("First open the flap, then press Feed.").store is Store.GUIDANCE
    assert Records.route("def mean(v):\n    return 1").store is Store.FUNCTIONS
    assert Records.route("The archive closes at 18:00.").store is Store.FACTS
    with pytest.raises(InvalidInput):
        Records.route(UNKNOWN and 5)  # type: ignore[arg-type]


async def test_usage_is_reported_for_one_user_or_one_company(desk: Desk) -> None:
    used = Usage(input_tokens=100, output_tokens=20)
    for who in (ANN, BOB, ("globex", "ann")):
        await desk.tables.usage.add(Scope.of(*who), stage="extract", model="simulated", usage=used, now=NOW)
    await desk.tables.usage.add(Scope.of(*ANN), stage="gate", model="simulated", usage=used, now=NOW - timedelta(days=3))
    mine = await desk.records.usage(ANN)
    assert [(row.stage, row.day) for row in mine.rows] == [("extract", date(2026, 6, 17)), ("gate", date(2026, 6, 14))]
    assert (mine.total.input_tokens, mine.total.calls, mine.complete) == (200, 2, True)
    assert (await desk.records.usage(tenant="acme")).total.calls == 3
    assert (await desk.records.usage(ANN, since=date(2026, 6, 15))).total.calls == 1
    assert not (await desk.records.usage(limit=1)).complete
    with pytest.raises(InvalidInput, match="a user or a tenant"):
        await desk.records.usage(ANN, tenant="acme")


async def test_a_user_is_two_ids_or_a_scope(desk: Desk) -> None:
    await desk.records.facts.add(Scope.of(*ANN), "The roof is green.")
    assert len(await desk.records.facts.list(ANN)) == 1
    with pytest.raises(InvalidInput, match="a user is"):
        await desk.records.facts.list("ann")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        await desk.records.facts.list(("acme", ""))


async def test_the_row_of_a_team_is_never_reached_by_its_name_alone(desk: Desk) -> None:
    await desk.records.set_teams(ANN, ["ops"])
    (added,) = await desk.records.facts.add(ANN, "The pump is loud.", team="ops")
    assert added.fact.owner == Owner.team("acme", "ops").key
    seen = await desk.tables.facts.get(View(Scope.of(*BOB)), [added.fact.fact_id])
    assert dict(seen) == {}


async def test_a_forgotten_contact_is_not_found_and_tasks_lose_the_link(desk: Desk) -> None:
    mara = await desk.records.contacts.add(ANN, first_name="Mara", job_title="harbour pilot", aliases=["mara"])
    await desk.tables.tasks.apply(Scope.of(*ANN), [create_task("t1", contact_id=mara.contact_id)], now=NOW)
    assert await desk.records.contacts.search(ANN, "harbour pilot")
    assert await desk.records.contacts.forget(BOB, mara.contact_id) == 0
    for wrong in ([0], [1], [-1], [True], list(range(2, 1003))):
        with pytest.raises(InvalidInput):
            await desk.records.contacts.forget(ANN, wrong)
    assert await desk.records.contacts.forget(ANN, [mara.contact_id, 99]) == 1
    assert await desk.records.contacts.search(ANN, "harbour pilot") == ()
    assert await desk.records.contacts.get(ANN, "mara") is None
    assert await desk.vectors.count("afterturn_contacts") == 0
    assert [task.contact_id for task in await desk.records.tasks.list(ANN)] == [None]


async def test_a_task_is_changed_field_by_field(desk: Desk) -> None:
    await desk.tables.tasks.apply(
        Scope.of(*ANN), [create_task("t1"), create_task("t2", statement_key("Pay the rent"), name="Pay the rent")], now=NOW
    )
    change = desk.records.tasks.change
    due = "2026-07-01T09:00:00+02:00"
    changed = await change(ANN, "t1", name="Call  Dr. Lind", status="in_progress", tags=["health"], deadline=due, request_id="r")
    assert (changed.name, changed.status, changed.tags) == ("Call Dr. Lind", TaskStatus.IN_PROGRESS, ("health",))
    assert changed.deadline == datetime(2026, 7, 1, 7, tzinfo=UTC)
    assert await change(ANN, "t1", name="Call  Dr. Lind", request_id="r") == changed, "the same call"
    emptied = await change(
        ANN, "t1", tags=None, deadline=None, description="The password is Sommer!2026xyz.", schedule="freq=daily"
    )
    assert (emptied.tags, emptied.deadline, emptied.schedule) == ((), None, "FREQ=DAILY")
    assert "Sommer" not in emptied.description
    assert await change(ANN, "t1", schedule="RRULE:FREQ=DAILY") == emptied, "nothing to change is no fault"
    refused: list[dict[str, Any]] = [
        {},
        {"colour": "red"},
        {"name": None},
        {"name": "the"},
        {"name": "x" * 201},
        {"status": "never"},
        {"priority": 7},
        {"deadline": "soon"},
        {"deadline": datetime(2026, 7, 1)},  # noqa: DTZ001 - without a zone
        {"schedule": "weekly"},
        {"tags": "one"},
        {"tags": ["x" * 61]},
        {"contact_id": 77},
        {"contact_id": 2**63},
        {"name": "Pay the rent"},
    ]
    for fields in refused:
        with pytest.raises(InvalidInput):
            await change(ANN, "t1", **fields)
    for who, task_id in ((BOB, "t1"), (ANN, "t9")):
        with pytest.raises(InvalidInput, match="there is no task"):
            await change(who, task_id, status="done")
    assert await desk.records.tasks.get(ANN, "t1") == emptied
    assert await desk.records.tasks.forget(BOB, ["t1"]) == 0
    assert await desk.records.tasks.forget(ANN, ["t1", "t9"]) == 1
    assert [task.task_id for task in await desk.records.tasks.list(ANN)] == ["t2"]
