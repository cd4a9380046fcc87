"""What the parts of the PostgreSQL compiler share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlalchemy import BigInteger, ColumnElement, Double, Numeric, Text
from sqlalchemy.dialects.postgresql import JSONB

from memory.stores.tables.fragments import Fragment

Element = ColumnElement[Any]


class Letting(Protocol):
    """Works a value out once, and gives ``body`` a reference to it."""

    def let(self, value: Element, body: Callable[[Element], Element]) -> Element: ...

    def let2(self, a: Element, b: Element, body: Callable[[Element, Element], Element]) -> Element: ...


def whole(template: str, *parts: Element) -> Element:
    return Fragment(template, parts, type_=BigInteger())


def real(template: str, *parts: Element) -> Element:
    return Fragment(template, parts, type_=Double())


def exact(template: str, *parts: Element) -> Element:
    return Fragment(template, parts, type_=Numeric())


def text(template: str, *parts: Element) -> Element:
    return Fragment(template, parts, type_=Text())


def json(template: str, *parts: Element) -> Element:
    return Fragment(template, parts, type_=JSONB())


def holds(template: str, *parts: Element) -> ColumnElement[bool]:
    return Fragment(template, parts)


def compared(op: str, a: Element, b: Element, *, collate: bool = False, known: bool = False) -> ColumnElement[bool]:
    """``known``: one of them is never NULL."""
    if op == "!=":
        return holds("({0} IS DISTINCT FROM {1})", a, b)
    if op == "==":
        return holds("({0} = {1})" if known else "({0} IS NOT DISTINCT FROM {1})", a, b)
    return holds(f'(({{0}} COLLATE "C") {op} ({{1}} COLLATE "C"))' if collate else f"({{0}} {op} {{1}})", a, b)
