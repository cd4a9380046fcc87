"""Changes of one user's contacts: create or fill, update, merge. Every change of a field goes into the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, bindparam, select

from memory.model.contact import ASSISTANT_CONTACT, SYSTEM_CONTACTS, UNIQUE_FIELDS, USER_CONTACT
from memory.model.contact_rules import EDITABLE_FIELDS, checked_fields, email_key
from memory.model.event import ASSISTANT_ID, USER_ID
from memory.model.ids import encode_segment
from memory.ports import ContactChangeRequest, ContactResult, CreateContact, MergeContacts, UpdateContact
from memory.stores.tables.forgotten import is_forgotten_contact
from memory.stores.tables.indexing import NEW
from memory.stores.tables.provenance import add_sources, move_sources
from memory.stores.tables.rows_records import CONTACT_ALIASES, CONTACT_CHANGES, CONTACTS, RECORD_OWNERS, TASKS
from memory.stores.tables.scoping import Prepared, Records, exists

_SEARCHED = frozenset({"first_name", "surname", "job_title", "bio", "rolling_summary", "response_policy"})
_ONE = Prepared(select(CONTACTS).where(CONTACTS.c.contact_id == bindparam("b_id")))
_LAST_SYSTEM = max(SYSTEM_CONTACTS)
UNKNOWN: Final = -1
"""In a result that is of no contact."""


def checked_change(change: ContactChangeRequest) -> ContactChangeRequest:
    """With its fields as they are stored. Raises InvalidInput."""
    if isinstance(change, MergeContacts):
        return change
    if isinstance(change, CreateContact):
        for alias in change.aliases:
            encode_segment(alias, what="sender id")
    return replace(change, fields=checked_fields(change.fields))


def seed_contacts(records: Records, owner: Row[Any], *, now: datetime) -> None:
    """Contacts 0 and 1, where they are not there yet. The caller holds the owner's lock."""
    if owner.last_contact_id >= _LAST_SYSTEM or exists(records, CONTACTS, CONTACTS.c.contact_id == ASSISTANT_CONTACT):
        return
    system = {ASSISTANT_CONTACT: ASSISTANT_ID, USER_CONTACT: USER_ID}
    records.insert(CONTACTS, [_new_row(contact_id, {}, now, is_system=True) for contact_id in system])
    records.insert(
        CONTACT_ALIASES,
        [{"alias_key": encode_segment(alias), "alias": alias, "contact_id": contact_id} for contact_id, alias in system.items()],
    )
    records.update(RECORD_OWNERS, values={"last_contact_id": _LAST_SYSTEM})


class ContactWriter:
    """The changes of one call. The caller holds the owner's lock, gives its row, and calls :meth:`close` at the end."""

    def __init__(self, records: Records, owner: Row[Any], *, origin: str, now: datetime) -> None:
        seed_contacts(records, owner, now=now)
        self._records = records
        self._origin = origin
        self._now = now
        self._last_id: int = max(owner.last_contact_id, _LAST_SYSTEM)
        self._last_change: int = owner.last_change
        self._history: list[dict[str, Any]] = []

    def apply(self, change: ContactChangeRequest) -> ContactResult:
        if isinstance(change, CreateContact):
            return self._create(change)
        if isinstance(change, UpdateContact):
            return self._update(change)
        return self._merge(change)

    def close(self) -> None:
        """Write the history and the numbers that were given out."""
        for row in self._history:
            self._last_change += 1
            row["number"] = self._last_change
        self._records.insert(CONTACT_CHANGES, self._history)
        self._history = []
        self._records.update(RECORD_OWNERS, values={"last_contact_id": self._last_id, "last_change": self._last_change})

    # -------------------------------------------------------------------------------------------------------------- create

    def _create(self, change: CreateContact) -> ContactResult:
        fields = {name: value for name, value in change.fields.items() if value is not None}
        row = self._same(fields, change.aliases)
        if row is None and is_forgotten_contact(self._records, change):
            return ContactResult(change.effect, UNKNOWN, "nothing", conflict="forgotten")
        if row is None:
            self._last_id += 1
            contact_id = self._last_id
            self._records.insert(CONTACTS, [_new_row(contact_id, fields, self._now)])
            self._note(contact_id, {name: (None, value) for name, value in fields.items()})
            did, changed = "created", tuple(fields)
        else:
            contact_id = row.contact_id
            missing = {name: value for name, value in fields.items() if getattr(row, name) is None}
            if conflict := self._conflict(row, missing):
                return ContactResult(change.effect, contact_id, "nothing", conflict=conflict)
            changed = self._write(row, missing)
            did = "updated" if changed else "nothing"
        added = self._add_aliases(contact_id, change.aliases)
        self._cite(contact_id, change)
        return ContactResult(change.effect, contact_id, "updated" if added and did == "nothing" else did, changed)

    def _same(self, fields: Mapping[str, Any], aliases: Sequence[str]) -> Row[Any] | None:
        """The contact that an alias, else a unique field belongs to."""
        for alias in aliases:
            wanted = select(CONTACT_ALIASES.c.contact_id).where(CONTACT_ALIASES.c.alias_key == encode_segment(alias))
            found = self._records.row(wanted)
            if found is not None:
                return self._kept(found.contact_id)
        for name in UNIQUE_FIELDS:
            holder = self._holder(name, fields.get(name))
            if holder is not None:
                return self._kept(holder)
        return None

    # -------------------------------------------------------------------------------------------------------------- update

    def _update(self, change: UpdateContact) -> ContactResult:
        row = self._kept(change.contact_id)
        if row is None:
            return ContactResult(change.effect, change.contact_id, "nothing", conflict="unknown")
        if conflict := self._conflict(row, change.fields):
            return ContactResult(change.effect, row.contact_id, "nothing", conflict=conflict)
        changed = self._write(row, change.fields)
        self._cite(row.contact_id, change)
        return ContactResult(change.effect, row.contact_id, "updated" if changed else "nothing", changed)

    # --------------------------------------------------------------------------------------------------------------- merge

    def _merge(self, change: MergeContacts) -> ContactResult:
        keep, drop = self._kept(change.keep), self._kept(change.drop)
        if keep is None or drop is None:
            return ContactResult(change.effect, change.keep, "nothing", conflict="unknown")
        if keep.contact_id == drop.contact_id:
            return ContactResult(change.effect, keep.contact_id, "nothing")
        if drop.contact_id in SYSTEM_CONTACTS or drop.is_system:
            return ContactResult(change.effect, keep.contact_id, "nothing", conflict="system")
        kept, dropped = keep.contact_id, drop.contact_id
        origin = f"merge:{dropped}"
        filled = {
            name: getattr(drop, name)
            for name in EDITABLE_FIELDS
            if name != "should_respond" and getattr(keep, name) is None and getattr(drop, name) is not None
        }
        if not drop.should_respond and not keep.is_system:
            # Somebody asked for silence towards this person.
            filled["should_respond"] = False
        self._release(drop, kept, origin)
        changed = self._write(keep, filled, origin=origin)
        for table, column in ((CONTACTS, "merged_into"), (CONTACT_ALIASES, "contact_id"), (CONTACT_CHANGES, "contact_id")):
            self._records.update(table, table.c[column] == dropped, values={column: kept})
        self._records.update(TASKS, TASKS.c.contact_id == dropped, values={"contact_id": kept})
        for entry in self._history:
            if entry["contact_id"] == dropped:
                entry["contact_id"] = kept
        move_sources(self._records, "contact", from_id=str(dropped), to_id=str(kept))
        # Addresses that the kept one has no field for still lead to it.
        left = {name: getattr(drop, name) for name in UNIQUE_FIELDS if name not in filled and getattr(drop, name) is not None}
        self._add_aliases(kept, [email_key(value) if name == "email_address" else value for name, value in left.items()])
        self._cite(kept, change)
        return ContactResult(change.effect, kept, "merged", changed)

    def _release(self, drop: Row[Any], kept: int, origin: str) -> None:
        """The dropped row points at the kept one and has no unique field any more; its texts stay in the history."""
        ended: dict[str, Any] = {name: None for name in UNIQUE_FIELDS if getattr(drop, name) is not None}
        self._note(drop.contact_id, {name: (getattr(drop, name), None) for name in ended}, origin=origin)
        self._note(drop.contact_id, {"merged_into": (None, kept)}, origin=origin)
        self._set(drop.contact_id, {**ended, "merged_into": kept}, is_searched=True)

    # --------------------------------------------------------------------------------------------------------------- parts

    def _kept(self, contact_id: int) -> Row[Any] | None:
        """The row of a contact, or of the one that it was merged into."""
        found = self._records.row(_ONE, {"b_id": contact_id})
        if found is not None and found.merged_into is not None:
            return self._records.row(_ONE, {"b_id": found.merged_into})
        return found

    def _holder(self, name: str, value: str | None) -> int | None:
        if value is None:
            return None
        held = CONTACTS.c.email_key == email_key(value) if name == "email_address" else CONTACTS.c[name] == value
        found = self._records.row(select(CONTACTS.c.contact_id).where(held))
        return None if found is None else found.contact_id

    def _conflict(self, row: Row[Any], fields: Mapping[str, Any]) -> str | None:
        """The first unique field that belongs to another contact."""
        for name in UNIQUE_FIELDS:
            if self._holder(name, fields.get(name)) not in (None, row.contact_id):
                return name
        return None

    def _write(self, row: Row[Any], fields: Mapping[str, Any], *, origin: str | None = None) -> tuple[str, ...]:
        changed = {name: fields[name] for name in EDITABLE_FIELDS if name in fields and fields[name] != getattr(row, name)}
        if changed:
            self._set(row.contact_id, changed, is_searched=not _SEARCHED.isdisjoint(changed))
            self._note(row.contact_id, {name: (getattr(row, name), value) for name, value in changed.items()}, origin=origin)
        return tuple(changed)

    def _set(self, contact_id: int, fields: Mapping[str, Any], *, is_searched: bool) -> None:
        values = _with_key(fields) | {"updated_at": self._now}
        if is_searched:
            values["revision"] = CONTACTS.c.revision + 1
        self._records.update(CONTACTS, CONTACTS.c.contact_id == contact_id, values=values)

    def _note(self, contact_id: int, changes: Mapping[str, tuple[Any, Any]], *, origin: str | None = None) -> None:
        self._history += [
            {
                "contact_id": contact_id,
                "made_for": contact_id,
                "field": name,
                "before": _as_text(before),
                "after": _as_text(after),
                "origin": origin or self._origin,
                "at": self._now,
            }
            for name, (before, after) in changes.items()
        ]

    def _add_aliases(self, contact_id: int, aliases: Sequence[str]) -> int:
        """An alias that belongs to a contact stays with it."""
        keys = {encode_segment(alias): alias for alias in aliases}
        new = {
            key: alias
            for key, alias in keys.items()
            if not exists(self._records, CONTACT_ALIASES, CONTACT_ALIASES.c.alias_key == key)
        }
        rows = [{"alias_key": key, "alias": alias, "contact_id": contact_id} for key, alias in new.items()]
        self._records.insert(CONTACT_ALIASES, rows)
        return len(rows)

    def _cite(self, contact_id: int, change: ContactChangeRequest) -> None:
        add_sources(self._records, "contact", str(contact_id), change.sources, now=self._now)


def _new_row(contact_id: int, fields: Mapping[str, Any], now: datetime, *, is_system: bool = False) -> dict[str, Any]:
    empty: dict[str, Any] = {**dict.fromkeys(EDITABLE_FIELDS), "email_key": None, "should_respond": True}
    return {
        "contact_id": contact_id,
        **empty,
        **_with_key(fields),
        "is_system": is_system,
        "created_at": now,
        "updated_at": now,
        **NEW,
    }


def _with_key(fields: Mapping[str, Any]) -> dict[str, Any]:
    if "email_address" not in fields:
        return dict(fields)
    address = fields["email_address"]
    return {**fields, "email_key": None if address is None else email_key(address)}


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
