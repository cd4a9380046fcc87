"""Event log, turn ledger and directory."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("event_key", sa.Text(), nullable=False),
        sa.Column("event_id_long", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sender_id", sa.Text(), nullable=True),
        sa.Column("receiver_ids", sa.JSON(), nullable=True),
        sa.Column("medium", sa.Text(), nullable=True),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=True),
        sa.Column("turn_key", sa.Text(), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", "seq", name=op.f("pk_events")),
        sa.UniqueConstraint("tenant", "user_id", "event_key", name=op.f("uq_events_tenant_user_id_event_key")),
    )
    op.create_table(
        "memory_roots",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "folder", name=op.f("pk_memory_roots")),
    )
    op.create_table(
        "space_settings",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("space_key", sa.Text(), nullable=False),
        sa.Column("space_id_long", sa.Text(), nullable=True),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "space_key", name=op.f("pk_space_settings")),
    )
    op.create_table(
        "turns",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("turn_key", sa.Text(), nullable=False),
        sa.Column("turn_id_long", sa.Text(), nullable=True),
        sa.Column("user_seq", sa.BigInteger(), nullable=True),
        sa.Column("assistant_seq", sa.BigInteger(), nullable=True),
        sa.Column("user_blank", sa.Text(), nullable=True),
        sa.Column("assistant_blank", sa.Text(), nullable=True),
        sa.Column("space_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("medium", sa.Text(), nullable=False),
        sa.Column("language_model", sa.Text(), nullable=True),
        sa.Column("allow_user_memory", sa.Boolean(), nullable=False),
        sa.Column("web_search", sa.Boolean(), nullable=True),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("flags", sa.JSON(), nullable=True),
        sa.Column("usage", sa.JSON(), nullable=True),
        sa.Column("durations_ms", sa.JSON(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("profile_version", sa.BigInteger(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("workflow_id", sa.Text(), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "user_id", "ordinal", name=op.f("pk_turns")),
        sa.UniqueConstraint("tenant", "user_id", "turn_key", name=op.f("uq_turns_tenant_user_id_turn_key")),
    )
    op.create_index(
        "ix_turns_kept",
        "turns",
        ["tenant", "user_id", "ordinal"],
        unique=False,
        sqlite_where=sa.text("outcome = 'kept'"),
        postgresql_where=sa.text("outcome = 'kept'"),
    )
    op.create_index(
        "ix_turns_pending",
        "turns",
        ["tenant", "user_id", "ordinal", "recorded_at"],
        unique=False,
        sqlite_where=sa.text("state = 'pending'"),
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index("ix_turns_recorded_at", "turns", ["recorded_at"], unique=False)
    op.create_index("ix_turns_tenant_recorded_at", "turns", ["tenant", "recorded_at"], unique=False)

    op.create_table(
        "user_counters",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_ordinal", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", name=op.f("pk_user_counters")),
    )
    op.create_table(
        "user_preferences",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("allow_user_memory", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", name=op.f("pk_user_preferences")),
    )


def downgrade() -> None:
    op.drop_table("user_preferences")
    op.drop_table("user_counters")

    op.drop_table("turns")
    op.drop_table("space_settings")
    op.drop_table("memory_roots")
    op.drop_table("events")
