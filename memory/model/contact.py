"""A contact of one user. Id 0 is the assistant, id 1 the user; neither is ever merged away or deleted."""

from __future__ import annotations

from typing import Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

ASSISTANT_CONTACT: Final = 0
USER_CONTACT: Final = 1
SYSTEM_CONTACTS: Final = frozenset({ASSISTANT_CONTACT, USER_CONTACT})
MAX_TEXT_WORDS: Final = 500
"""Of a bio and of a rolling summary."""

NAME_PATTERN: Final = r"^[^\W_](?:[\w .'’-]*[\w.'’])?$"
"""Letters and digits of any script, space, ``.``, ``'``, ``-`` (checked further in :mod:`memory.model.contact_rules`)."""
UNIQUE_FIELDS: Final = ("email_address", "phone_number", "whatsapp_number")
TEXT_FIELDS: Final = ("bio", "rolling_summary", "response_policy")


class Contact(BaseModel):
    """Absent text is None. ``aliases``: the ids under which the contact appears as sender or receiver of events."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    contact_id: int
    first_name: str | None = Field(default=None, repr=False)
    surname: str | None = Field(default=None, repr=False)
    email_address: str | None = Field(default=None, repr=False)
    phone_number: str | None = Field(default=None, repr=False)
    whatsapp_number: str | None = Field(default=None, repr=False)
    timezone: str | None = None
    job_title: str | None = Field(default=None, repr=False)
    bio: str | None = Field(default=None, repr=False)
    rolling_summary: str | None = Field(default=None, repr=False)
    response_policy: str | None = Field(default=None, repr=False)
    should_respond: bool = True
    is_system: bool = False
    aliases: tuple[str, ...] = Field(default=(), repr=False)
    merged_into: int | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime

    @property
    def name(self) -> str:
        """First name and surname; empty where neither is known."""
        return " ".join(part for part in (self.first_name, self.surname) if part)


class ContactChange(BaseModel):
    """One entry of a contact's history: a field and its values before and after."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    contact_id: int
    field: str
    before: str | None = Field(repr=False)
    after: str | None = Field(repr=False)
    origin: str
    """As in :class:`memory.model.fact.Source`."""
    at: AwareDatetime
