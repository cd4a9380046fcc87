"""Texts on PostgreSQL: the methods of text, text of other values, and numbers in text, as in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Text, literal

from memory.model.expression_tree import Kind
from memory.model.expression_value import MAX_NUMBER_CHARS
from memory.model.knowledge import ColumnType
from memory.model.knowledge_values import DAY_US
from memory.model.text_space import WHITESPACE, digits
from memory.stores.tables.knowledge.compile_let import Element, Letting, exact, real, text, whole
from memory.stores.tables.knowledge.compile_postgres_numbers import ranged

_DIGITS: Final = "[0-9](_?[0-9])*"
_WHOLE: Final = f"^[+-]?{_DIGITS}$"
_REAL: Final = rf"^[+-]?({_DIGITS}\.?({_DIGITS})?|\.{_DIGITS})([eE][+-]?[0-9](_?[0-9]){{0,3}})?$"
_FRACTION: Final = "CASE WHEN mod({0}, 1000000) = 0 THEN '' ELSE to_char(MOMENT, '.US') END"


def method(name: str, texts: Sequence[Element]) -> Element:
    if name == "strip":
        return text("btrim({0}, {1})", texts[0], texts[1] if len(texts) > 1 else literal(WHITESPACE, Text))
    return text(f'({name}({{0}} COLLATE "afterturn_case") COLLATE "C")', texts[0])


def converted(to: Letting, name: str, value: Element, kind: Kind) -> Element:
    """``str``, ``int`` and ``float`` of anything but JSON."""
    match name, kind:
        case ("str", _):
            return _text(to, value, kind)
        case ("int", ColumnType.FLOAT):
            near = "(CASE WHEN {0} >= -9223372036854775808 AND {0} < 9223372036854775808 THEN trunc({0})::bigint END)"
            return to.let(value, lambda v: whole(near, v))
        case ("float", ColumnType.INT | ColumnType.BOOL):
            return real("({0}::float8)", value)
        case ("int", ColumnType.STR):
            return whole_of(to, value)
        case ("float", ColumnType.STR):
            return float_of(to, value)
        case _:
            return value


def whole_of(to: Letting, value: Element) -> Element:
    """An int from text; None from what is none."""
    number = f"(CASE WHEN length({{0}}) <= {MAX_NUMBER_CHARS} AND {{1}} ~ '{_WHOLE}' THEN replace({{1}}, '_', '')::numeric END)"
    return ranged(to, _with_plain(to, value, lambda v, plain: exact(number, v, plain)), ColumnType.INT)


def float_of(to: Letting, value: Element) -> Element:
    """A finite float from text; None from what is none."""
    number = f"(CASE WHEN length({{0}}) <= {MAX_NUMBER_CHARS} AND {{1}} ~ '{_REAL}' THEN replace({{1}}, '_', '') END)"
    near = (
        "(CASE WHEN abs({0}::numeric) > 1.7976931348623158e308 THEN NULL"
        " WHEN abs({0}::numeric) < 2.4703282292062329e-324 THEN 0::float8 ELSE {0}::float8 END)"
    )
    found = _with_plain(to, value, lambda v, plain: text(number, v, plain))
    return to.let(found, lambda v: real(near, v))


def _with_plain(to: Letting, value: Element, body: Callable[[Element, Element], Element]) -> Element:
    """The value is written once, so that conversions in each other do not double their SQL at each level."""
    return to.let(value, lambda v: to.let(_plain(v), lambda plain: body(v, plain)))


def _plain(value: Element) -> Element:
    """Without white space around, the digits of all scripts as ASCII."""
    others, ascii_ = digits()
    return text("btrim(translate({0}, {1}, {2}), {3})", value, *(literal(one, Text) for one in (others, ascii_, WHITESPACE)))


def _text(to: Letting, value: Element, kind: Kind) -> Element:
    if kind is ColumnType.STR:
        return value
    if kind is ColumnType.BOOL:
        return to.let(value, lambda v: text("(CASE WHEN {0} = 0 THEN 'False' WHEN {0} <> 0 THEN 'True' END)", v))
    if kind is ColumnType.INT:
        return text("({0}::text)", value)
    template = {
        ColumnType.FLOAT: _FLOAT,
        ColumnType.DATE: "to_char(date '1970-01-01' + {0}::int, 'YYYY-MM-DD')",
        ColumnType.DATETIME: _MOMENT,
        ColumnType.TIME: _TIME,
        ColumnType.TIMEDELTA: _SPAN,
    }[ColumnType(kind)]
    return to.let(value, lambda v: text(template, v))


_FLOAT: Final = (
    "(CASE WHEN {0} = 0 THEN '0.0'"
    " WHEN abs({0}) = 'Infinity'::float8 THEN CASE WHEN {0} > 0 THEN 'inf' ELSE '-inf' END"
    " WHEN abs({0}) >= 1e16 OR abs({0}) < 1e-4 THEN {0}::text"
    " WHEN {0} = trunc({0}) THEN {0}::text::numeric::text || '.0' ELSE {0}::text::numeric::text END)"
)
_AT: Final = (
    f"(timestamp '1970-01-01' + make_interval(days => div({{0}}::numeric - mod(mod({{0}}, {DAY_US}) + {DAY_US}, {DAY_US}),"
    f" {DAY_US})::int, secs => mod(mod({{0}}, {DAY_US}) + {DAY_US}, {DAY_US}) / 1000000::float8))"
)
_MOMENT: Final = f"(to_char({_AT}, 'YYYY-MM-DD\"T\"HH24:MI:SS') || {_FRACTION.replace('MOMENT', _AT)} || '+00:00')"
_CLOCK: Final = "(time '00:00' + make_interval(secs => {0} / 1000000::float8))"
_TIME: Final = f"(to_char({_CLOCK}, 'HH24:MI:SS') || {_FRACTION.replace('MOMENT', _CLOCK)})"
_N: Final = "abs({0}::numeric)"
_HOURS: Final = f"div(mod({_N}, {DAY_US}), 3600000000)"
_MINUTES: Final = f"div(mod({_N}, 3600000000), 60000000)"
_SECONDS: Final = f"(mod({_N}, 60000000) / 1000000)"
_SPAN: Final = (
    "(CASE WHEN {0} = 0 THEN 'PT0S' WHEN {0} <> 0 THEN CASE WHEN {0} < 0 THEN '-P' ELSE 'P' END"
    f" || CASE WHEN {_N} >= {DAY_US} THEN div({_N}, {DAY_US})::text || 'D' ELSE '' END"
    f" || CASE WHEN mod({_N}, {DAY_US}) > 0 THEN 'T' ELSE '' END"
    f" || CASE WHEN {_HOURS} > 0 THEN {_HOURS}::text || 'H' ELSE '' END"
    f" || CASE WHEN {_MINUTES} > 0 THEN {_MINUTES}::text || 'M' ELSE '' END"
    f" || CASE WHEN {_SECONDS} > 0 THEN trim_scale({_SECONDS})::text || 'S' ELSE '' END END)"
)
