"""Run by Alembic; the caller gives the connection (see ``memory.stores.migrations``) and owns its transaction."""

from typing import Any, Literal

from alembic import context

from memory.stores.tables.columns import OutsideId, UtcDateTime
from memory.stores.tables.rows_api import METADATA


def render_item(kind: str, item: Any, autogen_context: Any) -> str | Literal[False]:
    """Migrations name the plain types: they must not change when ours do."""
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    return "sa.Text()" if kind == "type" and isinstance(item, OutsideId) else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    compare_type=True,
    render_item=render_item,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
