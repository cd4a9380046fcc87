"""Processes that say that they run, and loading notices on their way into the box: beside the work, and never in its way."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memory.model.errors import StoreUnavailable
from memory.model.scope import Scope
from memory.ports import Notice
from memory.ports.service import Process
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import Tables, build_tables
from starter import notice_box_relay
from starter.doctor import _Doctor, _run
from starter.heartbeat import announced, flags_of
from starter.notice_box_relay import box_relay, telling_client
from starter.relay import NoticeRelay
from tests.starter.conftest import World
from tests.support.waiting import until

ANN = Scope.of("acme", "ann")
SETTINGS = load_settings({})


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[Tables]:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    migrate(url)
    made = build_tables(url)
    yield made
    await made.aclose()


async def running(tables: Tables) -> Sequence[Process]:
    return await tables.processes.running(since=datetime.now(UTC) - timedelta(minutes=1))


class TestHeartbeat:
    async def test_a_process_is_listed_while_it_runs_and_seen_again_and_again(self, tables: Tables) -> None:
        async with announced(tables.processes, kind="worker", settings=SETTINGS, every_s=0.05) as me:
            async with announced(tables.processes, kind="api", settings=SETTINGS):
                await until(lambda: _is_listed(tables, {"api", "worker"}))
            first = next(one for one in await running(tables) if one.kind == "worker")
            assert (first.process_id, first.started_at, first.flags) == (me.process_id, me.started_at, flags_of(SETTINGS))
            await until(lambda: _is_seen_after(tables, first.seen_at))
            assert {one.kind for one in await running(tables)} == {"worker"}
        assert await running(tables) == []

    async def test_a_database_that_is_away_is_tried_again(self, tables: Tables, caplog: pytest.LogCaptureFixture) -> None:
        flaky = Flaky(tables.processes)
        async with announced(flaky, kind="worker", settings=SETTINGS, every_s=0.01):
            await until(lambda: flaky.calls >= 3)
            flaky.away = False
            await until(lambda: _is_listed(tables, {"worker"}))
            flaky.away = True
        assert len(await running(tables)) == 1, "what could not be removed is left to the sweep"


class TestPayloadKeys:
    """What the doctor says before a process whose payloads nobody can read stops the runs that it speaks to."""

    OLD, NEW, OTHER = (f"{name}:{base64.b64encode(byte * 32).decode()}" for name, byte in (("o", b"o"), ("n", b"n"), ("n", b"x")))

    @pytest.mark.parametrize(
        ("here", "worker", "told"),
        [
            (None, None, "none: in clear; 1 running workers agree"),
            (NEW, NEW, "n encrypts; 1 running workers agree"),
            (f"{NEW},{OLD}", f"{OLD},{NEW}", "n encrypts; 1 running workers agree"),
            (NEW, OLD, "cannot read what this process writes: it has not got the key n"),
            (NEW, OTHER, "it has not got the key n (only another one of this name)"),
            (NEW, None, "cannot read what this process writes: it has not got the key n"),
            (None, NEW, "this process cannot read what worker@"),
            (OLD, f"{NEW},{OLD}", "this process cannot read what worker@"),
        ],
    )
    async def test_the_doctor_compares_them(
        self, tables: Tables, tmp_path: Path, here: str | None, worker: str | None, told: str
    ) -> None:
        def having(keys: str | None) -> Settings:
            given = {} if keys is None else {"payload_keys": SecretStr(keys)}
            return load_settings({}, database_url=f"sqlite:///{tmp_path / 'a.db'}", **given)

        async with announced(tables.processes, kind="worker", settings=having(worker)):
            await until(lambda: _is_listed(tables, {"worker"}))
            check = await _run("payload keys", _Doctor(having(here)).payload_keys, "")
        assert told in check.detail
        assert check.ok is ("agree" in told)
        assert not any(key and key[2:10] in check.detail for key in (here, worker))


async def _is_listed(tables: Tables, kinds: set[str]) -> bool:
    return {one.kind for one in await running(tables)} == kinds


async def _is_seen_after(tables: Tables, moment: datetime) -> bool:
    return any(one.seen_at > moment for one in await running(tables))


class Flaky:
    """A store that is away at first."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.away = True
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.away:
                raise StoreUnavailable("the database is away")
            return await getattr(self._store, name)(*args, **kwargs)

        return call


class TestBoxRelay:
    async def test_loading_notices_reach_the_box_in_order(self, tables: Tables) -> None:
        into = box_relay(tables.notices)
        relay = NoticeRelay(into)
        for _ in range(3):
            relay.ended(ANN, relay.started(ANN), failed=False)
        await relay.aclose(within_s=5)
        await into.aclose(within_s=5)
        boxed = await tables.notices.of_user(ANN, after=0)
        assert [one.notice.step for one in boxed] == ["loading_started", "loading_completed"] * 3
        assert (relay.failed, relay.dropped, into.lost) == (0, 0, 0)

    async def test_while_the_database_is_away_notices_are_given_up_and_counted(
        self, tables: Tables, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(notice_box_relay, "MAX_WAITING", 4)
        flaky: Any = Flaky(tables.notices)
        into = box_relay(flaky)
        for number in range(6):
            into(_notice(str(number)))
        await until(lambda: into.lost == 6)
        flaky.away = False
        into(_notice("old", at=datetime.now(UTC) - timedelta(minutes=1)))
        into(_notice("new"))
        await into.aclose(within_s=5)
        assert [one.notice.key for one in await tables.notices.of_user(ANN, after=0)] == ["new"]
        assert into.lost == 7

    async def test_closing_does_not_wait_for_a_database_that_hangs(self) -> None:
        class Hanging:
            async def put_all(self, *_: Any, **__: Any) -> None:
                await asyncio.Event().wait()

        hanging: Any = Hanging()
        into = box_relay(hanging)
        into(_notice("k"))
        await into.aclose(within_s=0.01)
        await into.aclose(within_s=0.01)

    @pytest.mark.parametrize(("stream", "steps"), [(True, ["loading_started", "loading_completed"]), (False, [])])
    async def test_a_client_tells_the_streams_that_it_loads(self, world: World, stream: bool, steps: list[str]) -> None:
        settings = world.settings.model_copy(update={"notice_stream": stream})
        client = telling_client(settings, world.client()._parts, world.tables.notices)
        await client.load(("acme", "ann"), allow_user_memory=True)
        await client.aclose()
        assert [one.notice.step for one in await world.tables.notices.of_user(ANN, after=0)] == steps


def _notice(key: str, *, at: datetime | None = None) -> Notice:
    return Notice(key, key, "loading_started", ANN, (), (), "", at or datetime.now(UTC))
