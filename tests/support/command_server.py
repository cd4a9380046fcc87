"""Commands in processes of their own, without an interpreter's start for each.

``python -m tests.support.command_server`` imports the product once and forks for every line of JSON on its standard input: the
arguments, the environment, the folder, and the files that the command's standard streams are. It answers with the process id at
once, and with the exit code at the end. A fork is a process of its own in every respect that matters here, and spares the seconds
of CPU that an interpreter with all imports costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

PRELOADED = (
    "starter.cli.app",
    "starter.client",
    "starter.temporal",
    "memory.stores.tables",
    "memory.stores.objects.minio",
    "rich.table",
)


def serve() -> None:
    import importlib

    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(job)
        _say(pid)
        _, status = os.waitpid(pid, 0)
        _say(os.waitstatus_to_exitcode(status))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def run(job: Mapping[str, Any]) -> NoReturn:
    code = 70
    try:
        for number, (name, flags) in enumerate(
            ((job["stdin"], os.O_RDONLY), (job["stdout"], os.O_WRONLY | os.O_APPEND), (job["stderr"], os.O_WRONLY | os.O_APPEND))
        ):
            opened = os.open(name, flags)
            os.dup2(opened, number)
            os.close(opened)
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])
        sys.stdin = os.fdopen(0, encoding="utf-8")
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
        from starter.cli import main

        sys.argv = ["afterturn", *job["args"]]
        code = main(job["args"])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter would
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class CommandServer:
    """One of them; runs one command after the other."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.command_server"],
            cwd=root,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes, within_s: float
    ) -> tuple[int, bytes, bytes]:
        """Exit code and what it wrote. Raises subprocess.TimeoutExpired; then the command was killed."""
        with tempfile.TemporaryDirectory() as folder:
            names = {stream: Path(folder) / stream for stream in ("stdin", "stdout", "stderr")}
            names["stdin"].write_bytes(stdin)
            names["stdout"].touch()
            names["stderr"].touch()
            job = {"args": list(args), "cwd": str(cwd), "env": dict(env), **{k: str(v) for k, v in names.items()}}
            assert self._process.stdin is not None
            print(json.dumps(job), file=self._process.stdin, flush=True)
            pid = int(self._line())
            late = threading.Event()

            def end() -> None:
                late.set()
                os.kill(pid, 9)

            timer = threading.Timer(within_s, end)
            timer.start()
            try:
                code = int(self._line())
            finally:
                timer.cancel()
            if late.is_set():
                raise subprocess.TimeoutExpired(["afterturn", *args[:2]], within_s)
            return code, names["stdout"].read_bytes(), names["stderr"].read_bytes()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the command server has ended"
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


if __name__ == "__main__":
    serve()
