"""Lists, dicts and their elements on PostgreSQL. An element is JSONB, NULL for None; true and false are no numbers there."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement

from memory.model.expression_tree import CONTAINERS, Kind, Loose
from memory.model.knowledge import ColumnType
from memory.stores.tables.knowledge import compile_postgres_text as texts
from memory.stores.tables.knowledge.compile_let import Element, Letting, exact, holds, json, real, text, whole
from memory.stores.tables.knowledge.compile_let import compared as plainly
from memory.stores.tables.knowledge.compile_postgres_numbers import ranged

_JSON: Final = frozenset({*CONTAINERS, Loose.ANY})
_NUMBERS: Final = frozenset({ColumnType.INT, ColumnType.BOOL, ColumnType.FLOAT})

_AT: Final = "least(greatest({1}, -2000000000), 2000000000)::int"
"""An index, or one that is as far beyond. A constant is worked out before any CASE around it, so it must never be out of range."""


def as_text(value: Element) -> Element:
    return text("(CASE WHEN jsonb_typeof({0}) = 'string' THEN {0} #>> '{}' END)", value)


def as_float(value: Element) -> Element:
    return real("(CASE WHEN jsonb_typeof({0}) = 'number' THEN {0}::float8 END)", value)


def _as_exact(value: Element) -> Element:
    return exact("(CASE WHEN jsonb_typeof({0}) = 'number' THEN {0}::numeric END)", value)


def index(to: Letting, value: Element, kind: Kind | None, at: Element, at_kind: Kind | None) -> Element:
    if kind is ColumnType.STR:
        char = (
            f"(CASE WHEN {{1}} >= 0 AND {{1}} < length({{0}}) THEN substr({{0}}, {_AT} + 1, 1)"
            f" WHEN {{1}} < 0 AND {{1}} >= -length({{0}}) THEN substr({{0}}, length({{0}}) + {_AT} + 1, 1) END)"
        )
        return to.let2(value, at, lambda v, i: text(char, v, i))
    if at_kind is ColumnType.STR:
        return json("NULLIF({0} -> {1}, 'null'::jsonb)", value, at)
    element = f"NULLIF({{0}} -> {_AT}, 'null'::jsonb)"
    if kind is ColumnType.LIST:
        return to.let2(value, at, lambda v, i: json(element, v, i))

    def any_(v: Element, i: Element) -> Element:
        char = index(to, text("({0} #>> '{}')", v), ColumnType.STR, i, at_kind)
        return json(f"(CASE jsonb_typeof({{0}}) WHEN 'string' THEN to_jsonb({{2}}) WHEN 'array' THEN {element} END)", v, i, char)

    return to.let2(value, at, any_)


def converted(to: Letting, name: str, value: Element, kind: Kind | None) -> Element:
    """``value``: a reference."""
    if name == "len":
        keys = "CASE WHEN {0} IS NOT NULL THEN (SELECT count(*) FROM jsonb_object_keys({0}) AS k) END"
        if kind is ColumnType.LIST:
            return whole("(jsonb_array_length({0})::bigint)", value)
        if kind is ColumnType.DICT:
            return whole(f"({keys})", value)
        return whole(
            "(CASE jsonb_typeof({0}) WHEN 'array' THEN jsonb_array_length({0})::bigint"
            f" WHEN 'object' THEN {keys} WHEN 'string' THEN length({{0}} #>> '{{}}')::bigint END)",
            value,
        )
    inside = text("({0} #>> '{}')", value)
    if name == "str":
        flag = "WHEN 'boolean' THEN CASE WHEN {0} = 'true'::jsonb THEN 'True' ELSE 'False' END"
        return text(f"(CASE jsonb_typeof({{0}}) WHEN 'string' THEN {{1}} WHEN 'number' THEN {{1}} {flag} END)", value, inside)
    flag = "WHEN 'boolean' THEN CASE WHEN {0} = 'true'::jsonb THEN 1 ELSE 0 END"
    read = "(CASE jsonb_typeof({0}) WHEN 'number' THEN {1} WHEN 'string' THEN {2} " + flag + " END)"
    if name == "int":
        number = ranged(to, exact("trunc({0}::numeric)", value), ColumnType.INT)
        return whole(read, value, number, texts.whole_of(to, inside))
    return real(read, value, real("({0}::float8)", value), texts.float_of(to, inside))


def compared(to: Letting, op: str, a: Element, a_kind: Kind | None, b: Element, b_kind: Kind | None) -> ColumnElement[bool]:
    if op in ("==", "!="):
        return plainly(op, _jsonb(a, a_kind), _jsonb(b, b_kind))

    def ordered(x: Element, y: Element) -> Element:
        parts: list[ColumnElement[bool]] = []
        if {a_kind, b_kind} & {ColumnType.STR} or a_kind is b_kind:
            parts.append(plainly(op, _text(x, a_kind), _text(y, b_kind), collate=True))
        if {a_kind, b_kind} & _NUMBERS or a_kind is b_kind:
            parts.append(_numbers(op, x, a_kind, y, b_kind))
        return holds("(coalesce({0}, {1}))", *parts) if len(parts) == 2 else parts[0]

    return to.let2(a, b, ordered)


def _numbers(op: str, a: Element, a_kind: Any, b: Element, b_kind: Any) -> ColumnElement[bool]:
    if ColumnType.FLOAT in (a_kind, b_kind):
        return plainly(op, as_float(a) if a_kind in _JSON else a, as_float(b) if b_kind in _JSON else b)
    return plainly(op, *(_as_exact(v) if kind in _JSON else exact("({0}::numeric)", v) for v, kind in ((a, a_kind), (b, b_kind))))


def _text(value: Element, kind: Kind | None) -> Element:
    return as_text(value) if kind in _JSON else value


def _jsonb(value: Element, kind: Kind | None) -> Element:
    """Any value as JSON; NULL for None."""
    if kind in _JSON:
        return value
    return json("to_jsonb({0} <> 0)" if kind is ColumnType.BOOL else "to_jsonb({0})", value)


def within(to: Letting, a: Element, a_kind: Kind | None, b: Element, b_kind: Kind | None) -> ColumnElement[bool]:
    """An element of a list, a key of a dict, a part of a text."""
    none = a_kind is Loose.NONE

    def element(x: Element, y: Element) -> ColumnElement[bool]:
        if none:
            return holds("({0} @> 'null'::jsonb)", y)
        asked = json("coalesce({0}, 'null'::jsonb)", _jsonb(x, a_kind))
        if a_kind in _JSON:
            return holds("(EXISTS (SELECT 1 FROM jsonb_array_elements({1}) AS e(v) WHERE e.v = {0}))", asked, y)
        return holds("({1} @> {0})", asked, y)

    def key(x: Element, y: Element) -> ColumnElement[bool]:
        return holds("false") if none or a_kind in _NUMBERS else holds("jsonb_exists({1}, {0})", _text(x, a_kind), y)

    def any_(x: Element, y: Element) -> Element:
        part = "false" if none or a_kind in _NUMBERS else "strpos({0} #>> '{}', {3}) > 0"
        template = (
            f"(CASE jsonb_typeof({{0}}) WHEN 'array' THEN {{1}} WHEN 'object' THEN {{2}} WHEN 'string' THEN {part} ELSE false END)"
        )
        return holds(template, y, element(x, y), key(x, y), _text(x, a_kind))

    if b_kind is ColumnType.LIST:
        return to.let2(a, b, element)
    return to.let2(a, b, key if b_kind is ColumnType.DICT else any_)
