"""Running workflows must be able to go on with this code: every recorded shape of run is replayed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from starter.record_histories import SHAPES
from starter.replay import lesson, replay_files
from starter.scripted_forget import FORGET_SHAPES
from starter.scripted_loops import LOOP_SHAPES, QUESTION_SHAPES
from starter.scripted_windows import WINDOW_SHAPES
from tests.replay.changed_order import ChangedOrder
from workflows import SweepWorkflow

HISTORIES = Path(__file__).parents[1] / "histories"


@pytest.mark.parametrize(
    "folder",
    [
        "post_answer",
        "consolidate_events",
        "knowledge_loop",
        "knowledge_question",
        "forget_user",
        "sweep",
        "reconcile",
        "rollout_gate",
    ],
)
async def test_every_recorded_history_replays(folder: str) -> None:
    report = await replay_files(HISTORIES / folder)
    assert report.failed == 0, lesson(report)
    assert all(result.events > 3 for result in report.results)


def test_every_shape_of_run_has_a_fixture() -> None:
    for folder, shapes in (
        ("post_answer", SHAPES),
        ("consolidate_events", WINDOW_SHAPES),
        ("knowledge_loop", LOOP_SHAPES),
        ("knowledge_question", QUESTION_SHAPES),
        ("forget_user", FORGET_SHAPES),
    ):
        recorded = {file.stem for file in (HISTORIES / folder).glob("*.json")}
        assert set(shapes) <= recorded
        assert "continue-as-new" not in shapes or "continue-as-new.2" in recorded


async def test_a_changed_command_order_is_caught_and_the_message_teaches() -> None:
    report = await replay_files(HISTORIES / "post_answer" / "update.json", workflows=(ChangedOrder, SweepWorkflow))
    (result,) = report.results
    assert not result.ok
    assert result.diverged
    taught = lesson(report)
    for word in ("What changed", "update.json", "Three ways out", "workflow.patched", "Revert", "new workflow type"):
        assert word in taught


def test_fixtures_hold_no_path_and_no_host_of_the_recording_machine() -> None:
    for file in HISTORIES.rglob("*.json"):
        text = file.read_text("utf-8")
        assert "stackTrace" not in text, file
        assert set(re.findall(r'"identity": "([^"]*)"', text)) == {"recorder"}, file
