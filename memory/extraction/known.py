"""What an extraction is told of: the people of the window, live tasks, facts that its messages touch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from memory.categories.spec import CategorySpec, Stores
from memory.model.called_contacts import called_contacts
from memory.model.category import Category
from memory.model.contact import SYSTEM_CONTACTS, TEXT_FIELDS, UNIQUE_FIELDS, Contact
from memory.model.contact_rules import email_address, phone_number
from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, MessageEvent
from memory.model.evidence import normalised, text_of
from memory.model.ids import short_hash
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.task import LIVE_STATUSES
from memory.model.window import StoredEvent
from memory.model.words import fold, is_dense, tokens
from memory.ports import CreateContact, UpdateContact
from memory.prompts.extraction import Known

MAX_TASKS: Final = 50
MAX_FACTS: Final = 20
MAX_TEAM_FACTS: Final = 10
MAX_CONTACTS: Final = 60
PAGE: Final = 500
MAX_READ: Final = 5_000
MAX_PARTICIPANTS: Final = 40
MIN_DIGITS: Final = 7
MAX_DIGITS: Final = 15
"""Of a sender id that is a telephone number; shorter ones are ids of the orchestrator."""
QUERY_CHARS: Final = 20_000

_ABOUT_PEOPLE: Final = frozenset(
    {Category.CONTACTS, Category.BIOS, Category.ROLLING_SUMMARIES, Category.RESPONSE_POLICIES, Category.TASKS}
)
_WITHOUT_TEXTS: Final[Mapping[str, None]] = dict.fromkeys(TEXT_FIELDS)


async def load_known(
    stores: Stores,
    scope: Scope,
    events: Sequence[StoredEvent],
    *,
    specs: Sequence[CategorySpec],
    now: datetime,
    teams: Sequence[Owner] = (),
) -> Known:
    """Read what these categories need to know.

    ``teams``: the user's; their facts are told too, after the user's own.

    Whoever takes part in the window and is no contact yet becomes one, without a name, where a category is about people: its text
    needs a row to land in. One that a call of a contact manager in the window named is named so.

    Raises:
        StoreUnavailable: a store is away.
    """
    asked = {spec.category for spec in specs}
    people = bool(asked & _ABOUT_PEOPLE)
    everyone = await _everyone(stores, scope) if people else {}
    senders = _participants(events)
    participants = dict(await stores.contacts.by_alias(scope, senders))
    if people:
        participants.update(_by_name([sender for sender in senders if sender not in participants], everyone))
        unknown = [sender for sender in senders if sender not in participants]
        if unknown:
            changes = [_new_contact(sender, events) for sender in unknown]
            await stores.contacts.apply(scope, changes, origin="sender", now=now)
            participants.update(await stores.contacts.by_alias(scope, unknown))
        named = await _named_as_called(stores, scope, events, participants, now)
        everyone.update(named)
        participants = {sender: named.get(contact.contact_id, contact) for sender, contact in participants.items()}
    contacts = {number: everyone[number] for number in SYSTEM_CONTACTS if number in everyone}
    if len(contacts) < len(SYSTEM_CONTACTS):
        contacts = dict(await stores.contacts.get(scope, SYSTEM_CONTACTS))
    contacts.update({contact.contact_id: contact for contact in participants.values()})
    others = [contact for number, contact in everyone.items() if number not in contacts]
    chosen = _chosen(others, events, room=MAX_CONTACTS - len(contacts))
    contacts.update({contact.contact_id: contact for contact in chosen})
    tasks = await stores.tasks.list(scope, statuses=LIVE_STATUSES, limit=MAX_TASKS) if Category.TASKS in asked else ()
    facts = ()
    if Category.KNOWLEDGE in asked and (query := _said(events)):
        await stores.search.settle(View(scope))
        found = await stores.search.search(View(scope), query, limit=MAX_FACTS)
        facts = tuple(one.fact for one in found)
        if teams:
            own = Owner.user(scope).key
            seen = await stores.search.search(View(scope, tuple(teams)), query, limit=MAX_FACTS + MAX_TEAM_FACTS)
            facts += tuple(one.fact for one in seen if one.fact.owner != own)[:MAX_TEAM_FACTS]
    return Known(
        contacts=tuple(contacts[number] for number in sorted(contacts)),
        tasks=tuple(reversed(tasks)),
        facts=facts,
        names={sender: contact.name for sender, contact in participants.items() if contact.name},
    )


async def _everyone(stores: Stores, scope: Scope) -> dict[int, Contact]:
    """All contacts of the user, up to a bound that no address book reaches."""
    found: dict[int, Contact] = {}
    after: int | None = None
    while len(found) < MAX_READ:
        page = await stores.contacts.list(scope, limit=PAGE, after=after)
        found.update({contact.contact_id: contact for contact in page})
        if len(page) < PAGE:
            break
        after = page[-1].contact_id
    return found


async def _named_as_called(
    stores: Stores, scope: Scope, events: Sequence[StoredEvent], participants: Mapping[str, Contact], now: datetime
) -> dict[int, Contact]:
    """Contacts whose names a call of a contact manager in the window gave, as they are with them.

    The shield leaves what such a call did to whoever called, and it would leave the contact without its name here. Only what is
    not known is filled in; where the call's address and id are of several contacts, or of none, it is left alone.
    """
    called = called_contacts(events)
    known = dict(await stores.contacts.by_alias(scope, {address for one in called for address in one.addresses})) if called else {}
    changes: list[UpdateContact] = []
    for one in called:
        meant = [known[address] for address in one.addresses if address in known]
        meant += [participants[person] for person in one.ids if person in participants]
        if len({contact.contact_id for contact in meant}) != 1 or meant[0].contact_id in SYSTEM_CONTACTS:
            continue
        contact = meant[0]
        old = {name: getattr(contact, name) for name in one.names}
        missing = {name: value for name, value in one.names.items() if old[name] is None}
        if missing and all(fold(value) == fold(old[name]) for name, value in one.names.items() if old[name] is not None):
            effect = f"called:{short_hash(one.event_id, str(contact.contact_id))}"
            changes.append(UpdateContact(effect, contact.contact_id, missing))
    if not changes:
        return {}
    await stores.contacts.apply(scope, changes, origin="call", now=now)
    return dict(await stores.contacts.get(scope, {change.contact_id for change in changes}))


def _by_name(senders: Sequence[str], everyone: Mapping[int, Contact]) -> dict[str, Contact]:
    """Senders that are called as exactly one contact is: a transcript that is handed in has names where ids would be."""
    named: dict[str, list[Contact]] = {}
    for contact in everyone.values():
        if contact.name:
            named.setdefault(normalised(contact.name), []).append(contact)
    return {sender: found[0] for sender in senders if len(found := named.get(normalised(sender), [])) == 1}


def _chosen(contacts: Sequence[Contact], events: Sequence[StoredEvent], *, room: int) -> list[Contact]:
    """Contacts beside those that take part: first the ones that are spoken of; the others by name only, as far as there is room."""
    if not contacts:
        return []
    said = [text_of(stored) for stored in events]
    words = {fold(token) for text in said for token in tokens(text)}
    whole = fold("\n".join(said))
    mentioned: list[Contact] = []
    others: list[Contact] = []
    for contact in contacts:
        (mentioned if _is_mentioned(contact, words, whole) else others).append(contact)
    return [*mentioned, *(contact.model_copy(update=_WITHOUT_TEXTS) for contact in others)][: max(0, room)]


def _is_mentioned(contact: Contact, words: Collection[str], whole: str) -> bool:
    for token in tokens(contact.name):
        name = fold(token)
        if (len(name) > 1 and name in whole) if is_dense(token) else (len(name) > 1 and (name in words or f"{name}'s" in words)):
            return True
    return any(value and fold(value) in whole for name in UNIQUE_FIELDS if (value := getattr(contact, name)))


def _participants(events: Sequence[StoredEvent]) -> list[str]:
    """Senders and receivers of the messages, each once, in order."""
    people: dict[str, None] = {}
    for stored in events:
        if isinstance(stored.event, MessageEvent):
            for person in (stored.event.sender_id, *stored.event.receiver_ids):
                people.setdefault(person, None)
    return list(people)[:MAX_PARTICIPANTS]


def _new_contact(sender: str, events: Sequence[StoredEvent]) -> CreateContact:
    """Made once for a message; should it be forgotten, a later message of that sender makes it again."""
    seen = [
        stored.event
        for stored in events
        if isinstance(stored.event, MessageEvent) and sender in (stored.event.sender_id, *stored.event.receiver_ids)
    ]
    last = max(seen, key=lambda event: event.timestamp)
    effect = f"sender:{short_hash(sender, last.event_id)}"
    return CreateContact(effect, _fields(sender), (sender,), seen_at=last.timestamp)


def _fields(sender: str) -> dict[str, str]:
    """What a sender id itself says of a contact: an address, a number."""
    if sender in (USER_ID, ASSISTANT_ID):
        return {}
    try:
        if "@" in sender:
            return {"email_address": email_address(sender)}
        number = phone_number(sender)
    except InvalidInput:
        return {}
    return {"phone_number": number} if MIN_DIGITS <= len(number.removeprefix("+")) <= MAX_DIGITS else {}


def _said(events: Sequence[StoredEvent]) -> str:
    said = [stored.event.content or "" for stored in events if isinstance(stored.event, MessageEvent)]
    return "\n".join(text[: QUERY_CHARS // max(1, len(said))] for text in said if text.strip())
