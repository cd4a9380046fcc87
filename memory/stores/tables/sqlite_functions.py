"""Functions that every SQLite connection has: what an expression needs and SQLite has not.

SQLite's own ``lower`` and ``upper`` know ASCII only; numbers, lists and dicts follow Python here. All are deterministic.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from memory.model.expression_json import from_text, to_text
from memory.model.expression_tree import CONTAINERS, Loose, Node
from memory.model.expression_value import value_of

VALUE: Final = "knowledge_value"
LOWER: Final = "knowledge_lower"
UPPER: Final = "knowledge_upper"
POWER: Final = "pow"
REAL_TEXT: Final = "knowledge_real_text"
MAX_ARGUMENTS: Final = 100
"""Of 127 that SQLite takes."""


def add_functions(connection: sqlite3.Connection) -> None:
    connection.create_function(VALUE, -1, _value, deterministic=True)
    connection.create_function(LOWER, 1, _lower, deterministic=True)
    connection.create_function(UPPER, 1, _upper, deterministic=True)
    try:
        connection.execute("SELECT pow(2.0, 0.5)")
    except sqlite3.OperationalError:  # SQLite can be built without its mathematics
        connection.create_function(POWER, 2, _power, deterministic=True)
    connection.create_function(REAL_TEXT, 1, _real_text, deterministic=True)


def program(node: Node, names: Sequence[str], containers: Sequence[str]) -> str:
    """The first argument of ``knowledge_value``; the values of ``names`` follow. ``containers``: those that come as JSON."""
    return json.dumps([list(names), list(containers), to_text(node)], ensure_ascii=False)


@lru_cache(maxsize=256)
def _program(text: str) -> Callable[[Sequence[Any]], Any]:
    names, containers, tree = json.loads(text)
    node = from_text(tree)
    packed = node.kind in CONTAINERS or node.kind is Loose.ANY

    def run(values: Sequence[Any]) -> Any:
        row = dict(zip(names, values, strict=True))
        for name in containers:
            if row[name] is not None:
                row[name] = json.loads(row[name])
        value = value_of(node, row)
        return json.dumps(value, ensure_ascii=False) if packed and value is not None else value

    return run


def _value(text: str, *values: Any) -> Any:
    return _program(text)(values)


def _lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else None


def _upper(text: Any) -> Any:
    return text.upper() if isinstance(text, str) else None


def _real_text(number: Any) -> str | None:
    """A float as JSON with all of its digits; SQLite writes 15 of up to 17."""
    if not isinstance(number, int | float) or not math.isfinite(real := float(number)):
        return None
    return repr(real)


def _power(a: Any, b: Any) -> float | None:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return None
    try:
        return math.pow(a, b)
    except (OverflowError, ValueError):
        return None
