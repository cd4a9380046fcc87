"""Text that is older than its company's retention time: which it is, and its deletion with what counts on it.

Text goes in the order of the log: what is below ``expired_seq`` is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, exists, func, or_, select, update

from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.window import WindowKind
from memory.ports import Expirable
from memory.stores.tables.rows import EVENTS, TURNS, USER_COUNTERS
from memory.stores.tables.rows_window import EXTRACTIONS, WINDOW_CHUNKS, WINDOWS
from memory.stores.tables.statements import COUNTERS, IS_PENDING, of_user
from memory.stores.tables.terms import change_terms
from memory.stores.tables.window_index import KIND, messages_between
from memory.stores.tables.window_rows import IS_PLANNED, LOCKED_COUNTERS, user_binds

_C = USER_COUNTERS.c
_USERS_IN_ONE_EXPIRY = 200

_TURN_PENDING = exists().where(
    TURNS.c.tenant == EVENTS.c.tenant, TURNS.c.user_id == EVENTS.c.user_id, TURNS.c.turn_key == EVENTS.c.turn_key, IS_PENDING
)
"""Its turn has not been through the post-answer pipeline yet, which needs the text."""


def expirable(connection: Connection, tenant: str, before: datetime, limit: int) -> Sequence[Expirable]:
    first = and_(EVENTS.c.tenant == _C.tenant, EVENTS.c.user_id == _C.user_id, EVENTS.c.seq == _C.expired_seq + 1)
    users = (
        select(_C.user_id)
        .select_from(USER_COUNTERS.join(EVENTS, first))
        .where(
            _C.tenant == tenant,
            _C.text_since < before,
            _C.expired_seq < _C.consolidated_seq,
            EVENTS.c.recorded_at < before,
            ~_TURN_PENDING,
        )
        .order_by(_C.text_since)
        .limit(_USERS_IN_ONE_EXPIRY)
    )
    found: list[Expirable] = []
    left = limit
    for user in sorted(connection.execute(users).scalars()):
        if left <= 0:
            break
        scope = Scope(tenant, user)
        counters = connection.execute(COUNTERS, user_binds(scope)).one()
        one = _of_user(connection, scope, counters, before, left)
        if one is not None:
            left -= len(one.seqs)
            found.append(one)
    return found


def _of_user(connection: Connection, scope: Scope, counters: Row[Any], before: datetime, limit: int) -> Expirable | None:
    wanted = (
        select(
            EVENTS.c.seq,
            EVENTS.c.recorded_at,
            or_(EVENTS.c.content.is_not(None), EVENTS.c.payload.is_not(None)).label("has_text"),
            _TURN_PENDING.label("is_pending"),
        )
        .where(of_user(EVENTS), EVENTS.c.seq > counters.expired_seq)
        .order_by(EVENTS.c.seq)
        .limit(limit + 1)
    )
    seqs: list[int] = []
    last = counters.expired_seq
    for row in connection.execute(wanted, user_binds(scope)):
        if row.seq > counters.consolidated_seq or row.recorded_at >= before or row.is_pending or len(seqs) == limit:
            break
        last = row.seq
        if row.has_text:
            seqs.append(row.seq)
    if last == counters.expired_seq:
        return None
    return Expirable(scope, counters.expired_seq, last, tuple(seqs), counters.indexed_seq)


def expire(connection: Connection, due: Expirable, frequencies: Mapping[int, int], length: int) -> bool:
    """Text, what was extracted from it, and the term statistics of what was indexed, of the events that ``due`` names."""
    scope, last = due.scope, due.to_seq
    binds = user_binds(scope)
    counters = connection.execute(LOCKED_COUNTERS, binds).one_or_none()
    if counters is None or counters.expired_seq != due.from_seq:
        return False
    if min(counters.indexed_seq, last) != min(due.indexed_seq, last):
        return False  # more of it counts by now, or less: a later look adds up anew
    old = (of_user(EVENTS), EVENTS.c.seq > due.from_seq, EVENTS.c.seq <= last)
    if connection.execute(select(func.count()).select_from(EVENTS).where(*old, _TURN_PENDING), binds).scalar_one():
        return False
    documents = messages_between(connection, scope, due.from_seq + 1, min(due.indexed_seq, last))
    lowered = {term: -count for term, count in frequencies.items()}
    change_terms(connection, scope.tenant, Owner.user(scope).key, KIND, lowered, -length, -documents)
    connection.execute(update(EVENTS).where(*old).values(content=None, payload=None), binds)
    following = select(EVENTS.c.recorded_at).where(of_user(EVENTS), EVENTS.c.seq == last + 1)
    moved = {"expired_seq": last, "text_since": connection.execute(following, binds).scalar_one_or_none()}
    connection.execute(update(USER_COUNTERS).where(of_user(USER_COUNTERS)).values(moved), binds)
    through = select(WINDOWS.c.window_id).where(
        of_user(WINDOWS), WINDOWS.c.kind == WindowKind.EVENTS.value, WINDOWS.c.last_seq <= last, ~IS_PLANNED
    )
    connection.execute(delete(EXTRACTIONS).where(of_user(EXTRACTIONS), EXTRACTIONS.c.window_id.in_(through)), binds)
    return True


def expire_chunks(connection: Connection, tenant: str, before: datetime, limit: int) -> int:
    key = (WINDOW_CHUNKS.c.user_id, WINDOW_CHUNKS.c.window_id)
    same = and_(
        WINDOWS.c.tenant == WINDOW_CHUNKS.c.tenant,
        WINDOWS.c.user_id == WINDOW_CHUNKS.c.user_id,
        WINDOWS.c.window_id == WINDOW_CHUNKS.c.window_id,
    )
    wanted = (
        select(*key)
        .select_from(WINDOW_CHUNKS.join(WINDOWS, same))
        .where(WINDOW_CHUNKS.c.tenant == tenant, WINDOW_CHUNKS.c.recorded_at < before, ~IS_PLANNED)
        .order_by(WINDOW_CHUNKS.c.recorded_at, *key)
        .limit(limit)
    )
    rows = connection.execute(wanted).all()
    # By name: two of these at once lock the rows in the same order.
    for user, window_id in sorted((row.user_id, row.window_id) for row in rows):
        binds = {"b_tenant": tenant, "b_user": user}
        for table in (WINDOW_CHUNKS, EXTRACTIONS):
            connection.execute(delete(table).where(of_user(table), table.c.window_id == window_id), binds)
        cleared = update(WINDOWS).where(of_user(WINDOWS), WINDOWS.c.window_id == window_id).values(guidance=None)
        connection.execute(cleared, binds)
    return len(rows)
