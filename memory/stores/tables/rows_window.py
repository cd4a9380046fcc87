"""The tables of the event window: windows, chunks, extractions, term statistics, what models cost, teams.

As in :mod:`memory.stores.tables.rows`: keyed by ``tenant`` and ``user_id``, or ``tenant`` and ``owner_key``, in encoded form.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import BigInteger, Date, Index, Integer, Text, text, true
from sqlmodel import Field

from memory.stores.tables.columns import OutsideId, UtcDateTime
from memory.stores.tables.rows import JSON_VALUE, METADATA, Row

_PLANNED = text("state = 'planned'")
_UNHAPPY = text("state = 'failed' OR state = 'partial'")


class WindowRow(Row, table=True):
    """One window or chunk of a user. ``cause`` is its trigger. ``outcomes`` of categories that stand survive a rerun."""

    __tablename__ = "windows"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_windows_planned", "tenant", "user_id", "planned_at", sqlite_where=_PLANNED, postgresql_where=_PLANNED),
        Index("ix_windows_unhappy", "finished_at", sqlite_where=_UNHAPPY, postgresql_where=_UNHAPPY),
        Index("ix_windows_planned_at", "planned_at"),
        Index("ix_windows_tenant_planned_at", "tenant", "planned_at"),
        Index("ix_windows_user_planned_at", "tenant", "user_id", "planned_at"),
    )

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    window_id: str = Field(primary_key=True, sa_type=Text)
    kind: str = Field(sa_type=Text)
    cause: str = Field(sa_type=Text)
    first_seq: int = Field(sa_type=BigInteger)
    last_seq: int = Field(sa_type=BigInteger)
    events: int = Field(sa_type=Integer)
    state: str = Field(sa_type=Text)
    attempt: int = Field(sa_type=Integer)
    reason: str | None = Field(default=None, sa_type=Text)
    categories: list[str] = Field(sa_type=JSON_VALUE)
    spaces_off: dict[str, list[str]] | None = Field(default=None, sa_type=JSON_VALUE)
    guidance: str | None = Field(default=None, sa_type=Text)
    model: str | None = Field(default=None, sa_type=Text)
    outcomes: list[dict[str, Any]] | None = Field(default=None, sa_type=JSON_VALUE)
    flags: list[str] | None = Field(default=None, sa_type=JSON_VALUE)
    usage: dict[str, Any] | None = Field(default=None, sa_type=JSON_VALUE)
    durations_ms: dict[str, int] | None = Field(default=None, sa_type=JSON_VALUE)
    run_id: str | None = Field(default=None, sa_type=Text)
    workflow_id: str | None = Field(default=None, sa_type=Text)
    planned_at: datetime = Field(sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class WindowChunkRow(Row, table=True):
    """The transcript of a chunk: its events in JSON form, in order."""

    __tablename__ = "window_chunks"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_window_chunks_tenant_recorded_at", "tenant", "recorded_at"),)

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    window_id: str = Field(primary_key=True, sa_type=Text)
    events: list[dict[str, Any]] = Field(sa_type=JSON_VALUE)
    recorded_at: datetime = Field(sa_type=UtcDateTime)


class ExtractionRow(Row, table=True):
    """What the extract step of one window and attempt read. ``body``: an ``Extraction`` in JSON form."""

    __tablename__ = "extractions"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    window_id: str = Field(primary_key=True, sa_type=Text)
    attempt: int = Field(primary_key=True, sa_type=Integer)
    body: dict[str, Any] = Field(sa_type=JSON_VALUE)


class TermFrequencyRow(Row, table=True):
    """In how many documents of one owner and kind a term (32 bits) is."""

    __tablename__ = "term_frequencies"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    owner_key: str = Field(primary_key=True, sa_type=Text)
    kind: str = Field(primary_key=True, sa_type=Text)
    term: int = Field(primary_key=True, sa_type=BigInteger)
    documents: int = Field(sa_type=BigInteger)


class TermTotalsRow(Row, table=True):
    """How many documents of one kind an owner has, and their tokens in all."""

    __tablename__ = "term_totals"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    owner_key: str = Field(primary_key=True, sa_type=Text)
    kind: str = Field(primary_key=True, sa_type=Text)
    documents: int = Field(sa_type=BigInteger)
    length: int = Field(sa_type=BigInteger)


class ModelUsageRow(Row, table=True):
    """Tokens by user, day (UTC), stage and model."""

    __tablename__ = "model_usage"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_model_usage_day", "day"),)

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    day: date = Field(primary_key=True, sa_type=Date)
    stage: str = Field(primary_key=True, sa_type=Text)
    model: str = Field(primary_key=True, sa_type=Text)
    input_tokens: int = Field(sa_type=BigInteger)
    output_tokens: int = Field(sa_type=BigInteger)
    cached_input_tokens: int = Field(sa_type=BigInteger)
    calls: int = Field(sa_type=BigInteger)


class TeamMemberRow(Row, table=True):
    """A team that a user belongs to. ``can_write``: to the team's knowledge tables."""

    __tablename__ = "team_members"  # pyright: ignore[reportAssignmentType]

    tenant: str = Field(primary_key=True, sa_type=Text)
    user_id: str = Field(primary_key=True, sa_type=Text)
    team_key: str = Field(primary_key=True, sa_type=Text)
    team_id_long: str | None = Field(default=None, sa_type=OutsideId)
    can_write: bool = Field(default=True, sa_column_kwargs={"server_default": true()})


WINDOWS = METADATA.tables["windows"]
WINDOW_CHUNKS = METADATA.tables["window_chunks"]
EXTRACTIONS = METADATA.tables["extractions"]
TERM_FREQUENCIES = METADATA.tables["term_frequencies"]
TERM_TOTALS = METADATA.tables["term_totals"]
MODEL_USAGE = METADATA.tables["model_usage"]
TEAM_MEMBERS = METADATA.tables["team_members"]
