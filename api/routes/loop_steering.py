"""One loop, from any process: how it stands, all that was said, its events, and what corrects, answers or ends it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Path, Query, Response

from api.auth.access import Acting, Reader
from api.context import ApiContext, Context
from api.loop_events import END, follow
from api.loop_views import EntryPage, EntryView, LoopPage, LoopView, RunView, Said, SideAnswer, Stop
from api.problems import ApiError, Forbidden, NotFound
from api.routes.loops import ACCEPTED, Waits
from api.routing import Cursor, Limit, cursor_of, make_router, page_of, position_cursor, position_of, read_cursor
from api.streams import EventStream, LastEventId, OpenStreams, last_number, responses
from memory.model.access import Permission
from memory.model.knowledge_loop import Loop
from starter.steering import SteerableHandle

MAX_ENTRIES: Final = 200
"""Of one answer; each may have 1 MiB."""
QUESTION_S: Final = 50.0

router = make_router("loops")

LoopId = Annotated[str, Path(min_length=1, max_length=255, description="as the loop was begun with", examples=["9f1c2b7e"])]
After = Annotated[int, Query(ge=0, le=2**53, description="only entries beyond this number")]
_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "The user has no such loop"}}
_STEERED: Final[dict[int | str, dict[str, Any]]] = {**_UNKNOWN, 409: {"description": "The loop has ended"}}
_EXAMPLE: Final = (
    "retry: 2000\n\n"
    'event: entry\ndata: {"number":1,"step":1,"kind":"model","key":"model/1","body":{…},"at":"2026-06-17T12:00:00Z"}\nid: 1\n\n'
    'event: clarification\ndata: {"number":2,"clarification_id":"clarification/1/0","question":"Which city?","at":"…"}\nid: 2\n\n'
    'event: end\ndata: {"loop_id":"9f1c2b7e","state":"done","answer":"Three suppliers.",…}\nid: end\n\n'
)


# --------------------------------------------------------------------------------------------------------------------- look


@router.get("/loops", summary="List loops")
async def list_loops(
    acting: Reader,
    context: Context,
    running: Annotated[bool, Query(description="only those that have not ended")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> LoopPage:
    """The user's loops, newest first, those within others and those of windows included."""
    after = position_of(cursor, "loops")
    found = await context.memory.knowledge.loops(acting.scope, running=running, after=after, limit=limit + 1)
    page, last = page_of(found, limit)
    following = None if last is None else position_cursor("loops", last.created_at, last.loop_id)
    return LoopPage(items=[LoopView.of(loop) for loop in page], next=following)


@router.get("/loops/{loop_id}", responses=_UNKNOWN, summary="A loop and its answer")
async def get_loop(acting: Reader, context: Context, loop_id: LoopId) -> LoopView:
    """As it is recorded; nothing is started."""
    return LoopView.of(await _loop(context, acting, loop_id))


@router.get("/loops/{loop_id}/entries", responses=_UNKNOWN, summary="All that was said and done")
async def loop_entries(
    acting: Reader,
    context: Context,
    loop_id: LoopId,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="entries of one answer")] = 50,
    cursor: Cursor = None,
) -> EntryPage:
    """In the order in which it was written, with its texts. To follow a loop without a stream, ask again with the last `number` as
    `after`."""
    if cursor is not None:
        (after,) = read_cursor(cursor, "entries", int)
    await _loop(context, acting, loop_id)
    found = await context.memory.knowledge.entries(acting.scope, loop_id, after=after, limit=limit + 1)
    page, last = page_of(found, limit)
    following = None if last is None else cursor_of("entries", last.number)
    return EntryPage(items=[EntryView.of(entry) for entry in page], next=following)


@router.get("/loops/{loop_id}/run", responses=_STEERED, summary="What the run says of itself")
async def loop_run(acting: Reader, context: Context, loop_id: LoopId) -> RunView:
    """What it does now, its tools, the question that it waits with; no texts. It is a worker that answers this: 503 without one."""
    await _loop(context, acting, loop_id)
    handle = await context.memory.knowledge.attach(acting.scope, loop_id)
    return RunView.of(loop_id, await handle.status())


@router.get(
    "/loops/{loop_id}/events",
    response_class=Response,
    responses={
        **_UNKNOWN,
        **responses("What happens in the loop, until it has ended", _EXAMPLE),
        204: {"description": "This stream has been read to its end; a browser does not come back then"},
    },
    summary="Watch a loop",
)
async def loop_events(
    acting: Reader,
    context: Context,
    streams: OpenStreams,
    loop_id: LoopId,
    after: After = 0,
    last_event_id: LastEventId = None,
) -> Response:
    """Server-sent events: `entry` (a step), `clarification`, `notification`, `status`, and `end` with the answer, after which the
    stream is over.

    The id of an event is the number of its entry: a client that comes back with `Last-Event-ID` gets what it has not seen. A stream
    ends after 15 minutes at the latest; a browser comes back by itself.
    """
    loop = await _loop(context, acting, loop_id)
    if last_event_id == END:
        return Response(status_code=204)
    seen = last_number(last_event_id)
    begin = after if seen is None else seen
    return EventStream(streams, follow(context.memory.knowledge, acting.scope, loop.loop_id, after=begin, streams=streams))


# -------------------------------------------------------------------------------------------------------------------- steer


@router.post("/loops/{loop_id}/attach", responses=_UNKNOWN | ACCEPTED, summary="Take up a loop")
async def attach_loop(acting: Reader, context: Context, loop_id: LoopId, waits: Waits) -> LoopView:
    """Begin a loop that was recorded and does not run, because Temporal was away or its run was lost; it finds what it had done.
    One that runs, or has ended, stays as it is. With `wait_s` this waits for the end of any loop."""
    return await waits.for_end(acting.scope, await _steer(context, acting, loop_id))


@router.post("/loops/{loop_id}/pause", responses=_STEERED, summary="Pause a loop")
async def pause_loop(acting: Reader, context: Context, loop_id: LoopId) -> RunView:
    """Before its next step."""
    return RunView.of(loop_id, await (await _steer(context, acting, loop_id)).pause())


@router.post("/loops/{loop_id}/resume", responses=_STEERED, summary="Let a paused loop go on")
async def resume_loop(acting: Reader, context: Context, loop_id: LoopId) -> RunView:
    """A loop that is not paused stays as it is."""
    return RunView.of(loop_id, await (await _steer(context, acting, loop_id)).resume())


@router.post("/loops/{loop_id}/interject", status_code=204, responses=_STEERED, summary="Correct a loop")
async def interject_loop(acting: Reader, context: Context, loop_id: LoopId, body: Said) -> None:
    """The model reads it before anything more is written."""
    await (await _steer(context, acting, loop_id)).interject(body.text)


@router.post("/loops/{loop_id}/stop", responses=_UNKNOWN | ACCEPTED, summary="Stop a loop")
async def stop_loop(acting: Reader, context: Context, loop_id: LoopId, waits: Waits, body: Stop | None = None) -> LoopView:
    """What reads is given up, a write that has begun is let end, and what was done stands. A loop that has ended stays as it is."""
    handle = await _steer(context, acting, loop_id)
    await handle.stop("" if body is None else body.reason)
    return await waits.for_end(acting.scope, handle)


@router.post(
    "/loops/{loop_id}/question",
    responses={**_UNKNOWN, 504: {"description": "No answer in time"}},
    summary="Ask about a loop",
)
async def question_loop(acting: Reader, context: Context, loop_id: LoopId, body: Said) -> SideAnswer:
    """How far it is, or afterwards how it came to its answer. Answered beside the loop, which does not notice."""
    await _loop(context, acting, loop_id)
    handle = await context.memory.knowledge.attach(acting.scope, loop_id)
    try:
        return SideAnswer(loop_id=loop_id, answer=await handle.ask(body.text, timeout_s=QUESTION_S))
    except TimeoutError:
        raise ApiError(504, "too-slow", f"no answer within {QUESTION_S:g} s; does a worker run?") from None


@router.post("/loops/{loop_id}/answers/{clarification_id:path}", status_code=204, responses=_STEERED, summary="Answer a loop")
async def answer_loop(
    acting: Reader,
    context: Context,
    loop_id: LoopId,
    clarification_id: Annotated[str, Path(max_length=255, description="of the question", examples=["clarification/3/0"])],
    body: Said,
) -> None:
    """The answer to a question that the loop waits with; the first one counts."""
    await (await _steer(context, acting, loop_id)).answer_clarification(clarification_id, body.text)


# -------------------------------------------------------------------------------------------------------------------- parts


async def _loop(context: ApiContext, acting: Acting, loop_id: str) -> Loop:
    """Whether somebody else has a loop of this id is told to nobody."""
    found = await context.memory.knowledge.loop(acting.scope, loop_id)
    if found is None:
        raise NotFound("there is no such loop of this user")
    return found


async def _steer(context: ApiContext, acting: Acting, loop_id: str) -> SteerableHandle:
    """The handle of a loop that the caller might have begun: who may only read steers what only reads."""
    loop = await _loop(context, acting, loop_id)
    if loop.operation.writes and Permission.WRITE not in acting.principal.permissions:
        raise Forbidden("this loop writes, and this token may only read")
    return await context.memory.knowledge.attach(acting.scope, loop_id)
