"""The event window's ledger in SQL: windows, chunks, extractions and the watermark.

Whatever moves a user's numbers first locks the row with the counters, so two workers at once do it one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from memory.model.category import Category
from memory.model.errors import InvalidInput
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.ids import encode_segment
from memory.model.scope import Scope
from memory.model.window import Extraction, StoredEvent, Window, WindowKind, WindowState, WindowTrigger
from memory.ports import DueUser, Expirable, NextEvents, Progress, WindowLedger, WindowPlace, WindowResult
from memory.stores.tables import expiry, window_index, window_sweep
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.event_rows import chunk_events, chunk_json, clean_json, event_rows, stored_events
from memory.stores.tables.forgetting import refuse_while_forgetting
from memory.stores.tables.rows import USER_COUNTERS
from memory.stores.tables.rows_window import EXTRACTIONS, WINDOW_CHUNKS, WINDOWS
from memory.stores.tables.statements import COUNTERS, of_user
from memory.stores.tables.window_rows import (
    EVENTS_BETWEEN,
    EVENTS_BY_SEQ,
    IS_PLANNED,
    LOCKED_COUNTERS,
    NEXT,
    ONE_WINDOW,
    ended_values,
    progress_of,
    reopenable,
    reopened_values,
    user_binds,
    window_of,
    window_row,
)

MAX_SEQS = 5_000
"""At most this many events by number in one call."""
MAX_WINDOW_IDS = 1_000
MAX_CHUNK_BYTES = 8 * 1024 * 1024
"""Of a chunk's events as JSON."""
_BATCH = 500


class SqlWindows(WindowLedger):
    def __init__(self, database: Database) -> None:
        self._database = database
        upsert: Any = sqlite.insert if database.is_sqlite else postgresql.insert
        extraction = upsert(EXTRACTIONS)
        self._first_extraction = extraction.on_conflict_do_nothing()
        self._save_extraction = extraction.on_conflict_do_update(
            index_elements=["tenant", "user_id", "window_id", "attempt"], set_={"body": extraction.excluded.body}
        )
        self._open_window = upsert(WINDOWS).on_conflict_do_nothing().returning(WINDOWS.c.window_id)

    # -------------------------------------------------------------------------------------------------------------- events

    async def progress(self, scope: Scope) -> Progress:
        return await self._database.read(lambda c: progress_of(c.execute(COUNTERS, user_binds(scope)).one_or_none()))

    async def events(self, scope: Scope, first_seq: int, last_seq: int) -> Sequence[StoredEvent]:
        if last_seq - first_seq >= MAX_SEQS:
            raise InvalidInput(f"{last_seq - first_seq + 1} events in one call; at most {MAX_SEQS} are given")
        binds = {**user_binds(scope), "b_first": first_seq, "b_last": last_seq}
        return await self._database.read(lambda c: stored_events(c.execute(EVENTS_BETWEEN, binds).mappings()))

    async def events_by_seq(self, scope: Scope, seqs: Collection[int]) -> Sequence[StoredEvent]:
        wanted = sorted(set(seqs))
        if len(wanted) > MAX_SEQS:
            raise InvalidInput(f"{len(wanted)} events in one call; at most {MAX_SEQS} are given")

        def work(connection: Connection) -> list[StoredEvent]:
            found: list[StoredEvent] = []
            for start in range(0, len(wanted), _BATCH):
                binds = {**user_binds(scope), "b_seqs": wanted[start : start + _BATCH]}
                found += stored_events(connection.execute(EVENTS_BY_SEQ, binds).mappings())
            return found

        return await self._database.read(work) if wanted else []

    async def window_events(self, window: Window) -> Sequence[StoredEvent]:
        if window.kind is WindowKind.EVENTS:
            return await self.events(window.scope, window.first_seq, window.last_seq)
        chunk = select(WINDOW_CHUNKS).where(of_user(WINDOW_CHUNKS), WINDOW_CHUNKS.c.window_id == window.window_id)
        row = await self._database.read(lambda c: c.execute(chunk, user_binds(window.scope)).one_or_none())
        return [] if row is None else chunk_events(row.events, row.recorded_at)

    # ------------------------------------------------------------------------------------------------------------- windows

    async def next(self, scope: Scope, *, size: int, now: datetime) -> NextEvents | None:
        row = await self._database.read(lambda c: c.execute(NEXT, user_binds(scope)).mappings().one())
        if row["window_id"] is not None:
            return NextEvents(window=window_of(row))
        if row["c_last_seq"] is None:
            return None
        last, done, flush = row["c_last_seq"], row["c_consolidated_seq"], row["c_flush_seq"]
        if last - done >= size:
            return NextEvents(first_seq=done + 1, last_seq=done + size, trigger=WindowTrigger.SIZE)
        if flush > done:
            trigger = WindowTrigger.IDLE if row["c_flush_cause"] == WindowTrigger.IDLE.value else WindowTrigger.FLUSH
            return NextEvents(first_seq=done + 1, last_seq=flush, trigger=trigger)
        return None

    async def plan(self, window: Window) -> Window:
        if window.kind is not WindowKind.EVENTS or window.state is not WindowState.PLANNED:
            raise InvalidInput("only a window of events that has not ended can be planned")
        row = window_row(window)
        binds = user_binds(window.scope)

        def work(connection: Connection) -> Window:
            counters = connection.execute(LOCKED_COUNTERS, binds).one_or_none()
            there = connection.execute(ONE_WINDOW, {**binds, "b_window": window.window_id}).mappings().one_or_none()
            if there is not None:
                return window_of(there)
            done, last = (counters.consolidated_seq, counters.last_seq) if counters is not None else (0, 0)
            if window.first_seq != done + 1 or not window.first_seq <= window.last_seq <= last:
                raise InvalidInput(
                    f"the window {window.window_id} ({window.first_seq} to {window.last_seq}) does not begin right after the "
                    f"watermark {done} or goes beyond the last event {last}"
                )
            another = select(WINDOWS.c.window_id).where(of_user(WINDOWS), IS_PLANNED, WINDOWS.c.last_seq > done)
            another = another.where(WINDOWS.c.kind == WindowKind.EVENTS.value).limit(1)
            open_window = connection.execute(another, binds).scalar_one_or_none()
            if open_window is not None:
                raise InvalidInput(f"the window {open_window} holds these events and has not ended")
            connection.execute(insert(WINDOWS), row)
            return window

        return await self._database.write(work)

    async def replan(self, window: Window) -> Window:
        row = window_row(window)
        binds = {**user_binds(window.scope), "b_window": window.window_id}
        changed = {name: row[name] for name in ("categories", "spaces_off", "reason", "model")}

        def work(connection: Connection) -> Window:
            found = connection.execute(ONE_WINDOW.with_for_update(), binds).mappings().one_or_none()
            if found is None:
                raise InvalidInput(f"this user has no window {ascii(window.window_id)[:60]}")
            there = window_of(found)
            if there.state is not WindowState.PLANNED or there.attempt != window.attempt:
                return there
            mine = (of_user(WINDOWS), WINDOWS.c.window_id == window.window_id)
            connection.execute(update(WINDOWS).where(*mine).values(changed), binds)
            old = (of_user(EXTRACTIONS), EXTRACTIONS.c.window_id == window.window_id, EXTRACTIONS.c.attempt == window.attempt)
            connection.execute(delete(EXTRACTIONS).where(*old), binds)
            return window_of(connection.execute(ONE_WINDOW, binds).mappings().one())

        return await self._database.write(work)

    async def window(self, scope: Scope, window_id: str) -> Window | None:
        binds = {**user_binds(scope), "b_window": window_id}
        row = await self._database.read(lambda c: c.execute(ONE_WINDOW, binds).mappings().one_or_none())
        return None if row is None else window_of(row)

    async def windows(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        states: Collection[WindowState] | None = None,
        after: WindowPlace | None = None,
        limit: int = 100,
    ) -> Sequence[Window]:
        wanted = _filtered(select(WINDOWS), tenant, scope)
        if after is not None:
            wanted = wanted.where(_behind(after))
        if states is not None:
            wanted = wanted.where(WINDOWS.c.state.in_(sorted(state.value for state in states)))
        wanted = wanted.order_by(
            WINDOWS.c.planned_at.desc(), WINDOWS.c.tenant, WINDOWS.c.user_id, WINDOWS.c.first_seq.desc(), WINDOWS.c.window_id
        ).limit(checked(limit))
        return await self._database.read(lambda c: [window_of(row) for row in c.execute(wanted).mappings()])

    async def save_extraction(self, scope: Scope, extraction: Extraction, *, replaces: bool = True) -> Extraction:
        row = {
            "tenant": scope.tenant,
            "user_id": scope.user,
            "window_id": extraction.window_id,
            "attempt": extraction.attempt,
            "body": clean_json(extraction.model_dump()),
        }
        there = select(EXTRACTIONS.c.body).where(
            of_user(EXTRACTIONS), EXTRACTIONS.c.window_id == extraction.window_id, EXTRACTIONS.c.attempt == extraction.attempt
        )

        def work(connection: Connection) -> Extraction:
            refuse_while_forgetting(connection, scope)
            if replaces:
                connection.execute(self._save_extraction, row)
                return extraction
            if connection.execute(self._first_extraction, row).rowcount == 1:
                return extraction
            return Extraction.model_validate(connection.execute(there, user_binds(scope)).scalar_one())

        return await self._database.write(work)

    async def extraction(self, scope: Scope, window_id: str, attempt: int | None = None) -> Extraction | None:
        wanted = select(EXTRACTIONS.c.body).where(of_user(EXTRACTIONS), EXTRACTIONS.c.window_id == window_id)
        if attempt is not None:
            wanted = wanted.where(EXTRACTIONS.c.attempt == attempt)
        wanted = wanted.order_by(EXTRACTIONS.c.attempt.desc()).limit(1)
        body = await self._database.read(lambda c: c.execute(wanted, user_binds(scope)).scalar_one_or_none())
        return None if body is None else Extraction.model_validate(body)

    async def commit(self, scope: Scope, window_id: str, attempt: int, result: WindowResult, *, now: datetime) -> bool:
        if result.state is WindowState.PLANNED:
            raise InvalidInput("a window ends as done, partial, failed or skipped")
        finished_at = to_utc(now)
        binds = user_binds(scope)

        def work(connection: Connection) -> bool:
            counters = connection.execute(LOCKED_COUNTERS, binds).one_or_none()
            row = connection.execute(ONE_WINDOW.with_for_update(), {**binds, "b_window": window_id}).mappings().one_or_none()
            if row is None:
                raise InvalidInput(f"this user has no window {ascii(window_id)[:60]}")
            window = window_of(row)
            if window.attempt != attempt or window.state is not WindowState.PLANNED:
                return False
            if window.kind is WindowKind.EVENTS:
                done = counters.consolidated_seq if counters is not None else 0
                if window.first_seq == done + 1:
                    moved = {"consolidated_seq": window.last_seq, "waiting": USER_COUNTERS.c.last_seq - window.last_seq}
                    connection.execute(update(USER_COUNTERS).where(of_user(USER_COUNTERS)).values(moved), binds)
                elif window.last_seq > done:
                    raise InvalidInput(f"the window {window_id} does not begin right after the watermark {done}")
            values = ended_values(result, window) | {"finished_at": finished_at}
            mine = (of_user(WINDOWS), WINDOWS.c.window_id == window_id)
            connection.execute(update(WINDOWS).where(*mine).values(values), binds)
            return True

        return await self._database.write(work)

    async def reopen(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        window_ids: Sequence[str] | None = None,
        states: Collection[WindowState] = (WindowState.FAILED, WindowState.PARTIAL),
        max_attempt: int | None = None,
        ended_before: datetime | None = None,
        limit: int = 100,
    ) -> Sequence[Window]:
        if not states or WindowState.PLANNED in states:
            raise InvalidInput("windows that ended (done, partial, failed or skipped) can be run again")
        if window_ids is not None and scope is None:
            raise InvalidInput("window ids belong to a user: say which")
        if window_ids is not None and len(window_ids) > MAX_WINDOW_IDS:
            raise InvalidInput(f"{len(window_ids)} window ids in one call; at most {MAX_WINDOW_IDS} are accepted")
        wanted = _filtered(select(WINDOWS), tenant, scope).where(reopenable(states))
        if window_ids is not None:
            wanted = wanted.where(WINDOWS.c.window_id.in_(list(window_ids)))
        if max_attempt is not None:
            wanted = wanted.where(WINDOWS.c.attempt < max_attempt)
        if ended_before is not None:
            wanted = wanted.where(WINDOWS.c.finished_at < to_utc(ended_before))
        # In one order for everyone; of two operators at once, the second finds nothing left to reopen.
        order = (WINDOWS.c.finished_at, WINDOWS.c.tenant, WINDOWS.c.user_id, WINDOWS.c.first_seq, WINDOWS.c.window_id)
        wanted = wanted.order_by(*order).limit(checked(limit)).with_for_update()

        def work(connection: Connection) -> list[Window]:
            reopened: list[Window] = []
            for row in connection.execute(wanted).mappings().all():
                window = window_of(row)
                binds = user_binds(window.scope)
                mine = (of_user(WINDOWS), WINDOWS.c.window_id == window.window_id)
                connection.execute(update(WINDOWS).where(*mine).values(reopened_values(window)), binds)
                now_is = connection.execute(ONE_WINDOW, {**binds, "b_window": window.window_id}).mappings().one()
                reopened.append(window_of(now_is))
            return reopened

        return await self._database.write(work)

    # -------------------------------------------------------------------------------------------------------------- chunks

    async def open_chunk(
        self,
        scope: Scope,
        events: Sequence[MessageEvent | ManagerMethodEvent],
        *,
        chunk_id: str,
        categories: Collection[Category],
        guidance: str | None,
        model: str | None,
        now: datetime,
        space_id: str = "default",
    ) -> Window:
        encode_segment(space_id, what="space id")
        if not chunk_id.startswith("chunk-") or not chunk_id.isascii():
            raise InvalidInput("the id of a chunk is ASCII and begins with chunk-")
        moment = to_utc(now)
        kept = chunk_json(event_rows(events), space_id)
        size = len(json.dumps(kept))
        if size > MAX_CHUNK_BYTES:
            raise InvalidInput(f"the chunk has {size} bytes of JSON; at most {MAX_CHUNK_BYTES} are accepted")
        window = Window(
            scope=scope,
            window_id=chunk_id,
            kind=WindowKind.CHUNK,
            trigger=WindowTrigger.CHUNK,
            first_seq=1,
            last_seq=len(kept),
            events=len(kept),
            categories=tuple(categories),
            guidance=guidance,
            model=model,
            planned_at=moment,
        )
        key = {"tenant": scope.tenant, "user_id": scope.user, "window_id": chunk_id}
        row = window_row(window)

        def work(connection: Connection) -> Window:
            refuse_while_forgetting(connection, scope)
            if connection.execute(self._open_window, row).one_or_none() is not None:
                connection.execute(insert(WINDOW_CHUNKS), {**key, "events": kept, "recorded_at": moment})
            there = connection.execute(ONE_WINDOW, {**user_binds(scope), "b_window": chunk_id}).mappings().one()
            return window_of(there)

        return await self._database.write(work)

    # --------------------------------------------------------------------------------------------- what is due, index, expiry

    async def flush(self, scope: Scope, *, now: datetime) -> Progress:
        return await self._database.write(lambda c: window_sweep.flush(c, scope))

    async def flush_idle(self, *, idle_since: datetime, limit: int) -> Sequence[DueUser]:
        moment, most = to_utc(idle_since), checked(limit)
        return await self._database.write(lambda c: window_sweep.flush_idle(c, moment, most))

    async def due(self, *, size: int, limit: int) -> Sequence[DueUser]:
        most = checked(limit)
        return await self._database.read(lambda c: window_sweep.due(c, size, most))

    async def failed(self, *, limit: int) -> int:
        most = checked(limit)
        return await self._database.read(lambda c: window_sweep.failed(c, most))

    async def expirable_events(self, tenant: str, *, before: datetime, limit: int) -> Sequence[Expirable]:
        moment, most = to_utc(before), checked(limit)
        return await self._database.read(lambda c: expiry.expirable(c, tenant, moment, most))

    async def expire_events(self, due: Expirable, *, document_frequencies: Mapping[int, int], length: int) -> bool:
        return await self._database.write(lambda c: expiry.expire(c, due, document_frequencies, length))

    async def expire_chunks(self, tenant: str, *, before: datetime, limit: int) -> int:
        moment, most = to_utc(before), checked(limit)
        return await self._database.write(lambda c: expiry.expire_chunks(c, tenant, moment, most))

    async def advance_index(
        self, scope: Scope, *, from_seq: int, to_seq: int, document_frequencies: Mapping[int, int], length: int
    ) -> bool:
        return await self._database.write(
            lambda c: window_index.advance_index(c, scope, from_seq, to_seq, document_frequencies, length)
        )

    async def advance_embedded(self, scope: Scope, *, from_seq: int, to_seq: int) -> bool:
        return await self._database.write(lambda c: window_index.advance(c, scope, "embedded_seq", from_seq, to_seq))

    async def reset_index(self, scope: Scope | None = None) -> int:
        return await self._database.write(lambda c: window_index.reset(c, scope))

    async def users(self, *, after: Scope | None = None, limit: int = 500) -> Sequence[Scope]:
        return await self._database.read(lambda c: window_sweep.users(c, after, checked(limit), indexed=False))

    async def indexed_users(self, *, after: Scope | None = None, limit: int = 500) -> Sequence[Scope]:
        return await self._database.read(lambda c: window_sweep.users(c, after, checked(limit), indexed=True))

    async def unindexed(self, *, embedded: bool, limit: int) -> Sequence[Scope]:
        most = checked(limit)
        return await self._database.read(lambda c: window_index.unindexed(c, embedded=embedded, limit=most))


def _filtered(statement: Any, tenant: str | None, scope: Scope | None) -> Any:
    if tenant is not None:
        statement = statement.where(WINDOWS.c.tenant == tenant)
    if scope is not None:
        statement = statement.where(WINDOWS.c.tenant == scope.tenant, WINDOWS.c.user_id == scope.user)
    return statement


def _behind(place: WindowPlace) -> ColumnElement[bool]:
    planned, first, name = WINDOWS.c.planned_at, WINDOWS.c.first_seq, WINDOWS.c.window_id
    at = to_utc(place.planned_at)
    same = and_(planned == at, or_(first < place.first_seq, and_(first == place.first_seq, name > place.window_id)))
    return or_(planned < at, same)


def checked(limit: int) -> int:
    if limit < 1:
        raise InvalidInput(f"the limit must be at least 1, not {limit}")
    return limit
