"""Whether a user is being forgotten: asked within the transactions that would write something of them."""

from __future__ import annotations

from sqlalchemy import Connection

from memory.model.erasure import user_hash
from memory.model.errors import BeingForgotten
from memory.model.scope import Scope
from memory.stores.tables.statements import FORGETTING


def is_forgetting(connection: Connection, scope: Scope) -> bool:
    binds = {"b_tenant": scope.tenant, "b_user_hash": user_hash(scope)}
    return bool(connection.execute(FORGETTING, binds).scalar_one_or_none())


def refuse_while_forgetting(connection: Connection, scope: Scope) -> None:
    """Raises BeingForgotten."""
    if is_forgetting(connection, scope):
        raise BeingForgotten
