"""The messages that quotes come from: who said it, when, and the words around it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field

from api.auth.access import Reader
from api.context import Context
from api.routing import MAX_NUMBER, make_router
from api.schemas.base import Shown
from api.schemas.events import EventView

router = make_router("events")

MAX_EVENTS_READ = 100


class Events(Shown):
    """In the order of the user's log. What is not there (any more) is left out."""

    items: list[EventView]


@router.get("/events", summary="Read events by their numbers")
async def get_events(
    context: Context,
    acting: Reader,
    seq: Annotated[
        list[Annotated[int, Field(ge=1, le=MAX_NUMBER)]],
        Query(min_length=1, max_length=MAX_EVENTS_READ, description="`seq` of a source", examples=[[17]]),
    ],
) -> Events:
    """What the sources of facts, contacts and tasks point to."""
    found = await context.ledger.events_by_seq(acting.scope, sorted(set(seq)))
    return Events(items=[EventView.of(one) for one in found])
