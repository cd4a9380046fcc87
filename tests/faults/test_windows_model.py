"""FAULTS 3, 12, 13, 14, 28, 29 of the event window: what the model says or does not say, through the whole product."""

from __future__ import annotations

import asyncio
import json
import re

from memory.model.errors import ModelRateLimited, ModelUnavailable
from memory.model.fact import FactStatus
from memory.model.window import WindowState
from memory.ports import ChatReply, ChatRequest
from tests.faults.test_windows import KNOWLEDGE_ONLY, facts, said, statements, window
from tests.support.models import ScriptedModel, cut
from tests.support.stack import StartStack

CLAIMS = tuple(f"The budget of project {name} is {1000 + n} euros." for n, name in enumerate("ABCDEFGH"))


def answer(request: ChatRequest) -> str:
    """Every line of the transcript as a fact."""
    shown = request.messages[0].text.split("<transcript>\n")[1].split("\n</transcript>")[0]
    lines = [re.fullmatch(r"\[(\d+)\] .* \| chat \| (.*)", line) for line in shown.splitlines()]
    found = [(int(line[1]), line[2]) for line in lines if line is not None]
    return json.dumps({"knowledge": [{"statement": text, "evidence": [{"event": n, "quote": text}]} for n, text in found]})


def shortened(request: ChatRequest) -> ChatReply:
    """The same, cut off at the output limit."""
    text = answer(request)
    return cut(text[: len(text) * 2 // 3])


def cut_silently(request: ChatRequest) -> str:
    text = answer(request)
    return text[: len(text) * 2 // 3]


def lines_of(request: ChatRequest) -> int:
    return len(re.findall(r"^\[\d+\] ", request.messages[0].text, re.MULTILINE))


# ------------------------------------------------------------------------------------------------------ 12, 13, 14: the reply


async def test_a_reply_that_is_cut_off_gets_more_room_then_halves_and_loses_nothing(stack: StartStack) -> None:
    model = ScriptedModel({"extract": [shortened, answer, shortened, cut_silently, answer]})
    async with stack(model=model, **KNOWLEDGE_ONLY) as s:
        ada, ben = s.user("ada"), s.user("ben")
        roomier = await window(s, ada, *(said(text) for text in CLAIMS))
        halved = await window(s, ben, *(said(text) for text in CLAIMS))
        kept = [await statements(s, user) for user in (ada, ben)]
    asked = model.asked("extract")
    assert asked[1].max_output_tokens > asked[0].max_output_tokens
    assert [lines_of(request) for request in asked] == [8, 8, 8, 8, 4, 4]
    assert (roomier.flags, halved.flags) == (("more_room",), ("more_room", "split:cut_off"))
    assert kept == [sorted(CLAIMS)] * 2
    assert {roomier.state, halved.state} == {WindowState.DONE}


async def test_a_reply_that_never_fits_keeps_nothing_and_says_so(stack: StartStack) -> None:
    model = ScriptedModel({"extract": shortened})
    async with stack(model=model, **KNOWLEDGE_ONLY) as s:
        user = s.user()
        done = await window(s, user, said(CLAIMS[0]), said(CLAIMS[1]))
        kept = await facts(s, user, *FactStatus)
    assert (done.state, done.reason, list(kept)) == (WindowState.FAILED, "extract_failed:MalformedOutput", [])
    assert len(model.asked("extract")) == 8


async def test_what_stands_around_the_reply_does_not_matter(stack: StartStack) -> None:
    wrappings = (
        "```json\n{}\n```",
        "Here are the items:\n\n```\n{}\n```\nLet me know!",
        "<think>not this</think>\n{}",
        "````\n```json\n{}\n```\n````",
    )
    model = ScriptedModel({"extract": [lambda request, around=around: around.format(answer(request)) for around in wrappings]})
    async with stack(model=model, **KNOWLEDGE_ONLY) as s:
        user = s.user()
        done = [await window(s, user, said(text)) for text in CLAIMS[: len(wrappings)]]
        kept = await statements(s, user)
    assert [one.state for one in done] == [WindowState.DONE] * len(wrappings)
    assert kept == sorted(CLAIMS[: len(wrappings)])
    assert len(model.requests) == len(wrappings)


async def test_a_fact_stays_in_the_language_it_was_said_in(stack: StartStack) -> None:
    spoke = "阿特拉斯项目由李娜负责。"
    quoted = [{"event": 1, "quote": spoke}]
    items = [{"statement": "The Atlas project is led by Li Na.", "evidence": quoted}, {"statement": spoke, "evidence": quoted}]
    async with stack(model=ScriptedModel({"extract": json.dumps({"knowledge": items})}), **KNOWLEDGE_ONLY) as s:
        user = s.user()
        done = await window(s, user, said(spoke))
        kept = await statements(s, user)
        found = await s.memory.search_facts(user, "谁负责阿特拉斯项目?")
    assert kept == [spoke]
    assert dict(done.outcomes[0].dropped) == {"translated": 1}
    assert [one.fact.statement for one in found] == [spoke]


# ---------------------------------------------------------------------------------------------------- 3, 28, 29: no endless work


async def test_rate_limits_in_the_middle_of_a_window_leave_nothing_half_done(stack: StartStack) -> None:
    """The first half was read when the limit struck; the window is read anew and stored once."""
    with_wait, without = ModelRateLimited("slow down", retry_after_s=0.2), ModelRateLimited("slow down")
    model = ScriptedModel({"extract": [shortened, shortened, answer, with_wait, without, shortened, shortened, answer]})
    async with stack(model=model, **KNOWLEDGE_ONLY) as s:
        user = s.user()
        done = await window(s, user, *(said(text) for text in CLAIMS))
        kept = await facts(s, user, *FactStatus)
    assert (done.state, done.attempt) == (WindowState.DONE, 0)
    assert sorted(fact.statement for fact in kept) == sorted(CLAIMS)
    assert [len(fact.sources) for fact in kept] == [1] * len(CLAIMS)
    assert [lines_of(request) for request in model.asked("extract")] == [8, 8, 4, 4, 8, 8, 8, 4, 4]


async def test_a_model_that_only_fails_is_asked_a_bounded_number_of_times(stack: StartStack) -> None:
    model = ScriptedModel({"extract": [*[ModelUnavailable("no model")] * 4, answer]})
    async with stack(model=model, **KNOWLEDGE_ONLY) as s:
        user = s.user()
        failed = await window(s, user, said(CLAIMS[0]))
        calls = len(model.requests)
        await s.memory.flush(user, wait_s=30)
        again = len(model.requests)
        rerun = await s.memory.windows.rerun(scope=user)
        await s.memory.windows.wait_until_idle(user)
        (done,) = await s.memory.windows.list(scope=user)
        kept = await statements(s, user)
    assert (failed.state, failed.reason) == (WindowState.FAILED, "extract_failed:ModelUnavailable")
    assert (calls, again, rerun.started) == (4, 4, 1)
    assert (done.state, kept) == (WindowState.DONE, [CLAIMS[0]])


async def test_a_spent_day_asks_nothing_more_and_goes_on_when_the_cap_is_raised(stack: StartStack) -> None:
    model = ScriptedModel({"extract": answer})
    async with stack(model=model, daily_token_cap=1, **KNOWLEDGE_ONLY) as s:
        user = s.user()
        first = await window(s, user, said(CLAIMS[0]))
        await s.memory.record_events(user, [said(CLAIMS[1])], allow_user_memory=True)
        await s.memory.flush(user)
        handle = s.client.get_workflow_handle(user.consolidate_events_workflow_id)
        await handle.result()
        waiting = (await s.memory.windows.status(user)).waiting
        assert (first.state, waiting, len(model.requests)) == (WindowState.DONE, 1, 1)
        assert (await s.memory.usage(user)).total.input_tokens > 0
    async with stack(model=model, daily_token_cap=1_000_000, **KNOWLEDGE_ONLY) as s:
        progress = await s.memory.flush(user, wait_s=60)
        kept = await statements(s, user)
    assert (progress.waiting, kept, len(model.requests)) == (0, sorted(CLAIMS[:2]), 2)


async def test_the_same_window_asked_for_while_it_runs_is_extracted_once(stack: StartStack) -> None:
    reached, release = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def complete(self, request: ChatRequest) -> ChatReply:
            reached.set()
            await release.wait()
            return await super().complete(request)

    model = Slow({"extract": answer})
    async with stack(model=model, **KNOWLEDGE_ONLY) as s:
        user = s.user()
        event = said(CLAIMS[0])
        await s.memory.record_events(user, [event], allow_user_memory=True)
        await s.memory.flush(user)
        async with asyncio.timeout(30):
            await reached.wait()
        for _ in range(3):
            await s.memory.record_events(user, [event], allow_user_memory=True)
            await s.memory.flush(user)
        release.set()
        assert await s.memory.windows.wait_until_idle(user)
        (fact,) = await facts(s, user, *FactStatus)
        windows = await s.memory.windows.list(scope=user)
    assert (len(fact.sources), len(windows), len(model.requests)) == (1, 1, 1)
