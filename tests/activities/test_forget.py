"""Steps of an erasure that are cut short and repeated: what is waited out, what the receipt counts and says."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.forget import ForgetActivities, ForgetRules
from memory.model.erasure import Erasure, ErasureState
from memory.model.errors import InvalidSettings, MemoryUnavailable, StoreUnavailable
from memory.model.forget_steps import ErasedStore, EraseInput, ErasureRef, MarkInput
from memory.model.names import POST_ANSWER_WORKFLOW
from memory.model.scope import Scope
from starter.forget_runs import TemporalUserRuns
from starter.search import index_over
from starter.temporal import user_search_attributes
from tests.activities.conftest import World
from tests.activities.test_heartbeat import environment
from tests.support.vectors import MemoryVectors
from tests.support.waiting import until

REF = ErasureRef(tenant="acme", erasure_id="e1")


@dataclass
class Runs:
    """Executions under control: ``stops`` is what each try of stopping gives or raises; ``closed`` when runs ended, by type."""

    stops: list[Mapping[str, int] | Exception] = field(default_factory=list[Any])
    closed: dict[str, datetime] = field(default_factory=dict[str, datetime])
    there: int = 0
    deletes: list[Exception | None] = field(default_factory=list[Any])

    async def stop(self, scope: Scope, loop_ids: Collection[str]) -> Mapping[str, int]:
        result = self.stops.pop(0) if self.stops else {}
        if isinstance(result, Exception):
            raise result
        return result

    async def ended(self, scope: Scope, *, since: datetime, stopped_only_before: datetime) -> Mapping[str, datetime]:
        return {kind: moment for kind, moment in self.closed.items() if moment >= since}

    async def delete(self, scope: Scope, listed: Callable[[int], Awaitable[None]]) -> int:
        fault = self.deletes.pop(0) if self.deletes else None
        if isinstance(fault, InvalidSettings):
            raise fault
        await listed(self.there)
        if fault is not None:
            self.there = 1
            raise fault
        return self.there


@dataclass
class Desk:
    world: World
    runs: Runs
    steps: ForgetActivities

    async def receipt(self) -> Erasure:
        found = await self.world.tables.erasures.erasure("acme", "e1")
        assert found is not None
        return found

    async def stop(self) -> Any:
        return await ActivityEnvironment().run(self.steps.stop_user_runs, REF)

    async def erase(self, store: ErasedStore, passed: int = 1) -> Any:
        return await ActivityEnvironment().run(self.steps.erase_user, EraseInput(erasure=REF, store=store, passed=passed))


@pytest.fixture
async def desk(world: World) -> Desk:
    tables, runs = world.tables, Runs()
    index = index_over(tables, MemoryVectors())
    rules = ForgetRules(settle_s=60, after={"Long": 900.0, "Short": 100.0})
    await tables.erasures.open(world.scope, erasure_id="e1", requested_by="user", now=datetime.now(UTC))
    return Desk(world, runs, ForgetActivities(tables.erasures, world.profiles, index, tables.loops, runs, rules))


async def test_a_run_that_an_earlier_try_stopped_is_waited_out_all_the_same(desk: Desk) -> None:
    # The first try cancels a run and then dies; the second one finds nothing that runs.
    desk.runs.stops = [MemoryUnavailable("1 workflows of the user still run"), {}]
    with pytest.raises(ApplicationError):
        await desk.stop()
    assert (await desk.receipt()).problems == ("runs: 1 workflows of the user still run",)
    desk.runs.closed = {"Long": datetime.now(UTC) - timedelta(seconds=5)}
    reply = await desk.stop()
    assert 880 < reply.settle_s <= 895
    # A pass that says so is not the last one.
    assert reply.stopped == {"Long": 0}
    assert (await desk.receipt()).problems == ()

    # What ended long ago writes no more.
    desk.runs.closed = {"Short": datetime.now(UTC) - timedelta(seconds=101), "Other": datetime.now(UTC)}
    reply = await desk.stop()
    assert (dict(reply.stopped), reply.settle_s) == ({}, 60)
    desk.runs.stops = [{"Short": 2}]
    reply = await desk.stop()
    assert (dict(reply.stopped), reply.settle_s) == ({"Short": 2}, 100)


async def test_what_could_not_be_deleted_is_counted_once_however_many_runs_try(desk: Desk) -> None:
    store, profiles, scope = desk.world.store, desk.world.profiles, desk.world.scope
    bucket = profiles.bucket(scope.tenant)
    await store.ensure_bucket(bucket)
    for number in range(3):
        await store.put(bucket, f"root/{scope.user}/memory.md", b"%d" % number)
    real = profiles.erase

    async def refused(*_: Any) -> None:
        raise InvalidSettings(f"the object store refused to delete root/{scope.user}/memory.md (AccessDenied)")

    profiles.erase = refused  # type: ignore[method-assign]
    for passed in (1, 1, 2):
        with pytest.raises(ApplicationError):
            await desk.erase(ErasedStore.OBJECTS, passed)
    seen = await desk.receipt()
    assert seen.counts == {"objects.profile_versions": 3}
    assert seen.problems == ("objects: the object store refused to delete root/…/memory.md (AccessDenied)",)

    async def broken(*_: Any) -> None:
        raise KeyError("secret")

    profiles.erase = broken  # type: ignore[method-assign]
    with pytest.raises(ApplicationError):
        await desk.erase(ErasedStore.OBJECTS)
    assert (await desk.receipt()).problems == ("objects: KeyError",)
    profiles.erase = real  # type: ignore[method-assign]
    await desk.erase(ErasedStore.OBJECTS)
    assert (await desk.receipt()).problems == ()
    # What comes later counts too.
    await store.put(bucket, f"root/{scope.user}/memory.md", b"late")
    await desk.erase(ErasedStore.OBJECTS, 2)
    assert (await desk.receipt()).counts == {"objects.profile_versions": 4}


async def test_executions_are_counted_before_they_go_and_only_where_they_do(desk: Desk) -> None:
    desk.runs.there = 7
    desk.runs.deletes = [InvalidSettings("not permitted")]
    with pytest.raises(ApplicationError):
        await ActivityEnvironment().run(desk.steps.delete_user_runs, REF)
    assert (await desk.receipt()).counts == {}
    desk.runs.deletes = [StoreUnavailable("cut short")]
    with pytest.raises(ApplicationError):
        await ActivityEnvironment().run(desk.steps.delete_user_runs, REF)
    await ActivityEnvironment().run(desk.steps.delete_user_runs, REF)
    assert (await desk.receipt()).counts == {"temporal.executions": 7}


async def test_the_end_may_take_longer_than_a_beat(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, go_on = desk.world.tables.erasures, asyncio.Event()
    real = ledger.done

    async def slow(*args: Any, **named: Any) -> Erasure:
        await go_on.wait()
        return await real(*args, **named)

    monkeypatch.setattr(ledger, "done", slow)
    env, beats = environment(0.15)
    running = asyncio.create_task(env.run(desk.steps.mark_forget, MarkInput(erasure=REF, state=ErasureState.DONE)))

    async def has_beaten() -> bool:
        return len(beats) > 2

    await until(has_beaten, what="it beats")
    go_on.set()
    await running
    assert (await desk.receipt()).state is ErasureState.DONE


async def test_when_runs_of_a_user_ended_is_read_from_the_server(temporal_client: Client) -> None:
    scope, other = (Scope.of("acme", f"ann-{uuid.uuid4().hex[:8]}{more}") for more in ("", "-2"))
    runs = TemporalUserRuns(temporal_client, cancel_s=0)
    begun = datetime.now(UTC) - timedelta(seconds=2)
    for one in (scope, other):
        await temporal_client.start_workflow(
            POST_ANSWER_WORKFLOW,
            id=one.post_answer_workflow_id,
            task_queue=f"nobody-{uuid.uuid4().hex}",
            search_attributes=user_search_attributes(one),
        )
    assert await runs.ended(scope, since=begun, stopped_only_before=begun) == {}
    assert await runs.stop(scope, ()) == {POST_ANSWER_WORKFLOW: 1}
    assert await runs.stop(scope, ()) == {}
    later = datetime.now(UTC) + timedelta(hours=1)
    for bound in (begun, later):  # a run that was terminated counts before the erasure as well
        closed = await runs.ended(scope, since=begun, stopped_only_before=bound)
        assert set(closed) == {POST_ANSWER_WORKFLOW}
        assert closed[POST_ANSWER_WORKFLOW] >= begun
    assert await runs.ended(scope, since=later, stopped_only_before=begun) == {}
    assert await runs.ended(other, since=begun, stopped_only_before=begun) == {}
    counted: list[int] = []

    async def listed(count: int) -> None:
        counted.append(count)

    assert await runs.delete(scope, listed) == 1
    assert counted == [1]
    assert await runs.stop(other, ()) == {POST_ANSWER_WORKFLOW: 1}
