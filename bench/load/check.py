"""Whether a load run lost or did anything twice, by what the stores hold at its end."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, select

from bench.load.drive import Handed, statuses
from bench.load.site import Site
from memory.model.directory import DEFAULT_ROOT_FOLDER
from memory.model.names import CONSOLIDATE_EVENTS_WORKFLOW, POST_ANSWER_WORKFLOW
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.stores.tables.rows import EVENTS, TURNS
from memory.stores.tables.rows_window import WINDOWS

_PROFILES_AT_ONCE: Final = 16
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Finished:
    """A turn as the ledger has it."""

    outcome: str | None
    profile_version: int | None
    finished_at: datetime | None
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    """``problems``: empty when nothing was lost or done twice. ``coalesced``: turns that shared their run's step with others."""

    turns: dict[str, Finished]
    windows: int
    profile_versions: int
    coalesced: int
    not_started: int
    problems: tuple[str, ...]


async def check(site: Site, handed: Sequence[Handed], before: Mapping[Scope, int]) -> Checked:
    """Every turn handed over has one row with the outcome that the script says, and one effect; every event one place; every full
    window is done once.

    Args:
        before: messages by user that were recorded before the turns.
    """
    events = Counter(before)
    events.update({scope: 2 * count for scope, count in Counter(one.turn.scope for one in handed).items()})
    found, twice = await _ledger(site)
    problems = [*twice, *_outcomes(handed, found)]
    problems += await _events(site, events)
    windows, more = await _windows(site, events)
    problems += more
    versions, more = await _profiles(site, handed, found)
    problems += more
    for kind in (POST_ANSWER_WORKFLOW, CONSOLIDATE_EVENTS_WORKFLOW):
        query = f"WorkflowType = '{kind}' AND ExecutionStatus != 'Completed' AND ExecutionStatus != 'ContinuedAsNew'"
        count = (await site.client.count_workflows(query)).count
        problems += [f"{count} runs of {kind} did not complete"] if count else []
    sharing = Counter((one.turn.user, found[one.turn.turn_id].profile_version) for one in handed if _updated(found, one))
    return Checked(
        turns=found,
        windows=windows,
        profile_versions=versions,
        coalesced=sum(count - 1 for count in sharing.values()),
        not_started=sum(not one.started for one in handed),
        problems=tuple(problems),
    )


def _updated(found: dict[str, Finished], one: Handed) -> bool:
    finished = found.get(one.turn.turn_id)
    return finished is not None and finished.outcome == Outcome.UPDATED


async def _ledger(site: Site) -> tuple[dict[str, Finished], list[str]]:
    columns = (TURNS.c.turn_key, TURNS.c.outcome, TURNS.c.profile_version, TURNS.c.finished_at, TURNS.c.run_id)
    rows: Sequence[Any] = await site.tables.database.write(lambda c: c.execute(select(*columns)).all(), timeout_s=60)
    found = {row.turn_key: Finished(row.outcome, row.profile_version, row.finished_at, row.run_id) for row in rows}
    return found, [f"{len(rows) - len(found)} turns have more than one row"] if len(found) != len(rows) else []


def _outcomes(handed: Sequence[Handed], found: dict[str, Finished]) -> list[str]:
    problems: list[str] = []
    other = {status: count for status, count in statuses(handed).items() if status != "recorded"}
    if other:
        problems.append(f"receipts other than recorded: {other}")
    lost = [one.turn.turn_id for one in handed if one.turn.turn_id not in found]
    if lost:
        problems.append(f"{len(lost)} turns are not in the ledger, for instance {', '.join(lost[:_SHOWN])}")
    if len(found) > len(handed):
        problems.append(f"the ledger has {len(found) - len(handed)} turns that nobody handed over")
    wrong: Counter[str] = Counter()
    for one in handed:
        outcome = found[one.turn.turn_id].outcome if one.turn.turn_id in found else None
        # A turn that teaches nothing may have shared its gate with one that does.
        if outcome is not None and outcome not in ({"updated"} if one.turn.update else {"noop", "updated"}):
            wrong[f"{'UPDATE' if one.turn.update else 'NOOP'} turn ended as {outcome}"] += 1
        wrong["no outcome"] += outcome is None
    return [*problems, *(f"{count} times: {what}" for what, count in wrong.items() if count)]


async def _events(site: Site, wanted: Mapping[Scope, int]) -> list[str]:
    query = select(EVENTS.c.user_id, func.count(), func.min(EVENTS.c.seq), func.max(EVENTS.c.seq)).group_by(EVENTS.c.user_id)
    rows: Sequence[Any] = await site.tables.database.write(lambda c: c.execute(query).all(), timeout_s=60)
    expected = {scope.user: count for scope, count in wanted.items() if count}
    wrong = [user for user, count, least, most in rows if (count, least, most) != (expected.get(user), 1, count)]
    wrong += sorted(set(expected) - {row[0] for row in rows})
    return [f"{len(wrong)} users have other events than were handed over, for instance {wrong[0]}"] if wrong else []


async def _windows(site: Site, events: Mapping[Scope, int]) -> tuple[int, list[str]]:
    size = site.settings.window_size
    columns = (WINDOWS.c.user_id, WINDOWS.c.state, WINDOWS.c.first_seq, WINDOWS.c.last_seq)
    wanted = select(*columns).order_by(WINDOWS.c.user_id, WINDOWS.c.first_seq)
    rows: Sequence[Any] = await site.tables.database.write(lambda c: c.execute(wanted).all(), timeout_s=60)
    by_user: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    problems = [f"a window of {row.user_id} is {row.state}" for row in rows if row.state != "done"]
    for row in rows:
        by_user[row.user_id].append((row.first_seq, row.last_seq))
    for scope, count in events.items():
        expected = [(first + 1, first + size) for first in range(0, count - size + 1, size)]
        if by_user[scope.user] != expected:
            problems.append(f"{scope.user} has {len(by_user[scope.user])} windows, expected {len(expected)}, or with gaps")
    return len(rows), problems[:_SHOWN]


async def _profiles(site: Site, handed: Sequence[Handed], found: dict[str, Finished]) -> tuple[int, list[str]]:
    """As many versions as there were updates, numbered without gaps, and as many bullets: the script adds one each time."""
    expected: defaultdict[Scope, set[int | None]] = defaultdict(set)
    for one in handed:
        if _updated(found, one):
            expected[one.turn.scope].add(found[one.turn.turn_id].profile_version)
    places, problems, total = asyncio.Semaphore(_PROFILES_AT_ONCE), list[str](), 0

    async def one_user(scope: Scope, versions: set[int | None]) -> None:
        nonlocal total
        async with places:
            stored = await site.store.list_all_versions(
                site.profiles.bucket(scope.tenant), site.profiles.key(scope, DEFAULT_ROOT_FOLDER)
            )
            snapshot = await site.profiles.read(scope, DEFAULT_ROOT_FOLDER)
        total += len(stored)
        bullets = snapshot.document.profile.bullet_count
        if not len(stored) == snapshot.version == bullets == len(versions):
            problems.append(
                f"{scope.user}: {len(versions)} updates, {len(stored)} versions, the last is {snapshot.version}, {bullets} bullets"
            )

    await asyncio.gather(*(one_user(scope, versions) for scope, versions in expected.items()))
    return total, problems[:_SHOWN]
