"""The right to be forgotten, against the real stores: nothing is left anywhere, nobody else loses anything, and races lose."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import uuid
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from minio import Minio
from temporalio.client import Client

from memory.model.erasure import Erasure, ErasureState
from memory.model.errors import BeingForgotten, MemoryUnavailable
from memory.model.names import SEARCH_TENANT, SWEEP_WORKFLOW, TASK_QUEUE
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.steps import SweepInput, SweepReport, WriteStatus
from memory.ports import ChatReply, ChatRequest, StopReason, Usage
from memory.settings import Settings
from starter import MemoryClient, ReceiptStatus
from starter.client_parts import shared_parts
from starter.engines import S3Server, TemporalServer
from starter.forget import forget_workflow_id
from starter.pieces import TurnPiece
from starter.spool import Spool, SpoolEntry
from tests.support.fleet import Foreman, migrated_file, new_namespace, open_world, world_settings
from tests.support.models import profile_text
from tests.support.stack import Stack, StartStack, make_turn
from tests.support.waiting import until
from tests.support.wires import Point

KINDS = {"memory_contacts": True, "memory_knowledge": True, "memory_tasks": True}


def canary() -> str:
    return f"ibex{uuid.uuid4().hex[:12]}"


# ------------------------------------------------------------------------------------------------------ looking everywhere


def cells(path: Path) -> Iterable[tuple[str, str]]:
    """Every value of every table of a SQLite file, as text."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield f"the table {table}", repr(row)
    finally:
        connection.close()


def stored(settings: Settings) -> Iterable[tuple[str, bytes]]:
    """Every version of every object of these settings' buckets, with its name, and the folders that are shown."""
    keys = settings.object_store_access_key.get_secret_value(), settings.object_store_secret_key.get_secret_value()
    store = Minio(settings.object_store_endpoint, *keys, secure=False, region=settings.object_store_region)
    for bucket in store.list_buckets():
        if not bucket.name.startswith(settings.bucket_prefix):
            continue
        for item in store.list_objects(bucket.name, recursive=True, include_version=True):
            name = item.object_name or ""
            yield f"an object in {bucket.name}", name.encode()
            if not item.is_delete_marker:
                response = store.get_object(bucket.name, name, version_id=item.version_id)
                yield f"the object {name}", response.read()
                response.close()
        for folder in store.list_objects(bucket.name, include_version=True):
            for inner in store.list_objects(bucket.name, prefix=folder.object_name, include_version=True):
                yield f"a folder in {bucket.name}", (inner.object_name or "").encode()


async def executions(client: Client, tenant: str, erasure_id: str) -> AsyncGenerator[tuple[str, str]]:
    """What Temporal lists of the company, and the history of the erasure."""
    async for run in client.list_workflows(f"{SEARCH_TENANT} = '{tenant}'"):
        yield "a listed workflow", f"{run.id} {run.typed_search_attributes}"
    history = await client.get_workflow_handle(forget_workflow_id(erasure_id)).fetch_history()
    yield "the history of the erasure", history.to_json()


async def places(stack: Stack, tenant: str, erasure_id: str) -> AsyncGenerator[tuple[str, str]]:
    for where, value in cells(stack.settings.data_dir / "afterturn.db"):
        yield where, value
    for file in stack.settings.data_dir.rglob("*"):  # also those of the vectors
        if file.is_file():
            yield f"the file {file.name}", file.read_bytes().decode("latin-1")
    for where, data in await asyncio.to_thread(lambda: list(stored(stack.settings))):
        yield where, data.decode("utf-8", "replace")
    for name in await stack.parts.index.count_of(Owner.user(Scope.of("x", "x"))):
        for hit in await stack.parts.index.vectors.scroll(name, limit=10_000):
            yield f"a point of {name}", json.dumps([hit.point_id, dict(hit.payload)])
    async for where, value in executions(stack.client, tenant, erasure_id):
        yield where, value


async def found(stack: Stack, tenant: str, erasure_id: str, *needles: str) -> list[str]:
    return [
        f"{needle} in {where}" async for where, value in places(stack, tenant, erasure_id) for needle in needles if needle in value
    ]


# --------------------------------------------------------------------------------------------------------- a life to forget


async def live(stack: Stack, scope: Scope, word: str) -> None:
    """Something of the user in every store."""
    memory, parts = stack.memory, stack.parts
    await stack.say(scope, f"Hi, my name is {word.title()} and I live in Lisbon.", turn_id=f"first-{word}")
    await stack.settle(scope)
    await stack.say(scope, f"I work as a {word} keeper.")
    await stack.settle(scope)
    profile = await memory.get_profile(scope)
    saved = await memory.edit_profile(scope, f"{profile.body}\n- {word}\n", expected_etag=profile.etag)
    assert saved.status is WriteStatus.SAVED
    await parts.profiles.stage(scope, f"## Identity\n- {word}\n")
    store = cast("Any", parts.profiles)._store
    await store.put(parts.profiles.bucket(scope.tenant), f"old-root/{scope.user}/memory.md", word.encode())
    await memory.add_facts(scope, [f"The {word} sleeps at noon."])
    await memory.contacts.add(scope, first_name=word)
    await memory.guidance.add(scope, f"How to feed the {word}", "Slowly.")
    await memory.functions.add(scope, f"feed_{word}", "return 1", docstring="Feed it.")
    await memory.set_preference(scope, allow_user_memory=True)
    await memory.set_teams(scope, ["keepers"])
    loop = await memory.knowledge.ask(scope, f"What do you know of the {word}?")
    await loop.result()
    await memory.flush(scope, wait_s=60)
    await parts.index.sync_documents(None)
    assert await memory.search_facts(scope, word)
    assert await memory.search_events(scope, word)


async def what_is_there(stack: Stack, scope: Scope) -> dict[str, Any]:
    memory, index = stack.memory, stack.parts.index
    await index.sync_documents(scope)
    await index.events.index(scope)
    profile = await memory.get_profile(scope)
    return {
        "profile": (profile.body, profile.version),
        "versions": len(await memory.history(scope)),
        "facts": [fact.statement for fact in await memory.facts(scope)],
        "contacts": [contact.first_name for contact in await memory.contacts.filter(scope)],
        "guidance": [one.title for one in await memory.guidance.list(scope)],
        "teams": list(await memory.teams(scope)),
        "turns": len(await stack.ledger(scope)),
        "points": {name: count for name, count in (await index.count_of(Owner.user(scope))).items() if count},
        "searched": len(await memory.search_events(scope, "Lisbon")),
    }


async def done(stack: Stack, erasure: Erasure, *, within_s: float = 120.0) -> Erasure:
    async def is_done() -> bool:
        seen = await stack.parts.erasures.erasure(erasure.tenant, erasure.erasure_id)
        return seen is not None and seen.state is ErasureState.DONE

    await until(is_done, within_s=within_s, what="the erasure is done")
    ended = await stack.parts.erasures.erasure(erasure.tenant, erasure.erasure_id)
    assert ended is not None
    return ended


async def test_nothing_is_left_of_a_user_and_others_keep_all(stack: StartStack) -> None:
    tenant, name, loners = f"acme-{uuid.uuid4().hex[:6]}", f"wanda{uuid.uuid4().hex[:8]}", f"loner{uuid.uuid4().hex[:8]}"
    word, others_word = canary(), canary()
    wanda, loner = Scope.of(tenant, name), Scope.of(tenant, loners)
    others = (Scope.of(tenant, f"{name}-2"), Scope.of(f"{tenant}-2", name))
    async with stack(forget_settle_s=0.2, **KINDS) as s:
        for scope, said in ((wanda, word), (loner, word), *((other, others_word) for other in others)):
            await live(s, scope, said)
        before = {str(other): await what_is_there(s, other) for other in others}
        elsewhere = s.settings.data_dir.parent / f"{name}.jsonl"
        late = Spool(elsewhere, max_bytes=1 << 20)
        late.append(SpoolEntry(wanda, TurnPiece(make_turn(f"I have a {word}.")), datetime.now(UTC)))

        began = await s.memory.forget(wanda, requested_by="user")
        second = await s.memory.forget(loner)
        assert (await s.memory.forget(wanda)).erasure_id == began.erasure_id
        # What arrives meanwhile is dropped, and says so; nothing is saved.
        receipt = await s.memory.after_answer(wanda, make_turn(f"Do you know my {word}?"))
        assert receipt.status is ReceiptStatus.SKIPPED
        assert receipt.reasons == ("being_forgotten",)
        assert "being deleted" in (receipt.reason or "")
        assert (await s.memory.load(wanda, allow_user_memory=True)).reasons == ("being_forgotten",)
        with pytest.raises(BeingForgotten):
            await s.memory.edit_profile(wanda, word, expected_etag=None)
        with pytest.raises(BeingForgotten):
            await s.memory.add_facts(wanda, [word])
        with pytest.raises(BeingForgotten):
            await s.memory.knowledge.ask(wanda, word)

        ended = await done(s, began)
        assert (await done(s, second)).problems == ended.problems == ()
        once = ("rows.turns", "objects.staged", "rows.team_members", "rows.user_preferences", "rows.knowledge_loops")
        assert [ended.counts[name] for name in once] == [2, 1, 1, 1, 1]
        assert ended.counts["objects.profile_versions"] >= 4
        assert ended.counts["vectors.facts"] == 1
        assert ended.counts["vectors.events"] >= 4
        assert ended.counts["temporal.executions"] >= 3

        assert await found(s, tenant, began.erasure_id, word) == []
        assert await found(s, tenant, second.erasure_id, loners) == []
        assert not any((await s.parts.index.count_of(Owner.user(wanda))).values())
        assert {str(other): await what_is_there(s, other) for other in others} == before
        await s.parts.index.reindex()
        assert {str(other): await what_is_there(s, other) for other in others} == before
        assert await s.memory.search_events(wanda, word) == ()

        # A spool that comes late, from another machine, brings nothing back.
        settings = s.settings.model_copy(update={"spool_path": elsewhere})
        async with MemoryClient.from_parts(settings, shared_parts(s.parts, s.client)) as another:
            await until(lambda: not elsewhere.exists() and late.waiting_bytes() == 0, what="the spool is drained")
            assert (await another.drain_spool()).recorded == 0
        assert await s.ledger(wanda) == {}

        # And the same id begins anew.
        assert (await s.memory.load(wanda, allow_user_memory=True)).active
        await s.say(wanda, "Hi, my name is Wanda and I live in Porto.")
        await s.settle(wanda)
        anew = await s.memory.get_profile(wanda)
        assert anew.version == 1
        assert "Porto" in anew.body
        assert word not in anew.body


# ------------------------------------------------------------------------------------------------------------------- races


@dataclass
class SlowModel:
    """Says UPDATE; its rewrite waits until the test lets it go on."""

    word: str
    reached: asyncio.Event
    go_on: asyncio.Event
    name: str = "slow:test"
    reasoning: bool = False

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.stage == "gate":
            return ChatReply("UPDATE", StopReason.END, Usage(1, 1), self.name)
        self.reached.set()
        await self.go_on.wait()
        return ChatReply(profile_text(identity=f"- {self.word}"), StopReason.END, Usage(1, 1), self.name)


async def test_a_turn_a_save_and_a_running_consolidation_lose_the_race(stack: StartStack) -> None:
    word = canary()
    model = SlowModel(word, asyncio.Event(), asyncio.Event())
    async with stack(model=model, forget_settle_s=2) as s:
        scope = s.user("racer")
        await s.say(scope, f"I am {word}.")
        await asyncio.wait_for(model.reached.wait(), 60)
        save = asyncio.create_task(s.memory.edit_profile(scope, f"- {word}", expected_etag=None))
        turns = [asyncio.create_task(s.memory.after_answer(scope, make_turn(f"{word} {n}"))) for n in range(10)]
        began = await s.memory.forget(scope)
        turns += [asyncio.create_task(s.memory.after_answer(scope, make_turn(f"{word} again {n}"))) for n in range(10)]
        receipts = await asyncio.gather(*turns)
        (saved,) = await asyncio.gather(save, return_exceptions=True)
        model.go_on.set()
        ended = await done(s, began)
        assert ended.problems == ()
        assert {receipt.status for receipt in receipts} <= {ReceiptStatus.RECORDED, ReceiptStatus.SKIPPED, ReceiptStatus.PENDING}
        assert all(receipt.status is ReceiptStatus.SKIPPED for receipt in receipts[10:])
        assert isinstance(saved, BeingForgotten | MemoryUnavailable) or saved.status in set(WriteStatus), saved
        assert await found(s, scope.tenant, began.erasure_id, word, scope.user) == []
        assert not (await s.memory.get_profile(scope)).exists
        assert await s.ledger(scope) == {}


async def test_a_worker_that_is_killed_in_the_middle_is_followed_by_the_next(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    client = await new_namespace(temporal_server.address)
    settings = world_settings(tmp_path / "data", migrated_file(tmp_path), s3_server.settings, forget_settle_s=0.2)
    scope, word = Scope.of("acme", f"killed{uuid.uuid4().hex[:6]}"), canary()
    async with open_world(settings, client) as world, Foreman(tmp_path / "workers") as foreman:
        first = await foreman.start(settings, client, crash=Point("profiles.erase", "before"))
        await world.record(scope, [make_turn(f"Hi, my name is {word.title()}.")])
        await world.settle(scope)
        saved = await world.memory.edit_profile(scope, f"- {word}", expected_etag=(await world.memory.get_profile(scope)).etag)
        assert saved.version == 2
        began = await world.memory.forget(scope)
        assert await first.wait() == -9
        second = await foreman.start(settings, client, crash=Point("profiles.erase", "after"))
        assert await second.wait() == -9
        third = await foreman.start(settings, client)
        behind = Stack(settings, client, cast("Any", world.parts), world.memory)
        ended = await done(behind, began)
        # Counted before they went, and once.
        assert ended.counts["objects.profile_versions"] == 2
        assert ended.counts["rows.turns"] == 1
        assert ended.problems == ()
        third.terminate()  # it has the vectors
        assert await third.wait() == 0
        assert await found(behind, scope.tenant, began.erasure_id, word, scope.user) == []


async def test_an_erasure_that_was_recorded_while_temporal_was_away_is_begun_by_the_sweeper(stack: StartStack) -> None:
    async with stack(forget_settle_s=0) as s:
        scope = s.user("later")
        await s.say(scope, "Hi, my name is Lara.")
        await s.settle(scope)

        async def away() -> Client:
            raise MemoryUnavailable("Temporal is away (a test)")

        parts = replace(shared_parts(s.parts, s.client), temporal=away)
        async with MemoryClient.from_parts(s.settings, parts) as memory:
            began = await memory.forget(scope, wait_s=0.3)
        assert began.state is ErasureState.RUNNING
        report = await s.client.execute_workflow(
            SWEEP_WORKFLOW, SweepInput(), id=f"sweep-{uuid.uuid4()}", task_queue=TASK_QUEUE, result_type=SweepReport
        )
        assert report.erasures_started == 1

        async def is_erased() -> bool:
            seen = await s.memory.erasure(scope.tenant_id, began.erasure_id)
            return seen is not None and seen.state is not ErasureState.RUNNING

        await until(is_erased, within_s=60)
        assert await s.ledger(scope) == {}
        assert [one.erasure_id for one in await s.memory.erasures(scope)] == [began.erasure_id]
