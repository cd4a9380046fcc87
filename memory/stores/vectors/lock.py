"""The lock of the folder that holds the embedded engine's files: one process at a time, and it says which."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

from memory.model.errors import FolderInUse, InvalidSettings

_SETTLE_S = 3.0


class EngineLock:
    """Exclusive while this object holds it; the kernel gives it back when the process dies. Blocks; for threads."""

    def __init__(self, folder: Path, *, owner: str) -> None:
        """``owner``: what this process is, for the message that another one shows."""
        self._path = folder / "lock"
        self._owner = owner
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> None:
        """Idempotent. Raises FolderInUse that names the other process, InvalidSettings when the folder is not usable."""
        if self._descriptor is not None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidSettings(f"AFTERTURN_DATA_DIR: cannot use {self._path.parent}: {error.strerror}") from error
        try:
            self._wait_for(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "owner": self._owner}).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _wait_for(self, descriptor: int) -> None:
        # What is left of an owner that was killed goes a moment after it; a living owner is reported at once.
        deadline = time.monotonic() + _SETTLE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pid, owner = self._read(descriptor)
                if _is_alive(pid) or time.monotonic() > deadline:
                    raise in_use(self._path.parent, pid, owner) from None
                time.sleep(0.05)
            else:
                return

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @staticmethod
    def _read(descriptor: int) -> tuple[int | None, str]:
        try:
            content = json.loads(os.pread(descriptor, 4096, 0))
            return int(content["pid"]), str(content["owner"])
        except (ValueError, KeyError, TypeError):
            return None, "unknown"


def in_use(folder: Path, pid: int | None, owner: str) -> FolderInUse:
    where = "this process" if pid == os.getpid() else f"process {pid or 'unknown'} ({owner[:100]})"
    return FolderInUse(
        f"the vectors in {folder} are in use by {where}: stop it, run one `afterturn dev` that the others share,"
        " set AFTERTURN_DATA_DIR to another folder, or AFTERTURN_VECTOR_URL to a Qdrant server"
    )


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
