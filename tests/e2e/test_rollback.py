"""A bad version of the prompts has damaged profiles; an operator finds the runs and brings the profiles back. Real servers."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.model.errors import InvalidInput, MemoryUnavailable
from memory.model.scope import Scope
from memory.ports import ChatReply, ChatRequest
from starter import bulk_rollback
from starter.views import EditResult, RepairReport, RepairStatus
from tests.e2e.command import afterturn
from tests.support.fleet import as_environment, server_of
from tests.support.models import ScriptedModel, profile_text
from tests.support.stack import Stack, StartStack

S = RepairStatus
NUMBERS = itertools.count()
SAID = re.compile(r"(good|bad) turn (\d+)")


class Model(ScriptedModel):
    """Answers while it is ``open``."""

    def __init__(self, rewrite: Callable[[ChatRequest], str]) -> None:
        super().__init__({"gate": "UPDATE", "consolidate": rewrite})
        self.open = asyncio.Event()
        self.open.set()

    async def complete(self, request: ChatRequest) -> ChatReply:
        await self.open.wait()
        return await super().complete(request)


@pytest.fixture
async def world(stack: StartStack, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Stack]:
    """Turns that say "bad" are worked on with the prompts v2, all others with v1, also within one run."""

    def rewrite(request: ChatRequest) -> str:
        kind, number = SAID.findall("\n".join(message.text for message in request.messages))[-1]
        monkeypatch.setattr("activities.model_steps.PROMPT_VERSION", "v2" if kind == "bad" else "v1")
        return profile_text(identity=f"- {'rubbish' if kind == 'bad' else 'known'} since turn {number}")

    async with stack(model=Model(rewrite), coalesce_turns=False, loss_guard_max_lost_fraction=1.0) as running:
        yield running


async def talk(world: Stack, who: Scope, *kinds: str) -> None:
    """One turn after the other, each in a run of its own; ``edit`` is a save of the user, ``+`` has the next turn join the run."""
    model: Any = world.memory._parts.models
    for kind in kinds:
        if kind.endswith("+"):
            model.chat.open.clear()
        if kind == "edit":
            profile = await world.profile(who)
            assert (await world.memory.edit_profile(who, "## Identity\n- mine", expected_etag=profile.etag)).saved
        else:
            await world.say(who, f"A {kind.rstrip('+')} turn {next(NUMBERS)}.")
        if not kind.endswith("+"):
            model.chat.open.set()
            await world.settle(who)


async def bodies(world: Stack, *users: Scope) -> list[str]:
    return [re.search(r"- (\w+)", (await world.profile(who)).body)[1] for who in users]  # type: ignore[index]


def outcome(report: RepairReport, who: Scope) -> tuple[Any, ...]:
    (one,) = (one for one in report.profiles if one.scope == who)
    return one.status, one.damaged, one.target, one.lost


async def test_profiles_come_back_to_what_they_were_before_the_damage(world: Stack, tmp_path: Path) -> None:
    company = f"acme-{tmp_path.name}"[:40]
    names = ("plain", "buried", "edited", "first", "undone", "forgotten", "one-run", "untouched")
    users = {name: world.user(name, company) for name in names}
    await talk(world, users["plain"], "good", "bad")
    await talk(world, users["buried"], "good", "bad", "bad", "good")
    await talk(world, users["edited"], "good", "bad", "edit")
    await talk(world, users["first"], "bad")
    await talk(world, users["undone"], "good", "bad")
    assert (await world.memory.rollback(users["undone"], 1)).saved
    await talk(world, users["forgotten"], "good", "bad")
    await talk(world, users["one-run"], "good+", "bad+", "good")
    await talk(world, users["untouched"], "good", "good")
    await world.settle(*users.values())
    (one_run,) = {row.run_id for row in (await world.ledger(users["one-run"])).values()}
    assert one_run, "its three turns were worked on in one run"
    await world.parts.erasures.open(users["forgotten"], erasure_id="e1", requested_by="test", now=datetime.now(UTC))
    found = {name: who for name, who in users.items() if name != "untouched"}
    where = f"AfterturnTenant = '{company}'"

    dry = await world.memory.rollback_runs(where, prompts="v2")
    expected = {
        "plain": (S.WOULD_ROLL_BACK, 2, 1, 0),
        "buried": (S.WOULD_ROLL_BACK, 2, 1, 1),
        "edited": (S.EDITED, None, None, 0),
        "first": (S.NOTHING_BEFORE, 1, None, 0),
        "undone": (S.CLEAN, None, None, 0),
        "forgotten": (S.FORGETTING, None, None, 0),
        "one-run": (S.WOULD_ROLL_BACK, 2, 1, 1),
    }
    assert {name: outcome(dry, who) for name, who in found.items()} == expected
    assert (dry.applied, dry.users, dry.left) == (False, len(found), 0)
    # Without the prompts' version all that the runs wrote counts: also the first turn of the run that had both.
    wider = await world.memory.rollback_runs(f"{where} AND AfterturnPrompts = 'v2'")
    assert outcome(wider, users["one-run"]) == (S.NOTHING_BEFORE, 1, None, 0)
    assert await bodies(world, users["plain"], users["buried"]) == ["rubbish", "known"], "a dry run changes nothing"

    # The real thing, by the command: in pages, a few at a time, called again until all is done.
    env = {**as_environment(world.settings), **server_of(world.client)}
    given = ("rollback", "--where", where, "--prompts", "v2", "--json")
    data_dir = world.settings.data_dir
    shown = await asyncio.to_thread(afterturn, *given, data_dir=data_dir, env=env)
    assert (shown.code, shown.json["applied"], shown.json["counts"]["would_roll_back"]) == (0, False, 3), shown
    some = await asyncio.to_thread(afterturn, *given, "--yes", "--limit", "2", data_dir=data_dir, env=env)
    assert (some.code, some.json["counts"]["rolled_back"], some.json["again"]) == (1, 2, True), some
    world.memory._bulk._page = 2  # pyright: ignore[reportPrivateUsage]
    rest = await world.memory.rollback_runs(where, prompts="v2", apply=True, empty=True)
    assert (rest.counts[S.ROLLED_BACK], rest.counts[S.EMPTIED], rest.again) == (1, 1, False)
    done = await asyncio.to_thread(afterturn, *given[:-1], "--yes", "--empty", data_dir=data_dir, env=env)
    assert done.code == 0, done
    assert "rolled back" not in done.out
    assert "edited since (v3)" in done.out
    again = await world.memory.rollback_runs(where, prompts="v2", empty=True)
    assert again.counts == {S.EDITED: 1, S.CLEAN: 5, S.FORGETTING: 1}

    assert await bodies(world, users["plain"], users["buried"], users["one-run"], users["undone"]) == ["known"] * 4
    assert (await world.profile(users["edited"])).body.count("mine") == 1
    assert "rubbish" not in (await world.profile(users["first"])).body
    causes = [version.cause for version in await world.memory.history(users["buried"])]
    assert causes == ["rollback:1", "turns", "turns", "turns", "turns"], "history stays"
    # What is learned afterwards stays, and a second incident is undone from there.
    await talk(world, users["plain"], "good")
    assert outcome(await world.memory.rollback_runs(where, prompts="v2"), users["plain"])[0] is S.CLEAN
    await talk(world, users["plain"], "bad")
    assert outcome(await world.memory.rollback_runs(where, prompts="v2"), users["plain"]) == (S.WOULD_ROLL_BACK, 5, 4, 0)


async def test_what_happens_meanwhile_is_not_undone_and_a_broken_off_call_is_taken_up(
    world: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    company = f"meanwhile-{tmp_path.name}"[:40]
    users = [world.user(f"u{number}", company) for number in range(4)]
    for who in users:
        await talk(world, who, "good", "bad")
    where = f"AfterturnTenant = '{company}'"
    memory, handles = world.memory, world.memory._handles  # pyright: ignore[reportPrivateUsage]
    rollback = handles.rollback
    monkeypatch.setattr(bulk_rollback, "AT_ONCE", 1)

    # A person saves after the profile was looked at: theirs stays.
    async def after_a_save(scope: Scope, to_version: int, **given: Any) -> EditResult:
        if scope == users[0]:
            await talk(world, scope, "edit")
        return await rollback(scope, to_version, **given)

    monkeypatch.setattr(handles, "rollback", after_a_save)
    report = await memory.rollback_runs(f"{where} AND AfterturnUser = '{users[0].user}'", prompts="v2", apply=True)
    assert outcome(report, users[0])[0] is S.EDITED
    assert "mine" in (await world.profile(users[0])).body

    # Broken off in the middle of the second one, whose roll-back has reached its workflow.
    reached = asyncio.Event()

    async def slow(scope: Scope, to_version: int, **given: Any) -> EditResult:
        result = await rollback(scope, to_version, **given)
        reached.set()
        return await asyncio.Event().wait() or result

    monkeypatch.setattr(handles, "rollback", slow)
    call = asyncio.create_task(memory.rollback_runs(where, prompts="v2", apply=True))
    await asyncio.wait_for(reached.wait(), 30)
    call.cancel()
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)

    # Then Temporal is away: it stops, says so, and nothing is half done.
    async def away(scope: Scope, to_version: int, **given: Any) -> EditResult:
        raise MemoryUnavailable("Temporal is away")

    monkeypatch.setattr(handles, "rollback", away)
    monkeypatch.setattr(bulk_rollback, "GIVE_UP_AFTER", 1)
    stopped = await memory.rollback_runs(where, prompts="v2", apply=True)
    assert stopped.stopped is not None
    assert "Temporal is away" in stopped.stopped
    assert (stopped.again, stopped.left) == (True, 1)

    # A fault of this code at one user: in the report, by its kind alone, and the others go on.
    async def broken(scope: Scope, to_version: int, **given: Any) -> EditResult:
        if scope != users[2]:
            return await rollback(scope, to_version, **given)
        raise KeyError("words of a user")

    monkeypatch.setattr(handles, "rollback", broken)
    one = await memory.rollback_runs(f"{where} AND AfterturnUser = '{users[2].user}'", prompts="v2", apply=True)
    assert (one.counts, one.again, "words" in (one.profiles[0].reason or "")) == ({S.FAILED: 1}, True, False)

    monkeypatch.setattr(handles, "rollback", rollback)
    rest = await memory.rollback_runs(where, prompts="v2", apply=True)
    assert rest.counts == {S.ROLLED_BACK: 2, S.EDITED: 1, S.CLEAN: 1}
    assert await bodies(world, *users) == ["mine", "known", "known", "known"]


async def test_what_cannot_be_asked_is_refused_before_anything_is_done(world: Stack) -> None:
    for where, prompts, told in (
        (None, None, "say which runs"),
        ("  ", None, "say which runs"),
        ("NoSuchAttribute = 'x'", None, "does not understand the query"),
        ("AfterturnTenant = ", None, "does not understand the query"),
        (None, "v2' OR '", "letters and digits"),
    ):
        with pytest.raises(InvalidInput, match=told):
            await world.memory.rollback_runs(where, prompts=prompts, apply=True)
    with pytest.raises(InvalidInput, match="limit"):
        await world.memory.rollback_runs("AfterturnTenant = 'x'", limit=0)
    nobody = await world.memory.rollback_runs("AfterturnTenant = 'nobody'", apply=True)
    assert (nobody.runs, nobody.users, nobody.profiles, nobody.again) == (0, 0, (), False)
