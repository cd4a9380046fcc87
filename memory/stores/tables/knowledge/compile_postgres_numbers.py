"""Numbers on PostgreSQL as in Python. What would be an error of the database is None.

The quick form leaves ranges to the database, which then fails (SQLSTATE class 22), and the statement is run again in the safe form.
"""

from __future__ import annotations

import math
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Double, false, literal, true

from memory.model.expression_tree import Const, Kind, Node
from memory.model.expression_value import RANGES
from memory.model.knowledge import ColumnType
from memory.model.knowledge_values import DAY_US, MAX_INT, MIN_INT
from memory.stores.tables.knowledge.compile_let import Element, Letting, compared, exact, holds, real, whole

_EXACT_FLOAT: Final = 2**53
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_MOST_LOG: Final = "709.78271289"
"""A little below the logarithm of the largest float; computed logarithms are that inexact."""
_LEAST_LOG: Final = "-745.1331"


def ranged(to: Letting, number: Element, kind: Kind) -> Element:
    """A numeric or bigint as bigint, None where it is beyond what the kind can hold."""
    least, most = RANGES.get(kind, (MIN_INT, MAX_INT))
    return to.let(number, lambda n: whole(f"(CASE WHEN {{0}} BETWEEN {least} AND {most} THEN {{0}}::bigint END)", n))


def negative(to: Letting, value: Element, kind: Kind, *, safe: bool) -> Element:
    if kind is ColumnType.FLOAT:
        return real("(-{0})", value)
    return ranged(to, exact("(-({0}::numeric))", value), kind) if safe else whole("(-{0})", value)


def arithmetic(to: Letting, op: str, a: Element, b: Element, known: Any, *, safe: bool) -> Element:
    """Of ints. ``known``: the right side, where it is a literal."""
    if op == "**":
        return _whole_power(to, a, int(known), safe=safe)
    if op == "%":
        remainder = "mod({0}, {1})"
        fixed = f"(CASE WHEN {remainder} <> 0 AND ({remainder} < 0) <> ({{1}} < 0) THEN {remainder} + {{1}} ELSE {remainder} END)"
        return to.let2(a, whole("NULLIF({0}, 0)", b), lambda x, y: whole(fixed, x, y))
    if op == "//" and safe:
        one, other = exact("({0}::numeric)", a), exact("NULLIF({0}::numeric, 0)", b)
        return ranged(to, to.let2(one, other, _floor_division), ColumnType.INT)
    if op == "//":
        floor = "({0} / {1} - (CASE WHEN mod({0}, {1}) <> 0 AND ({0} < 0) <> ({1} < 0) THEN 1 ELSE 0 END))"
        return to.let2(a, whole("NULLIF({0}, 0)", b), lambda x, y: whole(floor, x, y))
    if safe:
        return ranged(to, exact(f"({{0}}::numeric {op} {{1}}::numeric)", a, b), ColumnType.INT)
    return whole(f"({{0}} {op} {{1}})", a, b)


def _floor_division(a: Element, b: Element) -> Element:
    """Exact: div() truncates what divides without a rest."""
    return exact("div({0} - mod(mod({0}, {1}) + {1}, {1}), {1})", a, b)


def _whole_power(to: Letting, a: Element, exponent: int, *, safe: bool) -> Element:
    if exponent == 0:
        return whole("(CASE WHEN {0} IS NOT NULL THEN 1::bigint END)", a)
    if exponent > 64:
        odd = -1 if exponent % 2 else 1
        return whole(f"(CASE {{0}} WHEN 0 THEN 0::bigint WHEN 1 THEN 1::bigint WHEN -1 THEN {odd}::bigint END)", a)
    if exponent <= 3 and not safe:
        return to.let(a, lambda n: whole(f"({' * '.join(['{0}'] * exponent)})", n))
    product = to.let(exact("({0}::numeric)", a), lambda n: exact(f"({' * '.join(['{0}'] * exponent)})", n))
    return ranged(to, product, ColumnType.INT)


def floats(to: Letting, op: str, a: Element, b: Element, known: Any, *, safe: bool) -> Element:
    """Of floats. Beyond the largest one is infinity, as in Python, but for a power, which is None."""
    if op == "**":
        if not safe and known is not None and known >= 0 and float(known).is_integer():
            return real("power({0}, {1})", a, b)
        return to.let2(a, b, lambda x, y: real(_POWER, x, y))
    if op == "/":
        b = real("NULLIF({0}, 0)", b)
    if not safe:
        return real(f"({{0}} {op} {{1}})", a, b)
    return to.let2(a, b, lambda x, y: real(_SUM.replace("OP", op) if op in "+-" else _PRODUCT[op], x, y))


_INFINITE: Final = "abs({0}) = 'Infinity'::float8 OR abs({1}) = 'Infinity'::float8"
_SUM: Final = (
    f"(CASE WHEN {_INFINITE} THEN NULLIF({{0}} OP {{1}}, 'NaN'::float8)"
    " WHEN abs({0}) < 1e307 AND abs({1}) < 1e307 OR abs({0}) < 1 OR abs({1}) < 1 THEN {0} OP {1}"
    " WHEN abs({0} / 2 OP {1} / 2) > 8.98846567431157854e307 THEN sign({0}) * 'Infinity'::float8 ELSE {0} OP {1} END)"
)


def _scaled(op: str, sign: str) -> str:
    log = f"ln(abs({{0}})) {sign} ln(abs({{1}}))"
    return (
        f"(CASE WHEN {{0}} = 0 OR {{1}} = 0 OR {_INFINITE} THEN NULLIF({{0}} {op} {{1}}, 'NaN'::float8)"
        f" WHEN {log} > 709.7827128933 THEN sign({{0}}) * sign({{1}}) * 'Infinity'::float8"
        f" WHEN {log} < {_LEAST_LOG} THEN 0::float8 ELSE {{0}} {op} {{1}} END)"
    )


_PRODUCT: Final = {"*": _scaled("*", "+"), "/": _scaled("/", "-")}
_POWER: Final = (
    "(CASE WHEN {0} IS NULL OR {1} IS NULL OR {0} = 0 AND {1} < 0 OR {0} < 0 AND {1} <> floor({1}) THEN NULL"
    " WHEN {1} = 0 OR {0} = 1 THEN 1::float8 WHEN {0} = 0 THEN 0::float8"
    " WHEN abs({1}) < 1e-290 THEN 1::float8"  # before its half, which may be too small for a float
    " WHEN {0} = -1 THEN CASE WHEN {1} / 2 = floor({1} / 2) THEN 1::float8 ELSE -1::float8 END"
    " WHEN abs({0}) = 'Infinity'::float8 OR abs({1}) > 1e19"
    " THEN CASE WHEN (abs({0}) > 1) = ({1} > 0) THEN NULL ELSE 0::float8 END"
    f" WHEN ln(abs({{0}})) * {{1}} > {_MOST_LOG} THEN NULL WHEN ln(abs({{0}})) * {{1}} < {_LEAST_LOG} THEN 0::float8"
    " ELSE power({0}, {1}) END)"
)


def shifted(to: Letting, op: str, a: Element, a_kind: Any, b: Element, b_kind: Any, kind: Kind, *, safe: bool) -> Element:
    """Of dates, moments and timedeltas."""
    span = ColumnType.TIMEDELTA
    if kind is span and a_kind is ColumnType.DATE:
        return whole(f"(({{0}} - {{1}}) * {DAY_US})", a, b)
    if kind is ColumnType.DATE:  # whole days of a timedelta, as Python does it
        a = _days(to, a) if a_kind is span else a
        b = _days(to, b) if b_kind is span else b
    if kind is span and not safe:
        return whole(f"({{0}} {op} {{1}})", a, b)
    number = exact(f"({{0}}::numeric {op} {{1}}::numeric)", a, b)
    return ranged(to, number, kind)


def _days(to: Letting, value: Element) -> Element:
    return to.let2(exact("({0}::numeric)", value), exact(f"{DAY_US}::numeric"), _floor_division)


# ----------------------------------------------------------------------------------------------------------------- comparing


def mixed(to: Letting, op: str, a: Element, left: Node, b: Element, right: Node) -> ColumnElement[bool]:
    """An int with a float, exactly: a large int is not rounded to a float first."""
    if left.kind is ColumnType.FLOAT:
        return mixed(to, _FLIPPED[op], b, right, a, left)
    if isinstance(right, Const):
        return _with_literal(op, a, float(right.value))
    if isinstance(left, Const) and abs(left.value) <= _EXACT_FLOAT:
        return compared(op, literal(float(left.value), Double), b, known=True)
    same = op in ("==", "!=")
    bare = "=" if same else op
    less, greater = ("true", "false") if op in ("<", "<=") else ("false", "true")
    if same:
        less = greater = "false"
    inner = (
        f"(CASE WHEN {{1}} >= {2**63} THEN {less} WHEN {{1}} < {-(2**63)} THEN {greater}"
        f" WHEN abs({{1}}) >= {_EXACT_FLOAT} THEN {{0}} {bare} {{1}}::bigint ELSE {{0}}::float8 {bare} {{1}} END)"
    )
    none = "({0} IS NULL AND {1} IS NULL)" if same else "false"
    whole_ = f"(CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN {none} ELSE {inner} END)"
    return to.let2(a, b, lambda x, y: holds(f"(NOT {whole_})" if op == "!=" else whole_, x, y))


def _with_literal(op: str, a: Element, number: float) -> ColumnElement[bool]:
    if number.is_integer() and MIN_INT <= number < 2**63:
        return compared(op, a, literal(int(number), BigInteger), known=True)
    if op == "==":
        return false()
    if op == "!=":
        return true()
    if abs(number) >= 2**63:
        return a.is_not(None) if (op in ("<", "<=")) == (number > 0) else false()
    near = math.ceil(number) if op in ("<", ">=") else math.floor(number)
    return compared(op, a, literal(near, BigInteger), known=True)
