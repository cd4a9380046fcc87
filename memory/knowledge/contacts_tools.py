"""Tools that write contacts, for ``contacts.update``. They are read as the table ``Contacts``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from memory.knowledge.arguments import Names
from memory.model.contact_rules import EDITABLE_FIELDS
from memory.model.knowledge import ToolProblem
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.ports import ContactChangeRequest, ContactStore, CreateContact, MergeContacts, UpdateContact

_LONG_FIELDS: Final = frozenset({"job_title", "bio", "rolling_summary", "response_policy"})
"""Where a secret may have got in; names and addresses are what they are."""


class ContactTools:
    """For one call: ``effect`` is its idempotency key, ``origin`` stands in the history of the fields."""

    def __init__(self, store: ContactStore, scope: Scope, *, effect: str, origin: str, now: datetime) -> None:
        self._store = store
        self._scope = scope
        self._effect = effect
        self._origin = origin
        self._now = now

    async def create_contact(
        self,
        *,
        first_name: str | None = None,
        surname: str | None = None,
        email_address: str | None = None,
        phone_number: str | None = None,
        whatsapp_number: str | None = None,
        timezone: str | None = None,
        job_title: str | None = None,
        bio: str | None = None,
        rolling_summary: str | None = None,
        response_policy: str | None = None,
        should_respond: bool | None = None,
    ) -> Any:
        """Add a contact. Where the address or a number belongs to one already, that one gets what it does not have yet.

        Args:
            first_name: As it is written.
            surname: As it is written.
            email_address: name@domain; belongs to one contact only.
            phone_number: Digits, + before them or not; belongs to one contact only.
            whatsapp_number: As phone_number.
            timezone: An IANA name such as Europe/Berlin.
            job_title: In a line.
            bio: Who it is, at most 500 words.
            rolling_summary: What has been going on, at most 500 words.
            response_policy: How to answer this contact.
            should_respond: Whether this contact is answered at all.
        """
        fields = _fields(locals())
        if not fields:
            raise ToolProblem("bad_arguments", "a contact needs at least one field")
        return await self._apply(CreateContact(self._effect, fields))

    async def update_contact(
        self,
        *,
        contact_id: int,
        first_name: str | None = None,
        surname: str | None = None,
        email_address: str | None = None,
        phone_number: str | None = None,
        whatsapp_number: str | None = None,
        timezone: str | None = None,
        job_title: str | None = None,
        bio: str | None = None,
        rolling_summary: str | None = None,
        response_policy: str | None = None,
        should_respond: bool | None = None,
        clear: Names | None = None,
    ) -> Any:
        """Change fields of a contact; those that are left out stay as they are.

        Args:
            contact_id: Of the table Contacts; 0 is the assistant, 1 the user.
            first_name: As it is written.
            surname: As it is written.
            email_address: name@domain; belongs to one contact only.
            phone_number: Digits, + before them or not; belongs to one contact only.
            whatsapp_number: As phone_number.
            timezone: An IANA name such as Europe/Berlin.
            job_title: In a line.
            bio: Who it is, at most 500 words; takes the place of what was there.
            rolling_summary: What has been going on, at most 500 words; takes the place of what was there.
            response_policy: How to answer this contact.
            should_respond: Whether this contact is answered at all.
            clear: Names of fields to be emptied.
        """
        fields = _fields(locals())
        for name in clear or ():
            if name not in EDITABLE_FIELDS or name == "should_respond":
                raise ToolProblem("bad_arguments", f"clear: there is no field {name[:60]!r} that can be empty")
            fields[name] = None
        if not fields:
            raise ToolProblem("bad_arguments", "name at least one field to be set")
        return await self._apply(UpdateContact(self._effect, contact_id, fields))

    async def merge_contacts(self, *, keep: int, drop: int) -> Any:
        """Make two contacts one. Empty fields are filled; tasks and history move. Only for what is certainly the same person.

        Args:
            keep: The contact_id that stays.
            drop: The contact_id that goes into it; never 0 or 1.
        """
        if keep == drop:
            raise ToolProblem("bad_arguments", "a contact cannot be merged with itself")
        return await self._apply(MergeContacts(self._effect, keep, drop))

    async def _apply(self, change: ContactChangeRequest) -> Mapping[str, Any]:
        (result,) = await self._store.apply(self._scope, [change], origin=self._origin, now=self._now)
        match result.conflict:
            case None:
                details = {"contact_id": result.contact_id, "changed": list(result.changed)}
                return {"outcome": f"contact {result.did}" if result.did != "nothing" else "nothing to change", "details": details}
            case "unknown":
                raise ToolProblem("unknown_row", "there is no such contact; look it up in the table Contacts")
            case "system":
                raise ToolProblem("not_permitted", "the contacts 0 (the assistant) and 1 (the user) are never merged away")
            case field_name:
                raise ToolProblem(
                    "name_taken",
                    f"this {field_name} belongs to another contact; look it up, and merge the two if they are the same person",
                )


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: given[name] for name in EDITABLE_FIELDS if given.get(name) is not None}
    return {
        name: redact(value).text if name in _LONG_FIELDS and isinstance(value, str) else value for name, value in fields.items()
    }
