"""The tables. Every row of a user is keyed by ``tenant`` and ``user_id`` in the encoded form of :mod:`memory.model.ids`.

Ids that are searched by (turns, events, spaces) are stored encoded in a ``…_key`` column. Where the encoding had to hash a long
id, the id itself is in the ``…_long`` column beside it. A change here needs a migration; a test compares the two.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Index, Integer, MetaData, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from memory.stores.tables.columns import OutsideId, UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "pk": "pk_%(table_name)s",
}

JSON_VALUE = JSON(none_as_null=True)
_FROM_ZERO = {"server_default": text("0")}
_PENDING = text("state = 'pending'")
_KEPT = text("outcome = 'kept'")
_WAITING = text("waiting <> 0")
_IDLE = text("waiting <> 0 AND flush_seq < last_seq")
_FLUSHED = text("flush_seq > consolidated_seq")
_UNINDEXED = text("indexed_seq < consolidated_seq")
_UNEMBEDDED = text("embedded_seq < consolidated_seq")


class Row(SQLModel):
    metadata: ClassVar[MetaData] = MetaData(naming_convention=NAMING)  # pyright: ignore[reportIncompatibleVariableOverride]


class UserCounterRow(Row, table=True):
    """The last numbers given out to a user. Taking the next ones locks the row until commit, so numbers follow commit order.

    ``consolidated_seq``: the watermark, up to which windows have consumed the events; ``waiting`` is ``last_seq`` less that, a
    column of its own so that who has enough waiting is found by an index. ``flush_seq``: up to where events are wanted even in a
    short window, ``flush_cause`` why. ``expired_seq``: up to where the text was deleted by age; ``text_since``: a time before
    which no recorded text is left.
    """

    __tablename__ = "user_counters"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_user_counters_waiting", "waiting", sqlite_where=_WAITING, postgresql_where=_WAITING),
        Index("ix_user_counters_idle", "last_event_at", sqlite_where=_IDLE, postgresql_where=_IDLE),
        Index("ix_user_counters_flushed", "flush_seq", sqlite_where=_FLUSHED, postgresql_where=_FLUSHED),
        Index("ix_user_counters_unindexed", "indexed_seq", sqlite_where=_UNINDEXED, postgresql_where=_UNINDEXED),
        Index("ix_user_counters_unembedded", "embedded_seq", sqlite_where=_UNEMBEDDED, postgresql_where=_UNEMBEDDED),
        Index("ix_user_counters_tenant_text_since", "tenant", "text_since"),
    )

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    last_seq: int = Field(sa_type=BigInteger)
    last_ordinal: int = Field(sa_type=BigInteger)
    consolidated_seq: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs=_FROM_ZERO)
    waiting: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs=_FROM_ZERO)
    flush_seq: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs=_FROM_ZERO)
    flush_cause: str | None = Field(default=None, sa_type=Text)
    indexed_seq: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs=_FROM_ZERO)
    embedded_seq: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs=_FROM_ZERO)
    expired_seq: int = Field(default=0, sa_type=BigInteger, sa_column_kwargs=_FROM_ZERO)
    last_event_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    text_since: datetime | None = Field(default=None, sa_type=UtcDateTime)


class EventRow(Row, table=True):
    """One event of a user. ``seq`` counts from 1 without gaps in commit order."""

    __tablename__ = "events"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (UniqueConstraint("tenant", "user_id", "event_key"),)

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    seq: int = Field(primary_key=True, sa_type=BigInteger)
    event_key: str = Field(sa_type=Text)
    event_id_long: str | None = Field(default=None, sa_type=OutsideId)
    kind: str = Field(sa_type=Text)
    timestamp: datetime = Field(sa_type=UtcDateTime)
    sender_id: str | None = Field(default=None, sa_type=OutsideId)
    receiver_ids: list[str] | None = Field(default=None, sa_type=JSON_VALUE)
    medium: str | None = Field(default=None, sa_type=Text)
    content: str | None = Field(default=None, sa_type=Text)
    payload: dict[str, Any] | None = Field(default=None, sa_type=JSON_VALUE)
    turn_key: str | None = Field(default=None, sa_type=Text)
    manager: str | None = Field(default=None, sa_type=Text)
    method: str | None = Field(default=None, sa_type=Text)
    phase: str | None = Field(default=None, sa_type=Text)
    calling_id: str | None = Field(default=None, sa_type=OutsideId)
    space_id: str | None = Field(default=None, sa_type=OutsideId)
    recorded_at: datetime = Field(sa_type=UtcDateTime)


class TurnRow(Row, table=True):
    """The ledger: one completed turn and what became of it. Its two texts are the events ``user_seq`` and ``assistant_seq``.

    A side that made no event (nothing or only white space in it) is kept in ``user_blank`` or ``assistant_blank``.
    """

    __tablename__ = "turns"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        UniqueConstraint("tenant", "user_id", "turn_key"),
        Index("ix_turns_pending", "tenant", "user_id", "ordinal", "recorded_at", sqlite_where=_PENDING, postgresql_where=_PENDING),
        Index("ix_turns_kept", "tenant", "user_id", "ordinal", sqlite_where=_KEPT, postgresql_where=_KEPT),
        Index("ix_turns_recorded_at", "recorded_at"),
        Index("ix_turns_tenant_recorded_at", "tenant", "recorded_at"),
    )

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    ordinal: int = Field(primary_key=True, sa_type=BigInteger)
    turn_key: str = Field(sa_type=Text)
    turn_id_long: str | None = Field(default=None, sa_type=OutsideId)
    user_seq: int | None = Field(default=None, sa_type=BigInteger)
    assistant_seq: int | None = Field(default=None, sa_type=BigInteger)
    user_blank: str | None = Field(default=None, sa_type=Text)
    assistant_blank: str | None = Field(default=None, sa_type=Text)
    space_id: str = Field(sa_type=OutsideId)
    conversation_id: str = Field(sa_type=OutsideId)
    medium: str = Field(sa_type=Text)
    language_model: str | None = Field(default=None, sa_type=Text)
    allow_user_memory: bool
    web_search: bool | None = None
    occurred_at: datetime = Field(sa_type=UtcDateTime)
    recorded_at: datetime = Field(sa_type=UtcDateTime)

    attempt: int = Field(sa_type=Integer)
    state: str = Field(sa_type=Text)
    outcome: str | None = Field(default=None, sa_type=Text)
    reason: str | None = Field(default=None, sa_type=Text)
    flags: list[str] | None = Field(default=None, sa_type=JSON_VALUE)
    usage: dict[str, Any] | None = Field(default=None, sa_type=JSON_VALUE)
    durations_ms: dict[str, int] | None = Field(default=None, sa_type=JSON_VALUE)
    model: str | None = Field(default=None, sa_type=Text)
    profile_version: int | None = Field(default=None, sa_type=BigInteger)
    run_id: str | None = Field(default=None, sa_type=Text)
    workflow_id: str | None = Field(default=None, sa_type=Text)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class SpaceRow(Row, table=True):
    """Settings of a space: only the keys that were given, so an absent key follows the default of the code."""

    __tablename__ = "space_settings"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    space_key: str = Field(primary_key=True, sa_type=Text)
    space_id_long: str | None = Field(default=None, sa_type=OutsideId)
    settings: dict[str, Any] = Field(sa_type=JSON_VALUE)


class PreferenceRow(Row, table=True):
    """A user's own choice; no row counts as yes."""

    __tablename__ = "user_preferences"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    allow_user_memory: bool


class RootRow(Row, table=True):
    """A company's memory roots."""

    __tablename__ = "memory_roots"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    folder: str = Field(primary_key=True, sa_type=Text)
    active: bool


METADATA = Row.metadata
USER_COUNTERS = METADATA.tables["user_counters"]
EVENTS = METADATA.tables["events"]
TURNS = METADATA.tables["turns"]
SPACES = METADATA.tables["space_settings"]
PREFERENCES = METADATA.tables["user_preferences"]
ROOTS = METADATA.tables["memory_roots"]
