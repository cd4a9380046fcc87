"""Records a replay fixture for every shape of run: `make histories`.

    python -m starter.record_histories [--out tests/histories] [--only NAME] [--replace]

Runs the real workflows on a real server with scripted activities, so the fixtures hold no text of anybody. A fixture that exists
is kept (runs of that shape may still be open somewhere): a changed workflow gets *new* fixtures beside the old ones; ``--replace``
is for a shape that was never released.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.worker import Worker

from memory.model import names
from memory.model.directory import ConsolidationMode
from memory.model.forget_steps import ErasureRef
from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE, TURNS_RECORDED_SIGNAL
from memory.model.scope import Scope
from memory.model.steps import (
    Decision,
    EditRequest,
    PostAnswerInput,
    RollbackRequest,
    RunTotals,
    SweepInput,
    SweepReport,
    TurnsRecorded,
    UserRef,
    WriteReply,
    WriteStatus,
)
from memory.model.window_steps import ReconcileInput, ReconcileReply
from starter.scripted import Scripted, fails
from starter.scripted_forget import FORGET_SHAPES, ForgetStage
from starter.scripted_loops import LOOP_SHAPES, QUESTION_SHAPES, LoopStage
from starter.scripted_windows import WINDOW_SHAPES, WindowStage
from workflows import (
    ConsolidateEventsWorkflow,
    ForgetUserWorkflow,
    KnowledgeLoopWorkflow,
    KnowledgeQuestionWorkflow,
    PostAnswerWorkflow,
    ReconcileWorkflow,
    RolloutGateWorkflow,
    SweepWorkflow,
)
from workflows.sandbox import workflow_runner

_WAIT_S = 60.0
_CONFLICT = WriteReply(status=WriteStatus.CONFLICT, version=3)

Handle = WorkflowHandle[PostAnswerWorkflow, RunTotals]


@dataclass
class Stage:
    """One recording: a server, a scripted world, one user."""

    client: Client
    world: Scripted
    scope: Scope

    async def wake(self, *turn_ids: str) -> Handle:
        for turn_id in turn_ids:
            self.world.turn(turn_id)
        return await self.client.start_workflow(
            PostAnswerWorkflow.run,
            PostAnswerInput(user=UserRef.of(self.scope)),
            id=self.scope.post_answer_workflow_id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=TURNS_RECORDED_SIGNAL,
            start_signal_args=[TurnsRecorded(turn_ids=turn_ids)],
        )

    async def edit(self, edit_id: str) -> WriteReply:
        start = WithStartWorkflowOperation(
            PostAnswerWorkflow.run,
            PostAnswerInput(user=UserRef.of(self.scope)),
            id=self.scope.post_answer_workflow_id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        return await self.client.execute_update_with_start_workflow(
            names.EDIT_UPDATE,
            EditRequest(edit_id=edit_id, candidate="abc", expected_etag=None),
            start_workflow_operation=start,
            id=edit_id,
            result_type=WriteReply,
        )

    async def reached(self, call: str, times: int = 1) -> None:
        async with asyncio.timeout(_WAIT_S):
            while self.world.calls.count(call) < times:
                await asyncio.sleep(0.02)


async def _one_turn(stage: Stage) -> None:
    await (await stage.wake("t1")).result()


async def _several(stage: Stage) -> None:
    await (await stage.wake("t1", "t2", "t3")).result()


async def _late_turn(stage: Stage) -> None:
    release = asyncio.Event()
    stage.world.then("consolidate", release)
    handle = await stage.wake("t1")
    await stage.reached("consolidate")
    await stage.wake("t2")
    release.set()
    await handle.result()


async def _save_meets_turn(stage: Stage) -> None:
    release = asyncio.Event()
    stage.world.then("consolidate", release)
    stage.world.then("upload", _CONFLICT)
    handle = await stage.wake("t1")
    await stage.reached("consolidate")
    await stage.edit("e1")
    release.set()
    await handle.result()


async def _save_alone(stage: Stage) -> None:
    await stage.edit("e1")
    await stage.client.get_workflow_handle(stage.scope.post_answer_workflow_id).result()


async def _roll_back(stage: Stage) -> None:
    release = asyncio.Event()
    stage.world.then("gate", release)
    handle = await stage.wake("t1")
    await stage.reached("gate")
    await handle.execute_update(PostAnswerWorkflow.rollback_profile, RollbackRequest(edit_id="r1", to_version=1), id="r1")
    release.set()
    await handle.result()


async def _cancelled(stage: Stage) -> None:
    never = asyncio.Event()
    stage.world.then("consolidate", never)
    handle = await stage.wake("t1")
    await stage.reached("consolidate")
    await handle.cancel()
    async with asyncio.timeout(_WAIT_S):
        while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await asyncio.sleep(0.05)
    never.set()


async def _outage(stage: Stage) -> None:
    for step in ("claim", "consolidate", "upload", "finish"):
        stage.world.then(step, *[fails("StoreUnavailable")] * 2)
    await _one_turn(stage)


async def _gate_failed(stage: Stage) -> None:
    stage.world.then("gate", fails("ModelRejected"))
    await _one_turn(stage)


async def _rate_limited(stage: Stage) -> None:
    stage.world.then("consolidate", fails("ModelRateLimited"))
    await _one_turn(stage)


async def _model_away(stage: Stage) -> None:
    stage.world.then("consolidate", *[fails("ModelUnavailable")] * 5)
    await _one_turn(stage)


async def _model_stays_away(stage: Stage) -> None:
    stage.world.then("consolidate", *[fails("ModelRateLimited")] * 20)
    await _one_turn(stage)


async def _consolidate_failed(stage: Stage) -> None:
    stage.world.then("consolidate", fails("ModelRejected"))
    await _one_turn(stage)


async def _conflicts_for_ever(stage: Stage) -> None:
    stage.world.then("upload", *[_CONFLICT] * 4)
    await _one_turn(stage)


async def _notice_failed(stage: Stage) -> None:
    stage.world.then("notice:updating_started", *[fails("MemoryUnavailable")] * 2)
    stage.world.then("notice:updating_completed", *[fails("MemoryUnavailable")] * 2)
    await _one_turn(stage)


Shape = tuple[Callable[[], Scripted], Callable[[Stage], Awaitable[None]]]

SHAPES: dict[str, Shape] = {
    "update": (Scripted, _one_turn),
    "update-edits-mode-no-notice": (lambda: Scripted(plan={"mode": ConsolidationMode.EDITS, "notice": False}), _one_turn),
    "update-without-gate": (lambda: Scripted(plan={"gate": False}), _one_turn),
    "update-after-gate-failure": (Scripted, _gate_failed),
    "update-after-rate-limit": (Scripted, _rate_limited),
    "update-through-store-outage": (Scripted, _outage),
    "update-through-model-outage": (lambda: Scripted(plan={"model_retry_for_s": 60}), _model_away),
    "update-notes-prompts": (lambda: Scripted(prompts="v1"), _one_turn),
    "update-notice-failed": (Scripted, _notice_failed),
    "update-remote-notice": (lambda: Scripted(plan={"remote_notices": True}), _one_turn),
    "noop-by-gate": (lambda: Scripted(gate_says=False), _one_turn),
    "noop-by-model": (lambda: Scripted(decision=Decision.NOOP), _one_turn),
    "noop-empty-exchange": (lambda: Scripted(plan={"empty": True}), _one_turn),
    "kept-by-model": (lambda: Scripted(decision=Decision.KEPT), _one_turn),
    "kept-consolidate-failed": (Scripted, _consolidate_failed),
    "kept-model-stayed-away": (lambda: Scripted(plan={"model_retry_for_s": 12}), _model_stays_away),
    "kept-conflicts": (Scripted, _conflicts_for_ever),
    "skipped": (lambda: Scripted(skip=True), _one_turn),
    "already-applied": (lambda: Scripted(decision=Decision.APPLIED, version=4), _one_turn),
    "several-turns": (Scripted, _several),
    "several-turns-together": (lambda: Scripted(batch_size=3), _several),
    "turn-arrives-meanwhile": (Scripted, _late_turn),
    "save-meets-turn": (Scripted, _save_meets_turn),
    "save-alone": (Scripted, _save_alone),
    "roll-back-meets-turn": (lambda: Scripted(gate_says=False), _roll_back),
    "cancelled": (Scripted, _cancelled),
    "continue-as-new": (lambda: Scripted(plan={"continue_after_turns": 2}), _several),
}
"""Every shape of ``PostAnswerWorkflow``, and how to bring a run into it."""


async def record(client: Client, out: Path, *, only: str | None = None, replace: bool = False) -> list[Path]:
    """Run every shape and write the histories of all its runs. Returns the files written."""
    written: list[Path] = []
    for name, (world, act) in SHAPES.items():
        path = out / "post_answer" / f"{name}.json"
        if (only and only != name) or (path.exists() and not replace):
            continue
        stage = Stage(client, world(), Scope.of("fixtures", name))
        async with (
            Worker(
                client,
                task_queue=TASK_QUEUE,
                workflows=[PostAnswerWorkflow],
                activities=stage.world.all(),
                workflow_runner=workflow_runner(),
            ),
            Worker(client, task_queue=MODEL_TASK_QUEUE, activities=[stage.world.gate, stage.world.consolidate]),
        ):
            await act(stage)
        written += await _save_runs(client, stage.scope.post_answer_workflow_id, path)
    for name, (windows, show) in WINDOW_SHAPES.items():
        path = out / "consolidate_events" / f"{name}.json"
        if (only and only != name) or (path.exists() and not replace):
            continue
        shown = WindowStage(client, windows(), Scope.of("fixtures", name))
        async with (
            Worker(
                client,
                task_queue=TASK_QUEUE,
                workflows=[ConsolidateEventsWorkflow],
                activities=shown.world.all(),
                workflow_runner=workflow_runner(),
            ),
            Worker(client, task_queue=MODEL_TASK_QUEUE, activities=[shown.world.extract_window]),
        ):
            await show(shown)
        written += await _save_runs(client, shown.workflow_id, path)
    for folder, shapes in (("knowledge_loop", LOOP_SHAPES), ("knowledge_question", QUESTION_SHAPES)):
        for name, (loops, play) in shapes.items():
            path = out / folder / f"{name}.json"
            if (only and only != name) or (path.exists() and not replace):
                continue
            scene = LoopStage(client, loops(), Scope.of("fixtures", f"{folder}-{name}"))
            async with (
                Worker(
                    client,
                    task_queue=TASK_QUEUE,
                    workflows=[KnowledgeLoopWorkflow, KnowledgeQuestionWorkflow],
                    activities=scene.world.store(),
                    workflow_runner=workflow_runner(),
                ),
                Worker(client, task_queue=MODEL_TASK_QUEUE, activities=scene.world.model()),
            ):
                await play(scene)
            written += await _save_runs(client, scene.workflow_id, path)
    for name, (stores, go) in FORGET_SHAPES.items():
        path = out / "forget_user" / f"{name}.json"
        if (only and only != name) or (path.exists() and not replace):
            continue
        told = ForgetStage(client, stores(), ErasureRef(tenant="fixtures", erasure_id=name))
        async with Worker(
            client,
            task_queue=TASK_QUEUE,
            workflows=[ForgetUserWorkflow],
            activities=told.world.all(),
            workflow_runner=workflow_runner(),
        ):
            await go(told)
        written += await _save_runs(client, told.workflow_id, path)
    for name, workflow, given in (
        ("sweep", SweepWorkflow.run, [SweepInput()]),
        ("reconcile", ReconcileWorkflow.run, [ReconcileInput()]),
        ("rollout_gate", RolloutGateWorkflow.run, []),
    ):
        path = out / name / f"{name}.json"
        if (only in (None, name)) and (replace or not path.exists()):
            async with _upkeep_worker(client):
                await client.execute_workflow(workflow, args=given, id=f"{name}-fixture", task_queue=TASK_QUEUE)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownMemberType]
            written += await _save_runs(client, f"{name}-fixture", path)
    return written


@asynccontextmanager
async def _upkeep_worker(client: Client) -> AsyncGenerator[None]:
    from temporalio import activity

    @activity.defn(name=names.SWEEP)
    async def sweep(_: SweepInput) -> SweepReport:
        return SweepReport(users_started=1, turns_waiting=2)

    @activity.defn(name=names.RECONCILE)
    async def reconcile(_: ReconcileInput) -> ReconcileReply:
        return ReconcileReply(checked={"facts": 3}, repaired={"facts": 1})

    @activity.defn(name=names.CHECK_STORES)
    async def check_stores() -> None:
        """All well."""

    async with Worker(
        client,
        task_queue=TASK_QUEUE,
        workflows=[SweepWorkflow, ReconcileWorkflow, RolloutGateWorkflow],
        activities=[sweep, reconcile, check_stores],
        workflow_runner=workflow_runner(),
    ):
        yield


async def _save_runs(client: Client, workflow_id: str, path: Path) -> list[Path]:
    """All runs of a workflow id, oldest first: ``name.json``, and ``name.2.json`` … for runs that continued as new."""
    runs = [run async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'")]
    async with asyncio.timeout(_WAIT_S):
        # Visibility lags behind the run.
        while not runs:
            await asyncio.sleep(0.1)
            runs = [run async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'")]
    runs.sort(key=lambda run: run.start_time)
    path.parent.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for number, run in enumerate(runs, start=1):
        history = await client.get_workflow_handle(workflow_id, run_id=run.run_id).fetch_history()
        file = path if number == 1 else path.with_name(f"{path.stem}.{number}.json")
        file.write_text(_portable(history.to_json()), "utf-8")
        files.append(file)
    return files


def _portable(history: str) -> str:
    """Without stack traces: they hold paths of the recording machine, and a replay does not look at them."""

    def strip(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: strip(value) for key, value in cast(dict[str, Any], node).items() if key != "stackTrace"}
        if isinstance(node, list):
            return [strip(value) for value in cast(list[Any], node)]
        return node

    return json.dumps(strip(json.loads(history)), indent=1, ensure_ascii=False) + "\n"


def main(
    out: Annotated[Path, typer.Option(help="folder of the fixtures")] = Path("tests/histories"),
    only: Annotated[str | None, typer.Option(help="record this shape alone")] = None,
    replace: Annotated[bool, typer.Option(help="also over existing fixtures (never released shapes only)")] = False,
) -> None:
    """Record replay fixtures for every shape of run."""
    upkeep = {"sweep": None, "reconcile": None, "rollout_gate": None}
    known = {**SHAPES, **WINDOW_SHAPES, **LOOP_SHAPES, **QUESTION_SHAPES, **FORGET_SHAPES, **upkeep}
    if only is not None and only not in known:
        raise typer.BadParameter(f"no such shape; there are: {', '.join(known)}")
    files = asyncio.run(_record_on_own_server(out, only, replace))
    typer.echo(f"{len(files)} histories recorded in {out}" + ("" if files else " (all exist; see --replace)"))


async def _record_on_own_server(out: Path, only: str | None, replace: bool) -> list[Path]:
    import tempfile

    from starter.engines import TemporalServer
    from starter.payloads import IN_CLEAR

    with tempfile.TemporaryDirectory(prefix="afterturn-histories-") as folder:
        async with TemporalServer(Path(folder)) as server:
            client = await Client.connect(server.address, data_converter=IN_CLEAR, identity="recorder")
            return await record(client, out, only=only, replace=replace)


if __name__ == "__main__":
    typer.run(main)
