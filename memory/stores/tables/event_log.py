"""The event log and turn ledger in SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, literal_column, or_, select, tuple_, update

from memory import telemetry
from memory.model import metrics
from memory.model.directory import MemoryFacts
from memory.model.errors import InvalidInput
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.ids import decode_segment, encode_segment
from memory.model.scope import Scope
from memory.model.turn import Outcome, StoredTurn, Turn
from memory.ports import Backlog, EventLog, RecordedEvents, RecordedTurn, TurnResult, TurnSummary, Waiting
from memory.stores.tables.columns import to_utc
from memory.stores.tables.directory import read_facts
from memory.stores.tables.engine import Database
from memory.stores.tables.event_rows import driver_moment, event_rows, insert_events, sqlite_driver
from memory.stores.tables.rows import TURNS, USER_COUNTERS
from memory.stores.tables.statements import (
    BY_KEY,
    COUNTERS,
    FIND_TURN,
    FINISH,
    INSERT_EVENTS,
    IS_KEPT,
    IS_PENDING,
    IS_SKIPPED,
    KNOWN_EVENTS,
    PENDING,
    WAITING,
    writes,
)
from memory.stores.tables.turn_rows import finish_binds, outcome_of, stored_turn, turn_rows, turn_summary

_Select = TypeVar("_Select", bound=Select[*tuple[Any, ...]])

MAX_TURN_IDS = 1000
"""At most this many turn ids in one call."""


class _Numbers(NamedTuple):
    last_seq: int
    last_ordinal: int
    waiting: int


_NEW_COUNTERS = {column.name: cast("Any", column.default).arg for column in USER_COUNTERS.columns if column.default is not None}
"""What SQLAlchemy would fill in."""


class SqlEventLog(EventLog):
    """Turns and their messages in SQLite or PostgreSQL.

    When two callers record different texts under one turn id, the first one wins and the second is told ``duplicate``.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes = writes(database.engine.dialect.name)
        take: Any = self._writes.take_numbers
        self._take_numbers: Any = take.compile(dialect=database.engine.dialect)

    async def record_turn(
        self, scope: Scope, turn: Turn, *, now: datetime, allowed: Callable[[MemoryFacts], bool] | None = None
    ) -> RecordedTurn:
        moment = to_utc(now)
        turn_row, said_rows = turn_rows(scope, turn, moment)
        key = {"b_tenant": scope.tenant, "b_user": scope.user}
        taken = {**key, "b_turns": 1, "b_events": len(said_rows), "b_at": moment if said_rows else None}

        def work(connection: Connection) -> RecordedTurn:
            if allowed is not None:
                facts = read_facts(connection, scope, turn.space_id)
                if not allowed(facts):
                    return RecordedTurn(0, duplicate=False, outcome=None, refused_by=facts)
            numbers = self._take(connection, taken)
            seq = numbers.last_seq - len(said_rows)
            for event_row in said_rows:
                seq += 1
                event_row["seq"] = seq
                turn_row[f"{event_row['sender_id']}_seq"] = seq
            turn_row["ordinal"] = numbers.last_ordinal
            if connection.execute(self._writes.insert_turn, turn_row).one_or_none() is None:
                found = connection.execute(FIND_TURN, {**key, "b_key": turn_row["turn_key"]}).one()
                _give_back(connection)
                waiting = numbers.waiting - len(said_rows)
                return RecordedTurn(found.ordinal, duplicate=True, outcome=outcome_of(found.outcome), waiting=waiting)
            if said_rows:
                connection.execute(INSERT_EVENTS, said_rows)
            return RecordedTurn(numbers.last_ordinal, duplicate=False, outcome=None, waiting=numbers.waiting)

        return await self._database.write(work)

    async def record_events(
        self,
        scope: Scope,
        events: Sequence[MessageEvent | ManagerMethodEvent],
        *,
        space_id: str = "default",
        now: datetime,
        allowed: Callable[[MemoryFacts], bool] | None = None,
    ) -> RecordedEvents:
        moment = to_utc(now)
        encode_segment(space_id, what="space id")
        all_rows = event_rows(events)
        by_key: dict[str, dict[str, Any]] = {}
        for row in all_rows:
            by_key.setdefault(row["event_key"], row)
        rows = list(by_key.values())
        repeated, dropped = len(all_rows) - len(rows), len(events) - len(all_rows)
        key = {"b_tenant": scope.tenant, "b_user": scope.user}

        def work(connection: Connection, *, some_are_known: bool) -> RecordedEvents | None:
            """None: an event is there already, and nothing was written."""
            if allowed is not None:
                facts = read_facts(connection, scope, space_id)
                if not allowed(facts):
                    return RecordedEvents(0, 0, dropped, 0, 0, refused_by=facts)
            new = rows
            if some_are_known and rows:
                # Nobody else records for this user from here on.
                self._take(connection, {**key, "b_turns": 0, "b_events": 0, "b_at": None})
                known = set(connection.execute(KNOWN_EVENTS, {**key, "b_keys": list(by_key)}).scalars())
                new = [row for row in rows if row["event_key"] not in known]
            duplicates = repeated + len(rows) - len(new)
            if not new:
                found = connection.execute(COUNTERS, key).one_or_none()
                waiting, last_seq = (found.waiting, found.last_seq) if found is not None else (0, 0)
                return RecordedEvents(0, duplicates, dropped, waiting, last_seq)
            numbers = self._take(connection, {**key, "b_turns": 0, "b_events": len(new), "b_at": moment})
            first_seq = numbers.last_seq - len(new) + 1
            if not insert_events(connection, scope, new, first_seq=first_seq, space_id=space_id, now=moment):
                _give_back(connection)
                return None
            return RecordedEvents(len(new), duplicates, dropped, numbers.waiting, numbers.last_seq)

        # Most calls bring only new events: they are not looked up first.
        recorded = await self._database.write(lambda c: work(c, some_are_known=False))
        if recorded is None:
            recorded = await self._database.write(lambda c: work(c, some_are_known=True))
        assert recorded is not None  # noqa: S101 - with the user's row locked, what is new stays new
        return recorded

    def _take(self, connection: Connection, binds: dict[str, Any]) -> _Numbers:
        """Numbers for a user's turns and events; holds the user's row until commit."""
        if connection.dialect.name != "sqlite":
            return _Numbers(*connection.execute(self._writes.take_numbers, binds).one())
        # In the driver's own form: this statement is the better part of recording one event.
        compiled = self._take_numbers
        at = binds["b_at"]
        values = {**_NEW_COUNTERS, **binds, "b_at": None if at is None else driver_moment(at, is_sqlite=True)}
        row = sqlite_driver(connection).execute(compiled.string, [values[name] for name in compiled.positiontup]).fetchone()
        return _Numbers(*row)

    async def pending(self, scope: Scope, *, limit: int) -> Sequence[StoredTurn]:
        binds = {"b_tenant": scope.tenant, "b_user": scope.user, "b_limit": _checked(limit)}
        return await self._database.read(lambda c: [stored_turn(row) for row in c.execute(PENDING, binds).mappings()])

    async def turns(self, scope: Scope, turn_ids: Sequence[str]) -> Sequence[StoredTurn]:
        binds = {"b_tenant": scope.tenant, "b_user": scope.user, "b_keys": _keys(turn_ids)}
        return await self._database.read(lambda c: [stored_turn(row) for row in c.execute(BY_KEY, binds).mappings()])

    async def finish(self, scope: Scope, results: Sequence[TurnResult], *, now: datetime) -> int:
        finished_at = to_utc(now)
        # In one order for everyone, so that two writers cannot wait for each other.
        binds = sorted((finish_binds(scope, result, finished_at) for result in results), key=lambda bind: bind["b_key"])

        def work(connection: Connection) -> list[Row[Any, Any]]:
            return [row for bind in binds for row in connection.execute(FINISH, bind)]

        done = await self._database.write(work) if binds else []
        for row in done:
            if not row.attempt:
                telemetry.observe(metrics.FRESHNESS_LAG, (finished_at - row.recorded_at).total_seconds())
        return len(done)

    async def waiting(self, *, limit: int) -> Waiting:
        return await self._database.read(lambda c: Waiting(*c.execute(WAITING, {"b_limit": _checked(limit)}).one()))

    async def backlog(self, *, recorded_before: datetime, limit: int) -> Sequence[Backlog]:
        waiting = (
            select(
                TURNS.c.tenant,
                TURNS.c.user_id,
                func.count().label("pending"),
                func.min(TURNS.c.ordinal).label("first"),
                func.min(TURNS.c.recorded_at).label("oldest"),
            )
            .where(IS_PENDING)
            .group_by(TURNS.c.tenant, TURNS.c.user_id)
            .having(func.min(TURNS.c.recorded_at) < to_utc(recorded_before))
            .order_by(literal_column("oldest"), TURNS.c.tenant, TURNS.c.user_id)
            .limit(_checked(limit))
            .subquery("waiting")
        )
        found = (
            select(waiting, TURNS.c.turn_key, TURNS.c.turn_id_long)
            .join(
                TURNS,
                and_(
                    TURNS.c.tenant == waiting.c.tenant,
                    TURNS.c.user_id == waiting.c.user_id,
                    TURNS.c.ordinal == waiting.c.first,
                ),
            )
            .order_by(waiting.c.oldest, waiting.c.tenant, waiting.c.user_id)
        )
        return await self._database.read(
            lambda c: [
                Backlog(Scope(row.tenant, row.user_id), row.pending, row.turn_id_long or decode_segment(row.turn_key), row.oldest)
                for row in c.execute(found)
            ]
        )

    async def reopen(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        turn_ids: Sequence[str] | None = None,
        outcomes: Collection[Outcome] = (Outcome.KEPT,),
        limit: int = 1000,
    ) -> Sequence[TurnSummary]:
        key = (TURNS.c.tenant, TURNS.c.user_id, TURNS.c.ordinal)
        ended = _reopenable(outcomes)
        wanted = _filtered(select(*key), tenant, scope).where(ended)
        if turn_ids is not None:
            wanted = wanted.where(TURNS.c.turn_key.in_(_keys(turn_ids)))
        wanted = wanted.order_by(*key).limit(_checked(limit))
        # The outcome is asked for again outside: of two operators at once, the second finds nothing left to reopen.
        statement = (
            update(TURNS)
            .where(tuple_(*key).in_(wanted), ended)
            .values(
                state="pending",
                attempt=TURNS.c.attempt + 1,
                **dict.fromkeys(
                    (
                        "outcome",
                        "reason",
                        "flags",
                        "usage",
                        "durations_ms",
                        "model",
                        "profile_version",
                        "run_id",
                        "workflow_id",
                        "finished_at",
                    )
                ),
            )
            .returning(TURNS)
        )
        rows = await self._database.write(lambda c: c.execute(statement).mappings().all())
        return sorted((turn_summary(row) for row in rows), key=lambda s: (s.scope.tenant, s.scope.user, s.ordinal))

    async def summaries(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        outcome: Outcome | None = None,
        state: str | None = None,
        below: int | None = None,
        run_ids: Collection[str] | None = None,
        limit: int = 100,
    ) -> Sequence[TurnSummary]:
        statement = _filtered(select(TURNS), tenant, scope)
        if run_ids is not None:
            statement = statement.where(TURNS.c.run_id.in_(sorted(run_ids)))
        if outcome is not None:
            statement = statement.where(IS_KEPT if outcome is Outcome.KEPT else TURNS.c.outcome == outcome.value)
        if state is not None:
            statement = statement.where(IS_PENDING if state == "pending" else TURNS.c.state == state)
        if below is not None:
            statement = statement.where(TURNS.c.ordinal < below)
        if scope is not None:
            statement = statement.order_by(TURNS.c.ordinal.desc())
        else:
            statement = statement.order_by(TURNS.c.recorded_at.desc(), TURNS.c.tenant, TURNS.c.user_id, TURNS.c.ordinal.desc())
        statement = statement.limit(_checked(limit))
        return await self._database.read(lambda c: [turn_summary(row) for row in c.execute(statement).mappings()])

    async def ping(self) -> None:
        from memory.stores.migrations import check_version  # Alembic is slow to load, and only operators ask

        await self._database.read(lambda c: check_version(c, self._database.url))

    async def aclose(self) -> None:
        await self._database.aclose()


def _filtered(statement: _Select, tenant: str | None, scope: Scope | None) -> _Select:
    if tenant is not None:
        statement = statement.where(TURNS.c.tenant == tenant)
    if scope is not None:
        statement = statement.where(TURNS.c.tenant == scope.tenant, TURNS.c.user_id == scope.user)
    return statement


def _reopenable(outcomes: Collection[Outcome]) -> ColumnElement[bool]:
    if not outcomes or set(outcomes) - {Outcome.KEPT, Outcome.SKIPPED}:
        raise InvalidInput(f"turns with the outcome kept or skipped can be run again, not: {', '.join(sorted(outcomes)) or 'none'}")
    return or_(*(IS_KEPT if outcome is Outcome.KEPT else IS_SKIPPED for outcome in sorted(set(outcomes))))


def _give_back(connection: Connection) -> None:
    """Undo the numbers that a duplicate took."""
    transaction = connection.get_transaction()
    assert transaction is not None  # noqa: S101 - Database.write always begins one
    transaction.rollback()


def _keys(turn_ids: Sequence[str]) -> list[str]:
    if len(turn_ids) > MAX_TURN_IDS:
        raise InvalidInput(f"{len(turn_ids)} turn ids in one call; at most {MAX_TURN_IDS} are accepted")
    return [encode_segment(turn_id, what="turn id") for turn_id in turn_ids]


def _checked(limit: int) -> int:
    if limit < 1:
        raise InvalidInput(f"the limit must be at least 1, not {limit}")
    return limit
