"""The tables of knowledge: the catalogue, the rows of all dynamic tables, what is embedded of them, loops and their entries.

A dynamic table is no table of the database. Its rows are in ``knowledge_rows``; the catalogue says which slot (a database column
of the right type) holds which of its columns. Slots are real columns, so filters and aggregates run at about the speed of a table
of one's own, where JSON took five to twelve times as long. Columns without a slot (lists, dicts, what is beyond the slots) are in
``more``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from sqlalchemy import JSON, BigInteger, Column, Double, Index, Integer, PrimaryKeyConstraint, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field

from memory.stores.tables.columns import UtcDateTime
from memory.stores.tables.rows import JSON_VALUE, METADATA, Row
from memory.stores.tables.rows_records import Owned

TEXT_SLOTS: Final = tuple(f"t{number:02}" for number in range(24))
"""str."""
INTEGER_SLOTS: Final = tuple(f"i{number:02}" for number in range(16))
"""int, bool (0 and 1), datetime (µs since 1970 in UTC), date (days since 1970), time (µs of the day), timedelta (µs)."""
FLOAT_SLOTS: Final = tuple(f"f{number:02}" for number in range(16))
"""float."""
MORE: Final = "more"

_RUNNING = text("state = 'running'")
_OWNER = ("tenant", "owner_key")


class KnowledgeTableRow(Row, Owned, table=True):
    """The catalogue. ``columns``: a list of {name, type, key, slot, auto, within, source}. ``name_key``: as names are compared.

    ``next_column``: number of the next column key.
    """

    __tablename__ = "knowledge_tables"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("uq_knowledge_tables_name", *_OWNER, "name_key", unique=True),)

    table_id: int = Field(primary_key=True, sa_type=BigInteger)
    name: str = Field(sa_type=Text)
    name_key: str = Field(sa_type=Text)
    description: str | None = Field(default=None, sa_type=Text)
    unique_key: str = Field(sa_type=Text)
    columns: list[dict[str, Any]] = Field(sa_type=JSON_VALUE)
    next_column: int = Field(sa_type=Integer)
    next_key: int = Field(sa_type=BigInteger)
    version: int = Field(sa_type=BigInteger)
    created_at: datetime = Field(sa_type=UtcDateTime)
    updated_at: datetime = Field(sa_type=UtcDateTime)


class KnowledgeEmbeddingRow(Row, Owned, table=True):
    """What the vector index holds: the row's revision whose value in this column is embedded. ``live`` false: there was no text."""

    __tablename__ = "knowledge_embeddings"  # pyright: ignore[reportAssignmentType]

    table_id: int = Field(primary_key=True, sa_type=BigInteger)
    column_key: str = Field(primary_key=True, sa_type=Text)
    row_key: int = Field(primary_key=True, sa_type=BigInteger)
    revision: int = Field(sa_type=BigInteger)
    live: bool


class KnowledgeLoopRow(Row, Owned, table=True):
    """A loop; of its user (``owner_key`` ``u/…``), whatever it writes to."""

    __tablename__ = "knowledge_loops"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_knowledge_loops_newest", *_OWNER, "created_at", "loop_id"),
        Index("ix_knowledge_loops_running", "created_at", sqlite_where=_RUNNING, postgresql_where=_RUNNING),
    )

    loop_id: str = Field(primary_key=True, sa_type=Text)
    operation: str = Field(sa_type=Text)
    request: dict[str, Any] = Field(sa_type=JSON_VALUE)
    destination: str = Field(sa_type=Text)
    clarify: bool
    limits: dict[str, Any] = Field(sa_type=JSON_VALUE)
    model: str = Field(sa_type=Text)
    parent: str | None = Field(default=None, sa_type=Text)
    state: str = Field(sa_type=Text)
    answer: dict[str, Any] | None = Field(default=None, sa_type=JSON_VALUE)
    reason: str | None = Field(default=None, sa_type=Text)
    steps: int = Field(sa_type=Integer)
    input_tokens: int = Field(sa_type=BigInteger)
    output_tokens: int = Field(sa_type=BigInteger)
    created_at: datetime = Field(sa_type=UtcDateTime)
    ended_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


class KnowledgeEntryRow(Row, Owned, table=True):
    """One line of a loop."""

    __tablename__ = "knowledge_entries"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("uq_knowledge_entries_key", *_OWNER, "loop_id", "entry_key", unique=True),)

    loop_id: str = Field(primary_key=True, sa_type=Text)
    number: int = Field(primary_key=True, sa_type=BigInteger)
    entry_key: str = Field(sa_type=Text)
    kind: str = Field(sa_type=Text)
    step: int = Field(sa_type=Integer)
    body: dict[str, Any] = Field(sa_type=JSON_VALUE)
    at: datetime = Field(sa_type=UtcDateTime)


KNOWLEDGE_ROWS: Final = Table(
    "knowledge_rows",
    METADATA,
    Column("tenant", Text, nullable=False),
    Column("owner_key", Text, nullable=False),
    Column("table_id", BigInteger, nullable=False),
    Column("row_key", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    *(Column(slot, BigInteger) for slot in INTEGER_SLOTS),
    *(Column[Any](slot, Double[float]()) for slot in FLOAT_SLOTS),
    *(Column(slot, Text) for slot in TEXT_SLOTS),
    Column(MORE, JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")),
    PrimaryKeyConstraint("tenant", "owner_key", "table_id", "row_key", name="pk_knowledge_rows"),
    # Rows of one table lie together, and are scanned without a look into an index for each.
    sqlite_with_rowid=False,
)
"""``row_key``: the table's unique key. ``revision``: raised by every change of the row. ``more``: column key → JSON value."""

KNOWLEDGE_TABLES = METADATA.tables["knowledge_tables"]
KNOWLEDGE_EMBEDDINGS = METADATA.tables["knowledge_embeddings"]
KNOWLEDGE_LOOPS = METADATA.tables["knowledge_loops"]
KNOWLEDGE_ENTRIES = METADATA.tables["knowledge_entries"]
KNOWLEDGE: Final = frozenset({KNOWLEDGE_TABLES, KNOWLEDGE_ROWS, KNOWLEDGE_EMBEDDINGS, KNOWLEDGE_LOOPS, KNOWLEDGE_ENTRIES})
