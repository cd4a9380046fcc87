"""What an expression means: the value of its tree for one row. The databases are held to this.

SQLite calls it where it has nothing of its own (letters of all scripts, Python's numbers, lists and dicts); PostgreSQL does all of
it in SQL.
Values are in stored form; elements of lists and dicts are plain JSON.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from memory.model.expression_tree import (
    NUMBERS,
    TEMPORAL,
    Arithmetic,
    Call,
    Compare,
    Const,
    Either,
    Index,
    IsNone,
    Kind,
    Loose,
    Name,
    Negative,
    Node,
    Not,
    OneOf,
    Within,
)
from memory.model.knowledge import ColumnType
from memory.model.knowledge_values import DAY_US, MAX_INT, MIN_INT, to_shown

FIRST_MOMENT: Final = -62_135_596_800_000_000
LAST_MOMENT: Final = 253_402_300_799_999_999
FIRST_DAY: Final = -719_162
LAST_DAY: Final = 2_932_896
RANGES: Final[Mapping[Kind, tuple[int, int]]] = {
    ColumnType.INT: (MIN_INT, MAX_INT),
    ColumnType.TIMEDELTA: (MIN_INT, MAX_INT),
    ColumnType.DATETIME: (FIRST_MOMENT, LAST_MOMENT),
    ColumnType.DATE: (FIRST_DAY, LAST_DAY),
}
"""What is computed and beyond is None."""
MAX_NUMBER_CHARS: Final = 400
"""A longer text is no number."""

_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def value_of(node: Node, row: Mapping[str, Any]) -> Any:
    """``row``: by name. Never raises for what is in a row."""
    match node:
        case Const(value=value):
            return value
        case Name(name=name):
            return row.get(name)
        case Negative(operand=operand, kind=kind):
            value = _numeric(value_of(operand, row), operand.kind)
            return None if value is None else _checked(-value, kind)
        case Arithmetic():
            return _arithmetic(node, value_of(node.left, row), value_of(node.right, row))
        case Compare(op=op, left=left, right=right):
            return int(_compare(op, value_of(left, row), left.kind, value_of(right, row), right.kind))
        case OneOf(left=left, items=items):
            value = value_of(left, row)
            return int(any(_same(value, left.kind, value_of(item, row), item.kind) for item in items))
        case Within(left=left, right=right):
            return _within(value_of(left, row), left.kind, value_of(right, row), right.kind)
        case IsNone(operand=operand):
            return int(value_of(operand, row) is None)
        case Not(operand=operand):
            return int(not is_true(value_of(operand, row), operand.kind))
        case Either(op=op, operands=operands, kind=kind):
            return _either(op, operands, kind, row)
        case Call(name=name, arguments=arguments):
            return _call(name, [(value_of(argument, row), argument.kind) for argument in arguments])
        case Index(operand=operand, index=index):
            return _index(value_of(operand, row), value_of(index, row))


def is_true(value: Any, kind: Kind | None) -> bool:
    """As Python sees it: a date and a time of day are true, whatever they are."""
    if kind in TEMPORAL and kind is not ColumnType.TIMEDELTA:
        return value is not None
    return bool(value)


def _either(op: str, operands: tuple[Node, ...], kind: Kind | None, row: Mapping[str, Any]) -> Any:
    value: Any = None
    for operand in operands:
        value = value_of(operand, row)
        holds = is_true(value, operand.kind)
        if holds == (op == "or"):
            break
    else:
        holds = op == "and"
    if kind is None:
        return int(holds)
    return float(value) if kind is ColumnType.FLOAT and value is not None else value


# ----------------------------------------------------------------------------------------------------------------- comparing


def _compare(op: str, a: Any, a_kind: Kind | None, b: Any, b_kind: Kind | None) -> bool:
    if op in ("==", "!="):
        return _same(a, a_kind, b, b_kind) == (op == "==")
    if a is None or b is None or not _comparable(a, a_kind, b, b_kind):
        return False
    return _ORDER[op](a, b)


def _same(a: Any, a_kind: Kind | None, b: Any, b_kind: Kind | None) -> bool:
    if a is None or b is None:
        return a is b
    if Loose.ANY in (a_kind, b_kind) or isinstance(a, list | dict):
        return _same_json(_as_json(a, a_kind), _as_json(b, b_kind))
    return a == b


def _same_json(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        one, other = cast("list[Any]", a), cast("list[Any]", b)
        return len(one) == len(other) and all(map(_same_json, one, other))
    if isinstance(a, dict) and isinstance(b, dict):
        left, right = cast("dict[str, Any]", a), cast("dict[str, Any]", b)
        return left.keys() == right.keys() and all(_same_json(left[key], right[key]) for key in left)
    return a == b


def _as_json(value: Any, kind: Kind | None) -> Any:
    return bool(value) if kind is ColumnType.BOOL and value is not None else value


def _comparable(a: Any, a_kind: Kind | None, b: Any, b_kind: Kind | None) -> bool:
    if Loose.ANY not in (a_kind, b_kind):
        return True
    return (isinstance(a, str) and isinstance(b, str)) or (_is_number(a, a_kind) and _is_number(b, b_kind))


def _is_number(value: Any, kind: Kind | None) -> bool:
    return isinstance(value, int | float) and (kind is not Loose.ANY or not isinstance(value, bool))


def _within(a: Any, a_kind: Kind | None, b: Any, b_kind: Kind | None) -> Any:
    if isinstance(b, str):
        return int(a in b) if isinstance(a, str) else 0
    if isinstance(b, list):
        return int(any(_same_json(_as_json(a, a_kind), item) for item in cast("list[Any]", b)))
    return int(isinstance(b, dict) and isinstance(a, str) and a in b)


# ---------------------------------------------------------------------------------------------------------------- arithmetic


def _numeric(value: Any, kind: Kind | None) -> Any:
    if kind is Loose.ANY:
        return _finite(value) if _is_number(value, kind) else None
    return value


def _finite(value: Any) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _arithmetic(node: Arithmetic, a: Any, b: Any) -> Any:
    left, right, kind = node.left.kind, node.right.kind, node.kind
    if kind is ColumnType.STR:
        return a + b if isinstance(a, str) and isinstance(b, str) else None
    a, b = _numeric(a, left), _numeric(b, right)
    if a is None or b is None:
        return None
    if kind is ColumnType.DATE:  # whole days of a timedelta, as Python does it
        a = a // DAY_US if left is ColumnType.TIMEDELTA else a
        b = b // DAY_US if right is ColumnType.TIMEDELTA else b
    elif kind is ColumnType.TIMEDELTA and left is ColumnType.DATE:
        return (a - b) * DAY_US
    elif kind is ColumnType.FLOAT and left in NUMBERS | {Loose.ANY}:
        a, b = float(a), float(b)
    try:
        return _checked(_OPERATORS[node.op](a, b), kind)
    except (ArithmeticError, ValueError):
        return None


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and b > 64 and abs(a) > 1:
        return None
    return a**b


def _starts(text: str, start: str) -> int:
    return int(text.startswith(start))


def _ends(text: str, end: str) -> int:
    return int(text.endswith(end))


_OPERATORS: Final[dict[str, Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": _power,
}  # fmt: skip


def _checked(value: Any, kind: Kind) -> Any:
    if value is None or isinstance(value, complex):
        return None
    if isinstance(value, float):
        return None if math.isnan(value) else value
    least, most = RANGES.get(kind, (MIN_INT, MAX_INT))
    return value if least <= value <= most else None


# --------------------------------------------------------------------------------------------------------------------- calls


def _call(name: str, arguments: list[tuple[Any, Kind | None]]) -> Any:
    value, kind = arguments[0]
    if name == "bool":
        return int(is_true(value, kind))
    if value is None:
        return None
    if name in _METHODS:
        texts = [argument for argument, _ in arguments]
        return _METHODS[name](*texts) if all(isinstance(text, str) for text in texts) else None
    return _CONVERSIONS[name](value, kind)


_METHODS: Final[dict[str, Any]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
    "startswith": _starts,
    "endswith": _ends,
}


def _text(value: Any, kind: Kind | None) -> Any:
    if kind is ColumnType.BOOL or isinstance(value, bool):
        return str(bool(value))
    if kind in TEMPORAL:
        return to_shown(value, cast("ColumnType", kind))
    if isinstance(value, float):
        return str(value + 0.0)  # SQLite knows no negative zero
    return None if isinstance(value, list | dict) else str(value)


def _whole(value: Any, kind: Kind | None) -> Any:
    if isinstance(value, list | dict) or (isinstance(value, str) and len(value) > MAX_NUMBER_CHARS):
        return None
    try:
        return _checked(int(value), ColumnType.INT)
    except (ValueError, OverflowError):
        return None


def _real(value: Any, kind: Kind | None) -> Any:
    if isinstance(value, list | dict) or (isinstance(value, str) and len(value) > MAX_NUMBER_CHARS):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _length(value: Any, kind: Kind | None) -> Any:
    return len(value) if isinstance(value, str | list | dict) else None  # pyright: ignore[reportUnknownArgumentType]


_CONVERSIONS: Final[Mapping[str, Callable[[Any, Kind | None], Any]]] = {
    "str": _text,
    "int": _whole,
    "float": _real,
    "len": _length,
}


def _index(value: Any, index: Any) -> Any:
    if isinstance(value, str | list) and isinstance(index, int):
        return value[index] if -len(value) <= index < len(value) else None  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, dict) and isinstance(index, str):
        return cast("dict[str, Any]", value).get(index)
    return None
