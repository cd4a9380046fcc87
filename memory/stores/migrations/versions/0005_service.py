"""Erasures, service tokens, notices on their way to streams, running processes."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "erasures",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("erasure_id", sa.Text(), nullable=False),
        sa.Column("user_hash", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("problems", sa.JSON(), nullable=False),
        _time("started_at"),
        _time("erased_at", nullable=True),
        _time("finished_at", nullable=True),
        sa.PrimaryKeyConstraint("tenant", "erasure_id", name=op.f("pk_erasures")),
    )
    open_ones = sa.text("state <> 'done'")
    op.create_index(
        "uq_erasures_open", "erasures", ["tenant", "user_hash"], unique=True, sqlite_where=open_ones, postgresql_where=open_ones
    )
    op.create_index("ix_erasures_user", "erasures", ["tenant", "user_hash", "started_at"])
    op.create_table(
        "erased_users",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_hash", sa.Text(), nullable=False),
        sa.Column("forgetting", sa.Boolean(), nullable=False),
        _time("forgotten_before"),
        sa.PrimaryKeyConstraint("tenant", "user_hash", name=op.f("pk_erased_users")),
    )
    op.create_table(
        "service_tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("permissions", sa.JSON(), nullable=False),
        _time("created_at"),
        _time("expires_at", nullable=True),
        _time("revoked_at", nullable=True),
        _time("last_used_at", nullable=True),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_service_tokens")),
    )
    op.create_index("ix_service_tokens_tenant", "service_tokens", ["tenant", "created_at"])
    op.create_table(
        "notices",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("notice_key", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        _time("recorded_at"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_notices")),
        sqlite_autoincrement=True,
    )
    op.create_index("uq_notices_key", "notices", ["tenant", "user_id", "notice_key"], unique=True)
    op.create_index("ix_notices_recorded_at", "notices", ["recorded_at"])
    op.create_table(
        "processes",
        sa.Column("process_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("flags", sa.JSON(), nullable=False),
        _time("started_at"),
        _time("seen_at"),
        sa.PrimaryKeyConstraint("process_id", name=op.f("pk_processes")),
    )


def downgrade() -> None:
    for name in ("processes", "notices", "service_tokens", "erased_users", "erasures"):
        op.drop_table(name)
