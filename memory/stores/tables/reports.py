"""Reports for administrators, in SQL: sums of tokens, turns by space, what a failure kept out. Ids and counts, never a text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, get_args

from sqlalchemy import BigInteger, Connection, and_, cast, func, literal, literal_column, or_, select, true, tuple_

from memory.model.errors import InvalidInput
from memory.model.turn import Outcome
from memory.model.window import Window, WindowState
from memory.ports import TurnSummary, Usage
from memory.ports.administration import Reports, SpaceUsage, UsageKey, UsageSum
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.rows import TURNS
from memory.stores.tables.rows_window import MODEL_USAGE, WINDOWS
from memory.stores.tables.statements import IS_KEPT
from memory.stores.tables.turn_rows import turn_summary
from memory.stores.tables.window_rows import reopenable, window_of

_COUNTS: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "calls")
_COLUMNS: Final = {
    "day": MODEL_USAGE.c.day,
    "user": MODEL_USAGE.c.user_id,
    "stage": MODEL_USAGE.c.stage,
    "model": MODEL_USAGE.c.model,
}


class SqlReports(Reports):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def usage(
        self,
        tenant: str,
        *,
        by: Sequence[UsageKey],
        since: date,
        until: date,
        after: UsageSum | None = None,
        limit: int = 100,
    ) -> Sequence[UsageSum]:
        keys = _keys(by)
        columns = [_COLUMNS[key] for key in keys]
        # Named apart from the columns: where the two names meet, PostgreSQL takes the column.
        sums = [func.sum(MODEL_USAGE.c[name]).label(f"sum_{name}") for name in _COUNTS]
        total = func.sum(MODEL_USAGE.c.input_tokens + MODEL_USAGE.c.output_tokens)
        wanted = (
            select(*columns, *sums)
            .where(MODEL_USAGE.c.tenant == tenant, MODEL_USAGE.c.day.between(since, until))
            .group_by(*columns)
            .limit(_checked(limit))
        )
        if keys[0] == "day":
            wanted = wanted.order_by(columns[0].desc(), *columns[1:])
            if after is not None:
                later = and_(columns[0] == after.day, _beyond(columns[1:], [getattr(after, key) for key in keys[1:]]))
                wanted = wanted.where(or_(columns[0] < after.day, later) if columns[1:] else columns[0] < after.day)
        else:
            wanted = wanted.order_by(total.desc(), *columns)
            if after is not None:
                was = after.usage.input_tokens + after.usage.output_tokens
                same = and_(total == was, _beyond(columns, [getattr(after, key) for key in keys]))
                wanted = wanted.having(or_(total < was, same))
        rows = await self._database.read(lambda c: c.execute(wanted).all())
        return [
            UsageSum(Usage(*(int(n) for n in row[len(keys) :])), **dict(zip(keys, row[: len(keys)], strict=True))) for row in rows
        ]

    async def usage_by_space(
        self, tenant: str, *, since: datetime, after: SpaceUsage | None = None, limit: int = 100
    ) -> Sequence[SpaceUsage]:
        mine = and_(TURNS.c.tenant == tenant, TURNS.c.recorded_at >= to_utc(since))
        turns = func.count()
        ended = [func.count().filter(TURNS.c.outcome == outcome.value).label(f"ended_{outcome.value}") for outcome in Outcome]
        wanted = (
            select(
                TURNS.c.space_id,
                turns.label("turns"),
                func.count(TURNS.c.user_id.distinct()).label("users"),
                func.max(TURNS.c.recorded_at).label("last_turn_at"),
                *ended,
            )
            .where(mine)
            .group_by(TURNS.c.space_id)
            .order_by(turns.desc(), TURNS.c.space_id)
            .limit(_checked(limit))
        )
        if after is not None:
            same = and_(turns == after.turns, TURNS.c.space_id > literal(after.space_id, TURNS.c.space_id.type))
            wanted = wanted.having(or_(turns < after.turns, same))

        def work(connection: Connection) -> list[SpaceUsage]:
            rows = connection.execute(wanted).all()
            tokens = _tokens(connection, mine, [row.space_id for row in rows])
            return [_space_usage(row, tokens) for row in rows]

        return await self._database.read(work)

    async def kept_turns(
        self, tenant: str, *, after: tuple[datetime, str, int] | None = None, limit: int = 100
    ) -> Sequence[TurnSummary]:
        place = (TURNS.c.recorded_at, TURNS.c.user_id, TURNS.c.ordinal)
        wanted = select(TURNS).where(TURNS.c.tenant == tenant, IS_KEPT)
        wanted = wanted.order_by(*(column.desc() for column in place)).limit(_checked(limit))
        if after is not None:
            wanted = wanted.where(_before(place, after))
        return await self._database.read(lambda c: [turn_summary(row) for row in c.execute(wanted).mappings()])

    async def unhappy_windows(
        self, tenant: str, *, after: tuple[datetime, str, str] | None = None, limit: int = 100
    ) -> Sequence[Window]:
        place = (WINDOWS.c.planned_at, WINDOWS.c.user_id, WINDOWS.c.window_id)
        unhappy = reopenable((WindowState.FAILED, WindowState.PARTIAL))
        wanted = select(WINDOWS).where(WINDOWS.c.tenant == tenant, unhappy)
        wanted = wanted.order_by(*(column.desc() for column in place)).limit(_checked(limit))
        if after is not None:
            wanted = wanted.where(_before(place, after))
        return await self._database.read(
            lambda c: [window_of(row).model_copy(update={"guidance": None}) for row in c.execute(wanted).mappings()]
        )


def _keys(by: Sequence[UsageKey]) -> list[UsageKey]:
    """In the order in which rows are told apart. Raises InvalidInput."""
    known: tuple[UsageKey, ...] = get_args(UsageKey)
    if not by or set(by) - set(known):
        raise InvalidInput(f"usage is summed by some of: {', '.join(known)}")
    return [key for key in known if key in by]


def _beyond(columns: Sequence[Any], values: Sequence[Any]) -> Any:
    """Rows after these values in ascending order; none where there is nothing to tell them apart by."""
    return tuple_(*columns) > _values(columns, values) if columns else ~true()


def _before(columns: Sequence[Any], values: Sequence[Any]) -> Any:
    return tuple_(*columns) < _values(columns, values)


def _values(columns: Sequence[Any], values: Sequence[Any]) -> Any:
    return tuple_(*(literal(value, column.type) for column, value in zip(columns, values, strict=True)))


def _tokens(connection: Connection, mine: Any, space_ids: Sequence[str]) -> dict[str, Usage]:
    """Of the turns of these spaces; the JSON of their stages is summed in the database."""
    if not space_ids:
        return {}
    stages = func.json_each(TURNS.c.usage).table_valued("key", "value", name="stages")
    # Literals: PostgreSQL cannot tell the type of a parameter there.
    counts = [cast(stages.c.value.op("->>")(literal_column(f"'{name}'")), BigInteger) for name in _COUNTS]
    wanted = (
        select(TURNS.c.space_id, *(func.coalesce(func.sum(count), 0) for count in counts))
        .select_from(TURNS.join(stages, true()))
        .where(mine, TURNS.c.space_id.in_(list(space_ids)))
        .group_by(TURNS.c.space_id)
    )
    return {row[0]: Usage(*(int(n) for n in row[1:])) for row in connection.execute(wanted)}


def _space_usage(row: Any, tokens: dict[str, Usage]) -> SpaceUsage:
    outcomes = {outcome.value: int(getattr(row, f"ended_{outcome.value}")) for outcome in Outcome}
    open_ones = row.turns - sum(outcomes.values())
    return SpaceUsage(
        space_id=row.space_id,
        turns=row.turns,
        users=row.users,
        outcomes={name: count for name, count in {**outcomes, "pending": open_ones}.items() if count},
        usage=tokens.get(row.space_id, Usage(calls=0)),
        last_turn_at=row.last_turn_at,
    )


def _checked(limit: int) -> int:
    if limit < 1:
        raise InvalidInput(f"the limit must be at least 1, not {limit}")
    return limit
