"""From items as a model gave them to items that rest on the window: every rule that does not need a store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.categories.spec import CategorySpec
from memory.model.category import Category
from memory.model.evidence import cited_events, is_assistants_own, is_grounded, keeps_script, normalised, sources_of, text_of
from memory.model.ids import short_hash
from memory.model.items import ContactItem, ContactTextItem, Dropped, DropReason, Grounded, Item, KnowledgeItem, TaskItem
from memory.model.redaction import redact
from memory.model.shield import handled_by
from memory.model.transcript import stamp
from memory.model.window import StoredEvent, Window
from memory.prompts.extraction import Known

NEIGHBOURS: Final = 3
"""Lines before a cited one that may name what it speaks of."""

_REF_FIELDS: Final = ("contact", "merge_with", "task", "related")
_TEXT_FIELDS: Final = ("statement", "subject", "text", "name", "description", "first_name", "surname", "job_title")


@dataclass
class Grounds:
    """One reply's items against one run of lines.

    Args:
        window: whose they are.
        events: the lines that the reply cites.
        known: what the prompt said.
        refs: what its refs stand for.
    """

    window: Window
    events: Sequence[StoredEvent]
    known: Known
    refs: Mapping[str, str]
    created: set[str] = field(default_factory=set[str])
    """Refs of contacts that the reply creates."""

    def check(self, spec: CategorySpec, items: Sequence[Item], origin: str) -> tuple[list[Grounded[Any]], list[Dropped]]:
        """The items that hold, and those that do not with the reason."""
        if spec.category is Category.CONTACTS:
            self.created |= {item.contact for item in items if isinstance(item, ContactItem) and item.action == "create"}
        kept: list[Grounded[Any]] = []
        dropped: list[Dropped] = []
        for item in items:
            result = self._one(spec, item, origin)
            if isinstance(result, str):
                dropped.append(Dropped(category=spec.category, reason=result, item=shown(item)))
            else:
                kept.append(result)
        return kept, dropped

    def _one(self, spec: CategorySpec, item: Item, origin: str) -> Grounded[Any] | str:
        sources = sources_of(item, self.events, origin=origin)
        if isinstance(sources, DropReason):
            return sources
        cited = cited_events(item, self.events)
        off = self.window.spaces_off.get(spec.category, ())
        if any(stored.space_id in off for stored in cited):
            return DropReason.CATEGORY_OFF
        if spec.user_evidence and all(map(is_assistants_own, cited)):
            return DropReason.ASSISTANT_ONLY
        if not self._refs_hold(item):
            return DropReason.UNKNOWN_REF
        texts = texts_of(item)
        if any(redact(text).kinds for text in texts):
            return DropReason.ROUTED_ELSEWHERE
        if handled_by(texts, self.events, spec.shielded_by) is not None:
            return DropReason.ALREADY_HANDLED
        told = _told(item)
        if told and not keeps_script(told, [source.quote for source in sources]):
            return DropReason.TRANSLATED
        if not all(is_grounded(text, self._support(item, cited)) for text in texts):
            return DropReason.UNGROUNDED
        if spec.check is not None and (reason := spec.check(item, cited)) is not None:
            return reason
        return Grounded(key=self._key(spec.category, item), item=item, sources=sources)

    def _refs_hold(self, item: Item) -> bool:
        for name in _REF_FIELDS:
            ref = getattr(item, name, None)
            if ref is None:
                continue
            if isinstance(item, KnowledgeItem) and item.relation == "new":
                continue
            if ref not in self.refs and ref not in self.created:
                return False
        return True

    def _support(self, item: Item, cited: Sequence[StoredEvent]) -> list[str]:
        """What names and numbers of the item may come from."""
        people = [part for contact in self.known.contacts for part in (contact.name, *contact.aliases) if part]
        people += [contact.job_title for contact in self.known.contacts if contact.job_title]
        days = [stamp(stored.event.timestamp)[:10] for stored in cited]
        if isinstance(item, ContactTextItem):
            number = self.refs.get(item.contact)
            old = [
                text
                for contact in self.known.contacts
                if str(contact.contact_id) == number
                for text in (
                    contact.bio,
                    contact.rolling_summary,
                    contact.response_policy,
                    contact.email_address,
                    contact.phone_number,
                )
                if text
            ]
            return [*people, *days, *old, *(text_of(stored) for stored in self.events)]
        places = {stored.seq: place for place, stored in enumerate(self.events)}
        near = {place for stored in cited for place in range(max(0, places[stored.seq] - NEIGHBOURS), places[stored.seq] + 1)}
        said = [text_of(self.events[place]) for place in sorted(near)]
        related = [text for text in self._related_texts(item) if text]
        return [*people, *days, *said, *related]

    def _related_texts(self, item: Item) -> list[str]:
        if isinstance(item, KnowledgeItem) and item.related:
            wanted = self.refs.get(item.related)
            return [part for fact in self.known.facts if fact.fact_id == wanted for part in (fact.statement, fact.subject)]
        if isinstance(item, TaskItem) and item.task:
            wanted = self.refs.get(item.task)
            return [part for task in self.known.tasks if task.task_id == wanted for part in (task.name, task.description)]
        return []

    def _key(self, category: Category, item: Item) -> str:
        """Of user, window and content; refs by what they stand for, so that another numbering gives the same key."""
        content = {
            name: self.refs.get(value, value) if name in _REF_FIELDS and isinstance(value, str) else _plain(value)
            for name, value in item.model_dump(exclude={"evidence"}, exclude_none=True).items()
        }
        scope = self.window.scope
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, default=str)
        return short_hash(scope.tenant, scope.user, self.window.window_id, category.value, canonical)


def texts_of(item: Item) -> list[str]:
    """What an item says in words."""
    return [value for name in _TEXT_FIELDS if isinstance(value := getattr(item, name, None), str) and value]


def _told(item: Item) -> str:
    """The part that has to be in the language of its source."""
    return " ".join(value for name in ("statement", "text", "name") if isinstance(value := getattr(item, name, None), str))


def shown(item: Item) -> dict[str, Any]:
    """An item for the person who looks, bounded."""
    return {
        name: value if isinstance(value, int | float | bool) else str(value)[:500]
        for name, value in item.model_dump(mode="json", exclude_none=True).items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return normalised(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value
