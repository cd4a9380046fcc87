"""The six categories of the event window, by name. What each one is (prompt section, schema, apply) is in ``memory.categories``."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Category(StrEnum):
    CONTACTS = "contacts"
    BIOS = "bios"
    ROLLING_SUMMARIES = "rolling_summaries"
    RESPONSE_POLICIES = "response_policies"
    KNOWLEDGE = "knowledge"
    TASKS = "tasks"


ON_BY_DEFAULT: Final = frozenset({Category.BIOS, Category.ROLLING_SUMMARIES, Category.RESPONSE_POLICIES})
"""Of a deployment that sets no flag (``AFTERTURN_MEMORY_<NAME>``)."""
