"""The event window from the command line: events in, windows run, facts, contacts and tasks out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Done, afterturn, running

CATEGORIES = ("CONTACTS", "BIOS", "ROLLING_SUMMARIES", "RESPONSE_POLICIES", "KNOWLEDGE", "TASKS")
WHO = ("--tenant", "acme", "--user", "nora")


def message(number: int, sender: str, content: str, **more: Any) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "timestamp": f"2026-02-02T09:{number:02}:00Z",
        "sender_id": sender,
        "receiver_ids": ["assistant"],
        "medium": "email" if "@" in sender else "chat",
        "content": content,
        **more,
    }


EVENTS = [
    message(1, "user", "The deadline for the Pier 4 application is 20 February."),
    message(2, "vera.lind@holm.example", "Hello, my name is Vera Lind, I work as a site manager at Holm Bau."),
    message(3, "user", "The drawings are stored on the NAS under Projects/2604."),
    message(4, "vera.lind@holm.example", "Please send me the concrete report by 10 February."),
    message(5, "user", "The password of the plotter is hunter2-Blue."),
]
FILE = "".join(json.dumps(event) + "\n" for event in EVENTS).encode()


class Dev:
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def __call__(self, *args: str, stdin: bytes = b"") -> Done:
        return afterturn(*args, data_dir=self.data_dir, stdin=stdin)

    def ok(self, *args: str, stdin: bytes = b"") -> Done:
        done = self(*args, stdin=stdin)
        assert done.code == 0, done
        return done


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    data_dir = tmp_path_factory.mktemp("events") / "data"
    env = {f"AFTERTURN_MEMORY_{name}": "true" for name in CATEGORIES} | {"AFTERTURN_EMBEDDER": "none"}
    with running("dev", data_dir=data_dir, until="ready", env=env):
        yield Dev(data_dir)


@pytest.fixture(scope="module")
def recorded(dev: Dev) -> Done:
    """Five events, recorded and consolidated as a short window."""
    done = dev.ok("events", "record", "-", "--json", *WHO, stdin=FILE)
    dev.ok("window", "flush", *WHO)
    return done


def test_the_same_file_again_records_nothing_new(dev: Dev, recorded: Done) -> None:
    assert recorded.json["recorded"] == len(EVENTS)
    again = dev.ok("events", "record", "-", "--json", *WHO, stdin=FILE)
    assert (again.json["recorded"], again.json["duplicates"]) == (0, len(EVENTS))


def test_a_window_shows_its_transcript_and_the_words_that_items_rest_on(dev: Dev, recorded: Done) -> None:
    windows = dev.ok("window", "list", "--json", *WHO).json
    assert [window["state"] for window in windows] == ["done"]
    shown = dev.ok("window", "show", windows[0]["window_id"], *WHO).out
    assert "The drawings are stored on the NAS under Projects/2604." in shown
    assert "“" in shown
    assert "hunter2" not in shown


def test_status_counts_what_waits(dev: Dev, recorded: Done) -> None:
    status = dev.ok("window", "status", "--json", *WHO).json
    assert (status["waiting"], status["size"]) == (0, 50)


def test_facts_are_found_shown_with_their_quotes_and_forgotten(dev: Dev, recorded: Done) -> None:
    found = dev.ok("facts", "search", "where are the drawings", "--json", *WHO).json
    best = found[0].get("fact", found[0])
    assert "NAS" in best["statement"]
    shown = dev.ok("facts", "show", best["fact_id"], *WHO).out
    assert "The drawings are stored on the NAS" in shown
    assert best["fact_id"] in dev.ok("facts", "history", best["fact_id"], *WHO).out
    dev.ok("facts", "forget", best["fact_id"], "--yes", *WHO)
    assert "NAS" not in dev.ok("facts", "list", *WHO).out
    gone = dev("facts", "show", best["fact_id"], *WHO)
    assert gone.code == 2
    assert "fact" in gone.complaint


def test_contacts_are_listed_and_can_be_corrected(dev: Dev, recorded: Done) -> None:
    contacts = dev.ok("contacts", "list", "--json", *WHO).json
    vera = next(contact for contact in contacts if contact["first_name"] == "Vera")
    assert vera["email_address"] == "vera.lind@holm.example"
    dev.ok("contacts", "update", str(vera["contact_id"]), "job_title=Head of works", *WHO)
    assert "Head of works" in dev.ok("contacts", "show", str(vera["contact_id"]), *WHO).out


def test_tasks_have_their_deadline(dev: Dev, recorded: Done) -> None:
    tasks = dev.ok("tasks", "list", "--json", *WHO).json
    assert any("concrete report" in task["name"] and task["deadline"].startswith("2026-02-10") for task in tasks)


def test_messages_are_found_with_what_was_said_around_them(dev: Dev, recorded: Done) -> None:
    found = dev.ok("events", "search", "concrete report", "--json", *WHO).json
    assert found[0]["event"]["event"]["event_id"] == "e4"
    assert found[0]["before"][0]["event"]["event_id"] == "e3"
    assert "no message found" in dev.ok("events", "search", "concrete report", "--tenant", "other", *WHO[2:]).out


def test_no_secret_comes_back(dev: Dev, recorded: Done) -> None:
    assert "hunter2" not in dev.ok("events", "search", "password of the plotter", *WHO).out
    assert "hunter2" not in dev.ok("facts", "list", "--status", "active", "--status", "superseded", "--json", *WHO).out


def test_usage_names_the_stage(dev: Dev, recorded: Done) -> None:
    report = dev.ok("usage", "--json", *WHO).json
    assert any(row["stage"].startswith("extract") and row["usage"]["input_tokens"] > 0 for row in report["rows"])


def test_reindex_finds_the_same_again(dev: Dev, recorded: Done) -> None:
    before = dev.ok("events", "search", "deadline of Pier 4", "--json", *WHO).json[0]["event"]["seq"]
    dev.ok("reindex", "--yes", "--kind", "events")
    assert dev.ok("events", "search", "deadline of Pier 4", "--json", *WHO).json[0]["event"]["seq"] == before


@pytest.mark.parametrize(
    ("line", "about"),
    [
        (("events", "record", "nosuch.jsonl"), "nosuch.jsonl"),
        (("window", "show", "w999", *WHO), "no window"),
        (("window", "list", "--state", "odd", *WHO), "state of a window"),
        (("facts", "search", " ", *WHO), "empty"),
        (("reindex", "--yes", "--kind", "odd"), "facts"),
    ],
)
def test_what_cannot_be_used_is_one_line_that_says_what(dev: Dev, line: tuple[str, ...], about: str) -> None:
    done = dev(*line)
    assert done.code == 2
    assert about in done.complaint


def test_the_sandbox_works_from_a_pipe(dev: Dev) -> None:
    said = b"/as anna email\nHi, I am Anna Berg and I work as a surveyor.\n/run\n/contacts\n/odd\n/quit\n"
    out = dev.ok("events", "sandbox", stdin=said).out
    assert "1/50" in out
    assert "Anna Berg" in out
    assert "/help" in out
