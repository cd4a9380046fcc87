"""Misbehaviour of the simulated model in a knowledge loop: see :data:`memory.llm.simulated_faults.KNOWLEDGE_FAULTS`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from memory.llm.simulated_knowledge import Move
from memory.llm.simulated_knowledge_prompt import is_loop, read_loop
from memory.llm.tool_calls import numbered
from memory.model.tools import ToolCall
from memory.ports import ChatRequest

BROKEN: Final = '{"tables": ["Comp'
UNKNOWN_TOOL: Final = "run_sql"


def misbehaved(fault: str, move: Move, request: ChatRequest) -> Move:
    """The move as a model makes it that goes wrong in this way; as it is where the fault does not fit."""
    if not is_loop(request) or (not move.calls and fault in ("bad_arguments", "unknown_tool")):
        return move
    match fault:
        case "bad_arguments":
            return replace(move, calls=(replace(move.calls[0], arguments=None, raw=BROKEN), *move.calls[1:]))
        case "unknown_tool":
            return replace(move, calls=(replace(move.calls[0], name=UNKNOWN_TOOL), *move.calls[1:]))
        case "writes_in_ask":
            loop = read_loop(request)
            if loop.operation != "ask" or loop.last:
                return move
            return Move("I tidy up first.", _writes(list(loop.tables)))
        case "endless":
            return move if read_loop(request).last else Move("", numbered([(None, "tables_overview", {})]))
        case _:
            return move


def _writes(tables: Sequence[str]) -> tuple[ToolCall, ...]:
    """Every kind of write, none of which an ``ask`` may make."""
    table = tables[0] if tables else "Things"
    made: list[tuple[None, str, Any]] = [
        (None, "delete_tables", {"tables": list(tables[:5]) or [table]}),
        (None, "delete_rows", {"filter": "True", "tables": [table]}),
        (None, "add_rows", {"table": table, "rows": [{"name": "planted"}]}),
        (None, "update_rows", {"table": table, "updates": {"0": {"name": "planted"}}}),
        (None, "create_table", {"name": "Planted"}),
        (None, "rename_table", {"old_name": table, "new_name": "Planted"}),
    ]
    return numbered(made)
