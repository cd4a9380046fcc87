"""Contacts: created, changed and merged, on evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.categories.common import Tally, clean, contact_number, sentences_of
from memory.categories.contact_rules import (
    FIELDS,
    NAME_FIELDS,
    claims_field,
    is_plainly_same,
    keeps_no_name,
    share_field,
    speaks_of_self,
)
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.called_contacts import CONTACT_MANAGERS
from memory.model.category import Category
from memory.model.contact import ASSISTANT_CONTACT, SYSTEM_CONTACTS, UNIQUE_FIELDS, Contact
from memory.model.contact_rules import checked_field
from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, MessageEvent
from memory.model.evidence import text_of
from memory.model.items import ContactItem, DropReason, Grounded, Item
from memory.model.sentences import around
from memory.model.window import StoredEvent
from memory.ports import ContactChangeRequest, CreateContact, MergeContacts, UpdateContact

MAX_NAMESAKES: Final = 10
_REASONS: Final = {"unknown": DropReason.UNKNOWN_REF, "forgotten": DropReason.FORGOTTEN}


def check(item: Item, cited: Sequence[StoredEvent]) -> str | None:
    """An item that sets nothing, or merges a contact with itself."""
    if not isinstance(item, ContactItem):
        return DropReason.MALFORMED
    if item.action == "merge":
        return DropReason.MALFORMED if item.merge_with in (None, item.contact) else None
    return None if any((getattr(item, name) or "").strip() for name in FIELDS) else DropReason.MALFORMED


async def apply(items: Sequence[Grounded[ContactItem]], context: ApplyContext) -> Applied:
    """All in one transaction; creations first, so that changes and merges can refer to them."""
    tally = Tally(Category.CONTACTS, proposed=len(items))
    work = _Work(context, tally)
    await work.load(items)
    for one in sorted(items, key=lambda one: ("create", "update", "merge").index(one.item.action)):
        if one.item.action == "create":
            await work.create(one)
        elif one.item.action == "update":
            work.update(one)
        else:
            work.merge(one)
    await work.write()
    return tally.result()


@dataclass
class _Work:
    """The changes of one window. ``new``: the creation of each ``new<n>``, into which later items for it go."""

    context: ApplyContext
    tally: Tally
    known: dict[int, Contact] = field(default_factory=dict[int, Contact])
    changes: list[ContactChangeRequest] = field(default_factory=list[ContactChangeRequest])
    owners: dict[str, Grounded[ContactItem]] = field(default_factory=dict[str, Grounded[ContactItem]])
    """By effect key, the item that it is of."""
    new: dict[str, int] = field(default_factory=dict[str, int])
    """By ``new<n>``, the place of its creation in ``changes``."""
    folded: dict[str, list[Grounded[ContactItem]]] = field(default_factory=dict[str, list[Grounded[ContactItem]]])
    """By effect key of a creation, items that became a part of it."""

    async def load(self, items: Sequence[Grounded[ContactItem]]) -> None:
        refs = {ref for one in items for ref in (one.item.contact, one.item.merge_with) if ref}
        numbers = {number for ref in refs if (number := contact_number(ref, self.context)) is not None}
        if numbers:
            self.known = dict(await self.context.stores.contacts.get(self.context.window.scope, numbers))

    # -------------------------------------------------------------------------------------------------------------- create

    async def create(self, one: Grounded[ContactItem]) -> None:
        if one.item.contact in self.new:
            self._fold(one)
            return
        fields = self._fields(one, None)
        if not fields:
            # A name that is none (the hotline's "Ben"), a number that cannot be one: nothing is left to find it by.
            self.tally.drop(one, DropReason.ROUTED_ELSEWHERE)
            return
        self.owners[one.key] = one
        self.new[one.item.contact] = len(self.changes)
        aliases = self._aliases(one, fields)
        namesake = None if aliases else await self._namesake(fields)
        if namesake is None:
            self.changes.append(CreateContact(one.key, fields, aliases, one.sources))
        else:
            missing = {name: value for name, value in fields.items() if getattr(namesake, name) is None}
            self.changes.append(UpdateContact(one.key, namesake.contact_id, missing, one.sources))

    def _fold(self, one: Grounded[ContactItem]) -> None:
        """More about a contact that this window creates: one creation with all of it, the first word on a field counts."""
        place = self.new[one.item.contact]
        change = self.changes[place]
        fields = self._fields(one, None)
        assert not isinstance(change, MergeContacts)  # noqa: S101 - creations only
        sources = tuple(dict.fromkeys((*change.sources, *one.sources)))
        merged = {**fields, **change.fields}
        if isinstance(change, CreateContact):
            self.changes[place] = CreateContact(change.effect, merged, change.aliases, sources)
        else:
            self.changes[place] = UpdateContact(change.effect, change.contact_id, merged, sources)
        self.folded.setdefault(change.effect, []).append(one)

    async def _namesake(self, fields: Mapping[str, Any]) -> Contact | None:
        """The one known contact with this name, when no address or number speaks against it."""
        first, surname = fields.get("first_name"), fields.get("surname")
        if not first and not surname:
            return None
        where = {name: value for name, value in zip(NAME_FIELDS, (first, surname), strict=True) if value}
        found = await self.context.stores.contacts.list(self.context.window.scope, where=where, limit=MAX_NAMESAKES)
        found = [contact for contact in found if contact.contact_id != ASSISTANT_CONTACT]
        if len(found) != 1 or (not (first and surname) and any(name in fields for name in UNIQUE_FIELDS)):
            return None
        differs = any(fields.get(name) and getattr(found[0], name) not in (None, fields[name]) for name in UNIQUE_FIELDS)
        return None if differs else found[0]

    def _aliases(self, one: Grounded[ContactItem], fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Sender ids that are the new contact's: one that is its address or number, or of the one who introduces themselves."""
        senders = [
            stored.event.sender_id
            for stored in self._cited(one)
            if isinstance(stored.event, MessageEvent) and stored.event.sender_id not in (USER_ID, ASSISTANT_ID)
        ]
        senders = list(dict.fromkeys(senders))
        values = {str(fields[name]).casefold() for name in UNIQUE_FIELDS if name in fields}
        own = [sender for sender in senders if sender.casefold() in values]
        if not own and len(senders) == 1 and speaks_of_self(one.item, sentences_of(one, self.context)):
            own = senders
        return tuple(own)

    # -------------------------------------------------------------------------------------------------------------- update

    def update(self, one: Grounded[ContactItem]) -> None:
        if one.item.contact in self.new:
            self._fold(one)
            return
        number = contact_number(one.item.contact, self.context)
        contact = self.known.get(number) if number is not None else None
        if contact is None:
            self.tally.drop(one, DropReason.UNKNOWN_REF)
            return
        fields = self._fields(one, contact)
        if contact.contact_id == ASSISTANT_CONTACT:
            # The assistant is not renamed by what somebody calls it.
            fields = {name: value for name, value in fields.items() if name not in NAME_FIELDS}
        # An address or number that belongs to somebody else must not take the rest with it.
        plain = {name: value for name, value in fields.items() if name not in UNIQUE_FIELDS}
        if not fields:
            self.tally.drop(one, DropReason.ROUTED_ELSEWHERE)
            self._refuse(UpdateContact(one.key, contact.contact_id, {}))
            return
        self._update(one, one.key, contact, plain)
        for name in UNIQUE_FIELDS:
            if name in fields:
                self._update(one, f"{one.key}:{name}", contact, {name: fields[name]})

    def _refuse(self, change: ContactChangeRequest) -> None:
        """A change of nothing, so that the key is used up: what is refused now is refused whenever the window is applied again."""
        self.changes.append(change)

    def _update(self, one: Grounded[ContactItem], effect: str, contact: Contact, fields: Mapping[str, Any]) -> None:
        self.owners[effect] = one
        self.changes.append(UpdateContact(effect, contact.contact_id, fields, one.sources))

    # --------------------------------------------------------------------------------------------------------------- merge

    def merge(self, one: Grounded[ContactItem]) -> None:
        numbers = [contact_number(ref, self.context) for ref in (one.item.contact, one.item.merge_with)]
        found = [self.known.get(number) if number is not None else None for number in numbers]
        if found[0] is None or found[1] is None:
            self.tally.drop(one, DropReason.UNKNOWN_REF)
            return
        # The older one is kept; those of the system are the oldest.
        keep, drop = sorted((found[0], found[1]), key=lambda contact: contact.contact_id)
        if drop.contact_id in SYSTEM_CONTACTS and keep.contact_id != drop.contact_id:
            self.tally.drop(one, DropReason.CONFLICT)
            return
        if keep.contact_id != drop.contact_id and not self._is_evident(one, keep, drop):
            self.tally.drop(one, DropReason.UNGROUNDED)
            self._refuse(MergeContacts(one.key, keep.contact_id, keep.contact_id))
            return
        # Of two that were merged before, by this item or by another, the store says which it was.
        ids = sorted(number for number in numbers if number is not None)
        self.owners[one.key] = one
        self.changes.append(MergeContacts(one.key, ids[0], ids[1], one.sources))

    def _is_evident(self, one: Grounded[ContactItem], keep: Contact, drop: Contact) -> bool:
        """The same address or number, or somebody says so in plain words."""
        if share_field(keep, drop):
            return True
        cited = self._cited(one)
        if is_plainly_same(keep, drop, sentences_of(one, self.context), [text_of(stored) for stored in cited]):
            return True
        for stored in cited:
            sender = stored.event.sender_id if isinstance(stored.event, MessageEvent) else None
            quotes = [source.quote for source in one.sources if source.event_id == stored.event.event_id]
            said = [sentence for quote in quotes for sentence in around(quote, text_of(stored))]
            for speaker, holder in ((keep, drop), (drop, keep)):
                if sender in speaker.aliases and claims_field(speaker, holder, said):
                    return True
        return False

    # --------------------------------------------------------------------------------------------------------------- parts

    async def write(self) -> None:
        results = await self.context.stores.contacts.apply(
            self.context.window.scope, self.changes, origin=self.context.origin, now=self.context.now
        )
        did: dict[str, set[str]] = {}
        for result in results:
            one = self.owners.get(result.effect)
            if one is None:
                continue
            if result.conflict is not None:
                self.tally.drop(one, _REASONS.get(result.conflict, DropReason.CONFLICT))
                for other in self.folded.get(result.effect, ()):
                    self.tally.drop(other, DropReason.FORGOTTEN if result.conflict == "forgotten" else DropReason.CONFLICT)
                continue
            did.setdefault(one.key, set()).add(result.did)
            for other in self.folded.get(result.effect, ()):
                did.setdefault(other.key, set()).add("nothing")
            if one.item.action == "create":
                self.tally.refs[one.item.contact] = str(result.contact_id)
        for outcomes in did.values():
            changed = bool(outcomes - {"nothing"})
            self.tally.applied += changed
            self.tally.confirmed += not changed

    def _cited(self, one: Grounded[ContactItem]) -> list[StoredEvent]:
        ids = {source.event_id for source in one.sources}
        return [stored for stored in self.context.events if stored.event.event_id in ids]

    def _fields(self, one: Grounded[ContactItem], contact: Contact | None) -> dict[str, Any]:
        """What the item sets, in the form of the store, without what cannot be stored."""
        item = one.item
        given = {name: clean(value) for name in FIELDS if (value := getattr(item, name))}
        addresses = [given[name] for name in UNIQUE_FIELDS if name in given]
        if keeps_no_name(addresses, item, sentences_of(one, self.context), contact):
            given = {name: value for name, value in given.items() if name not in NAME_FIELDS}
        fields: dict[str, Any] = {}
        for name, value in given.items():
            try:
                stored = checked_field(name, value)
            except InvalidInput:
                continue  # a number that is none, a time zone that there is not: the rest of the item stands
            if stored is not None:
                fields[name] = stored
        return fields


SPEC: Final = CategorySpec(
    category=Category.CONTACTS,
    prompt="extract_contacts",
    item=ContactItem,
    apply=apply,
    check=check,
    shielded_by=CONTACT_MANAGERS,
)
