"""What the user's memory costs."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Final

from fastapi import Query

from api.auth.access import Reader
from api.context import Context
from api.routing import Cursor, Limit, cursor_of, make_router, page_of, read_cursor
from api.schemas.account import UsageCounts, UsagePage, UsageView
from memory.model.errors import InvalidInput
from memory.ports import UsageRow

router = make_router("usage")

MAX_ROWS: Final = 10_000


@router.get("/usage", summary="Read the user's usage")
async def get_usage(
    context: Context,
    acting: Reader,
    since: Annotated[date | None, Query(description="from this day (UTC) on")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> UsagePage:
    """Tokens of language models by day (UTC), stage and model, newest day first; the newest 10,000 rows."""
    report = await context.memory.usage(acting.scope, since=since, limit=MAX_ROWS)
    page, last = page_of(_behind(report.rows, cursor), limit)
    return UsagePage(
        items=[UsageView.of_row(row) for row in page],
        next=None if last is None else cursor_of("usage", last.day.isoformat(), last.stage, last.model),
        total=UsageCounts.of(report.total),
    )


def _behind(rows: tuple[UsageRow, ...], cursor: str | None) -> tuple[UsageRow, ...]:
    if cursor is None:
        return rows
    told, stage, model = read_cursor(cursor, "usage", str, str, str)
    try:
        day = date.fromisoformat(told)
    except ValueError:
        raise InvalidInput("the cursor is not one of this list; begin without one") from None
    # Rows are in the order of the database; one that was told is still there, unless everything was deleted meanwhile.
    place = next((at for at, row in enumerate(rows) if (row.day, row.stage, row.model) == (day, stage, model)), None)
    return rows[place + 1 :] if place is not None else tuple(row for row in rows if row.day < day)
