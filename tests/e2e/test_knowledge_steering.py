"""Knowledge loops as an orchestrator has them: asked, watched, steered, stopped, found again. Real engines, a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from temporalio.client import Client

from memory.model.errors import InvalidInput, LoopEnded, MemoryUnavailable, NotPermitted
from memory.model.knowledge import AddRows
from memory.model.knowledge_loop import EntryKind, Limits, LoopState
from memory.model.scope import Scope
from starter import MemoryClient
from starter.client_parts import shared_parts
from tests.support.loop_model import QUESTION_ANSWER, Call, LoopModel
from tests.support.stack import Stack, StartStack
from tests.support.waiting import until

BIG = "x" * (3 * 1024 * 1024)
CREATE: Call = ("create_table", {"name": "Cars", "columns": {"model": "str", "range_km": "int"}})


def add(*models: str) -> Call:
    return ("add_rows", {"table": "Cars", "rows": [{"model": name, "range_km": 400} for name in models]})


LOOK: Call = ("tables_overview", {})
CLARIFY: Call = ("request_clarification", {"question": "Which model do you mean?"})


async def cars(s: Stack, who: Scope) -> list[str]:
    """What the table holds, in order of its keys; empty where there is none."""
    tables = {table.name: table for table in await s.memory.knowledge.tables(who)}
    if "Cars" not in tables:
        return []
    return [row["model"] async for row in s.memory.knowledge.export(who, "Cars")]


def other_client(s: Stack, temporal: Callable[[], Any] | None = None) -> MemoryClient:
    """A client that knows nothing of the first one."""

    parts = shared_parts(s.parts, s.client)
    if temporal is not None:
        parts = replace(parts, temporal=temporal)
    return MemoryClient.from_parts(s.settings, parts)


class Held:
    """Tables in which the next write or look waits."""

    def __init__(self) -> None:
        self.inner: Any = None
        self.method = ""
        self.begun, self.release = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.inner, name)
        if name != self.method:
            return member

        async def held(*args: Any, **given: Any) -> Any:
            if isinstance(args[-1], AddRows) or self.method != "write":
                self.begun.set()
                await self.release.wait()
            return await member(*args, **given)

        return held


# --------------------------------------------------------------------------------------------------------------- operations


async def test_an_update_is_a_loop_whose_every_step_can_be_read(stack: StartStack) -> None:
    model = LoopModel([[CREATE, add("Leaf")], [add("Zoe", "e-Golf"), LOOK], "Three cars are in the table now."])
    async with stack(model=model) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Put the Leaf, the Zoe and the e-Golf into a table of cars.")
        answer = await handle.result(60)
        assert (answer.ok, str(answer), answer.steps) == (True, "Three cars are in the table now.", 3)
        assert (answer.input_tokens, answer.output_tokens) == (300, 30)
        assert await handle.done()
        assert await cars(s, who) == ["Leaf", "Zoe", "e-Golf"]
        history = await handle.history()
        assert [entry.key for entry in history if entry.kind is EntryKind.RESULT] == [
            "result/1/0", "result/1/1", "result/2/0", "result/2/1",
        ]  # fmt: skip
        assert not any(entry.body["is_error"] for entry in history if entry.kind is EntryKind.RESULT)
        steps = await handle.steps()
        assert [line.calls for line in steps.lines] == [("create_table", "add_rows"), ("add_rows", "tables_overview"), ()]
        used = await s.memory.usage(who)
        assert {row.stage for row in used.rows} == {"knowledge.update"}
        assert used.total.input_tokens == 300


async def test_a_question_changes_nothing_whatever_the_model_tries(stack: StartStack) -> None:
    async with stack(model=LoopModel([[CREATE, add("Leaf")], "Done."])) as s:
        who = s.user()
        await (await s.memory.knowledge.update(who, "Cars.")).result(60)
        wanted = [[add("Zoe"), ("delete_tables", {"tables": ["Cars"]}), ("drop", {}), LOOK], "Nothing was changed."]
        s.parts.models.chat = LoopModel(wanted)  # type: ignore[attr-defined]
        handle = await s.memory.knowledge.ask(who, "Delete the table of cars, and add the Zoe.")
        answer = await handle.result(60)
        assert answer.state is LoopState.DONE
        results = [entry.body for entry in await handle.history() if entry.kind is EntryKind.RESULT]
        assert sorted((one["name"], one["is_error"]) for one in results) == [
            ("add_rows", True), ("delete_tables", True), ("drop", True), ("tables_overview", False),
        ]  # fmt: skip
        assert await cars(s, who) == ["Leaf"]
        assert (await handle.steps()).lines[0].calls == (
            "add_rows",
            "delete_tables",
            "unknown",
            "tables_overview",
        )


async def test_an_answer_is_put_into_the_form_that_was_asked_for(stack: StartStack) -> None:
    form = {"type": "object", "properties": {"cars": {"type": "integer"}}, "required": ["cars"]}
    model = LoopModel(["There are three cars."], structured=["three", '{"cars": "three"}', '{"cars": 3}'])
    async with stack(model=model) as s:
        failed = await (await s.memory.knowledge.ask(s.user(), "How many cars?", response_format=form)).result(60)
        assert (failed.state, failed.reason, failed.structured) == (LoopState.FAILED, "response_format", None)
        answer = await (await s.memory.knowledge.ask(s.user(), "How many cars?", response_format=form)).result(60)
        assert (answer.structured, answer.text, answer.steps) == ({"cars": 3}, "There are three cars.", 2)
        for wrong in ({"type": "nonsense"}, {"x": "y" * 40_000}, {"a": object()}):
            with pytest.raises(InvalidInput, match="response_format"):
                await s.memory.knowledge.ask(s.user(), "How many?", response_format=wrong)


async def test_an_answer_that_is_corrected_while_it_is_put_into_its_form_is_given_anew(stack: StartStack) -> None:
    form = {"type": "object", "properties": {"cars": {"type": "integer"}}, "required": ["cars"]}
    hold = asyncio.Event()
    model = LoopModel(["Three.", '{"cars": 4}'], structured=['{"cars": 3}'], form_hold=hold)
    async with stack(model=model) as s:
        handle = await s.memory.knowledge.ask(s.user(), "How many cars?", response_format=form)
        await until(lambda: len(model.requests) == 2)
        await handle.interject("Count my wife's car too.")
        hold.set()
        answer = await handle.result(60)
        assert (answer.structured, answer.steps) == ({"cars": 4}, 3)
        assert "my wife's car" in model.shown(3)


async def test_a_loop_within_a_loop_answers_the_one_that_asked(stack: StartStack) -> None:
    script = [[CREATE, ("ask", {"text": "(nested) How many cars are there?"})], "As it is said."]
    model = LoopModel(script, nested=[[LOOK], "There are none yet."])
    async with stack(model=model) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Cars.", loop_id="outer")
        answer = await handle.result(60)
        assert answer.state is LoopState.DONE
        loops = {loop.loop_id: loop for loop in await s.memory.knowledge.loops(who)}
        assert set(loops) == {"outer", "outer.1.1"}
        assert (loops["outer.1.1"].parent, loops["outer.1.1"].answer) == ("outer", "There are none yet.")
        result = next(entry for entry in await handle.history() if entry.key == "result/1/1")
        assert json.loads(result.body["content"]) == {"answer": "There are none yet."}
        assert answer.input_tokens == 400


async def test_contacts_and_tasks_are_asked_in_words_too(stack: StartStack) -> None:
    async with stack(model=LoopModel(["Nobody yet."])) as s:
        who = s.user()
        for verb in (s.memory.contacts.ask, s.memory.contacts.update, s.memory.tasks.ask, s.memory.tasks.update):
            assert str(await (await verb(who, "Whom do I know?")).result(60)) == "Nobody yet."
        assert {loop.operation.value for loop in await s.memory.knowledge.loops(who)} == {
            "contacts.ask", "contacts.update", "tasks.ask", "tasks.update",
        }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------ steering


async def test_pause_holds_and_resume_goes_on(stack: StartStack) -> None:
    hold = asyncio.Event()
    model = LoopModel([[CREATE], [add("Leaf")], "Done."], holds={1: hold})
    async with stack(model=model) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Cars.")
        await until(lambda: model.reached == [1])
        await handle.pause()
        hold.set()

        async def rests() -> bool:
            return (await handle.status()).doing == "paused"

        await until(rests)
        assert await cars(s, who) == []
        with pytest.raises(TimeoutError):
            await handle.result(0.2)
        await handle.resume()
        assert (await handle.result(60)).ok
        assert await cars(s, who) == ["Leaf"]


async def test_an_interjection_is_heard_before_anything_is_written(stack: StartStack) -> None:
    hold = asyncio.Event()
    model = LoopModel([[CREATE], [add("Leav")], [add("Leaf")], "Done."], holds={2: hold})
    async with stack(model=model) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Put the Leav into a table of cars.")
        await until(lambda: 2 in model.reached)
        await handle.interject("I mean the Leaf, with an f.")
        hold.set()
        assert (await handle.result(60)).ok
        assert await cars(s, who) == ["Leaf"]
        assert "with an f" in model.shown(3)
        overtaken = next(entry for entry in await handle.history() if entry.key == "result/2/0")
        assert (overtaken.body["is_error"], overtaken.body["code"]) == (True, "overtaken")


async def test_an_interjection_that_meets_the_answer_is_read_and_answered(stack: StartStack) -> None:
    hold = asyncio.Event()
    model = LoopModel(["There is one car.", "There are two cars."], holds={1: hold})
    async with stack(model=model) as s:
        handle = await s.memory.knowledge.ask(s.user(), "How many cars?")
        await until(lambda: model.reached == [1])
        await handle.interject("Count my wife's car too.")
        hold.set()
        assert str(await handle.result(60)) == "There are two cars."


@pytest.mark.parametrize("method", ["write", "tables"])
async def test_a_stop_while_a_tool_runs_leaves_the_tables_whole(stack: StartStack, method: str) -> None:
    """A write that has begun ends, and its result is in the history; a read is given up."""
    held = Held()
    hold = asyncio.Event()
    model = LoopModel([[CREATE], [LOOK, add("Leaf", "Zoe"), add("e-Golf")], "Done."], holds={2: hold})
    async with stack(model=model, parts={"knowledge": held}) as s:
        held.inner = (await _real_tables(s)).knowledge
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Cars.")
        await until(lambda: 2 in model.reached)
        held.method = method
        hold.set()
        await asyncio.wait_for(held.begun.wait(), 30)
        assert await handle.stop("enough of it") is None
        if method == "write":
            held.release.set()
        answer = await handle.result(60)
        held.release.set()
        held.method = ""
        assert (answer.state, answer.reason) == (LoopState.STOPPED, "stopped")
        assert "enough of it" in answer.text
        results = {entry.key: entry.body["code"] for entry in await handle.history() if entry.kind is EntryKind.RESULT}
        if method == "write":
            assert await cars(s, who) == ["Leaf", "Zoe"]
            assert results == {"result/1/0": None, "result/2/0": None, "result/2/1": None, "result/2/2": "stopped"}
        else:
            assert await cars(s, who) == []
        for late in (handle.pause(), handle.resume(), handle.interject("one more"), handle.answer_clarification("x", "y")):
            with pytest.raises(LoopEnded):
                await late
        assert (await handle.stop()) == answer


async def _real_tables(s: Stack) -> Any:
    from memory.stores.tables import build_tables

    return build_tables(s.settings)


async def test_a_question_of_the_loop_is_answered_from_elsewhere(stack: StartStack) -> None:
    model = LoopModel([[CREATE], [CLARIFY], [add("Zoe")], "The Zoe."])
    async with stack(model=model) as s:
        who = s.user()
        begun = await s.memory.knowledge.update(who, "Put the small one into a table of cars.", clarify=True)
        async with other_client(s) as elsewhere:
            handle = await elsewhere.knowledge.attach(who, begun.loop_id)
            asked = await handle.next_clarification(30)
            assert asked is not None
            assert asked.question == "Which model do you mean?"
            assert await handle.next_clarification(0.1) is None
            with pytest.raises(InvalidInput, match="no open question"):
                await handle.answer_clarification("clarification/9/9", "The Zoe.")
            await handle.answer_clarification(asked.clarification_id, "The Zoe.")
            assert str(await handle.result(60)) == "The Zoe."
            assert await handle.next_clarification() is None
        assert "The Zoe." in model.shown(3)
        assert await cars(s, who) == ["Zoe"]


async def test_without_an_answer_in_time_or_without_a_listener_the_loop_goes_on(stack: StartStack) -> None:
    model = LoopModel([[CREATE], [CLARIFY], "I took the Zoe."])
    async with stack(model=model) as s:
        waited = await s.memory.knowledge.update(s.user(), "The small one.", clarify=True, limits=Limits(clarification_wait_s=0.2))
        assert (await waited.result(60)).ok
        assert "no answer in time" in model.shown(3)
        alone = await s.memory.knowledge.update(s.user(), "The small one.")
        assert (await alone.result(60)).ok
        assert "nobody can be asked" in model.shown(6)


async def test_side_questions_are_answered_while_it_runs_and_afterwards(stack: StartStack) -> None:
    hold = asyncio.Event()
    model = LoopModel([[CREATE], "Done."], holds={1: hold})
    async with stack(model=model) as s:
        handle = await s.memory.knowledge.update(s.user(), "Cars.")
        await until(lambda: model.reached == [1])
        assert await handle.ask("How far are you?") == QUESTION_ANSWER
        hold.set()
        assert (await handle.result(60)).steps == 2
        assert await handle.ask("How did you do it?") == QUESTION_ANSWER
        asked = [entry.body["text"] for entry in await handle.history() if entry.kind is EntryKind.SIDE_QUESTION]
        assert asked == ["How far are you?", "How did you do it?"]
        # The loop's own model heard nothing of it.
        loop = [request for request in model.requests if request.stage == "knowledge.update"]
        assert not any("How far" in message.text for request in loop for message in request.messages)


async def test_notifications_come_once_each_in_order(stack: StartStack) -> None:
    async with stack(model=LoopModel([[CREATE], [LOOK], "Done."])) as s:
        handle = await s.memory.knowledge.update(s.user(), "Cars.")
        told = [await handle.next_notification(30), await handle.next_notification(30)]
        assert [one.text for one in told if one] == ["Let me see."] * 2
        assert await handle.next_notification() is None


# --------------------------------------------------------------------------------------------------- recorded, started, found


async def test_without_temporal_a_loop_is_recorded_and_started_later(stack: StartStack) -> None:
    async def away() -> Client:
        raise MemoryUnavailable("Temporal is away")

    async with stack(model=LoopModel([[CREATE, add("Leaf")], "Done."])) as s:
        who = s.user()
        async with other_client(s, temporal=away) as cut_off:
            for _ in range(2):
                with pytest.raises(MemoryUnavailable, match="is recorded and not started"):
                    await cut_off.knowledge.update(who, "Cars.", loop_id="later")
        (loop,) = await s.memory.knowledge.loops(who, running=True)
        assert (loop.loop_id, loop.state) == ("later", LoopState.RUNNING)
        handle = await s.memory.knowledge.attach(who, "later")
        assert (await handle.result(60)).ok
        assert await cars(s, who) == ["Leaf"]
        told = await handle.next_notification()
        assert told is not None
        assert "not started" in told.text
        with pytest.raises(InvalidInput, match="another request"):
            await s.memory.knowledge.update(who, "Bicycles.", loop_id="later")
        again = await s.memory.knowledge.update(who, "Cars.", loop_id="later")
        assert (await again.result(60)).ok
        assert await cars(s, who) == ["Leaf"]


async def test_a_loop_that_was_never_started_can_be_stopped(stack: StartStack) -> None:
    async with stack(model=LoopModel(["Done."]), workers=False) as s:
        who = s.user()
        handle = await s.memory.knowledge.ask(who, "How many?")
        await s.client.get_workflow_handle(handle.workflow_id).terminate()
        stopped = await handle.stop("not needed")
        assert stopped is not None
        assert stopped.state is LoopState.STOPPED
        assert await handle.done()


async def test_a_terminated_run_is_taken_up_again_where_it_was(stack: StartStack) -> None:
    hold = asyncio.Event()
    model = LoopModel([[CREATE, add("Leaf")], [add("Zoe")], "Done."], holds={2: hold})
    async with stack(model=model) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Cars.")
        await until(lambda: 2 in model.reached)
        await s.client.get_workflow_handle(handle.workflow_id).terminate()
        with pytest.raises(MemoryUnavailable, match="attach"):
            await handle.result(30)
        hold.set()
        again = await s.memory.knowledge.attach(who, handle.loop_id)
        assert (await again.result(60)).steps == 3
        assert await cars(s, who) == ["Leaf", "Zoe"]
        assert model.reached.count(1) == 1


async def test_what_a_lost_run_was_told_counts_in_the_next_one(stack: StartStack) -> None:
    """It was paused with a write that the caller's correction has overtaken: the new run is paused too, and does not make it."""
    hold = asyncio.Event()
    model = LoopModel([[CREATE], [add("Leav")], [add("Leaf")], "Done."], holds={2: hold})
    async with stack(model=model) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Put the Leav into a table of cars.")
        await until(lambda: 2 in model.reached)
        await handle.pause()
        await handle.interject("I mean the Leaf, with an f.")
        hold.set()

        async def rests() -> bool:
            return (await handle.status()).doing == "paused"

        await until(rests)
        await s.client.get_workflow_handle(handle.workflow_id).terminate()
        handle = await s.memory.knowledge.attach(who, handle.loop_id)
        await until(rests)
        assert await cars(s, who) == []
        await handle.resume()
        assert (await handle.result(60)).ok
        assert await cars(s, who) == ["Leaf"]


async def test_an_answer_that_came_while_nothing_ran_is_used(stack: StartStack) -> None:
    model = LoopModel([[CREATE], [CLARIFY], [add("Zoe")], "The Zoe."])
    async with stack(model=model) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Put the small one into a table of cars.", clarify=True)
        asked = await handle.next_clarification(30)
        assert asked is not None
        await s.client.get_workflow_handle(handle.workflow_id).terminate()
        with pytest.raises(MemoryUnavailable, match="attach"):
            await handle.answer_clarification(asked.clarification_id, "The Zoe.")
        handle = await s.memory.knowledge.attach(who, handle.loop_id)
        assert str(await handle.result(60)) == "The Zoe."
        assert "The Zoe." in model.shown(3)
        assert await cars(s, who) == ["Zoe"]


async def test_a_long_loop_continues_as_new_and_ends_the_same(stack: StartStack) -> None:
    model = LoopModel([[CREATE], [add("Leaf")], [add("Zoe")], [add("e-Golf")], "Done."])
    async with stack(model=model, knowledge_continue_after_steps=2) as s:
        who = s.user()
        handle = await s.memory.knowledge.update(who, "Cars.")
        assert (await handle.result(60)).steps == 5
        assert (await handle.steps()).runs == 3
        assert await cars(s, who) == ["Leaf", "Zoe", "e-Golf"]


# ------------------------------------------------------------------------------------------------------- limits and refusals


async def test_a_limit_ends_a_loop_with_an_answer(stack: StartStack) -> None:
    async with stack(model=LoopModel([[LOOK]])) as s:
        handle = await s.memory.knowledge.ask(s.user(), "How many?", limits=Limits(steps=3))
        answer = await handle.result(60)
        assert (answer.state, answer.reason, answer.text) == (LoopState.LIMIT, "steps", "Stopped short before 1 calls.")


async def test_memory_that_is_off_and_a_spent_day_begin_nothing(stack: StartStack) -> None:
    async with stack(model=LoopModel(["Done."]), daily_token_cap=50) as s:
        who = s.user()
        await s.memory.set_preference(who, allow_user_memory=False)
        off = await (await s.memory.knowledge.ask(who, "How many?")).result(60)
        assert (off.state, off.reason, off.steps) == (LoopState.FAILED, "user_opted_out", 0)
        await s.memory.set_preference(who, allow_user_memory=True)
        assert (await (await s.memory.knowledge.ask(who, "How many?")).result(60)).ok
        spent = await (await s.memory.knowledge.ask(who, "How many?")).result(60)
        assert (spent.state, spent.reason) == (LoopState.FAILED, "spend_cap_reached")
        assert "tomorrow" in spent.text


async def test_texts_that_are_too_large_are_refused_before_anything_is_recorded(stack: StartStack) -> None:
    hold = asyncio.Event()
    async with stack(model=LoopModel([[LOOK], "Done."], holds={1: hold})) as s:
        who = s.user()
        knowledge = s.memory.knowledge
        wrong: list[dict[str, Any]] = [
            {"text": BIG},
            {"text": "   "},
            {"text": "?", "case_specific_instructions": BIG},
            {"text": "?", "context": [{"role": "user", "content": BIG}]},
            {"text": "?", "context": [{"role": "user", "content": "?"}] * 51},
            {"text": "?", "context": [{"role": "nobody", "content": "?"}]},
            {"text": "?", "loop_id": "../../x"},
            {"text": "?", "limits": Limits(steps=1)},
            {"text": "?", "limits": Limits(wall_s=float("nan"))},
            {"text": "?", "limits": Limits(steps=2.5)},  # type: ignore[arg-type]
            {"text": "?", "limits": {"steps": 3}},
            {"text": "?", "destination": "elsewhere"},
        ]
        for given in wrong:
            with pytest.raises(InvalidInput) as refused:
                await knowledge.update(who, **given)
            assert len(refused.value.message) < 300
        assert await knowledge.loops(who) == ()
        handle = await knowledge.ask(who, "How many?")
        for said in (handle.interject(BIG), handle.ask(BIG), handle.stop(BIG), handle.answer_clarification("x", BIG)):
            with pytest.raises(InvalidInput, match="longer than"):
                await said
        hold.set()
        assert (await handle.result(60)).ok


async def test_a_destination_is_a_team_where_the_user_may_write(stack: StartStack) -> None:
    async with stack(model=LoopModel([[CREATE, add("Leaf")], "Done."])) as s:
        who, colleague, stranger = s.user(), s.user(), s.user()
        await s.memory.set_teams(who, ["fleet", "board"], read_only=["board"])
        await s.parts.directory.set_teams(colleague, ["fleet"])
        handle = await s.memory.knowledge.update(who, "Cars.", destination="team:fleet")
        assert (await handle.result(60)).ok
        assert await cars(s, colleague) == ["Leaf"]
        assert await cars(s, stranger) == []
        with pytest.raises(NotPermitted):
            await s.memory.knowledge.update(who, "Cars.", destination="team:board")
        for user in (stranger, who):
            with pytest.raises(InvalidInput, match="there is no team"):
                await s.memory.knowledge.update(user, "Cars.", destination="team:fleet" if user is stranger else "team:nowhere")


async def test_members_of_a_team_may_choose_the_same_loop_id(stack: StartStack) -> None:
    """The second one's rows are its own write, whatever the first one wrote in the same step of a loop of that name."""
    async with stack(model=LoopModel([[CREATE], [add("Leaf")], "Done."])) as s:
        who, colleague = s.user(), s.user()
        for user in (who, colleague):
            await s.parts.directory.set_teams(user, ["fleet"])
        first = await s.memory.knowledge.update(who, "Cars.", destination="team:fleet", loop_id="daily")
        assert (await first.result(60)).ok
        s.parts.models.chat = LoopModel([[LOOK], [add("Zoe")], "Done."])  # type: ignore[attr-defined]
        second = await s.memory.knowledge.update(colleague, "Cars.", destination="team:fleet", loop_id="daily")
        assert (await second.result(60)).ok
        assert await cars(s, who) == ["Leaf", "Zoe"]


async def test_nobody_finds_the_loop_of_another_user(stack: StartStack) -> None:
    async with stack(model=LoopModel(["Done."])) as s:
        who = s.user()
        handle = await s.memory.knowledge.ask(who, "How many?")
        await handle.result(60)
        for other in (s.user(), Scope.of("elsewhere", who.user_id)):
            with pytest.raises(InvalidInput, match="there is no loop"):
                await s.memory.knowledge.attach(other, handle.loop_id)


async def test_rows_come_in_and_go_out(stack: StartStack) -> None:
    async with stack(workers=False) as s:
        who = s.user()
        rows = [{"model": f"M{number}", "range_km": number} for number in range(1_200)]
        for added in (1_200, 0):
            assert await s.memory.knowledge.import_rows(who, "Cars", rows, import_id="one") == added
        assert await cars(s, who) == [row["model"] for row in rows]
        with pytest.raises(InvalidInput, match="rows 1 to 1"):
            await s.memory.knowledge.import_rows(who, "Cars", [{"id": 1}])
