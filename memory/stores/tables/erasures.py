"""Receipts of erasures, the mark that holds recording off, and the deletion of a user's rows.

Which tables hold something of a user is said here, in one place; a test holds it against all tables that there are.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, Table, bindparam, delete, func, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from memory.model.erasure import Erasure, ErasureState, user_hash
from memory.model.errors import InvalidInput
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.ports.service import ErasureLedger
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.rows import EVENTS, PREFERENCES, TURNS, USER_COUNTERS
from memory.stores.tables.rows_api import ERASED_USERS, ERASURES, NOTICES
from memory.stores.tables.rows_window import (
    EXTRACTIONS,
    MODEL_USAGE,
    TEAM_MEMBERS,
    TERM_FREQUENCIES,
    TERM_TOTALS,
    WINDOW_CHUNKS,
    WINDOWS,
)
from memory.stores.tables.scoping import RECORD_TABLES, Records, checked_limit, guard

BY_USER: Final[tuple[Table, ...]] = (
    # The turns first: what waits is not begun any more.
    TURNS,
    WINDOWS,
    WINDOW_CHUNKS,
    EXTRACTIONS,
    EVENTS,
    USER_COUNTERS,
    MODEL_USAGE,
    PREFERENCES,
    TEAM_MEMBERS,
    NOTICES,
)
"""By ``tenant`` and ``user_id``."""
BY_OWNER: Final[tuple[Table, ...]] = (*sorted(RECORD_TABLES, key=lambda table: table.name), TERM_FREQUENCIES, TERM_TOTALS)
"""By ``tenant`` and ``owner_key``; those of the records go through their guard."""
STAYS: Final[Mapping[str, str]] = {
    "erasures": "the receipt: counts, a hash in place of the user's id as soon as it is done",
    "erased_users": "what was handed over before and arrives late is known by it; a hash in place of the user's id",
}
"""Tables that are about a user and keep their rows, and why."""

BATCH: Final = 1_000
"""Rows that one transaction deletes: others who write are not kept waiting."""
CHECKPOINT_TRIES: Final = 3
"""Each waits for other writers and readers as a write does."""
CHECKPOINT_PAUSE_S: Final = 0.2
LAST_CHECKPOINT_S: Final = 30.0
"""At the end of an erasure readers are waited for so long."""
CHECKPOINT_S: Final = 30.0
MAX_VACUUM_BYTES: Final = 128 * 1024 * 1024
"""A SQLite file of this size is written anew in a few seconds, while nobody else writes; what is larger is left to its operator."""
VACUUM_S: Final = 120.0
MAX_WHO_CHARS: Final = 100
MAX_PROBLEM_CHARS: Final = 300
_NO_VACUUM: Final = "rows: copies in unused parts of SQLite's pages go with the next VACUUM; the file is too large to do it now"
_LOG_BUSY: Final = "rows: copies in the write-ahead log of SQLite go when its readers pause; somebody read without a pause"
_CHECKPOINT: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
_STEPS: Final = "steps"
"""Key in the counts: steps whose findings are counted and not (all) deleted yet."""
_IS: Final = (ERASURES.c.tenant == bindparam("b_tenant"), ERASURES.c.erasure_id == bindparam("b_id"))
_ONE: Final = select(ERASURES).where(*_IS)
_OPEN: Final = select(ERASURES).where(
    ERASURES.c.tenant == bindparam("b_tenant"), ERASURES.c.user_hash == bindparam("b_hash"), ERASURES.c.state != ErasureState.DONE
)


class SqlErasures(ErasureLedger):
    def __init__(self, database: Database) -> None:
        self._database = database
        marked: Any = (sqlite.insert if database.is_sqlite else postgresql.insert)(ERASED_USERS)
        values = {name: marked.excluded[name] for name in ("forgetting", "forgotten_before")}
        self._mark = marked.on_conflict_do_update(index_elements=["tenant", "user_hash"], set_=values)
        guard(database.engine)

    # ------------------------------------------------------------------------------------------------------------ receipts

    async def open(self, scope: Scope, *, erasure_id: str, requested_by: str, now: datetime) -> Erasure:
        moment = to_utc(now)
        key = {"tenant": scope.tenant, "user_hash": user_hash(scope)}
        wanted = {"b_tenant": scope.tenant, "b_hash": key["user_hash"]}
        row: dict[str, Any] = {
            **key,
            "erasure_id": erasure_id,
            "user_id": scope.user,
            "state": ErasureState.RUNNING.value,
            "requested_by": _who(requested_by, scope),
            "counts": {},
            "problems": [],
            "started_at": moment,
        }

        def work(connection: Connection) -> Erasure:
            there = connection.execute(_OPEN, wanted).one_or_none()
            if there is not None:
                return _erasure(there)
            connection.execute(self._mark, {**key, "forgetting": True, "forgotten_before": moment})
            connection.execute(insert(ERASURES), row)
            return _erasure(connection.execute(_ONE, {"b_tenant": scope.tenant, "b_id": erasure_id}).one())

        try:
            return await self._database.write(work)
        except InvalidInput:
            # Another one was opened in the same moment, or the id was used before.
            there = await self._database.read(lambda c: c.execute(_OPEN, wanted).one_or_none())
            if there is None:
                raise
            return _erasure(there)

    async def subject(self, tenant: str, erasure_id: str) -> Scope | None:
        row = await self._row(tenant, erasure_id)
        if row is None:
            raise InvalidInput("there is no such erasure in this company")
        return None if row.user_id is None else Scope(tenant, row.user_id)

    async def erasure(self, tenant: str, erasure_id: str) -> Erasure | None:
        row = await self._row(tenant, erasure_id)
        return None if row is None else _erasure(row)

    async def _row(self, tenant: str, erasure_id: str) -> Row[Any] | None:
        return await self._database.read(lambda c: c.execute(_ONE, {"b_tenant": tenant, "b_id": erasure_id}).one_or_none())

    async def of_user(self, scope: Scope, *, limit: int = 20) -> Sequence[Erasure]:
        wanted = (
            select(ERASURES)
            .where(ERASURES.c.tenant == scope.tenant, ERASURES.c.user_hash == user_hash(scope))
            .order_by(ERASURES.c.started_at.desc(), ERASURES.c.erasure_id)
            .limit(checked_limit(limit))
        )
        return await self._database.read(lambda c: [_erasure(row) for row in c.execute(wanted)])

    async def open_ones(self, *, limit: int = 100) -> Sequence[tuple[str, str]]:
        wanted = (
            select(ERASURES.c.tenant, ERASURES.c.erasure_id)
            .where(ERASURES.c.state != ErasureState.DONE)
            .order_by(ERASURES.c.started_at, ERASURES.c.tenant, ERASURES.c.erasure_id)
            .limit(checked_limit(limit))
        )
        return await self._database.read(lambda c: [(row.tenant, row.erasure_id) for row in c.execute(wanted)])

    async def oldest_open(self) -> datetime | None:
        wanted = select(func.min(ERASURES.c.started_at)).where(ERASURES.c.state != ErasureState.DONE)
        return await self._database.read(lambda c: c.execute(wanted).scalar_one())

    async def add_counts(self, tenant: str, erasure_id: str, counts: Mapping[str, int], *, step: str) -> None:
        await self._database.write(lambda c: _count(c, tenant, erasure_id, counts, step=step))

    async def note(self, tenant: str, erasure_id: str, what: str, problem: str | None) -> None:
        def work(connection: Connection) -> None:
            row = _locked(connection, tenant, erasure_id)
            others = [line for line in row.problems if not line.startswith(f"{what}: ")]
            said = others if problem is None else [*others, f"{what}: {_without_id(problem, row.user_id)[:MAX_PROBLEM_CHARS]}"]
            steps = list(row.counts.get(_STEPS, ()))
            through = {} if problem is not None or what not in steps else {_STEPS: [one for one in steps if one != what]}
            if said != row.problems or through:
                _change(connection, tenant, erasure_id, problems=said, counts={**row.counts, **through})

        await self._database.write(work)

    async def erased(self, tenant: str, erasure_id: str, *, now: datetime) -> Erasure:
        moment = to_utc(now)

        def work(connection: Connection) -> Erasure:
            row = _locked(connection, tenant, erasure_id)
            if row.state == ErasureState.RUNNING:
                row = _change(connection, tenant, erasure_id, state=ErasureState.ERASED.value, erased_at=moment)
            return _erasure(row)

        return await self._database.write(work)

    async def done(self, tenant: str, erasure_id: str, *, problems: Sequence[str], now: datetime) -> Erasure:
        moment = to_utc(now)
        too_large = self._database.is_sqlite and await self._size() > MAX_VACUUM_BYTES
        said = [problem[:MAX_PROBLEM_CHARS] for problem in (*problems, *([_NO_VACUUM] if too_large else []))]

        def forget_id(connection: Connection) -> Row[Any]:
            row = _locked(connection, tenant, erasure_id)
            if row.user_id is None:
                return row
            counts = {name: count for name, count in row.counts.items() if name != _STEPS}
            return _change(connection, tenant, erasure_id, user_id=None, counts=counts, problems=said)

        def end(connection: Connection) -> Erasure:
            row = _locked(connection, tenant, erasure_id)
            if row.state != ErasureState.DONE:
                mark = {"tenant": tenant, "user_hash": row.user_hash, "forgetting": False, "forgotten_before": moment}
                connection.execute(self._mark, mark)
                ended = {"erased_at": row.erased_at or moment, "finished_at": moment, "problems": said}
                row = _change(connection, tenant, erasure_id, state=ErasureState.DONE.value, **ended)
            return _erasure(row)

        row = await self._database.write(forget_id)
        if row.state != ErasureState.DONE:
            await self._empty_log(within_s=LAST_CHECKPOINT_S)
            if self._database.is_sqlite and not too_large:
                # A page that was split keeps copies of the rows that moved in its unused part, out of reach of their deletion.
                await self._database.upkeep(lambda c: c.exec_driver_sql("VACUUM"), timeout_s=VACUUM_S)
            if not await self._empty_log(within_s=LAST_CHECKPOINT_S):
                said.append(_LOG_BUSY)
        return await self._database.write(end)

    # ---------------------------------------------------------------------------------------------------------------- rows

    async def erase_rows(self, scope: Scope, *, erasure_id: str | None = None) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for table in (*BY_USER, *BY_OWNER):
            more = True
            while more:
                deleted, more = await self._database.write(lambda c, one=table: _delete_some(c, scope, one, erasure_id))
                if deleted:
                    found[table.name] = found.get(table.name, 0) + deleted
        await self._empty_log()
        return found

    async def _empty_log(self, *, within_s: float = 0.0) -> bool:
        """The write-ahead log of SQLite still holds the pages as they were. It is emptied between what others do.

        Args:
            within_s: tries again for so long where they leave no gap.

        Returns whether it is empty.
        """
        if not self._database.is_sqlite:
            return True
        end = time.monotonic() + within_s
        tries = 0
        while True:
            busy, *_ = await self._database.upkeep(lambda c: c.exec_driver_sql(_CHECKPOINT).one(), timeout_s=CHECKPOINT_S)
            tries += 1
            if not busy:
                return True
            if tries >= CHECKPOINT_TRIES and time.monotonic() >= end:
                return False
            await asyncio.sleep(CHECKPOINT_PAUSE_S)

    async def _size(self) -> int:
        """Of the SQLite file, bytes."""

        def work(connection: Connection) -> int:
            pages, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "page_size"))
            return pages * size

        return await self._database.read(work)


def _delete_some(connection: Connection, scope: Scope, table: Table, erasure_id: str | None) -> tuple[int, bool]:
    """The first rows by key. Returns how many, and whether there are more."""
    if table in RECORD_TABLES:
        deleted, more = _delete_records(Records(connection, Owner.user(scope)), table)
    else:
        whose = table.c.user_id == scope.user if "user_id" in table.c else table.c.owner_key == Owner.user(scope).key
        mine = (table.c.tenant == scope.tenant, whose)
        key = _key(table)
        last = connection.execute(select(*key).where(*mine).order_by(*key).offset(BATCH - 1).limit(1)).one_or_none()
        upto = () if last is None else (tuple_(*key) <= tuple_(*last),)
        deleted, more = connection.execute(delete(table).where(*mine, *upto)).rowcount, last is not None
    if deleted and erasure_id is not None:
        _count(connection, scope.tenant, erasure_id, {f"rows.{table.name}": deleted}, step=None)
    return deleted, more


def _delete_records(records: Records, table: Table) -> tuple[int, bool]:
    key = [column for column in table.primary_key if column.name not in ("tenant", "owner_key")]
    if not key:
        return records.delete(table), False
    some = records.rows(select(*key).order_by(*key).offset(BATCH - 1).limit(1))
    upto = (tuple_(*key) <= tuple_(*some[0]),) if some else ()
    return records.delete(table, *upto), bool(some)


def _key(table: Table) -> list[Any]:
    rest = [column for column in table.primary_key if column.name not in ("tenant", "user_id", "owner_key")]
    return rest or list(table.primary_key)


# ------------------------------------------------------------------------------------------------------------------ receipts


def _locked(connection: Connection, tenant: str, erasure_id: str) -> Row[Any]:
    row = connection.execute(_ONE.with_for_update(), {"b_tenant": tenant, "b_id": erasure_id}).one_or_none()
    if row is None:
        raise InvalidInput("there is no such erasure in this company")
    return row


def _change(connection: Connection, tenant: str, erasure_id: str, **values: Any) -> Row[Any]:
    statement = update(ERASURES).where(*_IS).values(values).returning(ERASURES)
    return connection.execute(statement, {"b_tenant": tenant, "b_id": erasure_id}).one()


def _count(connection: Connection, tenant: str, erasure_id: str, counts: Mapping[str, int], *, step: str | None) -> None:
    """``step`` None: the caller deletes in this transaction, so it counts once by itself."""
    held = dict(_locked(connection, tenant, erasure_id).counts)
    steps: list[str] = list(held.get(_STEPS, ()))
    if step in steps:
        return
    for name, count in counts.items():
        if count:
            held[name] = held.get(name, 0) + count
    if step is not None:
        held[_STEPS] = [*steps, step]
    _change(connection, tenant, erasure_id, counts=held)


def _who(requested_by: str, scope: Scope) -> str:
    said = clean_text(requested_by).strip()[:MAX_WHO_CHARS]
    return said if said and scope.user not in said and scope.user_id not in said else "user"


def _without_id(problem: str, user: str | None) -> str:
    """A receipt stays when its user's id goes."""
    return problem if user is None else re.sub(rf"(?<![\w-]){re.escape(user)}(?![\w-])", "…", problem)


def _erasure(row: Row[Any]) -> Erasure:
    return Erasure(
        erasure_id=row.erasure_id,
        tenant=row.tenant,
        state=ErasureState(row.state),
        requested_by=row.requested_by,
        started_at=row.started_at,
        erased_at=row.erased_at,
        finished_at=row.finished_at,
        counts={name: count for name, count in sorted(row.counts.items()) if name != _STEPS},
        problems=tuple(row.problems),
    )
