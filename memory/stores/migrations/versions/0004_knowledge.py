"""Knowledge: dynamic tables, their rows, embeddings, loops; who may write to a team's tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from memory.model.errors import InvalidSettings

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _create(name: str, *columns: sa.Column[Any], key: tuple[str, ...], **options: Any) -> None:
    op.create_table(
        name,
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner_key", sa.Text(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("tenant", "owner_key", *key, name=op.f(f"pk_{name}")),
        **options,
    )


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _case_collation() -> None:
    """What ``lower()`` and ``upper()`` of an expression go by: full Unicode, whatever locale the database has."""
    bind = op.get_bind()
    if bind.scalar(sa.text("SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'")):
        op.execute("CREATE COLLATION IF NOT EXISTS afterturn_case (provider = icu, locale = 'und')")
        return
    version = int(bind.scalar(sa.text("SHOW server_version_num")) or 0) // 10_000
    locale = "PG_UNICODE_FAST" if version >= 18 else "C.UTF-8"
    if version < 17:
        raise InvalidSettings("this PostgreSQL server was built without ICU: use one that has it, or version 17 or newer")
    op.execute(f"CREATE COLLATION IF NOT EXISTS afterturn_case (provider = builtin, locale = '{locale}')")


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        _case_collation()
    with op.batch_alter_table("record_owners") as table:
        table.add_column(sa.Column("last_table_id", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    with op.batch_alter_table("team_members") as table:
        table.add_column(sa.Column("can_write", sa.Boolean(), server_default=sa.true(), nullable=False))
    _create(
        "knowledge_tables",
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("unique_key", sa.Text(), nullable=False),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("next_column", sa.Integer(), nullable=False),
        sa.Column("next_key", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        _time("created_at"),
        _time("updated_at"),
        key=("table_id",),
    )
    op.create_index("uq_knowledge_tables_name", "knowledge_tables", ["tenant", "owner_key", "name_key"], unique=True)
    _create(
        "knowledge_rows",
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("row_key", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        *(sa.Column(f"i{number:02}", sa.BigInteger(), nullable=True) for number in range(16)),
        *(sa.Column[Any](f"f{number:02}", sa.Double[float](), nullable=True) for number in range(16)),
        *(sa.Column(f"t{number:02}", sa.Text(), nullable=True) for number in range(24)),
        sa.Column("more", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=True),
        key=("table_id", "row_key"),
        sqlite_with_rowid=False,
    )
    _create(
        "knowledge_embeddings",
        sa.Column("table_id", sa.BigInteger(), nullable=False),
        sa.Column("column_key", sa.Text(), nullable=False),
        sa.Column("row_key", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        key=("table_id", "column_key", "row_key"),
    )
    _create(
        "knowledge_loops",
        sa.Column("loop_id", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("clarify", sa.Boolean(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        _time("created_at"),
        _time("ended_at", nullable=True),
        key=("loop_id",),
    )
    op.create_index("ix_knowledge_loops_newest", "knowledge_loops", ["tenant", "owner_key", "created_at", "loop_id"])
    running = sa.text("state = 'running'")
    op.create_index("ix_knowledge_loops_running", "knowledge_loops", ["created_at"], sqlite_where=running, postgresql_where=running)
    _create(
        "knowledge_entries",
        sa.Column("loop_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("entry_key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        _time("at"),
        key=("loop_id", "number"),
    )
    op.create_index("uq_knowledge_entries_key", "knowledge_entries", ["tenant", "owner_key", "loop_id", "entry_key"], unique=True)


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP COLLATION IF EXISTS afterturn_case")
    for name in ("knowledge_entries", "knowledge_loops", "knowledge_embeddings", "knowledge_rows", "knowledge_tables"):
        op.drop_table(name)
    with op.batch_alter_table("team_members") as table:
        table.drop_column("can_write")
    with op.batch_alter_table("record_owners") as table:
        table.drop_column("last_table_id")
