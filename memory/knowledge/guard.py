"""What a tool call of a model may do, decided by the program: never by the prompt alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from memory.model.knowledge import ToolProblem
from memory.model.knowledge_loop import Operation

DESTRUCTIVE: Final = frozenset({"delete_tables", "delete_rows", "delete_column"})


def check_destructive(
    name: str, arguments: Mapping[str, Any], *, operation: Operation, said: Sequence[str], moved: Collection[str]
) -> None:
    """Raises ToolProblem ``not_permitted`` for a deletion that nobody asked for."""
    if name in DESTRUCTIVE:
        raise ToolProblem("not_permitted", "deletions are not open yet")
