"""Many values of one column at once, checked and converted as :func:`memory.model.knowledge_values.to_stored` does one.

Where a glance at all of them shows that they need nothing, they are looked at no further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import filterfalse
from typing import Any, Final

from memory.model.knowledge import MAX_TEXT_BYTES, ColumnType, Value
from memory.model.knowledge_values import CONVERTERS, MAX_INT, MIN_INT, BadValue, Stored, value_problem

_NONE: Final = type(None)
_DAY_ONE: Final = date(1970, 1, 1).toordinal()


def stored_column(values: Sequence[Value], type_: ColumnType, *, column: str) -> Sequence[Stored]:
    """The values in stored form, by row. Raises ToolProblem for the first that does not fit, with the number of its row."""
    quick = _QUICK.get(type_)
    found = None if quick is None else quick(values, set(map(type, values)))
    if found is not None:
        return found
    convert = CONVERTERS[type_]
    stored: list[Stored] = []
    for row, value in enumerate(values):
        if value is None:
            stored.append(None)
            continue
        try:
            stored.append(convert(value))
        except BadValue as error:
            raise value_problem(error, value, column=column, row=row) from None
    return stored


def _texts(values: Sequence[Value], types: set[type[Any]]) -> Sequence[Stored] | None:
    if not types <= {str, _NONE}:
        return None
    joined = "".join(filter(None, values))
    return values if joined.isascii() and "\x00" not in joined and len(joined) <= MAX_TEXT_BYTES else None


def _whole(values: Sequence[Value], types: set[type[Any]]) -> Sequence[Stored] | None:
    if not types <= {int, _NONE}:
        return None
    given = [value for value in values if value is not None] if _NONE in types else values
    return values if not given or (min(given) >= MIN_INT and max(given) <= MAX_INT) else None


def _numbers(values: Sequence[Value], types: set[type[Any]]) -> Sequence[Stored] | None:
    if types == {float}:
        return values if next(filterfalse(math.isfinite, values), None) is None else None
    return None


def _truths(values: Sequence[Value], types: set[type[Any]]) -> Sequence[Stored] | None:
    return list(map(int, values)) if types == {bool} else None


def _days(values: Sequence[Value], types: set[type[Any]]) -> Sequence[Stored] | None:
    if types != {str}:
        return None
    try:
        return [date.fromisoformat(value).toordinal() - _DAY_ONE for value in values]
    except ValueError:
        return None  # spaces around it, or no date


_QUICK: Final[Mapping[ColumnType, Callable[[Sequence[Value], set[type[Any]]], Sequence[Stored] | None]]] = {
    ColumnType.STR: _texts,
    ColumnType.INT: _whole,
    ColumnType.FLOAT: _numbers,
    ColumnType.BOOL: _truths,
    ColumnType.DATE: _days,
}
