"""What models cost, in SQL: tokens by tenant, user, day, stage and model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.dialects import postgresql, sqlite

from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.ports import Usage, UsageLedger, UsageRow
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.rows_window import MODEL_USAGE

_KEY = ("tenant", "user_id", "day", "stage", "model")
_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "calls")
_MAX_NAME_CHARS = 300

_SPENT = select(func.coalesce(func.sum(MODEL_USAGE.c.input_tokens + MODEL_USAGE.c.output_tokens), 0)).where(
    MODEL_USAGE.c.tenant == bindparam("b_tenant"),
    MODEL_USAGE.c.user_id == bindparam("b_user"),
    MODEL_USAGE.c.day == bindparam("b_day"),
)


class SqlUsage(UsageLedger):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._add = _add(sqlite.insert if database.is_sqlite else postgresql.insert)

    async def add(self, scope: Scope, *, stage: str, model: str, usage: Usage, now: datetime) -> int:
        day = to_utc(now).date()
        counts = {name: int(getattr(usage, name)) for name in _COUNTS}
        if min(counts.values()) < 0:
            raise InvalidInput("tokens and calls are never below zero")
        row = {
            "tenant": scope.tenant,
            "user_id": scope.user,
            "day": day,
            "stage": clean_text(stage)[:_MAX_NAME_CHARS],
            "model": clean_text(model)[:_MAX_NAME_CHARS],
            **counts,
        }

        def work(connection: Connection) -> int:
            connection.execute(self._add, row)
            return int(connection.execute(_SPENT, _binds(scope, day)).scalar_one())

        return await self._database.write(work)

    async def spent(self, scope: Scope, day: date) -> int:
        return await self._database.read(lambda c: int(c.execute(_SPENT, _binds(scope, day)).scalar_one()))

    async def rows(
        self, *, tenant: str | None = None, scope: Scope | None = None, since: date | None = None, limit: int = 1000
    ) -> Sequence[UsageRow]:
        if limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        wanted = select(MODEL_USAGE)
        if tenant is not None:
            wanted = wanted.where(MODEL_USAGE.c.tenant == tenant)
        if scope is not None:
            wanted = wanted.where(MODEL_USAGE.c.tenant == scope.tenant, MODEL_USAGE.c.user_id == scope.user)
        if since is not None:
            wanted = wanted.where(MODEL_USAGE.c.day >= since)
        rest = [MODEL_USAGE.c[name] for name in _KEY if name != "day"]
        wanted = wanted.order_by(MODEL_USAGE.c.day.desc(), *rest).limit(limit)
        return await self._database.read(
            lambda c: [
                UsageRow(row.tenant, row.user_id, row.day, row.stage, row.model, Usage(*(getattr(row, name) for name in _COUNTS)))
                for row in c.execute(wanted)
            ]
        )


def _binds(scope: Scope, day: date) -> dict[str, Any]:
    return {"b_tenant": scope.tenant, "b_user": scope.user, "b_day": day}


def _add(upsert: Any) -> Any:
    added = upsert(MODEL_USAGE)
    return added.on_conflict_do_update(
        index_elements=list(_KEY), set_={name: MODEL_USAGE.c[name] + added.excluded[name] for name in _COUNTS}
    )
