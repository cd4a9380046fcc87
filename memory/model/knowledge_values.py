"""Values of knowledge tables: which fit which column, how they are stored and shown, what type a new column gets.

Stored: str as it is; int; bool as 0 and 1; float; datetime as microseconds since 1970 in UTC; date as days since 1970; time as
microseconds of the day; timedelta as microseconds; list and dict as plain JSON. Names are in :mod:`memory.model.knowledge_names`.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, TypeAlias, cast

from memory.model.knowledge import MAX_TEXT_BYTES, ColumnType, ToolProblem, Value

Stored: TypeAlias = Any
"""None, str, int, float, or a list or dict of plain JSON."""

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_DEPTH: Final = 32
"""Of lists and dicts in each other."""
DAY_US: Final = 86_400_000_000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ONE: Final = date(1970, 1, 1).toordinal()
_MICROSECOND: Final = timedelta(microseconds=1)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?!$)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?!$)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:[.,](?P<fraction>\d{1,6}))?S)?)?",
    re.ASCII,
)
_CLOCK = re.compile(
    r"(?:(?P<days>-?\d+) days?, )?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:\.(?P<fraction>\d{1,6}))?", re.ASCII
)
"""As Python writes a timedelta."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlist = _short.maxtuple = _short.maxdict = 3
_short.maxlevel = 3


class BadValue(ValueError):
    """Why a value does not fit; without the row and the column, which the caller knows."""

    def __init__(self, reason: str, *, code: str = "bad_value") -> None:
        super().__init__(code)
        self.reason = reason
        self.code = code


def to_stored(value: Value, type_: ColumnType, *, column: str | None = None, row: int | str | None = None) -> Stored:
    """The value as a column of this type stores it; None stays None.

    An int fits float; ISO 8601 text fits datetime (without a zone: UTC), date, time and timedelta; a tuple fits list. Nothing else
    is converted: a bool is no int, ``"5"`` is no int, ``1.0`` is no int.

    Raises ToolProblem (``bad_value``, ``too_large``) that names row, column and the value, shortened.
    """
    if value is None:
        return None
    try:
        return CONVERTERS[type_](value)
    except BadValue as error:
        raise value_problem(error, value, column=column, row=row) from None


def to_shown(stored: Stored, type_: ColumnType) -> Value:
    """What a caller sees of it. A computed time that Python's calendar cannot hold is None."""
    if stored is None:
        return None
    return _SHOWN[type_](stored) if type_ in _SHOWN else stored


def value_problem(error: BadValue, value: Value, *, column: str | None = None, row: int | str | None = None) -> ToolProblem:
    places = [f"row {row}"] * (row is not None) + [f"column {column}"] * (column is not None)
    return ToolProblem(error.code, f"{', '.join(places)}{': ' if places else ''}{error.reason}; the value is {shortened(value)}")


def shortened(value: object) -> str:
    """A value for a message: bounded, on one line, and storable itself."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an int of {value.bit_length()} bits"
    try:
        text = _short.repr(value)
    except ValueError:  # an int too long for Python to write, within a list
        text = f"<{type(value).__name__}>"
    return text[:120].encode("utf-8", "backslashreplace").decode()


def type_of(value: Value) -> ColumnType | None:
    """The type of one value; None for None. Text is str, also where it looks like a date.

    Raises BadValue for what fits no column.
    """
    if value is None:
        return None
    for kind, type_ in _KINDS:
        if isinstance(value, kind):
            return type_
    raise BadValue(f"a {type(value).__name__} fits no column; {_ALLOWED}")


def inferred_type(values: Iterable[Value], *, column: str | None = None) -> ColumnType:
    """The type of a column that is made for these values: theirs; float for ints and floats; str where all are None.

    Raises ToolProblem where no one type fits them all, or a value fits no column.
    """
    found: ColumnType | None = None
    first = 0
    for row, value in enumerate(values):
        try:
            type_ = type_of(value)
        except BadValue as error:
            raise value_problem(error, value, column=column, row=row) from None
        if type_ is None or type_ is found:
            continue
        if found is None:
            found, first = type_, row
        elif {found, type_} == _NUMBERS:
            found = ColumnType.FLOAT
        else:
            raise ToolProblem(
                "bad_value",
                f"row {row}{f', column {column}' if column else ''}: there is no such column yet, and one type must fit all its"
                f" values; row {first} has {found.value}, this one {type_.value}; the value is {shortened(value)}",
            )
    return found or ColumnType.STR


def checked_type(name: str) -> ColumnType:
    """Of a column that is made by name. Raises ToolProblem for another one, and for vectors (see VectorizeColumn)."""
    if isinstance(name, str) and name in _NAMES:  # pyright: ignore[reportUnnecessaryIsInstance]
        return ColumnType(name)
    hint = "; a vector column is made with vectorize_column" if name == ColumnType.VECTOR.value else ""
    raise ToolProblem("bad_arguments", f"{shortened(name)} is not a type; the types are {', '.join(_NAMES)}{hint}")


def text_bytes(text: str) -> int:
    """How long a text is in the store. Raises BadValue for what no database stores, and for one that is too long."""
    if not text.isascii():
        if _UNSTORABLE.search(text):
            raise BadValue("a text may not hold NUL or halves of surrogate pairs")
        size = len(text.encode())
    elif "\x00" in text:
        raise BadValue("a text may not hold NUL or halves of surrogate pairs")
    else:
        size = len(text)
    if size > MAX_TEXT_BYTES:
        raise BadValue(f"{size} bytes are more than the {MAX_TEXT_BYTES} of one value", code="too_large")
    return size


# ------------------------------------------------------------------------------------------------------------------- stored


def _text(value: Value) -> Stored:
    if type(value) is not str:
        if not isinstance(value, str):
            raise _mismatch(value, "str")
        value = str.__str__(value)
    text_bytes(value)
    return value


def _whole(value: Value) -> Stored:
    if type(value) is not int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _mismatch(value, "int")
        value = int(value)
    if not MIN_INT <= value <= MAX_INT:
        raise BadValue("an int is at most 64 bits")
    return value


def _number(value: Value) -> Stored:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadValue("NaN and infinity are not stored; use None")
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(_whole(value))
    raise _mismatch(value, "float")


def _truth(value: Value) -> Stored:
    if not isinstance(value, bool):
        raise _mismatch(value, "bool")
    return int(value)


def _moment(value: Value) -> Stored:
    moment = _parsed(value, datetime, datetime.fromisoformat, "datetime", "2025-03-31T14:00:00Z")
    try:
        moment = moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    except OverflowError:
        raise BadValue("the datetime is outside the years 1 to 9999 in UTC") from None
    return (moment - _EPOCH) // _MICROSECOND


def _day(value: Value) -> Stored:
    if isinstance(value, datetime):
        raise _mismatch(value, "date")
    return _parsed(value, date, date.fromisoformat, "date", "2025-03-31").toordinal() - _DAY_ONE


def _clock(value: Value) -> Stored:
    at = _parsed(value, time, time.fromisoformat, "time", "14:30:00")
    if at.tzinfo is not None:
        raise BadValue("a time of day has no time zone")
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond


def _span(value: Value) -> Stored:
    span = _parsed(value, timedelta, _duration, "timedelta", "PT1H30M")
    microseconds = span // _MICROSECOND
    if not MIN_INT <= microseconds <= MAX_INT:
        raise BadValue("the timedelta is more than about 292,000 years")
    return microseconds


def _list(value: Value) -> Stored:
    if not isinstance(value, list | tuple):
        raise _mismatch(value, "list")
    return _json(cast("Any", value))


def _dict(value: Value) -> Stored:
    if not isinstance(value, Mapping):
        raise _mismatch(value, "dict")
    return _json(cast("Any", value))


def _vector(value: Value) -> Stored:
    raise BadValue("an embedding is not written by hand: change the column that it is made from")


CONVERTERS: Final[Mapping[ColumnType, Callable[[Value], Stored]]] = {
    ColumnType.STR: _text,
    ColumnType.INT: _whole,
    ColumnType.FLOAT: _number,
    ColumnType.BOOL: _truth,
    ColumnType.DATETIME: _moment,
    ColumnType.DATE: _day,
    ColumnType.TIME: _clock,
    ColumnType.TIMEDELTA: _span,
    ColumnType.LIST: _list,
    ColumnType.DICT: _dict,
    ColumnType.VECTOR: _vector,
}
"""For many values of a column at once: each raises BadValue, and takes anything but None."""


def _mismatch(value: Value, wanted: str) -> BadValue:
    return BadValue(f"a {type(value).__name__} does not fit a column of type {wanted}")


def _parsed(value: Value, kind: type[Any], parse: Callable[[str], Any], wanted: str, example: str) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, str):
        raise _mismatch(value, wanted)
    try:
        return parse(value.strip())
    except ValueError:
        raise BadValue(f"this text is no {wanted} in ISO 8601, such as {example}") from None


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text) or _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError
    parts = match.groupdict()
    whole = {name: int(parts[name]) for name in ("weeks", "days", "hours", "minutes", "seconds") if parts.get(name)}
    try:
        span = timedelta(**whole, microseconds=int((parts["fraction"] or "").ljust(6, "0")))
    except OverflowError:
        raise ValueError from None
    return -span if parts.get("sign") == "-" else span


def _json(value: Value) -> Stored:
    plain = _plain(value, MAX_DEPTH)
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    if size > MAX_TEXT_BYTES:
        raise BadValue(f"{size} bytes as JSON are more than the {MAX_TEXT_BYTES} of one value", code="too_large")
    return plain


def _plain(value: Any, depth: int) -> Any:
    """Times in lists and dicts become ISO 8601 text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, datetime | date | time | timedelta):
        type_ = type_of(value)
        return None if type_ is None else to_shown(CONVERTERS[type_](value), type_)
    if isinstance(value, str | int | float):
        return (_text if isinstance(value, str) else _whole if isinstance(value, int) else _number)(value)
    if depth == 0:
        raise BadValue(f"lists and dicts are at most {MAX_DEPTH} deep in each other")
    if isinstance(value, list | tuple):
        return [_plain(one, depth - 1) for one in cast("Any", value)]
    if not isinstance(value, Mapping):
        raise BadValue(f"a {type(value).__name__} cannot be in a list or dict; {_ALLOWED}")
    given = cast("Mapping[Any, Any]", value)
    if not all(isinstance(key, str) for key in given):
        raise BadValue("the keys of a dict are text")
    return {_text(key): _plain(one, depth - 1) for key, one in given.items()}


# -------------------------------------------------------------------------------------------------------------------- shown


def _shown_moment(stored: Stored) -> Value:
    try:
        return (_EPOCH + timedelta(microseconds=int(stored))).isoformat()
    except OverflowError:
        return None


def _shown_day(stored: Stored) -> Value:
    try:
        return date.fromordinal(int(stored) + _DAY_ONE).isoformat()
    except (OverflowError, ValueError):
        return None


def _shown_clock(stored: Stored) -> Value:
    seconds, microsecond = divmod(int(stored), 1_000_000)
    try:
        return time(seconds // 3600, seconds // 60 % 60, seconds % 60, microsecond).isoformat()
    except ValueError:
        return None


def _shown_span(stored: Stored) -> Value:
    days, rest = divmod(abs(int(stored)), DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    clock = f"{hours}H" * (hours > 0) + f"{minutes}M" * (minutes > 0)
    if seconds or fraction:
        clock += f"{seconds}{f'.{fraction:06}'.rstrip('0') if fraction else ''}S"
    if not clock and not days:
        return "PT0S"
    return f"{'-' if stored < 0 else ''}P{f'{days}D' if days else ''}{f'T{clock}' if clock else ''}"


_SHOWN: Final[Mapping[ColumnType, Callable[[Stored], Value]]] = {
    ColumnType.BOOL: bool,
    ColumnType.INT: int,
    ColumnType.FLOAT: float,
    ColumnType.DATETIME: _shown_moment,
    ColumnType.DATE: _shown_day,
    ColumnType.TIME: _shown_clock,
    ColumnType.TIMEDELTA: _shown_span,
}
_KINDS: Final[tuple[tuple[Any, ColumnType], ...]] = (
    (str, ColumnType.STR),
    (bool, ColumnType.BOOL),
    (int, ColumnType.INT),
    (float, ColumnType.FLOAT),
    ((list, tuple), ColumnType.LIST),
    (Mapping, ColumnType.DICT),
    (datetime, ColumnType.DATETIME),
    (date, ColumnType.DATE),
    (time, ColumnType.TIME),
    (timedelta, ColumnType.TIMEDELTA),
)
_NUMBERS: Final = {ColumnType.INT, ColumnType.FLOAT}
_NAMES: Final = tuple(type_.value for type_ in ColumnType if type_ is not ColumnType.VECTOR)
_ALLOWED: Final = "values are None, str, int, float, bool, list, dict, and dates and times"
