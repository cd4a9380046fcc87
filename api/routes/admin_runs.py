"""Runs that a failure kept from changing memory, and how they are run again. Ids, reasons and counts; no text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from api.auth.access import Administrator
from api.context import ApiContext, Context
from api.routing import Cursor, Id, Limit, cursor_of, make_router, read_cursor
from memory.model.category import Category
from memory.model.errors import AfterturnError, InvalidInput
from memory.model.scope import Scope
from memory.model.window import Window
from memory.ports import TurnSummary
from starter.web_ui import workflow_url

MAX_IDS: Final = 1_000
Kind = Literal["turn", "window"]
_WINDOW_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")

router = make_router("admin")


class FailedCategory(BaseModel):
    category: Category
    reason: str | None


class FailedRun(BaseModel):
    """A turn whose rewrite was kept out (the old profile stands), or a window that failed wholly or partly."""

    kind: Kind
    user: str
    id: str = Field(description="of the turn or the window; together with the user it names the run", examples=["t-42"])
    state: Literal["kept", "failed", "partial"]
    reason: str | None = Field(examples=["model_unavailable"])
    flags: list[str] = Field(examples=[["gate_failed"]])
    categories: list[FailedCategory] = Field(description="of a window: those that failed")
    space_id: str | None = Field(description="of a turn")
    attempt: int = Field(description="0 at first; each rerun adds one")
    recorded_at: AwareDatetime
    finished_at: AwareDatetime | None
    workflow_id: str
    run_id: str | None
    url: str | None = Field(description="of the run in the Temporal Web UI; null where its address is not set")


class FailedRuns(BaseModel):
    items: list[FailedRun]
    next: str | None


class Rerun(BaseModel):
    """Everything that failed in the company, or the runs of one kind, of one user, or these."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"kind": "turn", "user": "user_123", "ids": ["t-42"]}]}
    )

    kind: Kind | None = Field(None, description="null: turns and windows")
    user: Id | None = Field(None, description="null: of all users")
    ids: list[Id] | None = Field(None, min_length=1, max_length=MAX_IDS, description="needs kind and user")
    limit: int = Field(1_000, ge=1, le=1_000, description="at most this many of each kind")

    @model_validator(mode="after")
    def _whose(self) -> Rerun:
        if self.ids is not None and (self.kind is None or self.user is None):
            raise ValueError("ids belong to a kind and a user: say which")
        if self.kind == "window" and not all(_WINDOW_ID.fullmatch(one) for one in self.ids or ()):
            raise ValueError("an id of a window is as in the list")
        return self


class Left(BaseModel):
    id: str
    why: str


class RerunStarted(BaseModel):
    """`waiting_users`: their workflow could not be told now; the sweeper starts it."""

    turns: int
    windows: int
    started_users: int
    waiting_users: int
    left: list[Left] = Field(description="named ones that do not run again, and why")
    more: bool = Field(description="the limit was reached: ask again for the rest")


@router.get("/admin/runs")
async def admin_runs(
    context: Context,
    principal: Administrator,
    kind: Annotated[Kind | None, Query(description="only turns, or only windows")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> FailedRuns:
    """Runs that a failure kept from changing memory, newest first."""
    turns_after, windows_after = (None, None) if cursor is None else _places(cursor)
    tenant, reports = principal.tenant, context.reports
    turns: Sequence[TurnSummary] = () if kind == "window" else await reports.kept_turns(tenant, after=turns_after, limit=limit + 1)
    windows: Sequence[Window] = (
        () if kind == "turn" else await reports.unhappy_windows(tenant, after=windows_after, limit=limit + 1)
    )
    # Both come newest first: together they are taken from the newer end, each from where it stands.
    both: list[TurnSummary | Window] = sorted([*turns, *windows], key=_when, reverse=True)
    page = both[:limit]
    for one in page:
        if isinstance(one, Window):
            windows_after = (one.planned_at, one.scope.user, one.window_id)
        else:
            turns_after = (one.recorded_at, one.scope.user, one.ordinal)
    link = await _links(context)
    return FailedRuns(
        items=[_window(one, link) if isinstance(one, Window) else _turn(one, link) for one in page],
        next=_cursor(turns_after, windows_after) if len(both) > limit else None,
    )


@router.post("/admin/runs/rerun")
async def admin_rerun(context: Context, principal: Administrator, body: Rerun) -> RerunStarted:
    """Run again what a failure kept out. What stands stays; a run that was not kept or failed is left alone."""
    scope = None if body.user is None else Scope.of(principal.tenant_id, body.user)
    tenant = principal.tenant if scope is None else None
    ids = None if body.ids is None else list(dict.fromkeys(body.ids))
    done = RerunStarted(turns=0, windows=0, started_users=0, waiting_users=0, left=[], more=False)
    if body.kind != "window":
        turns = await context.memory.rerun(tenant=tenant, scope=scope, turn_ids=ids, limit=body.limit)
        done.turns, done.started_users, done.waiting_users = len(turns.reopened), turns.started, turns.waiting
        again = {one.turn_id for one in turns.reopened}
        done.left += [Left(id=one, why="was not kept out, or runs already") for one in ids or () if one not in again]
        done.more = ids is None and len(turns.reopened) == body.limit
    if body.kind != "turn":
        windows = await context.memory.windows.rerun(tenant=tenant, scope=scope, window_ids=ids, limit=body.limit)
        done.windows = len(windows.windows)
        done.started_users += windows.started
        done.waiting_users += windows.waiting_for_sweeper
        done.left += [Left(id=one.window_id, why=f"is {one.state.value}") for one in windows.left]
        done.more = done.more or (ids is None and len(windows.windows) == body.limit)
    return done


class _Links:
    """Addresses in the Temporal Web UI."""

    def __init__(self, web_ui: str | None, namespace: str) -> None:
        self._web_ui = web_ui
        self._namespace = namespace

    def to(self, workflow_id: str, run_id: str | None) -> str | None:
        return None if self._web_ui is None else workflow_url(self._web_ui, self._namespace, workflow_id, run_id)


async def _links(context: ApiContext) -> _Links:
    web_ui = context.settings.temporal_ui_url
    try:
        return _Links(web_ui, (await context.memory.temporal_client()).namespace if web_ui else "")
    except AfterturnError:
        return _Links(None, "")


def _turn(turn: TurnSummary, links: _Links) -> FailedRun:
    workflow_id = turn.scope.post_answer_workflow_id
    return FailedRun(
        kind="turn",
        user=turn.scope.user_id,
        id=turn.turn_id,
        state="kept",
        reason=turn.reason,
        flags=list(turn.flags),
        categories=[],
        space_id=turn.space_id,
        attempt=turn.attempt,
        recorded_at=turn.recorded_at,
        finished_at=turn.finished_at,
        workflow_id=workflow_id,
        run_id=turn.run_id,
        url=links.to(workflow_id, turn.run_id),
    )


def _window(window: Window, links: _Links) -> FailedRun:
    workflow_id = window.workflow_id or window.scope.consolidate_events_workflow_id
    return FailedRun(
        kind="window",
        user=window.scope.user_id,
        id=window.window_id,
        state="partial" if window.state.value == "partial" else "failed",
        reason=window.reason,
        flags=list(window.flags),
        categories=[FailedCategory(category=one.category, reason=one.reason) for one in window.outcomes if one.state == "failed"],
        space_id=None,
        attempt=window.attempt,
        recorded_at=window.planned_at,
        finished_at=window.finished_at,
        workflow_id=workflow_id,
        run_id=window.run_id,
        url=links.to(workflow_id, window.run_id),
    )


def _when(one: TurnSummary | Window) -> datetime:
    return one.planned_at if isinstance(one, Window) else one.recorded_at


_TurnPlace = tuple[datetime, str, int]
_WindowPlace = tuple[datetime, str, str]


def _cursor(turns: _TurnPlace | None, windows: _WindowPlace | None) -> str:
    first: tuple[Any, ...] = ("", "", 0) if turns is None else (turns[0].isoformat(), *turns[1:])
    second = ("", "", "") if windows is None else (windows[0].isoformat(), *windows[1:])
    return cursor_of("runs", *first, *second)


def _places(cursor: str) -> tuple[_TurnPlace | None, _WindowPlace | None]:
    turn_at, turn_user, ordinal, window_at, window_user, window_id = read_cursor(cursor, "runs", str, str, int, str, str, str)
    try:
        for value in (turn_user, window_user, window_id):
            value.encode()
        turns = (_moment(turn_at), turn_user, ordinal) if turn_at else None
        return turns, ((_moment(window_at), window_user, window_id) if window_at else None)
    except (ValueError, OverflowError):
        raise InvalidInput("the cursor is not one of this list; begin without one") from None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment
