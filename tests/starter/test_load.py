"""``load``: the stored body, verbatim and within its budget, or a reason; never an exception, never late."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import pytest

from memory.model.directory import SpaceSettings
from memory.model.enablement import ReasonCode
from memory.model.errors import InvalidInput, InvalidSettings, UnreadableProfile
from memory.model.profile import TRUNCATION_MARK, Profile
from memory.model.scope import Scope
from memory.ports import Notice, ObjectInfo
from memory.settings import load_settings
from starter.client import MemoryClient
from starter.views import LoadedMemory, LoadReason
from tests.starter.conftest import GUARD_S, MakeWorld, World
from tests.support.waiting import until

ANN = ("acme", "ann")
PROFILE = Profile.of({"Identity": ["Ann, product manager at Globex"], "Recent Topics": ["2026-06-17 12:00 UTC: databases"]})


def facts(count: int, words: str = "a durable fact about the user's work on the search team") -> Profile:
    return Profile.of({"Work Context": [f"{number}: {words}" for number in range(count)]})


async def test_the_body_comes_verbatim_and_without_frontmatter(world: World) -> None:
    body = await world.save(ANN, PROFILE)
    loaded = await world.client().load(ANN, allow_user_memory=True)
    assert loaded.body == body
    assert (loaded.active, loaded.reason, loaded.reasons, loaded.version, loaded.truncated) == (True, None, (), 1, False)
    assert loaded.etag == (await world.profiles.read(Scope.of(*ANN), "user-memory")).etag


async def test_what_a_person_wrote_is_not_tidied_on_the_way(world: World) -> None:
    body = "## Skills & Expertise\r\n* Rust\r\n\r\n## Identity\r\n- Ann\r\n"
    await world.save(ANN, body)
    assert (await world.client().load(ANN, allow_user_memory=True)).body == body


async def test_the_section_holds_the_body_and_how_to_treat_it(world: World) -> None:
    body = await world.save(ANN, PROFILE)
    section = MemoryClient.system_prompt_section(await world.client().load(ANN, allow_user_memory=True))
    assert "What I know about you" in section
    assert body in section


async def test_without_a_profile_there_is_no_section_and_nothing_is_made(world: World) -> None:
    loaded = await world.client().load(ANN, allow_user_memory=True)
    assert (loaded.body, loaded.active, loaded.reason) == ("", True, LoadReason.NO_PROFILE)
    assert MemoryClient.system_prompt_section(loaded) == ""
    assert world.store.calls["put"] == world.store.calls["ensure_bucket"] == 0
    await world.save(ANN, Profile())
    emptied = await world.client().load(ANN, allow_user_memory=True)
    assert (emptied.body, emptied.reason, emptied.version) == ("", LoadReason.NO_PROFILE, 1)


async def put_foreign(world: World, data: bytes) -> ObjectInfo:
    """What another program does that knows the bucket and nothing of this one."""
    scope = Scope.of(*ANN)
    await world.profiles.prepare(scope.tenant)
    return await world.store.put(world.profiles.bucket(scope.tenant), world.profiles.key(scope, "user-memory"), data)


@pytest.mark.parametrize("lines", [0, 2_000], ids=["short", "over the budget"])
async def test_secrets_in_a_file_of_another_program_do_not_reach_the_prompt(world: World, lines: int) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4" * 11
    filler = "".join(f"- fact {number} of Ann's work\n" for number in range(lines))
    await put_foreign(world, f"## Identity\n- Ann\n- Passwort: geheim-Krokodil7\n- {key}\n## Work Context\n{filler}".encode())
    client = world.client()
    loaded = await client.load(ANN, allow_user_memory=True)
    assert loaded.truncated is bool(lines)
    assert "- Ann\n" in loaded.body
    assert "[redacted:" in loaded.body
    for shown in (loaded.body, (await client.get_profile(ANN)).body):
        assert "Krokodil" not in shown
        assert key not in shown


class TestWhenMemoryIsOn:
    async def test_without_the_callers_consent_no_store_is_asked(self, world: World) -> None:
        await world.save(ANN, PROFILE)
        world.store.calls.clear()
        loaded = await world.client().load(ANN)
        assert (loaded.body, loaded.active, loaded.reason) == ("", False, LoadReason.OFF)
        assert loaded.reasons == (ReasonCode.CALLER_NOT_ALLOWED,)
        assert world.directory.calls == []
        assert world.store.calls["get"] == 0

    async def test_a_listed_company_with_a_long_name_has_memory(self, make_world: MakeWorld) -> None:
        company = "北京字节跳动网络技术有限公司华东区研发中心产品部"
        world = make_world(feature_flag=frozenset({company}))
        body = await world.save((company, "ann"), PROFILE)
        assert (await world.client().load((company, "ann"), allow_user_memory=True)).body == body
        assert (await world.client().load(ANN, allow_user_memory=True)).reasons == (ReasonCode.FEATURE_FLAG_OFF,)

    async def test_every_reason_of_the_stores_is_listed(self, world: World) -> None:
        await world.save(ANN, PROFILE)
        directory = world.tables.directory
        await directory.save_space("acme", "search", SpaceSettings(context_memory=False, web_search=True))
        await directory.set_preference(Scope.of(*ANN), allow_user_memory=False)
        await directory.provision_root("acme", "other-root")
        loaded = await world.client().load(ANN, space_id="search", allow_user_memory=True)
        assert loaded.reasons == (
            ReasonCode.SPACE_OFF,
            ReasonCode.WEB_SEARCH_ON,
            ReasonCode.USER_OPTED_OUT,
            ReasonCode.ROOT_CLASH,
        )
        assert loaded.body == ""

    async def test_opting_out_holds_from_the_next_turn_on(self, world: World) -> None:
        await world.save(ANN, PROFILE)
        client = world.client()
        assert (await client.load(ANN, allow_user_memory=True)).body
        await client.set_preference(ANN, allow_user_memory=False)
        off = await client.load(ANN, allow_user_memory=True)
        assert (off.body, off.reasons) == ("", (ReasonCode.USER_OPTED_OUT,))
        await client.set_preference(ANN, allow_user_memory=True)
        assert (await client.load(ANN, allow_user_memory=True)).body

    async def test_clashing_roots_are_told_to_the_administrator_once_in_a_while(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        for folder in ("user-memory", "old-memory"):
            await world.tables.directory.provision_root("acme", folder)
        client = world.client()
        for _ in range(3):
            loaded = await client.load(ANN, allow_user_memory=True)
            assert loaded.reasons == (ReasonCode.ROOT_CLASH,)
        told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(told) == 1
        assert "old-memory" in told[0]
        assert "user-memory" in told[0]
        await world.tables.directory.remove_root("acme", "old-memory")
        body = await world.save(ANN, PROFILE)
        assert (await client.load(ANN, allow_user_memory=True)).body == body

    async def test_the_profile_follows_a_renamed_root(self, world: World) -> None:
        directory = world.tables.directory
        await directory.provision_root("acme", "user-memory")
        await world.save(ANN, PROFILE)
        client = world.client()
        assert (await client.load(ANN, allow_user_memory=True)).body
        with pytest.raises(InvalidInput, match="its profiles would no longer be found"):
            await directory.rename_root("acme", "user-memory", "moved")
        assert (await client.load(ANN, allow_user_memory=True)).body
        await directory.rename_root("acme", "user-memory", "moved", nothing_in_it=True)
        assert (await client.load(ANN, allow_user_memory=True)).reason is LoadReason.NO_PROFILE
        body = await world.save(ANN, Profile.of({"Identity": ["elsewhere"]}), root="moved")
        assert (await client.load(ANN, allow_user_memory=True)).body == body


class TestBudget:
    async def test_a_body_within_the_budget_is_left_alone(self, world: World) -> None:
        body = await world.save(ANN, facts(100))
        for _ in range(2):
            loaded = await world.client().load(ANN, allow_user_memory=True)
            assert loaded.body == body
            assert not loaded.truncated
            assert loaded.tokens is not None
            assert 500 < loaded.tokens <= 2000

    async def test_a_body_over_the_budget_is_cut_by_rule(self, world: World) -> None:
        stored = await world.save(ANN, facts(1000))
        client = world.client()
        counter = client._loader.counter(SpaceSettings())
        for _ in range(2):
            loaded = await client.load(ANN, allow_user_memory=True)
            assert loaded.truncated
            assert counter.count(loaded.body) == loaded.tokens
            assert 1000 < (loaded.tokens or 0) <= 2000
            assert loaded.body.rstrip().endswith(TRUNCATION_MARK)
            assert set(loaded.body.splitlines()) - set(stored.splitlines()) == {TRUNCATION_MARK}

    async def test_the_spaces_own_budget_counts(self, world: World) -> None:
        await world.save(ANN, facts(100))
        await world.tables.directory.save_space("acme", "small", SpaceSettings(max_tokens=500))
        loaded = await world.client().load(ANN, space_id="small", allow_user_memory=True)
        assert loaded.truncated
        assert (loaded.tokens or 0) <= 500

    async def test_a_changed_profile_is_counted_anew(self, world: World) -> None:
        client = world.client()
        await world.save(ANN, facts(1000))
        assert (await client.load(ANN, allow_user_memory=True)).truncated
        body = await world.save(ANN, facts(50))
        assert (await client.load(ANN, allow_user_memory=True)).body == body

    async def test_a_model_that_nobody_knows_does_not_stop_the_count(self, world: World) -> None:
        await world.save(ANN, facts(100))
        loaded = await world.client().load(ANN, allow_user_memory=True, language_model="no such provider: at all")
        assert loaded.body


class TestFaults:
    @pytest.mark.parametrize(
        "who",
        [("", "ann"), ("acme", ""), ("acme", "x" * 5000), ("acme", None), "ab", None, 7, ("a", "b", "c"), ["acme", "ann"]],
    )
    async def test_ids_that_cannot_be_used_are_a_reason(self, world: World, who: Any) -> None:
        loaded = await world.client().load(who, allow_user_memory=True)
        assert (loaded.body, loaded.reason) == ("", LoadReason.INVALID_ID)
        assert loaded.detail

    @pytest.mark.parametrize("user", ["../ben", "..", "%2e%2e", "a\x00b", ".hidden", "u" * 1000, "🦊", "\ud83d", "a/b"])
    async def test_hostile_ids_have_memories_of_their_own(self, world: World, user: str) -> None:
        await world.save(("acme", "ben"), PROFILE)
        client = world.client()
        assert (await client.load(("acme", user), allow_user_memory=True)).reason is LoadReason.NO_PROFILE
        body = await world.save(("acme", user), Profile.of({"Identity": ["mine alone"]}))
        assert (await client.load(("acme", user), allow_user_memory=True)).body == body

    async def test_a_file_that_is_too_large_is_a_reason_that_says_the_ways_out(self, world: World) -> None:
        await world.save(ANN, PROFILE)
        info = await put_foreign(world, b"- x\n" * 600_000)
        client = world.client()
        loaded = await client.load(ANN, allow_user_memory=True)
        assert (loaded.body, loaded.active, loaded.reason) == ("", True, LoadReason.UNREADABLE)
        assert (loaded.version, loaded.etag) == (2, info.etag)
        assert "2400000 bytes" in (loaded.detail or "")
        assert "save a shorter text" in (loaded.detail or "")
        with pytest.raises(UnreadableProfile, match="bring an earlier version back"):
            await client.get_profile(ANN)
        assert [line.version for line in await client.history(ANN)] == [2, 1]
        assert (await client.profile_at(ANN, 1)).body

    async def test_a_space_id_that_cannot_be_used_is_a_reason(self, world: World) -> None:
        loaded = await world.client().load(ANN, space_id="", allow_user_memory=True)
        assert loaded.reason is LoadReason.INVALID_ID

    async def test_a_database_that_is_away_is_a_reason(self, world: World) -> None:
        world.directory.down = True
        loaded = await world.client().load(ANN, allow_user_memory=True)
        assert (loaded.body, loaded.reason) == ("", LoadReason.UNAVAILABLE)

    async def test_an_object_store_that_is_away_is_a_reason_and_memory_is_still_on(self, world: World) -> None:
        world.store.down = True
        loaded = await world.client().load(ANN, allow_user_memory=True)
        assert (loaded.body, loaded.active, loaded.reason) == ("", True, LoadReason.UNAVAILABLE)

    async def test_a_fault_of_our_own_is_a_reason_and_its_text_stays_out_of_the_log(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        world.directory.error = ValueError("a canary of the user's text")
        loaded = await world.client().load(ANN, allow_user_memory=True)
        assert loaded.reason is LoadReason.ERROR
        assert "canary" not in caplog.text + repr(loaded)
        assert "ValueError at" in caplog.text

    async def test_a_hanging_store_costs_no_more_than_the_budget_and_is_then_left_alone(self, make_world: MakeWorld) -> None:
        world = make_world(load_budget_ms=50)
        await world.save(ANN, PROFILE)
        world.store.calls.clear()
        world.store.delay("get", 3600)
        client = world.client()

        async def load() -> LoadedMemory:
            return await client.load(ANN, allow_user_memory=True)

        async with asyncio.timeout(GUARD_S):
            results = await asyncio.gather(*(load() for _ in range(100)))
            after = [await load() for _ in range(20)]
        assert {loaded.body for loaded in [*results, *after]} == {""}
        assert {loaded.reason for loaded in results} <= {LoadReason.TIMEOUT, LoadReason.BUSY}
        assert LoadReason.BUSY in {loaded.reason for loaded in after}
        assert world.store.calls["get"] <= 33

    async def test_a_store_that_comes_back_is_used_again(self, make_world: MakeWorld) -> None:
        world = make_world(load_budget_ms=5_000)
        body = await world.save(ANN, PROFILE)
        client = world.client()
        world.store.down = True
        for _ in range(10):
            assert not (await client.load(ANN, allow_user_memory=True)).body
        world.store.down = False

        async def back() -> bool:
            return (await client.load(ANN, allow_user_memory=True)).body == body

        await until(back)

    async def test_a_cancelled_load_is_cancelled(self, world: World) -> None:
        world.directory.gate = asyncio.Event()
        task = asyncio.create_task(world.client().load(ANN, allow_user_memory=True))
        await until(lambda: world.directory.calls)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_fifty_users_at_once_get_their_own(world: World) -> None:
    users = [(f"tenant{number % 3}", f"user{number}") for number in range(50)]
    for user in users:
        await world.save(user, Profile.of({"Identity": [f"{user}"]}))
    client = world.client()
    for _ in range(3):
        loads: list[Awaitable[LoadedMemory]] = [client.load(user, allow_user_memory=True) for user in users]
        for user, loaded in zip(users, await asyncio.gather(*loads), strict=True):
            assert f"- {user}\n" in loaded.body


class TestNotices:
    async def test_loading_is_told_step_by_step(self, world: World) -> None:
        seen: list[Notice] = []
        client = world.client(on_notice=seen.append)
        await world.save(ANN, PROFILE)
        await client.load(ANN, allow_user_memory=True)
        world.store.down = True
        await client.load(ANN, allow_user_memory=True)
        await until(lambda: len(seen) == 4)
        assert [notice.step for notice in seen] == [
            "loading_started",
            "loading_completed",
            "loading_started",
            "loading_failed",
        ]
        assert seen[0].notice_id == seen[1].notice_id != seen[2].notice_id == seen[3].notice_id
        assert len({notice.key for notice in seen}) == 4
        assert {notice.scope for notice in seen} == {Scope.of(*ANN)}

    async def test_nothing_is_told_where_memory_is_off(self, world: World) -> None:
        seen: list[Notice] = []
        client = world.client(on_notice=seen.append)
        await client.load(ANN)
        await client.set_preference(ANN, allow_user_memory=False)
        await client.load(ANN, allow_user_memory=True)
        await client.aclose()
        assert seen == []

    async def test_a_front_end_that_fails_is_counted_and_contained(self, world: World, caplog: pytest.LogCaptureFixture) -> None:
        def broken(notice: Notice) -> None:
            raise RuntimeError("a canary of the front end")

        client = world.client(on_notice=broken)
        body = await world.save(ANN, PROFILE)
        assert (await client.load(ANN, allow_user_memory=True)).body == body
        await until(lambda: client.failed_notices == 2)
        assert "RuntimeError" in caplog.text
        assert "canary" not in caplog.text

    async def test_a_front_end_that_hangs_holds_no_load_and_no_memory(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("starter.relay.MAX_WAITING", 5)
        gate = asyncio.Event()

        async def hanging(notice: Notice) -> None:
            await gate.wait()

        client = world.client(on_notice=hanging)
        async with asyncio.timeout(GUARD_S):
            for _ in range(10):
                await client.load(ANN, allow_user_memory=True)
        assert client.failed_notices >= 14
        gate.set()


class TestConstruction:
    def test_needs_no_network_and_no_event_loop(self, tmp_path: Any) -> None:
        settings = load_settings(
            {}, data_dir=tmp_path, object_store_access_key="k", object_store_secret_key="s", object_store_endpoint="192.0.2.1:9"
        )
        MemoryClient(settings)
        assert list(tmp_path.iterdir()) == []

    def test_wrong_settings_stop_the_start_with_one_line(self, tmp_path: Any) -> None:
        with pytest.raises(InvalidSettings, match="AFTERTURN_OBJECT_STORE_ACCESS_KEY"):
            MemoryClient(load_settings({}, data_dir=tmp_path))
