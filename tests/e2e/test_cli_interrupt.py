"""Ctrl-C, SIGTERM and the end of the input: every command ends, without a traceback, whatever it waits for."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.command import afterturn, command, environment

INTERRUPTED = 130
PIPE_BYTES = 64 * 1024


def begin(*args: str, data_dir: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(*args),
        cwd=data_dir.parent,
        env=environment({"AFTERTURN_DATA_DIR": str(data_dir), **(env or {})}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> tuple[int, str]:
    """Exit code, and all that it wrote. It has half a minute, which is less than what it waits for."""
    process.send_signal(number)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    return process.returncode, (out + err).decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_that_is_still_connecting_is_called_off(number: signal.Signals, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        stores = {"AFTERTURN_OBJECT_STORE_ACCESS_KEY": "k", "AFTERTURN_OBJECT_STORE_SECRET_KEY": "s"}
        process = begin("worker", data_dir=tmp_path / "data", env={"TEMPORAL_ADDRESS": address, **stores})
        connection, _ = silent.accept()
        with connection:
            code, said = end(process, number)
    assert code == 0, said
    assert len(said.splitlines()) == 1, said
    assert "worker_stopped" in said


@pytest.mark.parametrize("args", [("profile", "edit", "--file", "-"), ("demo", "-")], ids=" ".join)
def test_standard_input_that_does_not_end_can_be_left(args: tuple[str, ...], tmp_path: Path) -> None:
    process = begin(*args, data_dir=tmp_path / "data")
    assert process.stdin is not None
    process.stdin.write(b"x" * 2 * PIPE_BYTES)  # more than the pipe holds: when this returns, the command reads
    process.stdin.flush()
    assert end(process, signal.SIGINT) == (INTERRUPTED, "")


def test_a_question_that_nobody_answers_is_a_no(tmp_path: Path) -> None:
    done = afterturn("roots", "remove", "user-memory", data_dir=tmp_path / "data")
    assert done.code == INTERRUPTED
    assert done.err.splitlines()[-1] == "afterturn: not confirmed, so nothing was done; --yes does not ask"
    assert not (tmp_path / "data").exists()
