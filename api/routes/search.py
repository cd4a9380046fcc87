"""One search over everything that is remembered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.auth.access import Reader
from api.context import Context
from api.routing import Words, make_router
from api.schemas.base import Given, Shown, example
from starter.search_all import MAX_LIMIT, FoundKind

router = make_router("search")


class EverythingGiven(Given):
    query: Words
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description="hits of each kind")] = 20

    model_config = example({"query": "Globex"})


class FoundItemView(Shown):
    """`item_id`: of its kind, as the other routes take it; of a bullet of the profile its section and place."""

    kind: FoundKind
    item_id: str
    text: str
    title: str | None = Field(description="what it stands under: a section, a subject, a name")
    at: datetime | None = Field(description="when it was said, or written down")
    sender_id: str | None = Field(description="of a message")
    by_words: bool = Field(description="it shares a word with the query; else it is near by meaning")
    score: float = Field(description="only for comparing within one kind of one answer")


class FoundEverywhereView(Shown):
    """By kind, the best first."""

    items: list[FoundItemView]
    unavailable: dict[str, str] = Field(description="by kind, why it was not searched")


@router.post("/search", summary="Search everything")
async def search_everything(context: Context, acting: Reader, wanted: EverythingGiven) -> FoundEverywhereView:
    """The profile, facts, contacts, tasks, guidance, functions and messages, in one answer. What cannot be searched is named."""
    found = await context.memory.search_all(acting.scope, wanted.query, limit=wanted.limit)
    return FoundEverywhereView(
        items=[
            FoundItemView(
                kind=one.kind,
                item_id=one.item_id,
                text=one.text,
                title=one.title,
                at=one.at,
                sender_id=one.sender_id,
                by_words=one.by_words,
                score=one.score,
            )
            for one in found.items
        ],
        unavailable=found.unavailable,
    )
