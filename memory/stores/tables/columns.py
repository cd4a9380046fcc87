"""Column types that give the same values back on SQLite and on PostgreSQL."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Text
from sqlalchemy.types import TypeDecorator

from memory.model.errors import InvalidInput

_AWKWARD = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(\\|u[0-9a-f]{4})")


def to_utc(moment: datetime, *, what: str = "time") -> datetime:
    """The same moment in UTC. Raises InvalidInput for a time without a zone, or one that UTC's calendar cannot hold."""
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidInput(f"the {what} must have a time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"the {what} is outside the years 1 to 9999 in UTC") from None


def escape_id(raw: str) -> str:
    """An outside id as text that every database takes: NUL, lone surrogates and backslashes become escapes. Reversible."""
    return _AWKWARD.sub(lambda match: "\\\\" if match[0] == "\\" else f"\\u{ord(match[0]):04x}", raw)


def unescape_id(stored: str) -> str:
    return _ESCAPED.sub(lambda match: "\\" if match[1] == "\\" else chr(int(match[1][1:], 16)), stored)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment, stored in UTC with microseconds; comes back with the zone UTC (SQLite itself knows no zones)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else to_utc(value)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class OutsideId(TypeDecorator[str]):
    """An id of the outside world that is kept to be given back, not to be searched by."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape_id(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else unescape_id(value)
