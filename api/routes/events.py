"""What happened outside of turns: messages on any channel, manager calls. And which store a piece of content belongs to."""

from __future__ import annotations

import asyncio

from fastapi import Response

from api.auth.access import Reader, Writer
from api.context import Context
from api.problems import RESPONSES
from api.routes.turns import check_size, status_of
from api.routing import make_router
from api.schemas.events import (
    ContentGiven,
    EventsGiven,
    EventsReceiptView,
    EventsSearchGiven,
    EventView,
    FoundEvents,
    FoundEventView,
    MessageGiven,
    RouteView,
)

router = make_router("events")


@router.post(
    "/events",
    summary="Record events",
    status_code=202,
    responses={
        200: {"model": EventsReceiptView, "description": "Memory is off (`reasons` says why), or all were known already"},
        413: RESPONSES[400] | {"description": "A message of more than 1 MiB"},
    },
)
async def record_events(context: Context, acting: Writer, given: EventsGiven, response: Response) -> EventsReceiptView:
    """Messages and manager calls, in this order. Contacts, facts and tasks are learned from them in the background.

    Recording a turn feeds the same log: its two messages need not be recorded again. All or none are recorded; the same events
    again are recognised, by their ids or, without ids, by what they say. 503: nothing was recorded.
    """
    for place, event in enumerate(given.events, 1):
        if isinstance(event, MessageGiven):
            check_size(f"event {place}", event.content)
    receipt = await context.memory.record_events(
        acting.scope,
        [event.model_dump(exclude_none=True) for event in given.events],
        space_id=given.space_id,
        allow_user_memory=given.allow_user_memory,
    )
    response.status_code = status_of(receipt, "batch of events")
    return EventsReceiptView.of(receipt)


@router.post("/events/search", summary="Search messages")
async def search_events(context: Context, acting: Reader, wanted: EventsSearchGiven) -> FoundEvents:
    """Recorded messages that fit, each with what was said around it. Nobody else's messages are ever found."""
    found = await context.memory.search_events(
        acting.scope,
        wanted.query,
        contacts=wanted.contacts,
        media=wanted.media,
        since=wanted.since,
        until=wanted.until,
        limit=wanted.limit,
        neighbours=wanted.neighbours,
    )
    return FoundEvents(
        items=[
            FoundEventView(
                event=EventView.of(one.event),
                before=[EventView.of(event) for event in one.before],
                after=[EventView.of(event) for event in one.after],
                score=one.score,
                why=one.why,
            )
            for one in found
        ]
    )


@router.post("/route", summary="Say where content belongs")
async def route_content(context: Context, acting: Reader, given: ContentGiven) -> RouteView:
    """Which store a piece of content belongs to, and why; nothing is stored."""
    # Looking for secrets in a long text takes its time.
    found = await asyncio.to_thread(context.memory.route, given.content)
    return RouteView(store=found.store, reason=found.reason, write_path=found.write_path)
