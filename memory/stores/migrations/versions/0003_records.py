"""Records: facts, contacts, tasks, guidance, functions, provenance, effects."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INDEXES = {
    "contact_aliases": {"ix_contact_aliases_contact": ["contact_id"]},
    "contact_changes": {"ix_contact_changes_contact": ["contact_id", "number"]},
    "facts": {
        "ix_facts_newest": ["created_at", "fact_id"],
        "ix_facts_chain": ["chain_id"],
        "ix_facts_subject": ["subject_key"],
    },
    "functions": {"ix_functions_newest": ["created_at", "function_id"]},
    "guidance": {"ix_guidance_newest": ["created_at", "guidance_id"]},
    "tasks": {"ix_tasks_newest": ["created_at", "task_id"], "ix_tasks_contact": ["contact_id"]},
}
_STALE = {"contacts": "contact_id", "facts": "fact_id", "functions": "function_id", "guidance": "guidance_id"}
_UNIQUE = {
    "contacts": {
        "uq_contacts_email_key": ("email_key", "email_key IS NOT NULL"),
        "uq_contacts_phone_number": ("phone_number", "phone_number IS NOT NULL"),
        "uq_contacts_whatsapp_number": ("whatsapp_number", "whatsapp_number IS NOT NULL"),
    },
    "facts": {"uq_facts_active_key": ("fact_key", "status = 'active'")},
    "functions": {"uq_functions_name_key": ("name_key", "name_key IS NOT NULL")},
    "guidance": {"uq_guidance_title_key": ("title_key", "title_key IS NOT NULL")},
    "tasks": {"uq_tasks_live_key": ("task_key", "status = 'open' OR status = 'in_progress'")},
}


def _create(name: str, *columns: sa.Column[Any], key: tuple[str, ...] = ()) -> None:
    op.create_table(
        name,
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner_key", sa.Text(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("tenant", "owner_key", *key, name=op.f(f"pk_{name}")),
    )


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _indexed() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("indexed_revision", sa.BigInteger(), nullable=False),
        sa.Column("index_terms", sa.JSON(), nullable=True),
        sa.Column("index_length", sa.BigInteger(), nullable=False),
    )


def upgrade() -> None:
    _create(
        "record_owners",
        sa.Column("last_contact_id", sa.BigInteger(), nullable=False),
        sa.Column("last_change", sa.BigInteger(), nullable=False),
    )
    _create(
        "effects",
        sa.Column("store", sa.Text(), nullable=False),
        sa.Column("effect_key", sa.Text(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        _time("applied_at"),
        key=("store", "effect_key"),
    )
    _create(
        "provenance",
        sa.Column("item_kind", sa.Text(), nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        _time("added_at"),
        sa.Column("event_id", sa.Text(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("quote", sa.Text(), nullable=False),
        _time("said_at", nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        key=("item_kind", "item_id", "source_key"),
    )
    _create(
        "facts",
        *_indexed(),
        sa.Column("fact_id", sa.Text(), nullable=False),
        sa.Column("fact_key", sa.Text(), nullable=True),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("subject_key", sa.Text(), nullable=True),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("topics", sa.JSON(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        _time("observed_at"),
        _time("valid_from", nullable=True),
        _time("valid_until", nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        _time("ended_at", nullable=True),
        _time("created_at"),
        _time("deleted_at", nullable=True),
        key=("fact_id",),
    )
    _create(
        "contacts",
        *_indexed(),
        sa.Column("contact_id", sa.BigInteger(), nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=True)
            for name in (
                "first_name",
                "surname",
                "email_address",
                "email_key",
                "phone_number",
                "whatsapp_number",
                "timezone",
                "job_title",
                "bio",
                "rolling_summary",
                "response_policy",
            )
        ),
        sa.Column("should_respond", sa.Boolean(), nullable=False),
        sa.Column("is_system", sa.Boolean(), nullable=False),
        sa.Column("merged_into", sa.BigInteger(), nullable=True),
        _time("created_at"),
        _time("updated_at"),
        key=("contact_id",),
    )
    _create(
        "contact_aliases",
        sa.Column("alias_key", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("contact_id", sa.BigInteger(), nullable=False),
        key=("alias_key",),
    )
    _create(
        "contact_changes",
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("contact_id", sa.BigInteger(), nullable=False),
        sa.Column("made_for", sa.BigInteger(), nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        _time("at"),
        key=("number",),
    )
    _create(
        "tasks",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("task_key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("priority", sa.Text(), nullable=False),
        _time("deadline", nullable=True),
        sa.Column("schedule", sa.Text(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("contact_id", sa.BigInteger(), nullable=True),
        _time("created_at"),
        _time("updated_at"),
        key=("task_id",),
    )
    _create(
        "guidance",
        *_indexed(),
        sa.Column("guidance_id", sa.Text(), nullable=False),
        sa.Column("title_key", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        _time("created_at"),
        _time("updated_at"),
        _time("deleted_at", nullable=True),
        key=("guidance_id",),
    )
    _create(
        "functions",
        *_indexed(),
        sa.Column("function_id", sa.Text(), nullable=False),
        sa.Column("name_key", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("docstring", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("dependencies", sa.JSON(), nullable=False),
        _time("created_at"),
        _time("updated_at"),
        _time("deleted_at", nullable=True),
        key=("function_id",),
    )
    _create_indexes()


def _create_indexes() -> None:
    for table, indexes in _INDEXES.items():
        for name, columns in indexes.items():
            op.create_index(name, table, ["tenant", "owner_key", *columns], unique=False)
    partial = [(f"ix_{table}_stale", table, key, "indexed_revision < revision", False) for table, key in _STALE.items()]
    partial += [(name, table, column, where, True) for table, found in _UNIQUE.items() for name, (column, where) in found.items()]
    for name, table, column, where, unique in partial:
        condition = sa.text(where)
        op.create_index(
            name, table, ["tenant", "owner_key", column], unique=unique, sqlite_where=condition, postgresql_where=condition
        )


def downgrade() -> None:
    for name in (
        "functions",
        "guidance",
        "tasks",
        "contact_changes",
        "contact_aliases",
        "contacts",
        "facts",
        "provenance",
        "effects",
        "record_owners",
    ):
        op.drop_table(name)
