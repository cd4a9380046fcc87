"""What the HTTP API and the right to be forgotten need: erasures, service tokens, notices on their way, running processes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, Integer, Text, text
from sqlmodel import Field

from memory.stores.tables.columns import OutsideId, UtcDateTime
from memory.stores.tables.rows import JSON_VALUE, METADATA, Row

_OPEN = text("state <> 'done'")


class ErasureRow(Row, table=True):
    """The receipt of one erasure: counts, no content. ``user_id`` is there only while it runs; ``user_hash`` stays."""

    __tablename__ = "erasures"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("uq_erasures_open", "tenant", "user_hash", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
        Index("ix_erasures_user", "tenant", "user_hash", "started_at"),
    )

    tenant: str = Field(primary_key=True, sa_type=Text)
    erasure_id: str = Field(primary_key=True, sa_type=Text)
    user_hash: str = Field(sa_type=Text)
    user_id: str | None = Field(default=None, sa_type=Text)
    state: str = Field(sa_type=Text)
    requested_by: str = Field(sa_type=Text)
    counts: dict[str, Any] = Field(sa_type=JSON_VALUE)
    problems: list[str] = Field(sa_type=JSON_VALUE)
    started_at: datetime = Field(sa_type=UtcDateTime)
    erased_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class ErasedUserRow(Row, table=True):
    """One row per user who was or is being forgotten; looked up by every recording, in the query that it makes anyway.

    ``forgetting``: whatever arrives is dropped. ``forgotten_before``: so is what was accepted before that time and arrives late.
    """

    __tablename__ = "erased_users"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_hash: str = Field(primary_key=True, sa_type=Text)
    forgetting: bool
    forgotten_before: datetime = Field(sa_type=UtcDateTime)


class ServiceTokenRow(Row, table=True):
    """A token of an orchestrator; only a hash of it is stored."""

    __tablename__ = "service_tokens"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_service_tokens_tenant", "tenant", "created_at"),)

    token_id: str = Field(primary_key=True, sa_type=Text)
    tenant: str = Field(sa_type=Text)
    name: str = Field(sa_type=Text)
    secret_hash: str = Field(sa_type=Text)
    permissions: list[str] = Field(sa_type=JSON_VALUE)
    created_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class NoticeRow(Row, table=True):
    """A notice on its way to the streams of the API; removed after an hour.

    ``number``: never given twice, also after all are removed: a stream that comes back names the last one that it saw.
    """

    __tablename__ = "notices"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("uq_notices_key", "tenant", "user_id", "notice_key", unique=True),
        Index("ix_notices_recorded_at", "recorded_at"),
        {"sqlite_autoincrement": True},
    )

    number: int | None = Field(default=None, primary_key=True, sa_type=BigInteger().with_variant(Integer(), "sqlite"))  # pyright: ignore[reportArgumentType]
    tenant: str = Field(sa_type=Text)
    user_id: str = Field(sa_type=Text)
    notice_key: str = Field(sa_type=OutsideId)
    body: dict[str, Any] = Field(sa_type=JSON_VALUE)
    recorded_at: datetime = Field(sa_type=UtcDateTime)


class ProcessRow(Row, table=True):
    """A running API or worker process, and the flags that it runs with."""

    __tablename__ = "processes"  # pyright: ignore[reportAssignmentType]

    process_id: str = Field(primary_key=True, sa_type=Text)
    kind: str = Field(sa_type=Text)
    version: str = Field(sa_type=Text)
    flags: dict[str, Any] = Field(sa_type=JSON_VALUE)
    started_at: datetime = Field(sa_type=UtcDateTime)
    seen_at: datetime = Field(sa_type=UtcDateTime)


class SchemaSupportRow(Row, table=True):
    """One row at most: the oldest schema whose code may run on this one. None: only the code of this very schema."""

    __tablename__ = "schema_support"  # pyright: ignore[reportAssignmentType]

    oldest: str = Field(primary_key=True, sa_type=Text)


ERASURES = METADATA.tables["erasures"]
ERASED_USERS = METADATA.tables["erased_users"]
SERVICE_TOKENS = METADATA.tables["service_tokens"]
NOTICES = METADATA.tables["notices"]
PROCESSES = METADATA.tables["processes"]
SCHEMA_SUPPORT = METADATA.tables["schema_support"]
