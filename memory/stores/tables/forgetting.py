"""Whether a user is being forgotten: asked within the transactions that would write something of them."""

from __future__ import annotations

from sqlalchemy import Connection

from memory.model.erasure import user_hash
from memory.model.errors import BeingForgotten
from memory.model.scope import Scope
from memory.stores.tables.statements import FORGETTING


def refuse_while_forgetting(connection: Connection, scope: Scope) -> None:
    """Raises BeingForgotten."""
    binds = {"b_tenant": scope.tenant, "b_user_hash": user_hash(scope)}
    if connection.execute(FORGETTING, binds).scalar_one_or_none():
        raise BeingForgotten
