"""`afterturn dev` and the commands that work with it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.e2e.command import Done, afterturn, children, command, running, stop
from tests.support.waiting import until

TALK = json.dumps(
    {
        "format": "afterturn-conversation/1",
        "title": "Two facts",
        "user": "ada",
        "turns": [
            {"at": "2026-06-17T09:00:00Z", "user": "I live in Lisbon.", "assistant": "Nice.", "expect": "update"},
            {"at": "2026-06-17T09:01:00Z", "user": "I prefer short answers.", "assistant": "Fine.", "expect": "update"},
        ],
    }
).encode()


class Dev:
    """A running `afterturn dev` and the commands beside it."""

    def __init__(self, process: subprocess.Popen[str], data_dir: Path) -> None:
        self.process = process
        self.data_dir = data_dir

    def __call__(self, *args: str, stdin: bytes = b"") -> Done:
        return afterturn(*args, data_dir=self.data_dir, stdin=stdin)

    def ok(self, *args: str, stdin: bytes = b"") -> Done:
        done = self(*args, stdin=stdin)
        assert done.code == 0, done
        return done

    def each(self, *lines: str) -> list[Done]:
        """Several commands one after the other, words apart by blanks."""
        return [afterturn(*line.split(), data_dir=self.data_dir) for line in lines]

    def each_ok(self, *lines: str) -> list[Done]:
        results = self.each(*lines)
        for line, done in zip(lines, results, strict=True):
            assert done.code == 0, (line, done)
        return results

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.data_dir / "dev.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    data_dir = tmp_path_factory.mktemp("dev") / "data"
    with running("dev", data_dir=data_dir, until="ready") as process:
        yield Dev(process, data_dir)


@pytest.fixture(scope="module")
def taught(dev: Dev) -> str:
    """A user with two versions of a profile: the demo, played on the running servers."""
    done = dev.ok("demo", "-", "--json", stdin=TALK)
    report = done.json
    assert report["summary"]["updated"] == 2
    assert report["user"].startswith("ada-"), "a demo beside dev takes a user of its own"
    return report["user"]


def test_its_record_is_private_and_leads_other_commands_to_it(dev: Dev) -> None:
    path = dev.data_dir / "dev.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    record = dev.record
    assert record["pid"] == dev.process.pid
    assert record["urls"]["web_ui"].startswith("http://127.0.0.1:")
    assert record["settings"]["object_store_secret_key"]
    assert record["settings"]["feature_flag"] is True
    assert [name for name in os.listdir(dev.data_dir) if name.startswith("dev.json.")] == []


def test_each_link_works_and_somebody_without_the_key_gets_nowhere(dev: Dev) -> None:
    urls = dev.record["urls"]
    with httpx2.Client(follow_redirects=True, timeout=60) as browser:
        for name, title in (("settings_page", "Context Memory"), ("admin_page", "Administration"), ("docs", "API"), ("web_ui", "")):
            page = browser.get(urls[name])
            assert page.status_code == 200, (name, page.text)
            assert title in page.text
            assert "key=" not in str(page.url)
        assert browser.get(f"{urls['api']}/v1/account").json()["user"] == "me"
        assert browser.get(f"{urls['api']}/readyz").json()["status"] == "ready"
        keys = browser.get(f"{urls['api']}/dev/issuer/jwks").json()
        assert browser.get(f"{urls['api']}/dev/issuer/.well-known/openid-configuration").json()["jwks_uri"].endswith("/jwks")
        assert "d" not in keys["keys"][0], "the private part stays where it is"
    with httpx2.Client(follow_redirects=True) as stranger:
        assert stranger.get(f"{urls['api']}/settings").status_code == 503
        assert stranger.post(f"{urls['api']}/dev/issuer/token", json={}).status_code == 401
        link = urls["settings_page"].replace(dev.record["api_key"], "x")
        assert stranger.get(link).status_code == 401


def test_dev_token_is_for_curl_and_for_browsers(dev: Dev) -> None:
    api = dev.record["urls"]["api"]
    token, service, link, wrong = dev.each(
        "dev-token --tenant acme --user grace",
        "dev-token --tenant acme --role service --json",
        "dev-token --tenant acme --user grace --role admin --link",
        "dev-token --role service --link",
    )
    with httpx2.Client(base_url=api) as http:
        account = http.get("/v1/account", headers={"Authorization": f"Bearer {token.out.strip()}"}).json()
        assert (account["tenant"], account["user"], account["roles"]) == ("acme", "grace", ["user"])
        told = service.json
        assert told["expires_in"] == 3600
        headers = {"Authorization": f"Bearer {told['access_token']}", "Afterturn-User": "grace"}
        assert http.get("/v1/preference", headers=headers).status_code == 200
        assert http.get(link.out.strip(), follow_redirects=True).status_code == 200
    assert wrong.code == 2
    assert "for people" in wrong.complaint


def test_the_secret_key_is_in_no_command_line(dev: Dev) -> None:
    secret = dev.record["settings"]["object_store_secret_key"]
    for pid in [dev.process.pid, *children(dev.process.pid)]:
        assert secret not in " ".join(psutil.Process(pid).cmdline())


def test_doctor_finds_all_well(dev: Dev) -> None:
    done = dev.ok("doctor", "--json")
    assert done.json["ok"]
    assert [check["name"] for check in done.json["checks"]] == [
        "settings",
        "temporal",
        "search attributes",
        "task queues",
        "sweep schedule",
        "reconcile schedule",
        "feature flag",
        "database",
        "object store",
        "vectors",
        "language model",
        "payload keys",
        "spool",
    ]


def test_migrate_tells_what_it_set_up(dev: Dev) -> None:
    as_json, plain, alone = dev.each_ok("migrate --temporal --json", "migrate --temporal", "migrate")
    assert (as_json.json["search_attributes_added"], as_json.json["schedule_created"]) == ([], False)
    assert plain.out.splitlines() == [
        f"the database is at schema {as_json.json['schema']}",
        "search attributes: all were there",
        "sweep schedule, every 60 s: was there and is brought up to date",
        "reconcile schedule, every 3600 s: was there and is brought up to date",
    ]
    assert alone.out == plain.out.splitlines(keepends=True)[0]


def test_a_second_one_on_the_same_folder_is_refused_and_harms_nothing(dev: Dev) -> None:
    done = dev("dev")
    assert done.code == 1
    assert f"process {dev.process.pid}" in done.complaint
    assert dev.record["pid"] == dev.process.pid
    assert dev.process.poll() is None


def test_profile_show_history_rollback(dev: Dev, taught: str) -> None:
    user = f"--user {taught}"
    as_json, plain, history, first, back, now = dev.each_ok(
        f"profile show {user} --json",
        f"profile show {user}",
        f"profile history {user} --json",
        f"profile show --version 1 {user}",
        f"profile rollback --to 1 {user}",
        f"profile show {user}",
    )
    shown = as_json.json
    assert (shown["exists"], shown["version"], shown["turn_count"]) == (True, 2, 2)
    assert plain.out.rstrip("\n") == shown["body"].rstrip("\n")
    assert [version["version"] for version in history.json] == [2, 1]
    assert "short" in plain.out
    assert "short" not in first.out
    assert "version 3" in back.out
    assert now.out == first.out
    missing = dev("profile", "rollback", "--to", "99", "--user", taught)
    assert missing.code == 1
    assert "not saved" in missing.complaint


def test_profile_edit_from_a_file_and_in_the_editor(dev: Dev, tmp_path: Path) -> None:
    body = tmp_path / "body.md"
    body.write_text("# User Memory\n\n## Identity\n- Name: Grace\n", "utf-8")
    saved, again = dev.each_ok(*[f"profile edit --user grace --file {body}"] * 2)
    assert "version 1" in saved.out
    assert "unchanged" in again.out

    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/Grace/Grace Hopper/" "$1"\n', "utf-8")
    editor.chmod(0o700)
    edited = afterturn("profile", "edit", "--user", "grace", data_dir=dev.data_dir, env={"EDITOR": str(editor)})
    assert edited.code == 0, edited
    assert "- Name: Grace Hopper" in dev.ok("profile", "show", "--user", "grace").out


def test_ctrl_c_is_for_the_editor_while_it_is_open(dev: Dev, tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nkill -INT $PPID\nprintf "## Identity\\n- Name: Vim\\n" > "$1"\n', "utf-8")
    editor.chmod(0o700)
    done = afterturn("profile", "edit", "--user", "vim", data_dir=dev.data_dir, env={"EDITOR": str(editor)})
    assert (done.code, done.out) == (0, "saved as version 1\n"), done

    editor.write_text("#!/bin/sh\nkill -INT $$\n", "utf-8")
    env = {"EDITOR": str(editor), "TMPDIR": str(tmp_path)}
    done = afterturn("profile", "edit", "--user", "vim", data_dir=dev.data_dir, env=env)
    assert done.code == 2
    assert "the editor ended by SIGINT; nothing was changed" in done.complaint
    kept = next(tmp_path.glob("afterturn-profile-*.md"))
    assert str(kept) in done.complaint
    assert "- Name: Vim" in kept.read_text("utf-8")


def test_an_edit_that_meets_another_one_loses_nothing(dev: Dev, tmp_path: Path) -> None:
    """While the editor is open, somebody else saves: both versions are shown, the text stays in a file."""
    other = tmp_path / "other.md"
    other.write_text("## Identity\n- Name: Other\n", "utf-8")
    saving = " ".join(command("profile", "edit", "--user", "linus", "--file", str(other)))
    editor = tmp_path / "editor.sh"
    editor.write_text(f'#!/bin/sh\n{saving} >/dev/null || exit 3\nprintf "## Identity\\n- Name: Mine\\n" > "$1"\n', "utf-8")
    editor.chmod(0o700)
    env = {"VISUAL": str(editor), "TMPDIR": str(tmp_path)}
    done = afterturn("profile", "edit", "--user", "linus", data_dir=dev.data_dir, env=env)
    assert done.code == 1, done
    assert "nothing was overwritten" in done.err
    assert "-- Name: Other" in done.err
    assert "+- Name: Mine" in done.err
    assert done.err.splitlines()[-1].startswith("afterturn: not saved")
    kept = next(tmp_path.glob("afterturn-profile-*.md"))
    assert str(kept) in done.err
    assert "Mine" in kept.read_text("utf-8")
    assert "- Name: Other" in dev.ok("profile", "show", "--user", "linus").out


def test_a_user_without_a_profile(dev: Dev) -> None:
    as_json, plain, history = dev.each_ok(
        "profile show --user nobody --json", "profile show --user nobody", "profile history --user nobody --json"
    )
    assert as_json.json["exists"] is False
    assert plain.out == ""
    assert "no profile yet" in plain.err
    assert history.json == []


def test_status_runs_rerun_spool(dev: Dev, taught: str) -> None:
    user = f"--user {taught}"
    status, runs, rerun, spool, drain = dev.each_ok(
        f"status {user} --json", f"runs {user} --json", f"rerun {user}", "spool status --json", "spool drain --json"
    )
    assert status.json["enablement"]["active"] is True
    assert status.json["pending_turns"] == 0
    assert [turn["outcome"] for turn in status.json["recent"]] == ["updated", "updated"]
    assert {run["workflow_id"] for run in runs.json} == {f"post-answer/demo/{taught}"}
    assert "nothing to run again" in rerun.out
    assert spool.json["waiting_bytes"] == 0
    assert drain.json["recorded"] == 0


def test_settings_of_a_space_and_why_memory_is_off(dev: Dev) -> None:
    _, stored, off, _, on, deny, denied, _, allowed = dev.each_ok(
        "space set quiet context_memory=false max_tokens=800",
        "space show quiet --json",
        "enablement --space quiet --json",
        "space set quiet context_memory=",
        "enablement --space quiet",
        "preference deny --user shy --json",
        "enablement --user shy",
        "preference allow --user shy",
        "enablement --user shy",
    )
    assert stored.json["settings"]["max_tokens"] == 800
    named, written, _, cleared = dev.each_ok(
        "space set event memory_categories=knowledge,tasks,-bios",
        'space set event memory_categories={"tasks":true}',
        "space set event memory_categories=",
        "space show event --json",
    )
    assert "memory_categories\tknowledge,tasks,-bios\n" in named.out
    assert "memory_categories\ttasks\n" in written.out
    assert cleared.json["settings"]["memory_categories"] == {}
    assert [reason["code"] for reason in off.json["reasons"]] == ["space_off"]
    assert "memory is on" in on.out
    assert deny.json == {"tenant": "demo", "user": "shy", "allowed": False}
    assert "opted out" in denied.out
    assert "memory is on" in allowed.out


def test_two_roots_clash_until_one_is_removed(dev: Dev) -> None:
    company = "--tenant two-roots"
    _, _, listed, off, unknown, removed, on, renamed, roots = dev.each(
        f"space set a root_folder=one {company}",
        f"space set b root_folder=two {company}",
        f"roots list {company}",
        f"enablement {company}",
        f"roots remove three --yes {company}",
        f"roots remove two --yes --json {company}",
        f"enablement {company}",
        f"roots rename one main --json {company}",
        f"roots list --json {company}",
    )
    assert "one and two clash" in listed.out
    assert "root_clash" in off.out
    assert unknown.code == 2
    assert removed.json == {"folder": "two", "active": False}
    assert renamed.json == {"folder": "main", "active": True, "active_roots": ["main"]}
    assert "memory is on" in on.out
    assert [root["folder"] for root in roots.json if root["active"]] == ["main"]


def test_a_clash_ends_when_the_duplicate_gets_a_new_name_and_the_last_root_stays_with_its_profiles(dev: Dev) -> None:
    company = "--tenant renaming"
    dev.ok("profile", "edit", "--file", "-", *company.split(), "--user", "ann", stdin=b"## Identity\n- Ann\n")
    _, renamed, on, refused, kept, roots, shown = dev.each(
        f"space set b root_folder=two {company}",
        f"roots rename two spare {company}",
        f"enablement {company}",
        f"roots rename user-memory main {company}",
        f"roots remove user-memory --yes {company}",
        f"roots list --json {company}",
        f"profile show --user ann {company}",
    )
    assert renamed.out.splitlines() == [
        "two is now spare and set aside",
        "profiles under two/ stay where they are and are not used; active: user-memory",
    ]
    assert "memory is on" in on.out
    for done in (refused, kept):
        assert (done.code, "its profiles would no longer be found" in done.complaint) == (2, True), done
    assert {root["folder"]: root["active"] for root in roots.json} == {"spare": False, "user-memory": True}
    assert "Ann" in shown.out


def test_chat_shows_what_is_injected_and_what_changed(dev: Dev) -> None:
    said = "I live in Oslo.\n/profile\nWhat is 2 + 2?\n/history\nI prefer short answers.\n/undo\n/nonsense\n/quit\n"
    done = dev.ok("chat", "--user", "chatty", stdin=said.encode())
    assert "nothing injected" in done.out
    assert "+- Lives in Oslo" in done.out
    assert "injected into the system prompt:" in done.out
    assert "What I know about you" in done.out
    assert "(simulated)" in done.out
    assert "memory: noop" in done.out
    assert "profile v3" in done.out
    assert "there is no command /nonsense" in done.out
    assert "short" not in dev.ok("profile", "show", "--user", "chatty").out


async def test_an_engine_that_dies_is_started_again(dev: Dev, taught: str) -> None:
    def servers() -> set[int]:
        return {pid for pid in children(dev.process.pid) if "weed" in psutil.Process(pid).name()}

    before = servers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: servers() - before, what="another S3 server")
    await until(lambda: dev("profile", "show", "--user", taught).code == 0, what="the profile to be readable again")
    # Its reads come back before its writes: the volume has to be known to the new server again.
    await until(lambda: dev("doctor").code == 0, what="the doctor to find everything well again")


async def test_ctrl_c_stops_everything_and_the_data_stays(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running("dev", data_dir=data_dir, until="ready") as process:
        first = Dev(process, data_dir)
        first.ok("profile", "edit", "--user", "ada", "--file", "-", stdin=b"## Identity\n- Name: Ada\n")
        below = children(process.pid)
        ports = first.record["temporal_address"], first.record["settings"]["object_store_endpoint"]
        # Wrappers often pass a signal on twice: the second one must not cut the shutdown short.
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert stop(process, signal.SIGINT) == 0
        await until(lambda: not [pid for pid in below if psutil.pid_exists(pid)], what="the servers to end")
    assert not (data_dir / "dev.json").exists()
    assert first("profile", "show", "--user", "ada").code == 1

    with running("dev", data_dir=data_dir, until="ready") as process:
        second = Dev(process, data_dir)
        assert "- Name: Ada" in second.ok("profile", "show", "--user", "ada").out
        assert (second.record["temporal_address"], second.record["settings"]["object_store_endpoint"]) == ports
        below = children(process.pid)
        # A killed dev takes its servers with it, and the next one is not fooled by what it left.
        process.kill()
        process.wait()
        await until(lambda: not [pid for pid in below if psutil.pid_exists(pid)], what="the servers to end")
    assert (data_dir / "dev.json").exists()
    assert "no `afterturn dev` runs" in afterturn("profile", "show", data_dir=data_dir).complaint


def test_settings_in_the_environment_that_are_wrong_start_nothing(tmp_path: Path) -> None:
    done = afterturn("dev", data_dir=tmp_path / "data", env={"AFTERTURN_SIMULATED_FAULTS": "nonsense=1"})
    assert done.code != 0
    assert "nonsense" in done.complaint
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or [])]
