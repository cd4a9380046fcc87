"""Replays recorded or live histories with the workflow code of this installation, and teaches when one does not fit.

A running workflow is rebuilt by running its code again over its history; code that would now issue other commands cannot go on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from memory.model.errors import InvalidInput, InvalidSettings
from memory.model.names import (
    CONSOLIDATE_EVENTS_WORKFLOW,
    FORGET_USER_WORKFLOW,
    KNOWLEDGE_LOOP_WORKFLOW,
    KNOWLEDGE_QUESTION_WORKFLOW,
    POST_ANSWER_WORKFLOW,
    RECONCILE_WORKFLOW,
    ROLLOUT_GATE_WORKFLOW,
    SWEEP_WORKFLOW,
)
from starter.payloads import IN_CLEAR
from starter.temporal import temporal_errors
from workflows import WORKFLOWS
from workflows.sandbox import workflow_runner

_MAX_CAUSE = 400
_TYPES = (
    POST_ANSWER_WORKFLOW,
    CONSOLIDATE_EVENTS_WORKFLOW,
    KNOWLEDGE_LOOP_WORKFLOW,
    KNOWLEDGE_QUESTION_WORKFLOW,
    FORGET_USER_WORKFLOW,
    SWEEP_WORKFLOW,
    RECONCILE_WORKFLOW,
    ROLLOUT_GATE_WORKFLOW,
)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One history. ``cause``: what did not fit, in one line; ``diverged``: the code issues other commands than the history."""

    name: str
    workflow_type: str
    events: int
    ok: bool
    diverged: bool = False
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayReport:
    results: tuple[ReplayResult, ...]

    @property
    def failed(self) -> int:
        return sum(not result.ok for result in self.results)


async def replay_files(
    path: Path, workflows: Sequence[type] = WORKFLOWS, *, converter: DataConverter | None = None
) -> ReplayReport:
    """All ``.json`` histories under a folder, or one file, in the order of their names.

    ``converter``: of histories that are encrypted (:func:`starter.payloads.data_converter`); by default they are in clear.

    Raises InvalidInput when there is none, or one is not a history.
    """
    histories = await asyncio.to_thread(_recorded, path)
    converter = converter or IN_CLEAR
    replayer = _replayer(workflows, converter)
    return ReplayReport(tuple([await _replay(replayer, converter, name, history) for name, history in histories]))


async def replay_namespace(
    client: Client, *, limit: int, open_only: bool = False, workflows: Sequence[type] = WORKFLOWS
) -> ReplayReport:
    """The newest runs of our workflow types in the connected namespace. Nothing on the server changes.

    Args:
        limit: at most this many.
        open_only: only runs that still have to go on.

    A run that the server deletes meanwhile is left out. Raises what :func:`starter.temporal.temporal_errors` raises.
    """
    replayer = _replayer(workflows, client.data_converter)
    types = ", ".join(f"'{name}'" for name in _TYPES)
    still = " AND ExecutionStatus = 'Running'" if open_only else ""
    results: list[ReplayResult] = []
    with temporal_errors("reading histories"):
        async for run in client.list_workflows(f"WorkflowType IN ({types}){still}", limit=limit):
            try:
                history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    continue
                raise
            results.append(await _replay(replayer, client.data_converter, f"{run.id} {run.run_id}", history))
    return ReplayReport(tuple(results))


def lesson(report: ReplayReport) -> str:
    """What to do about the histories that do not replay, for the person who changed the code."""
    failed = [result for result in report.results if not result.ok]
    if not failed:
        return ""
    lines = ["What changed", ""]
    for result in failed:
        lines.append(f"  {result.name} ({result.workflow_type})")
        lines.append(f"    {result.cause}")
    lines += [
        "",
        "Workflows that run right now were started by the old code. When a worker picks one up, it runs the new code over the",
        "recorded history, and here the new code asks for other steps, or in another order, than the history holds. Such a run",
        "would stop until somebody repairs it. A recorded history is therefore never edited or deleted to make this pass.",
        "",
        "Three ways out",
        "",
        "  1. Revert, if the change of the order was not meant: random(), uuid4(), the clock, iteration over a set, an await that",
        "     moved. Use workflow.random(), workflow.uuid4(), workflow.now(), sorted().",
        "  2. Keep both, if running workflows must go on:",
        '         if workflow.patched("what-changes"):',
        "             ...  # new steps",
        "         else:",
        "             ...  # old steps, until no run without the patch is left; then workflow.deprecate_patch(...)",
        "     and record a new history of the new shape beside the old one: make histories.",
        "  3. Start afresh, if the two have little in common: a new workflow type, or a new worker deployment version to which",
        "     running workflows are not moved (pinned). The old code stays until its last run has ended.",
        "",
    ]
    return "\n".join(lines)


def _replayer(workflows: Sequence[type], converter: DataConverter) -> Replayer:
    return Replayer(workflows=workflows, data_converter=converter, workflow_runner=workflow_runner())


async def _replay(replayer: Replayer, converter: DataConverter, name: str, history: WorkflowHistory) -> ReplayResult:
    workflow_type = _started_type(history)
    events = len(history.events)
    try:
        # The replayer says of a key that is missing no more than that arguments cannot be decoded.
        await converter.decode(history.events[0].workflow_execution_started_event_attributes.input.payloads)
        failure = (await replayer.replay_workflow(history, raise_on_replay_failure=False)).replay_failure
    except (ValueError, RuntimeError, InvalidSettings) as error:
        failure = error
    if failure is None:
        return ReplayResult(name, workflow_type, events, ok=True)
    return ReplayResult(
        name, workflow_type, events, ok=False, diverged=isinstance(failure, NondeterminismError), cause=_cause(failure)
    )


def _cause(failure: Exception) -> str:
    text = " ".join(str(failure).split())
    text = re.sub(r"^Workflow activation completion failed: ", "", text)
    found = re.search(r"\[TMPRL\d+\] Nondeterminism error: (?P<what>.*?)(?:\", source: .*|$)", text)
    text = found["what"] if found else text or type(failure).__name__
    return text if len(text) <= _MAX_CAUSE else text[: _MAX_CAUSE - 1] + "…"


def _recorded(path: Path) -> list[tuple[str, WorkflowHistory]]:
    if not path.is_dir():
        return [(str(path), _history(path))]
    files = sorted(path.rglob("*.json"))
    if not files:
        raise InvalidInput(f"{path}: holds no recorded history (*.json); `make histories` records them")
    return [(str(file.relative_to(path)), _history(file)) for file in files]


def _history(file: Path) -> WorkflowHistory:
    try:
        history = WorkflowHistory.from_json(file.stem, file.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001  protobuf's JSON reader raises many kinds
        raise InvalidInput(f"{file}: is not a recorded history ({type(error).__name__})") from None
    if not history.events or history.events[0].event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        raise InvalidInput(f"{file}: is not a recorded history: it does not begin with the start of a workflow")
    return history


def _started_type(history: WorkflowHistory) -> str:
    return history.events[0].workflow_execution_started_event_attributes.workflow_type.name if history.events else "unknown"
