"""The columns that the text of an expression speaks of, and where: a text that is kept follows a column to its new name.

By the syntax alone, whatever types the columns have now. A text that is no expression speaks of nothing.
"""

from __future__ import annotations

import ast
import re
from typing import Final

from memory.model.expression_text import syntax_tree
from memory.model.knowledge import ToolProblem
from memory.model.knowledge_names import normal_name

_LINE_END: Final = re.compile(rb"(?<=\n)|(?<=\r)(?!\n)")
"""Python's own; other characters that end a line may stand in a literal."""


def names_in(text: str) -> frozenset[str]:
    """Normal names of columns."""
    return frozenset(normal_name(name.id) for name in _names(text))


def renamed_in(text: str, old: str, new: str) -> str:
    """The text over a column that has got another name. Literals, comments, methods and functions stay as they are.

    Args:
        old, new: normal names.
    """
    shown = text.encode()
    begins = [0]
    for line in _LINE_END.split(shown):
        begins.append(begins[-1] + len(line))
    pieces: list[bytes] = []
    at = 0
    found = (name for name in _names(text) if normal_name(name.id) == old)
    for name in sorted(found, key=lambda name: (name.lineno, name.col_offset)):
        length = (name.end_col_offset or name.col_offset) - name.col_offset
        # Positions are in bytes, of a text that was put into parentheses.
        start = begins[name.lineno - 1] + name.col_offset - (name.lineno == 1)
        pieces += [shown[at:start], new.encode()]
        at = start + length
    return b"".join([*pieces, shown[at:]]).decode()


def _names(text: str) -> list[ast.Name]:
    try:
        tree = syntax_tree(text)
    except ToolProblem:
        return []
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return [node for node in nodes if isinstance(node, ast.Name) and id(node) not in called]
