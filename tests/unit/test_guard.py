"""The guard: a deadline for the caller, a bound on what is under way, a pause after misses."""

from __future__ import annotations

import asyncio

import pytest

from memory.model.errors import InvalidInput, StoreUnavailable
from starter import guard
from starter.guard import MISSES, Guard, Missed

LONG_S = 20.0


class Thing:
    """Something that answers when it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = asyncio.Event()

    async def hang(self) -> str:
        self.calls += 1
        await self.gate.wait()
        return "late"

    async def answer(self) -> str:
        self.calls += 1
        return "answer"

    async def fail(self) -> str:
        self.calls += 1
        raise StoreUnavailable("away")


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_answer_comes_through_and_so_does_an_error() -> None:
    thing, one = Thing(), Guard("it", limit=2)
    assert await one.call(thing.answer, deadline=now() + LONG_S) == "answer"
    with pytest.raises(StoreUnavailable, match="away"):
        await one.call(thing.fail, deadline=now() + LONG_S)
    assert one.under_way == 0


async def test_callers_go_home_at_their_deadline_and_only_so_many_calls_are_made() -> None:
    thing, one = Thing(), Guard("it", limit=3)
    async with asyncio.timeout(LONG_S):
        results = await asyncio.gather(*(one.call(thing.hang, deadline=now() + 0.05) for _ in range(100)), return_exceptions=True)
    assert all(isinstance(result, Missed) for result in results)
    assert thing.calls == one.under_way == 3
    thing.gate.set()
    await one.aclose(within_s=LONG_S)
    assert one.under_way == 0


async def test_after_misses_it_is_left_alone_and_then_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "FIRST_PAUSE_S", 0.05)
    thing, one = Thing(), Guard("it", limit=100)
    for _ in range(MISSES):
        with pytest.raises(StoreUnavailable):
            await one.call(thing.fail, deadline=now() + LONG_S)
    with pytest.raises(Missed, match="left alone") as caught:
        await one.call(thing.answer, deadline=now() + LONG_S)
    assert caught.value.busy
    assert thing.calls == MISSES

    async def until_tried() -> str:
        while True:
            try:
                return await one.call(thing.answer, deadline=now() + LONG_S)
            except Missed:
                await asyncio.sleep(0.005)

    async with asyncio.timeout(LONG_S):
        assert await until_tried() == "answer"
    assert await one.call(thing.answer, deadline=now() + LONG_S) == "answer"


async def test_while_it_is_tried_nobody_else_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "FIRST_PAUSE_S", 0.0)
    thing, one = Thing(), Guard("it", limit=100)
    for _ in range(MISSES):
        with pytest.raises(StoreUnavailable):
            await one.call(thing.fail, deadline=now() + LONG_S)
    probe = asyncio.create_task(one.call(thing.hang, deadline=now() + LONG_S))
    while thing.calls == MISSES:
        await asyncio.sleep(0)
    with pytest.raises(Missed):
        await one.call(thing.answer, deadline=now() + LONG_S)
    thing.gate.set()
    assert await probe == "late"
    assert await one.call(thing.answer, deadline=now() + LONG_S) == "answer"


async def test_errors_of_the_caller_are_no_misses() -> None:
    async def refuse() -> str:
        raise InvalidInput("no")

    one = Guard("it", limit=1)
    for _ in range(3 * MISSES):
        with pytest.raises(InvalidInput):
            await one.call(refuse, deadline=now() + LONG_S)


async def test_a_cancelled_caller_leaves_the_call_running() -> None:
    thing, one = Thing(), Guard("it", limit=1)
    task = asyncio.create_task(one.call(thing.hang, deadline=now() + LONG_S))
    while not thing.calls:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.under_way == 1
    thing.gate.set()
    assert await one.call(thing.answer, deadline=now() + LONG_S) == "answer"


async def test_closing_does_not_wait_for_ever() -> None:
    thing, one = Thing(), Guard("it", limit=1)
    with pytest.raises(Missed):
        await one.call(thing.hang, deadline=now() + 0.01)
    async with asyncio.timeout(LONG_S):
        await one.aclose(within_s=0.01)
    assert one.under_way == 0
