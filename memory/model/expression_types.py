"""Which operands go together in an expression, and the type of what comes out. Each raises ToolProblem for what does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from memory.model.expression_text import problem
from memory.model.expression_tree import (
    CONTAINERS,
    NUMBERS,
    TEMPORAL,
    Arithmetic,
    Compare,
    Const,
    Kind,
    Loose,
    Name,
    Node,
    Within,
)
from memory.model.knowledge import ColumnType, ToolProblem
from memory.model.knowledge_values import shortened, to_stored

_INT, _FLOAT, _STR, _BOOL = ColumnType.INT, ColumnType.FLOAT, ColumnType.STR, ColumnType.BOOL
_SPAN, _MOMENT, _DAY = ColumnType.TIMEDELTA, ColumnType.DATETIME, ColumnType.DATE
_WHOLE: Final = frozenset({_INT, _BOOL})
_ORDERS: Final = ("<", "<=", ">", ">=")


def named(node: Node) -> str:
    """An operand in a message."""
    kind = node.kind.value if node.kind is not None else "a mixture of types"
    if isinstance(node, Name):
        return f"{node.name} ({kind})"
    if isinstance(node, Const):
        return "None" if node.kind is Loose.NONE else f"{shortened(node.value)} ({kind})"
    return "an element of a list or dict" if kind == Loose.ANY else f"a value of type {kind}"


def common(operands: Sequence[Node]) -> Kind | None:
    """The type of what can be any one of these; None: there is none."""
    kinds = {operand.kind for operand in operands} - {Loose.NONE}
    if not kinds:
        return Loose.NONE
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= NUMBERS:
        return _FLOAT if _FLOAT in kinds else _INT
    return None


def comparison(op: str, left: Node, right: Node) -> Node:
    left, right = _fitted(left, right.kind), _fitted(right, left.kind)
    a, b = left.kind, right.kind
    if a is None or b is None:
        raise problem("the parts of and / or have different types, so their result cannot be compared; compare each of them")
    if Loose.NONE in (a, b):
        return Compare(op, left, right)
    if op in _ORDERS and CONTAINERS & {a, b}:
        raise problem(f"lists and dicts have no order: {named(left)} {op} {named(right)}")
    if a is b or {a, b} <= NUMBERS:
        return Compare(op, left, right)
    if Loose.ANY in (a, b) and not TEMPORAL & {a, b}:
        return Compare(op, left, right)
    hint = (
        "; write the text in ISO 8601, or compare str() of it"
        if TEMPORAL & {a, b}
        else "; convert one with int(), float() or str()"
    )
    raise problem(f"{named(left)} and {named(right)} are of different types, so {op} would always give the same{hint}")


def _fitted(node: Node, other: Kind | None) -> Node:
    """A text literal beside a date or time is one itself."""
    if isinstance(node, Const) and node.kind is _STR and isinstance(other, ColumnType) and other in TEMPORAL:
        try:
            return Const(to_stored(node.value, other), other)
        except ToolProblem as error:
            raise problem(error.message) from None
    return node


def arithmetic(op: str, left: Node, right: Node) -> Node:
    if op in ("+", "-"):
        left, right = _shifted(op, left, right)
    a, b = left.kind, right.kind
    kind = _arithmetic_kind(op, left, right)
    if kind is None:
        raise problem(f"{named(left)} {op} {named(right)} is not possible; {_hint(op, a, b)}")
    return Arithmetic(op, left, right, kind)


def _shifted(op: str, left: Node, right: Node) -> tuple[Node, Node]:
    """``due + "P7D"``, ``due - "2026-01-01"``."""
    if left.kind in TEMPORAL and isinstance(right, Const) and right.kind is _STR:
        duration = op == "+" or left.kind is _SPAN or right.value.lstrip("+- ").startswith("P")
        return left, _fitted(right, _SPAN if duration else left.kind)
    if right.kind in TEMPORAL and isinstance(left, Const) and left.kind is _STR:
        return _fitted(left, right.kind), right
    return left, right


def _arithmetic_kind(op: str, left: Node, right: Node) -> Kind | None:
    a, b = left.kind, right.kind
    if op == "+" and _STR in (a, b) and {a, b} <= {_STR, Loose.ANY}:
        return _STR
    if {a, b} <= NUMBERS | {Loose.ANY}:
        if op in ("//", "%") and not {a, b} <= _WHOLE:
            return None
        if op == "/" or not {a, b} <= _WHOLE:
            return _FLOAT
        if op == "**":
            return _INT if isinstance(right, Const) and right.value >= 0 else _FLOAT
        return _INT
    match op, a, b:
        case ("-", ColumnType.DATETIME, ColumnType.DATETIME) | ("-", ColumnType.DATE, ColumnType.DATE):
            return _SPAN
        case ("+" | "-", ColumnType.DATETIME | ColumnType.DATE | ColumnType.TIMEDELTA, ColumnType.TIMEDELTA):
            return a
        case ("+", ColumnType.TIMEDELTA, ColumnType.DATETIME | ColumnType.DATE):
            return b
        case ("*", ColumnType.TIMEDELTA, ColumnType.INT) | ("*", ColumnType.INT, ColumnType.TIMEDELTA):
            return _SPAN
        case ("/", ColumnType.TIMEDELTA, ColumnType.TIMEDELTA):
            return _FLOAT
        case _:
            return None


def _hint(op: str, a: Kind | None, b: Kind | None) -> str:
    if Loose.NONE in (a, b):
        return "it would always be None"
    if op in ("//", "%"):
        return f"{op} is for whole numbers; make them of others with int()"
    if op == "+" and _STR in (a, b):
        return "join texts with +, and make a text of a number with str()"
    return f"{op} is for numbers; texts are joined with +, dates and times take + and - with a timedelta such as 'P7D'"


_ARGUMENTS: Final = {"len": (1, 1), "str": (1, 1), "int": (1, 1), "float": (1, 1), "bool": (1, 1), "lower": (1, 1), "upper": (1, 1),
                     "strip": (1, 2), "startswith": (2, 2), "endswith": (2, 2)}  # fmt: skip
_RESULTS: Final = {"len": _INT, "int": _INT, "float": _FLOAT, "bool": _BOOL, "startswith": _BOOL, "endswith": _BOOL}


def call_kind(name: str, arguments: Sequence[Node]) -> Kind:
    least, most = _ARGUMENTS[name]
    if not least <= len(arguments) <= most:
        raise problem(f"{name}() has a wrong number of arguments")
    kind = arguments[0].kind
    if name == "len":
        taken = kind in {_STR, Loose.ANY, *CONTAINERS}
    elif name == "str":
        taken = kind is not None and kind not in {Loose.NONE, *CONTAINERS}
    elif name in ("int", "float"):
        taken = kind in {_STR, Loose.ANY, *NUMBERS}
    elif name == "bool":
        taken = True
    else:
        taken = all(argument.kind in (_STR, Loose.ANY) for argument in arguments)
    if not taken:
        raise problem(f"{name}() does not take {', '.join(named(argument) for argument in arguments)}")
    return _RESULTS.get(name, _STR)


def index_kind(operand: Node, index: Node) -> Kind:
    match operand.kind, index.kind:
        case (ColumnType.LIST, ColumnType.INT | ColumnType.BOOL) | (ColumnType.DICT, ColumnType.STR):
            return Loose.ANY
        case (Loose.ANY, ColumnType.INT | ColumnType.STR):
            return Loose.ANY
        case (ColumnType.STR, ColumnType.INT):
            return _STR
        case _:
            raise problem(f"{named(operand)}[{named(index)}] is not possible: lists and texts take an int, dicts a text")


def within(left: Node, right: Node) -> Node:
    """``left in right``, where the right side is no written list."""
    a, b = left.kind, right.kind
    if b is _STR:
        fits = a in (_STR, Loose.ANY)
    elif b is ColumnType.DICT:
        fits = a in (_STR, Loose.ANY, Loose.NONE)
    elif b in (ColumnType.LIST, Loose.ANY):
        fits = a is not None and a not in TEMPORAL
    else:
        fits = False
    if not fits:
        raise problem(f"{named(left)} in {named(right)} is not possible: in looks into a text for a text, a list, or a dict's keys")
    return Within(left, right)


def element(value: Any) -> Any:
    """A literal as the store holds such values. Raises ToolProblem for what it cannot hold."""
    kind = ColumnType.STR if isinstance(value, str) else ColumnType.LIST if isinstance(value, list) else ColumnType.DICT
    try:
        return to_stored(value, kind)
    except ToolProblem as error:
        raise problem(error.message) from None
