"""What a change would empty: rows that have a value in a column and would have none. To empty values is to delete them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory.model.expression import parse_expression
from memory.model.knowledge import Column, ColumnType, FilterQuery, ReduceQuery, Table, ToolProblem
from memory.model.knowledge_names import name_key, normal_name
from memory.model.owner import View
from memory.ports.knowledge import KnowledgeTables

EMPTYING: Final = frozenset({"transform_column", "update_rows"})
_KEYS_PER_READ: Final = 200


async def emptied(
    port: KnowledgeTables, view: View, name: str, arguments: Mapping[str, Any], tables: Sequence[Table]
) -> tuple[Table, Mapping[str, int]] | None:
    """The table, and column → how many of its values would be gone; None where nothing would. What does not fit (no such table,
    an equation that is none) empties nothing: the store says what is wrong.

    Args:
        port, view: to read what is there.
        name: of a tool of :data:`EMPTYING`.
        arguments: of the call, checked.
        tables: those of the destination that is written to.
    """
    bare = name_key(str(arguments["table"]).rpartition(".")[2])
    table = next((one for one in tables if name_key(one.name) == bare), None)
    if table is None:
        return None
    if name == "update_rows":
        found = await _by_values(port, view, table, arguments["updates"])
    else:
        column = table.column(normal_name(str(arguments["column_name"])))
        count = 0 if column is None else await _by_equation(port, view, table, column, str(arguments["equation"]))
        found = {column.name: count} if column is not None and count else {}
    return (table, found) if found else None


def is_empty(value: Any) -> bool:
    """Nothing, or a text of blanks, or a list or dict without elements."""
    return value is None or (isinstance(value, str) and not value.strip()) or (isinstance(value, list | dict) and not value)


async def _by_values(port: KnowledgeTables, view: View, table: Table, updates: Mapping[int, Mapping[str, Any]]) -> dict[str, int]:
    wanted = {key: [normal_name(column) for column, value in change.items() if is_empty(value)] for key, change in updates.items()}
    keys = [key for key, columns in wanted.items() if columns]
    counts: dict[str, int] = {}
    for start in range(0, len(keys), _KEYS_PER_READ):
        some = keys[start : start + _KEYS_PER_READ]
        query = FilterQuery(f"{table.unique_key} in {some}", 0, len(some), (f"{table.source}.{table.name}",))
        for rows in (await port.filter(view, query)).values():
            for row in rows:
                for column in wanted.get(row[table.unique_key], ()):
                    if not is_empty(row.get(column)):
                        counts[column] = counts.get(column, 0) + 1
    return counts


async def _by_equation(port: KnowledgeTables, view: View, table: Table, column: Column, equation: str) -> int:
    types = {one.name: one.type for one in table.columns if one.type is not ColumnType.VECTOR}
    if column.type is ColumnType.VECTOR:
        return 0
    try:
        made = parse_expression(equation, {table.unique_key: ColumnType.INT, **types}, what="equation")
    except ToolProblem:
        return 0
    # The line break ends a comment; that it is an expression by itself has just been told.
    new = f"({equation}\n)"
    now = _has(column.name, column.type)
    text = f"{table.source}.{table.name}"
    there = await port.reduce(view, ReduceQuery(text, "count", table.unique_key, now))
    left = await port.reduce(view, ReduceQuery(text, "count", table.unique_key, f"{now} and {_has(new, made.type)}"))
    return int(there) - int(left)


def _has(value: str, type_: Any) -> str:
    if type_ is ColumnType.STR:
        return f"({value} is not None and {value}.strip() != '')"
    if type_ in (ColumnType.LIST, ColumnType.DICT):
        return f"({value} is not None and len({value}) > 0)"
    return f"({value} is not None)"
