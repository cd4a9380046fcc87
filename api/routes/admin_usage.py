"""What memory costs and where it is used: tokens by day, user, stage and model, turns by space. Users are ids only."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, Field

from api.auth.access import Administrator
from api.context import Context
from api.routing import Cursor, Limit, cursor_of, make_router, page_of, read_cursor
from memory.model.errors import InvalidInput
from memory.model.ids import decode_segment
from memory.ports import Usage
from memory.ports.administration import SpaceUsage, UsageKey, UsageSum

DEFAULT_DAYS: Final = 30
MAX_DAYS: Final = 366
KEYS: Final[tuple[UsageKey, ...]] = ("day", "user", "stage", "model")
_NONE: Final = datetime(1970, 1, 1, tzinfo=UTC)

router = make_router("admin")

Since = Annotated[date | None, Query(description=f"first day (UTC); default: {DEFAULT_DAYS} days back", examples=["2026-06-01"])]
Until = Annotated[date | None, Query(description="last day (UTC), inclusive; default: today", examples=["2026-06-30"])]
SpaceCursor = Annotated[
    str | None, Query(max_length=60_000, description="`next` of the answer before; says where the list goes on")
]


class Tokens(BaseModel):
    """Of language models, as providers report them."""

    input_tokens: int = Field(examples=[1200])
    output_tokens: int = Field(examples=[80])
    cached_input_tokens: int = Field(examples=[0])
    calls: int = Field(examples=[3])
    total_tokens: int = Field(description="input and output", examples=[1280])


class UsageLine(Tokens):
    """Keys that were not asked for are null."""

    day: date | None = None
    user: str | None = None
    stage: str | None = None
    model: str | None = None


class UsageLines(BaseModel):
    since: date
    until: date
    items: list[UsageLine]
    next: str | None


class SpaceLine(Tokens):
    """Tokens: of gates and consolidations. What windows of events and knowledge loops cost is in the usage by user."""

    space_id: str = Field(examples=["default"])
    turns: int
    users: int = Field(description="users with a turn in this space")
    outcomes: dict[str, int] = Field(examples=[{"updated": 12, "noop": 30, "kept": 1}])
    last_turn_at: AwareDatetime


class SpaceLines(BaseModel):
    since: date
    items: list[SpaceLine]
    next: str | None


@router.get("/admin/usage")
async def admin_usage(
    context: Context,
    principal: Administrator,
    by: Annotated[list[UsageKey] | None, Query(max_length=4, description="what to tell apart; default: user")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> UsageLines:
    """Tokens of language models, summed by what `by` names (several are possible).

    With `day` the newest day comes first, else the most tokens do. Counts grow while you read: what changes its place between
    two pages may be missed.
    """
    keys: list[UsageKey] = [key for key in KEYS if key in (by or ["user"])]
    first, last_day = _days(since, until)
    after = None if cursor is None else _after(cursor, keys)
    found = await context.reports.usage(principal.tenant, by=keys, since=first, until=last_day, after=after, limit=limit + 1)
    page, last = page_of(found, limit)
    return UsageLines(
        since=first,
        until=last_day,
        items=[
            UsageLine(
                **_tokens(one.usage),
                day=one.day,
                user=None if one.user is None else decode_segment(one.user),
                stage=one.stage,
                model=one.model,
            )
            for one in page
        ],
        next=None
        if last is None
        else cursor_of(f"usage:{','.join(keys)}", _total(last.usage), *(str(getattr(last, k)) for k in keys)),
    )


@router.get("/admin/usage/spaces")
async def admin_usage_by_space(
    context: Context, principal: Administrator, since: Since = None, limit: Limit = 50, cursor: SpaceCursor = None
) -> SpaceLines:
    """Turns and what became of them by space, with their tokens; those with the most turns first."""
    first, _ = _days(since, None)
    after: SpaceUsage | None = None
    if cursor is not None:
        turns, space_id = read_cursor(cursor, "usage-spaces", int, str)
        after = SpaceUsage(space_id, turns, 0, {}, Usage(), _NONE)
    moment = datetime.combine(first, time(), tzinfo=UTC)
    found = await context.reports.usage_by_space(principal.tenant, since=moment, after=after, limit=limit + 1)
    page, last = page_of(found, limit)
    return SpaceLines(
        since=first,
        items=[
            SpaceLine(
                **_tokens(one.usage),
                space_id=one.space_id,
                turns=one.turns,
                users=one.users,
                outcomes=dict(one.outcomes),
                last_turn_at=one.last_turn_at,
            )
            for one in page
        ],
        next=None if last is None else cursor_of("usage-spaces", last.turns, last.space_id),
    )


def _days(since: date | None, until: date | None) -> tuple[date, date]:
    last = until or datetime.now(UTC).date()
    first = since or last - timedelta(days=min(DEFAULT_DAYS, last.toordinal()) - 1)
    if last < first:
        raise InvalidInput("until is before since")
    if (last - first).days > MAX_DAYS:
        raise InvalidInput(f"at most {MAX_DAYS} days in one answer")
    return first, last


def _after(cursor: str, keys: list[UsageKey]) -> UsageSum:
    total, *values = read_cursor(cursor, f"usage:{','.join(keys)}", int, *(str for _ in keys))
    named = dict(zip(keys, values, strict=True))
    try:
        day = date.fromisoformat(named["day"]) if "day" in named else None
        for value in values:
            value.encode()
    except ValueError:
        raise InvalidInput("the cursor is not one of this list; begin without one") from None
    return UsageSum(Usage(input_tokens=total), day, named.get("user"), named.get("stage"), named.get("model"))


def _total(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


def _tokens(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "calls": usage.calls,
        "total_tokens": _total(usage),
    }
