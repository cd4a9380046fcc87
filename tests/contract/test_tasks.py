"""Tasks on SQLite and on PostgreSQL: one live copy each, updates, schedules, the contact they concern."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.scope import Scope
from memory.model.task import LIVE_STATUSES, Task, TaskPriority, TaskStatus
from memory.ports import CreateContact, CreateTask, MergeContacts, Position, TaskResult, UpdateTask
from memory.stores.tables import Tables, build_tables
from tests.support.records import ANN, BOB, NOW, a_task, create_task, losing, said

DAY = timedelta(days=1)


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


_effects = itertools.count()


def change(task_id: str = "t1", *, effect: str | None = None, sources: Any = (), **fields: Any) -> UpdateTask:
    return UpdateTask(effect or f"effect {next(_effects)}", task_id, fields, sources)


async def do(tables: Tables, *changes: CreateTask | UpdateTask, now: Any = NOW) -> list[TaskResult]:
    return list(await tables.tasks.apply(ANN, changes, now=now))


async def one(tables: Tables, task_id: str = "t1") -> Task:
    return (await tables.tasks.get(ANN, [task_id], sources=True))[task_id]


class TestCreating:
    async def test_a_task_comes_back_as_it_was(self, tables: Tables) -> None:
        made = create_task(
            "t1",
            name="给牙医打电话 🎉",
            description="Vor Freitag.",
            status=TaskStatus.IN_PROGRESS,
            priority=TaskPriority.URGENT,
            deadline=(NOW + DAY).astimezone(timezone(timedelta(hours=-3, minutes=-30))),
            schedule="FREQ=WEEKLY;BYDAY=MO",
            tags=("health", "città"),
            contact_id=1,
            sources=(said("call the dentist", seq=3, said_at=NOW),),
        )
        [result] = await do(tables, made)
        assert (result.task_id, result.did, result.repeated) == ("t1", "created", False)
        assert await one(tables) == made.task
        [listed] = await tables.tasks.list(ANN)
        assert listed == made.task.model_copy(update={"sources": ()})

    async def test_the_same_task_again_is_never_a_second_copy(self, tables: Tables) -> None:
        await do(tables, create_task("t1", "call", sources=(said("call", "e1"),)))
        [result] = await do(tables, create_task("t2", "call", sources=(said("remember to call", "e2"),)))
        assert (result.task_id, result.did) == ("t1", "confirmed")
        deadline = NOW + DAY
        again = create_task("t3", "call", deadline=deadline, priority=TaskPriority.HIGH, tags=("health",), description="Soon.")
        [result] = await do(tables, again, now=NOW + DAY)
        assert (result.task_id, result.did) == ("t1", "updated")
        task = await one(tables)
        assert (task.deadline, task.priority, task.tags, task.description) == (deadline, TaskPriority.HIGH, ("health",), "Soon.")
        assert (task.updated_at, task.created_at) == (NOW + DAY, NOW)
        assert [source.event_id for source in task.sources] == ["e1", "e2"]
        [result] = await do(tables, create_task("t4", "call", tags=("health",)))
        assert result.did == "confirmed"
        assert (await one(tables)).priority is TaskPriority.HIGH
        assert len(await tables.tasks.list(ANN)) == 1

    @pytest.mark.parametrize("ended", [TaskStatus.DONE, TaskStatus.CANCELLED])
    async def test_one_that_has_ended_may_come_again(self, tables: Tables, ended: TaskStatus) -> None:
        await do(tables, create_task("t1", "call"), change("t1", status=ended))
        [result] = await do(tables, create_task("t1", "call", effect="another window"))
        assert result.did == "created"
        assert result.task_id != "t1"
        assert {task.status for task in await tables.tasks.list(ANN)} == {ended, TaskStatus.OPEN}

    async def test_one_that_is_done_already_takes_nobodys_place(self, tables: Tables) -> None:
        await do(tables, create_task("t1", "call"))
        [result] = await do(tables, create_task("t2", "call", status=TaskStatus.DONE))
        assert (result.task_id, result.did) == ("t2", "created")

    async def test_text_that_no_store_takes_is_cleaned(self, tables: Tables) -> None:
        dirty = a_task().model_copy(update={"name": "call\x00 \ud83d", "description": "\x00", "tags": ("t\x00",)})
        await do(tables, CreateTask("e", dirty, "k"))
        task = await one(tables)
        assert (task.name.replace("\ufffd", "?"), task.description, task.tags) == ("call ?", "", ("t",))


class TestUpdating:
    async def test_fields_are_changed_and_nothing_else(self, tables: Tables) -> None:
        await do(tables, create_task("t1", tags=("a",), description="text"))
        [result] = await do(
            tables,
            change("t1", status="done", priority=TaskPriority.LOW, deadline=NOW + DAY, tags=["b", "c"], sources=(said("did it"),)),
            now=NOW + DAY,
        )
        assert (result.did, result.task_id) == ("updated", "t1")
        task = await one(tables)
        assert (task.status, task.priority, task.deadline, task.tags) == (
            TaskStatus.DONE,
            TaskPriority.LOW,
            NOW + DAY,
            ("b", "c"),
        )
        assert (task.name, task.description, task.updated_at) == ("Call the dentist", "text", NOW + DAY)
        assert [source.quote for source in task.sources] == ["did it"]

    async def test_nothing_new_is_nothing(self, tables: Tables) -> None:
        await do(tables, create_task("t1", tags=("a",), deadline=NOW))
        again = change("t1", status="open", tags=("a",), deadline=NOW.astimezone(timezone(timedelta(hours=2))))
        assert [r.did for r in await do(tables, again, now=NOW + DAY)] == ["nothing"]
        assert [r.did for r in await do(tables, change("t1", sources=(said("still to do"),)))] == ["confirmed"]
        assert [r.did for r in await do(tables, change("unknown", status="done"))] == ["nothing"]
        assert (await one(tables)).updated_at == NOW

    async def test_a_field_can_be_emptied(self, tables: Tables) -> None:
        await do(tables, create_task("t1", deadline=NOW, schedule="FREQ=DAILY", contact_id=0))
        await do(tables, change("t1", deadline=None, schedule=None, contact_id=None))
        task = await one(tables)
        assert (task.deadline, task.schedule, task.contact_id) == (None, None, None)

    async def test_a_new_name_is_a_new_key(self, tables: Tables) -> None:
        await do(tables, create_task("t1", "call the dentist"), create_task("t2", "buy milk", name="Buy milk"))
        await do(tables, change("t1", name="Call the  DOCTOR"))
        [result] = await do(tables, create_task("t3", "call the doctor"))
        assert (result.task_id, result.did) == ("t1", "confirmed")
        [result] = await do(tables, create_task("t4", "call the dentist"))
        assert (result.task_id, result.did) == ("t4", "created")
        [result] = await do(tables, change("t2", name="Something else", key="call the doctor"))
        assert result.did == "nothing"
        assert (await one(tables, "t2")).name == "Buy milk"

    async def test_one_that_is_taken_up_again_finds_its_place_taken(self, tables: Tables) -> None:
        await do(tables, create_task("t1", "call"), change("t1", status="done"), create_task("t2", "call"))
        assert [r.did for r in await do(tables, change("t1", status="open"))] == ["nothing"]
        await do(tables, change("t2", status="cancelled"))
        assert [r.did for r in await do(tables, change("t1", status="open"))] == ["updated"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"status": "waiting"},
            {"priority": "asap"},
            {"deadline": "tomorrow-canary"},
            {"deadline": NOW.replace(tzinfo=None)},
            {"schedule": "every canary"},
            {"name": ""},
            {"name": "canary" * 100},
            {"task_id": "t2"},
            {"created_at": NOW},
            {"shoe": "canary"},
            {"contact_id": 77},
        ],
        ids=str,
    )
    async def test_what_a_task_cannot_have_is_refused_and_nothing_is_written(self, tables: Tables, wrong: dict[str, Any]) -> None:
        await do(tables, create_task("t1"))
        with pytest.raises(InvalidInput) as caught:
            await do(tables, create_task("t2"), change("t1", effect="e", description="new"), UpdateTask("w", "t1", wrong))
        assert "canary" not in str(caught.value)
        assert caught.value.__context__ is None or "canary" not in str(caught.value.__context__)
        assert [task.task_id for task in await tables.tasks.list(ANN)] == ["t1"]
        [result] = await do(tables, change("t1", effect="e", description="new"))
        assert (result.did, result.repeated) == ("updated", False)

    async def test_a_schedule_is_kept_in_one_form(self, tables: Tables) -> None:
        await do(tables, create_task("t1", schedule="RRULE:freq=daily; interval=2"))
        assert (await one(tables)).schedule == "FREQ=DAILY;INTERVAL=2"
        await do(tables, change("t1", schedule="freq=weekly;byday=mo"))
        assert (await one(tables)).schedule == "FREQ=WEEKLY;BYDAY=MO"
        with pytest.raises(InvalidInput, match="schedule"):
            await do(tables, create_task("t2", schedule="whenever"))


class TestContactsOfTasks:
    async def test_a_contact_that_was_merged_is_the_one_it_is_now(self, tables: Tables) -> None:
        people = [CreateContact("a", {"first_name": "Bo"}), CreateContact("b", {"first_name": "Robert"}), MergeContacts("m", 2, 3)]
        await tables.contacts.apply(ANN, people, origin="manual", now=NOW)
        await do(tables, create_task("t1", contact_id=3), create_task("t2"), change("t2", contact_id=3))
        assert [task.contact_id for task in await tables.tasks.list(ANN, contact_id=2)] == [2, 2]

    async def test_one_that_is_not_there_is_refused(self, tables: Tables) -> None:
        await tables.contacts.apply(BOB, [CreateContact("a", {"first_name": "Bo"})], origin="manual", now=NOW)
        with pytest.raises(InvalidInput, match="no contact 2"):
            await do(tables, create_task("t1", contact_id=2))
        assert await tables.tasks.list(ANN, contact_id=2) == []


class TestLists:
    async def test_filters_newest_first(self, tables: Tables) -> None:
        await do(
            tables,
            *(
                create_task(
                    f"t{n}",
                    status=status,
                    deadline=NOW + n * DAY if n else None,
                    contact_id=n % 2,
                    created_at=NOW + n * DAY,
                    sources=(said(f"q{n}"),),
                )
                for n, status in enumerate(TaskStatus)
            ),
        )

        async def ids(**asked: Any) -> list[str]:
            return [task.task_id for task in await tables.tasks.list(ANN, **asked)]

        assert await ids() == ["t3", "t2", "t1", "t0"]
        assert await ids(statuses=LIVE_STATUSES) == ["t1", "t0"]
        assert await ids(statuses=[]) == []
        assert await ids(contact_id=1) == ["t3", "t1"]
        assert await ids(due_before=NOW + 2 * DAY) == ["t1"]
        [task] = await tables.tasks.list(ANN, statuses=[TaskStatus.OPEN], sources=True)
        assert [source.quote for source in task.sources] == ["q0"]
        with pytest.raises(InvalidInput, match="time zone"):
            await ids(due_before=NOW.replace(tzinfo=None))

    async def test_pages(self, tables: Tables) -> None:
        await do(tables, *(create_task(f"t{n}", created_at=NOW + (n // 4) * DAY) for n in range(11)))
        seen: list[str] = []
        while page := await tables.tasks.list(ANN, limit=3, after=seen[-1] if seen else None):
            seen += [task.task_id for task in page]
        assert len(seen) == len(set(seen)) == 11
        assert seen[:3] == ["t9", "t8", "t10"]
        behind = await tables.tasks.list(ANN, limit=2, after=Position(NOW + 2 * DAY, "t8"))
        assert [task.task_id for task in behind] == ["t10", "t7"]
        with pytest.raises(InvalidInput, match="cannot go on after"):
            await tables.tasks.list(ANN, after="unknown")


TASK_IDS = st.sampled_from(["a", "b", "c"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("create"), TASK_IDS, TASK_IDS, st.sampled_from(TaskStatus), st.sampled_from(TaskPriority)),
        st.tuples(st.just("update"), TASK_IDS, st.sampled_from(TaskStatus)),
        st.tuples(st.just("rename"), TASK_IDS, TASK_IDS),
    ),
    min_size=1,
    max_size=8,
)
_numbers = itertools.count()


def made(described: Sequence[tuple[Any, ...]]) -> list[CreateTask | UpdateTask]:
    changes: list[CreateTask | UpdateTask] = []
    for number, (what, *rest) in enumerate(described):
        if what == "create":
            fields = {"status": rest[2], "priority": rest[3], "sources": (said(f"q{number}"),)}
            changes.append(create_task(rest[0], rest[1], effect=str(number), name=rest[1], **fields))
        else:
            field = {"status": rest[1]} if what == "update" else {"name": rest[1]}
            changes.append(UpdateTask(str(number), rest[0], field, (said(f"u{number}"),)))
    return changes


class TestEffects:
    async def test_a_retry_after_a_lost_answer_gives_the_first_result(self, tables: Tables) -> None:
        changes = [create_task("t1", "call"), change("t1", status="done"), create_task("t2", "call"), change("unknown")]
        with pytest.raises(StoreUnavailable):
            await losing(tables.tasks).apply(ANN, changes, now=NOW)
        results = await do(tables, *changes, now=NOW + DAY)
        assert [(r.task_id, r.did, r.repeated) for r in results] == [
            ("t1", "created", True),
            ("t1", "updated", True),
            ("t2", "created", True),
            ("unknown", "nothing", True),
        ]
        assert {task.task_id: task.updated_at for task in await tables.tasks.list(ANN)} == {"t1": NOW, "t2": NOW}

    @given(described=CHANGES, data=st.data())
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    async def test_repeats_in_any_order_change_nothing(
        self, tables: Tables, described: Sequence[tuple[Any, ...]], data: st.DataObject
    ) -> None:
        number = next(_numbers)
        plain, retried = (Scope.of(f"{name}{number}", "ann") for name in ("plain", "retried"))
        changes = made(described)
        expected = [(await tables.tasks.apply(plain, [one], now=NOW))[0] for one in changes]
        first: dict[str, Any] = {}
        for place in range(len(changes)):
            again = data.draw(st.lists(st.integers(0, place), max_size=3))
            batch = [changes[at] for at in (*again, place)] + [changes[at] for at in again]
            if data.draw(st.booleans()):
                with pytest.raises(StoreUnavailable):
                    await losing(tables.tasks).apply(retried, batch, now=NOW)
            for result in await tables.tasks.apply(retried, batch, now=NOW):
                assert first.setdefault(result.effect, (result.task_id, result.did)) == (result.task_id, result.did)
        assert [(r.task_id, r.did) for r in expected] == list(first.values())
        ends = [await tables.tasks.list(scope, sources=True) for scope in (plain, retried)]
        assert ends[0] == ends[1]
        live = [task.name for task in ends[0] if task.status in LIVE_STATUSES]
        assert len(live) == len(set(live))


async def test_the_same_task_from_many_writers_is_one(sql_url: str) -> None:
    both = [build_tables(sql_url), build_tables(sql_url)]
    try:
        results = await asyncio.gather(
            *(
                both[n % 2].tasks.apply(ANN, [create_task(f"t{n}", "call", sources=(said(f"q{n}", f"event {n}"),))], now=NOW)
                for n in range(12)
            )
        )
        assert sorted(result.did for [result] in results) == ["confirmed"] * 11 + ["created"]
        [task] = await both[0].tasks.list(ANN, sources=True)
        assert len(task.sources) == 12
    finally:
        for made_tables in both:
            await made_tables.aclose()
