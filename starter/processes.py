"""Child processes that never outlive this one, and the free ports they listen on.

A child runs in its own session, so that Ctrl-C in the terminal reaches only us and we stop it in our own order. On Linux the
kernel kills it when we die, also by SIGKILL (``PR_SET_PDEATHSIG``); elsewhere it is killed when the interpreter exits.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from memory.model.errors import MemoryUnavailable

# Runs in the child before the server: a `preexec_fn` would run Python between fork and exec, which can deadlock in a process
# that has threads (ours has: the Temporal SDK's). The parent may be dead before prctl took effect, hence the second look.
_LAUNCH = """
import os, signal, sys
if sys.platform == "linux":
    import ctypes
    if ctypes.CDLL(None, use_errno=True).prctl(1, int(signal.SIGKILL), 0, 0, 0):
        sys.exit("prctl(PR_SET_PDEATHSIG): " + os.strerror(ctypes.get_errno()))
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
_MAX_LOG_BYTES = 8 * 1024 * 1024
_REAP_S = 10.0


class ChildProcess:
    """One child process with its output appended to a file. All methods block and may be called from any thread.

    The kernel ties a child to the *thread* that started it, so each child gets a thread of its own, which starts it and then
    waits for it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        keep_open: Sequence[int] = (),
    ) -> None:
        """``env`` is the whole environment (secrets go here, never into ``argv``). ``keep_open``: descriptors it inherits."""
        self._argv = tuple(argv)
        self._env = dict(env)
        self._cwd = cwd
        self._log = log
        self._keep_open = tuple(keep_open)
        self._started = threading.Event()
        self._exited = threading.Event()
        self._failure: OSError | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Raises MemoryUnavailable when the operating system will not start it."""
        _bound_log(self._log)
        thread = threading.Thread(target=self._run, name=f"child {Path(self._argv[0]).name}", daemon=True)
        thread.start()
        self._started.wait()
        if self._failure is not None:
            raise MemoryUnavailable(f"cannot start {self._argv[0]}: {self._failure.strerror}") from self._failure
        atexit.register(self.kill)

    def _run(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), *self._argv]
        try:
            with self._log.open("ab") as log:
                process = subprocess.Popen(  # noqa: S603
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._env,
                    cwd=self._cwd,
                    start_new_session=True,
                    pass_fds=self._keep_open,
                )
        except OSError as error:
            self._failure = error
            self._exited.set()
            self._started.set()
            return
        self._process = process
        self._started.set()
        process.wait()
        self._exited.set()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        return self._process is not None and not self._exited.is_set()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number when a signal ended it."""
        return self._process.returncode if self._process and self._exited.is_set() else None

    def wait(self, timeout_s: float) -> bool:
        """Whether it has exited within this time."""
        return self._exited.wait(timeout_s)

    def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL to what is left after ``grace_s`` seconds."""
        self._signal(signal.SIGTERM)
        if not self.wait(grace_s):
            self._signal(signal.SIGKILL)
        self._reaped()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._reaped()

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or self._exited.is_set():
            return
        # The child leads its own session, so this is it and whatever it started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def _reaped(self) -> None:
        if not self.wait(_REAP_S) and self._process is not None:
            raise MemoryUnavailable(f"process {self._process.pid} ({Path(self._argv[0]).name}) does not end even by SIGKILL")
        atexit.unregister(self.kill)


def _bound_log(path: Path) -> None:
    """Keep one older file, so that logs do not grow over many starts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
        path.replace(path.with_name(path.name + ".1"))


# ------------------------------------------------------------------------------------------------------------------- ports

# Below the range from which systems take ports for outgoing connections (32768 on Linux), so that a port that was free when
# we looked is not taken by somebody's client a moment later. SeaweedFS puts gRPC 10,000 above each of its HTTP ports.
_PORT_RANGE = range(15_000, 22_000)
_OFFSET = 10_000
_given: set[int] = set()
_given_lock = threading.Lock()


def port_is_free(port: int) -> bool:
    """Whether nobody listens on this port of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports that are free together with the ports 10,000 above them; never the same twice in one process.

    Raises MemoryUnavailable when there are not that many.
    """
    found: list[int] = []
    with _given_lock:
        for port in random.sample(_PORT_RANGE, len(_PORT_RANGE)):
            if port not in _given and port_is_free(port) and port_is_free(port + _OFFSET):
                found.append(port)
                if len(found) == count:
                    _given.update(found)
                    return found
    raise MemoryUnavailable(f"no {count} free ports between {_PORT_RANGE.start} and {_PORT_RANGE.stop} on 127.0.0.1")
