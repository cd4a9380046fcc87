"""`afterturn demo` as a user runs it: real servers of its own, one shipped conversation, one of the user's."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from starter.conversations import load_conversation
from tests.e2e.command import Done, afterturn, children, running, stop
from tests.support.waiting import until

LAST_LINE = re.compile(
    r"demo: (\d+) turns, (\d+) updated, (\d+) noop, (\d+) kept, profile v(\d+), \d+\.\d s",
)
TALK = json.dumps(
    {
        "format": "afterturn-conversation/1",
        "title": "A short one",
        "user": "../../etc/passwd\u0000 [bold]x",
        "turns": [
            {"at": "2026-06-17T09:00:00Z", "user": "I live in Lisbon.", "assistant": "Nice.", "expect": "update"},
            {"at": "2026-06-17T09:01:00Z", "user": "What is 2 + 2?", "assistant": "4 \u001b[31m[red]", "expect": "noop"},
            {"at": "2026-06-17T09:02:00Z", "user": None, "assistant": None, "expect": "noop"},
        ],
    }
).encode()


def temporary(tmp_path: Path) -> dict[str, str]:
    folder = tmp_path / "tmp"
    folder.mkdir(exist_ok=True)
    return {"TMPDIR": str(folder)}


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The default conversation, once, as JSON."""
    folder = tmp_path_factory.mktemp("demo")
    done = afterturn("demo", "--json", data_dir=folder / "data", env=temporary(folder), within_s=110)
    assert not list((folder / "tmp").iterdir()), "the demo left something behind"
    assert not (folder / "data").exists(), "the demo wrote into the data folder of the user"
    return done


def test_every_turn_is_decided_as_a_careful_reader_would(shipped: Done) -> None:
    assert shipped.code == 0, shipped.err
    report = shipped.json
    talk = load_conversation("product-manager")
    wanted = [{"update": "updated", "noop": "noop"}[turn.expect or ""] for turn in talk.turns]
    assert [turn["outcome"] for turn in report["turns"]] == wanted
    assert report["ok"]
    assert report["summary"]["unexpected_turns"] == []
    assert report["summary"]["profile_version"] == wanted.count("updated")
    assert report["simulated"]


def test_the_profile_is_what_the_conversation_taught(shipped: Done) -> None:
    body = shipped.json["profile"]
    for told in ("Maya Okafor", "Lisbon", "Tideline", "SQL", "Python", "short paragraphs", "roadmap deck", "6 October"):
        assert told in body, told
    for gone in ("Larkfield", "15 September", "pricing survey", "bullet points", "administrator", "hospital"):
        assert gone not in body, gone


def test_no_secret_is_shown_or_kept(shipped: Done) -> None:
    secrets = load_conversation("product-manager").secrets
    assert sum(shipped.json["redacted"].values()) == len(secrets)
    assert shipped.json["summary"]["leaked"] == 0
    for secret in secrets:
        assert secret not in shipped.out + shipped.err


def test_each_update_shows_what_it_changed_and_a_noop_nothing(shipped: Done) -> None:
    for turn in shipped.json["turns"]:
        assert bool(turn["diff"]) == (turn["outcome"] == "updated"), turn
    moved = next(turn for turn in shipped.json["turns"] if "-- Works at Larkfield" in turn["diff"])
    assert "+- Works at Tideline" in moved["diff"]


def test_the_office_s_how_to_is_kept_as_guidance_and_is_no_fact(shipped: Done) -> None:
    events = shipped.json["events"]
    (how_to,) = events["guidance"]
    assert how_to["title"] == "How to plot on the big machine"
    assert "then press Feed twice" in how_to["content"]
    assert not [fact for fact in events["facts"] if "vacuum" in fact["statement"]]


def test_tables_are_asked_filled_and_asked_again(shipped: Done) -> None:
    first, told, again, units = shipped.json["knowledge"]["loops"]
    assert {loop["state"] for loop in (first, told, again, units)} == {"done"}
    assert "Lumen Mobility" in first["answer"]
    assert "Volta" in told["answer"]
    assert "Fjordwerk" in again["answer"]
    assert "Volta" in again["answer"]
    assert "31620" in units["answer"]


def test_the_last_line_and_that_the_model_is_simulated(shipped: Done) -> None:
    assert "The language model is simulated" in shipped.err
    line = LAST_LINE.fullmatch(shipped.err.rstrip("\n").rsplit("\n", 1)[-1])
    assert line is not None, shipped.err
    summary = shipped.json["summary"]
    assert [int(number) for number in line.groups()] == [
        summary["turns"],
        summary["updated"],
        summary["noop"],
        summary["kept"],
        summary["profile_version"],
    ]


def test_a_failing_model_keeps_the_profile_and_the_demo_fails(tmp_path: Path) -> None:
    env = {**temporary(tmp_path), "AFTERTURN_SIMULATED_FAULTS": "rejected=1"}
    done = afterturn("demo", "-", data_dir=tmp_path / "data", env=env, stdin=TALK)
    assert done.code == 1, done
    assert done.last_line.startswith("demo: 3 turns, 0 updated, 1 noop, 2 kept, profile v0, ")
    web_ui = next(line for line in done.out.splitlines() if line.startswith("Temporal Web UI: http://127.0.0.1:"))
    assert web_ui.endswith("/history  (gone when this command ends; --keep stays up)")
    assert "Traceback" not in done.err


async def test_a_hostile_conversation_of_ones_own_is_shown_and_kept_until_ctrl_c(tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    talk.write_bytes(TALK)
    shown: list[str] = []
    options: dict[str, Any] = {"data_dir": tmp_path / "data", "env": temporary(tmp_path), "until": "demo: ", "shown": shown}
    with running("demo", str(talk), "--keep", **options) as process:
        said = "".join(shown)
        assert LAST_LINE.fullmatch(shown[-1].rstrip("\n"))
        assert shown[-1].startswith("demo: 3 turns, 1 updated, 2 noop, 0 kept, profile v1, ")
        assert "+- Lives in Lisbon" in said
        assert re.search(r"^Temporal Web UI: http://127.0.0.1:\S+/history$", said, re.MULTILINE)
        assert not set(said) & {"\x1b", "\x00"}
        assert "[red]" in said, "text of the conversation is not markup"
        folder = next((tmp_path / "tmp").glob("afterturn-demo-*"))
        found = afterturn("profile", "show", "--user", json.loads(TALK)["user"].replace("\0", "?"), data_dir=folder)
        assert found.code == 0, found
        below = children(process.pid)
        assert len(below) >= 2
        assert stop(process, signal.SIGINT) == 0
        await until(lambda: not alive(below), what="the servers to end")
    assert not list((tmp_path / "tmp").iterdir())
    assert "\x1b" not in (tmp_path / "running.err").read_text("utf-8")


async def test_a_demo_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    talk.write_bytes(TALK)
    with running("demo", str(talk), data_dir=tmp_path / "data", env=temporary(tmp_path), until="turn 1/") as process:
        below = children(process.pid)
        assert stop(process, signal.SIGTERM) in (0, 128 + signal.SIGTERM)
        await until(lambda: not alive(below), what="the servers to end")
    assert not list((tmp_path / "tmp").iterdir())


def alive(pids: object) -> list[int]:
    import psutil

    assert isinstance(pids, list)
    return [pid for pid in pids if psutil.pid_exists(pid)]
