"""The simulated model extracts: from the prompt of a window to items of every category that is asked for, by rule."""

from __future__ import annotations

from typing import Any

from memory.llm.simulated_extraction_bios import bios
from memory.llm.simulated_extraction_knowledge import knowledge
from memory.llm.simulated_extraction_people import read_people
from memory.llm.simulated_extraction_policies import policies
from memory.llm.simulated_extraction_prompt import Brief
from memory.llm.simulated_extraction_summaries import summaries
from memory.llm.simulated_extraction_tasks import tasks
from memory.model.category import Category

Items = dict[str, list[dict[str, Any]]]


def extract(brief: Brief) -> Items:
    """Items by category, in the JSON form of :mod:`memory.model.items`; every item with the quotes that it rests on.

    A contact that is met for the first time is referred to by other categories only where contacts are asked for too.
    """
    people = read_people(brief)
    makers = {
        Category.CONTACTS: lambda: people.items(),
        Category.BIOS: lambda: bios(brief, people),
        Category.ROLLING_SUMMARIES: lambda: summaries(brief, people),
        Category.RESPONSE_POLICIES: lambda: policies(brief, people),
        Category.KNOWLEDGE: lambda: knowledge(brief),
        Category.TASKS: lambda: tasks(brief),
    }
    found = {category: list(makers[category]()) for category in brief.categories}
    created = {item["contact"] for item in found.get(Category.CONTACTS, ()) if item["action"] == "create"}
    return {
        category.value: [item for item in items if category is Category.CONTACTS or _refers_to_known(item, created)]
        for category, items in found.items()
    }


def _refers_to_known(item: dict[str, Any], created: set[str]) -> bool:
    ref = item.get("contact")
    return ref is None or not ref.startswith("new") or ref in created
