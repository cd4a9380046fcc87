"""Which older code may run on a schema: what makes it possible to go back to the version before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

oldest_code = "0006"
"""Code of 0005 would do with these tables, but it cannot read that, and refuses."""


def upgrade() -> None:
    op.create_table(
        "schema_support",
        sa.Column("oldest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("oldest", name=op.f("pk_schema_support")),
    )


def downgrade() -> None:
    op.drop_table("schema_support")
