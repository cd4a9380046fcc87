"""What a knowledge loop costs beside its model: ten steps with a model that takes no time, and ten tool calls on real tables."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.bare import REGULAR
from bench.results import BenchError, Reach, Row, ratio_row
from bench.world import TENANT, World, open_world
from memory.model.knowledge_loop import EntryKind, LoopState
from memory.model.scope import Scope

ROUNDS: Final = 15
AT_ONCE: Final = 20
AT_ONCE_ROUNDS: Final = 3
STEPS: Final = 10
CALLS: Final = 10
MOST: Final = Reach(most=1.5)
ACTIVITIES: Final = REGULAR * (STEPS + CALLS)


async def measure() -> list[Row]:
    """From ``update`` to the answer; loops one at a time, then 20 users at once. The bare side runs in between."""
    async with open_world() as world:
        await _loops(world, "warm", 3)
        await _bare(world, "warm", 3)
        single: list[float] = []
        single_bare: list[float] = []
        for number in range(ROUNDS):
            single_bare.append(await _bare(world, f"s{number}", 1))
            single.append(await _loops(world, f"s{number}", 1))
        many: list[float] = []
        many_bare: list[float] = []
        for number in range(AT_ONCE_ROUNDS):
            many_bare.append(await _bare(world, f"m{number}", AT_ONCE))
            many.append(await _loops(world, f"m{number}", AT_ONCE))
    against = f"a bare workflow of {len(ACTIVITIES)} empty activities"
    return [
        ratio_row(
            f"a loop of {STEPS} steps and {CALLS} tool calls, wall time",
            single,
            single_bare,
            compared_with=against,
            reach=MOST,
            unit_of_both="s",
        ),
        ratio_row(
            f"{AT_ONCE} such loops at once, wall time",
            many,
            many_bare,
            compared_with=f"{AT_ONCE} of {against}",
            reach=None,
            unit_of_both="s",
            note="one worker process, one SQLite file",
        ),
    ]


async def _loops(world: World, name: str, count: int) -> float:
    users = [Scope.of(TENANT, f"{name}-{number}") for number in range(count)]
    began = time.perf_counter()

    async def one(scope: Scope) -> None:
        handle = await world.memory.knowledge.update(scope, "Note when the review is.")
        answer = await handle.result(60)
        if answer.state is not LoopState.DONE or answer.steps != STEPS:
            raise BenchError(f"a loop ended as {answer.state.value} ({answer.reason}) after {answer.steps} steps")

    await asyncio.gather(*(one(scope) for scope in users))
    took = time.perf_counter() - began
    for scope in users:
        (loop,) = await world.memory.knowledge.loops(scope)
        entries = await (await world.memory.knowledge.attach(scope, loop.loop_id)).history()
        results = [entry.body for entry in entries if entry.kind is EntryKind.RESULT]
        failed = [result["name"] for result in results if result["is_error"]]
        if len(results) != CALLS or failed:
            raise BenchError(f"a loop made {len(results)} calls, and these failed: {', '.join(failed) or 'none'}")
    return took


async def _bare(world: World, name: str, count: int) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(world.bare_window(f"bare-{name}-{number}", ACTIVITIES) for number in range(count)))
    return time.perf_counter() - began
