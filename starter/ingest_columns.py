"""Columns of a file: their names, their types, and how their cells fit columns that are there. A cell never changes its value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final

from memory.model.errors import InvalidInput
from memory.model.knowledge import DEFAULT_KEY, ColumnType, ToolProblem
from memory.model.knowledge_names import checked_column_name, checked_table_name, column_name_of, table_name_of
from memory.model.knowledge_values import MAX_INT, MIN_INT, to_shown, to_stored

SOURCE_FILE: Final = "source_file"
SOURCE_PAGE: Final = "source_page"
SOURCE_ROW: Final = "source_row"
SOURCES: Final = (SOURCE_FILE, SOURCE_PAGE, SOURCE_ROW)

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER = re.compile(r"(?!-0$)-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_MAX_NUMBER_CHARS: Final = 40
_BOOLS: Final = {"true": True, "false": False}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?(?:Z|\+00:00)?)?")


class Unfit(ValueError):
    """A cell does not fit a column."""


# -------------------------------------------------------------------------------------------------------------------- names


def column_names(header: Sequence[str], *, keep: Collection[str] = (), key: str = DEFAULT_KEY) -> list[str]:
    """From the header of a table: distinct, none that is reserved but for those to ``keep``. ``key``: the table's unique key."""
    names: list[str] = []
    taken = {key, SOURCE_FILE, SOURCE_ROW} - set(keep)
    for place, title in enumerate(header, start=1):
        name = _column_name(title if re.search(r"\w", title.replace("_", "")) else f"column_{place}", taken)
        taken.add(name)
        names.append(name)
    return names


def _column_name(title: str, taken: Collection[str]) -> str:
    try:
        name = checked_column_name(title)
    except ToolProblem:
        return column_name_of(title, taken)
    return name if name not in taken else column_name_of(name, taken)


def table_name(given: str | None, file: str, sheet: str | None, number: int | None, taken: Collection[str] = ()) -> str:
    """``number``: of the table, where the file has several. ``taken``: names of others of the file. Raises InvalidInput."""
    base = PurePath(file).stem if given is None else _given_name(given)
    extra = "" if number is None else sheet or str(number)
    if given is not None and not extra:
        return base
    title = f"{base[:40]}_{extra}" if extra else base
    made = table_name_of(title, taken)
    # What is not written in capitals is begun with one; a name of the language may come of it.
    return made if given is not None else table_name_of(made[0].upper() + made[1:], taken)


def _given_name(name: str) -> str:
    try:
        return checked_table_name(name)
    except ToolProblem as problem:
        raise InvalidInput(problem.message) from None


# -------------------------------------------------------------------------------------------------------------------- types


def typed_column(values: Sequence[Any]) -> list[Any]:
    """The values of a new column; text that is a number, or true and false, in all of its rows becomes that.

    ``007``, ``+49``, and numbers with more digits than a number of ours keeps, stay text. Where a workbook's own types are mixed,
    all is text, so that nothing is lost.
    """
    kinds: set[type[Any]] = {type(value) for value in values if value is not None}
    wanted = _TEXT if kinds == {str} else _NUMBERS if kinds <= {int, float} else _TRUTHS if kinds == {bool} else ()
    for type_ in wanted:
        try:
            return [fitted(value, type_) for value in values]
        except Unfit:
            continue
    return [as_text(value) for value in values]


_TEXT: Final = (ColumnType.INT, ColumnType.FLOAT, ColumnType.BOOL)
_NUMBERS: Final = (ColumnType.INT, ColumnType.FLOAT)
_TRUTHS: Final = (ColumnType.BOOL,)


def column_type(values: Sequence[Any]) -> str:
    """The type of a new column with these values, by :func:`typed_column`; days or moments of ISO 8601 where all rows are.

    A moment with another zone than UTC stays text: a column of moments would forget the zone.
    """
    there = [value for value in values if value is not None]
    kinds: set[type[Any]] = {type(value) for value in there}
    if kinds == {str}:
        if all(map(_is_day, there)):
            return "date"
        return "datetime" if all(map(_is_moment, there)) else "str"
    if kinds == {bool}:
        return "bool"
    if kinds and kinds <= {int, float}:
        return "int" if kinds == {int} else "float"
    return "str"


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return _DATE.fullmatch(text) is not None


def _is_moment(text: str) -> bool:
    if _MOMENT.fullmatch(text) is None:
        return False
    try:
        to_stored(text, ColumnType.DATETIME)
    except ToolProblem:
        return False
    return True


def as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else str(value)


def fitted(value: Any, type_: ColumnType) -> Any:
    """A cell as a column of this type takes it, and shows it again. Raises Unfit where its value would be another one."""
    if value is None:
        return None
    if type_ is ColumnType.STR:
        return as_text(value)
    if type_ not in _FITTED:
        return _time(value, type_)
    return _FITTED[type_](value)


def _whole(value: Any) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not MIN_INT <= value <= MAX_INT:
        raise Unfit
    return value


def _number(value: Any) -> float:
    if isinstance(value, str) and len(value) <= _MAX_NUMBER_CHARS and _NUMBER.fullmatch(value):
        number = float(value)
        exact = math.isfinite(number) and Decimal(value) == Decimal(repr(number))
    elif isinstance(value, int) and not isinstance(value, bool) and MIN_INT <= value <= MAX_INT:
        number = float(value)
        exact = int(number) == value
    elif isinstance(value, float):
        number, exact = value, math.isfinite(value)
    else:
        raise Unfit
    if not exact:
        raise Unfit
    return number


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in _BOOLS:
        return _BOOLS[value.lower()]
    if not isinstance(value, bool):
        raise Unfit
    return value


def _nested(kind: type[Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            raise Unfit from None
        if not isinstance(found, kind):
            raise Unfit
        return found

    return read


def _time(value: Any, type_: ColumnType) -> Any:
    try:
        shown = to_shown(to_stored(value, type_), type_)
    except ToolProblem:
        raise Unfit from None
    if type_ is not ColumnType.DATETIME and shown != value:
        raise Unfit
    return shown


_FITTED: Final[Mapping[ColumnType, Callable[[Any], Any]]] = {
    ColumnType.INT: _whole,
    ColumnType.FLOAT: _number,
    ColumnType.BOOL: _truth,
    ColumnType.LIST: _nested(list),
    ColumnType.DICT: _nested(dict),
}
