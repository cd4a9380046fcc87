"""The steps of a knowledge loop, one by one, on a real store: bounded, paid once, written once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.knowledge import KnowledgeActivities
from activities.knowledge_desk import Desk, KnowledgeRules
from activities.knowledge_model import KnowledgeModelActivities
from memory.metering import Meter
from memory.model.knowledge_loop import MAX_ANSWER_BYTES, Entry, EntryKind, Loop, LoopState, Operation
from memory.model.knowledge_steps import (
    CallKind,
    FinishInput,
    LoopPlan,
    LoopRef,
    SettleInput,
    ThinkInput,
    ThinkReply,
    ToolInput,
)
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.tools import MAX_TOOL_CALLS, ToolCall
from memory.ports import ChatReply, StopReason, Usage
from memory.stores.tables import Tables, build_tables
from tests.support.models import ScriptedModel, ScriptedProvider

ANN = Scope.of("acme", "ann")
REF = LoopRef(user=UserRef.of(ANN), loop_id="loop")
STAGE = "knowledge.update"


def calls(*made: tuple[str, Any], text: str = "", stop: StopReason = StopReason.TOOLS) -> ChatReply:
    tool_calls = tuple(ToolCall("same", name, arguments, "raw") for name, arguments in made)
    return ChatReply(text, stop, Usage(10, 5), "scripted:test", tool_calls=tool_calls)


@dataclass
class Steps:
    """``think`` and ``use`` run the activities; ``entries`` is what is in the store."""

    tables: Tables
    model: ScriptedModel
    plan: LoopPlan = field(default_factory=lambda: LoopPlan(model="scripted"))

    def __post_init__(self) -> None:
        rules = KnowledgeRules("scripted", 60, 900, True, False)
        search: Any = None
        stores: Any = None
        self.desk = Desk(
            loops=self.tables.loops,
            tables=self.tables.knowledge,
            search=search,
            stores=stores,
            directory=self.tables.directory,
            rules=rules,
        )
        meter = Meter(self.tables.usage, cap=0)
        self.store = KnowledgeActivities(self.desk, meter)
        self.thinking = KnowledgeModelActivities(self.desk, ScriptedProvider(self.model), meter)

    async def think(self, step: int = 1, **fields: Any) -> ThinkReply:
        job = ThinkInput(ref=REF, step=step, plan=self.plan, **fields)
        return await ActivityEnvironment().run(self.thinking.think, job)

    async def use(self, reply: ThinkReply, index: int, step: int = 1) -> Any:
        call = reply.calls[index]
        job = ToolInput(ref=REF, step=step, index=index, name=call.name, kind=call.kind, entry=reply.entry)
        return await ActivityEnvironment().run(self.store.use_tool, job)

    async def finish(self, state: LoopState = LoopState.DONE, **fields: Any) -> Loop:
        await ActivityEnvironment().run(self.store.finish_loop, FinishInput(ref=REF, state=state, steps=1, **fields))
        return await self.desk.loop(REF)

    async def entries(self) -> dict[str, Entry]:
        return {entry.key: entry for entry in await self.tables.loops.entries(ANN, "loop")}


@pytest.fixture
async def tables() -> AsyncIterator[Tables]:
    tables = build_tables("sqlite://")
    yield tables
    await tables.aclose()


async def begun(tables: Tables, *replies: Any, **fields: Any) -> Steps:
    given = {"destination": "personal", "created_at": datetime.now(UTC), **fields}
    await tables.loops.open(ANN, Loop("loop", Operation.UPDATE, "Cars.", **given))
    said: Sequence[Any] = replies
    return Steps(tables, ScriptedModel({STAGE: list(said), "knowledge.structure": ["{}"], "knowledge.question": ["So far."]}))


async def test_a_reply_is_paid_once_and_a_repeat_gives_the_same(tables: Tables) -> None:
    steps = await begun(tables, calls(("tables_overview", {}), ("create_table", {"name": "Cars"})), "another")
    first, again = await steps.think(), await steps.think()
    assert len(steps.model.requests) == 1
    assert again.model_copy(update={"elapsed_ms": first.elapsed_ms}) == first
    assert [(call.name, call.kind) for call in first.calls] == [
        ("tables_overview", CallKind.READ),
        ("create_table", CallKind.WRITE),
    ]
    ids = [call["call_id"] for call in (await steps.entries())["model/1"].body["calls"]]
    assert len(set(ids)) == 2


async def test_a_write_is_made_once_however_often_its_step_runs(tables: Tables) -> None:
    steps = await begun(tables, calls(("create_table", {"name": "Cars"}), ("add_rows", {"table": "Cars", "rows": [{"a": 1}]})))
    reply = await steps.think()
    for _ in range(3):
        assert (await steps.use(reply, 0)).ok
        assert (await steps.use(reply, 1)).ok
    # In another process nothing is remembered.
    other = Steps(tables, steps.model)
    assert (await other.use(reply, 1)).ok
    (table,) = [one for one in await tables.knowledge.tables(_view()) if one.name == "Cars"]
    assert table.next_key == 1
    assert sorted(key for key in await steps.entries() if key.startswith("result/")) == ["result/1/0", "result/1/1"]


def _view() -> Any:
    from memory.model.owner import View

    return View(ANN)


async def test_calls_beyond_the_limit_or_of_no_tool_are_answered_at_once(tables: Tables) -> None:
    many = [("tables_overview", {})] * (MAX_TOOL_CALLS + 2)
    steps = await begun(tables, calls(("no_such_tool", {"secret": "text"}), *many))
    reply = await steps.think()
    refused = [call.index for call in reply.calls if call.kind is CallKind.REFUSED]
    assert refused == [0, MAX_TOOL_CALLS, MAX_TOOL_CALLS + 1, MAX_TOOL_CALLS + 2]
    assert reply.calls[0].name == ""
    entries = await steps.entries()
    assert all(entries[f"result/1/{index}"].body["is_error"] for index in refused)


async def test_arguments_that_no_store_takes_are_an_error_for_the_model(tables: Tables) -> None:
    large, broken = {"table": "Cars", "rows": [{"a": "x" * 700_000}]}, {"table": "Cars", "rows": [{"a": float("nan")}]}
    steps = await begun(tables, calls(("add_rows", large), ("add_rows", broken), ("tables_overview", {})))
    reply = await steps.think()
    assert [(await steps.use(reply, index)).error for index in range(3)] == ["bad_arguments", "bad_arguments", None]


async def test_an_empty_or_cut_reply_is_said_to_be_unusable_and_the_next_one_is_told(tables: Tables) -> None:
    cut = calls(("add_rows", {}), text="half an ans", stop=StopReason.LENGTH)
    steps = await begun(tables, "", cut, "Done.")
    assert [(await steps.think(1)).problem, (await steps.think(2, problem="empty")).problem] == ["empty", "truncated"]
    last = await steps.think(3, problem="truncated")
    assert (last.answered, last.problem) == (True, None)
    assert "was empty" in steps.model.requests[1].messages[-1].text
    assert "was cut off" in steps.model.requests[2].messages[-1].text
    assert (await steps.finish()).answer == "Done."


async def test_a_refusal_ends_the_step_for_good(tables: Tables) -> None:
    steps = await begun(tables, calls(text="I will not.", stop=StopReason.REFUSED))
    with pytest.raises(ApplicationError) as refused:
        await steps.think()
    assert (refused.value.type, refused.value.non_retryable) == ("ModelRejected", True)


async def test_the_last_step_calls_nothing(tables: Tables) -> None:
    steps = await begun(tables, calls(("tables_overview", {}), text="This far I came."))
    reply = await steps.think(last=True)
    assert (reply.calls, reply.answered) == ((), True)
    assert steps.model.requests[0].tool_choice == "none"
    loop = await steps.finish(LoopState.LIMIT, reason="steps")
    assert (loop.state, loop.answer) == (LoopState.LIMIT, "This far I came.")


async def test_an_answer_in_its_form_is_kept_and_one_that_is_too_large_is_told(tables: Tables) -> None:
    form = {"type": "object"}
    steps = await begun(tables, '{"n": 3}', response_format=form)
    assert not (await steps.think()).unstructured
    assert (await steps.finish()).structured == {"n": 3}
    await tables.loops.open(ANN, Loop("large", Operation.UPDATE, "?", "personal", datetime.now(UTC), response_format=form))
    text = '{"n": "' + "ä" * (MAX_ANSWER_BYTES // 2) + '"}'
    entry = Entry("model/1", EntryKind.MODEL, 1, {"text": text, "calls": []})
    await tables.loops.append(ANN, "large", [entry], now=datetime.now(UTC))
    ref = LoopRef(user=REF.user, loop_id="large")
    ended = await ActivityEnvironment().run(steps.store.finish_loop, FinishInput(ref=ref, state=LoopState.DONE))
    assert (ended.state, ended.reason) == (LoopState.FAILED, "answer_too_large")
    kept = await tables.loops.loop(ANN, "large")
    assert kept is not None
    assert (kept.state, kept.structured) == (LoopState.FAILED, None)
    assert (kept.answer or "").startswith(text[:100])


async def test_a_loop_that_has_ended_stays_as_it_ended(tables: Tables) -> None:
    steps = await begun(tables, "Done.")
    await steps.think()
    assert (await steps.finish()).state is LoopState.DONE
    assert (await steps.finish(LoopState.STOPPED, reason="stopped")).state is LoopState.DONE
    plan = await ActivityEnvironment().run(steps.store.begin_loop, REF)
    assert plan.refused == "ended"


async def test_an_answer_in_the_store_counts_although_nobody_told_the_workflow(tables: Tables) -> None:
    steps = await begun(tables, calls(("request_clarification", {"question": "Which?"})), clarify=True)
    reply = await steps.think()
    asked = await steps.use(reply, 0)
    assert asked.clarification == "clarification/1/0"
    answer = Entry("answer/clarification/1/0", EntryKind.ANSWER, 1, {"clarification": asked.clarification, "text": "The Zoe."})
    await tables.loops.append(ANN, "loop", [answer], now=datetime.now(UTC))
    job = SettleInput(ref=REF, step=1, index=0, name="request_clarification", clarification=asked.clarification, entry=reply.entry)
    settled = job.model_copy(update={"outcome": "unanswered"})
    for _ in range(2):
        assert (await ActivityEnvironment().run(steps.store.settle_call, settled)).ok
    assert '"answered"' in (await steps.entries())["result/1/0"].body["content"]


async def test_a_write_that_failed_for_good_is_said_to_be_unsure(tables: Tables) -> None:
    steps = await begun(tables, calls(("add_rows", {}), ("tables_overview", {})))
    reply = await steps.think()
    for index, kind in ((0, CallKind.WRITE), (1, CallKind.READ)):
        job = SettleInput(ref=REF, step=1, index=index, name="x", kind=kind, entry=reply.entry, outcome="failed:TimeoutError")
        assert (await ActivityEnvironment().run(steps.store.settle_call, job)).error == "TimeoutError"
    entries = await steps.entries()
    assert "not known whether" in entries["result/1/0"].body["content"]
    assert "not known whether" not in entries["result/1/1"].body["content"]
