"""Users who talk without a pause while the system is disturbed, and what must hold of every turn in the end.

Each user states where they live (the newest statement wins: order), names a deadline (a fact of its own) and says thanks. The load
counts on nobody's patience: a turn is handed over as an orchestrator does it, and its user goes on.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from memory.model.fact import FactStatus
from memory.model.ids import short_hash
from memory.model.owner import View
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.model.window import WindowState
from memory.ports import TurnSummary
from memory.profile_file import Noted
from memory.settings import Settings
from memory.stores.objects.minio import MinioObjectStore
from starter.views import ReceiptStatus
from tests.support.fleet import World
from tests.support.waiting import until
from workflows import policies

ACCEPTED = {ReceiptStatus.RECORDED, ReceiptStatus.PENDING, ReceiptStatus.SPOOLED}
BEYOND_THE_STEP_S = 30.0
"""A turn may be late by the time-out of one step and this."""
KINDS = ("thanks", "place", "deadline")
"""What turns say, by turns."""
_PLACE = re.compile(r"Porto (\d+)")
_DEADLINE = re.compile(r"Harbour-(\d+)\b")


def user(number: int) -> Scope:
    return Scope.of("acme", f"talker-{number:02}")


def spoken(number: int, at: datetime) -> Turn:
    """The ``number``-th turn of a user, from 1."""
    said = {
        "place": f"I live in Porto {number}.",
        "deadline": f"The deadline of the Harbour-{number} project is 5 May 2027.",
        "thanks": "Thanks, that helps!",
    }[KINDS[number % len(KINDS)]]
    return Turn(turn_id=f"t{number}", user_text=said, assistant_text="Noted.", occurred_at=at, allow_user_memory=True)


@dataclass(frozen=True)
class Handed:
    """One turn as its orchestrator saw it. ``at``: when it was handed over."""

    number: int
    at: datetime
    status: ReceiptStatus

    @property
    def kind(self) -> str:
        return KINDS[self.number % len(KINDS)]


@dataclass
class Load:
    """``handed``: by user, in order. ``outages``: from when to when something was away, for the bound on delays. ``asked``: turns
    that users may hand over now, where they do not talk at a pace of their own."""

    world: World
    handed: dict[Scope, list[Handed]]
    outages: list[tuple[datetime, datetime]] = field(default_factory=list)
    asked: asyncio.Semaphore | None = None

    def _ask(self, turns: int) -> None:
        if self.asked is not None:
            for _ in range(turns):
                self.asked.release()

    @property
    def count(self) -> int:
        return sum(map(len, self.handed.values()))

    async def goes_on(self, turns: int, *, within_s: float = 120.0) -> None:
        """Until so many more turns were handed over."""
        wanted = self.count + turns
        self._ask(turns)
        await until(lambda: self.count >= wanted, within_s=within_s, what=f"{turns} more turns")

    async def finished(self) -> int:
        ledgers = [await self.ledger(scope) for scope in self.handed]
        return sum(row.state == "done" for rows in ledgers for row in rows.values())

    async def works_on(self, turns: int, *, within_s: float = 120.0) -> None:
        """Until so many more turns have their outcome."""
        wanted = await self.finished() + turns
        self._ask(turns)

        async def reached() -> bool:
            return await self.finished() >= wanted

        await until(reached, within_s=within_s, every_s=0.2, what=f"{turns} more outcomes")

    async def ledger(self, scope: Scope) -> dict[str, TurnSummary]:
        found: dict[str, TurnSummary] = {}
        below: int | None = None
        while page := await self.world.parts.log.summaries(scope=scope, below=below, limit=1000):
            assert not found.keys() & {row.turn_id for row in page}, "a turn has two rows"
            found |= {row.turn_id: row for row in page}
            below = page[-1].ordinal
        return found

    async def drained(self, *, within_s: float) -> None:
        """Until every turn that was handed over has its outcome, every event is in a window that is done, and the index is whole.
        Without hands: what is asked for is the last, short window of each user, which would come by itself after
        ``window_idle_s``."""

        async def all_done() -> bool:
            for scope, handed in self.handed.items():
                rows = await self.ledger(scope)
                if len(rows) < len(handed) or any(row.state != "done" for row in rows.values()):
                    return False
            return True

        await until(all_done, within_s=within_s, every_s=0.2, what="an outcome of every turn")
        for scope in self.handed:
            await self.world.memory.flush(scope)

        async def all_read() -> bool:
            for scope in self.handed:
                progress = await self.world.parts.ledger.progress(scope)
                if progress.consolidated_seq < progress.last_seq:
                    return False
                windows = await self.world.parts.ledger.windows(scope=scope, limit=1000)
                if any(window.state is not WindowState.DONE for window in windows):
                    return False
            return True

        await until(all_read, within_s=within_s, every_s=0.2, what="a window, done, for every event")

        async def all_indexed() -> bool:
            return (await self.world.parts.index.reconcile(limit=100_000, repair=False)).drift == 0

        await until(all_indexed, within_s=within_s, every_s=1.0, what="an index that says what the rows say")


HandOver = Callable[[Scope, Turn], Awaitable[ReceiptStatus]]


def embedded(world: World) -> HandOver:
    """As an orchestrator that imports the client: reads the profile, answers, hands the turn over."""

    async def hand_over(scope: Scope, turn: Turn) -> ReceiptStatus:
        await world.memory.load(scope, allow_user_memory=True)
        receipt = await world.memory.after_answer(scope, turn)
        assert receipt.status in ACCEPTED, receipt
        return receipt.status

    return hand_over


@asynccontextmanager
async def under_load(world: World, *, users: int, pace_s: float | None, hand_over: HandOver | None = None) -> AsyncGenerator[Load]:
    """``users`` people talk while the block runs, each a turn every ``pace_s`` seconds.

    Args:
        pace_s: None: they talk as often as :meth:`Load.goes_on` and :meth:`Load.works_on` want turns, so that a run costs
            the same on a slow machine.
        hand_over: :func:`embedded`, unless another is given.
    """
    hand_over = hand_over or embedded(world)
    load = Load(world, {user(number): [] for number in range(users)}, asked=asyncio.Semaphore(0) if pace_s is None else None)
    ended = asyncio.Event()

    async def may_talk(wait_s: float) -> bool:
        """False: it is over."""
        with suppress(TimeoutError):
            if load.asked is None:
                await asyncio.wait_for(ended.wait(), wait_s)
            else:
                either = [asyncio.create_task(load.asked.acquire()), asyncio.create_task(ended.wait())]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                for one in either:
                    one.cancel()
        return not ended.is_set()

    async def talk(scope: Scope, first_after_s: float) -> None:
        wait_s = first_after_s
        for number in itertools.count(1):
            if not await may_talk(wait_s):
                return
            wait_s = pace_s or 0.0
            at = datetime.now(UTC)
            load.handed[scope].append(Handed(number, at, await hand_over(scope, spoken(number, at))))

    async with asyncio.TaskGroup() as talking:
        for place, scope in enumerate(load.handed):
            talking.create_task(talk(scope, (pace_s or 0.0) * place / users))
        try:
            yield load
        finally:
            ended.set()


# ---------------------------------------------------------------------------------------------------------- what must hold


def bound_s(settings: Settings) -> float:
    """No turn may take longer from its answer to its outcome."""
    model = (policies.GATE, policies.CONSOLIDATE)
    store = (policies.CLAIM, policies.UPLOAD, policies.FINISH)
    longest = max(*(step.longest_s(settings.model_timeout_s) for step in model), *(step.start_to_close_s for step in store))
    return longest + BEYOND_THE_STEP_S


@dataclass(frozen=True)
class Report:
    """Of a load whose every turn was found as it must be. ``delays_s``: from the answer to the outcome, sorted; ``late_s``: the
    part of the longest one after the last outage that it met."""

    turns: int
    versions: int
    windows: int
    facts: int
    statuses: Mapping[str, int]
    outcomes: Mapping[str, int]
    delays_s: Sequence[float]
    late_s: float

    def __str__(self) -> str:
        def share(part: float) -> float:
            return self.delays_s[min(len(self.delays_s) - 1, int(part * len(self.delays_s)))]

        return (
            f"{self.turns} turns ({_counted(self.statuses)}; {_counted(self.outcomes)}), {self.versions} profile versions, "
            f"{self.windows} windows, {self.facts} facts; from answer to outcome {share(0.5):.2f} s (median), {share(0.99):.2f} s "
            f"(99 %), {self.delays_s[-1]:.2f} s (longest); {self.late_s:.2f} s at most without the outage itself"
        )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


async def check(load: Load) -> Report:
    """Every turn has one outcome and its effect once, every event is in one window. Fails the test otherwise."""
    assert load.world.memory.lost_turns == 0
    store = MinioObjectStore.from_settings(load.world.settings)
    versions = windows = facts = 0
    outcomes: Counter[str] = Counter()
    try:
        for scope, handed in load.handed.items():
            rows = await load.ledger(scope)
            assert rows.keys() == {f"t{one.number}" for one in handed}, scope
            outcomes.update(_check_outcomes(scope, handed, rows))
            versions += await _check_profile(load.world, store, scope, handed, rows)
            windows += await _check_windows(load.world, scope)
            facts += await _check_facts(load.world, scope, handed)
    finally:
        await store.aclose()
    delays, late = await _delays(load)
    return Report(
        turns=load.count,
        versions=versions,
        windows=windows,
        facts=facts,
        statuses=Counter(one.status.value for handed in load.handed.values() for one in handed),
        outcomes=outcomes,
        delays_s=delays,
        late_s=late,
    )


def _check_outcomes(scope: Scope, handed: Sequence[Handed], rows: Mapping[str, TurnSummary]) -> list[str]:
    """Places are learned; other turns are a no-op, or come along in the batch of one that teaches. No turn runs twice."""
    for one in handed:
        row = rows[f"t{one.number}"]
        allowed = {Outcome.UPDATED} if one.kind == "place" else {Outcome.UPDATED, Outcome.NOOP}
        assert row.outcome in allowed, (scope, row)
        assert row.attempt == 0, (scope, row)
    ordinals = [rows[f"t{one.number}"].ordinal for one in handed]
    assert ordinals == list(range(1, len(handed) + 1)), (scope, "recorded in another order", ordinals)
    return [str(row.outcome) for row in rows.values()]


async def _check_profile(
    world: World, store: MinioObjectStore, scope: Scope, handed: Sequence[Handed], rows: Mapping[str, TurnSummary]
) -> int:
    """The versions' own metadata name each learned turn exactly once, in the version that the ledger says; the body holds the
    newest statement and each of the others not at all."""
    profiles = world.parts.profiles
    bucket, key = profiles.bucket(scope.tenant), profiles.key(scope, "user-memory")
    listed = await store.list_versions(bucket, key, limit=1000)
    noted = [Noted.read(head) for info in listed if (head := await store.head(bucket, key, info.version_id))]
    assert [one.version for one in noted] == list(range(len(noted), 0, -1)), scope
    assert len({one.write_key for one in noted}) == len(noted), (scope, "a write was applied twice")
    held = [(turn, one.version) for one in noted for turn in one.turns]
    expected = [
        (short_hash(row.turn_id, str(row.attempt)), row.profile_version) for row in rows.values() if row.outcome is Outcome.UPDATED
    ]
    assert sorted(held) == sorted(expected), scope
    view = await world.memory.get_profile(scope)
    assert (view.version, view.turn_count) == (len(noted), len(noted)), scope
    assert _PLACE.findall(view.body) == [str(max(one.number for one in handed if one.kind == "place"))], (scope, view.body)
    return len(noted)


async def _check_windows(world: World, scope: Scope) -> int:
    progress = await world.parts.ledger.progress(scope)
    assert progress.consolidated_seq == progress.last_seq, scope
    windows = await world.parts.ledger.windows(scope=scope, limit=1000)
    covered = Counter(itertools.chain.from_iterable(range(one.first_seq, one.last_seq + 1) for one in windows))
    assert covered == Counter(range(1, progress.last_seq + 1)), scope
    assert {one.state for one in windows} == {WindowState.DONE}, [(one.window_id, one.state, one.reason) for one in windows]
    return len(windows)


async def _check_facts(world: World, scope: Scope, handed: Sequence[Handed]) -> int:
    """One fact for each deadline that was named."""
    facts = await world.parts.stores.facts.list(View(scope), statuses=tuple(FactStatus), limit=10_000)
    told = Counter(int(found) for fact in facts for found in _DEADLINE.findall(fact.statement))
    expected = Counter(one.number for one in handed if one.kind == "deadline")
    assert told == expected, (scope, told - expected, expected - told, [(fact.statement, fact.status.value) for fact in facts])
    return len(facts)


async def _delays(load: Load) -> tuple[list[float], float]:
    """All delays, and the longest one of which an outage that the turn met does not count up to its end."""
    delays: list[float] = []
    late = 0.0
    for scope, handed in load.handed.items():
        rows = await load.ledger(scope)
        for one in handed:
            done = rows[f"t{one.number}"].finished_at
            assert done is not None
            begun = max([one.at, *(to for since, to in load.outages if one.at < to and done > since)])
            delays.append((done - one.at) / timedelta(seconds=1))
            late = max(late, (done - begun) / timedelta(seconds=1))
    return sorted(delays), late
