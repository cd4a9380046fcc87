"""Tasks on real stores: never a second copy, deadlines, schedules, contacts, changes of known ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from memory.model.category import Category
from memory.model.task import TaskPriority, TaskStatus
from tests.support.extracted import Memory, open_memory

T = Category.TASKS


@pytest.fixture
async def memory(sql_url: str) -> AsyncIterator[Memory]:
    async with open_memory(sql_url) as made:
        yield made


async def ask(memory: Memory, text: str, name: str, **fields: Any) -> str:
    refs = fields.pop("refs", None)
    await memory.take(T, [text], {"action": "create", "name": name, **fields}, refs=refs)
    return (await memory.tasks())[-1].task_id


class TestCreate:
    async def test_with_all_that_was_said(self, memory: Memory) -> None:
        mara = await memory.add_contact("mara", first_name="Mara")
        text = "Please send Mara the contract by Friday, it's urgent."
        fields = {
            "description": text,
            "priority": "urgent",
            "deadline": "2026-06-19",
            "contact": "c2",
            "tags": ["#work", "work", ""],
        }
        outcome = (
            await memory.take(T, [text], {"action": "create", "name": "Send Mara the contract", **fields}, refs={"c2": mara})
        ).outcome
        [task] = await memory.tasks()
        assert outcome.applied == 1
        assert (task.name, task.priority, task.status) == ("Send Mara the contract", TaskPriority.URGENT, TaskStatus.OPEN)
        assert (task.deadline, task.tags, str(task.contact_id)) == (datetime(2026, 6, 19, 23, 59, 59, tzinfo=UTC), ("work",), mara)
        assert [source.quote for source in task.sources] == [text]

    @pytest.mark.parametrize("wrong", ["2026-06-20", "2026-06-18T10:00:00Z", None])
    async def test_a_day_that_was_said_corrects_one_that_was_counted_wrongly(self, memory: Memory, wrong: str | None) -> None:
        await ask(memory, "Please send the signed lease by Friday.", "Send the signed lease", deadline=wrong)
        assert (await memory.tasks())[0].deadline == datetime(2026, 6, 19, 23, 59, 59, tzinfo=UTC)

    @pytest.mark.parametrize("wrong", ["1999-01-01", "2400-01-01", "soon", ""])
    async def test_an_implausible_deadline_is_none(self, memory: Memory, wrong: str) -> None:
        await ask(memory, "Please send the signed lease.", "Send the signed lease", deadline=wrong)
        assert (await memory.tasks())[0].deadline is None

    @pytest.mark.parametrize(
        ("rule", "stored"),
        [
            ("FREQ=WEEKLY;BYDAY=MO", "FREQ=WEEKLY;BYDAY=MO"),
            ("RRULE:freq=weekly", "FREQ=WEEKLY"),
            ("every monday", None),
            ("FREQ=SECONDLY", None),
        ],
    )
    async def test_a_schedule_is_a_rule_or_none(self, memory: Memory, rule: str, stored: str | None) -> None:
        await ask(memory, "Remind me every Monday to water the plants.", "Water the plants", schedule=rule)
        assert (await memory.tasks())[0].schedule == stored


class TestNeverASecondCopy:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Book a table at Vesta for six people", "book a table for six people at Vesta"),
            ("Send Mara the contract", "Send the contract to Mara"),
            ("Send Mara the contract", "Send Mara the contract today"),
            ("Mietvertrag unterschreiben", "Den Mietvertrag unterschreiben"),
            ("预订会议室", "预订会议室。"),
        ],
    )  # fmt: skip
    async def test_asked_again(self, memory: Memory, one: str, other: str) -> None:
        await ask(memory, f"Please: {one}", one)
        await ask(memory, f"Please: {other}, by 30 June", other, deadline="2026-06-30")
        [task] = await memory.tasks()
        assert task.deadline == datetime(2026, 6, 30, 23, 59, 59, tzinfo=UTC)
        assert len(task.sources) == 2

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Book a table at Vesta for six people", "Book a table at Vesta for eight people"),
            ("Send Mara the contract", "Send Tom the contract"),
            ("Pay the electrician's invoice", "Pay the plumber's invoice"),
            ("Sign the lease for Oslo", "Don't sign the lease for Oslo"),
        ],
    )  # fmt: skip
    async def test_another_one_is_another_one(self, memory: Memory, one: str, other: str) -> None:
        await ask(memory, f"Please: {one}", one)
        await ask(memory, f"Please: {other}", other)
        assert [task.name for task in await memory.tasks()] == [one, other]

    async def test_the_same_words_for_two_people(self, memory: Memory) -> None:
        mara, tom = await memory.add_contact("mara", first_name="Mara"), await memory.add_contact("tom", first_name="Tom")
        refs = {"c2": mara, "c3": tom}
        await ask(memory, "Please send Mara the signed lease.", "Send the signed lease", contact="c2", refs=refs)
        await ask(memory, "Please send Tom the signed lease.", "Send the signed lease", contact="c3", refs=refs)
        assert [str(task.contact_id) for task in await memory.tasks()] == [mara, tom]

    async def test_what_was_done_before_can_be_asked_for_again(self, memory: Memory) -> None:
        first = await ask(memory, "Please book a table at Vesta.", "Book a table at Vesta")
        await memory.take(
            T, ["The table at Vesta is booked."], {"action": "update", "task": "t1", "status": "done"}, refs={"t1": first}
        )
        await ask(memory, "Please book a table at Vesta.", "Book a table at Vesta")
        assert [task.status for task in await memory.tasks()] == [TaskStatus.DONE, TaskStatus.OPEN]


class TestChange:
    async def test_done_moved_and_cancelled(self, memory: Memory) -> None:
        first = await ask(memory, "Please book the dentist.", "Book the dentist")
        refs = {"t1": first}
        await memory.take(
            T,
            ["Move the dentist to Friday at 3 pm."],
            {"action": "update", "task": "t1", "deadline": "2026-06-19T15:00:00+00:00"},
            refs=refs,
        )
        assert (await memory.tasks())[0].deadline == datetime(2026, 6, 19, 15, tzinfo=UTC)
        await memory.take(T, ["Cancel the dentist."], {"action": "cancel", "task": "t1"}, refs=refs)
        [task] = await memory.tasks()
        assert (task.status, len(task.sources)) == (TaskStatus.CANCELLED, 3)

    async def test_a_new_description_does_not_swallow_the_old_one(self, memory: Memory) -> None:
        first = await ask(
            memory, "Please book a table at Vesta.", "Book a table at Vesta", description="Vegetarian menu for six people."
        )
        item = {"action": "update", "task": "t1", "description": "Ask for a terrace seat."}
        await memory.take(T, ["Ask for a terrace seat at Vesta."], item, refs={"t1": first})
        assert (await memory.tasks())[0].description == "Vegetarian menu for six people.\nAsk for a terrace seat."

    async def test_a_task_that_there_is_not_is_not_changed(self, memory: Memory) -> None:
        outcome = (await memory.take(T, ["It is done."], {"action": "update", "task": "t9", "status": "done"})).outcome
        assert outcome.dropped == {"unknown_ref": 1}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("You are responsible for sorting the mail.", "Sort the mail"),
        ("Your job is to answer the phone and book travel.", "Answer the phone"),
        ("Please remember that the parking deck closes at ten.", "Parking deck closes at ten"),
        ("Denk bitte daran, dass das Parkhaus um zehn schließt.", "Parkhaus schließt um zehn"),
        ("Du bist dafür zuständig, die Post zu sortieren.", "Post sortieren"),
        ("你负责整理邮件。", "整理邮件"),
        ("请记住停车场十点关门。", "停车场十点关门"),
        ("Could you fix that? Please make it better.", "Make it better"),
        ("Can you tell me how late it is in Tokyo?", "Tell the time in Tokyo"),
        ("I have already sent the contract.", "Send the contract"),
        ("It would be nice to see the sea some day.", "See the sea"),
    ],
)
async def test_no_commitment_no_task(sqlite_url: str, text: str, name: str) -> None:
    async with open_memory(sqlite_url) as memory:
        outcome = (await memory.take(T, [text], {"action": "create", "name": name})).outcome
        assert (outcome.dropped, await memory.tasks()) == ({"not_a_commitment": 1}, [])


@pytest.mark.parametrize(
    ("text", "quote", "name"),
    [
        ("Remember to call the dentist tomorrow.", "call the dentist", "Call the dentist"),
        ("Bitte schick dem Dachdecker die Baupläne.", "schick dem Dachdecker die Baupläne", "Baupläne an den Dachdecker schicken"),
        ("请帮我预订会议室。", "预订会议室", "预订会议室"),
        ("I will send you the lease by Friday.", "I will send you the lease", "Send the lease"),
        ("Could you send me the signed lease?", "send me the signed lease", "Send the signed lease"),
    ],
)
async def test_a_request_or_a_promise_is_one(sqlite_url: str, text: str, quote: str, name: str) -> None:
    async with open_memory(sqlite_url) as memory:
        await memory.take(T, [text], {"action": "create", "name": name, "evidence": [{"event": 1, "quote": quote}]})
        assert [task.name for task in await memory.tasks()] == [name]


async def test_a_quote_is_read_with_the_rest_of_its_sentence(sqlite_url: str) -> None:
    async with open_memory(sqlite_url) as memory:
        quote = {"event": 1, "quote": "sorting the mail"}
        outcome = (
            await memory.take(
                T, ["You are responsible for sorting the mail."], {"action": "create", "name": "Sort the mail", "evidence": [quote]}
            )
        ).outcome
        assert outcome.dropped == {"not_a_commitment": 1}
