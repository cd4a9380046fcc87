"""What a name in the result of a join stands for: a column of one of the tables that are joined."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from memory.model.knowledge import JoinStep, Table, ToolProblem
from memory.model.knowledge_names import name_key, normal_name

PREVIOUS: Final = frozenset({"$prev", "__prev__", "_"})
"""How a step names the result of the one before."""
MAX_REFERENCE_CHARS: Final = 4_000

Origin: TypeAlias = tuple[str, str]
"""(table as a step names it, column)."""


def origins(steps: Sequence[JoinStep], tables: Mapping[str, Sequence[Table]]) -> dict[str, Origin]:
    """Name in the last result → where it comes from. What does not fit is left out: the join itself says what is wrong."""
    found: dict[str, Origin] = {}
    for step in steps:
        sides = [(name, found if name in PREVIOUS else _columns(name, tables.get(name, ()))) for name in step.tables]
        found = {}
        for selected, name in step.select.items():
            origin = _selected(selected, sides)
            if origin is not None:
                found[name] = origin
    return found


def _columns(name: str, tables: Sequence[Table]) -> dict[str, Origin]:
    names = [column for table in tables for column in (table.unique_key, *(one.name for one in table.columns))]
    return {column: (name, column) for column in names}


def _selected(selected: str, sides: Sequence[tuple[str, Mapping[str, Origin]]]) -> Origin | None:
    table, _, column = selected.rpartition(".")
    wanted = [columns for name, columns in sides if not table or _is_called(name, table)]
    found = [columns[column] for columns in wanted if column in columns]
    return found[0] if len(found) == 1 else None


def _is_called(name: str, wanted: str) -> bool:
    if name in PREVIOUS:
        return wanted in PREVIOUS
    return name_key(wanted) in (name_key(name), name_key(name.rpartition(".")[2]))


def in_terms_of(reference: str, known: Mapping[str, Origin], tables: Sequence[str]) -> Origin:
    """A reference over names of a result, as (table, expression over its columns).

    Raises ToolProblem: ``bad_expression`` for one over several tables or none, ``unknown_column``.
    """
    try:
        tree = ast.parse(reference.strip()[:MAX_REFERENCE_CHARS], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolProblem("bad_expression", f"reference: {reference[:100]!r} is not a Python expression") from None
    renaming = _Renaming(known, tables)
    try:
        made = ast.unparse(renaming.visit(tree))
    except RecursionError:
        raise ToolProblem("bad_expression", "reference: it is nested too deeply") from None
    if len(renaming.tables) != 1:
        several = " and ".join(sorted(renaming.tables)) or "no table"
        raise ToolProblem(
            "bad_expression",
            f"reference: {reference[:100]!r} is over columns of {several}; give one reference for each table: distances add up",
        )
    return renaming.tables.pop(), made


class _Renaming(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, Origin], tables: Sequence[str]) -> None:
        self._known = known
        self._named = tables
        self.tables = set[str]()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in ("len", "str", "int", "float", "bool"):
            return node
        origin = self._known.get(normal_name(node.id))
        if origin is None:
            listed = ", ".join(self._known)[:1_000]
            raise ToolProblem("unknown_column", f"reference: the result has no column {node.id[:100]}; it has: {listed}")
        self.tables.add(origin[0])
        return ast.copy_location(ast.Name(origin[1], node.ctx), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """``Table.column``; else a method of a value."""
        if isinstance(node.value, ast.Name) and node.value.id not in self._known:
            found = [name for name in self._named if _is_called(name, node.value.id)]
            if len(found) == 1:
                self.tables.add(found[0])
                return ast.copy_location(ast.Name(node.attr, node.ctx), node)
        self.generic_visit(node)
        return node
