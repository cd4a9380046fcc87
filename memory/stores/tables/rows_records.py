"""The tables of the records: facts, contacts, tasks, guidance, functions, and what goes with them.

Every row belongs to one owner: ``tenant`` and ``owner_key`` begin every primary key. No statement reaches these tables without
both, see :mod:`memory.stores.tables.scoping`. Keys that come from a user's text (a statement, a title) are stored as hashes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Float, Index, Integer, Table, Text, text
from sqlmodel import Field, SQLModel

from memory.stores.tables.columns import OutsideId, UtcDateTime
from memory.stores.tables.rows import JSON_VALUE, METADATA, Row

_STALE = text("indexed_revision < revision")
_OWNER = ("tenant", "owner_key")


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    condition = text(where)
    return Index(name, *_OWNER, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


class Owned(SQLModel):
    """Whose row. ``owner_key``: see :class:`memory.model.owner.Owner`."""

    tenant: str = Field(primary_key=True, sa_type=Text)
    owner_key: str = Field(primary_key=True, sa_type=Text)


class Indexed(SQLModel):
    """What the index holds of a row: the revision it saw last, its distinct terms, its tokens (0: not in the statistics)."""

    revision: int = Field(sa_type=BigInteger)
    indexed_revision: int = Field(sa_type=BigInteger)
    index_terms: list[int] | None = Field(default=None, sa_type=JSON_VALUE)
    index_length: int = Field(sa_type=BigInteger)


class RecordOwnerRow(Row, Owned, table=True):
    """One row per owner; whoever writes records of that owner holds it until commit. The last numbers given out."""

    __tablename__ = "record_owners"  # pyright: ignore[reportAssignmentType]

    last_contact_id: int = Field(sa_type=BigInteger)
    last_change: int = Field(sa_type=BigInteger)
    last_table_id: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs={"server_default": text("0")})


class EffectRow(Row, Owned, table=True):
    """A write that was done, and what it gave: written in its transaction, so a retry finds it."""

    __tablename__ = "effects"  # pyright: ignore[reportAssignmentType]

    store: str = Field(primary_key=True, sa_type=Text)
    effect_key: str = Field(primary_key=True, sa_type=Text)
    result: dict[str, Any] = Field(sa_type=JSON_VALUE)
    applied_at: datetime = Field(sa_type=UtcDateTime)


class ProvenanceRow(Row, Owned, table=True):
    """Where a fact, a contact or a task comes from. ``source_key``: of the event and the quote."""

    __tablename__ = "provenance"  # pyright: ignore[reportAssignmentType]

    item_kind: str = Field(primary_key=True, sa_type=Text)
    item_id: str = Field(primary_key=True, sa_type=Text)
    source_key: str = Field(primary_key=True, sa_type=Text)
    position: int = Field(sa_type=Integer)
    added_at: datetime = Field(sa_type=UtcDateTime)
    event_id: str | None = Field(default=None, sa_type=OutsideId)
    seq: int | None = Field(default=None, sa_type=BigInteger)
    quote: str = Field(sa_type=Text)
    said_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    origin: str = Field(sa_type=Text)


class FactRow(Row, Indexed, Owned, table=True):
    """A fact. ``chain_id``: the same for all that took each other's place. A deleted one waits here for its vector to go."""

    __tablename__ = "facts"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        _partial("uq_facts_active_key", "fact_key", where="status = 'active'", unique=True),
        _partial("ix_facts_stale", "fact_id", where=str(_STALE)),
        Index("ix_facts_newest", *_OWNER, "created_at", "fact_id"),
        Index("ix_facts_chain", *_OWNER, "chain_id"),
        Index("ix_facts_subject", *_OWNER, "subject_key"),
    )

    fact_id: str = Field(primary_key=True, sa_type=Text)
    fact_key: str | None = Field(default=None, sa_type=Text)
    chain_id: str = Field(sa_type=Text)
    subject: str = Field(sa_type=Text)
    subject_key: str | None = Field(default=None, sa_type=Text)
    statement: str = Field(sa_type=Text)
    kind: str = Field(sa_type=Text)
    topics: list[str] = Field(sa_type=JSON_VALUE)
    confidence: float = Field(sa_type=Float)
    observed_at: datetime = Field(sa_type=UtcDateTime)
    valid_from: datetime | None = Field(default=None, sa_type=UtcDateTime)
    valid_until: datetime | None = Field(default=None, sa_type=UtcDateTime)
    status: str = Field(sa_type=Text)
    superseded_by: str | None = Field(default=None, sa_type=Text)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class ContactRow(Row, Indexed, Owned, table=True):
    """A contact. ``email_key``: the address as it is compared. One that was merged away keeps its row, without unique fields."""

    __tablename__ = "contacts"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        _partial("uq_contacts_email_key", "email_key", where="email_key IS NOT NULL", unique=True),
        _partial("uq_contacts_phone_number", "phone_number", where="phone_number IS NOT NULL", unique=True),
        _partial("uq_contacts_whatsapp_number", "whatsapp_number", where="whatsapp_number IS NOT NULL", unique=True),
        _partial("ix_contacts_stale", "contact_id", where=str(_STALE)),
    )

    contact_id: int = Field(primary_key=True, sa_type=BigInteger)
    first_name: str | None = Field(default=None, sa_type=Text)
    surname: str | None = Field(default=None, sa_type=Text)
    email_address: str | None = Field(default=None, sa_type=Text)
    email_key: str | None = Field(default=None, sa_type=Text)
    phone_number: str | None = Field(default=None, sa_type=Text)
    whatsapp_number: str | None = Field(default=None, sa_type=Text)
    timezone: str | None = Field(default=None, sa_type=Text)
    job_title: str | None = Field(default=None, sa_type=Text)
    bio: str | None = Field(default=None, sa_type=Text)
    rolling_summary: str | None = Field(default=None, sa_type=Text)
    response_policy: str | None = Field(default=None, sa_type=Text)
    should_respond: bool
    is_system: bool
    merged_into: int | None = Field(default=None, sa_type=BigInteger)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class ContactAliasRow(Row, Owned, table=True):
    """A sender id under which a contact appears in events."""

    __tablename__ = "contact_aliases"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_contact_aliases_contact", *_OWNER, "contact_id"),)

    alias_key: str = Field(primary_key=True, sa_type=Text)
    alias: str = Field(sa_type=OutsideId)
    contact_id: int = Field(sa_type=BigInteger)


class ContactChangeRow(Row, Owned, table=True):
    """The history of contacts, by number. ``contact_id``: whose history it is now; ``made_for``: whose field it was."""

    __tablename__ = "contact_changes"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_contact_changes_contact", *_OWNER, "contact_id", "number"),)

    number: int = Field(primary_key=True, sa_type=BigInteger)
    contact_id: int = Field(sa_type=BigInteger)
    made_for: int = Field(sa_type=BigInteger)
    field: str = Field(sa_type=Text)
    before: str | None = Field(default=None, sa_type=Text)
    after: str | None = Field(default=None, sa_type=Text)
    origin: str = Field(sa_type=Text)
    at: datetime = Field(sa_type=UtcDateTime)


class TaskRow(Row, Owned, table=True):
    """A task."""

    __tablename__ = "tasks"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        _partial("uq_tasks_live_key", "task_key", where="status = 'open' OR status = 'in_progress'", unique=True),
        Index("ix_tasks_newest", *_OWNER, "created_at", "task_id"),
        Index("ix_tasks_contact", *_OWNER, "contact_id"),
    )

    task_id: str = Field(primary_key=True, sa_type=Text)
    task_key: str = Field(sa_type=Text)
    name: str = Field(sa_type=Text)
    description: str = Field(sa_type=Text)
    status: str = Field(sa_type=Text)
    priority: str = Field(sa_type=Text)
    deadline: datetime | None = Field(default=None, sa_type=UtcDateTime)
    schedule: str | None = Field(default=None, sa_type=Text)
    tags: list[str] = Field(sa_type=JSON_VALUE)
    contact_id: int | None = Field(default=None, sa_type=BigInteger)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class GuidanceRow(Row, Indexed, Owned, table=True):
    """A how-to. A deleted one has no ``title_key`` and waits for its vector to go."""

    __tablename__ = "guidance"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        _partial("uq_guidance_title_key", "title_key", where="title_key IS NOT NULL", unique=True),
        _partial("ix_guidance_stale", "guidance_id", where=str(_STALE)),
        Index("ix_guidance_newest", *_OWNER, "created_at", "guidance_id"),
    )

    guidance_id: str = Field(primary_key=True, sa_type=Text)
    title_key: str | None = Field(default=None, sa_type=Text)
    title: str = Field(sa_type=Text)
    content: str = Field(sa_type=Text)
    tags: list[str] = Field(sa_type=JSON_VALUE)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class FunctionRow(Row, Indexed, Owned, table=True):
    """A function, stored as text. As for guidance."""

    __tablename__ = "functions"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        _partial("uq_functions_name_key", "name_key", where="name_key IS NOT NULL", unique=True),
        _partial("ix_functions_stale", "function_id", where=str(_STALE)),
        Index("ix_functions_newest", *_OWNER, "created_at", "function_id"),
    )

    function_id: str = Field(primary_key=True, sa_type=Text)
    name_key: str | None = Field(default=None, sa_type=Text)
    name: str = Field(sa_type=Text)
    docstring: str = Field(sa_type=Text)
    source: str = Field(sa_type=Text)
    dependencies: list[str] = Field(sa_type=JSON_VALUE)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


RECORD_OWNERS = METADATA.tables["record_owners"]
EFFECTS = METADATA.tables["effects"]
PROVENANCE = METADATA.tables["provenance"]
FACTS = METADATA.tables["facts"]
CONTACTS = METADATA.tables["contacts"]
CONTACT_ALIASES = METADATA.tables["contact_aliases"]
CONTACT_CHANGES = METADATA.tables["contact_changes"]
TASKS = METADATA.tables["tasks"]
GUIDANCE = METADATA.tables["guidance"]
FUNCTIONS = METADATA.tables["functions"]

RECORD_TABLES: Final[frozenset[Table]] = frozenset(
    {
        RECORD_OWNERS,
        EFFECTS,
        PROVENANCE,
        FACTS,
        CONTACTS,
        CONTACT_ALIASES,
        CONTACT_CHANGES,
        TASKS,
        GUIDANCE,
        FUNCTIONS,
    }
)
