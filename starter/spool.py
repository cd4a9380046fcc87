"""Turns and events that wait on this machine's disk while the event log is away.

The spool is a file of JSON lines, one turn or batch of events each, readable by its owner only and bounded in bytes. Every line
is on the disk (fsync) before it counts as spooled. Several processes may share a spool: appends take a short lock, and one process
at a time drains. To drain, the file is renamed, so that new entries can be appended meanwhile; what a killed drain leaves is
drained again, which the event log takes for repeats. A line that can never be recorded goes to a side file, bounded as well.

Beside ``spool.jsonl``: ``.draining`` (being recorded), ``.rejected`` (side file), ``.lock`` and ``.drain-lock``.

Everything here blocks: callers run it in a thread. Needs a POSIX system (``flock``).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from memory.model.errors import InvalidInput, MemoryUnavailable
from memory.model.scope import Scope
from memory.model.turn import MAX_MESSAGE_BYTES
from starter.pieces import Piece, piece_of_json

FORMAT = 1
LOCK_POLL_S = 0.005
MIN_REJECTED_BYTES = 1024 * 1024
MAX_LINE_BYTES = 16 * MAX_MESSAGE_BYTES
"""Far above any line that ``append`` writes (a byte of text is at most six in JSON): a longer one is not ours."""


_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """``spooled_at``: when it was handed over; a user who was forgotten since stays forgotten."""

    scope: Scope
    piece: Piece = field(repr=False)
    spooled_at: datetime


def encode_entry(entry: SpoolEntry) -> bytes:
    """One line, ASCII only: whatever the text holds, a line break in the file ends an entry."""
    content = {
        "v": FORMAT,
        "tenant": entry.scope.tenant,
        "user": entry.scope.user,
        "at": entry.spooled_at.isoformat(),
        **entry.piece.to_json(),
    }
    return json.dumps(content, separators=(",", ":")).encode("ascii") + b"\n"


def decode_entry(line: bytes) -> SpoolEntry:
    """Raises InvalidInput for a line that was cut off or is not of this form; nothing of the line is in the message."""
    try:
        content = json.loads(line)
        if content["v"] != FORMAT:
            raise InvalidInput(f"the line has the format {str(content['v'])[:20]}, not {FORMAT}")
        return SpoolEntry(Scope(content["tenant"], content["user"]), piece_of_json(content), datetime.fromisoformat(content["at"]))
    except ValidationError as error:
        fields = ", ".join(sorted({_field(item["loc"]) for item in error.errors(include_input=False)}))
        raise InvalidInput(f"the turn or the events of the line are not valid: {fields}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidInput("the line is not complete or not readable") from None


def _field(loc: tuple[int | str, ...]) -> str:
    return next((part[:40] for part in reversed(loc) if isinstance(part, str)), "turn")


class Spool:
    """One spool file.

    Args:
        path: the file; its folder is made on first use.
        max_bytes: bound of what waits (the file and the part being drained together); 0 switches the spool off.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.draining_path = path.with_name(path.name + ".draining")
        self.rejected_path = path.with_name(path.name + ".rejected")
        self._lock_path = path.with_name(path.name + ".lock")
        self._drain_lock_path = path.with_name(path.name + ".drain-lock")

    @property
    def enabled(self) -> bool:
        return self.max_bytes > 0

    def waiting_bytes(self) -> int:
        """Bytes that wait; 0: nothing to drain."""
        return _size(self.path) + _size(self.draining_path)

    def append(self, entry: SpoolEntry, *, wait_s: float = 1.0) -> None:
        """Put one entry on the disk.

        Args:
            entry: a turn or a batch of events.
            wait_s: how long to wait for other processes' appends.

        Raises:
            MemoryUnavailable: full, switched off, locked for too long, or the disk failed. Nothing was written.
        """
        if not self.enabled:
            raise MemoryUnavailable("the spool is switched off (AFTERTURN_SPOOL_MAX_BYTES is 0)")
        line = encode_entry(entry)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = _lock(self._lock_path, wait_s)
            if lock is None:
                raise MemoryUnavailable(f"the spool is locked by another process for more than {wait_s:.2f} s")
            try:
                self._write(line)
            finally:
                os.close(lock)
        except OSError as error:
            raise _disk_error("written", error) from None

    def _write(self, line: bytes) -> None:
        fresh = not self.path.exists()
        with _opened(self.path) as file:
            size = os.fstat(file).st_size
            # A process that was killed in the middle of its append leaves a line without an end.
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            data = b"\n" + line if torn else line
            waiting = size + _size(self.draining_path)
            if waiting + len(data) > self.max_bytes:
                raise MemoryUnavailable(f"the spool is full: {waiting} of {self.max_bytes} bytes")
            _append(file, size, data)
        if fresh:
            _sync_folder(self.path.parent)

    def claim(self, *, wait_s: float = 1.0) -> Claim | None:
        """What waits now, for this process alone until :meth:`Claim.close`. None while another one drains.

        Raises MemoryUnavailable when the disk fails.
        """
        try:
            if self.waiting_bytes() == 0:
                return Claim(self, 0, None)
            lock = _lock(self._drain_lock_path, 0)
            if lock is None:
                return None
            try:
                # What an earlier drain left comes first: its turns are older.
                if not self.draining_path.exists() and not self._set_aside(wait_s):
                    os.close(lock)
                    return None
            except BaseException:
                os.close(lock)
                raise
            return Claim(self, _size(self.draining_path), lock)
        except OSError as error:
            raise _disk_error("drained", error) from None

    def forget_rejected(self, scope: Scope) -> int:
        """Remove the user's lines from the side file. Returns how many. Raises MemoryUnavailable when the disk fails."""
        if not self.rejected_path.exists():
            return 0
        try:
            lock = _lock(self._drain_lock_path, 1.0)
            if lock is None:
                raise MemoryUnavailable("another process drains the spool")
            try:
                return self._without(scope)
            finally:
                os.close(lock)
        except OSError as error:
            raise _disk_error("looked through", error) from None

    def _without(self, scope: Scope) -> int:
        # As ``encode_entry`` begins a line: it is known also where the line broke off.
        whose = json.dumps({"tenant": scope.tenant, "user": scope.user}, separators=(",", ":"))[1:-1] + ","
        kept: list[bytes] = []
        removed = 0
        for raw in self.rejected_path.read_bytes().splitlines(keepends=True):
            try:
                mine = whose in json.loads(raw)["line"]
            except (ValueError, KeyError, TypeError):
                mine = False
            removed += mine
            kept += [] if mine else [raw]
        if removed:
            rest = self.rejected_path.with_name(self.rejected_path.name + ".rest")
            rest.unlink(missing_ok=True)
            with _opened(rest) as file:
                _write_all(file, b"".join(kept))
                os.fsync(file)
            rest.replace(self.rejected_path)
            _sync_folder(self.path.parent)
        return removed

    def _set_aside(self, wait_s: float) -> bool:
        lock = _lock(self._lock_path, wait_s)
        if lock is None:
            return False
        try:
            if self.path.exists():
                self.path.rename(self.draining_path)
                _sync_folder(self.path.parent)
            return True
        finally:
            os.close(lock)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a claim. ``entry`` is None where it is not readable; ``problem`` says why. ``end``: offset behind it."""

    entry: SpoolEntry | None
    raw: bytes = field(repr=False)
    end: int
    problem: str = ""


class Claim:
    """Entries being drained, in order: :meth:`take` some, :meth:`advance` over what is settled, :meth:`close` at the end.

    All methods raise MemoryUnavailable when the disk fails; then everything that was not advanced over waits for the next drain,
    and at worst is recorded twice, which the event log recognises.
    """

    def __init__(self, spool: Spool, size: int, lock: int | None) -> None:
        self._spool = spool
        self._size = size
        self._lock = lock
        self._offset = 0

    @property
    def empty(self) -> bool:
        return self._size == 0

    def take(self, limit: int) -> list[Line]:
        """The next lines, at most ``limit``; none at the end."""
        lines: list[Line] = []
        try:
            if self._offset >= self._size:
                return []
            with self._spool.draining_path.open("rb") as file:
                file.seek(self._offset)
                while len(lines) < limit and (raw := file.readline(MAX_LINE_BYTES)):
                    if raw.strip():
                        lines.append(_line(raw, file.tell()))
        except OSError as error:
            raise _disk_error("drained", error) from None
        return lines

    def advance(self, line: Line) -> None:
        """This line and all before it are recorded or rejected."""
        self._offset = line.end

    def reject(self, line: Line, reason: str) -> bool:
        """Keep a line that can never be recorded in the side file. False: that is full and the line is given up."""
        content = {
            "rejected_at": datetime.now(UTC).isoformat(),
            "reason": reason,
            "line": line.raw.decode("ascii", "backslashreplace").rstrip("\n"),
        }
        data = json.dumps(content).encode("ascii") + b"\n"
        try:
            with _opened(self._spool.rejected_path) as file:
                size = os.fstat(file).st_size
                if size + len(data) > max(MIN_REJECTED_BYTES, self._spool.max_bytes // 8):
                    return False
                _append(file, size, data)
        except OSError as error:
            raise _disk_error("drained", error) from None
        return True

    def close(self) -> int:
        """Forget what was advanced over and let other processes drain. Returns how many lines are left."""
        try:
            return self._forget() if self._size else 0
        except OSError as error:
            raise _disk_error("drained", error) from None
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _forget(self) -> int:
        path = self._spool.draining_path
        left = 0
        if self._offset == 0:
            with path.open("rb") as source:
                return sum(1 for raw in iter(lambda: source.readline(MAX_LINE_BYTES), b"") if raw.strip())
        if self._offset < self._size:
            rest_path = path.with_name(path.name + ".rest")
            rest_path.unlink(missing_ok=True)
            with path.open("rb") as source, _opened(rest_path) as target:
                source.seek(self._offset)
                while raw := source.readline(MAX_LINE_BYTES):
                    if raw.strip():
                        _write_all(target, raw)
                        left += 1
                os.fsync(target)
            rest_path.replace(path)
        if not left:
            path.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return left


def _line(raw: bytes, end: int) -> Line:
    try:
        return Line(decode_entry(raw), raw, end)
    except InvalidInput as error:
        return Line(None, raw, end, error.message)


def _disk_error(what: str, error: OSError) -> MemoryUnavailable:
    return MemoryUnavailable(f"the spool cannot be {what}: {error.strerror or type(error).__name__}")


@contextmanager
def _opened(path: Path) -> Generator[int]:
    """The file for appending, readable by its owner only."""
    file = os.open(path, _FLAGS, 0o600)
    try:
        if os.fstat(file).st_mode & 0o077:
            os.fchmod(file, 0o600)
        yield file
    finally:
        os.close(file)


def _lock(path: Path, wait_s: float) -> int | None:
    """A file that holds the lock until it is closed (a killed process's lock is free at once); None: not within ``wait_s``."""
    deadline = time.monotonic() + wait_s
    file = os.open(path, _FLAGS, 0o600)
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(file)
                    return None
                time.sleep(LOCK_POLL_S)
            else:
                return file
    except OSError:
        os.close(file)
        raise


def _append(file: int, size: int, data: bytes) -> None:
    """All of ``data`` on the disk, or nothing of it."""
    try:
        _write_all(file, data)
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size)
        raise


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
