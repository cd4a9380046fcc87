"""Runs the real command in a process of its own, with nothing of this machine's settings."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command_server import CommandServer

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def last_line(self) -> str:
        return self.out.rstrip("\n").rsplit("\n", 1)[-1]

    @property
    def complaint(self) -> str:
        """The one line that a failed command leaves on standard error."""
        lines = self.err.splitlines()
        assert "Traceback" not in self.err, self.err
        assert len(lines) == 1, self.err
        assert lines[0].startswith("afterturn: "), self.err
        return lines[0]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {
        k: v for k, v in os.environ.items() if not k.upper().startswith(("AFTERTURN", "TEMPORAL", "OPENAI", "ANTHROPIC", "FEATURE"))
    }
    return {**kept, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "COLUMNS": "100", **(extra or {})}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "starter.cli", *args]


def afterturn(
    *args: str,
    data_dir: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    within_s: float = 60.0,
) -> Done:
    """Run a command to its end, in ``data_dir``'s parent folder."""
    with _idle_lock:
        server = _idle.pop() if _idle else CommandServer(ROOT, environment())
    code, out, err = server.run(
        args,
        cwd=data_dir.parent,
        env=environment({"AFTERTURN_DATA_DIR": str(data_dir), **(env or {})}),
        stdin=stdin,
        within_s=within_s,
    )
    with _idle_lock:
        _idle.append(server)
    return Done(code, out.decode(), err.decode())


_idle: list[CommandServer] = []
"""Those that run no command now; as many as commands ran at once."""
_idle_lock = threading.Lock()


@atexit.register
def _close_idle() -> None:
    for server in _idle:
        server.close()


@contextmanager
def running(
    *args: str, data_dir: Path, env: Mapping[str, str] | None = None, until: str, shown: list[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A command that runs until it is told to stop; the block begins when it has printed a line that begins with ``until``.

    ``shown``: takes the lines up to that one.
    """
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    log = data_dir.parent / "running.err"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command(*args),
            cwd=data_dir.parent,
            env=environment({"AFTERTURN_DATA_DIR": str(data_dir), **(env or {})}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )
    assert process.stdout is not None
    try:
        seen = [] if shown is None else shown
        for line in process.stdout:
            seen.append(line)
            if line.startswith(until):
                break
        else:
            raise AssertionError(f"ended with {process.wait()} before {until!r}:\n{''.join(seen)}\n{log.read_text('utf-8')}")
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()


def stop(process: subprocess.Popen[str], number: signal.Signals, within_s: float = 30.0) -> int:
    """Send a signal and wait for the end."""
    process.send_signal(number)
    return process.wait(within_s)


def children(pid: int) -> Sequence[int]:
    """Process ids below this one."""
    import psutil

    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


_SHELL = """
import contextlib, io, json, sys
from starter.cli import main
lines, sys.stdin = sys.stdin, io.StringIO()
for line in lines:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


class Shell:
    """Runs one command after the other in one process: most of the time that a command takes is Python's start."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SHELL],
            cwd=ROOT,
            env=environment({"AFTERTURN_DATA_DIR": str(data_dir)}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(self, *args: str) -> Done:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(args), file=self._process.stdin, flush=True)
        return Done(*json.loads(self._process.stdout.readline()))

    def ask(self, *args: str) -> Any:
        """The document that a command writes."""
        done = self.run(*args, "--json")
        assert done.code == 0, done.err
        return done.json

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        self._process.stdout.close()
