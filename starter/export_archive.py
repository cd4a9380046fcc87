"""A zip archive that is written while it is sent: what was written so far is taken away, so it is never in memory as a whole."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import IO, Any, Final, cast

from pydantic import BaseModel

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""Of a list in one file, before it is compressed; what is longer goes on in a second one: every reader of JSON can take it."""


class _Sink:
    """A file that can only be written to; without ``tell`` and ``seek`` sizes are written behind each entry."""

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, data: bytes) -> int:
        self.written += data
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""


class Archive:
    """Files one after the other, each closed before the next. ``take`` after every write bounds what is in memory."""

    def __init__(self, *, made_at: datetime) -> None:
        self._sink = _Sink()
        self._zip = zipfile.ZipFile(cast("IO[bytes]", self._sink), "w", zipfile.ZIP_DEFLATED)
        self._made_at = made_at
        self._open: IO[bytes] | None = None
        self.sizes: dict[str, int] = {}
        """Bytes by name, uncompressed."""
        self._name = ""

    def begin(self, name: str) -> None:
        info = zipfile.ZipInfo(name, date_time=self._made_at.timetuple()[:6])
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        self._open = self._zip.open(info, "w")
        self._name = name
        self.sizes[name] = 0

    def write(self, data: bytes) -> None:
        assert self._open is not None  # noqa: S101
        self._open.write(data)
        self.sizes[self._name] += len(data)

    def end(self) -> None:
        assert self._open is not None  # noqa: S101
        self._open.close()
        self._open = None

    def file(self, name: str, data: bytes | str) -> None:
        self.begin(name)
        self.write(data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace"))
        self.end()

    def take(self) -> bytes:
        """What was written since the last time."""
        data, self._sink.written = bytes(self._sink.written), bytearray()
        return data

    def close(self) -> None:
        self._zip.close()


class JsonList:
    """A JSON list in one or several files: ``name.json``, ``name.2.json``, … ``counts``: items by file."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive = archive
        self._name = name
        self.counts: dict[str, int] = {}
        self._file = ""
        self._next()

    def add(self, items: Sequence[Any]) -> None:
        for item in items:
            data = to_json(item)
            if self._archive.sizes[self._file] + len(data) > MAX_FILE_BYTES and self.counts[self._file]:
                self._end()
                self._next()
            self._archive.write((b",\n" if self.counts[self._file] else b"\n") + data)
            self.counts[self._file] += 1

    def close(self) -> None:
        self._end()

    def _next(self) -> None:
        self._file = f"{self._name}.json" if not self.counts else f"{self._name}.{len(self.counts) + 1}.json"
        self.counts[self._file] = 0
        self._archive.begin(self._file)
        self._archive.write(b"[")

    def _end(self) -> None:
        self._archive.write(b"\n]\n")
        self._archive.end()


def to_json(value: Any, *, indent: int | None = None) -> bytes:
    """Models, dataclasses, times and sets are understood. A lone surrogate, which no file can hold, is an escape."""
    text = json.dumps(value, default=_plain, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | Sequence):
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise TypeError(f"{type(value).__name__} has no form in JSON")
