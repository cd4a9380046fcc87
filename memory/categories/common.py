"""What several categories do alike when they write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.categories.spec import Applied, ApplyContext
from memory.model.category import Category
from memory.model.items import Dropped, Grounded
from memory.model.redaction import redact
from memory.model.transcript import clean_text
from memory.model.window import CategoryOutcome


@dataclass
class Tally:
    """Counts of one category while it is applied."""

    category: Category
    applied: int = 0
    confirmed: int = 0
    dropped: list[Dropped] = field(default_factory=list[Dropped])
    refs: dict[str, str] = field(default_factory=dict[str, str])

    def drop(self, one: Grounded[Any], reason: str) -> None:
        item = {
            name: value if isinstance(value, int | float | bool) else str(value)[:500]
            for name, value in one.item.model_dump(mode="json", exclude_none=True).items()
        }
        self.dropped.append(Dropped(category=self.category, reason=reason, item=item))

    def result(self) -> Applied:
        counts = Counter(one.reason for one in self.dropped)
        outcome = CategoryOutcome(category=self.category, applied=self.applied, confirmed=self.confirmed, dropped=dict(counts))
        return Applied(outcome, tuple(self.dropped), dict(self.refs))


def contact_id(ref: str | None, context: ApplyContext, more: dict[str, str] | None = None) -> int | None:
    """The contact that a ref stands for; None for a ref that stands for none (a contact that was not created after all)."""
    if ref is None:
        return None
    found = (more or {}).get(ref) or context.refs.get(ref)
    return int(found) if found is not None and found.lstrip("-").isdecimal() else None


def clean(text: str) -> str:
    """As a store may have it: without what no store takes, and without secrets."""
    return redact(clean_text(text)).text.strip()


def quotes_of(one: Grounded[Any]) -> Sequence[str]:
    return [source.quote for source in one.sources]
