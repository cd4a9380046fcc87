"""Rolling summaries: what goes on with a contact. What is over may be dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.categories.contact_texts import TextRule, apply_texts, check_text
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.items import ContactTextItem, Grounded

_RULE: Final = TextRule(Category.ROLLING_SUMMARIES, "rolling_summary", lets_go=True)


async def apply(items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    """A summary that drops nearly all of the old one was cut off, or forgot to go on: the old one is put back in front."""
    return await apply_texts(_RULE, items, context)


SPEC: Final = CategorySpec(
    category=Category.ROLLING_SUMMARIES,
    prompt="extract_rolling_summaries",
    item=ContactTextItem,
    apply=apply,
    check=check_text,
)
