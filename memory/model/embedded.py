"""Which text of a row is embedded: a column, or an expression over columns, and the key under which its vectors are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from memory.model.expression import parse_expression
from memory.model.expression_tree import Name
from memory.model.ids import short_hash
from memory.model.knowledge import ColumnType, Table
from memory.model.knowledge_names import normal_name

UNIQUE: Final = "#"
"""In a column key: the table's unique key."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """``source``: an expression over the columns of the table. ``column_key``: made from their keys, so that a column that
    is renamed keeps its vectors and another one of the same name gets none of them."""

    table: Table
    source: str = field(repr=False)
    column_key: str


def embedding_of(table: Table, reference: str) -> Embedding:
    """What a reference means in this table: an expression over its columns, or the name of a vector column.

    Raises ToolProblem: ``bad_expression``, ``unknown_column``.
    """
    named = table.column(normal_name(reference.strip()))
    source = named.source if named is not None and named.type is ColumnType.VECTOR and named.source else reference
    expression = parse_expression(source, types_of(table), what="reference")
    keys = {name: UNIQUE if name == table.unique_key else _key(table, name) for name in expression.names}
    listed = ".".join(sorted(keys.values()))
    if isinstance(expression.node, Name):
        return Embedding(table, source, listed)
    pairs = [f"{name}={keys[name]}" for name in sorted(keys)]
    return Embedding(table, source, f"{listed}:{short_hash(source.strip(), *pairs)}")


def types_of(table: Table) -> dict[str, ColumnType]:
    return {table.unique_key: ColumnType.INT, **{column.name: column.type for column in table.columns}}


def columns_of(column_key: str) -> frozenset[str]:
    """Keys of the columns that it is made from."""
    return frozenset(one for one in column_key.partition(":")[0].split(".") if one and one != UNIQUE)


def _key(table: Table, name: str) -> str:
    column = table.column(name)
    if column is None:
        raise KeyError(name)  # the parser has refused it before
    return column.key
