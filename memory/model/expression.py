"""The filter and equation language: Python expressions over column names, read into a small typed tree.

Two-valued: an operation on None gives None; a comparison with None is false but for ``==``, ``!=``, ``is`` and ``in``; ``not`` is
the plain negation. A division by zero, a conversion that fails, an int beyond 64 bits and an element that is not there give None.
In lists and dicts true and false are no numbers. ``int ** column`` is a float. All else is as in Python, or refused.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from memory.model.expression_text import not_allowed, problem, syntax_tree
from memory.model.expression_tree import (
    NUMBERS,
    Call,
    Compare,
    Const,
    Either,
    Expression,
    Index,
    IsNone,
    Kind,
    Loose,
    Name,
    Negative,
    Node,
    Not,
    OneOf,
)
from memory.model.expression_types import arithmetic, call_kind, common, comparison, element, index_kind, named, within
from memory.model.knowledge import ColumnType, ToolProblem
from memory.model.knowledge_names import normal_name
from memory.model.knowledge_values import MAX_INT, MIN_INT

__all__ = ["Expression", "parse_expression"]

MAX_NODES: Final = 2_000
MAX_DEPTH: Final = 40
MAX_NAMES: Final = 100

FUNCTIONS: Final = ("len", "str", "int", "float", "bool")
METHODS: Final = ("lower", "upper", "strip", "startswith", "endswith")
_OPERATORS: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
_COMPARISONS: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_CONSTRUCTS: Final[Mapping[type[ast.AST], str]] = {
    ast.Lambda: "lambda", ast.IfExp: "if … else", ast.ListComp: "a comprehension", ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension", ast.GeneratorExp: "a comprehension", ast.JoinedStr: "an f-string", ast.Slice: "a slice",
    ast.NamedExpr: ":=", ast.Starred: "*", ast.Await: "await", ast.Yield: "yield",
}  # fmt: skip


def parse_expression(
    text: str,
    columns: Mapping[str, ColumnType],
    *,
    what: str = "filter",
    aliases: Mapping[str, str] | None = None,
    alone: Mapping[str, str] | None = None,
) -> Expression:
    """Read an expression over these columns.

    Args:
        columns: name (in a join ``table.column``) → type.
        what: how a message calls it.
        aliases: names of tables, as a join has them → the identifier that stands for them in ``columns``.
        alone: further names for columns → the name in ``columns``.

    Raises:
        ToolProblem: ``bad_expression`` with what is allowed, ``unknown_column`` with what there is.
    """
    try:
        reader = _Reader(columns, alone or {})
        node = reader.node(syntax_tree(text, aliases), 0)
    except ToolProblem as error:
        raise ToolProblem(error.code, f"{what}: {error.message}") from None
    if len(reader.names) > MAX_NAMES:
        raise problem(f"{what}: at most {MAX_NAMES} columns in one expression")
    return Expression(node, frozenset(reader.names))


class _Reader:
    def __init__(self, columns: Mapping[str, ColumnType], alone: Mapping[str, str]) -> None:
        self._columns = columns
        self._alone = alone
        self._nodes = 0
        self.names = set[str]()

    def node(self, tree: ast.AST, depth: int) -> Node:
        self._count(1, depth)
        depth += 1
        match tree:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Name(id=name):
                return self._column(name)
            case ast.Set(elts=[ast.Name() | ast.Attribute() as name]):
                return self.node(name, depth)
            case ast.Attribute():
                name = _dotted(tree)
                if normal_name(name) not in self._columns and normal_name(name.split(".")[0]) in self._columns:
                    raise not_allowed(name)
                return self._column(name)
            case ast.List() | ast.Dict():
                return _container(tree)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self.node(operand, depth))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return _int(-value)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
                return self._signed(self.node(operand, depth), isinstance(op, ast.USub))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return arithmetic(_OPERATORS[type(op)], self.node(left, depth), self.node(right, depth))
            case ast.BoolOp(op=op, values=values):
                operands = tuple(self.node(value, depth) for value in values)
                return Either("and" if isinstance(op, ast.And) else "or", operands, common(operands))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self._chain([left, *comparators], ops, depth)
            case ast.Call():
                return self._call(tree, depth)
            case ast.Subscript(value=value, slice=index) if not isinstance(index, ast.Slice | ast.Tuple):
                operand, at = self.node(value, depth), self.node(index, depth)
                return Index(operand, at, index_kind(operand, at))
            case _:
                raise not_allowed(_CONSTRUCTS.get(type(tree), _shown(tree)))

    def _count(self, parts: int, depth: int) -> None:
        self._nodes += parts
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise problem(f"the expression is too large: at most {MAX_NODES} parts, {MAX_DEPTH} deep in each other")

    def _column(self, name: str) -> Node:
        name = normal_name(name)
        name = self._alone.get(name, name)
        type_ = self._columns.get(name)
        if type_ is None:
            known = ", ".join(self._columns)
            raise ToolProblem("unknown_column", f"there is no column {name[:100]}; the columns are: {known[:1_000]}")
        if type_ is ColumnType.VECTOR:
            raise problem(f"{name} is a vector: it is searched, not compared")
        self.names.add(name)
        return Name(name, type_)

    @staticmethod
    def _signed(operand: Node, negative: bool) -> Node:
        if isinstance(operand, Const) and operand.kind in NUMBERS:
            value = -operand.value if negative else operand.value
            return Const(value, ColumnType.FLOAT) if operand.kind is ColumnType.FLOAT else _int(value)
        kind = operand.kind
        if kind is Loose.ANY:
            kind = ColumnType.FLOAT
        elif kind is ColumnType.BOOL:
            kind = ColumnType.INT
        if kind is None or (kind not in NUMBERS and not (negative and kind is ColumnType.TIMEDELTA)):
            raise problem(f"a sign is for numbers, not for {named(operand)}")
        # A plus on a dict's element makes a number of it, too.
        return Negative(operand, kind) if negative else arithmetic("+", Const(0, ColumnType.INT), operand)

    def _chain(self, trees: Sequence[ast.expr], ops: Sequence[ast.cmpop], depth: int) -> Node:
        links = list[Node]()
        left: Node | None = None
        for number, op in enumerate(ops):
            first = left if left is not None else self.node(trees[number], depth)
            if isinstance(op, ast.In | ast.NotIn):
                link, left = self._in(first, trees[number + 1], depth), None
                links.append(Not(link) if isinstance(op, ast.NotIn) else link)
                if number + 1 < len(ops):
                    raise problem("`in` in a chain of comparisons is not allowed; join comparisons with and")
                continue
            before = self._nodes
            left = self.node(trees[number + 1], depth)
            if number + 1 < len(ops):  # it is written twice, and what is in it, too
                self._count(self._nodes - before, depth)
            if isinstance(op, ast.Is | ast.IsNot):
                link = _identity(first, left)
                links.append(Not(link) if isinstance(op, ast.IsNot) else link)
            else:
                links.append(comparison(_COMPARISONS[type(op)], first, left))
        return links[0] if len(links) == 1 else Either("and", tuple(links), ColumnType.BOOL)

    def _in(self, left: Node, tree: ast.expr, depth: int) -> Node:
        match tree:
            case ast.Set(elts=[ast.Name() | ast.Attribute()]):
                return within(left, self.node(tree, depth))
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._one_of(left, [self.node(item, depth) for item in items])
            case _:
                return within(left, self.node(tree, depth))

    @staticmethod
    def _one_of(left: Node, items: Sequence[Node]) -> Node:
        """Elements of another type are none of it; where all are, somebody has made a mistake."""
        fitting = list[Node]()
        mistake: ToolProblem | None = None
        for item in items:
            try:
                same = comparison("==", left, item)
            except ToolProblem as error:
                mistake = error
                continue
            fitting.append(cast("Compare", same).right)
        if mistake is not None and not fitting:
            raise mistake
        return OneOf(left, tuple(fitting))

    def _call(self, tree: ast.Call, depth: int) -> Node:
        if tree.keywords:
            raise not_allowed("a keyword argument")
        match tree.func:
            case ast.Name(id=name) if name in FUNCTIONS:
                arguments = tree.args
            case ast.Attribute(value=value, attr=name) if name in METHODS:
                arguments = [value, *tree.args]
            case func:
                raise not_allowed(f"{_shown(func)}()")
        if name in ("startswith", "endswith") and len(arguments) == 2 and isinstance(arguments[1], ast.Tuple):
            texts = [self._made(name, [arguments[0], item], depth) for item in arguments[1].elts]
            return Either("or", tuple(texts), ColumnType.BOOL) if texts else Const(0, ColumnType.BOOL)
        return self._made(name, arguments, depth)

    def _made(self, name: str, arguments: Sequence[ast.expr], depth: int) -> Node:
        nodes = tuple(self.node(argument, depth) for argument in arguments)
        return Call(name, nodes, call_kind(name, nodes))


def _identity(left: Node, right: Node) -> Node:
    match left, right:
        case (_, Const(kind=Loose.NONE)):
            return IsNone(left)
        case (Const(kind=Loose.NONE), _):
            return IsNone(right)
        case (_, Const(kind=ColumnType.BOOL)) if left.kind in (ColumnType.BOOL, Loose.ANY):
            return comparison("==", left, right)
        case _:
            raise problem("`is` is for None (x is None, x is not None); compare values with ==")


def _constant(value: Any) -> Const:
    if value is None:
        return Const(None, Loose.NONE)
    if isinstance(value, bool):
        return Const(int(value), ColumnType.BOOL)
    if isinstance(value, int):
        return _int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise problem("infinity is not a number here")
        return Const(value, ColumnType.FLOAT)
    if isinstance(value, str):
        element(value)
        return Const(value, ColumnType.STR)
    raise not_allowed("…" if value is ... else f"a literal of type {type(value).__name__}")


def _int(value: int) -> Const:
    if not MIN_INT <= value <= MAX_INT:
        raise problem("an int is at most 64 bits")
    return Const(int(value), ColumnType.INT)


def _container(tree: ast.List | ast.Dict) -> Const:
    """A list or dict of literals."""
    try:
        value = ast.literal_eval(tree)
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise not_allowed("a list or dict of anything but literals") from None
    return Const(element(value), ColumnType.LIST if isinstance(value, list) else ColumnType.DICT)


def _dotted(tree: ast.expr) -> str:
    match tree:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{_dotted(value)}.{attr}"
        case _:
            raise not_allowed(f"an attribute of {_shown(tree)}")


def _shown(tree: ast.AST) -> str:
    return ast.unparse(tree)[:100]


def kind_of(expression: Expression, *, what: str = "equation") -> ColumnType:
    """The type of a column that holds its values. Raises ToolProblem where they have no one type."""
    kind: Kind | None = expression.type
    if isinstance(kind, ColumnType):
        return kind
    if kind is Loose.NONE:
        raise problem(f"{what}: its value is always None, which gives a column no type")
    say = "say which with str(), int(), float() or bool()"
    if kind is Loose.ANY:
        raise problem(f"{what}: an element of a list or dict can be of any type; {say}")
    raise problem(f"{what}: the parts of and / or are of different types; {say}")
