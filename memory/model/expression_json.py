"""A tree as text and back: how an expression reaches the function that SQLite calls for it, as a bound parameter."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final, cast

from memory.model import expression_tree
from memory.model.expression_tree import Kind, Loose, Node
from memory.model.knowledge import ColumnType

_NODES: Final[dict[str, Any]] = {
    name: getattr(expression_tree, name)
    for name in (
        "Const", "Name", "Negative", "Arithmetic", "Compare", "OneOf", "Within", "IsNone", "Not", "Either", "Call", "Index",
    )
}  # fmt: skip
_ONE: Final = frozenset({"operand", "left", "right", "index"})
_MANY: Final = frozenset({"operands", "items", "arguments"})


def to_text(node: Node) -> str:
    return json.dumps(_dumped(node), ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=256)
def from_text(text: str) -> Node:
    return _loaded(json.loads(text))


def _dumped(node: Node) -> list[Any]:
    dumped: list[Any] = [type(node).__name__]
    for one in fields(node):
        value: Any = getattr(node, one.name)
        if one.name in _ONE:
            value = _dumped(value)
        elif one.name in _MANY:
            value = [_dumped(item) for item in value]
        dumped.append(value)
    return dumped


def _loaded(dumped: list[Any]) -> Node:
    made = _NODES[dumped[0]]
    values: dict[str, Any] = {}
    for one, value in zip(fields(made), dumped[1:], strict=True):
        if one.name in _ONE:
            values[one.name] = _loaded(value)
        elif one.name in _MANY:
            values[one.name] = tuple(_loaded(item) for item in value)
        else:
            values[one.name] = _kind(value) if one.name == "kind" else value
    return cast("Node", made(**values))


def _kind(value: str | None) -> Kind | None:
    if value is None:
        return None
    return Loose(value) if value in (Loose.ANY, Loose.NONE) else ColumnType(value)
