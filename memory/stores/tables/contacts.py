"""Contacts in SQL: one row each, sender ids beside them, and the history of every field."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Connection, Row, bindparam, or_, select

from memory.model.contact import Contact, ContactChange
from memory.model.contact_rules import EDITABLE_FIELDS, checked_field, email_address, email_key, phone_number
from memory.model.errors import BeingForgotten, InvalidInput
from memory.model.fact import Source
from memory.model.ids import encode_segment
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.ports import ContactChangeRequest, ContactResult, ContactStore
from memory.stores.tables.columns import to_utc
from memory.stores.tables.contact_writer import ContactWriter, checked_change, seed_contacts
from memory.stores.tables.effects import apply_once
from memory.stores.tables.engine import Database
from memory.stores.tables.forgotten import GONE, forget_contacts
from memory.stores.tables.indexing import IndexedRows, joined
from memory.stores.tables.provenance import sources_of
from memory.stores.tables.rows_records import CONTACT_ALIASES, CONTACT_CHANGES, CONTACTS
from memory.stores.tables.scoping import Prepared, Records, batches, checked_limit

T = TypeVar("T")

_FILTERS = frozenset({*EDITABLE_FIELDS, "contact_id", "is_system"})
_MAX_CONTACT_ID = 2**63 - 1

_IDS: BindParameter[Any] = bindparam("b_ids", expanding=True)
_SEED = Prepared(select(CONTACTS.c.contact_id).where(CONTACTS.c.contact_id == 0))
_MERGED = Prepared(select(CONTACTS.c.contact_id, CONTACTS.c.merged_into).where(CONTACTS.c.contact_id.in_(_IDS)))
_BY_ID = Prepared(select(CONTACTS).where(CONTACTS.c.contact_id.in_(_IDS)))
_PAGE = Prepared(
    select(CONTACTS)
    .where(CONTACTS.c.merged_into.is_(None), CONTACTS.c.contact_id > bindparam("b_after"))
    .order_by(CONTACTS.c.contact_id)
    .limit(bindparam("b_limit"))
)
_ALIASES = Prepared(select(CONTACT_ALIASES).where(CONTACT_ALIASES.c.contact_id.in_(_IDS)).order_by(CONTACT_ALIASES.c.alias_key))
_BY_ALIAS = Prepared(
    select(CONTACT_ALIASES.c.alias_key, CONTACT_ALIASES.c.contact_id).where(
        CONTACT_ALIASES.c.alias_key.in_(bindparam("b_keys", expanding=True))
    )
)


class SqlContacts(IndexedRows, ContactStore):
    """Contacts of users. The row of one that was merged away stays, for its id, and is never shown."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, CONTACTS, "contact_id")

    @property
    def kind(self) -> str:
        return "contacts"

    def _live(self, row: Row[Any]) -> bool:
        return row.merged_into is None and bool(self._text(row))

    def _is_gone(self, row: Row[Any]) -> bool:
        return row.merged_into == GONE

    def _text(self, row: Row[Any]) -> str:
        name = " ".join(part for part in (row.first_name, row.surname) if part)
        return joined(name, row.job_title, row.bio, row.rolling_summary, row.response_policy)

    def _payload(self, row: Row[Any]) -> dict[str, Any]:
        return {"contact_id": row.contact_id}

    def _key_of(self, document_id: str) -> Any:
        return int(document_id)

    async def apply(
        self, scope: Scope, changes: Sequence[ContactChangeRequest], *, origin: str, now: datetime
    ) -> Sequence[ContactResult]:
        moment = to_utc(now)
        checked = [checked_change(change) for change in changes]

        def work(connection: Connection) -> list[ContactResult]:
            records = Records(connection, Owner.user(scope))
            writer = ContactWriter(records, records.lock(), origin=clean_text(origin), now=moment)
            results = apply_once(records, "contacts", checked, writer.apply, ContactResult, now=moment)
            writer.close()
            return results

        return await self._database.write(work) if checked else []

    async def get(self, scope: Scope, contact_ids: Collection[int]) -> Mapping[int, Contact]:
        wanted = sorted({contact_id for contact_id in contact_ids if 0 <= contact_id <= _MAX_CONTACT_ID})
        return await self._read(scope, lambda records: _by_id(records, wanted)) if wanted else {}

    async def by_alias(self, scope: Scope, sender_ids: Collection[str]) -> Mapping[str, Contact]:
        wanted = sorted({sender_id for sender_id in sender_ids if sender_id})

        def work(records: Records) -> dict[str, Contact]:
            ids = _by_sender(records, wanted)
            contacts = _by_id(records, sorted(set(ids.values())))
            return {sender_id: contacts[contact_id] for sender_id, contact_id in ids.items() if contact_id in contacts}

        return await self._read(scope, work) if wanted else {}

    async def list(
        self, scope: Scope, *, where: Mapping[str, Any] | None = None, limit: int = 100, after: int | None = None
    ) -> Sequence[Contact]:
        checked_limit(limit)
        if not where:
            page = {"b_after": -1 if after is None else after, "b_limit": limit}
            return await self._read(scope, lambda records: _contacts(records, records.rows(_PAGE, page)))
        wanted = select(CONTACTS).where(CONTACTS.c.merged_into.is_(None)).order_by(CONTACTS.c.contact_id).limit(limit)
        for name, value in where.items():
            wanted = wanted.where(_equals(name, value))
        if after is not None:
            wanted = wanted.where(CONTACTS.c.contact_id > after)
        return await self._read(scope, lambda records: _contacts(records, records.rows(wanted)))

    async def history(self, scope: Scope, contact_id: int, *, limit: int = 200) -> Sequence[ContactChange]:
        """The newest ``limit`` changes, oldest first."""
        checked_limit(limit)

        def work(records: Records) -> Sequence[ContactChange]:
            kept = _kept(records, [contact_id] if 0 <= contact_id <= _MAX_CONTACT_ID else [])
            wanted = select(CONTACT_CHANGES).where(CONTACT_CHANGES.c.contact_id.in_(kept.values()))
            rows = records.rows(wanted.order_by(CONTACT_CHANGES.c.number.desc()).limit(limit))
            return [
                ContactChange.model_construct(
                    contact_id=row.made_for, field=row.field, before=row.before, after=row.after, origin=row.origin, at=row.at
                )
                for row in reversed(rows)
            ]

        return await self._read(scope, work)

    async def sources(self, scope: Scope, contact_id: int) -> Sequence[Source]:
        def work(records: Records) -> Sequence[Source]:
            kept = _kept(records, [contact_id] if 0 <= contact_id <= _MAX_CONTACT_ID else [])
            found = sources_of(records, "contact", {str(number) for number in kept.values()})
            return next(iter(found.values()), ())

        return await self._read(scope, work)

    async def delete(self, scope: Scope, contact_ids: Collection[int], *, now: datetime) -> int:
        moment = to_utc(now)
        wanted = sorted({contact_id for contact_id in contact_ids if 0 <= contact_id <= _MAX_CONTACT_ID})

        def work(connection: Connection) -> int:
            records = Records(connection, Owner.user(scope))
            records.lock()
            return forget_contacts(records, set(_kept(records, wanted).values()), self._raised(), now=moment)

        return await self._database.write(work) if wanted else 0

    async def _read(self, scope: Scope, work: Callable[[Records], T]) -> T:
        """Read, and make contacts 0 and 1 first where they are not there yet."""
        owner = Owner.user(scope)

        def is_seeded(connection: Connection) -> bool:
            return bool(Records(connection, owner).rows(_SEED))

        def attempt(connection: Connection) -> tuple[T] | None:
            return (work(Records(connection, owner)),) if is_seeded(connection) else None

        found = await self._database.read(attempt)
        if found is None:
            moment = datetime.now(UTC)

            def seed(connection: Connection) -> None:
                records = Records(connection, owner)
                seed_contacts(records, records.lock(), now=moment)

            with suppress(BeingForgotten):  # nothing is made anew then, and what is there can be read
                await self._database.write(seed)
            return await self._database.read(lambda c: work(Records(c, owner)))
        return found[0]


def _kept(records: Records, contact_ids: Sequence[int]) -> dict[int, int]:
    """By id, the id of the contact that it is now; unknown ones are left out."""
    found: dict[int, int] = {}
    for some in batches(contact_ids):
        # A merge points everything that had been merged into the dropped one at the kept one, so one step is enough.
        found.update(
            (row.contact_id, row.contact_id if row.merged_into is None else row.merged_into)
            for row in records.rows(_MERGED, {"b_ids": some})
        )
    return found


def _by_id(records: Records, contact_ids: Sequence[int]) -> dict[int, Contact]:
    kept = _kept(records, contact_ids)
    rows: list[Row[Any]] = []
    for some in batches(sorted(set(kept.values()))):
        rows += records.rows(_BY_ID, {"b_ids": some})
    contacts = {contact.contact_id: contact for contact in _contacts(records, rows)}
    return {contact_id: contacts[now] for contact_id, now in kept.items() if now in contacts}


def _by_sender(records: Records, sender_ids: Sequence[str]) -> dict[str, int]:
    """Aliases first, then ids in digits, then unique fields, then addresses and numbers that were merged away."""
    found = _by_alias(records, {sender_id: sender_id for sender_id in sender_ids})
    digits = {sender_id: int(sender_id) for sender_id in sender_ids if sender_id not in found and _is_contact_id(sender_id)}
    known = _kept(records, sorted(digits.values()))
    found |= {sender_id: contact_id for sender_id, contact_id in digits.items() if contact_id in known}
    rest = [sender_id for sender_id in sender_ids if sender_id not in found]
    emails = {sender_id: key for sender_id in rest if (key := _email(sender_id)) is not None}
    numbers = {sender_id: number for sender_id in rest if (number := _number(sender_id)) is not None}
    found |= _by_field(records, emails, ("email_key",)) | _by_field(records, numbers, ("phone_number", "whatsapp_number"))
    return _by_alias(records, numbers | emails) | found


def _by_alias(records: Records, wanted: Mapping[str, str]) -> dict[str, int]:
    keys = {sender_id: encode_segment(alias, what="sender id") for sender_id, alias in wanted.items()}
    known: dict[str, int] = {}
    for some in batches(sorted(set(keys.values()))):
        known.update((row.alias_key, row.contact_id) for row in records.rows(_BY_ALIAS, {"b_keys": some}))
    return {sender_id: known[key] for sender_id, key in keys.items() if key in known}


def _by_field(records: Records, wanted: Mapping[str, str], columns: Sequence[str]) -> dict[str, int]:
    holders: dict[str, int] = {}
    for some in batches(sorted(set(wanted.values()))):
        matches = [CONTACTS.c[name].in_(some) for name in columns]
        for row in records.rows(select(CONTACTS).where(or_(*matches)).order_by(CONTACTS.c.contact_id)):
            for name in columns:
                holders.setdefault(getattr(row, name), row.contact_id)
    return {sender_id: holders[value] for sender_id, value in wanted.items() if value in holders}


def _is_contact_id(sender_id: str) -> bool:
    return sender_id.isascii() and sender_id.isdigit() and len(sender_id) <= 18 and str(int(sender_id)) == sender_id


def _email(sender_id: str) -> str | None:
    try:
        return email_key(email_address(clean_text(sender_id)))
    except InvalidInput:
        return None


def _number(sender_id: str) -> str | None:
    try:
        return phone_number(clean_text(sender_id))
    except InvalidInput:
        return None


def _equals(name: str, value: Any) -> Any:
    if name not in _FILTERS:
        raise InvalidInput(f"contacts cannot be filtered by {ascii(name)[:40]}; there are {', '.join(sorted(_FILTERS))}")
    if name == "contact_id":
        if not isinstance(value, int) or abs(value) > _MAX_CONTACT_ID:
            raise InvalidInput("a contact_id is a whole number")
        return CONTACTS.c.contact_id == value
    if name == "is_system":
        if not isinstance(value, bool):
            raise InvalidInput("is_system is true or false")
        return CONTACTS.c.is_system == value
    stored = checked_field(name, value)
    if stored is None:
        return CONTACTS.c[name].is_(None)
    return CONTACTS.c.email_key == email_key(stored) if name == "email_address" else CONTACTS.c[name] == stored


def _contacts(records: Records, rows: Sequence[Row[Any]]) -> list[Contact]:
    aliases: dict[int, list[str]] = {}
    for some in batches([row.contact_id for row in rows]):
        for row in records.rows(_ALIASES, {"b_ids": some}):
            aliases.setdefault(row.contact_id, []).append(row.alias)
    return [
        # Not validated again: it was when it was stored.
        Contact.model_construct(
            contact_id=row.contact_id,
            is_system=row.is_system,
            merged_into=row.merged_into,
            aliases=tuple(aliases.get(row.contact_id, ())),
            created_at=row.created_at,
            updated_at=row.updated_at,
            **{name: getattr(row, name) for name in EDITABLE_FIELDS},
        )
        for row in rows
    ]
