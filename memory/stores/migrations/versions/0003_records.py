"""Records: facts, contacts, tasks, guidance, functions, provenance, effects."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "contact_aliases",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("alias_key", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("contact_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "alias_key", name=op.f("pk_contact_aliases")),
    )
    op.create_index("ix_contact_aliases_contact", "contact_aliases", ["tenant", "owner", "contact_id"], unique=False)

    op.create_table(
        "contact_changes",
        sa.Column("change_no", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("contact_id", sa.BigInteger(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("change_no", name=op.f("pk_contact_changes")),
    )
    op.create_index("ix_contact_changes_contact", "contact_changes", ["tenant", "owner", "contact_id"], unique=False)

    op.create_table(
        "contacts",
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("indexed_revision", sa.BigInteger(), nullable=False),
        sa.Column("index_terms", sa.JSON(), nullable=True),
        sa.Column("index_length", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("contact_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("first_name", sa.Text(), nullable=True),
        sa.Column("surname", sa.Text(), nullable=True),
        sa.Column("email_address", sa.Text(), nullable=True),
        sa.Column("phone_number", sa.Text(), nullable=True),
        sa.Column("whatsapp_number", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=True),
        sa.Column("job_title", sa.Text(), nullable=True),
        sa.Column("bio", sa.Text(), nullable=True),
        sa.Column("rolling_summary", sa.Text(), nullable=True),
        sa.Column("response_policy", sa.Text(), nullable=True),
        sa.Column("should_respond", sa.Boolean(), nullable=False),
        sa.Column("is_system", sa.Boolean(), nullable=False),
        sa.Column("merged_into", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "contact_id", name=op.f("pk_contacts")),
        sa.UniqueConstraint("tenant", "owner", "email_address", name="uq_contacts_email_address"),
        sa.UniqueConstraint("tenant", "owner", "phone_number", name="uq_contacts_phone_number"),
        sa.UniqueConstraint("tenant", "owner", "whatsapp_number", name="uq_contacts_whatsapp_number"),
    )
    op.create_index(
        "ix_contacts_pending",
        "contacts",
        ["tenant", "owner"],
        unique=False,
        sqlite_where=sa.text("revision <> indexed_revision"),
        postgresql_where=sa.text("revision <> indexed_revision"),
    )

    op.create_table(
        "effects",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "effect", name=op.f("pk_effects")),
    )
    op.create_table(
        "facts",
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("indexed_revision", sa.BigInteger(), nullable=False),
        sa.Column("index_terms", sa.JSON(), nullable=True),
        sa.Column("index_length", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("fact_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("statement_key", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("topics", sa.JSON(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("observed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("valid_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("valid_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "fact_id", name=op.f("pk_facts")),
    )
    op.create_index("ix_facts_observed", "facts", ["tenant", "owner", "observed_at"], unique=False)
    op.create_index(
        "ix_facts_pending",
        "facts",
        ["tenant", "owner"],
        unique=False,
        sqlite_where=sa.text("revision <> indexed_revision"),
        postgresql_where=sa.text("revision <> indexed_revision"),
    )
    op.create_index("ix_facts_superseded_by", "facts", ["tenant", "owner", "superseded_by"], unique=False)
    op.create_index(
        "uq_facts_active_key",
        "facts",
        ["tenant", "owner", "statement_key"],
        unique=True,
        sqlite_where=sa.text("status = 'active'"),
        postgresql_where=sa.text("status = 'active'"),
    )

    op.create_table(
        "functions",
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("indexed_revision", sa.BigInteger(), nullable=False),
        sa.Column("index_terms", sa.JSON(), nullable=True),
        sa.Column("index_length", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("function_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("docstring", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("dependencies", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "function_id", name=op.f("pk_functions")),
    )
    op.create_index(
        "ix_functions_pending",
        "functions",
        ["tenant", "owner"],
        unique=False,
        sqlite_where=sa.text("revision <> indexed_revision"),
        postgresql_where=sa.text("revision <> indexed_revision"),
    )

    op.create_table(
        "guidance",
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("indexed_revision", sa.BigInteger(), nullable=False),
        sa.Column("index_terms", sa.JSON(), nullable=True),
        sa.Column("index_length", sa.Integer(), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("guidance_id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "guidance_id", name=op.f("pk_guidance")),
    )
    op.create_index(
        "ix_guidance_pending",
        "guidance",
        ["tenant", "owner"],
        unique=False,
        sqlite_where=sa.text("revision <> indexed_revision"),
        postgresql_where=sa.text("revision <> indexed_revision"),
    )

    op.create_table(
        "provenance",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("item_kind", sa.Text(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("quote", sa.Text(), nullable=False),
        sa.Column("said_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "item_kind", "item_id", "source_key", name=op.f("pk_provenance")),
    )
    op.create_table(
        "tasks",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("task_key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("schedule", sa.Text(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("contact_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "owner", "task_id", name=op.f("pk_tasks")),
    )
    op.create_index("ix_tasks_created", "tasks", ["tenant", "owner", "created_at"], unique=False)
    op.create_index(
        "uq_tasks_live_key",
        "tasks",
        ["tenant", "owner", "task_key"],
        unique=True,
        sqlite_where=sa.text("status = 'open' OR status = 'in_progress'"),
        postgresql_where=sa.text("status = 'open' OR status = 'in_progress'"),
    )


def downgrade() -> None:
    for table in (
        "tasks",
        "provenance",
        "guidance",
        "functions",
        "facts",
        "effects",
        "contacts",
        "contact_changes",
        "contact_aliases",
    ):
        op.drop_table(table)
