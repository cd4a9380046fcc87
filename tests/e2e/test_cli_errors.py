"""Bad input, bad settings, unreachable servers: one clear line, an exit code that is not 0, nothing half done."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.command import afterturn

FAILED = 1
USAGE = 2
TALK = {"format": "afterturn-conversation/1", "title": "t", "turns": [{"at": "2026-01-01T00:00:00Z", "user": "hi"}]}


def nobody_listens() -> str:
    """An address of this machine at which nothing answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def all_away() -> dict[str, str]:
    return {
        "TEMPORAL_ADDRESS": nobody_listens(),
        "AFTERTURN_OBJECT_STORE_ENDPOINT": nobody_listens(),
        "AFTERTURN_OBJECT_STORE_ACCESS_KEY": "key",
        "AFTERTURN_OBJECT_STORE_SECRET_KEY": "secret",
    }


@dataclass(frozen=True)
class Case:
    name: str
    args: tuple[str, ...]
    code: int
    says: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict[str, str])
    stdin: bytes = b""


CASES = [
    Case("unknown command", ("dmeo",), USAGE, ("dmeo",)),
    Case("unknown option", ("demo", "--kep"), USAGE, ("--kep",)),
    Case("missing option", ("profile", "rollback"), USAGE, ("--to",)),
    Case("bad number", ("profile", "rollback", "--to", "0"), USAGE, ("--to",)),
    Case("no such conversation", ("demo", "enginer"), USAGE, ("enginer", "did you mean engineer?")),
    Case("no such file", ("demo", "./talk.json"), USAGE, ("./talk.json", "no such file")),
    Case("a folder", ("demo", "/tmp"), USAGE, ("/tmp", "is a folder")),
    Case("not json", ("demo", "-"), USAGE, ("standard input", "is not JSON", "line 1"), stdin=b"{nope"),
    Case("not utf-8", ("demo", "-"), USAGE, ("standard input", "is not UTF-8"), stdin=b"\xff\xfe"),
    Case("empty input", ("demo", "-"), USAGE, ("standard input", "is empty")),
    Case(
        "bad turn",
        ("demo", "-"),
        USAGE,
        ("standard input: turn 1 (id x): 'at'",),
        stdin=json.dumps({**TALK, "turns": [{"id": "x", "at": "noon"}]}).encode(),
    ),
    Case("unknown model", ("demo", "--model", "acme:large"), USAGE, ("acme", "openai", "anthropic", "simulated")),
    Case("model without key", ("demo", "--model", "openai:gpt-4.1"), USAGE, ("OPENAI_API_KEY",)),
    Case(
        "unknown model in the settings",
        ("demo",),
        USAGE,
        ("acme",),
        env={"AFTERTURN_LANGUAGE_MODEL": "acme:large"},
    ),
    Case(
        "unknown setting",
        ("demo",),
        FAILED,
        ("AFTERTURN_LOAD_BUDGET", "AFTERTURN_LOAD_BUDGET_MS"),
        env={"AFTERTURN_LOAD_BUDGET": "1"},
    ),
    Case("bad setting", ("dev",), FAILED, ("AFTERTURN_LOAD_BUDGET_MS",), env={"AFTERTURN_LOAD_BUDGET_MS": "soon"}),
    Case(
        "bad metrics address",
        ("worker",),
        FAILED,
        ("AFTERTURN_METRICS_ADDRESS: must be",),
        env={"AFTERTURN_METRICS_ADDRESS": "9464"},
    ),
    Case(
        "metrics of a host that is not there",
        ("worker",),
        FAILED,
        ("AFTERTURN_METRICS_ADDRESS", "nowhere.invalid:9464 is not known"),
        env={"AFTERTURN_METRICS_ADDRESS": "nowhere.invalid:9464"},
    ),
    Case("bad database url", ("migrate",), FAILED, ("AFTERTURN_DATABASE_URL",), env={"AFTERTURN_DATABASE_URL": "mysql://x"}),
    Case("no database yet", ("space", "show"), FAILED, ("afterturn migrate",)),
    Case("bad space setting", ("space", "set", "default", "max_token=5"), USAGE, ("max_token", "did you mean max_tokens?")),
    Case("bad space value", ("space", "set", "default", "max_tokens=5"), USAGE, ("max_tokens", "500")),
    Case("no category", ("space", "set", "default", "memory_categories=task"), USAGE, ("no category 'task'", "tasks")),
    Case("no JSON", ("space", "set", "default", "memory_categories={"), USAGE, ("memory_categories", "no JSON")),
    Case("not a pair", ("space", "set", "default", "max_tokens"), USAGE, ("max_tokens", "name=value")),
    Case("empty user", ("profile", "show", "--user", ""), USAGE, ("user id", "empty")),
    Case("no dev and no servers", ("profile", "show"), FAILED, ("`afterturn dev`", "AFTERTURN_OBJECT_STORE_ENDPOINT")),
    Case("rerun of turns of nobody", ("rerun", "t1"), USAGE, ("--user",)),
    Case("no histories", ("replay", "nowhere"), USAGE, ("nowhere",)),
    Case("unknown outcome", ("runs", "--outcome", "lost"), USAGE, ("lost", "updated")),
    Case("body from nowhere", ("profile", "edit", "--file", "nowhere.md"), USAGE, ("nowhere.md", "cannot be read")),
    Case("body not utf-8", ("profile", "edit", "--file", "-"), USAGE, ("is not UTF-8", "nothing was changed"), stdin=b"\xff"),
    Case("body too large", ("profile", "edit", "--file", "-"), USAGE, ("1 MiB", "nothing was changed"), stdin=b"x" * 1_048_577),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_line_and_nothing_done(case: Case, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    done = afterturn(*case.args, data_dir=data_dir, env=case.env, stdin=case.stdin)
    assert done.code == case.code, done
    assert done.out == ""
    for part in case.says:
        assert part in done.complaint
    assert not data_dir.exists() or not list(data_dir.rglob("*.db")), "something was begun"


AWAY = [
    ("runs",),
    ("profile", "show"),
    ("profile", "history"),
    ("profile", "rollback", "--to", "1"),
    ("status",),
    ("rerun", "--user", "me"),
    ("worker",),
]


@pytest.mark.parametrize("args", AWAY, ids=" ".join)
def test_servers_away(args: tuple[str, ...], tmp_path: Path) -> None:
    done = afterturn(*args, data_dir=tmp_path / "data", env=all_away())
    assert done.code == FAILED, done
    assert "Traceback" not in done.err
    assert "unexpected" not in done.err
    if args != ("status",):  # which shows what it could find out
        assert done.complaint


@pytest.mark.parametrize("args", [("worker",), ("dev",)], ids=" ".join)
def test_an_address_for_metrics_that_is_taken_starts_nothing(args: tuple[str, ...], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        done = afterturn(*args, data_dir=tmp_path / "data", env={"AFTERTURN_METRICS_ADDRESS": address})
    assert done.code == FAILED, done
    assert done.complaint.startswith(f"afterturn: AFTERTURN_METRICS_ADDRESS: cannot listen at {address}: address already in use")


def test_doctor_says_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    done = afterturn("doctor", data_dir=tmp_path / "data", env=all_away())
    assert done.code == FAILED
    assert done.err == ""
    lines = {line[4:].split(":")[0]: line for line in done.out.splitlines()}
    assert lines["settings"].startswith("ok ")
    assert lines["language model"].startswith("ok ")
    for name in ("temporal", "task queues", "search attributes", "sweep schedule", "feature flag", "database", "object store"):
        assert lines[name].startswith("BAD "), name
        assert lines[name].count("→") == 1, name
    assert lines["database"].count("afterturn migrate") == 1
    assert "off for every company" in lines["feature flag"]
    assert "set FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033" in lines["feature flag"]
    assert lines["temporal"].count("set TEMPORAL_ADDRESS") == 1
    assert not (tmp_path / "data").exists()


def test_doctor_does_not_send_to_migrate_who_has_no_database_server(tmp_path: Path) -> None:
    env = {**all_away(), "AFTERTURN_DATABASE_URL": f"postgresql+psycopg://app:hidden@{nobody_listens()}/app"}
    done = afterturn("doctor", data_dir=tmp_path / "data", env=env)
    (line,) = (line for line in done.out.splitlines() if "database:" in line)
    assert "Connection refused → is the server running? Check AFTERTURN_DATABASE_URL" in line
    assert "migrate" not in line
    assert "hidden" not in done.out


@pytest.mark.parametrize(
    ("args", "address", "says"),
    [
        (("status",), None, "cannot be reached"),
        (("doctor",), None, "cannot be reached"),
        (("runs",), "nowhere.invalid:7233", "cannot be reached: the host is not known"),
    ],
)
def test_a_temporal_that_is_away_is_told_in_few_words(
    args: tuple[str, ...], address: str | None, says: str, tmp_path: Path
) -> None:
    address = address or nobody_listens()
    done = afterturn(*args, data_dir=tmp_path / "data", env={**all_away(), "TEMPORAL_ADDRESS": address})
    (line,) = (line for line in (done.out + done.err).splitlines() if f"Temporal at {address}" in line)
    assert f"Temporal at {address} {says}" in line
    assert "set TEMPORAL_ADDRESS" in line
    assert "tonic" not in done.out + done.err


def test_doctor_reports_a_bad_setting_like_everything_else(tmp_path: Path) -> None:
    done = afterturn("doctor", "--json", data_dir=tmp_path / "data", env={"AFTERTURN_LOG_LEVEL": "loud"})
    assert done.code == FAILED
    assert done.json["ok"] is False
    assert "AFTERTURN_LOG_LEVEL" in done.json["checks"][0]["detail"]


def test_migrate_logs_no_library_s_chatter(tmp_path: Path) -> None:
    done = afterturn("migrate", data_dir=tmp_path / "data", env={"AFTERTURN_LOG_LEVEL": "info"})
    assert (done.code, done.err) == (0, ""), done


def test_debug_shows_where(tmp_path: Path) -> None:
    done = afterturn("--debug", "space", "show", data_dir=tmp_path / "data")
    assert done.code == FAILED
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("afterturn: ")


def test_a_broken_record_of_dev_is_named(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "dev.json").write_text("{", "utf-8")
    done = afterturn("status", data_dir=data_dir)
    assert done.code == FAILED
    assert "dev.json" in done.complaint


def test_output_into_a_closed_pipe(tmp_path: Path) -> None:
    import os
    import subprocess

    from tests.e2e.command import command, environment

    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command("settings", "list"), cwd=tmp_path, env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)
    assert done.returncode == FAILED
    assert done.stderr == b""
