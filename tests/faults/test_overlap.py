"""FAULTS 32 and 33: signals and updates that overlap are applied in the same order when the run is replayed. Live runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory

from memory.model.names import POST_ANSWER_WORKFLOW, TURNS_RECORDED_SIGNAL
from memory.model.scope import Scope
from memory.model.steps import TurnsRecorded, WriteStatus
from memory.model.turn import Outcome
from memory.ports import ChatReply, ChatRequest
from starter.replay import lesson, replay_files
from starter.views import EditResult
from tests.support.models import ScriptedModel, profile_text
from tests.support.stack import Stack, StartStack, make_turn

SIGNALS = 30
SAVES = 5


class Held(ScriptedModel):
    """Rewrites the profile when it is released, from what it was shown."""

    def __init__(self) -> None:
        super().__init__({"gate": "UPDATE", "consolidate": self._rewrite})
        self.reached = asyncio.Event()
        self.release = asyncio.Event()
        self.rewrites = 0

    def _rewrite(self, request: ChatRequest) -> str:
        self.rewrites += 1
        known = [line for line in request.messages[0].text.splitlines() if line.startswith("- ")]
        return profile_text(identity="\n".join([*known, f"- Fact {self.rewrites}"]))

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.stage == "consolidate":
            self.reached.set()
            await self.release.wait()
        return await super().complete(request)


@pytest.mark.parametrize("cached_workflows", [500, 0], ids=["cached", "rebuilt for every task"])
async def test_thirty_signals_and_five_saves_at_once_replay(stack: StartStack, tmp_path: Path, cached_workflows: int) -> None:
    """Without a cache the worker itself replays the history at every single task, and stops at the first difference."""
    model = Held()
    async with stack(model=model, max_cached_workflows=cached_workflows, coalesce_max_turns=20) as s:
        user = s.user()
        await s.parts.profiles.prepare(user.tenant)
        await s.say(user, "My name is Ada Keller.")
        async with asyncio.timeout(60):
            await model.reached.wait()
        turns = [make_turn(f"Fact number {n} about me.") for n in range(SIGNALS)]
        for turn in turns:
            await s.parts.log.record_turn(user, turn, now=turn.occurred_at)
        handle = s.client.get_workflow_handle(user.post_answer_workflow_id)
        saving = [asyncio.create_task(save(s, user, number)) for number in range(SAVES)]
        signalling = [
            asyncio.create_task(handle.signal(TURNS_RECORDED_SIGNAL, TurnsRecorded(turn_ids=(turn.turn_id,)))) for turn in turns
        ]
        # Saves wait for no model: all are answered while it is held.
        _, saves = await asyncio.gather(asyncio.gather(*signalling), asyncio.gather(*saving))
        model.release.set()
        await s.settle(user, timeout_s=90)
        ledger, view, history = await s.ledger(user), await s.profile(user), await s.memory.history(user)
        recorded = await recorded_runs(s.client, user)

    # All turns have their outcome; of the saves one was first, and nothing was overwritten.
    assert len(ledger) == 1 + SIGNALS
    assert {row.outcome for row in ledger.values()} == {Outcome.UPDATED}
    assert sorted(saved.status for saved in saves) == [WriteStatus.CONFLICT] * (SAVES - 1) + [WriteStatus.SAVED]
    (won,) = [number for number, saved in enumerate(saves) if saved.status is WriteStatus.SAVED]
    assert f"- Save {won}" in view.body
    assert [version.version for version in history] == list(range(view.version, 0, -1))
    assert [version.cause for version in history].count("edit") == 1

    counts = Counter(event.event_type for run in recorded for event in run.events)
    assert counts[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED] == 1 + SIGNALS
    assert counts[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED] == SAVES
    assert counts[EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED] == SAVES
    assert counts[EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED] == 0
    for number, run in enumerate(recorded):
        (tmp_path / f"{number}.json").write_text(run.to_json(), "utf-8")
    report = await replay_files(tmp_path)
    assert report.failed == 0, lesson(report)
    assert {result.workflow_type for result in report.results} == {POST_ANSWER_WORKFLOW}


async def save(s: Stack, user: Scope, number: int) -> EditResult:
    """As a user who has read nothing yet: all five begin from the same state."""
    return await s.memory.edit_profile(user, f"## Identity\n- Save {number}\n", expected_etag=None, edit_id=f"{user.user}-{number}")


async def recorded_runs(client: Client, user: Scope) -> list[WorkflowHistory]:
    """The histories of all runs of the user's workflow, oldest first, found by their chain of run ids."""
    runs = {run.run_id: run.start_time async for run in client.list_workflows(f"WorkflowId = '{user.post_answer_workflow_id}'")}
    newest = await client.get_workflow_handle(user.post_answer_workflow_id).describe()
    runs[newest.run_id] = newest.start_time
    ordered = sorted(runs, key=lambda run_id: runs[run_id])
    return [await client.get_workflow_handle(user.post_answer_workflow_id, run_id=run_id).fetch_history() for run_id in ordered]


async def test_a_roll_back_that_is_asked_for_again_is_the_same_one(stack: StartStack) -> None:
    """The run that did it has ended and a turn was stored since: neither is undone."""
    async with stack() as s:
        user = s.user()
        await s.memory.edit_profile(user, "## Identity\n- First\n", expected_etag=None, edit_id="e1")
        read = await s.profile(user)
        await s.memory.edit_profile(user, "## Identity\n- Second\n", expected_etag=read.etag, edit_id="e2")
        await s.settle(user)
        first = await s.memory.rollback(user, 1, edit_id="r1")
        await s.settle(user)
        await s.say(user, "I live in Porto.")
        await s.settle(user)
        again = await s.memory.rollback(user, 1, edit_id="r1")
        same_save = await s.memory.edit_profile(user, "## Identity\n- Second\n", expected_etag=read.etag, edit_id="e2")
        await s.settle(user)
        view = await s.profile(user)
    assert (first.status, first.version) == (WriteStatus.SAVED, 3)
    assert (again.status, again.version) == (WriteStatus.SAVED, 4)
    assert (same_save.status, same_save.version) == (WriteStatus.SAVED, 4)
    assert view.version == 4
    assert "- First" in view.body
    assert "Porto" in view.body
