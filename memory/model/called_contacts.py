"""Names that calls of a contact manager gave: the shield keeps windows from doing them again, the names are known all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from memory.model.contact_rules import checked_field
from memory.model.errors import InvalidInput
from memory.model.event import ManagerMethodEvent
from memory.model.shield import failed_calls, is_write, manager_name
from memory.model.window import StoredEvent

CONTACT_MANAGERS: Final = frozenset({"contactmanager", "contactsmanager", "contacts", "contactstore", "addressbook"})
"""As :func:`memory.model.shield.manager_name` has them."""
MAX_DEPTH: Final = 6
MAX_CALLED: Final = 200

_NAMES: Final[Mapping[str, str]] = {
    "first_name": "first_name",
    "given_name": "first_name",
    "surname": "surname",
    "last_name": "surname",
    "family_name": "surname",
}
_ADDRESSES: Final[Mapping[str, str]] = {
    "email_address": "email_address",
    "email": "email_address",
    "phone_number": "phone_number",
    "phone": "phone_number",
    "whatsapp_number": "whatsapp_number",
    "whatsapp": "whatsapp_number",
}
_IDS: Final = frozenset({"contact_id", "sender_id", "id"})
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class CalledContact:
    """``names``: ``first_name``, ``surname``. ``addresses``: as contacts keep them. ``ids``: the orchestrator's own."""

    event_id: str
    names: Mapping[str, str] = field(repr=False)
    addresses: tuple[str, ...] = field(repr=False)
    ids: tuple[str, ...] = field(repr=False)


def called_contacts(events: Sequence[StoredEvent]) -> list[CalledContact]:
    """Contacts that requests and answers of writing calls name by their fields, in order; not those of calls that failed."""
    failed = failed_calls(events)
    found: list[CalledContact] = []
    for stored in events:
        event = stored.event
        if not isinstance(event, ManagerMethodEvent) or event.calling_id in failed:
            continue
        if manager_name(event.manager) in CONTACT_MANAGERS and is_write(event.method):
            found += (called for fields in _objects(event.payload) if (called := _called(event.event_id, fields)) is not None)
    return found[:MAX_CALLED]


def _objects(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        fields = cast(Mapping[Any, Any], value)
        yield {_HUMP.sub("_", str(key)).casefold(): inner for key, inner in fields.items()}
        value = list(fields.values())
    if isinstance(value, list | tuple):
        for inner in cast(Sequence[Any], value):
            yield from _objects(inner, depth + 1)


def _called(event_id: str, fields: Mapping[str, Any]) -> CalledContact | None:
    names = {kept: name for key, kept in _NAMES.items() if (name := _checked(kept, fields.get(key))) is not None}
    addresses = tuple(address for key, kept in _ADDRESSES.items() if (address := _checked(kept, fields.get(key))) is not None)
    ids = tuple(str(fields[key]) for key in sorted(_IDS) if isinstance(fields.get(key), int | str))
    return CalledContact(event_id, names, addresses, ids) if names and (addresses or ids) else None


def _checked(name: str, value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return cast(str | None, checked_field(name, value))
    except InvalidInput:
        return None  # what is no name here is none of ours
