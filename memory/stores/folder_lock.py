"""The lock of a folder that only one process at a time may use, and which says who that is. Blocks; for threads."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

from memory.model.errors import FolderInUse, InvalidSettings

_SETTLE_S = 3.0
_OTHER_FOLDER = "stop it, or set AFTERTURN_DATA_DIR to another folder"


class FolderLock:
    """Exclusive, held as long as this object, or a child that got ``descriptor``, lives: the kernel gives it back."""

    def __init__(self, folder: Path, *, owner: str, what: str | None = None, way_out: str = _OTHER_FOLDER) -> None:
        """What another process that wants it is told.

        Args:
            folder: made where it is not there.
            owner: what this process is.
            what: what is in use, with its verb; by default the folder.
            way_out: what can be done about it.
        """
        self._path = folder / "lock"
        self._owner = owner
        self._what = what or f"{folder} is"
        self._way_out = way_out
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    @property
    def descriptor(self) -> int:
        if self._descriptor is None:
            raise RuntimeError("the lock is not held")
        return self._descriptor

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

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def in_use_by(self, pid: int | None, owner: str) -> FolderInUse:
        """What is said of a folder that is somebody else's."""
        return FolderInUse(f"{self._what} in use by process {pid or 'unknown'} ({owner[:100]}): {self._way_out}")

    def _wait_for(self, descriptor: int) -> None:
        # What is left of an owner that was killed goes a moment after it; a living owner is reported at once.
        deadline = time.monotonic() + _SETTLE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pid, owner = _read(descriptor)
                if _is_alive(pid) or time.monotonic() > deadline:
                    raise self.in_use_by(pid, owner) from None
                time.sleep(0.05)
            else:
                return


def _read(descriptor: int) -> tuple[int | None, str]:
    try:
        content = json.loads(os.pread(descriptor, 4096, 0))
        return int(content["pid"]), str(content["owner"])
    except (ValueError, KeyError, TypeError):
        return None, "unknown"


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
