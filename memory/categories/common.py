"""What several categories do alike when they write."""

from __future__ import annotations

import zoneinfo
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

from memory.categories.spec import Applied, ApplyContext
from memory.model.category import Category
from memory.model.contact import USER_CONTACT
from memory.model.evidence import text_of
from memory.model.items import Dropped, DropReason, Grounded
from memory.model.redaction import redact
from memory.model.sentences import around
from memory.model.transcript import clean_text
from memory.model.window import CategoryOutcome

MAX_SHOWN_CHARS = 500


@dataclass
class Tally:
    """Counts of one category while it is applied."""

    category: Category
    proposed: int = 0
    applied: int = 0
    confirmed: int = 0
    dropped: list[Dropped] = field(default_factory=list[Dropped])
    refs: dict[str, str] = field(default_factory=dict[str, str])

    def drop(self, one: Grounded[Any], reason: DropReason) -> None:
        item = {
            name: value if isinstance(value, int | float | bool) else str(value)[:MAX_SHOWN_CHARS]
            for name, value in one.item.model_dump(mode="json", exclude_none=True).items()
        }
        self.dropped.append(Dropped(category=self.category, reason=reason, item=item))

    def result(self) -> Applied:
        counts = Counter(one.reason for one in self.dropped)
        outcome = CategoryOutcome(
            category=self.category,
            proposed=self.proposed,
            applied=self.applied,
            confirmed=self.confirmed,
            dropped=dict(counts),
        )
        return Applied(outcome, tuple(self.dropped), dict(self.refs))


def contact_number(ref: str | None, context: ApplyContext) -> int | None:
    """The contact that a ref stands for; None for one that stands for none (a contact that was not created after all)."""
    found = context.refs.get(ref) if ref is not None else None
    return int(found) if found is not None and found.isdecimal() else None


def clean(text: str) -> str:
    """As a store may have it: without what no store takes, and without secrets."""
    return redact(clean_text(text)).text.strip()


def one_line(text: str, most: int) -> str:
    """Cleaned, on one line, cut at a word."""
    plain = " ".join(clean(text).split())
    if len(plain) <= most:
        return plain
    cut = plain[: most - 1].rsplit(" ", 1)[0] if " " in plain[: most - 1] else plain[: most - 1]
    return cut.rstrip(" ,;:") + "…"


def quotes_of(one: Grounded[Any]) -> Sequence[str]:
    return [source.quote for source in one.sources]


def sentences_of(one: Grounded[Any], context: ApplyContext) -> list[str]:
    """The sentences that the quotes are from."""
    texts = {stored.event.event_id: text_of(stored) for stored in context.events}
    said = (sentence for source in one.sources for sentence in around(source.quote, texts.get(source.event_id or "", "")))
    return list(dict.fromkeys(said))


def said_at(one: Grounded[Any], context: ApplyContext) -> datetime:
    """When the item was said; of several quotes the latest."""
    moments = [source.said_at for source in one.sources if source.said_at is not None]
    return max(moments) if moments else context.now


async def zone_of_user(context: ApplyContext) -> tzinfo:
    """The zone that days and times of day are meant in: the user's, where it is known."""
    user = (await context.stores.contacts.get(context.window.scope, [USER_CONTACT])).get(USER_CONTACT)
    if user is None or not user.timezone:
        return UTC
    try:
        return zoneinfo.ZoneInfo(user.timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return UTC  # a zone that this machine does not know
