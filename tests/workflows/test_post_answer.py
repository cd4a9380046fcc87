"""What the workflow decides: order, fail-open, conflicts, edits, notices, cancellation, continue-as-new. Real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowFailureError
from temporalio.common import WorkflowIDConflictPolicy

from memory.model.names import SEARCH_PROMPTS, TASK_QUEUE
from memory.model.steps import (
    Decision,
    EditRequest,
    PostAnswerInput,
    RollbackRequest,
    RunTotals,
    UserRef,
    WriteReply,
    WriteStatus,
)
from memory.model.turn import Outcome
from starter.scripted import Scripted, fails
from tests.support.waiting import until
from tests.workflows.conftest import Run
from workflows import PostAnswerWorkflow, policies
from workflows.policies import ModelStep, StoreStep

Running = Callable[[Scripted], AbstractAsyncContextManager[Run]]


async def edit(client: Client, run: Run, edit_id: str = "e1") -> WriteReply:
    """Update-with-start, as the starter does."""
    start = WithStartWorkflowOperation(
        PostAnswerWorkflow.run,
        PostAnswerInput(user=UserRef.of(run.scope)),
        id=run.scope.post_answer_workflow_id,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    return await client.execute_update_with_start_workflow(
        PostAnswerWorkflow.edit_profile,
        EditRequest(edit_id=edit_id, candidate="abc", expected_etag=None),
        start_workflow_operation=start,
        id=edit_id,
    )


async def test_an_update_turn_is_gated_consolidated_and_uploaded(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.turn("t1")
        totals = await (await run.wake("t1")).result()
    assert totals == RunTotals(updated=1)
    done = run.world.outcomes["t1"]
    assert (done.outcome, done.profile_version) == (Outcome.UPDATED, 1)
    assert done.usage["gate"].input_tokens == 10
    assert done.usage["consolidate"].output_tokens == 50
    assert [n.step for n in run.world.notices] == ["updating_started", "updating_completed"]
    assert run.world.notices[-1].outcome is Outcome.UPDATED


async def test_a_noop_of_the_gate_calls_nothing_else_and_shows_no_notice(running: Running) -> None:
    async with running(Scripted(gate_says=False)) as run:
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert run.world.outcomes["t1"].outcome is Outcome.NOOP
    assert "consolidate" not in run.world.calls
    assert run.world.notices == []


async def test_a_run_can_be_found_by_the_prompts_that_it_used(running: Running, temporal_client: Client) -> None:
    """Also by those of a version that was replaced while the run went on."""
    async with running(Scripted(prompts="v1")) as run:
        release = asyncio.Event()
        run.world.then("finish", release)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: "finish" in run.world.calls)
        run.world.prompts = "v2"
        run.world.turn("t2")
        release.set()
        await handle.result()
        for version in ("v1", "v2"):
            query = f"{SEARCH_PROMPTS} = '{version}' AND WorkflowId = '{handle.id}'"
            await until(lambda query=query: _found(temporal_client, query))
        assert not await _found(temporal_client, f"{SEARCH_PROMPTS} = 'v3' AND WorkflowId = '{handle.id}'")


async def _found(client: Client, query: str) -> int:
    return (await client.count_workflows(query)).count


@pytest.mark.parametrize("kind", ["ModelUnavailable", "ModelRejected", "ModelTimedOut", "Unexpected"])
async def test_a_failing_gate_counts_as_update_and_says_so(running: Running, kind: str) -> None:
    async with running(Scripted(gate_says=False)) as run:
        run.world.then("gate", fails(kind), fails(kind))
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    done = run.world.outcomes["t1"]
    assert done.outcome is Outcome.UPDATED
    assert f"gate_failed:{kind}" in done.flags


async def test_the_gate_can_be_switched_off(running: Running) -> None:
    async with running(Scripted(plan={"gate": False})) as run:
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert "gate" not in run.world.calls
    assert run.world.outcomes["t1"].outcome is Outcome.UPDATED


async def test_an_empty_exchange_makes_no_call_and_no_write(running: Running) -> None:
    async with running(Scripted(plan={"empty": True})) as run:
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert run.world.calls == ["claim", "finish"]
    assert (run.world.outcomes["t1"].outcome, run.world.outcomes["t1"].reason) == (Outcome.NOOP, "empty_exchange")


async def test_a_rejected_model_call_keeps_the_profile_at_once_and_removes_the_notice(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.then("consolidate", fails("ModelRejected"))
        run.world.turn("t1")
        totals = await (await run.wake("t1")).result()
    done = run.world.outcomes["t1"]
    assert (done.outcome, done.reason) == (Outcome.KEPT, "consolidate_failed:ModelRejected")
    assert run.world.calls.count("consolidate") == 1
    assert [n.step for n in run.world.notices] == ["updating_started", "updating_completed"]
    assert run.world.notices[-1].outcome is Outcome.KEPT
    assert totals.kept == 1


async def test_a_model_that_is_away_is_asked_four_times_then_the_profile_is_kept(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.then("consolidate", *[fails("ModelUnavailable")] * 4)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert run.world.calls.count("consolidate") == 4
    assert run.world.outcomes["t1"].reason == "consolidate_failed:ModelUnavailable"


@pytest.fixture
def quick_model_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "CONSOLIDATE", ModelStep("consolidate", attempts=2, calls=1, initial_backoff_s=0.1))
    monkeypatch.setattr(policies, "MODEL_PATIENCE", policies.Patience(first_s=0.2, longest_s=0.4))


@pytest.mark.usefixtures("quick_model_waits")
@pytest.mark.parametrize("kind", ["ModelUnavailable", "ModelRateLimited", "ModelTimedOut"])
async def test_a_model_that_comes_back_is_waited_for_and_the_turns_are_learned_in_order(running: Running, kind: str) -> None:
    async with running(Scripted(plan={"model_retry_for_s": 60})) as run:
        run.world.then("consolidate", *[fails(kind)] * 4)
        run.world.turn("t1")
        run.world.turn("t2")
        totals = await (await run.wake("t1")).result()
    assert [run.world.outcomes[turn].profile_version for turn in ("t1", "t2")] == [1, 2]
    assert totals.updated == 2
    # Two bounded attempts, one after each of two waits, then the one that is answered; and the second turn's.
    assert run.world.calls.count("consolidate") == 6
    assert run.world.calls.count("gate") == 2


@pytest.mark.usefixtures("quick_model_waits")
async def test_an_operator_sees_that_a_run_waits_for_a_model_and_a_save_does_not_wait_with_it(
    running: Running, temporal_client: Client
) -> None:
    async with running(Scripted(plan={"model_retry_for_s": 60})) as run:
        run.world.then("consolidate", *[fails("ModelUnavailable")] * 200)
        run.world.turn("t1")
        handle = await run.wake("t1")

        async def waits() -> bool:
            return (await handle.query(PostAnswerWorkflow.status)).stage == "consolidating, waiting_for_model"

        await until(waits)
        assert (await edit(temporal_client, run)).status is WriteStatus.SAVED
        run.world.script["consolidate"].clear()
        await handle.result()
    assert run.world.outcomes["t1"].outcome is Outcome.UPDATED


@pytest.mark.usefixtures("quick_model_waits")
@pytest.mark.parametrize("kind", ["ModelUnavailable", "ModelRejected"])
async def test_a_model_that_stays_away_or_refuses_keeps_the_profile(running: Running, kind: str) -> None:
    async with running(Scripted(plan={"model_retry_for_s": 1.0})) as run:
        run.world.then("consolidate", *[fails(kind)] * 50)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert run.world.outcomes["t1"].reason == f"consolidate_failed:{kind}"
    asked = run.world.calls.count("consolidate")
    assert asked == 1 if kind == "ModelRejected" else 2 <= asked < 20


async def test_a_store_that_is_away_costs_no_model_attempt_and_the_turn_ends_well(running: Running) -> None:
    async with running(Scripted()) as run:
        for step in ("claim", "gate", "consolidate", "upload", "finish"):
            run.world.then(step, *[fails("StoreUnavailable")] * 2)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    done = run.world.outcomes["t1"]
    assert (done.outcome, done.flags) == (Outcome.UPDATED, ())


@pytest.mark.parametrize("step", ["claim", "upload", "finish"])
async def test_a_store_that_hangs_is_waited_for_like_one_that_is_away(
    running: Running, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = asyncio.Event()
    for name in ("CLAIM", "UPLOAD", "FINISH"):
        monkeypatch.setattr(policies, name, StoreStep(name.lower(), start_to_close_s=0.5, attempts=1))
    async with running(Scripted()) as run:
        run.world.then(step, hung)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
        hung.set()
    assert run.world.outcomes["t1"].outcome is Outcome.UPDATED
    assert run.world.calls.count(step) == 2


async def test_an_operator_sees_that_a_run_waits_for_a_store(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.then("upload", *[fails("StoreUnavailable")] * 50)
        run.world.turn("t1")
        handle = await run.wake("t1")

        async def waits() -> bool:
            return (await handle.query(PostAnswerWorkflow.status)).stage == "uploading, waiting_for_store"

        await until(waits)
        run.world.script["upload"].clear()
        await handle.result()
        assert (await handle.query(PostAnswerWorkflow.status)).stage == "done"


async def test_a_store_that_stays_away_keeps_the_profile_after_the_set_time(running: Running) -> None:
    async with running(Scripted(plan={"store_retry_for_s": 1.0})) as run:
        run.world.then("upload", *[fails("StoreUnavailable")] * 50)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert run.world.outcomes["t1"].reason == "upload_failed:StoreUnavailable"


async def test_turns_are_processed_in_order_and_a_lost_signal_changes_nothing(running: Running) -> None:
    async with running(Scripted()) as run:
        for name in ("t1", "t2", "t3"):
            run.world.turn(name)
        totals = await (await run.wake("t3")).result()
    assert list(run.world.outcomes) == ["t1", "t2", "t3"]
    assert [done.profile_version for done in run.world.outcomes.values()] == [1, 2, 3]
    assert totals.updated == 3


async def test_waiting_turns_go_together_when_the_plan_says_so(running: Running) -> None:
    async with running(Scripted(batch_size=3)) as run:
        for name in ("t1", "t2", "t3"):
            run.world.turn(name)
        await (await run.wake("t1")).result()
    assert run.world.calls.count("gate") == 1
    assert {done.profile_version for done in run.world.outcomes.values()} == {1}


async def test_a_turn_that_arrives_while_the_model_works_is_done_by_the_same_run(running: Running) -> None:
    release = asyncio.Event()
    async with running(Scripted()) as run:
        run.world.then("consolidate", release)
        run.world.turn("t1")
        first = await run.wake("t1")
        await until(lambda: "consolidate" in run.world.calls)
        run.world.turn("t2")
        second = await run.wake("t2")
        release.set()
        await second.result()
    assert first.result_run_id == second.result_run_id
    assert list(run.world.outcomes) == ["t1", "t2"]


async def test_a_save_while_the_model_works_is_not_kept_waiting_and_survives(running: Running) -> None:
    release = asyncio.Event()
    async with running(Scripted()) as run:
        run.world.then("consolidate", release)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: "consolidate" in run.world.calls)
        # The candidate is computed from the version before the save: the scripted upload will see the difference.
        saved = await edit(run.client, run)
        assert (saved.status, saved.version) == (WriteStatus.SAVED, 1)
        run.world.then("upload", WriteReply(status=WriteStatus.CONFLICT, version=1))
        release.set()
        await handle.result()
    done = run.world.outcomes["t1"]
    assert done.outcome is Outcome.UPDATED
    assert done.profile_version == 2
    assert "conflict" in done.flags
    assert run.world.calls.count("consolidate") == 2


async def test_a_second_writer_that_never_stops_ends_in_kept_conflict(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.then("upload", *[WriteReply(status=WriteStatus.CONFLICT, version=9)] * 4)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert (run.world.outcomes["t1"].outcome, run.world.outcomes["t1"].reason) == (Outcome.KEPT, "conflict")
    assert run.world.calls.count("consolidate") == 4


async def test_saves_wait_for_the_last_try_so_that_a_turn_always_comes_through(running: Running) -> None:
    release = asyncio.Event()
    conflict = WriteReply(status=WriteStatus.CONFLICT, version=0)
    async with running(Scripted()) as run:
        run.world.then("upload", conflict, conflict, conflict)
        run.world.then("consolidate", lambda: None, lambda: None, lambda: None, release)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: run.world.calls.count("consolidate") == 4)
        saving = asyncio.create_task(edit(run.client, run))
        await handle.query(PostAnswerWorkflow.status)
        assert "edit" not in run.world.calls
        release.set()
        saved = await saving
        await handle.result()
    assert run.world.outcomes["t1"].profile_version == 1
    assert saved.version == 2


async def test_a_save_of_an_idle_user_runs_alone_and_the_run_ends(running: Running) -> None:
    async with running(Scripted()) as run:
        saved = await edit(run.client, run)
        totals = await run.client.get_workflow_handle_for(PostAnswerWorkflow.run, run.scope.post_answer_workflow_id).result()
    assert saved.status is WriteStatus.SAVED
    assert totals.edits == 1


async def test_the_same_save_twice_is_one(running: Running) -> None:
    release = asyncio.Event()
    async with running(Scripted()) as run:
        run.world.then("consolidate", release)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: "consolidate" in run.world.calls)
        first, second = await edit(run.client, run, "same"), await edit(run.client, run, "same")
        release.set()
        await handle.result()
    assert first == second
    assert run.world.calls.count("edit") == 1


async def test_a_roll_back_is_an_update_of_the_same_run(running: Running) -> None:
    release = asyncio.Event()
    async with running(Scripted(gate_says=False)) as run:
        run.world.then("gate", release)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: "gate" in run.world.calls)
        reply = await handle.execute_update(
            PostAnswerWorkflow.rollback_profile, RollbackRequest(edit_id="r1", to_version=1), id="r1"
        )
        release.set()
        await handle.result()
    assert reply.status is WriteStatus.SAVED


async def test_notices_that_cannot_be_sent_are_skipped_and_reported(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.then("notice:updating_started", *[fails("MemoryUnavailable")] * 2)
        run.world.then("notice:updating_completed", *[fails("MemoryUnavailable")] * 2)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    done = run.world.outcomes["t1"]
    assert done.outcome is Outcome.UPDATED
    assert set(done.flags) == {"notice_failed:updating_started", "notice_failed:updating_completed"}


async def test_the_removal_waits_for_the_notice_to_have_appeared(running: Running) -> None:
    shown = asyncio.Event()
    async with running(Scripted(plan={"remote_notices": True})) as run:
        run.world.then("notice:updating_started", shown)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: run.world.version == 1)
        assert "notice:updating_completed" not in run.world.calls
        shown.set()
        await handle.result()
    assert [n.step for n in run.world.notices] == ["updating_started", "updating_completed"]


async def test_the_removal_is_not_repeated_while_the_event_log_is_away(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.then("finish", *[fails("StoreUnavailable")] * 3)
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert run.world.calls.count("finish") == 4
    assert [n.step for n in run.world.notices] == ["updating_started", "updating_completed"]


async def test_opting_out_while_the_model_works_ends_the_turn_as_skipped(running: Running) -> None:
    async with running(Scripted()) as run:
        run.world.then("upload", WriteReply(status=WriteStatus.OPTED_OUT, reason="user_opted_out"))
        run.world.turn("t1")
        totals = await (await run.wake("t1")).result()
    assert (run.world.outcomes["t1"].outcome, run.world.outcomes["t1"].reason) == (Outcome.SKIPPED, "user_opted_out")
    assert totals.skipped == 1


async def test_no_notice_when_the_space_wants_none(running: Running) -> None:
    async with running(Scripted(plan={"notice": False})) as run:
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    assert run.world.notices == []
    assert run.world.outcomes["t1"].outcome is Outcome.UPDATED


async def test_cancelling_a_run_removes_the_notice_and_keeps_the_turn_for_a_rerun(running: Running) -> None:
    never = asyncio.Event()
    async with running(Scripted()) as run:
        run.world.then("consolidate", never)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: "consolidate" in run.world.calls and run.world.notices)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
        never.set()
    assert [n.step for n in run.world.notices] == ["updating_started", "updating_completed"]
    assert (run.world.outcomes["t1"].outcome, run.world.outcomes["t1"].reason) == (Outcome.KEPT, "cancelled")


async def test_a_turn_that_the_profile_already_holds_is_recorded_and_not_written_again(running: Running) -> None:
    async with running(Scripted(decision=Decision.APPLIED, version=7)) as run:
        run.world.turn("t1")
        await (await run.wake("t1")).result()
    done = run.world.outcomes["t1"]
    assert (done.outcome, done.profile_version) == (Outcome.UPDATED, 7)
    assert "upload" not in run.world.calls


async def test_a_long_burst_continues_as_new_and_keeps_its_totals(running: Running) -> None:
    async with running(Scripted(plan={"continue_after_turns": 2})) as run:
        for number in range(5):
            run.world.turn(f"t{number}")
        totals = await (await run.wake("t0")).result()
    assert totals == RunTotals(updated=5, runs=3)
    assert len(run.world.outcomes) == 5


async def test_status_and_details_tell_the_stage_and_no_text(running: Running) -> None:
    release = asyncio.Event()
    async with running(Scripted()) as run:
        run.world.then("consolidate", release)
        run.world.turn("t1")
        handle = await run.wake("t1")
        await until(lambda: "consolidate" in run.world.calls)
        status = await handle.query(PostAnswerWorkflow.status)
        release.set()
        await handle.result()
        details = await handle.query("__temporal_workflow_metadata")
    assert (status.stage, status.turn_ids) == ("consolidating", ("t1",))
    assert "turn 1: UPDATED → v1" in str(details)
