"""The event log and turn ledger in SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal_column, or_, select, tuple_, update
from sqlalchemy.engine import RowMapping

from memory.model.directory import MemoryFacts
from memory.model.errors import InvalidInput
from memory.model.event import ASSISTANT_ID, USER_ID, clean_message, turn_messages
from memory.model.ids import decode_segment, encode_segment
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.model.turn import Outcome, StoredTurn, Turn
from memory.ports import Backlog, EventLog, RecordedTurn, TurnResult, TurnSummary
from memory.stores.tables.columns import to_utc
from memory.stores.tables.directory import read_facts
from memory.stores.tables.engine import Database
from memory.stores.tables.rows import TURNS
from memory.stores.tables.statements import (
    BY_KEY,
    FIND_TURN,
    FINISH,
    INSERT_EVENTS,
    IS_KEPT,
    IS_PENDING,
    IS_SKIPPED,
    PENDING,
    writes,
)

_Select = TypeVar("_Select", bound=Select[*tuple[Any, ...]])

MAX_TURN_IDS = 1000
"""At most this many turn ids in one call."""


class SqlEventLog(EventLog):
    """Turns and their messages in SQLite or PostgreSQL.

    When two callers record different texts under one turn id, the first one wins and the second is told ``duplicate``.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes = writes(database.engine.dialect.name)

    async def record_turn(
        self, scope: Scope, turn: Turn, *, now: datetime, allowed: Callable[[MemoryFacts], bool] | None = None
    ) -> RecordedTurn:
        turn_row, event_rows = _rows(scope, turn, to_utc(now))
        key = {"b_tenant": scope.tenant, "b_user": scope.user}

        def work(connection: Connection) -> RecordedTurn:
            if allowed is not None:
                facts = read_facts(connection, scope, turn.space_id)
                if not allowed(facts):
                    return RecordedTurn(0, duplicate=False, outcome=None, refused_by=facts)
            numbers = connection.execute(self._writes.take_numbers, {**key, "b_events": len(event_rows)}).one()
            seq = numbers.last_seq - len(event_rows)
            for event_row in event_rows:
                seq += 1
                event_row["seq"] = seq
                turn_row[f"{event_row['sender_id']}_seq"] = seq
            turn_row["ordinal"] = numbers.last_ordinal
            if connection.execute(self._writes.insert_turn, turn_row).one_or_none() is None:
                found = connection.execute(FIND_TURN, {**key, "b_key": turn_row["turn_key"]}).one()
                _give_back(connection)
                return RecordedTurn(found.ordinal, duplicate=True, outcome=_outcome(found.outcome))
            if event_rows:
                connection.execute(INSERT_EVENTS, event_rows)
            return RecordedTurn(numbers.last_ordinal, duplicate=False, outcome=None)

        return await self._database.write(work)

    async def pending(self, scope: Scope, *, limit: int) -> Sequence[StoredTurn]:
        binds = {"b_tenant": scope.tenant, "b_user": scope.user, "b_limit": _checked(limit)}
        return await self._database.read(lambda c: [_stored_turn(row) for row in c.execute(PENDING, binds).mappings()])

    async def turns(self, scope: Scope, turn_ids: Sequence[str]) -> Sequence[StoredTurn]:
        binds = {"b_tenant": scope.tenant, "b_user": scope.user, "b_keys": _keys(turn_ids)}
        return await self._database.read(lambda c: [_stored_turn(row) for row in c.execute(BY_KEY, binds).mappings()])

    async def finish(self, scope: Scope, results: Sequence[TurnResult], *, now: datetime) -> int:
        finished_at = to_utc(now)
        # In one order for everyone, so that two writers cannot wait for each other.
        binds = sorted((_finish_binds(scope, result, finished_at) for result in results), key=lambda bind: bind["b_key"])

        def work(connection: Connection) -> int:
            return sum(connection.execute(FINISH, bind).rowcount for bind in binds)

        return await self._database.write(work) if binds else 0

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
        return sorted((_summary(row) for row in rows), key=lambda s: (s.scope.tenant, s.scope.user, s.ordinal))

    async def summaries(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        outcome: Outcome | None = None,
        state: str | None = None,
        limit: int = 100,
    ) -> Sequence[TurnSummary]:
        statement = _filtered(select(TURNS), tenant, scope)
        if outcome is not None:
            statement = statement.where(IS_KEPT if outcome is Outcome.KEPT else TURNS.c.outcome == outcome.value)
        if state is not None:
            statement = statement.where(IS_PENDING if state == "pending" else TURNS.c.state == state)
        if scope is not None:
            statement = statement.order_by(TURNS.c.ordinal.desc())
        else:
            statement = statement.order_by(TURNS.c.recorded_at.desc(), TURNS.c.tenant, TURNS.c.user_id, TURNS.c.ordinal.desc())
        statement = statement.limit(_checked(limit))
        return await self._database.read(lambda c: [_summary(row) for row in c.execute(statement).mappings()])

    async def ping(self) -> None:
        from memory.stores.migrations import check_version  # Alembic is slow to load, and only operators ask

        await self._database.read(lambda c: check_version(c, self._database.url))

    async def aclose(self) -> None:
        await self._database.aclose()


def _rows(scope: Scope, turn: Turn, now: datetime) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    occurred_at = to_utc(turn.occurred_at, what="time of the turn")
    turn_key = encode_segment(turn.turn_id, what="turn id")
    medium = clean_text(turn.medium)
    messages = turn_messages(turn)
    said = {message.sender_id for message in messages}
    owner = {"tenant": scope.tenant, "user_id": scope.user}
    turn_row = {
        **owner,
        "turn_key": turn_key,
        "turn_id_long": _if_hashed(turn.turn_id, turn_key),
        "user_seq": None,
        "assistant_seq": None,
        "user_blank": None if USER_ID in said else clean_message(turn.user_text, sender=USER_ID),
        "assistant_blank": None if ASSISTANT_ID in said else clean_message(turn.assistant_text, sender=ASSISTANT_ID),
        "space_id": turn.space_id,
        "conversation_id": turn.conversation_id,
        "medium": medium,
        "language_model": _cleaned(turn.language_model),
        "allow_user_memory": turn.allow_user_memory,
        "web_search": turn.web_search,
        "occurred_at": occurred_at,
        "recorded_at": now,
        "attempt": 0,
        "state": "pending",
    }
    event_rows: list[dict[str, Any]] = [
        {
            **owner,
            "event_key": message.event_id,
            "kind": message.kind,
            "timestamp": occurred_at,
            "sender_id": message.sender_id,
            "receiver_ids": list(message.receiver_ids),
            "medium": medium,
            "content": message.content,
            "turn_key": turn_key,
            "recorded_at": now,
        }
        for message in messages
    ]
    return turn_row, event_rows


def _finish_binds(scope: Scope, result: TurnResult, finished_at: datetime) -> dict[str, Any]:
    return {
        "b_tenant": scope.tenant,
        "b_user": scope.user,
        "b_key": encode_segment(result.turn_id, what="turn id"),
        "b_attempt": result.attempt,
        "v_outcome": result.outcome.value,
        "v_reason": _cleaned(result.reason),
        "v_flags": list(result.flags),
        "v_usage": {stage: dict(counts) for stage, counts in result.usage.items()},
        "v_durations_ms": dict(result.durations_ms),
        "v_model": _cleaned(result.model),
        "v_profile_version": result.profile_version,
        "v_run_id": result.run_id,
        "v_workflow_id": result.workflow_id,
        "v_finished_at": finished_at,
    }


def _stored_turn(row: RowMapping) -> StoredTurn:
    # Not validated again: it was when it was recorded, and a rule that has become stricter must not strand old turns.
    return StoredTurn.model_construct(
        turn=Turn.model_construct(
            turn_id=row["turn_id_long"] or decode_segment(row["turn_key"]),
            user_text=row["user_blank"] if row["user_seq"] is None else row["said_user"],
            assistant_text=row["assistant_blank"] if row["assistant_seq"] is None else row["said_assistant"],
            occurred_at=row["occurred_at"],
            space_id=row["space_id"],
            conversation_id=row["conversation_id"],
            medium=row["medium"],
            language_model=row["language_model"],
            allow_user_memory=row["allow_user_memory"],
            web_search=row["web_search"],
        ),
        ordinal=row["ordinal"],
        attempt=row["attempt"],
        state=row["state"],
        outcome=_outcome(row["outcome"]),
        reason=row["reason"],
        recorded_at=row["recorded_at"],
        finished_at=row["finished_at"],
        profile_version=row["profile_version"],
    )


def _summary(row: RowMapping) -> TurnSummary:
    return TurnSummary(
        scope=Scope(row["tenant"], row["user_id"]),
        turn_id=row["turn_id_long"] or decode_segment(row["turn_key"]),
        ordinal=row["ordinal"],
        attempt=row["attempt"],
        space_id=row["space_id"],
        state=row["state"],
        outcome=_outcome(row["outcome"]),
        reason=row["reason"],
        flags=tuple(row["flags"] or ()),
        profile_version=row["profile_version"],
        recorded_at=row["recorded_at"],
        finished_at=row["finished_at"],
        run_id=row["run_id"],
        usage=row["usage"] or {},
        durations_ms=row["durations_ms"] or {},
        model=row["model"],
    )


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


def _if_hashed(raw: str, key: str) -> str | None:
    return raw if "=h" in key else None


def _outcome(value: str | None) -> Outcome | None:
    return None if value is None else Outcome(value)


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
