"""Notices on their way to streams, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from memory.model.turn import Outcome
from memory.ports.pipeline import Notice
from memory.ports.service import BoxedNotice, NoticeBox
from memory.stores.tables.engine import Database
from memory.stores.tables.rows_api import NOTICES

EXPIRED_AT_ONCE = 5_000
"""Rows in one transaction of :meth:`SqlNoticeBox.expire`."""

_C = NOTICES.c


class SqlNoticeBox(NoticeBox):
    def __init__(self, database: Database) -> None:
        self._database = database
        upsert: Any = sqlite.insert if database.is_sqlite else postgresql.insert
        self._put = upsert(NOTICES).on_conflict_do_nothing(index_elements=["tenant", "user_id", "notice_key"])

    async def put(self, notice: Notice, *, now: datetime) -> None:
        await self.put_all([notice], now=now)

    async def put_all(self, notices: Sequence[Notice], *, now: datetime) -> None:
        rows = [
            {
                "tenant": notice.scope.tenant,
                "user_id": notice.scope.user,
                "notice_key": notice.key,
                "body": _body(notice),
                "recorded_at": now,
            }
            for notice in notices
        ]

        def work(connection: Connection) -> None:
            # One by one: of rows that go together, the numbers need not follow their order.
            for row in rows:
                connection.execute(self._put, row)

        if rows:
            await self._database.write(work)

    async def since(self, moment: datetime, *, limit: int = 1_000) -> Sequence[BoxedNotice]:
        return await self._read(_C.recorded_at >= moment, limit=limit)

    async def of_user(self, scope: Scope, *, after: int, limit: int = 100) -> Sequence[BoxedNotice]:
        return await self._read(_C.tenant == scope.tenant, _C.user_id == scope.user, _C.number > after, limit=limit)

    async def _read(self, *where: Any, limit: int) -> Sequence[BoxedNotice]:
        if limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        wanted = select(NOTICES).where(*where).order_by(_C.number).limit(limit)
        return await self._database.read(lambda c: [_boxed(row) for row in c.execute(wanted)])

    async def last_number(self) -> int:
        """Of the notices in the box; 0 for an empty one."""
        last = select(func.coalesce(func.max(_C.number), 0))
        return await self._database.read(lambda c: int(c.execute(last).scalar_one()))

    async def expire(self, *, before: datetime) -> int:
        """Delete what was recorded before that time, in bounded transactions. Returns how many."""
        old = select(_C.number).where(_C.recorded_at < before).order_by(_C.recorded_at).limit(EXPIRED_AT_ONCE)
        some = delete(NOTICES).where(_C.number.in_(old))
        deleted = 0
        while True:
            count = await self._database.write(lambda c: int(c.execute(some).rowcount))
            deleted += count
            if count < EXPIRED_AT_ONCE:
                return deleted


def _body(notice: Notice) -> dict[str, Any]:
    return {
        "notice_id": notice.notice_id,
        "step": notice.step,
        "conversation_ids": list(notice.conversation_ids),
        "turn_ids": list(notice.turn_ids),
        "text": notice.text,
        "at": notice.at.isoformat(),
        "expires_at": notice.expires_at.isoformat() if notice.expires_at else None,
        "outcome": notice.outcome.value if notice.outcome else None,
        "review_url": notice.review_url,
    }


def _boxed(row: Row[Any]) -> BoxedNotice:
    body: dict[str, Any] = row.body
    return BoxedNotice(
        row.number,
        Notice(
            notice_id=body["notice_id"],
            key=row.notice_key,
            step=body["step"],
            scope=Scope(row.tenant, row.user_id),
            conversation_ids=tuple(body["conversation_ids"]),
            turn_ids=tuple(body["turn_ids"]),
            text=body["text"],
            at=datetime.fromisoformat(body["at"]),
            expires_at=datetime.fromisoformat(body["expires_at"]) if body["expires_at"] else None,
            outcome=Outcome(body["outcome"]) if body["outcome"] else None,
            review_url=body["review_url"],
        ),
    )
