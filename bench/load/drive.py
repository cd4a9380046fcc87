"""Handing turns over: as fast as the site takes them, and at a pace. What became of them is read from the ledger."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import func, select

from bench.load.site import Site
from bench.load.texts import load_turn, message_before
from bench.results import BenchError
from bench.world import TENANT
from memory.model.scope import Scope
from memory.stores.tables.rows import TURNS, USER_COUNTERS
from memory.stores.tables.rows_window import WINDOWS

TICK_S: Final = 0.05
STALL_S: Final = 180.0
"""Nothing more was finished for so long: the run is given up."""
UPDATE_EVERY: Final = 3
_RECORDED_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Planned:
    """A turn that will be handed over. ``user``: a number from 0."""

    turn_id: str
    user: int
    update: bool

    @property
    def scope(self) -> Scope:
        return Scope.of(TENANT, f"user-{self.user}")


@dataclass(frozen=True, slots=True)
class Handed:
    """``at``: when the answer was there, which at a pace is when the turn was due. ``took_ms``: of ``after_answer``."""

    turn: Planned
    at: datetime
    status: str
    started: bool
    took_ms: float


def plan_turns(turns: int, users: int, seed: int) -> list[Planned]:
    """All users in turn, in a new order each round, so that a user's turns are far apart; every third turn teaches something."""
    chance, order, planned = random.Random(seed), list(range(users)), list[Planned]()
    while len(planned) < turns:
        chance.shuffle(order)
        for user in order[: turns - len(planned)]:
            number = len(planned)
            planned.append(Planned(f"turn-{number}", user, update=(number // users + user) % UPDATE_EVERY == 0))
    return planned


def plan_before(turns: Sequence[Planned], window: int, seed: int) -> dict[Scope, int]:
    """How many messages of each user are there before the first turn: anything less than a full window, drawn evenly.

    Users who all began with none would all fill their windows in the same round.
    """
    chance = random.Random(f"{seed}:before")
    return {scope: chance.randrange(window) for scope in dict.fromkeys(turn.scope for turn in turns)}


class Driver:
    """The orchestrator of a site. ``handed`` grows with every turn."""

    def __init__(self, site: Site, told: Callable[[str], None] = lambda _: None) -> None:
        self._site = site
        self._told = told
        self._tasks: set[asyncio.Task[None]] = set()
        self.handed: list[Handed] = []

    async def record_before(self, before: Mapping[Scope, int]) -> None:
        """So many messages of each user, in one call each. Raises BenchError when one was not recorded."""
        places = asyncio.Semaphore(_RECORDED_AT_ONCE)

        async def one_user(scope: Scope, count: int) -> None:
            messages = [message_before(scope.user, number) for number in range(count)]
            async with places:
                receipt = await self._site.memory.record_events(scope, messages, allow_user_memory=True)
            if receipt.status.value != "recorded":
                raise BenchError(f"messages from before the turns were not recorded: {receipt.status.value} {receipt.reason or ''}")

        await asyncio.gather(*(one_user(scope, count) for scope, count in before.items()))

    async def flat_out(self, turns: Sequence[Planned], *, in_flight: int) -> None:
        """At most ``in_flight`` turns without an outcome at any time; until all have one."""
        waiting, progress = list(reversed(turns)), _Progress(len(turns))
        while waiting or self._tasks:
            self._raise_failed()
            free = in_flight - len(self._tasks) - await self._pending()
            for turn in (waiting.pop() for _ in range(min(max(free, 0), len(waiting)))):
                self._hand_over(turn, datetime.now(UTC))
            progress.saw(len(waiting) + len(self._tasks), self._told)
            await asyncio.sleep(TICK_S)
        await self.drained()

    async def paced(self, turns: Sequence[Planned], *, per_s: float, seed: int) -> None:
        """At random times, ``per_s`` in the mean, whether or not earlier ones have an outcome; until all have one."""
        chance, due, progress = random.Random(seed), time.monotonic(), _Progress(len(turns))
        offset = datetime.now(UTC) - timedelta(seconds=due)
        for number, turn in enumerate(turns):
            due += chance.expovariate(per_s)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._hand_over(turn, offset + timedelta(seconds=due))
            progress.saw(len(turns) - number, self._told)
        while self._tasks:
            self._raise_failed()
            await asyncio.sleep(TICK_S)
        await self.drained()

    async def drained(self, *, windows: bool = False) -> None:
        """Until no turn waits; with ``windows`` until no full window waits either. Raises BenchError when it does not go on."""
        count, progress = await self._left(windows), _Progress(0)
        while count:
            progress.saw(count, self._told)
            await asyncio.sleep(TICK_S)
            count = await self._left(windows)

    async def _left(self, windows: bool) -> int:
        return await self._pending() + (await self._windows_left() if windows else 0)

    def _hand_over(self, turn: Planned, at: datetime) -> None:
        task = asyncio.create_task(self._after_answer(turn, at))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)  # one that failed stays, to be raised

    async def _after_answer(self, turn: Planned, at: datetime) -> None:
        receipt = await self._site.memory.after_answer(turn.scope, load_turn(turn.turn_id, update=turn.update))
        self.handed.append(Handed(turn, at, receipt.status.value, receipt.started, receipt.elapsed_ms))

    def _raise_failed(self) -> None:
        for task in self._tasks:
            if task.done() and (error := task.exception()) is not None:
                raise error

    async def _pending(self) -> int:
        wanted = select(func.count()).select_from(TURNS).where(TURNS.c.state == "pending")
        return await self._site.tables.database.read(lambda connection: connection.execute(wanted).scalar_one())

    async def _windows_left(self) -> int:
        """Users with a full window that nobody has planned, and windows that are not done."""
        full = select(func.count()).select_from(USER_COUNTERS).where(USER_COUNTERS.c.waiting >= self._site.settings.window_size)
        planned = select(func.count()).select_from(WINDOWS).where(WINDOWS.c.state == "planned")
        read = self._site.tables.database.read
        return await read(lambda c: c.execute(full).scalar_one()) + await read(lambda c: c.execute(planned).scalar_one())


class _Progress:
    """Tells every ten seconds, and gives up on a site that stands still."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._least: int | None = None
        self._moved_at = self._told_at = time.monotonic()

    def saw(self, left: int, tell: Callable[[str], None]) -> None:
        now = time.monotonic()
        if self._least is None or left < self._least:
            self._least, self._moved_at = left, now
        if now - self._moved_at > STALL_S:
            raise BenchError(f"nothing was finished for {STALL_S:g} s; {left} turns or windows wait")
        if now - self._told_at > 10:
            self._told_at = now
            tell(f"{left} of {self._turns} turns are still to be handed over" if self._turns else f"{left} still wait")


def statuses(handed: Sequence[Handed]) -> Counter[str]:
    return Counter(one.status for one in handed)
