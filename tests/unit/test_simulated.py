"""The simulated model as a model: protocol, usage, misbehaviour at given rates."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memory import prompts
from memory.llm.simulated import MODEL_NAME, SimulatedModel
from memory.llm.simulated_faults import EXTRACTION_FAULTS, FAULTS, KNOWLEDGE_FAULTS
from memory.llm.tokens import counter_for
from memory.model.directory import ConsolidationMode
from memory.model.errors import (
    InvalidInput,
    MalformedOutput,
    ModelError,
    ModelRateLimited,
    ModelRejected,
    ModelTimedOut,
    ModelUnavailable,
)
from memory.model.loss_guard import Loss
from memory.model.profile import EMPTY_PROFILE, Profile, render_body
from memory.model.reply import CLEAN, Noop, parse_gate, parse_profile_reply, parse_scrub_reply
from memory.model.turn import Turn
from memory.ports import ChatMessage, ChatReply, ChatRequest, PromptPart, StopReason

AT = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
PROFILE = Profile.of(
    {
        "Identity": ["Name: Ana", "Lives in Rome"],
        "Work Context": ["Working on Atlas"],
        "Recent Topics": ["2026-06-01 08:00 UTC: tyres"],
    }
)
COUNTER = counter_for("simulated", "")


class Waits:
    """In place of sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def simulated(
    faults: str = "", seed: int = 0, latency_ms: float = 0, sleep: Waits | None = None, name: str = "simulated"
) -> SimulatedModel:
    return SimulatedModel(name, faults, seed, latency_ms, COUNTER, sleep=sleep or Waits())


def turn(text: str) -> Turn:
    return Turn(turn_id="t", user_text=text, assistant_text="I see.", occurred_at=AT)


def rewrite(text: str = "I live in Berlin now.", profile: Profile = PROFILE) -> ChatRequest:
    return prompts.consolidate_request(profile, [turn(text)], mode=ConsolidationMode.REWRITE, max_tokens=2000, now=AT, timeout_s=30)


def gate(text: str) -> ChatRequest:
    return prompts.gate_request(PROFILE, [turn(text)], reasoning=False, timeout_s=30)


NEW = PROFILE.with_section(
    "Identity", parse_profile_reply(render_body(Profile.of({"Identity": ["Name: Ana", "Lives in Berlin"]}))).section("Identity")
)  # type: ignore[union-attr]


async def outcome(model: SimulatedModel, request: ChatRequest) -> str:
    """What came of one call, as one word."""
    try:
        reply = await model.complete(request)
    except ModelError as error:
        return type(error).__name__
    return f"{reply.stop}:{reply.text}"


async def test_says_what_it_is() -> None:
    reply = await simulated(name="simulated:anything").complete(gate("Hello"))
    assert reply.model == MODEL_NAME == "simulated:rules-1"
    assert simulated(name="simulated:anything").name == "simulated:anything"
    assert not simulated().reasoning


async def test_counts_usage_with_the_counter() -> None:
    request = rewrite()
    reply = await simulated().complete(request)
    sent = COUNTER.count(request.system_text) + COUNTER.count(request.messages[0].text)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.calls) == (sent, COUNTER.count(reply.text), 1)


async def test_refuses_prompts_that_are_not_ours() -> None:
    request = ChatRequest("gate", (PromptPart("You are a poet."),), (ChatMessage("user", (PromptPart("hi"),)),), 10, 1.0)
    with pytest.raises(ModelRejected, match="prompts of this project"):
        await simulated().complete(request)


async def test_a_task_named_in_the_exchange_is_not_followed() -> None:
    reply = await simulated().complete(gate("Task: rewrite\nTask: condense"))
    assert parse_gate(reply.text) is False


async def test_stops_at_the_output_limit() -> None:
    request = rewrite()
    small = ChatRequest(request.stage, request.system, request.messages, 12, request.timeout_s)
    reply = await simulated().complete(small)
    assert reply.stop is StopReason.LENGTH
    assert 0 < reply.usage.output_tokens <= 12


async def test_repair_and_loss_get_the_whole_profile() -> None:
    request = rewrite()
    for again in (
        prompts.repair_request(request, "nonsense", "the reply has none of the six section headings"),
        prompts.loss_request(request, "## Identity", Loss(2, 3, ("Name: Ana",))),
        prompts.with_more_room(request),
    ):
        assert parse_profile_reply((await simulated().complete(again)).text) == NEW


async def test_condenses_to_the_stated_size_and_invents_nothing() -> None:
    large = Profile.of(
        {
            "Identity": ["Name: Ana"],
            "Work Context": [f"Project number {n} with some words of explanation" for n in range(30)],
            "Recent Topics": [f"2026-06-{n:02} 08:00 UTC: topic {n} and more about it" for n in range(1, 29)],
        }
    )
    condensed = parse_profile_reply(
        (await simulated().complete(prompts.condense_request(large, target_tokens=400, timeout_s=5))).text
    )
    assert isinstance(condensed, Profile)
    assert COUNTER.count(render_body(condensed)) <= 400
    assert condensed.section("Identity") == large.section("Identity")
    for name, bullets in condensed.items():
        assert set(bullets) <= set(large.section(name))


async def test_scrub_vouches_or_cleans() -> None:
    clean = await simulated().complete(prompts.scrub_request(PROFILE, timeout_s=5))
    assert parse_scrub_reply(clean.text) == CLEAN
    named = PROFILE.with_section(
        "Work Context",
        Profile.of({"Work Context": ["Reviews the portfolio of client Maria Lopez", "Mail kim@example.com"]}).section(
            "Work Context"
        ),
    )
    cleaned = parse_scrub_reply((await simulated().complete(prompts.scrub_request(named, timeout_s=5))).text)
    assert isinstance(cleaned, Profile)
    assert "Maria" not in render_body(cleaned)
    assert "kim@example.com" not in render_body(cleaned)
    assert cleaned.section("Identity") == PROFILE.section("Identity")


# ------------------------------------------------------------------------------------------------------------ misbehaviour


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ("flaky=0.1", "unknown fault 'flaky'; known: rate_limited"),
        ("empty=2", "the rate of empty is 2"),
        ("empty=-0.5", "the rate of empty is -0.5"),
        ("empty=1e", "the rate of empty is not a number"),
        ("empty", "'empty' is not name=rate"),
        ("empty=0.1,empty=0.2", "empty is given twice"),
        ("empty=0.7,malformed=0.7", "add up to 1.4"),
    ],
)
def test_wrong_plan_is_refused_by_name(faults: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simulated(faults)


def test_blank_plan_is_no_plan() -> None:
    for faults in ("", " ", ",", "empty=0", " empty = 0.0 , "):
        simulated(faults)


async def test_failing_calls() -> None:
    with pytest.raises(ModelRateLimited) as limited:
        await simulated("rate_limited=1").complete(rewrite())
    assert limited.value.retry_after_s is None
    with pytest.raises(ModelRateLimited) as limited:
        await simulated("rate_limited_retry_after=1").complete(rewrite())
    assert limited.value.retry_after_s is not None
    assert limited.value.retry_after_s > 0
    with pytest.raises(ModelUnavailable):
        await simulated("server_error=1").complete(rewrite())
    with pytest.raises(ModelRejected):
        await simulated("rejected=1").complete(rewrite())
    assert (await simulated("refused=1").complete(rewrite())).stop is StopReason.REFUSED


async def test_timeout_waits_as_long_as_the_caller_would() -> None:
    waits = Waits()
    with pytest.raises(ModelTimedOut):
        await simulated("timeout=1", sleep=waits).complete(rewrite())
    assert waits.seconds == [30]
    model = SimulatedModel("simulated", "timeout=1", 0, 0, COUNTER, sleep=waits, max_timeout_wait_s=0.5)
    with pytest.raises(ModelTimedOut):
        await model.complete(rewrite())
    assert waits.seconds == [30, 0.5]


async def test_latency() -> None:
    waits = Waits()
    await simulated(latency_ms=250, sleep=waits).complete(gate("Hello"))
    assert waits.seconds == [0.25]
    with pytest.raises(ModelTimedOut):
        await simulated(latency_ms=31_000, sleep=waits).complete(rewrite())
    assert waits.seconds == [0.25, 30]


async def spoiled(fault: str) -> ChatReply:
    return await simulated(f"{fault}=1").complete(rewrite())


@pytest.mark.parametrize("fault", ["fenced", "think", "preamble", "titled"])
async def test_decorated_replies_still_say_it(fault: str) -> None:
    reply = await spoiled(fault)
    assert reply.stop is StopReason.END
    assert reply.text != (await simulated().complete(rewrite())).text
    assert parse_profile_reply(reply.text) == NEW


@pytest.mark.parametrize("fault", ["empty", "think_unterminated", "malformed", "dropped_section"])
async def test_unusable_replies(fault: str) -> None:
    reply = await spoiled(fault)
    assert reply.stop is StopReason.END
    with pytest.raises(MalformedOutput):
        parse_profile_reply(reply.text)


async def test_cut_replies() -> None:
    whole = (await simulated().complete(rewrite())).text
    told, silent = await spoiled("truncated"), await spoiled("cut_silently")
    assert (told.stop, silent.stop) == (StopReason.LENGTH, StopReason.END)
    for reply in (told, silent):
        assert whole.startswith(reply.text)
        assert len(reply.text) < len(whole)


async def test_every_fault_can_strike_every_task() -> None:
    requests = [
        rewrite(),
        gate("I live in Oslo."),
        prompts.condense_request(PROFILE, target_tokens=50, timeout_s=1),
        prompts.scrub_request(PROFILE, timeout_s=1),
        prompts.consolidate_request(PROFILE, [turn("Hi")], mode=ConsolidationMode.EDITS, max_tokens=2000, now=AT, timeout_s=1),
    ]
    for fault in (name for name in FAULTS if name not in EXTRACTION_FAULTS | KNOWLEDGE_FAULTS):
        for request in requests:
            good, bad = await outcome(simulated(), request), await outcome(simulated(f"{fault}=1"), request)
            assert good != bad


async def test_rates_hold_and_do_not_depend_on_what_runs_beside() -> None:
    plan = "rate_limited=0.1,server_error=0.05,empty=0.05,malformed=0.1"
    requests = [gate(f"Question number {number}?") for number in range(1000)]
    alone = [await outcome(simulated(plan, seed=7), request) for request in requests]
    model = simulated(plan, seed=7)
    shuffled = sorted(range(1000), key=lambda number: number * 7919 % 1000)
    together = dict(zip(shuffled, await asyncio.gather(*(outcome(model, requests[number]) for number in shuffled)), strict=True))
    assert [together[number] for number in range(1000)] == alone
    seen = Counter(alone)
    assert 70 <= seen["ModelRateLimited"] <= 130
    assert 30 <= seen["ModelUnavailable"] <= 70
    assert 30 <= seen["end:"] <= 70
    assert 640 <= seen["end:NOOP"] <= 760


async def test_another_seed_strikes_elsewhere() -> None:
    requests = [gate(f"Question number {number}?") for number in range(100)]
    one = [await outcome(simulated("empty=0.3", seed=1), request) for request in requests]
    two = [await outcome(simulated("empty=0.3", seed=2), request) for request in requests]
    assert one != two


async def test_a_retry_is_a_new_draw() -> None:
    model = simulated("server_error=0.5", seed=3)
    outcomes = [await outcome(model, rewrite()) for _ in range(40)]
    assert 8 <= outcomes.count("ModelUnavailable") <= 32
    again = simulated("server_error=0.5", seed=3)
    assert [await outcome(again, rewrite()) for _ in range(40)] == outcomes


async def test_what_an_answer_gets_wrong_is_the_same_whenever_it_is_asked() -> None:
    """A worker that was killed and another that was not may have asked another number of times."""
    plan = "rate_limited=0.2,truncated=0.2,fenced=0.2,preamble=0.2"
    requests = [rewrite(f"I live in town number {number}.") for number in range(60)]
    once = simulated(plan, seed=5)
    many = simulated(plan, seed=5)
    kinds: Counter[str] = Counter()
    for request in requests:
        first = await answer(once, request)
        assert {await answer(many, request) for _ in range(4)} == {first}
        kinds[first[:4]] += 1
    assert len(kinds) > 2


async def test_with_more_room_an_answer_is_another_draw() -> None:
    requests = [rewrite(f"I live in town number {number}.") for number in range(60)]
    model = simulated("truncated=0.5", seed=5)
    cut = [request for request in requests if (await model.complete(request)).stop is StopReason.LENGTH]
    again = [(await model.complete(replace(request, max_output_tokens=request.max_output_tokens * 2))).stop for request in cut]
    assert 10 <= again.count(StopReason.LENGTH) <= len(cut) - 10


async def answer(model: SimulatedModel, request: ChatRequest) -> str:
    """The first one that is not a failed call."""
    for _ in range(50):
        with suppress(ModelRateLimited):
            return (await model.complete(request)).text
    raise AssertionError("always rate limited")


async def test_good_behaviour_is_always_the_same() -> None:
    texts = {(await simulated(seed=seed).complete(rewrite())).text for seed in range(5)}
    assert len(texts) == 1


async def test_noop_is_said_when_nothing_is_new() -> None:
    assert isinstance(parse_profile_reply((await simulated().complete(rewrite("I live in Rome."))).text), Noop)
    assert isinstance(parse_profile_reply((await simulated().complete(rewrite("Hi!", EMPTY_PROFILE))).text), Noop)
