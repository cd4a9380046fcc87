"""What the sweeper asks of the window ledger over all users: who is due, who is idle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, literal, literal_column, select, tuple_, update

from memory.model.scope import Scope
from memory.model.window import WindowTrigger
from memory.ports import DueUser, Progress
from memory.stores.tables.rows import EVENTS, USER_COUNTERS
from memory.stores.tables.rows_window import WINDOWS
from memory.stores.tables.statements import of_user
from memory.stores.tables.window_rows import (
    HAS_WAITING,
    IS_FLUSHED,
    IS_PLANNED,
    IS_UNHAPPY,
    NOT_FLUSHED,
    due_user,
    progress_of,
    user_binds,
)

_C = USER_COUNTERS.c


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
        # As a subquery PostgreSQL may run it once per row, and each time it would find, and lock, users that are left.
        .cte("wanted")
    )
    # Who asked for it in words keeps that as the reason.
    cause = case((and_(IS_FLUSHED, _C.flush_cause == WindowTrigger.FLUSH.value), _C.flush_cause), else_=WindowTrigger.IDLE.value)
    asked = (
        update(USER_COUNTERS)
        .where(tuple_(_C.tenant, _C.user_id).in_(select(wanted.c.tenant, wanted.c.user_id)), *idle)
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


# ----------------------------------------------------------------------------------------------------------------- failed

FAILED = select(func.count()).select_from(
    select(literal(1)).select_from(WINDOWS).where(IS_UNHAPPY).limit(bindparam("b_limit")).subquery("some")
)


def failed(connection: Connection, limit: int) -> int:
    return connection.execute(FAILED, {"b_limit": limit}).scalar_one()


# ------------------------------------------------------------------------------------------------------------------ users


def users(connection: Connection, after: Scope | None, limit: int, *, indexed: bool) -> Sequence[Scope]:
    """Users with events, by tenant and user; ``indexed``: with some that count as indexed."""
    statement = select(_C.tenant, _C.user_id).where((_C.indexed_seq if indexed else _C.last_seq) > 0)
    if after is not None:
        statement = statement.where(tuple_(_C.tenant, _C.user_id) > tuple_(literal(after.tenant), literal(after.user)))
    statement = statement.order_by(_C.tenant, _C.user_id).limit(limit)
    return [Scope(row.tenant, row.user_id) for row in connection.execute(statement)]
