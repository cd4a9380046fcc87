"""Bios: what does not change with time about a contact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.categories.contact_texts import TextRule, apply_texts, check_text
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.items import ContactTextItem, Grounded

_RULE: Final = TextRule(Category.BIOS, "bio")


async def apply(items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    """Nothing of the old bio goes unless something that was said speaks against it."""
    return await apply_texts(_RULE, items, context)


SPEC: Final = CategorySpec(
    category=Category.BIOS,
    prompt="extract_bios",
    item=ContactTextItem,
    apply=apply,
    check=check_text,
    shielded_by=frozenset({"contactmanager", "contactsmanager", "contacts"}),
)
