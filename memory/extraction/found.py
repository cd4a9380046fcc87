"""What the parts of a window gave, put together: one item once, one new contact once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.extraction.ground import shown
from memory.model.category import Category
from memory.model.contact import UNIQUE_FIELDS
from memory.model.evidence import normalised
from memory.model.items import MAX_EVIDENCE, ContactItem, Dropped, DropReason, Grounded, Item


@dataclass
class Found:
    """Items by category, over all parts.

    Refs of new contacts are made unique: ``new1`` of a later part is another contact than ``new1`` of the first. Where it is the
    same person (the same address or number, or the same full name and nothing against it), what the later part says of it is a
    change of the first one.
    """

    kept: dict[Category, list[Grounded[Any]]] = field(default_factory=dict[Category, list[Grounded[Any]]])
    dropped: dict[Category, list[Dropped]] = field(default_factory=dict[Category, list[Dropped]])
    proposed: dict[Category, int] = field(default_factory=dict[Category, int])
    _created: dict[str, ContactItem] = field(default_factory=dict[str, ContactItem])
    _refs: dict[str, str] = field(default_factory=dict[str, str])

    def begin_part(self) -> None:
        self._refs = {}

    def add(self, category: Category, items: Sequence[Grounded[Any]], dropped: Sequence[Dropped], *, proposed: int) -> None:
        """What one part has of one category; contacts before those that refer to them."""
        self.proposed[category] = self.proposed.get(category, 0) + proposed
        self.dropped.setdefault(category, []).extend(dropped)
        for one in items:
            if isinstance(one.item, ContactItem) and one.item.action == "create":
                self._name(one.item)
        kept = self.kept.setdefault(category, [])
        places = {one.key: place for place, one in enumerate(kept)}
        for one in items:
            if one.key in places:
                first = kept[places[one.key]]
                more = [source for source in one.sources if source not in first.sources]
                kept[places[one.key]] = first.model_copy(update={"sources": (*first.sources, *more)[: 2 * MAX_EVIDENCE]})
                self.dropped[category].append(Dropped(category=category, reason=DropReason.DUPLICATE, item=shown(one.item)))
                continue
            places[one.key] = len(kept)
            kept.append(one.model_copy(update={"item": self._renamed(one.item)}))

    def _name(self, item: ContactItem) -> None:
        if item.contact in self._refs:
            return
        for ref, other in self._created.items():
            if is_same_person(item, other):
                self._refs[item.contact] = ref
                return
        ref, number = item.contact, 1
        while ref in self._created:
            number += 1
            ref = f"{item.contact}p{number}"
        self._created[ref] = item
        self._refs[item.contact] = ref

    def _renamed(self, item: Item) -> Item:
        changed: dict[str, Any] = {
            name: self._refs[ref] for name in ("contact", "merge_with") if (ref := getattr(item, name, None)) in self._refs
        }
        if isinstance(item, ContactItem) and item.action == "create" and self._created.get(changed.get("contact", "")) is not item:
            changed["action"] = "update"
        return item.model_copy(update=changed) if changed else item


def is_same_person(one: ContactItem, other: ContactItem) -> bool:
    """By a unique field; by the full name only where no unique field tells them apart."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in UNIQUE_FIELDS]
    values = [(normalised(first), normalised(second)) for first, second in pairs if first and second]
    if values:
        return any(first == second for first, second in values)
    names = [" ".join(part for part in (item.first_name, item.surname) if part) for item in (one, other)]
    return bool(one.surname and one.first_name) and normalised(names[0]) == normalised(names[1])
