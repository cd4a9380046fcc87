"""From an expression's text to Python's syntax tree, which is only looked at.

What Python itself does not take is put right first, outside of literals: the names that a join gives to its tables
(``team:sales.Deals.x``, ``$prev.x``). ``{x}`` needs nothing: it is Python's set of one name, and means the column.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Final

from memory.model.knowledge import ToolProblem

MAX_EXPRESSION_CHARS: Final = 10_000
MAX_PARTS: Final = 10_000
MAX_NESTED: Final = 100
"""Levels of Python's tree, of which a part of an expression has one or two."""
ALLOWED: Final = (
    "allowed are column names (x or {x}), literals, == != < <= > >=, in, not in, and, or, not, + - * / // % **, is None,"
    " is not None, len() str() int() float() bool(), the text methods lower() upper() strip() startswith() endswith(),"
    " and [ ] on lists, dicts and texts"
)

_LITERAL = r"(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"


def problem(message: str) -> ToolProblem:
    return ToolProblem("bad_expression", message)


def not_allowed(what: str) -> ToolProblem:
    return problem(f"{what} is not allowed in an expression; {ALLOWED}")


def syntax_tree(text: str, aliases: Mapping[str, str] | None = None) -> ast.expr:
    """``aliases``: what stands in the text before a point, in whatever case → the identifier that it becomes.

    Raises ToolProblem (``bad_expression``) for what is no Python expression.
    """
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise problem(f"the expression is empty; {ALLOWED}")
    if len(text) > MAX_EXPRESSION_CHARS:
        raise problem(f"the expression has {len(text)} characters; at most {MAX_EXPRESSION_CHARS} are taken")
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise problem("an expression may not hold NUL or halves of surrogate pairs")
    text = _renamed(text, aliases or {})
    try:
        # In parentheses a line break is no end.
        tree = ast.parse(f"({text}\n)", mode="eval").body
    except SyntaxError as error:
        where = f" at character {error.offset - 1}" if error.offset and error.lineno == 1 else ""
        raise problem(f"not a Python expression{where}: {str(error.msg)[:200]}; {ALLOWED}") from None
    except (ValueError, MemoryError, RecursionError):
        raise problem("the expression is nested too deeply or holds a number that is too long") from None
    _check_size(tree)
    return tree


def _check_size(tree: ast.AST) -> None:
    """All that reads the tree calls itself for what is within, so its depth is known before. Raises ToolProblem."""
    level: list[ast.AST] = [tree]
    parts = depth = 0
    while level:
        parts, depth = parts + len(level), depth + 1
        if depth > MAX_NESTED or parts > MAX_PARTS:
            raise problem(f"the expression is too large: at most {MAX_PARTS} parts, {MAX_NESTED} in each other")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _renamed(text: str, aliases: Mapping[str, str]) -> str:
    if not aliases:
        return text
    names = "|".join(re.escape(name) for name in sorted(aliases, key=len, reverse=True))
    known = {name.casefold(): identifier for name, identifier in aliases.items()}
    # A literal is taken whole, so that nothing within it is a name.
    found = re.compile(rf"{_LITERAL}|(?<![\w.$])(?P<name>{names})(?=\s*\.\s*[^\W\d])", re.DOTALL | re.IGNORECASE)
    return found.sub(lambda match: known[match["name"].casefold()] if match["name"] else match[0], text)
