"""`afterturn replay`: the recorded histories fit the code, and one that does not is explained."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.command import ROOT, afterturn

HISTORIES = ROOT / "tests" / "histories"


def test_all_recorded_histories_replay(tmp_path: Path) -> None:
    done = afterturn("replay", str(HISTORIES), "--json", data_dir=tmp_path / "data")
    assert done.code == 0, done
    results = done.json["results"]
    assert len(results) == len(list(HISTORIES.rglob("*.json")))
    assert all(result["ok"] for result in results)


def test_a_history_of_other_steps_is_caught_and_explained(tmp_path: Path) -> None:
    """The same as code that now asks for another step first."""
    history = json.loads((HISTORIES / "post_answer" / "update.json").read_text("utf-8"))
    scheduled = next(event for event in history["events"] if "activityTaskScheduledEventAttributes" in event)
    scheduled["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "another_step"
    changed = tmp_path / "changed" / "update.json"
    changed.parent.mkdir()
    changed.write_text(json.dumps(history), "utf-8")
    done = afterturn("replay", str(changed.parent), data_dir=tmp_path / "data")
    assert done.code == 1, done
    assert "FAIL update.json" in done.out
    assert "0 of 1 histories replay" in done.out
    assert "another_step" in done.out, "it says what changed"
    for way_out in ("Revert", "workflow.patched", "new workflow type"):
        assert way_out in done.out
    assert "Traceback" not in done.out + done.err


def test_what_is_no_history_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"events": []}', "utf-8")
    assert "x.json: is not a recorded history" in afterturn("replay", str(file), data_dir=tmp_path / "data").complaint
    (tmp_path / "empty").mkdir()
    assert "holds no recorded history" in afterturn("replay", str(tmp_path / "empty"), data_dir=tmp_path / "data").complaint
