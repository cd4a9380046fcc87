"""What a turn costs from the answer to its outcome: latency, CPU, throughput, and the worker's memory over many turns.

All beside a bare workflow of four empty regular activities on the same server, worked by the same process.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from bench.results import BenchError, Reach, Row, ratio_row
from bench.world import TENANT, Cpu, World, open_world, peak_memory, timed
from memory.model.scope import Scope
from memory.model.turn import Outcome

BARE: Final = "a bare workflow of four empty regular activities"
SEED_BULLETS: Final = 18

BLOCK: Final = 15
ROUNDS: Final = 5
TURN_USERS: Final = 10
SETTLE_S: Final = 0.3
"""After a block the server ends its own work on closed runs; it belongs to the block's CPU."""
NOOP_MOST: Final = Reach(most=0.8)
UPDATE_MOST: Final = Reach(most=1.2)

USERS: Final = 200
TURNS_PER_USER: Final = 3
UPDATE_EVERY: Final = 3
LOAD_ROUNDS: Final = 3
LOAD_BOUND_S: Final = 170.0
"""No further round begins that would end after this."""
RATE_LEAST: Final = Reach(least=1.0)

FEW_TURNS: Final = 500
MANY_TURNS: Final = 5000
MEMORY_USERS: Final = 50
BURST: Final = 5
"""Turns at once per user there: 5,000 one by one would take longer than a measure may."""
MEMORY_MOST: Final = Reach(most=1.1)


async def turn() -> list[Row]:
    """Blocks of one kind in turn; latency and CPU come from the same blocks."""
    async with open_world() as world:
        users = [Scope.of(TENANT, f"user-{number}") for number in range(TURN_USERS)]
        for scope in users:
            await world.seed(scope, bullets=SEED_BULLETS)
        count = 0

        async def one(kind: str) -> None:
            nonlocal count
            count += 1
            if kind == "bare":
                await world.bare(f"bare-{count}")
            else:
                await world.turn(users[count % TURN_USERS], f"turn-{count}", update=kind == "update")

        kinds = ("bare", "noop", "update")
        for kind in kinds:
            for _ in range(BLOCK):
                await one(kind)
        latency: dict[str, list[float]] = {kind: [] for kind in kinds}
        cpu: dict[str, list[Cpu]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind in kinds:
                before = Cpu.now(world)
                times = [await timed(lambda kind=kind: one(kind)) for _ in range(BLOCK)]
                await asyncio.sleep(SETTLE_S)
                cpu[kind].append((Cpu.now(world) - before).per(BLOCK))
                latency[kind].append(statistics.median(times))
        turns = BLOCK * (ROUNDS + 1)
        await world.check_outcomes({Outcome.NOOP: turns, Outcome.UPDATED: turns})

    rows: list[Row] = []
    for kind, reach in (("noop", NOOP_MOST), ("update", UPDATE_MOST)):
        name = f"{kind.upper()} turn"
        rows.append(
            ratio_row(
                f"{name}: latency p50",
                latency[kind],
                latency["bare"],
                compared_with=BARE,
                reach=reach,
                scale=1000,
                unit_of_both="ms",
            )
        )
        rows.append(
            ratio_row(
                f"{name}: CPU",
                [one.temporal + one.worker for one in cpu[kind]],
                [one.temporal + one.worker for one in cpu["bare"]],
                compared_with=f"{BARE}, server and worker",
                reach=reach,
                scale=1000,
                unit_of_both="ms",
                server_ms=_median_ms(cpu[kind], "temporal"),
                worker_ms=_median_ms(cpu[kind], "worker"),
                bare_server_ms=_median_ms(cpu["bare"], "temporal"),
                bare_worker_ms=_median_ms(cpu["bare"], "worker"),
                object_store_ms=_median_ms(cpu[kind], "s3"),
            )
        )
    return rows


async def throughput() -> list[Row]:
    """A closed loop: each user waits for the outcome of a turn before the next one."""
    async with open_world() as world:
        users = [Scope.of(TENANT, f"user-{number}") for number in range(USERS)]
        await asyncio.gather(*(world.seed(scope, bullets=SEED_BULLETS) for scope in users))
        outcomes: list[Outcome] = []

        async def ours(label: str, user: int, number: int) -> None:
            update = (user + number) % UPDATE_EVERY == 0
            await world.turn(users[user], f"{label}-{user}-{number}", update=update)
            outcomes.append(Outcome.UPDATED if update else Outcome.NOOP)

        async def bare(label: str, user: int, number: int) -> None:
            await world.bare(f"bare-{label}-{user}-{number}")

        await _closed_loop(bare, "warm", USERS // 2, 1)
        await _closed_loop(ours, "warm", USERS // 2, 1)
        mine: list[float] = []
        theirs: list[float] = []
        began = time.monotonic()
        while len(mine) < LOAD_ROUNDS:
            label = f"round-{len(mine)}"
            theirs.append(await _closed_loop(bare, label, USERS, TURNS_PER_USER))
            mine.append(await _closed_loop(ours, label, USERS, TURNS_PER_USER))
            spent = time.monotonic() - began
            if spent + spent / len(mine) > LOAD_BOUND_S:
                break
        await world.check_outcomes(Counter(outcomes))
        return [
            ratio_row(
                f"turns per second at {USERS} users",
                mine,
                theirs,
                compared_with=BARE,
                reach=RATE_LEAST,
                unit_of_both="/s",
                turns_per_round=USERS * TURNS_PER_USER,
            )
        ]


async def _closed_loop(action: Callable[[str, int, int], Awaitable[None]], label: str, users: int, each: int) -> float:
    """Actions per second."""

    async def user(number: int) -> None:
        for position in range(each):
            await action(label, number, position)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(users):
            group.create_task(user(number))
    return users * each / (time.perf_counter() - began)


async def memory() -> list[Row]:
    """Temporal keeps its state in memory here: its speed is not what is measured, and the file would take minutes more."""
    async with open_world(in_memory=True) as world:
        if world.worker is None:
            raise BenchError("no worker process")
        pid, done = world.worker.pid, 0
        users = [Scope.of(TENANT, f"user-{number}") for number in range(MEMORY_USERS)]
        await asyncio.gather(*(world.seed(scope, bullets=SEED_BULLETS) for scope in users))
        peaks: dict[int, float] = {}
        for goal in (FEW_TURNS, MANY_TURNS):
            await _work_through(world, users, done, goal)
            done, peaks[goal] = goal, peak_memory(pid)
        updated = sum(1 for number in range(MANY_TURNS) if number // BURST % UPDATE_EVERY == 0)
        await world.check_outcomes({Outcome.UPDATED: updated, Outcome.NOOP: MANY_TURNS - updated})
        return [
            ratio_row(
                f"peak memory of the worker after {MANY_TURNS} turns",
                [peaks[MANY_TURNS]],
                [peaks[FEW_TURNS]],
                compared_with=f"after {FEW_TURNS}",
                reach=MEMORY_MOST,
                scale=1e-6,
                unit_of_both="MB",
                turns_at_once_per_user=BURST,
                note=f"turns come {BURST} at once per user and may share a run, so there are fewer runs than turns",
            )
        ]


async def _work_through(world: World, users: list[Scope], done: int, goal: int) -> None:
    """Turns number ``done`` to ``goal`` in bursts, one burst at a time per user, every third with UPDATE turns."""
    starts = iter(range(done, goal, BURST))

    async def user(scope: Scope) -> None:
        for start in starts:
            turn_ids = [f"turn-{number}" for number in range(start, min(start + BURST, goal))]
            await world.burst(scope, turn_ids, update=start // BURST % UPDATE_EVERY == 0)

    async with asyncio.TaskGroup() as group:
        for scope in users:
            group.create_task(user(scope))


def _median_ms(samples: list[Cpu], attribute: str) -> float:
    return statistics.median(getattr(one, attribute) for one in samples) * 1000
