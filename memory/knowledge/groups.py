"""Which tools each operation has, and of what kind each is. A tool that is not in an operation's group cannot be called in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory.knowledge.arguments import Tool, tool
from memory.knowledge.contacts_tools import ContactTools
from memory.knowledge.read_tools import ReadTools
from memory.knowledge.tasks_tools import TaskReads, TaskTools
from memory.knowledge.write_tools import WriteTools
from memory.model.knowledge_loop import Operation
from memory.model.knowledge_steps import CallKind

READS: Final = ("tables_overview", "filter", "search", "reduce")
JOINS: Final = ("filter_join", "search_join", "filter_multi_join", "search_multi_join")
"""Only where there are several tables."""
SCHEMA: Final = (
    "create_table",
    "rename_table",
    "delete_tables",
    "create_empty_column",
    "create_derived_column",
    "transform_column",
    "rename_column",
    "copy_column",
    "move_column",
    "delete_column",
    "vectorize_column",
)
ROWS: Final = ("add_rows", "update_rows", "delete_rows")
CONTACT_WRITES: Final = ("create_contact", "update_contact", "merge_contacts")
TASK_READS: Final = ("list_tasks", "search_tasks")
TASK_WRITES: Final = ("create_task", "update_task")
ASK: Final = "ask"
CLARIFY: Final = "request_clarification"


class Talk:
    """Tools that the loop itself carries out: only their arguments are checked here."""

    async def ask(self, *, text: str) -> str:
        """Have a question about the tables answered, read only, by a loop of its own. For what takes several steps to find out.

        Args:
            text: The question, with all that is needed to understand it.
        """
        return text

    async def request_clarification(self, *, question: str) -> str:
        """Ask the caller, and wait for the answer. Only for what you cannot find out and must not assume.

        Args:
            question: One question, short and clear.
        """
        return question


READ_TOOLS: Final[Mapping[str, Tool]] = {name: tool(getattr(ReadTools, name)) for name in (*READS, *JOINS)}
WRITE_TOOLS: Final[Mapping[str, Tool]] = {name: tool(getattr(WriteTools, name)) for name in (*SCHEMA, *ROWS)}
CONTACT_TOOLS: Final[Mapping[str, Tool]] = {name: tool(getattr(ContactTools, name)) for name in CONTACT_WRITES}
TASK_READ_TOOLS: Final[Mapping[str, Tool]] = {name: tool(getattr(TaskReads, name)) for name in TASK_READS}
TASK_TOOLS: Final[Mapping[str, Tool]] = {name: tool(getattr(TaskTools, name)) for name in TASK_WRITES}
TALK_TOOLS: Final[Mapping[str, Tool]] = {name: tool(getattr(Talk, name)) for name in (ASK, CLARIFY)}

TOOLS: Final[Mapping[str, Tool]] = {
    **READ_TOOLS,
    **WRITE_TOOLS,
    **CONTACT_TOOLS,
    **TASK_READ_TOOLS,
    **TASK_TOOLS,
    **TALK_TOOLS,
}

GROUPS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.ASK: (*READS, *JOINS),
    Operation.UPDATE: (*READS, *JOINS, ASK, *SCHEMA, *ROWS),
    Operation.REFACTOR: (*READS, *JOINS, *SCHEMA, "update_rows", "delete_rows"),
    Operation.CONTACTS_ASK: (*READS, *JOINS),
    Operation.CONTACTS_UPDATE: (*READS, *JOINS, *CONTACT_WRITES),
    Operation.TASKS_ASK: (*TASK_READS, *READS, *JOINS),
    Operation.TASKS_UPDATE: (*TASK_READS, *READS, *JOINS, *TASK_WRITES),
}

OF_ROWS: Final = (*READS, *JOINS, "add_rows", "update_rows")
"""What is left to a loop that is bound to the rows of some tables."""


def kind_of(name: str) -> CallKind:
    """Of a tool that there is."""
    if name in READ_TOOLS or name in TASK_READ_TOOLS:
        return CallKind.READ
    if name == CLARIFY:
        return CallKind.CLARIFY
    return CallKind.NESTED if name == ASK else CallKind.WRITE
