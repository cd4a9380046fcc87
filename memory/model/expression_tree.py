"""The typed tree of an expression: what the parser makes and the compiler reads. Nothing in it is ever evaluated as Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from memory.model.knowledge import ColumnType


class Loose(StrEnum):
    """Types that no column has."""

    ANY = "any"
    """An element of a list or dict: its type is known when a row is read."""
    NONE = "none"
    """The literal None."""


Kind: TypeAlias = ColumnType | Loose

NUMBERS: Final = frozenset({ColumnType.INT, ColumnType.FLOAT, ColumnType.BOOL})
TEMPORAL: Final = frozenset({ColumnType.DATETIME, ColumnType.DATE, ColumnType.TIME, ColumnType.TIMEDELTA})
CONTAINERS: Final = frozenset({ColumnType.LIST, ColumnType.DICT})


@dataclass(frozen=True, slots=True)
class Const:
    """A literal in stored form (see :mod:`memory.model.knowledge_values`); None for NONE."""

    value: Any = field(repr=False)
    kind: Kind


@dataclass(frozen=True, slots=True)
class Name:
    """A column; of a join ``table.column``."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Node
    kind: Kind


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``op``: ``+ - * / // % **``."""

    op: str
    left: Node
    right: Node
    kind: Kind


@dataclass(frozen=True, slots=True)
class Compare:
    """``op``: ``== != < <= > >=``. Two-valued: with None only ``==`` and ``!=`` are ever true."""

    op: str
    left: Node
    right: Node
    kind: Kind = ColumnType.BOOL


@dataclass(frozen=True, slots=True)
class OneOf:
    """``left in (a, b)``. None is one of them where it is among them."""

    left: Node
    items: tuple[Node, ...]
    kind: Kind = ColumnType.BOOL


@dataclass(frozen=True, slots=True)
class Within:
    """``left in right``: part of a text, element of a list, key of a dict."""

    left: Node
    right: Node
    kind: Kind = ColumnType.BOOL


@dataclass(frozen=True, slots=True)
class IsNone:
    operand: Node
    kind: Kind = ColumnType.BOOL


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node
    kind: Kind = ColumnType.BOOL


@dataclass(frozen=True, slots=True)
class Either:
    """``and`` and ``or``. As a value it is one of its operands, as in Python. ``kind`` None: they have no type in common, so only
    whether it holds can be asked."""

    op: str
    operands: tuple[Node, ...]
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Call:
    """``name``: a function (``len str int float bool``) or a method of text; ``arguments``: the text first."""

    name: str
    arguments: tuple[Node, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Index:
    """An element of a list (an int, negative from the end), of a dict (text), a character of a text. None where there is none."""

    operand: Node
    index: Node
    kind: Kind


Node: TypeAlias = Const | Name | Negative | Arithmetic | Compare | OneOf | Within | IsNone | Not | Either | Call | Index


@dataclass(frozen=True, slots=True)
class Expression:
    """``names``: the columns it speaks of, as they are named in it."""

    node: Node
    names: frozenset[str]

    @property
    def type(self) -> Kind | None:
        """None: a mixture that is only true or false (``name or year``)."""
        return self.node.kind
