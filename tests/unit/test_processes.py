"""Child processes, ports and folder locks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from memory.model.errors import FolderInUse, InvalidSettings, MemoryUnavailable
from memory.stores.folder_lock import FolderLock
from starter.processes import ChildProcess, free_ports, port_is_free

SLEEP = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"not within 20 s: {what}"
        threading.Event().wait(0.02)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Callable[..., ChildProcess]]:
    started: list[ChildProcess] = []

    def start(argv: tuple[str, ...], *, ready: str | None = "up", **env: str) -> ChildProcess:
        child = ChildProcess(argv, env=env, cwd=tmp_path, log=tmp_path / "logs" / "child.log")
        started.append(child)
        child.start()
        if ready:
            until(lambda: ready in log_of(tmp_path), f"{ready!r} in the log")
        return child

    yield start
    for child in started:
        child.kill()


def log_of(tmp_path: Path) -> str:
    path = tmp_path / "logs" / "child.log"
    return path.read_text() if path.exists() else ""


def test_a_child_runs_logs_and_stops(launch: Callable[..., ChildProcess]) -> None:
    child = launch(SLEEP)
    assert child.running
    assert child.exit_code is None
    assert child.pid is not None
    assert not child.wait(0)
    child.stop(10)
    assert not child.running
    assert child.exit_code == -signal.SIGTERM
    child.stop(10)  # again is fine
    child.kill()


def test_a_child_that_ignores_sigterm_is_killed(launch: Callable[..., ChildProcess]) -> None:
    child = launch(STUBBORN)
    child.stop(0.1)
    assert child.exit_code == -signal.SIGKILL


def test_a_child_has_its_own_session_and_only_the_given_environment(
    launch: Callable[..., ChildProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERTURN_TEST_SECRET", "not for children")
    child = launch((sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"), ready="}", KEY="value")
    assert child.wait(20)
    environment = json.loads(log_of(tmp_path))
    assert environment["KEY"] == "value"
    assert "AFTERTURN_TEST_SECRET" not in environment
    other = launch(SLEEP)
    assert other.pid is not None
    assert os.getsid(other.pid) == other.pid  # Ctrl-C in our terminal does not reach it
    assert os.getpgid(other.pid) != os.getpgid(0)


def test_a_program_that_cannot_be_run_ends_with_a_reason_in_the_log(launch: Callable[..., ChildProcess], tmp_path: Path) -> None:
    child = launch(("/nowhere/program",), ready=None)
    assert child.wait(20)
    assert child.exit_code not in (None, 0)
    assert "No such file" in log_of(tmp_path)


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    child = ChildProcess(SLEEP, env={}, cwd=tmp_path / "gone", log=tmp_path / "child.log")
    with pytest.raises(MemoryUnavailable, match="cannot start"):
        child.start()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "exit"])
def test_a_child_dies_with_its_parent(tmp_path: Path, how: str) -> None:
    script = textwrap.dedent(f"""
        import sys, threading, time
        from pathlib import Path
        from starter.processes import ChildProcess
        child = ChildProcess({STUBBORN!r}, env={{}}, cwd=Path("."), log=Path("child.log"))
        starter = threading.Thread(target=child.start)  # a thread that ends must not take the child with it
        starter.start(); starter.join()
        while "up" not in Path("child.log").read_text():
            time.sleep(0.02)
        print(child.pid, flush=True)
        sys.stdin.read()
        print("still" if child.running else "gone", flush=True)
    """)
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        if how == "exit":
            parent.stdin.close()
            assert parent.stdout.readline().strip() == "still"
        else:
            parent.send_signal(getattr(signal, how))
        parent.wait(20)
        until(lambda: not alive(pid), "the child's end")


def test_a_log_that_grew_large_is_put_aside(launch: Callable[..., ChildProcess], tmp_path: Path) -> None:
    log = tmp_path / "logs" / "child.log"
    log.parent.mkdir()
    log.write_bytes(b"x" * (8 * 1024 * 1024 + 1))
    launch(SLEEP)
    assert log.stat().st_size < 1000
    assert log.with_name("child.log.1").stat().st_size > 8 * 1024 * 1024


# ------------------------------------------------------------------------------------------------------------------- ports


def test_free_ports_are_free_and_never_given_twice() -> None:
    ports = [port for _ in range(20) for port in free_ports(5)]
    assert len(set(ports)) == 100
    assert all(port_is_free(port) and port_is_free(port + 10_000) for port in ports)


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not port_is_free(listener.getsockname()[1])


# ------------------------------------------------------------------------------------------------------------------- locks


def test_a_lock_names_its_owner_and_is_given_back(tmp_path: Path) -> None:
    first = FolderLock(tmp_path / "folder", owner="afterturn, first")
    second = FolderLock(tmp_path / "folder", owner="afterturn, second")
    first.acquire()
    first.acquire()
    with pytest.raises(FolderInUse, match=rf"process {os.getpid()} \(afterturn, first\)"):
        second.acquire()
    first.release()
    first.release()
    second.acquire()
    assert second.descriptor > 2
    second.release()
    with pytest.raises(RuntimeError):
        _ = second.descriptor


def test_a_lock_outlives_its_taker_while_a_child_holds_it(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "folder", owner="afterturn")
    lock.acquire()
    child = ChildProcess(SLEEP, env={}, cwd=tmp_path, log=tmp_path / "child.log", keep_open=(lock.descriptor,))
    child.start()
    until(lambda: "up" in (tmp_path / "child.log").read_text(), "the child")
    lock.release()
    other = FolderLock(tmp_path / "folder", owner="other")
    with pytest.raises(FolderInUse):
        other.acquire()
    child.kill()
    other.acquire()
    other.release()


def test_a_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "lock").write_text('{"pid": 4194303, "owner": "dead"}')
    lock = FolderLock(folder, owner="afterturn")
    lock.acquire()
    assert json.loads((folder / "lock").read_text())["pid"] == os.getpid()
    lock.release()


def test_a_folder_that_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSettings, match="AFTERTURN_DATA_DIR"):
        FolderLock(tmp_path / "file" / "folder", owner="afterturn").acquire()
