"""Expressions on SQLite. What SQLite computes as Python does is plain SQL; whatever else goes to the function ``knowledge_value``.

SQLite's parser takes about 30 parentheses in each other, so what lies deep goes to the function too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from sqlalchemy import BigInteger, ColumnElement, Double, Text, and_, bindparam, false, func, literal, null, or_, true
from sqlalchemy.types import TypeEngine

from memory.model.expression_tree import (
    CONTAINERS,
    NUMBERS,
    TEMPORAL,
    Arithmetic,
    Call,
    Compare,
    Const,
    Either,
    IsNone,
    Loose,
    Name,
    Negative,
    Node,
    Not,
    OneOf,
    Within,
)
from memory.model.knowledge import ColumnType
from memory.model.text_space import WHITESPACE
from memory.stores.tables.fragments import Fragment
from memory.stores.tables.sqlite_functions import program

MAX_DEPTH: Final = 8
MAX_CHAIN: Final = 8
"""Operands of a sum or product of ints that is written twice, to see whether it stayed an int."""
MAX_POWERS: Final = 3
"""In each other: the SQL names an operand that may be infinite twice."""
_STR, _INT, _FLOAT, _BOOL = ColumnType.STR, ColumnType.INT, ColumnType.FLOAT, ColumnType.BOOL
_WHOLE: Final = frozenset({_INT, _BOOL})
_OPEN: Final = frozenset({*CONTAINERS, Loose.ANY, None})
_SMALL: Final = 2**31


class SqliteCompiler:
    def __init__(self, columns: Mapping[str, ColumnElement[Any]]) -> None:
        self._columns = columns

    def stored(self, node: Node) -> ColumnElement[Any]:
        value = self.value(node)
        if node.kind is not _FLOAT or isinstance(node, Name | Const):
            return value
        return Fragment("(CASE WHEN abs({0}) <= 1.7976931348623157e308 THEN {0} END)", [value], type_=Double())

    def value(self, node: Node, depth: int = 0) -> ColumnElement[Any]:
        native = self._native(node, depth + 1) if depth < MAX_DEPTH else None
        return self._called(node) if native is None else native

    def condition(self, node: Node, depth: int = 0) -> ColumnElement[bool]:
        found = self._condition(node, depth + 1) if depth < MAX_DEPTH else None
        if found is not None:
            return found
        asked = node if node.kind is _BOOL else Call("bool", (node,), _BOOL)
        return self._called(asked) == literal(1, BigInteger)

    def _called(self, node: Node) -> ColumnElement[Any]:
        """By the function; the columns that the node speaks of are its arguments."""
        kinds: dict[str, Any] = {}
        _names(node, kinds)
        names = sorted(kinds)
        text = program(node, names, [name for name in names if kinds[name] in CONTAINERS])
        return func.knowledge_value(
            bindparam(None, text, Text(), unique=True), *(self._columns[name] for name in names), type_=_type(node)
        )

    # ------------------------------------------------------------------------------------------------------------ conditions

    def _condition(self, node: Node, depth: int) -> ColumnElement[bool] | None:
        match node:
            case Const(kind=kind, value=value) if kind not in _OPEN:
                return true() if value else false()
            case Not(operand=operand):
                return Fragment("({0} IS NOT TRUE)", [self.condition(operand, depth)])
            case Either(op=op, operands=operands):
                parts = [self.condition(operand, depth) for operand in operands]
                return and_(*parts) if op == "and" else or_(*parts)
            case IsNone(operand=operand) if operand.kind not in _OPEN or isinstance(operand, Name):
                return self.value(operand, depth).is_(None)
            case Compare():
                return self._compare(node, depth)
            case OneOf(left=left, items=items) if left.kind not in _OPEN and _are_literals(items):
                return self._one_of(self.value(left, depth), cast("Sequence[Const]", items))
            case Within(left=left, right=right) if left.kind is _STR and right.kind is _STR:
                return func.instr(self.value(right, depth), self.value(left, depth)) > 0
            case Call(name="startswith" | "endswith" as name, arguments=(text, Const(value=str() as part))) if text.kind is _STR:
                whole = self.value(text, depth)
                if not part:
                    return whole.is_not(None)
                at = [literal(len(part), BigInteger)] if name == "startswith" else []
                start = literal(1 if name == "startswith" else -len(part), BigInteger)
                return func.substr(whole, start, *at) == literal(part, Text)
            case Call(name="bool", arguments=(operand,)):
                return self._condition(operand, depth)
            case Name(kind=kind) | Arithmetic(kind=kind) | Negative(kind=kind) | Call(kind=kind) if kind not in _OPEN:
                value = self.value(node, depth)
                if kind is _STR:
                    return value != literal("", Text)
                if kind in TEMPORAL and kind is not ColumnType.TIMEDELTA:
                    return value.is_not(None)
                return value != literal(0, BigInteger)
            case _:
                return None

    def _compare(self, node: Compare, depth: int) -> ColumnElement[bool] | None:
        kinds = {node.left.kind, node.right.kind}
        if Loose.NONE in kinds:
            return None
        if kinds & _OPEN or not (len(kinds) == 1 or kinds <= NUMBERS):
            return None
        left, right = self.value(node.left, depth), self.value(node.right, depth)
        known = any(isinstance(side, Const) for side in (node.left, node.right))
        match node.op:
            case "==":
                return left == right if known else Fragment("({0} IS {1})", [left, right])
            case "!=":
                return Fragment("({0} IS NOT {1})", [left, right])
            case op:
                return left.op(op, is_comparison=True)(right)

    @staticmethod
    def _one_of(left: ColumnElement[Any], items: Sequence[Const]) -> ColumnElement[bool]:
        found = left.in_([_literal(item) for item in items if item.value is not None])
        return or_(found, left.is_(None)) if any(item.value is None for item in items) else found

    # ---------------------------------------------------------------------------------------------------------------- values

    def _native(self, node: Node, depth: int) -> ColumnElement[Any] | None:
        match node:
            case Name(name=name):
                return self._columns[name]
            case Const(kind=Loose.NONE):
                return null()
            case Const(kind=kind) if kind not in _OPEN:
                return _literal(node)
            case Compare() | OneOf() | Within() | IsNone() | Not():
                found = self._condition(node, depth)
                return None if found is None else Fragment("(CASE WHEN {0} THEN 1 ELSE 0 END)", [found], type_=BigInteger())
            case Arithmetic(op="+", kind=ColumnType.STR, left=left, right=right) if left.kind is right.kind:
                return Fragment("({0} || {1})", [self.value(left, depth), self.value(right, depth)], type_=Text())
            case Arithmetic(kind=ColumnType.FLOAT):
                return self._float(node, depth)
            case Arithmetic(kind=ColumnType.INT, op="%", left=left, right=Const(value=int() as by)) if 0 < by < _SMALL:
                number, by_ = self.value(left, depth), literal(by, BigInteger)
                return Fragment("((({0} % {1}) + {1}) % {1})", [number, by_], type_=BigInteger())
            case Arithmetic(kind=ColumnType.INT) | Negative(kind=ColumnType.INT):
                chain = self._chain(node, [])
                if chain is None:
                    return None
                return Fragment("(CASE typeof({0}) WHEN 'integer' THEN {0} END)", [chain], type_=BigInteger())
            case Negative(kind=ColumnType.FLOAT, operand=operand) if operand.kind is _FLOAT:
                return Fragment("(-{0})", [self.value(operand, depth)], type_=Double())
            case Call(name=name, arguments=arguments):
                return self._call(name, arguments, depth)
            case _:
                return None

    def _float(self, node: Arithmetic, depth: int) -> ColumnElement[Any] | None:
        left, right = node.left, node.right
        if node.op not in ("+", "-", "*", "/", "**") or not {left.kind, right.kind} <= NUMBERS:
            return None
        if node.op == "**" and _powers(node) > MAX_POWERS:
            return None
        a, b = self._real(left, depth), self._real(right, depth)
        if node.op == "**":
            return self._power(node, a, b)
        return Fragment(f"({{0}} {node.op} {{1}})", [a, b], type_=Double())

    def _power(self, node: Arithmetic, a: ColumnElement[Any], b: ColumnElement[Any]) -> ColumnElement[Any]:
        """Of finite numbers C's own, as in Python: where the result is not finite it is None. Infinity goes to the function."""
        power = Fragment("nullif(nullif(pow({0}, {1}), 9e999), -9e999)", [a, b], type_=Double())
        open_ = [one for one, side in ((a, node.left), (b, node.right)) if not _is_finite(side)]
        if not open_:
            return power
        infinite = " OR ".join(f"abs({{{number}}}) > 1.7976931348623157e308" for number in range(2, 2 + len(open_)))
        return Fragment(f"(CASE WHEN {infinite} THEN {{0}} ELSE {{1}} END)", [self._called(node), power, *open_], type_=Double())

    def _real(self, node: Node, depth: int) -> ColumnElement[Any]:
        """An int becomes a float before it is computed with, as in Python."""
        if isinstance(node, Const):
            return literal(float(node.value), Double)
        value = self.value(node, depth)
        return value if node.kind is _FLOAT else Fragment("CAST({0} AS REAL)", [value], type_=Double())

    def _chain(self, node: Node, leaves: list[Node]) -> ColumnElement[Any] | None:
        """Sums and products of ints. SQLite makes a float of what is too large, and all that is computed from it is a float."""
        match node:
            case Arithmetic(op="+" | "-" | "*" as op, kind=ColumnType.INT, left=left, right=right):
                one, other = self._chain(left, leaves), self._chain(right, leaves)
                if one is None or other is None:
                    return None
                return Fragment(f"({{0}} {op} {{1}})", [one, other], type_=BigInteger())
            case Arithmetic(op="**", kind=ColumnType.INT, left=left, right=Const(value=int() as times)) if 0 < times <= MAX_CHAIN:
                factors: list[ColumnElement[Any]] = []
                while len(factors) < times and (factor := self._chain(left, leaves)) is not None:
                    factors.append(factor)
                if len(factors) < times:
                    return None
                return Fragment(f"({' * '.join(f'{{{number}}}' for number in range(times))})", factors, type_=BigInteger())
            case Negative(kind=ColumnType.INT, operand=operand) if operand.kind in _WHOLE:
                one = self._chain(operand, leaves)
                return None if one is None else Fragment("(-{0})", [one], type_=BigInteger())
            case Name(kind=ColumnType.INT | ColumnType.BOOL) | Const(kind=ColumnType.INT | ColumnType.BOOL):
                leaves.append(node)
                return self.value(node) if len(leaves) <= MAX_CHAIN else None
            case _:
                return None

    def _call(self, name: str, arguments: Sequence[Node], depth: int) -> ColumnElement[Any] | None:
        first = arguments[0]
        if name == "bool":
            found = self._condition(first, depth)
            return None if found is None else Fragment("(CASE WHEN {0} THEN 1 ELSE 0 END)", [found], type_=BigInteger())
        if any(argument.kind is not _STR for argument in arguments):
            return self._converted(name, first, depth)
        values = [self.value(argument, depth) for argument in arguments]
        match name:
            case "len":
                return func.length(values[0], type_=BigInteger())
            case "lower":
                return func.knowledge_lower(values[0], type_=Text())
            case "upper":
                return func.knowledge_upper(values[0], type_=Text())
            case "strip":
                return func.trim(values[0], values[1] if len(values) > 1 else literal(WHITESPACE, Text), type_=Text())
            case "str":
                return values[0]
            case _:
                return None

    def _converted(self, name: str, node: Node, depth: int) -> ColumnElement[Any] | None:
        match name, node.kind:
            case ("int", ColumnType.INT | ColumnType.BOOL) | ("float", ColumnType.FLOAT):
                return self.value(node, depth)
            case ("float", ColumnType.INT | ColumnType.BOOL):
                return self._real(node, depth)
            case ("str", ColumnType.INT):
                return Fragment("CAST({0} AS TEXT)", [self.value(node, depth)], type_=Text())
            case _:
                return None


def _names(node: Any, kinds: dict[str, Any]) -> None:
    if isinstance(node, Name):
        kinds[node.name] = node.kind
    for part in ("operand", "left", "right", "index"):
        if (one := getattr(node, part, None)) is not None:
            _names(one, kinds)
    for part in ("operands", "items", "arguments"):
        for one in getattr(node, part, ()):
            _names(one, kinds)


def _powers(node: Node) -> int:
    """Powers of floats in each other, among what is added, multiplied and raised."""
    match node:
        case Arithmetic(op=op, kind=kind, left=left, right=right):
            return max(_powers(left), _powers(right)) + (op == "**" and kind is _FLOAT)
        case Negative(operand=operand):
            return _powers(operand)
        case _:
            return 0


def _is_finite(node: Node) -> bool:
    """Columns hold no infinity, and ints become none."""
    return isinstance(node, Name | Const) or node.kind in _WHOLE


def _are_literals(items: Sequence[Node]) -> bool:
    return all(isinstance(item, Const) and item.kind not in _OPEN for item in items)


def _type(node: Node) -> TypeEngine[Any]:
    return Text() if node.kind in (_STR, *CONTAINERS, Loose.ANY) else Double() if node.kind is _FLOAT else BigInteger()


def _literal(node: Const) -> ColumnElement[Any]:
    return literal(node.value, _type(node))
