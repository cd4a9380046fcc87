"""Kill -9 of the worker at every boundary between two stages; another worker goes on. Real processes, Temporal, S3 and SQLite.

Whatever the moment: every turn has exactly one outcome, and the profile, its version and its history are those of a run that
nobody disturbed. All crash points run at once, each in a Temporal namespace, a database and buckets of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.llm.factory import build_models
from memory.llm.simulated_prompt import read_request
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.profiles import candidate_name
from memory.settings import load_settings
from starter.engines import S3Server, TemporalServer
from starter.views import EditResult
from tests.support.fleet import Foreman, WorkerProcess, World, migrated_file, new_namespace, open_world, world_settings
from tests.support.model_stub import ModelStub, StubRequest, answer_with
from tests.support.seen import Seen, look
from tests.support.waiting import until
from tests.support.webhook import WebhookReceiver
from tests.support.wires import Point

pytestmark = pytest.mark.timeout(240)

KILLED = -9
AT_ONCE = 20
"""So many worlds at a time: a worker and a client each."""
START = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
USER = Scope.of("acme", "ada")
SAYINGS = ("My name is Ada Keller and I work at Northwind.", "Thanks, that helps!", "I live in Porto.")
EDITED = "## Identity\n- Ada Keller\n- Works at Northwind\n- Likes to be called Countess\n"


def turn(number: int) -> Turn:
    return Turn(
        turn_id=f"t{number}",
        user_text=SAYINGS[number - 1],
        assistant_text="Noted.",
        occurred_at=START + timedelta(minutes=number),
        allow_user_memory=True,
    )


class Crew:
    """One worker after the other: those that crash, then a healthy one. A successor comes when ``may_replace`` is set."""

    def __init__(self, foreman: Foreman, world: World, crashes: Sequence[Point], model: ModelStub) -> None:
        self._foreman = foreman
        self._world = world
        self._crashes = crashes
        self._task: asyncio.Task[WorkerProcess] | None = None
        self.may_replace = asyncio.Event()
        self.may_replace.set()
        self.deaths: list[int] = []
        self.model = model
        """The simulated model over HTTP, for stories that use it; it consolidates when ``release`` is set."""
        self.release = threading.Event()
        answer = answer_with(build_models(load_settings({})).model("simulated"))
        model.default = lambda asked: replace(answer(asked), hold=self.release if _is_consolidation(asked) else None)

    def begin(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def _work(self) -> WorkerProcess:
        for crash in self._crashes:
            worker = await self._foreman.start(self._world.settings, self._world.client, crash=crash)
            self.deaths.append(await worker.wait(90))
            await self.may_replace.wait()
        return await self._foreman.start(self._world.settings, self._world.client)

    async def end(self) -> None:
        """All that should crash have crashed, and the healthy one ends in good order."""
        assert self._task is not None
        last = await self._task
        last.terminate()
        assert await last.wait() == 0, last.log()


Story = Callable[[World, Crew], Awaitable[list[EditResult]]]


async def three_turns(world: World, crew: Crew) -> list[EditResult]:
    """All are recorded before a worker comes, so that batches are the same in every run."""
    await world.record(USER, [turn(1), turn(2), turn(3)])
    crew.begin()
    await world.settle(USER)
    return []


async def turns_and_saves(world: World, crew: Crew) -> list[EditResult]:
    """A turn, the user's own save, a save that changes nothing, a turn, a roll-back to the save."""
    crew.begin()
    await world.record(USER, [turn(1)])
    await world.settle(USER)
    read = await world.memory.get_profile(USER)
    saved = await world.memory.edit_profile(USER, EDITED, expected_etag=read.etag, edit_id="e1")
    same = await world.memory.edit_profile(USER, EDITED, expected_etag=saved.etag, edit_id="e2")
    await world.settle(USER)
    await world.record(USER, [turn(3)])
    await world.settle(USER)
    back = await world.memory.rollback(USER, 2, edit_id="r1")
    await world.settle(USER)
    return [saved, same, back]


async def save_after_the_crash(world: World, crew: Crew) -> list[EditResult]:
    """A turn's upload is done, and the worker died before anybody was told. The user saves before another worker comes."""
    crew.may_replace.clear()
    await world.record(USER, [turn(1)])
    crew.begin()

    async def uploaded() -> bool:
        return (await world.memory.get_profile(USER)).exists

    await until(uploaded, within_s=60)
    read = await world.memory.get_profile(USER)
    saving = asyncio.create_task(world.memory.edit_profile(USER, EDITED, expected_etag=read.etag, edit_id="e1"))

    async def staged() -> bool:
        return await world.parts.profiles.read_staged(USER, candidate_name(EDITED, owner="e1")) is not None or saving.done()

    await until(staged)
    crew.may_replace.set()
    saved = await saving
    await world.settle(USER)
    return [saved]


async def save_meets_turn(world: World, crew: Crew) -> list[EditResult]:
    """The user saves while the model works on the older profile: what it makes is refused, and made again from the save."""
    await world.record(USER, [turn(1)])
    crew.begin()
    await until(lambda: any(map(_is_consolidation, list(crew.model.requests))), within_s=60)
    saved = await world.memory.edit_profile(USER, EDITED, expected_etag=None, edit_id="e1")
    crew.release.set()
    await world.settle(USER)
    return [saved]


def _is_consolidation(request: StubRequest) -> bool:
    return read_request(request.chat_request()).task == "rewrite"


STORIES: Mapping[str, tuple[Story, Mapping[str, Any]]] = {
    "separately": (three_turns, {"coalesce_turns": False}),
    "together": (three_turns, {"coalesce_turns": True}),
    "saves": (turns_and_saves, {}),
    "late save": (save_after_the_crash, {}),
    "save meets turn": (save_meets_turn, {"language_model": "openai:stub"}),
}

POINTS: Sequence[tuple[str, Sequence[Point]]] = [
    # Three turns one by one: updated, noop by the gate, updated.
    ("separately", [Point("log.pending", "before")]),
    ("separately", [Point("log.pending", "after")]),
    ("separately", [Point("directory.provision_root", "after")]),
    ("separately", [Point("model.gate", "before")]),
    ("separately", [Point("model.gate", "after")]),
    ("separately", [Point("notice.updating_started", "after")]),
    ("separately", [Point("model.consolidate", "before")]),
    ("separately", [Point("model.consolidate", "after")]),
    ("separately", [Point("profiles.stage", "after")]),
    ("separately", [Point("profiles.commit", "before")]),
    ("separately", [Point("profiles.commit", "after")]),
    ("separately", [Point("profiles.drop_staged", "after")]),
    ("separately", [Point("notice.updating_completed", "after")]),
    ("separately", [Point("log.finish", "before")]),
    ("separately", [Point("log.finish", "after")]),
    ("separately", [Point("log.finish", "after", 2)]),
    ("separately", [Point("profiles.commit", "after", 2)]),
    ("separately", [Point("log.pending", "before", 4)]),
    # Three deaths on the way of one user's turns.
    (
        "separately",
        [Point("profiles.commit", "after"), Point("notice.updating_completed", "after"), Point("log.finish", "after")],
    ),
    ("together", [Point("profiles.commit", "after")]),
    ("together", [Point("log.finish", "after")]),
    ("saves", [Point("profiles.commit", "before", 2)]),
    ("saves", [Point("profiles.commit", "after", 2)]),
    ("saves", [Point("profiles.drop_staged", "after", 2)]),
    ("saves", [Point("profiles.read_staged", "before", 3)]),
    ("saves", [Point("profiles.read_staged", "after", 3)]),
    ("saves", [Point("profiles.commit", "after", 4)]),
    ("late save", [Point("profiles.drop_staged", "before")]),
    ("late save", [Point("profiles.drop_staged", "after")]),
    ("save meets turn", [Point("profiles.commit", "after", 1)]),
    ("save meets turn", [Point("profiles.commit", "before", 2)]),
    ("save meets turn", [Point("profiles.drop_staged", "after", 2)]),
]
NAMES = [f"{story}: {', then '.join(map(str, crashes))}" for story, crashes in POINTS]


@dataclass
class Lab:
    """What all worlds share."""

    folder: Path
    database: Path
    s3: S3Server
    temporal: TemporalServer
    foreman: Foreman


@dataclass
class Life:
    """``deaths``: exit codes of the workers that were to crash."""

    seen: Seen
    deaths: Sequence[int]


async def live(lab: Lab, name: str, story_name: str, crashes: Sequence[Point]) -> Life:
    """One world from its first turn to its last worker's orderly end."""
    story, overrides = STORIES[story_name]
    with WebhookReceiver() as webhook, ModelStub() as model:
        told = {**webhook.settings, **model.settings, "notice_timeout_s": 10, "notice_log": False, **overrides}
        settings = world_settings(lab.folder / name, lab.database, lab.s3.settings, **told)
        async with open_world(settings, await new_namespace(lab.temporal.address)) as world:
            crew = Crew(lab.foreman, world, crashes, model)
            replies = await story(world, crew)
            await crew.end()
            seen = await look(world, USER, webhook, replies)
        assert webhook.failures == model.failures == []
    return Life(seen, crew.deaths)


async def live_all(lab_parts: tuple[Path, Path, S3Server, TemporalServer], wanted: set[str]) -> dict[str, Life | BaseException]:
    folder, database, s3, temporal = lab_parts
    places = asyncio.Semaphore(AT_ONCE)
    async with Foreman(folder / "workers") as foreman:
        lab = Lab(folder, database, s3, temporal, foreman)

        async def one(number: int, story: str, crashes: Sequence[Point]) -> Life:
            async with places, asyncio.timeout(180):
                return await live(lab, f"w{number}", story, crashes)

        jobs: list[tuple[str, str, Sequence[Point]]] = [(story, story, ()) for story in STORIES]
        jobs += [(name, story, crashes) for name, (story, crashes) in zip(NAMES, POINTS, strict=True) if name in wanted]
        seen = await asyncio.gather(
            *(one(number, story, crashes) for number, (_, story, crashes) in enumerate(jobs)), return_exceptions=True
        )
    return dict(zip((name for name, *_ in jobs), seen, strict=True))


@pytest.fixture(scope="module")
def lives(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    s3_server: S3Server,
    temporal_server: TemporalServer,
) -> dict[str, Life | BaseException]:
    """Every crash point that was asked for, and the undisturbed runs (under their story's name), lived side by side."""
    wanted = {item.callspec.params["name"] for item in request.session.items if getattr(item, "module", None) is request.module}
    folder = tmp_path_factory.mktemp("kill")
    database = migrated_file(folder)
    return asyncio.run(live_all((folder, database, s3_server, temporal_server), wanted))


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_worker_changes_nothing_in_the_end(lives: Mapping[str, Life | BaseException], name: str) -> None:
    story, crashes = POINTS[NAMES.index(name)]
    undisturbed, disturbed = lives[story], lives[name]
    for life in (undisturbed, disturbed):
        if isinstance(life, BaseException):
            raise life
    assert isinstance(undisturbed, Life)
    assert isinstance(disturbed, Life)
    assert disturbed.deaths == [KILLED] * len(crashes)
    assert {state for state, *_ in disturbed.seen.ledger.values()} == {"done"}
    assert disturbed.seen == undisturbed.seen
    disturbed.seen.check_notices()
