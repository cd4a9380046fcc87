"""Events, windows and what they gave, as a person meets them on the command line: one `afterturn dev`, the real commands."""

from __future__ import annotations

import json
import re
import stat
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import Shell, afterturn, running

CATEGORIES = {f"AFTERTURN_MEMORY_{name}": "true" for name in ("CONTACTS", "KNOWLEDGE", "TASKS")}
ENV = {**CATEGORIES, "AFTERTURN_EMBEDDER": "none", "AFTERTURN_WINDOW_SIZE": "8"}
ADA = "ada.holm@pilots.example"


def message(number: int, sender: str, medium: str, content: str, **fields: Any) -> dict[str, Any]:
    at = f"2026-06-17T09:{number:02d}:00+02:00"
    return {"event_id": f"e{number}", "timestamp": at, "sender_id": sender, "medium": medium, "content": content} | fields


EVENTS = [
    message(1, "user", "chat", "The archive closes at 18:00 on Fridays."),
    message(2, ADA, "email", "Hi, this is Ada Holm. I work as a harbour pilot. Please never call me before 9."),
    message(3, "user", "chat", "Please send Ada the contract by Friday."),
    message(4, "user", "chat", "Mara Lind leads the tide survey."),
    message(5, "user", "chat", " "),
    message(6, "user", "chat", "Tom Berger now leads the tide survey."),
    message(7, "+494515550990", "call", "Harbour office, good morning."),
    message(8, "user", "chat", "港口的会议改到星期五。"),
    message(9, "user", "chat", "Thank you, that is all for today."),
    message(10, "user", "chat", "The contract is sent to Ada."),
]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Beside a running `afterturn dev` whose log holds the events, all of them consolidated."""
    folder = tmp_path_factory.mktemp("events") / "data"
    file = folder.parent / "week.jsonl"
    file.write_text("".join(json.dumps(event, ensure_ascii=False) + "\n" for event in [*EVENTS, EVENTS[0]]), "utf-8")
    with running("dev", data_dir=folder, env=ENV, until="ready"):
        shell = Shell(folder)
        try:
            recorded = shell.ask("events", "record", str(file))
            counts = {name: recorded[name] for name in ("recorded", "duplicates", "dropped")}
            assert counts == {"recorded": 9, "duplicates": 1, "dropped": 1}
            assert shell.ask("window", "flush", "--wait", "120")["waiting"] == 0
            yield shell
        finally:
            shell.close()


# ----------------------------------------------------------------------------------------------------------------- windows


def test_all_events_are_in_one_window_each_and_the_rest_was_flushed(shell: Shell) -> None:
    windows = sorted(shell.ask("window", "list"), key=lambda one: one["first_seq"])
    assert [(one["first_seq"], one["last_seq"], one["trigger"], one["state"]) for one in windows] == [
        (1, 8, "size", "done"),
        (9, 9, "flush", "done"),
    ]
    status = shell.ask("window", "status")
    assert status["waiting"] == 0
    assert status["size"] == 8
    assert status["progress"]["consolidated_seq"] == 9


def test_a_window_is_shown_with_its_transcript_its_items_and_their_quotes(shell: Shell) -> None:
    done = shell.run("window", "show", "w1")
    assert done.code == 0, done.err
    assert re.search(
        r"^\[1\] 2026-06-17 07:01 UTC \| .*\| chat \| The archive closes at 18:00 on Fridays\.$", done.out, re.MULTILINE
    )
    for line in ("  + The archive closes at 18:00 on Fridays. (fact)", "      “The archive closes at 18:00 on Fridays.” [1]"):
        assert line in done.out.splitlines(), done.out
    assert shell.ask("window", "show", "w1")["extraction"]["window_id"] == "w1"


def test_what_there_is_not_is_said_in_one_line(shell: Shell) -> None:
    wrong = [
        ["window", "show", "w77"],
        ["window", "rerun", "w999"],
        ["window", "rerun", "w1", "w999"],
        ["window", "flush", "--user", "mee"],
        ["rerun", "t999", "--user", "me"],
        ["profile", "show", "--version", "99"],
        ["tasks", "list", "--contact", "999"],
        ["events", "search", "harbour", "--contact", "999"],
        ["facts", "list", "--after", "nonsense"],
        ["facts", "show", "nonsense"],
        ["contacts", "show", "nobody@nowhere.example"],
        ["facts", "search", " "],
        ["facts", "list", "--status", "old"],
        ["facts", "search", "x", "--as-of", "yesterday"],
        ["contacts", "update", "1", "shoe_size=43"],
        ["contacts", "list", "nonsense"],
        ["window", "list", "--state", "lost"],
        ["usage", "--user", "me"],
        ["reindex", "--kind", "poems", "--yes"],
        ["events", "record", "nowhere.jsonl"],
    ]
    for line, said in zip(
        wrong,
        (
            "there is no window 'w77'",
            "there is no window 'w999' of this user",
            "there is no window 'w999' of this user",
            "no event was ever recorded of the user 'mee' of 'demo'",
            "there is no turn 't999' of this user",
            "there is no version 99 of the profile",
            "there is no contact 999 of this user",
            "there is no contact 999 of this user",
            "cannot go on after an id that is not in it",
            "there is no fact 'nonsense' of this user",
            "there is no contact 'nobody@nowhere.example'",
            "the query is empty",
            "'old' is no status; there are active, superseded, invalidated",
            "--as-of is not a date or time of ISO 8601",
            "has no field 'shoe_size'",
            "'nonsense' is not of the form name=value",
            "'lost' is no state of a window; there are planned, done, partial, failed, skipped",
            "add --tenant",
            "'poems'",
            "nowhere.jsonl: there is no such file",
        ),
        strict=True,
    ):
        done = shell.run(*line)
        assert done.code == 2, (done, said)
        assert said in done.complaint


def test_a_done_window_is_run_again_when_asked_and_writes_nothing_twice(shell: Shell) -> None:
    facts, tasks = shell.ask("facts", "list"), shell.ask("tasks", "list")
    again = shell.ask("window", "rerun", "w1")
    assert [(one["window_id"], one["attempt"]) for one in again["windows"]] == [("w1", 1)]
    assert shell.run("window", "flush", "--wait", "60").code == 0
    assert {fact["fact_id"] for fact in shell.ask("facts", "list")} == {fact["fact_id"] for fact in facts}
    assert shell.ask("tasks", "list") == tasks, "a task that is done is not made anew"
    done = shell.run("window", "rerun")
    assert (done.code, done.out) == (0, "no window to run again\n")


def test_a_window_that_is_asked_for_and_does_not_run_again_is_named(shell: Shell) -> None:
    left = shell.run("window", "rerun", "w9", "--state", "failed")
    assert (left.code, left.out) == (1, "")
    assert left.complaint == "afterturn: w9 is done and stays so"


def test_what_a_filter_does_not_find_is_said_with_the_filter(shell: Shell) -> None:
    done = shell.run("usage", "--tenant", "demo", "--user", "mee")
    assert (done.code, done.out) == (0, "no model call of the user 'mee' of 'demo' yet\n")


# ------------------------------------------------------------------------------------------------------------------- facts


def test_a_fact_is_found_shown_with_its_source_and_as_of_a_time(shell: Shell) -> None:
    found = shell.ask("facts", "search", "when does the archive close?", "--sources")
    fact = found[0]["fact"]
    assert fact["statement"] == "The archive closes at 18:00 on Fridays."
    assert fact["sources"][0]["event_id"] == "e1"
    shown = shell.run("facts", "show", fact["fact_id"])
    assert "- event e1 (window:w1, 2026-06-17 07:01): “The archive closes at 18:00 on Fridays.”" in shown.out.splitlines()
    assert shell.ask("facts", "list", "--as-of", "2026-01-01") == []


def test_the_history_shows_what_took_the_place_of_what(shell: Shell) -> None:
    (now,) = [one["fact"] for one in shell.ask("facts", "search", "tide survey", "-n", "1")]
    assert now["statement"] == "Tom Berger now leads the tide survey."
    statements = [fact["statement"] for fact in shell.ask("facts", "history", now["fact_id"])]
    assert statements[-1] == now["statement"]


def test_chinese_is_found_by_chinese(shell: Shell) -> None:
    assert shell.ask("events", "search", "会议")[0]["event"]["event"]["event_id"] == "e8"


def test_a_fact_is_forgotten_for_good(shell: Shell) -> None:
    (fact,) = [one["fact"] for one in shell.ask("facts", "search", "会议", "-n", "1")]
    assert shell.ask("facts", "forget", fact["fact_id"], "--yes") == {"asked": 1, "removed": 1}
    assert fact["fact_id"] not in {one["fact_id"] for one in shell.ask("facts", "list")}
    left = shell.run("facts", "forget", fact["fact_id"])
    assert left.code == 130, "without an answer nothing is removed"
    gone = shell.run("facts", "forget", fact["fact_id"], "--yes")
    assert (gone.code, gone.out) == (1, "0 of 1 facts removed\n")
    assert gone.complaint == "afterturn: 1 of the ids are not of facts of the user"


# ------------------------------------------------------------------------------------------- contacts, tasks, events, usage


def test_contacts_are_listed_shown_changed_and_merged(shell: Shell) -> None:
    everybody = shell.ask("contacts", "list")
    assert [one["contact_id"] for one in everybody][:2] == [0, 1]
    (ada,) = shell.ask("contacts", "list", "surname=Holm")
    assert ada["bio"] == "Ada works as a harbour pilot."
    assert shell.ask("contacts", "search", "harbour pilot")[0]["contact"]["contact_id"] == ada["contact_id"]
    changed = shell.ask("contacts", "update", ADA, "timezone=Europe/Berlin", "should_respond=false")
    assert (changed["timezone"], changed["should_respond"]) == ("Europe/Berlin", False)
    shown = shell.ask("contacts", "show", ADA)
    assert ["timezone", None, "Europe/Berlin"] in [[one["field"], one["before"], one["after"]] for one in shown["history"]]
    office = shell.ask("contacts", "show", "+494515550990")["contact"]
    assert office["first_name"] is None, "an organisation keeps no name"
    merged = shell.ask("contacts", "merge", ADA, "+494515550990", "--yes")
    assert (merged["contact_id"], merged["phone_number"]) == (ada["contact_id"], "+494515550990")
    refused = shell.run("contacts", "merge", ADA, "1", "--yes")
    assert "never merged away" in refused.complaint


def test_a_task_is_done_when_it_was_said_so(shell: Shell) -> None:
    (task,) = shell.ask("tasks", "list")
    assert task["name"].startswith("Send Ada the contract")
    assert task["status"] == "done"
    assert [source["event_id"] for source in task["sources"]] == ["e3", "e10"]
    assert shell.ask("tasks", "list", "--status", "open") == []


def test_messages_are_found_by_medium_and_contact_with_what_was_said_around(shell: Shell) -> None:
    found = shell.ask("events", "search", "contract", "--around", "1", "-n", "1")
    assert found[0]["before"]
    assert {one["event"]["event"]["medium"] for one in shell.ask("events", "search", "harbour", "--medium", "call")} == {"call"}
    nobody = shell.run("events", "search", "harbour", "--contact", "nobody")
    assert nobody.out == "no message found\n"


def test_recording_says_what_became_of_the_events_and_where_to_look(shell: Shell) -> None:
    done = shell.run("events", "record", str(shell.data_dir.parent / "week.jsonl"), "--flush", "--user", "late")
    assert done.code == 0, done
    assert done.out.startswith("9 recorded, 1 were there already, 1 dropped (no content, or calls of the memory itself), ")
    assert done.out.endswith(" are being consolidated\n")
    assert "afterturn window status -u late" in done.err
    assert shell.ask("window", "flush", "--wait", "120", "--user", "late")["waiting"] == 0


def test_usage_is_told_by_stage(shell: Shell) -> None:
    report = shell.ask("usage", "--tenant", "demo", "--user", "me")
    assert {row["stage"] for row in report["rows"]} == {"extract"}
    assert report["total"]["input_tokens"] > 0


def test_the_index_can_be_built_anew(shell: Shell) -> None:
    counts = shell.ask("reindex", "--yes")
    assert counts["events"] in (9, 18)  # of one user, and of the one that a test above records
    assert counts["facts"] > 0
    assert shell.ask("facts", "search", "archive")[0]["fact"]["statement"].startswith("The archive")


def test_windows_of_all_users_say_whose_they_are(shell: Shell) -> None:
    head, *rows = shell.run("window", "list", "--all-users").out.splitlines()
    assert head.split("\t")[:3] == ["company", "user", "window"]
    assert {tuple(row.split("\t")[:2]) for row in rows} == {("demo", "late"), ("demo", "me")}


def test_contacts_and_tasks_are_corrected_and_forgotten_one_by_one(shell: Shell) -> None:
    late = ("--user", "late")
    (task,) = shell.ask("tasks", "list", *late)
    values = ["name=Send Ada the papers", "status=open", "tags=legal,today", "deadline=2026-07-01T09:00+02:00", "contact_id="]
    changed = shell.ask("tasks", "change", task["task_id"], *values, *late)
    assert (changed["name"], changed["status"], changed["tags"]) == ("Send Ada the papers", "open", ["legal", "today"])
    assert (changed["deadline"], changed["contact_id"]) == ("2026-07-01T07:00:00Z", None)
    assert [source["event_id"] for source in changed["sources"]] == ["e3", "e10"]
    for wrong in ("status=never", "deadline=soon", "colour=red", "name=", "contact_id=999"):
        assert shell.run("tasks", "change", task["task_id"], wrong, *late).complaint
    assert shell.ask("tasks", "forget", task["task_id"], "--yes", *late) == {"asked": 1, "removed": 1}
    assert shell.run("tasks", "forget", task["task_id"], "--yes", *late).code == 1
    assert shell.ask("tasks", "list", *late) == []

    shown = shell.ask("contacts", "show", ADA, *late)
    assert shown["sources"][0]["quote"]
    assert shell.ask("contacts", "forget", ADA, ADA, "--yes", *late) == {"asked": 1, "removed": 1}
    assert "there is no contact" in shell.run("contacts", "show", ADA, *late).complaint
    assert "are always there" in shell.run("contacts", "forget", "1", "--yes", *late).complaint
    assert shell.ask("contacts", "show", ADA)["contact"]["surname"] == "Holm"


def test_everything_is_exported_into_one_file_for_its_owner_only(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "mine.zip"
    report = shell.ask("export", str(target))
    assert (report["file"], report["bytes"]) == (str(target), target.stat().st_size)
    assert report["items"]["facts"] >= len(shell.ask("facts", "list"))
    assert report["items"]["events"] > 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with zipfile.ZipFile(target) as archive:
        assert "harbour pilot" in archive.read("contacts.md").decode()
    before = target.read_bytes()
    assert "is there already" in shell.run("export", str(target)).complaint
    assert target.read_bytes() == before
    assert shell.run("export", str(target), "--force", "--user", "nobody").out.startswith(f"{target}: 2 contacts")
    assert [one.name for one in tmp_path.iterdir()] == ["mine.zip"]
    assert "there is no folder" in shell.run("export", str(tmp_path / "no" / "x.zip")).complaint


def test_another_user_sees_nothing_of_it(shell: Shell) -> None:
    for line in (
        ["facts", "list"],
        ["tasks", "list"],
        ["window", "list"],
        ["events", "search", "archive"],
        ["facts", "search", "archive"],
    ):
        assert shell.ask(*line, "--user", "somebody-else") == []


# ----------------------------------------------------------------------------------------------------------------- sandbox


def test_the_sandbox_shows_what_was_taken_in_which_words(shell: Shell) -> None:
    script = [
        "/help",
        "The lock gate closes at 22:00.",
        "/as lena@lock.example email",
        "Hi, this is Lena Vogt. I work as a lock keeper.",
        "/as user chat",
        "/call TaskManager.update water the plants",
        "/call MemoryManager.recall anything",
        "Please send Lena the plan by Friday.",
        "/nope",
        "/as",
        "/run",
        "/run",
        "/facts lock gate",
        "/contacts",
        "/tasks",
        "/search plan",
        "/window",
        "/reset",
        "/facts",
        "/quit",
    ]
    done = afterturn("events", "sandbox", data_dir=shell.data_dir, stdin="\n".join(script).encode(), within_s=120)
    assert done.code == 0, done.err
    out = done.out
    assert "0/8 user → assistant, chat> /help" in out
    assert "1/8 user → assistant, chat> /as lena@lock.example email" in out
    assert "dropped: calls of the memory itself never enter the window" in out
    assert "4/8 user → assistant, chat> /nope\nthere is no command /nope; /help lists them" in out
    assert "/as WHO [MEDIUM], for instance /as anna email" in out
    assert re.search(r"^window w1: 4 events, done, .*knowledge 1, tasks 1$", out, re.MULTILINE), out
    assert "    + The lock gate closes at 22:00. (fact)\n        “The lock gate closes at 22:00.” [1]" in out
    assert "nothing waits in the window" in out
    assert re.search(r"^  \d+: Lena Vogt  lena@lock\.example$", out, re.MULTILINE)
    assert "bio: Lena works as a lock keeper." in out
    assert re.search(r"^  Send Lena the plan by Friday \(open, by ", out, re.MULTILINE)
    assert "[4] user, chat: Please send Lena the plan by Friday." in out
    assert out.rstrip().endswith("/quit")
    assert "no fact yet" in out.split("anew, as ")[1]


def test_a_full_window_runs_by_itself_in_the_sandbox(shell: Shell) -> None:
    script = [f"Shelf {number} is reserved for maps of {number}." for number in range(1, 9)]
    done = afterturn("events", "sandbox", data_dir=shell.data_dir, stdin="\n".join(script).encode(), within_s=120)
    assert done.code == 0, done.err
    assert "the window is full (8/8): it is consolidated" in done.out
    assert re.search(r"^window w1: 8 events, done", done.out, re.MULTILINE)
    assert done.out.rstrip().endswith("0/8 user → assistant, chat>")


# ---------------------------------------------------------------------------------------------------------------- forgetting


def test_a_user_is_forgotten_after_a_typed_confirmation(shell: Shell) -> None:
    file = shell.data_dir.parent / "gone.jsonl"
    file.write_text(json.dumps(message(1, "user", "chat", "My locker has the number 4711.")) + "\n", "utf-8")
    whose = ("--tenant", "demo", "--user", "gone soon")
    assert shell.ask("events", "record", str(file), *whose)["recorded"] == 1
    wrong = afterturn("forget", *whose, data_dir=shell.data_dir, stdin=b"gone\n")
    assert wrong.code == 2
    assert "that is not the user's id, so nothing was done" in wrong.err
    assert afterturn("forget", *whose, data_dir=shell.data_dir, stdin=b"").code == 130

    done = afterturn("forget", *whose, "--wait", "0", data_dir=shell.data_dir, stdin=b"gone soon\n")
    assert done.code == 0, done.err
    erasure = re.search(r"^ ?erasure: +(\S+)$", done.out, re.MULTILINE)
    assert erasure is not None, done.out
    assert f"`afterturn forget --tenant demo --status {erasure[1]}` shows how far it is" in done.out
    assert "(skipped): all of the user's memory is being deleted" in shell.run("events", "record", str(file), *whose).complaint

    again = shell.ask("forget", *whose, "--yes", "--wait", "0", "--json")
    assert again["erasure_id"] == erasure[1]

    deadline = time.monotonic() + 60
    while (shown := shell.ask("forget", "--tenant", "demo", "--status", erasure[1]))["state"] == "running":
        assert time.monotonic() < deadline, shown
    assert shown["counts"]["rows.events"] == 1
    assert shown["requested_by"] == "command line"
    shown_to_people = shell.run("forget", "--status", erasure[1])
    assert re.search(r"^rows\.events\s+1$", shown_to_people.out, re.MULTILINE), shown_to_people.out
    unknown = shell.run("forget", "--status", "nothing")
    assert unknown.code == 2
    assert "there is no erasure 'nothing' of this company" in unknown.complaint
