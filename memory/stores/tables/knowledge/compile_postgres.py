"""Expressions on PostgreSQL, whole in SQL.

A value that is needed twice is worked out once, in a subquery without a table (``OFFSET 0`` keeps the planner from writing it out
again). Texts are compared under ``COLLATE "C"``, by code point as in Python; the case of letters is ICU's, which knows Unicode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from sqlalchemy import BigInteger, BindParameter, ColumnElement, Double, Text, and_, false, literal, null, or_, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.elements import ColumnClause

from memory.model.expression_tree import (
    CONTAINERS,
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
from memory.stores.tables.fragments import Fragment
from memory.stores.tables.knowledge import compile_postgres_json as js
from memory.stores.tables.knowledge import compile_postgres_numbers as numbers
from memory.stores.tables.knowledge import compile_postgres_text as texts
from memory.stores.tables.knowledge.compile_let import Element, compared

_STR, _INT, _FLOAT, _BOOL, _ANY = ColumnType.STR, ColumnType.INT, ColumnType.FLOAT, ColumnType.BOOL, Loose.ANY
_WHOLE: Final = frozenset({_INT, _BOOL})
_JSON: Final = frozenset({*CONTAINERS, _ANY})


class PostgresCompiler:
    def __init__(self, columns: Mapping[str, Element], *, safe: bool) -> None:
        self._columns = dict(columns)
        self._safe = safe
        self._lets = 0

    def let(self, value: Element, body: Callable[[Element], Element]) -> Element:
        return self._let([value], body)

    def let2(self, a: Element, b: Element, body: Callable[[Element, Element], Element]) -> Element:
        return self._let([a, b], body)

    def _let(self, values: Sequence[Element], body: Callable[..., Element]) -> Element:
        if all(map(_is_cheap, values)):
            return body(*values)
        self._lets += 1
        name = f"let_{self._lets}"
        refs = [Fragment(f"{name}.v{number}", type_=value.type) for number, value in enumerate(values)]
        inner = body(*refs)
        listed = ", ".join(f"{{{number + 1}}} AS v{number}" for number in range(len(values)))
        template = f"(SELECT {{0}} FROM (SELECT {listed} OFFSET 0) AS {name})"  # noqa: S608 - numbers of its own only
        return Fragment(template, [inner, *values], type_=inner.type)

    def stored(self, node: Node) -> Element:
        value = self.value(node)
        if node.kind is not _FLOAT or isinstance(node, Name | Const):
            return value
        return self.let(
            value, lambda v: Fragment("(CASE WHEN abs({0}) <= 1.7976931348623157e308 THEN {0} END)", [v], type_=Double())
        )

    # ---------------------------------------------------------------------------------------------------------------- values

    def value(self, node: Node) -> Element:
        match node:
            case Const(kind=Loose.NONE):
                return null()
            case Const(value=value, kind=kind):
                return _literal(value, kind)
            case Name(name=name):
                return self._columns[name]
            case Negative(operand=operand, kind=kind):
                return numbers.negative(self, self._number(operand, kind), kind, safe=self._safe)
            case Arithmetic():
                return self._arithmetic(node)
            case Either(op=op, operands=operands, kind=kind) if kind is not None:
                return self._either(op, operands, kind)
            case Call(name="startswith" | "endswith", kind=kind):
                return Fragment("(({0})::int::bigint)", [self.condition(node)], type_=BigInteger())
            case Call(name=name, arguments=arguments) if name != "bool":
                return self._call(name, arguments)
            case Index(operand=operand, index=index):
                return js.index(self, self.value(operand), operand.kind, self.value(index), index.kind)
            case _:
                return Fragment("(CASE WHEN {0} THEN 1::bigint ELSE 0::bigint END)", [self.condition(node)], type_=BigInteger())

    def _number(self, node: Node, kind: Kind) -> Element:
        """As an operand of arithmetic in this kind."""
        value = self.value(node)
        if node.kind is _ANY:
            return self.let(value, js.as_float)
        if kind is _FLOAT and node.kind in _WHOLE:
            return literal(float(node.value), Double) if isinstance(node, Const) else _cast(value, "float8", Double())
        return value

    def _arithmetic(self, node: Arithmetic) -> Element:
        left, right, kind = node.left, node.right, node.kind
        if kind is _STR:
            return Fragment("({0} || {1})", [self.text(left), self.text(right)], type_=Text())
        if kind is _INT:
            return numbers.arithmetic(self, node.op, self.value(left), self.value(right), _known(right), safe=self._safe)
        if kind is _FLOAT and left.kind is ColumnType.TIMEDELTA:
            spans = [_cast(self.value(side), "float8", Double()) for side in (left, right)]
            return Fragment("({0} / NULLIF({1}, 0))", spans, type_=Double())
        if kind is _FLOAT:
            a, b = self._number(left, kind), self._number(right, kind)
            return numbers.floats(self, node.op, a, b, _known(right), safe=self._safe)
        return numbers.shifted(self, node.op, self.value(left), left.kind, self.value(right), right.kind, kind, safe=self._safe)

    def _either(self, op: str, operands: Sequence[Node], kind: Kind) -> Element:
        """As one CASE, however many there are: the first that decides, else the last."""
        deciding: list[Node] = []
        for operand in operands:
            if operand.kind is not Loose.NONE or operand is operands[-1]:
                deciding.append(operand)
            elif op == "and":  # None decides, whatever follows
                deciding.append(operand)
                break
        values = [self._operand(one, kind) for one in deciding]
        kinds = [kind if kind in NUMBERS else one.kind for one in deciding]
        if len(values) == 1:
            return values[0]
        test = "{%d}" if op == "or" else "{%d} IS NOT TRUE"

        def chosen(*refs: Element) -> Element:
            last = len(refs) - 1
            tests = [self.truth(ref, one) for ref, one in zip(refs[:-1], kinds[:-1], strict=True)]
            cases = " ".join(f"WHEN {test % (last + 1 + number)} THEN {{{number}}}" for number in range(last))
            return Fragment(f"(CASE {cases} ELSE {{{last}}} END)", [*refs, *tests], type_=refs[0].type)

        return self._let(values, chosen)

    def _operand(self, node: Node, kind: Kind) -> Element:
        if node.kind is Loose.NONE:
            return Fragment("NULL")
        return self._number(node, kind) if kind in NUMBERS else self.value(node)

    def _call(self, name: str, arguments: Sequence[Node]) -> Element:
        first = arguments[0]
        if name in ("lower", "upper", "strip"):
            return texts.method(name, [self.text(argument) for argument in arguments])
        value, kind = self.value(first), first.kind
        if kind in _JSON:
            return self.let(value, lambda v: js.converted(self, name, v, kind))
        if name == "len":
            return Fragment("(length({0})::bigint)", [value], type_=BigInteger())
        return texts.converted(self, name, value, cast("Kind", kind))

    def text(self, node: Node) -> Element:
        value = self.value(node)
        return self.let(value, js.as_text) if node.kind is _ANY else value

    # ------------------------------------------------------------------------------------------------------------ conditions

    def condition(self, node: Node) -> ColumnElement[bool]:
        match node:
            case Const(value=value, kind=kind):
                holds = value is not None if kind in TEMPORAL and kind is not ColumnType.TIMEDELTA else bool(value)
                return true() if holds else false()
            case Not(operand=operand):
                return Fragment("({0} IS NOT TRUE)", [self.condition(operand)])
            case Either(op=op, operands=operands):
                parts = [self.condition(operand) for operand in operands]
                return and_(*parts) if op == "and" else or_(*parts)
            case IsNone(operand=operand):
                return self.value(operand).is_(None)
            case Compare():
                return self._compare(node)
            case OneOf(left=left, items=items):
                return self._one_of(left, items)
            case Within(left=left, right=right):
                return self._within(left, right)
            case Call(name="bool", arguments=(operand,)):
                return self.condition(operand)
            case Call(name="startswith" | "endswith" as name, arguments=(whole, part)):
                a, b = self.text(whole), self.text(part)
                if name == "startswith":
                    return Fragment("starts_with({0}, {1})", [a, b])
                ends = self.let(b, lambda end: Fragment("(right({0}, length({1})) = {1})", [a, end]))
                return cast("ColumnElement[bool]", ends)
            case _:
                return self.truth(self.value(node), node.kind)

    def truth(self, value: Element, kind: Kind | None) -> ColumnElement[bool]:
        if kind is _STR:
            return Fragment("({0} <> '')", [value])
        if kind in _JSON:
            return Fragment("({0} NOT IN ('false'::jsonb, '0'::jsonb, '\"\"'::jsonb, '[]'::jsonb, '{}'::jsonb))", [value])
        if kind in TEMPORAL and kind is not ColumnType.TIMEDELTA:
            return value.is_not(None)
        return Fragment("({0} <> 0)", [value])

    def _compare(self, node: Compare) -> ColumnElement[bool]:
        left, right, op = node.left, node.right, node.op
        if Loose.NONE in (left.kind, right.kind):
            if op not in ("==", "!="):
                return false()
            other = self.value(left if right.kind is Loose.NONE else right)
            return other.is_(None) if op == "==" else other.is_not(None)
        if {left.kind, right.kind} & _JSON:
            return js.compared(self, op, self.value(left), left.kind, self.value(right), right.kind)
        if left.kind is not right.kind and _FLOAT in (left.kind, right.kind):
            return numbers.mixed(self, op, self.value(left), left, self.value(right), right)
        known = isinstance(left, Const) or isinstance(right, Const)
        return compared(op, self.value(left), self.value(right), collate=left.kind is _STR, known=known)

    def _one_of(self, left: Node, items: Sequence[Node]) -> ColumnElement[bool]:
        plain = [item for item in items if isinstance(item, Const) and item.kind is left.kind and left.kind not in _JSON]
        others = [item for item in items if not any(item is one for one in plain)]
        if len(others) + bool(plain) > 1 and not isinstance(left, Name):
            return cast("ColumnElement[bool]", self.let(self.value(left), lambda v: self._one_of(self._named(v, left.kind), items)))
        found: list[ColumnElement[bool]] = [self._compare(Compare("==", left, item)) for item in others]
        if plain:
            found.insert(0, self.value(left).in_([_literal(item.value, item.kind) for item in plain]))
        return or_(*found) if found else false()

    def _named(self, value: Element, kind: Kind | None) -> Name:
        """A value that is worked out as a column, which no column is called."""
        name = f"#{len(self._columns)}"
        self._columns[name] = value
        return Name(name, cast("Kind", kind))

    def _within(self, left: Node, right: Node) -> ColumnElement[bool]:
        if right.kind is _STR:
            return Fragment("(strpos({1}, {0}) > 0)", [self.text(left), self.value(right)])
        return js.within(self, self.value(left), left.kind, self.value(right), right.kind)


def _is_cheap(value: Element, within: bool = True) -> bool:
    """Whether it may as well be worked out again: a column, a parameter, a reference, or little more than that."""
    if isinstance(value, Fragment):
        little = within and len(value.template) <= 24 and len(value.parts) <= 2
        return not value.parts or (little and all(_is_cheap(part, within=False) for part in value.parts))
    return isinstance(value, ColumnClause | BindParameter)


def _known(node: Node) -> int | float | None:
    return node.value if isinstance(node, Const) else None


def _cast(value: Element, type_name: str, type_: Any) -> Element:
    return Fragment(f"({{0}})::{type_name}", [value], type_=type_)


def _literal(value: Any, kind: Kind | None) -> Element:
    if kind is _STR:
        return literal(value, Text)
    if kind in CONTAINERS:
        return literal(value, JSONB)
    return literal(value, Double if kind is _FLOAT else BigInteger)
