"""The client as an orchestrator uses it, on real servers: Temporal with workers, S3, SQLite, the simulated model."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from activities import build_activities
from memory.model.directory import SpaceSettings
from memory.model.errors import InvalidInput, MemoryUnavailable, RootClash, UnreadableProfile
from memory.model.names import POST_ANSWER_WORKFLOW, SEARCH_ATTRIBUTES, SEARCH_STAGE, TASK_QUEUE
from memory.model.profile import SECTIONS, parse_body
from memory.model.scope import Scope
from memory.model.steps import PostAnswerInput, UserRef, WriteStatus
from memory.model.turn import Outcome, Turn
from memory.settings import Settings
from memory.stores.migrations import migrate
from starter import LoadReason, MemoryClient, ReceiptStatus
from starter.doctor import Check, examine
from starter.engines import TemporalServer
from starter.signals import TurnSignaller
from starter.temporal import connect, connect_options, ensure_search_attributes, missing_attributes
from starter.views import EditResult
from tests.e2e.command import afterturn
from tests.support.fleet import as_environment, server_of
from tests.support.waiting import until
from worker import build_workers, open_collaborators, running_workers

ANN = ("acme / Zürich", "ann@example.test")
SECRET = "hunter2secret!"


def turn(number: int, text: str) -> Turn:
    return Turn(
        turn_id=f"t{number}",
        user_text=text,
        assistant_text="Noted.",
        occurred_at=datetime.now(UTC),
        allow_user_memory=True,
    )


@pytest.fixture
def settings(
    s3_settings: Callable[..., Settings], temporal_server: TemporalServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Settings:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_server.address)
    # A namespace is a server's, a user is a test's: no test meets the workflows of another.
    wide = {"load_budget_ms": 20_000, "after_answer_budget_ms": 20_000}
    built = s3_settings(feature_flag=True, edit_timeout_s=30, **wide)
    migrate(built.sqlalchemy_url)
    return built


@pytest.fixture
def who(tmp_path: Path) -> tuple[str, str]:
    return (ANN[0], f"{ANN[1]}/{tmp_path.name}")


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[MemoryClient]:
    async with MemoryClient(settings) as client:
        yield client


@pytest.fixture
async def workers(settings: Settings) -> AsyncIterator[None]:
    temporal = await connect(settings)
    async with open_collaborators(settings, temporal) as parts, AsyncExitStack() as stack:
        for worker in build_workers(temporal, settings, build_activities(parts)):
            await stack.enter_async_context(worker)
        yield


async def test_what_the_user_says_is_remembered_in_the_next_answer(
    client: MemoryClient, workers: None, who: tuple[str, str]
) -> None:
    first = await client.load(who, allow_user_memory=True)
    assert (first.body, first.reason) == ("", LoadReason.NO_PROFILE)
    receipt = await client.after_answer(who, turn(1, "My name is Ann and I work as a product manager at Globex."))
    assert (receipt.status, receipt.started) == (ReceiptStatus.RECORDED, True)
    assert await client.wait_until_idle(who)
    loaded = await client.load(who, allow_user_memory=True)
    assert "Globex" in loaded.body
    assert "Globex" in client.system_prompt_section(loaded)
    status = await client.status(who)
    assert (status.running, status.pending_turns, status.profile_version, status.unavailable) == (False, 0, 1, {})
    assert [summary.outcome for summary in status.recent] == [Outcome.UPDATED]
    assert status.enablement is not None
    assert status.enablement.active


class TestEdit:
    async def test_a_save_is_stored_strictly_and_read_back(self, client: MemoryClient, workers: None, who: tuple[str, str]) -> None:
        given = (
            f"---\nuser_id: somebody else\nschema_version: 9\n---\n## Skills & Expertise\n* Rust\n## Identity\n- Ann, {SECRET}\n"
        )
        result = await client.edit_profile(who, given.replace(SECRET, f"password: {SECRET}"), expected_etag=None)
        assert (result.status, result.version, result.saved) == (WriteStatus.SAVED, 1, True)
        view = await client.get_profile(who)
        assert (view.exists, view.version, view.etag, view.cause) == (True, 1, result.etag, "edit")
        assert [line[3:] for line in view.body.splitlines() if line.startswith("## ")] == list(SECTIONS)
        assert "somebody else" not in view.body
        assert SECRET not in view.body
        assert parse_body(view.body).section("Skills & Expertise")[0].text == "Rust"
        assert 0 < view.tokens <= view.max_tokens

    async def test_a_save_of_an_old_version_is_a_conflict_with_both_texts(
        self, client: MemoryClient, workers: None, who: tuple[str, str]
    ) -> None:
        first = await client.edit_profile(who, "## Identity\n- Ann", expected_etag=None)
        second = await client.edit_profile(who, "## Identity\n- Ann, Berlin", expected_etag=first.etag)
        mine = "## Identity\n- Ann, Paris"
        refused = await client.edit_profile(who, mine, expected_etag=first.etag)
        assert (refused.status, refused.saved, refused.version, refused.etag) == (WriteStatus.CONFLICT, False, 2, second.etag)
        assert refused.yours == mine
        assert "Berlin" in (refused.theirs or "")
        assert "Paris" not in repr(refused)
        assert "Berlin" in (await client.get_profile(who)).body

    async def test_two_saves_of_the_same_text_do_not_take_it_from_each_other(
        self, client: MemoryClient, settings: Settings, who: tuple[str, str]
    ) -> None:
        """One of them is stale, and comes first."""
        temporal = await connect(settings)
        async with running_workers(settings, temporal):
            etag = (await client.edit_profile(who, "## Identity\n- Ann", expected_etag=None)).etag
            assert await client.wait_until_idle(who)
        profiles = client._parts.profiles
        bucket = profiles.staging_bucket(Scope.of(*who).tenant)
        saves: list[asyncio.Task[EditResult]] = []
        for expected in (None, etag):
            save = client.edit_profile(who, "## Identity\n- Ann, Berlin", expected_etag=expected, edit_id=f"e{len(saves)}")
            saves.append(asyncio.create_task(save))

            async def staged() -> bool:
                return len(await profiles._store.list(bucket, "staging/")) == len(saves)

            await until(staged)
        async with running_workers(settings, temporal):
            stale, fresh = await asyncio.gather(*saves)
        assert (stale.status, fresh.status, fresh.version) == (WriteStatus.CONFLICT, WriteStatus.SAVED, 2)

    async def test_the_same_save_again_is_the_same_save(self, client: MemoryClient, workers: None, who: tuple[str, str]) -> None:
        results = [await client.edit_profile(who, "## Identity\n- Ann", expected_etag=None, edit_id="e1") for _ in range(2)]
        assert [(result.saved, result.version) for result in results] == [(True, 1)] * 2
        assert len(await client.history(who)) == 1

    async def test_an_id_that_is_used_again_for_another_text_discards_nothing(
        self, client: MemoryClient, workers: None, who: tuple[str, str]
    ) -> None:
        edit_id = "my edit/💥 \ud83d"
        first = await client.edit_profile(who, "## Identity\n- Ann", expected_etag=None, edit_id=edit_id)
        stale = await client.edit_profile(who, "## Identity\n- Ann, Rome", expected_etag=None, edit_id=edit_id)
        assert (stale.status, stale.theirs) == (WriteStatus.CONFLICT, (await client.get_profile(who)).body)
        other = await client.edit_profile(who, "## Identity\n- Ann, Rome", expected_etag=first.etag, edit_id=edit_id)
        assert (other.status, other.version) == (WriteStatus.SAVED, 2)
        assert "Rome" in (await client.get_profile(who)).body
        for version, says in ((1, False), (2, True)):
            assert (await client.rollback(who, version, edit_id=edit_id)).saved
            assert ("Rome" in (await client.get_profile(who)).body) is says
        with pytest.raises(InvalidInput, match="edit id is empty"):
            await client.edit_profile(who, "- x", expected_etag=None, edit_id="")

    async def test_the_ways_out_of_a_file_that_is_too_large(
        self, client: MemoryClient, workers: None, settings: Settings, who: tuple[str, str]
    ) -> None:
        await client.edit_profile(who, "## Identity\n- Ann", expected_etag=None)
        profiles, scope = client._parts.profiles, Scope.of(*who)
        place = profiles.bucket(scope.tenant), profiles.key(scope, "user-memory")
        await profiles._store.put(*place, b"- x\n" * 600_000)
        with pytest.raises(UnreadableProfile, match="2400000 bytes") as refused:
            await client.get_profile(who)
        assert "2400000 bytes" in (await client.status(who)).unavailable["profile"]
        stale = await client.edit_profile(who, "- y", expected_etag="0" * 32)
        assert (stale.status, stale.yours, stale.theirs) == (WriteStatus.CONFLICT, "- y", "")
        assert "2400000 bytes" in (stale.reason or "")
        assert (await client.after_answer(who, turn(1, "My name is Ann."))).started
        assert await client.wait_until_idle(who)
        [summary] = (await client.status(who)).recent
        assert (summary.outcome, summary.reason) == (Outcome.KEPT, "consolidate_failed:UnreadableProfile")
        assert (await client.rollback(who, 1)).version == 3
        await profiles._store.put(*place, b"- x\n" * 600_000)
        assert (await client.history(who))[0].etag == refused.value.etag
        command = ("profile", "edit", "--file", "-", "--tenant", who[0], "--user", who[1], "--json")
        env = {**as_environment(settings), **server_of(await connect(settings))}
        said = b"## Identity\n- Ann L."
        done = await asyncio.to_thread(afterturn, *command, data_dir=settings.data_dir, env=env, stdin=said)
        assert (done.json["status"], done.json["version"]) == ("saved", 5), done
        assert "Ann L." in (await client.load(who, allow_user_memory=True)).body

    async def test_deleting_all_text_empties_the_memory(self, client: MemoryClient, workers: None, who: tuple[str, str]) -> None:
        first = await client.edit_profile(who, "## Identity\n- Ann", expected_etag=None)
        emptied = await client.edit_profile(who, "  \n", expected_etag=first.etag)
        assert emptied.saved
        view = await client.get_profile(who)
        assert view.exists
        assert parse_body(view.body).is_empty
        assert (await client.load(who, allow_user_memory=True)).body == ""

    async def test_what_cannot_be_saved_is_refused_and_changes_nothing(self, client: MemoryClient, who: tuple[str, str]) -> None:
        for document, says in [("x" * (1024 * 1024 + 1), "1048577 bytes"), ("a \ud83d half", "Unicode"), (None, "string")]:
            given: Any = document
            with pytest.raises(InvalidInput, match=says):
                await client.edit_profile(who, given, expected_etag=None)
        assert (await client.get_profile(who)).exists is False

    async def test_clashing_roots_stop_reading_and_writing(
        self, client: MemoryClient, settings: Settings, who: tuple[str, str]
    ) -> None:
        directory = client._parts.directory
        tenant = Scope.of(*who).tenant
        for folder in ("user-memory", "second"):
            await directory.provision_root(tenant, folder)
        for call in (client.get_profile(who), client.edit_profile(who, "- x", expected_etag=None), client.rollback(who, 1)):
            with pytest.raises(RootClash, match="second, user-memory"):
                await call

    async def test_without_a_worker_a_save_says_that_it_may_still_come(self, settings: Settings, who: tuple[str, str]) -> None:
        async with MemoryClient(settings.model_copy(update={"edit_timeout_s": 0.5})) as hasty:
            with pytest.raises(MemoryUnavailable, match="may still be applied"):
                await hasty.edit_profile(who, "## Identity\n- Ann", expected_etag=None)
            status = await hasty.status(who)
            assert status.running


class TestStage:
    async def test_the_run_itself_is_asked(self, settings: Settings, who: tuple[str, str]) -> None:
        slow = settings.model_copy(update={"simulated_latency_ms": 600_000.0, "graceful_shutdown_s": 0.0})
        temporal = await connect(slow)
        async with running_workers(slow, temporal), MemoryClient(slow) as client:
            await client.after_answer(who, turn(1, "My name is Ann."))

            async def gating() -> bool:
                return (await client.status(who)).stage == "gating"

            await until(gating)
            shown = await asyncio.to_thread(
                afterturn,
                *("status", "--tenant", who[0], "--user", who[1]),
                data_dir=slow.data_dir,
                env={**as_environment(slow), **server_of(temporal)},
            )
            assert (shown.code, "(running, gating)" in shown.out) == (0, True), shown
            await temporal.get_workflow_handle(Scope.of(*who).post_answer_workflow_id).terminate()
            status = await client.status(who)
        assert (status.running, status.stage, status.unavailable) == (False, None, {})

    @pytest.mark.parametrize(("noted", "told"), [("waiting_for_store", "waiting_for_store"), ("done", None), (None, None)])
    async def test_without_a_worker_it_is_what_the_run_noted(
        self, client: MemoryClient, settings: Settings, who: tuple[str, str], noted: str | None, told: str | None
    ) -> None:
        scope = Scope.of(*who)
        noted_by_a_run = [] if noted is None else [SearchAttributePair(SearchAttributeKey.for_keyword(SEARCH_STAGE), noted)]
        handle = await (await connect(settings)).start_workflow(
            POST_ANSWER_WORKFLOW,
            PostAnswerInput(user=UserRef.of(scope)),
            id=scope.post_answer_workflow_id,
            task_queue=TASK_QUEUE,
            search_attributes=TypedSearchAttributes(noted_by_a_run),
        )
        status = await client.status(who)
        await handle.terminate()
        assert (status.running, status.stage, status.unavailable) == (True, told, {})


async def test_history_and_roll_back(client: MemoryClient, workers: None, who: tuple[str, str]) -> None:
    assert await client.history(who) == ()
    etag = None
    for city in ("Rome", "Oslo", "Lima"):
        etag = (await client.edit_profile(who, f"## Identity\n- Ann, {city}", expected_etag=etag)).etag
    assert [line.version for line in await client.history(who)] == [3, 2, 1]
    assert "Oslo" in (await client.profile_at(who, 2)).body
    assert (await client.get_profile(who, version=9)).exists is False
    back = await client.rollback(who, 1)
    assert (back.status, back.version) == (WriteStatus.SAVED, 4)
    assert "Rome" in (await client.get_profile(who)).body
    assert (await client.rollback(who, 77)).status is WriteStatus.NOT_FOUND
    assert (await client.rollback(who, 2, expected_etag=etag)).status is WriteStatus.CONFLICT
    with pytest.raises(InvalidInput):
        await client.rollback(who, 0)
    assert len(await client.history(who, limit=2)) == 2


async def test_reading_makes_nothing(client: MemoryClient, who: tuple[str, str]) -> None:
    view = await client.get_profile(who)
    assert (view.exists, view.body, view.version, view.etag) == (False, "", 0, None)
    assert await client.history(who) == ()
    status = await client.status(who)
    assert (status.running, status.pending_turns, status.profile_version, status.unavailable) == (False, 0, 0, {})
    store = client._parts.profiles
    assert await store._store.list(store.bucket(Scope.of(*who).tenant), "") == []


async def test_kept_turns_run_again(client: MemoryClient, workers: None, settings: Settings, who: tuple[str, str]) -> None:
    tenant = Scope.of(*who).tenant
    broken = SpaceSettings(use_orchestrator_language_model=False, language_model="anthropic:not-configured")
    await client._parts.directory.save_space(tenant, "default", broken)
    await client.after_answer(who, turn(1, "My name is Ann and I work at Globex."))
    assert await client.wait_until_idle(who)
    (kept,) = (await client.status(who)).recent
    assert kept.outcome is Outcome.KEPT
    await client._parts.directory.save_space(tenant, "default", SpaceSettings())
    with pytest.raises(InvalidInput, match="there is no turn 't2'"):
        await client.rerun(scope=who, turn_ids=["t1", "t2"])
    result = await client.rerun(scope=who, turn_ids=["t1"])
    assert ([one.turn_id for one in result.reopened], result.started, result.waiting) == (["t1"], 1, 0)
    assert await client.wait_until_idle(who)
    (done,) = (await client.status(who)).recent
    assert (done.outcome, done.attempt) == (Outcome.UPDATED, 1)
    assert (await client.rerun(scope=who)).reopened == ()
    with pytest.raises(InvalidInput):
        await client.rerun(turn_ids=["t1"])


async def test_turns_that_a_worker_without_the_feature_flag_skipped_run_again(
    client: MemoryClient, settings: Settings, who: tuple[str, str]
) -> None:
    async def flag_here(settings: Settings) -> Check:
        return next(check for check in await examine(settings) if check.name == "feature flag")

    temporal = await connect(settings)
    unlike = settings.model_copy(update={"feature_flag": False})
    async with running_workers(unlike, temporal):
        assert (await client.after_answer(who, turn(1, "My name is Ann and I work at Globex."))).started
        assert await client.wait_until_idle(who)
    (skipped,) = (await client.status(who)).recent
    assert (skipped.outcome, skipped.reason) == (Outcome.SKIPPED, "feature_flag_off")
    found = await flag_here(settings)
    assert (found.ok, f"a worker skipped turns of {Scope.of(*who).tenant}" in found.detail) == (False, True)
    assert "afterturn rerun --skipped" in (found.advice or "")
    assert "off for every company" in (await flag_here(unlike)).detail
    others_only = settings.model_copy(update={"feature_flag": frozenset({"globex"})})
    assert (await flag_here(others_only)).ok

    async with running_workers(settings, temporal):
        assert (await client.rerun(scope=who)).reopened == ()
        command = ("rerun", "--skipped", "--tenant", who[0], "--user", who[1], "--json")
        env = {**as_environment(settings), **server_of(temporal)}
        done = await asyncio.to_thread(afterturn, *command, data_dir=settings.data_dir, env=env)
        assert [one["turn_id"] for one in done.json["reopened"]] == ["t1"], done
        assert await client.wait_until_idle(who)
    assert "Globex" in (await client.load(who, allow_user_memory=True)).body
    assert (await flag_here(settings)).ok


async def test_waiting_for_a_user_has_an_end(client: MemoryClient, who: tuple[str, str]) -> None:
    await client.after_answer(who, turn(1, "hello"))
    assert await client.wait_until_idle(who, timeout_s=0.2) is False


async def test_a_burst_of_signals_is_one_run(settings: Settings, who: tuple[str, str]) -> None:
    temporal = await connect(settings)
    signaller = TurnSignaller(temporal)
    scope = Scope.of(*who)
    await asyncio.gather(*(signaller.signal(scope, [f"t{number}"]) for number in range(300)))
    await signaller.aclose()
    handle = temporal.get_workflow_handle(scope.post_answer_workflow_id)
    found = await handle.describe()
    assert found.status is WorkflowExecutionStatus.RUNNING
    history = (await handle.fetch_history()).to_json_dict()["events"]
    signals = [event for event in history if event["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED"]
    assert 20 <= len(signals) < 60


class TestConnection:
    async def test_search_attributes_are_added_once(
        self, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def refused(*_: object) -> None:
            raise RPCError("not for this key", RPCStatusCode.PERMISSION_DENIED, b"")

        with TemporalServer(tmp_path / "bare", in_memory=True, ui=False, search_attributes=(), stop_grace_s=2) as bare:
            temporal = await connect(settings, address=bare.address)
            monkeypatch.setattr(temporal.operator_service, "list_search_attributes", refused)
            assert await missing_attributes(temporal) == SEARCH_ATTRIBUTES, "found by queries, where they may not be listed"
            monkeypatch.undo()
            assert await ensure_search_attributes(temporal) == SEARCH_ATTRIBUTES
            assert await ensure_search_attributes(temporal) == ()
            monkeypatch.setattr(temporal.operator_service, "list_search_attributes", refused)
            assert await ensure_search_attributes(temporal) == ()
            await TurnSignaller(temporal).signal(Scope.of("acme", "ann"), ["t1"])

    async def test_a_server_that_is_not_there_is_one_clear_error(self, settings: Settings, unused_tcp_port: int) -> None:
        with pytest.raises(MemoryUnavailable, match=f"127.0.0.1:{unused_tcp_port}"):
            await connect(settings, address=f"127.0.0.1:{unused_tcp_port}")
        lazy = await connect(settings, address=f"127.0.0.1:{unused_tcp_port}", lazy=True)
        assert isinstance(lazy, Client)

    def test_the_environment_wins_over_a_running_dev_command(self, settings: Settings) -> None:
        dev = settings.data_dir / "dev.json"
        dev.write_text(f'{{"pid": {os.getpid()}, "temporal_address": "127.0.0.1:7", "settings": {{}}}}')
        assert connect_options(settings, environ={}).get("target_host") == "127.0.0.1:7"
        assert connect_options(settings, environ={"TEMPORAL_ADDRESS": "there:1"}).get("target_host") == "there:1"
        assert connect_options(settings, address="here:2", environ={}).get("target_host") == "here:2"
        dev.unlink()
        options = connect_options(settings, environ={"TEMPORAL_NAMESPACE": "mine"}, namespace="other")
        assert (options.get("target_host"), options.get("namespace")) == (None, "other")


CHILD = """
import asyncio, os, sys
from datetime import UTC, datetime
from memory.settings import load_settings
from starter import MemoryClient, Turn

async def main():
    settings = load_settings(database_url="postgresql+psycopg://u:p@127.0.0.1:1/x", feature_flag=True)
    async with MemoryClient(settings) as client:
        for number in range(1000):
            turn = Turn(turn_id=f"t{number}", user_text="I live in Berlin", occurred_at=datetime.now(UTC), allow_user_memory=True)
            receipt = await client.after_answer(("acme", sys.argv[1]), turn)
            print(turn.turn_id, receipt.status, flush=True)

asyncio.run(main())
"""


async def test_turns_that_a_killed_orchestrator_spooled_reach_the_profile(
    settings: Settings, client: MemoryClient, workers: None, tmp_path: Path
) -> None:
    user = tmp_path.name
    environ = {
        **os.environ,
        "AFTERTURN_DATA_DIR": str(settings.data_dir),
        "AFTERTURN_OBJECT_STORE_ACCESS_KEY": "k",
        "AFTERTURN_OBJECT_STORE_SECRET_KEY": "s",
    }
    child = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", CHILD, user], env=environ, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    try:
        assert child.stdout is not None
        lines = [await asyncio.to_thread(child.stdout.readline) for _ in range(5)]
    finally:
        child.send_signal(signal.SIGKILL)
        rest, _ = await asyncio.to_thread(child.communicate)
    told = [line.decode().split() for line in [*lines, *rest.splitlines()]]
    spooled = {turn_id for turn_id, status in (pair for pair in told if len(pair) == 2) if status == "spooled"}
    assert len(spooled) >= 5
    await client.drain_spool()
    stored = await client._parts.log.turns(Scope.of("acme", user), sorted(spooled)[:1000])
    assert {one.turn.turn_id for one in stored} == spooled
    await until(lambda: _living_in_berlin(client, user), within_s=60)


async def _living_in_berlin(client: MemoryClient, user: str) -> bool:
    return "Berlin" in (await client.get_profile(("acme", user))).body
