"""Notices for a chat front end: that memory is being loaded or updated, and that it is done."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated, Final

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from api.auth.access import Reader
from api.context import Context
from api.notice_hub import NoticeHub
from api.routing import make_router
from api.streams import Event, EventStream, LastEventId, OpenStreams, last_number, responses
from memory.model.scope import Scope
from memory.ports.service import BoxedNotice, NoticeBox
from memory.stores.notices import notice_payload

PAGE: Final = 500
MAX_PAGES: Final = 100
"""Notices are kept for hours: nobody has more of them."""

router = make_router("notices")

_EXAMPLE: Final = (
    "retry: 2000\n\nevent: listening\ndata: {}\nid: 41\n\n"
    'event: notice\ndata: {"notice_id":"…","key":"…","step":"updating_started","text":"🧠 Updating context memory…",…}\nid: 42\n\n'
)


class NoticeView(BaseModel):
    """A step that a front end can show. No text of the user is in it."""

    number: int = Field(description="counts up; the id of its event", examples=[42])
    notice_id: str = Field(description="joins the steps of one piece of work: what `…_started` shows, the others end")
    key: str = Field(description="of this step; the same key again is a repeat")
    step: str = Field(examples=["updating_started"])
    tenant_id: str
    user_id: str
    conversation_ids: list[str]
    turn_ids: list[str]
    text: str = Field(examples=["🧠 Updating context memory…"])
    at: datetime
    expires_at: datetime | None = Field(description="a front end removes it by itself then")
    outcome: str | None
    review_url: str | None


class Notices(BaseModel):
    items: list[NoticeView]
    last: int = Field(description="number of the newest one here: `after` of the stream that goes on from here")


@router.get("/notices/recent", summary="The last notices")
async def recent_notices(
    acting: Reader,
    context: Context,
    after: Annotated[int, Query(ge=0, le=2**53, description="only those beyond this number")] = 0,
    limit: Annotated[int, Query(ge=1, le=500, description="at most this many, the newest")] = 50,
) -> Notices:
    """The acting user's newest notices, oldest first, for a front end that cannot keep a stream open."""
    kept: deque[BoxedNotice] = deque(maxlen=limit)
    position = after
    for _ in range(MAX_PAGES):
        page = await context.box.of_user(acting.scope, after=position, limit=PAGE)
        kept.extend(page)
        if len(page) < PAGE:
            break
        position = page[-1].number
    items = [NoticeView(number=one.number, **notice_payload(one.notice)) for one in kept]
    return Notices(items=items, last=kept[-1].number if kept else after)


@router.get(
    "/notices",
    response_class=Response,
    responses=responses("The acting user's notices as they come", _EXAMPLE),
    summary="Watch notices",
)
async def stream_notices(
    request: Request,
    acting: Reader,
    context: Context,
    streams: OpenStreams,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="begin beyond this number: `last` of the recent ones")] = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Server-sent events: `listening` once nothing is missed any more, then a `notice` for each step of loading and updating. Its
    data are those of the webhook.

    A client that comes back with `Last-Event-ID` gets what it missed. One that does not keep up gets `again`, and the stream ends:
    it comes back then. A stream ends after 15 minutes at the latest.
    """
    seen = last_number(last_event_id)
    begin = after if seen is None else seen
    hub: NoticeHub = request.app.state.notices
    return EventStream(streams, _notices(hub, context.box, acting.scope, begin))


async def _notices(hub: NoticeHub, box: NoticeBox, scope: Scope, after: int | None) -> AsyncGenerator[Event]:
    # Before listening begins, so that a client that is cut off before its first notice can come back to this point.
    position = await box.last_number() if after is None else after
    async with hub.listening(scope) as listener:
        yield Event("listening", {}, str(position))
        sent: set[int] = set()
        while page := await box.of_user(scope, after=position, limit=PAGE):
            for boxed in page:
                sent.add(boxed.number)
                yield _event(boxed)
            position = page[-1].number
        while (boxed := await listener.next()) is not None:
            if boxed.number not in sent:
                yield _event(boxed)
        yield Event("again", {"detail": "more notices than were read: come back with Last-Event-ID, nothing is lost"})


def _event(boxed: BoxedNotice) -> Event:
    return Event("notice", notice_payload(boxed.notice), str(boxed.number))
