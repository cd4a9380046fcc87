"""What the orchestrator did itself in the window: the simulated model does not do it again."""

from __future__ import annotations

from memory.llm.simulated_extraction_prompt import Brief
from memory.llm.simulated_text import words
from memory.model.category import Category

_MANAGERS = {
    Category.CONTACTS: ("contactmanager", "contactsmanager", "contacts"),
    Category.KNOWLEDGE: ("knowledgemanager", "knowledge", "factmanager"),
    Category.TASKS: ("taskmanager", "tasksmanager", "taskscheduler", "tasks"),
}
_READING = ("ask", "search", "get", "list", "filter", "find", "read", "query", "show", "count")
_SHARE = 0.6


def handled(brief: Brief, category: Category, text: str) -> bool:
    """Whether a call of this category's manager says what ``text`` says; calls that only read change nothing."""
    wanted = set(words(text))
    if not wanted:
        return False
    for call in brief.calls:
        manager = "".join(filter(str.isalpha, call.manager.casefold()))
        if manager not in _MANAGERS.get(category, ()) or call.method.casefold().lstrip("_").startswith(_READING):
            continue
        if len(wanted & set(words(call.text))) >= _SHARE * len(wanted):
            return True
    return False
