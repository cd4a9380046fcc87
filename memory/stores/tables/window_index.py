"""How far a user's log is in the search index, with the term statistics of its messages. Within the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, func, or_, select, update

from memory.model.errors import InvalidInput
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.stores.tables.rows import EVENTS, USER_COUNTERS
from memory.stores.tables.statements import of_user
from memory.stores.tables.terms import change_terms, clear_terms
from memory.stores.tables.window_rows import user_binds

KIND = "events"
"""Of the term statistics."""

_MESSAGES = (
    select(func.count())
    .select_from(EVENTS)
    .where(
        of_user(EVENTS),
        EVENTS.c.seq.between(bindparam("b_first"), bindparam("b_last")),
        EVENTS.c.kind == "message",
        EVENTS.c.content.is_not(None),
    )
)


def advance(
    connection: Connection, scope: Scope, column: Literal["indexed_seq", "embedded_seq"], from_seq: int, to_seq: int
) -> bool:
    """Move the number on from ``from_seq``. False: it is elsewhere by now, and nothing was written."""
    if to_seq < from_seq:
        raise InvalidInput(f"the index goes on from {from_seq}, not back to {to_seq}")
    moved = (
        update(USER_COUNTERS)
        .where(of_user(USER_COUNTERS), USER_COUNTERS.c[column] == from_seq, USER_COUNTERS.c.last_seq >= to_seq)
        .values({column: to_seq})
    )
    return connection.execute(moved, user_binds(scope)).rowcount == 1


def advance_index(
    connection: Connection, scope: Scope, from_seq: int, to_seq: int, frequencies: Mapping[int, int], length: int
) -> bool:
    if not advance(connection, scope, "indexed_seq", from_seq, to_seq):
        return False
    documents = messages_between(connection, scope, from_seq + 1, to_seq)
    change_terms(connection, scope.tenant, Owner.user(scope).key, KIND, frequencies, length, documents)
    return True


def messages_between(connection: Connection, scope: Scope, first: int, last: int) -> int:
    """How many documents these events are: messages, since a manager's calls are not searched."""
    return int(connection.execute(_MESSAGES, {**user_binds(scope), "b_first": first, "b_last": last}).scalar_one())


def reset(connection: Connection, scope: Scope | None) -> int:
    begun = or_(USER_COUNTERS.c.indexed_seq > 0, USER_COUNTERS.c.embedded_seq > 0)
    again = update(USER_COUNTERS).where(begun).values(indexed_seq=0, embedded_seq=0)
    if scope is None:
        users = connection.execute(again).rowcount
        clear_terms(connection, KIND)
        return users
    users = connection.execute(again.where(of_user(USER_COUNTERS)), user_binds(scope)).rowcount
    clear_terms(connection, KIND, tenant=scope.tenant, owner_key=Owner.user(scope).key)
    return users


def unindexed(connection: Connection, *, embedded: bool, limit: int) -> Sequence[Scope]:
    columns: Any = USER_COUNTERS.c
    behind = columns.embedded_seq if embedded else columns.indexed_seq
    wanted = (
        select(columns.tenant, columns.user_id)
        .where(behind < columns.consolidated_seq)
        .order_by(columns.last_event_at, columns.tenant, columns.user_id)
        .limit(limit)
    )
    return [Scope(row.tenant, row.user_id) for row in connection.execute(wanted)]
