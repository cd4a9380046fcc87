"""Event window: watermark, windows, extractions, term statistics, usage, teams."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NUMBERS = ("consolidated_seq", "waiting", "flush_seq", "indexed_seq", "embedded_seq", "expired_seq")
_COUNTER_INDEXES = {
    "ix_user_counters_waiting": ("waiting", "waiting <> 0"),
    "ix_user_counters_idle": ("last_event_at", "waiting <> 0 AND flush_seq < last_seq"),
    "ix_user_counters_flushed": ("flush_seq", "flush_seq > consolidated_seq"),
    "ix_user_counters_unindexed": ("indexed_seq", "indexed_seq < consolidated_seq"),
    "ix_user_counters_unembedded": ("embedded_seq", "embedded_seq < consolidated_seq"),
}
_WINDOW_INDEXES = {
    "ix_windows_planned": (["tenant", "user_id", "planned_at"], "state = 'planned'"),
    "ix_windows_unhappy": (["finished_at"], "state = 'failed' OR state = 'partial'"),
}


def upgrade() -> None:
    for name in _NUMBERS:
        op.add_column("user_counters", sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("user_counters", sa.Column("flush_cause", sa.Text(), nullable=True))
    for name in ("last_event_at", "text_since"):
        op.add_column("user_counters", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    for name in ("manager", "method", "phase", "calling_id", "space_id"):
        op.add_column("events", sa.Column(name, sa.Text(), nullable=True))

    # What was recorded before there were windows waits for one.
    op.execute(
        """
        UPDATE user_counters SET
            waiting = last_seq,
            last_event_at = (SELECT max(e.recorded_at) FROM events e
                             WHERE e.tenant = user_counters.tenant AND e.user_id = user_counters.user_id),
            text_since = (SELECT min(e.recorded_at) FROM events e
                          WHERE e.tenant = user_counters.tenant AND e.user_id = user_counters.user_id)
        """
    )
    op.execute(
        """
        UPDATE events SET space_id = (SELECT t.space_id FROM turns t WHERE t.tenant = events.tenant
                                      AND t.user_id = events.user_id AND t.turn_key = events.turn_key)
        WHERE turn_key IS NOT NULL
        """
    )
    for name, (column, where) in _COUNTER_INDEXES.items():
        _partial_index(name, "user_counters", [column], where)
    op.create_index("ix_user_counters_tenant_text_since", "user_counters", ["tenant", "text_since"], unique=False)

    op.create_table(
        "windows",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("first_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("categories", sa.JSON(), nullable=False),
        sa.Column("spaces_off", sa.JSON(), nullable=True),
        sa.Column("guidance", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("outcomes", sa.JSON(), nullable=True),
        sa.Column("flags", sa.JSON(), nullable=True),
        sa.Column("usage", sa.JSON(), nullable=True),
        sa.Column("durations_ms", sa.JSON(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("workflow_id", sa.Text(), nullable=True),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "user_id", "window_id", name=op.f("pk_windows")),
    )
    for name, (columns, where) in _WINDOW_INDEXES.items():
        _partial_index(name, "windows", columns, where)
    op.create_index("ix_windows_planned_at", "windows", ["planned_at"], unique=False)
    op.create_index("ix_windows_tenant_planned_at", "windows", ["tenant", "planned_at"], unique=False)
    op.create_index("ix_windows_user_planned_at", "windows", ["tenant", "user_id", "planned_at"], unique=False)
    op.create_table(
        "window_chunks",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", "window_id", name=op.f("pk_window_chunks")),
    )
    op.create_index("ix_window_chunks_tenant_recorded_at", "window_chunks", ["tenant", "recorded_at"], unique=False)
    op.create_table(
        "extractions",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("window_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", "window_id", "attempt", name=op.f("pk_extractions")),
    )
    op.create_table(
        "term_frequencies",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner_key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner_key", "kind", "term", name=op.f("pk_term_frequencies")),
    )
    op.create_table(
        "term_totals",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner_key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner_key", "kind", name=op.f("pk_term_totals")),
    )
    op.create_table(
        "model_usage",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", "day", "stage", "model", name=op.f("pk_model_usage")),
    )
    op.create_index("ix_model_usage_day", "model_usage", ["day"], unique=False)
    op.create_table(
        "team_members",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("team_key", sa.Text(), nullable=False),
        sa.Column("team_id_long", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "user_id", "team_key", name=op.f("pk_team_members")),
    )


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, unique=False, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def downgrade() -> None:
    for table in ("team_members", "model_usage", "term_totals", "term_frequencies", "extractions", "window_chunks", "windows"):
        op.drop_table(table)
    for name in (*_COUNTER_INDEXES, "ix_user_counters_tenant_text_since"):
        op.drop_index(name, table_name="user_counters")
    for name in ("manager", "method", "phase", "calling_id", "space_id"):
        op.drop_column("events", name)
    for name in (*_NUMBERS, "flush_cause", "last_event_at", "text_since"):
        op.drop_column("user_counters", name)
