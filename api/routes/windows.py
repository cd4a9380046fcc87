"""The event window: where the user's log stands, what each window held and gave, flush, rerun, transcripts handed in."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Query, Response

from api.auth.access import Acting, Reader, Writer
from api.context import ApiContext, Context
from api.problems import NotFound
from api.routing import Cursor, IdempotencyKey, ItemPath, Limit, cursor_of, make_router, page_of, read_cursor, request_id
from api.schemas.windows import (
    ChunkGiven,
    FlushGiven,
    ProgressView,
    TranscriptGiven,
    WindowDetail,
    WindowPage,
    WindowShown,
    WindowsRerunGiven,
    WindowsRerunView,
    WindowsStatus,
)
from memory.model.category import Category
from memory.model.window import WindowState
from memory.ports import WindowPlace
from starter.given import events_of
from starter.windows import OF_CONTACTS

router = make_router("windows")

ENDED: Final = frozenset(WindowState) - {WindowState.PLANNED}
AGAIN: Final = frozenset({WindowState.FAILED, WindowState.PARTIAL})
MAX_NAMES: Final = 1_000
"""Contacts and tasks whose names are told where a window's items are about them."""

_WAITS: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": WindowShown, "description": "It has not ended yet; ask for the window again"}
}


@router.get("/windows/status", summary="Say where the user's log stands")
async def get_windows_status(
    context: Context, acting: Reader, limit: Annotated[int, Query(ge=1, le=100, description="recent windows")] = 5
) -> WindowsStatus:
    """How many events wait, whether a run is at work, the last windows."""
    return WindowsStatus.of(await context.memory.windows.status(acting.scope, limit=limit))


@router.get("/windows", summary="List windows")
async def list_windows(
    context: Context,
    acting: Reader,
    states: Annotated[list[WindowState] | None, Query(max_length=5, description="default: all")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> WindowPage:
    """Newest first: what each gave, by category."""
    found = await context.memory.windows.list(scope=acting.scope, states=states or None, after=_place(cursor), limit=limit + 1)
    page, last = page_of(found, limit)
    more = None if last is None else cursor_of("windows", last.planned_at, last.first_seq, last.window_id)
    return WindowPage(items=[WindowShown.of(window) for window in page], next=more)


def _place(cursor: str | None) -> WindowPlace | None:
    if cursor is None:
        return None
    return WindowPlace(*read_cursor(cursor, "windows", datetime, int, str))


@router.post("/windows/flush", summary="Consolidate what waits")
async def flush_windows(context: Context, acting: Writer, given: FlushGiven) -> ProgressView:
    """Have all events recorded so far consolidated, also as a short window."""
    return ProgressView.of(await context.memory.flush(acting.scope, wait_s=given.wait_s))


@router.post("/windows/rerun", summary="Run windows again")
async def rerun_windows(context: Context, acting: Writer, wanted: WindowsRerunGiven) -> WindowsRerunView:
    """What they wrote already stays as it is. One that waits or runs already, or ended in another way, is in `left`."""
    result = await context.memory.windows.rerun(
        scope=acting.scope,
        window_ids=wanted.window_ids,
        states=wanted.states or (AGAIN if wanted.window_ids is None else ENDED),
        limit=wanted.limit,
    )
    return WindowsRerunView(
        windows=[WindowShown.of(window) for window in result.windows],
        left=[WindowShown.of(window) for window in result.left],
        started=result.waiting_for_sweeper == 0,
    )


# -------------------------------------------------------------------------------------------------------------- transcripts


@router.post("/windows/process_chunk", summary="Learn from a transcript", responses=_WAITS)
async def process_chunk(
    context: Context, acting: Writer, given: ChunkGiven, response: Response, key: IdempotencyKey = None
) -> WindowShown:
    """Extract from a transcript what a window would be extracted from, without recording its messages.

    Where memory is off in the space it is `skipped`. With an `Idempotency-Key` the same body again is the same chunk.
    """
    return await _process(context, acting, given, given.categories, response, key, model=given.language_model)


@router.post("/windows/update_contacts", summary="Learn contacts from a transcript", responses=_WAITS)
async def learn_contacts(
    context: Context, acting: Writer, given: TranscriptGiven, response: Response, key: IdempotencyKey = None
) -> WindowShown:
    """Contacts, bios, rolling summaries and response policies only."""
    return await _process(context, acting, given, OF_CONTACTS, response, key)


@router.post("/windows/update_knowledge", summary="Learn facts from a transcript", responses=_WAITS)
async def learn_knowledge(
    context: Context, acting: Writer, given: TranscriptGiven, response: Response, key: IdempotencyKey = None
) -> WindowShown:
    """Domain knowledge only."""
    return await _process(context, acting, given, (Category.KNOWLEDGE,), response, key)


@router.post("/windows/update_tasks", summary="Learn tasks from a transcript", responses=_WAITS)
async def learn_tasks(
    context: Context, acting: Writer, given: TranscriptGiven, response: Response, key: IdempotencyKey = None
) -> WindowShown:
    """Commitments only."""
    return await _process(context, acting, given, (Category.TASKS,), response, key)


async def _process(
    context: ApiContext,
    acting: Acting,
    given: TranscriptGiven,
    categories: Collection[Category] | None,
    response: Response,
    key: str | None,
    *,
    model: str | None = None,
) -> WindowShown:
    transcript = given.transcript
    window = await context.memory.windows.process_chunk(
        acting.scope,
        transcript if isinstance(transcript, str) else events_of([one.model_dump(exclude_none=True) for one in transcript]),
        space_id=given.space_id,
        categories=categories,
        guidance=given.guidance,
        chunk_id=request_id(key, *sorted(categories or ()), given),
        language_model=model,
        wait_s=given.wait_s,
    )
    response.status_code = 202 if window.state is WindowState.PLANNED else 200
    return WindowShown.of(window)


@router.get("/windows/{window_id}", summary="Read a window")
async def get_window(context: Context, acting: Reader, window_id: ItemPath) -> WindowDetail:
    """Its transcript, what was taken from it with the quotes, what was not taken and why."""
    if await context.ledger.window(acting.scope, window_id) is None:
        raise NotFound("there is no such window")
    view, contacts, tasks = await asyncio.gather(
        context.memory.windows.show(acting.scope, window_id),
        context.memory.contacts.filter(acting.scope, limit=MAX_NAMES),
        context.memory.tasks.list(acting.scope, limit=MAX_NAMES),
    )
    return WindowDetail.of_view(view, contacts, tasks)
