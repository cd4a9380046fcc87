"""What the sweeper asks of the window ledger over all users: who is due, who is idle, whose text is too old."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, delete, exists, func, literal, literal_column, or_, select, tuple_, update

from memory.model.scope import Scope
from memory.model.window import WindowKind, WindowTrigger
from memory.ports import DueUser, Progress
from memory.stores.tables.rows import EVENTS, TURNS, USER_COUNTERS
from memory.stores.tables.rows_window import EXTRACTIONS, WINDOW_CHUNKS, WINDOWS
from memory.stores.tables.statements import IS_PENDING, of_user
from memory.stores.tables.window_rows import (
    HAS_WAITING,
    IS_FLUSHED,
    IS_PLANNED,
    LOCKED_COUNTERS,
    NOT_FLUSHED,
    due_user,
    progress_of,
    user_binds,
)

_C = USER_COUNTERS.c
_USERS_IN_ONE_EXPIRY = 200


# ------------------------------------------------------------------------------------------------------------------ flush


def flush(connection: Connection, scope: Scope) -> Progress:
    asked = (
        update(USER_COUNTERS)
        .where(of_user(USER_COUNTERS))
        .values(flush_seq=_C.last_seq, flush_cause=WindowTrigger.FLUSH.value)
        .returning(USER_COUNTERS)
    )
    return progress_of(connection.execute(asked, user_binds(scope)).one_or_none())


def flush_idle(connection: Connection, idle_since: datetime, limit: int) -> Sequence[DueUser]:
    idle = (HAS_WAITING, NOT_FLUSHED, _C.last_event_at < idle_since)
    wanted = (
        select(_C.tenant, _C.user_id)
        .where(*idle)
        .order_by(_C.last_event_at)
        .limit(limit)
        # Another sweeper's users are not waited for.
        .with_for_update(skip_locked=True)
    )
    # Who asked for it in words keeps that as the reason.
    cause = case((and_(IS_FLUSHED, _C.flush_cause == WindowTrigger.FLUSH.value), _C.flush_cause), else_=WindowTrigger.IDLE.value)
    asked = (
        update(USER_COUNTERS)
        .where(tuple_(_C.tenant, _C.user_id).in_(wanted), *idle)
        .values(flush_seq=_C.last_seq, flush_cause=cause)
        .returning(_C.tenant, _C.user_id, _C.waiting, _C.last_event_at)
    )
    rows = sorted(connection.execute(asked).all(), key=lambda row: (row.last_event_at, row.tenant, row.user_id))
    return [due_user(row, WindowTrigger.IDLE.value) for row in rows]


# -------------------------------------------------------------------------------------------------------------------- due

_OLDEST = EVENTS.alias("oldest")
_SINCE = func.coalesce(_OLDEST.c.recorded_at, _C.last_event_at)
_TO_OLDEST = USER_COUNTERS.outerjoin(
    _OLDEST,
    and_(_OLDEST.c.tenant == _C.tenant, _OLDEST.c.user_id == _C.user_id, _OLDEST.c.seq == _C.consolidated_seq + 1),
)
_BY_NUMBERS = (
    select(_C.tenant, _C.user_id, _C.waiting, _C.flush_cause, _SINCE.label("since"))
    .select_from(_TO_OLDEST)
    .order_by(literal_column("since"), _C.tenant, _C.user_id)
    .limit(bindparam("b_limit"))
)
DUE_BY_FLUSH = _BY_NUMBERS.where(IS_FLUSHED)
DUE_BY_SIZE = _BY_NUMBERS.where(HAS_WAITING, _C.waiting >= bindparam("b_size"))
_OPEN = (
    select(
        WINDOWS.c.tenant,
        WINDOWS.c.user_id,
        func.min(WINDOWS.c.planned_at).label("since"),
        func.min(WINDOWS.c.attempt).label("attempt"),
    )
    .where(IS_PLANNED)
    .group_by(WINDOWS.c.tenant, WINDOWS.c.user_id)
    .order_by(literal_column("since"), WINDOWS.c.tenant, WINDOWS.c.user_id)
    .limit(bindparam("b_limit"))
    .subquery("open")
)
DUE_BY_WINDOW = select(_OPEN, _C.waiting).select_from(
    _OPEN.outerjoin(USER_COUNTERS, and_(_C.tenant == _OPEN.c.tenant, _C.user_id == _OPEN.c.user_id))
)


def due(connection: Connection, size: int, limit: int) -> Sequence[DueUser]:
    """Longest waiting first. Who is due for several reasons is named once, with the first of: window in work, flush, size."""
    found: dict[tuple[str, str], tuple[datetime, DueUser]] = {}

    def add(row: Any, reason: str) -> None:
        key = (row.tenant, row.user_id)
        since, user = found.get(key, (row.since, due_user(row, reason)))
        found[key] = (min(since, row.since), user)

    binds = {"b_limit": limit}
    for row in connection.execute(DUE_BY_WINDOW, binds):
        add(row, "reopened" if row.attempt else "planned")
    for row in connection.execute(DUE_BY_FLUSH, binds):
        add(row, WindowTrigger.IDLE.value if row.flush_cause == WindowTrigger.IDLE.value else WindowTrigger.FLUSH.value)
    for row in connection.execute(DUE_BY_SIZE, {**binds, "b_size": max(size, 1)}):
        add(row, WindowTrigger.SIZE.value)
    ordered = sorted(found.items(), key=lambda item: (item[1][0], item[0]))
    return [user for _, (_, user) in ordered[:limit]]


# ----------------------------------------------------------------------------------------------------------------- expiry

_TURN_PENDING = exists().where(
    TURNS.c.tenant == EVENTS.c.tenant, TURNS.c.user_id == EVENTS.c.user_id, TURNS.c.turn_key == EVENTS.c.turn_key, IS_PENDING
)
"""Its turn has not been through the post-answer pipeline yet, which needs the text."""


def expire(connection: Connection, tenant: str, before: datetime, limit: int) -> Sequence[tuple[Scope, Sequence[int]]]:
    """Text goes in the order of the log: events of windows, what was extracted from them, and chunks."""
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
    gone: list[tuple[Scope, Sequence[int]]] = []
    left = limit
    # By name: two of these at once lock the users in the same order.
    for user in sorted(connection.execute(users).scalars()):
        if left <= 0:
            break
        scope = Scope(tenant, user)
        seqs = _expire_user(connection, scope, before, left)
        left -= len(seqs)
        if seqs:
            gone.append((scope, seqs))
    _expire_chunks(connection, tenant, before, limit)
    return gone


def _expire_user(connection: Connection, scope: Scope, before: datetime, limit: int) -> list[int]:
    binds = user_binds(scope)
    counters = connection.execute(LOCKED_COUNTERS, binds).one()
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
    last, text_since = counters.expired_seq, None
    for row in connection.execute(wanted, binds):
        if row.seq > counters.consolidated_seq or row.recorded_at >= before or row.is_pending or len(seqs) == limit:
            text_since = row.recorded_at
            break
        last = row.seq
        if row.has_text:
            seqs.append(row.seq)
    if last == counters.expired_seq:
        return []
    old = (of_user(EVENTS), EVENTS.c.seq > counters.expired_seq, EVENTS.c.seq <= last)
    connection.execute(update(EVENTS).where(*old).values(content=None, payload=None), binds)
    moved = {"expired_seq": last, "text_since": text_since}
    connection.execute(update(USER_COUNTERS).where(of_user(USER_COUNTERS)).values(moved), binds)
    through = select(WINDOWS.c.window_id).where(
        of_user(WINDOWS), WINDOWS.c.kind == WindowKind.EVENTS.value, WINDOWS.c.last_seq <= last, ~IS_PLANNED
    )
    connection.execute(delete(EXTRACTIONS).where(of_user(EXTRACTIONS), EXTRACTIONS.c.window_id.in_(through)), binds)
    return seqs


def _expire_chunks(connection: Connection, tenant: str, before: datetime, limit: int) -> None:
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
    for user, window_id in connection.execute(wanted).all():
        binds = {"b_tenant": tenant, "b_user": user}
        for table in (WINDOW_CHUNKS, EXTRACTIONS):
            connection.execute(delete(table).where(of_user(table), table.c.window_id == window_id), binds)
        cleared = update(WINDOWS).where(of_user(WINDOWS), WINDOWS.c.window_id == window_id).values(guidance=None)
        connection.execute(cleared, binds)


# ------------------------------------------------------------------------------------------------------------------ users


def users(connection: Connection, after: Scope | None, limit: int, *, indexed: bool) -> Sequence[Scope]:
    """Users with events, by tenant and user; ``indexed``: with some that count as indexed."""
    statement = select(_C.tenant, _C.user_id).where((_C.indexed_seq if indexed else _C.last_seq) > 0)
    if after is not None:
        statement = statement.where(tuple_(_C.tenant, _C.user_id) > tuple_(literal(after.tenant), literal(after.user)))
    statement = statement.order_by(_C.tenant, _C.user_id).limit(limit)
    return [Scope(row.tenant, row.user_id) for row in connection.execute(statement)]
