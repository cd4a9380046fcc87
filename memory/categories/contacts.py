# ruff: noqa: E501  (word lists)
"""Contacts: created, changed and merged on evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory.categories.common import Tally, clean, contact_id, quotes_of
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.contact import ASSISTANT_CONTACT, SYSTEM_CONTACTS, UNIQUE_FIELDS, Contact
from memory.model.contact_rules import checked_fields
from memory.model.errors import InvalidInput
from memory.model.evidence import normalised
from memory.model.items import ContactItem, DropReason, Grounded
from memory.model.words import fold
from memory.ports import ContactChangeRequest, CreateContact, MergeContacts, UpdateContact

FIELDS: Final = (
    "first_name",
    "surname",
    "email_address",
    "phone_number",
    "whatsapp_number",
    "timezone",
    "job_title",
)
MAX_LOOKED_AT: Final = 1_000

_SERVICE_BOX = re.compile(
    r"^(?:info|support|service|kontakt|contact|office|hello|hallo|help|helpdesk|billing|rechnung|sales|vertrieb|noreply|no-reply|team|post|mail|kundenservice|buchhaltung|reception|empfang|orders?|bestellung)@",
    re.IGNORECASE,
)
_SERVICE = re.compile(
    r"\b(?:hotline|helpdesk|customer service|call cent(?:er|re)|support team|service desk|reception desk|kundendienst|kundenservice|zentrale|servicecenter)\b|客服|服务热线|總機|总机",
    re.IGNORECASE,
)
_SAME = re.compile(
    r"\b(?:is|are|was) (?:the same (?:person|contact|one)|actually|also|really|my other|identical)\b|\bsame person\b|\b(?:also known as|aka|a\.k\.a\.|goes by|my other (?:number|address|e-?mail))\b|\bmerge\b"
    r"|\b(?:dieselbe|derselbe|gleiche) (?:person|kontakt|frau|mann)?\b|\b(?:ist|sind) (?:auch|eigentlich|in wirklichkeit|identisch)\b|\bauch bekannt als\b|同一个人|同一個人|就是|也叫|又名",
    re.IGNORECASE,
)


async def apply(items: Sequence[Grounded[ContactItem]], context: ApplyContext) -> Applied:
    """Creations first, so that changes and merges can refer to them."""
    tally = Tally(Category.CONTACTS)
    scope = context.window.scope
    known = {contact.contact_id: contact for contact in await context.stores.contacts.list(scope, limit=MAX_LOOKED_AT)}
    await _create([one for one in items if one.item.action == "create"], context, tally, known)
    changes: list[ContactChangeRequest] = []
    by_key: dict[str, Grounded[ContactItem]] = {}
    for one in items:
        number = contact_id(one.item.contact, context, tally.refs)
        if one.item.action == "create":
            continue
        by_key[one.key] = one
        if number is None or (number not in known and number not in {int(new) for new in tally.refs.values()}):
            tally.drop(one, DropReason.UNKNOWN_REF)
        elif one.item.action == "merge":
            if (merge := _merge(one, number, context, tally, known)) is not None:
                changes.append(merge)
        elif (update := _update(one, number, tally, known)) is not None:
            changes.append(update)
    for result in await context.stores.contacts.apply(scope, changes, origin=context.origin, now=context.now):
        if result.conflict is not None:
            tally.drop(by_key[result.effect], DropReason.CONFLICT)
        tally.applied += result.did in ("updated", "merged")
        tally.confirmed += result.did == "nothing" and result.conflict is None
    return tally.result()


async def _create(
    items: Sequence[Grounded[ContactItem]], context: ApplyContext, tally: Tally, known: Mapping[int, Contact]
) -> None:
    changes: list[ContactChangeRequest] = []
    by_key: dict[str, Grounded[ContactItem]] = {}
    for one in items:
        fields = _fields(one, tally)
        if fields is None:
            continue
        if not fields:
            tally.drop(one, DropReason.MALFORMED)
            continue
        by_key[one.key] = one
        same = _same_name(fields, known)
        if same is not None:
            missing = {name: value for name, value in fields.items() if getattr(same, name) is None}
            changes.append(UpdateContact(one.key, same.contact_id, missing, one.sources))
        else:
            changes.append(CreateContact(one.key, fields, (), one.sources))
    for result in await context.stores.contacts.apply(context.window.scope, changes, origin=context.origin, now=context.now):
        one = by_key[result.effect]
        if result.conflict is not None:
            tally.drop(one, DropReason.CONFLICT)
            continue
        tally.refs[one.item.contact] = str(result.contact_id)
        tally.applied += result.did in ("created", "updated")
        tally.confirmed += result.did == "nothing"


def _update(one: Grounded[ContactItem], number: int, tally: Tally, known: Mapping[int, Contact]) -> UpdateContact | None:
    fields = _fields(one, tally, known.get(number))
    if fields is None:
        return None
    if number == ASSISTANT_CONTACT:
        # The assistant is not renamed by what somebody calls it.
        fields = {name: value for name, value in fields.items() if name not in ("first_name", "surname")}
    if not fields:
        tally.drop(one, DropReason.MALFORMED)
        return None
    return UpdateContact(one.key, number, fields, one.sources)


def _merge(
    one: Grounded[ContactItem], number: int, context: ApplyContext, tally: Tally, known: Mapping[int, Contact]
) -> MergeContacts | None:
    other = contact_id(one.item.merge_with, context, tally.refs)
    if other is None or other == number:
        tally.drop(one, DropReason.UNKNOWN_REF)
        return None
    keep, drop = (number, other) if other not in SYSTEM_CONTACTS else (other, number)
    if drop in SYSTEM_CONTACTS:
        tally.drop(one, DropReason.CONFLICT)
        return None
    if drop < keep and keep not in SYSTEM_CONTACTS:
        keep, drop = drop, keep
    if not _is_evident(one, known.get(keep), known.get(drop)):
        tally.drop(one, DropReason.UNGROUNDED)
        return None
    return MergeContacts(one.key, keep, drop, one.sources)


def _is_evident(one: Grounded[ContactItem], keep: Contact | None, drop: Contact | None) -> bool:
    """The same unique field, or somebody says so in plain words."""
    if any(_SAME.search(quote) for quote in quotes_of(one)):
        return True
    if keep is None or drop is None:
        return False
    ids = [{fold(value) for value in _unique_values(contact)} for contact in (keep, drop)]
    return bool(ids[0] & ids[1])


def _unique_values(contact: Contact) -> list[str]:
    return [value for name in UNIQUE_FIELDS if (value := getattr(contact, name))] + list(contact.aliases)


def _fields(one: Grounded[ContactItem], tally: Tally, contact: Contact | None = None) -> dict[str, Any] | None:
    """What the item says, in the form of the store; None (and dropped) where a value cannot be stored."""
    given = {name: clean(value) for name in FIELDS if (value := getattr(one.item, name))}
    if _is_service(given, one, contact):
        # Whoever happens to answer there is not its name.
        given = {name: value for name, value in given.items() if name not in ("first_name", "surname", "job_title")}
    try:
        return {name: value for name, value in checked_fields(given).items() if value is not None}
    except InvalidInput:
        tally.drop(one, DropReason.MALFORMED)
        return None


def _is_service(given: Mapping[str, str], one: Grounded[ContactItem], contact: Contact | None) -> bool:
    boxes = [given.get("email_address", ""), *((contact.email_address or "", *contact.aliases) if contact else ())]
    if any(_SERVICE_BOX.match(box) for box in boxes):
        return True
    return not given.get("surname") and any(_SERVICE.search(quote) for quote in quotes_of(one))


def _same_name(fields: Mapping[str, Any], known: Mapping[int, Contact]) -> Contact | None:
    """The one contact with this full name and nothing that speaks against it."""
    name = normalised(" ".join(part for part in (fields.get("first_name"), fields.get("surname")) if part))
    if not name or not fields.get("surname"):
        return None
    found = [contact for contact in known.values() if normalised(contact.name) == name]
    if len(found) != 1:
        return None
    differs = [
        field
        for field in UNIQUE_FIELDS
        if fields.get(field) and getattr(found[0], field) and fields[field] != getattr(found[0], field)
    ]
    return None if differs else found[0]


SPEC = CategorySpec(
    category=Category.CONTACTS,
    prompt="extract_contacts",
    item=ContactItem,
    apply=apply,
    shielded_by=frozenset({"contactmanager", "contacts"}),
)
