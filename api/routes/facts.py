"""What is known: statements with their sources and their history."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query

from api.auth.access import Acting, Reader, Writer
from api.context import ApiContext, Context
from api.problems import NotFound
from api.routing import (
    Cursor,
    IdempotencyKey,
    ItemPath,
    Limit,
    Moment,
    Team,
    make_router,
    page_of,
    position_cursor,
    position_of,
    request_id,
)
from api.schemas.base import Forgotten, IdsGiven
from api.schemas.records import (
    AddedFact,
    AddedFacts,
    FactHistory,
    FactPage,
    FactsFilterGiven,
    FactsGiven,
    FactsSearchGiven,
    FactView,
    FoundFact,
    FoundFacts,
)
from memory.model.fact import FactKind, FactStatus

router = make_router("facts")


@router.get("/facts", summary="List facts")
async def list_facts(
    context: Context,
    acting: Reader,
    statuses: Annotated[list[FactStatus] | None, Query(max_length=3, description="default: active; not with `as_of`")] = None,
    kinds: Annotated[list[FactKind] | None, Query(max_length=7, description="only of these kinds")] = None,
    as_of: Annotated[Moment | None, Query(description="those that held at that time, whatever became of them since")] = None,
    sources: Annotated[bool, Query(description="with the quotes that they rest on")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> FactPage:
    """The user's own facts and those of the user's teams, newest first."""
    return await _page(context, acting, statuses or [FactStatus.ACTIVE], kinds, None, as_of, sources, limit, cursor)


@router.post("/facts/filter", summary="List facts of a subject")
async def filter_facts(context: Context, acting: Reader, wanted: FactsFilterGiven) -> FactPage:
    """As the list, with the subject too: what is of a user is in the body, not in the address."""
    return await _page(
        context,
        acting,
        wanted.statuses,
        wanted.kinds,
        wanted.subject,
        wanted.as_of,
        wanted.sources,
        wanted.limit,
        wanted.cursor,
    )


async def _page(
    context: ApiContext,
    acting: Acting,
    statuses: list[FactStatus],
    kinds: list[FactKind] | None,
    subject: str | None,
    as_of: datetime | None,
    sources: bool,
    limit: int,
    cursor: str | None,
) -> FactPage:
    found = await context.memory.facts(
        acting.scope,
        statuses=statuses,
        kinds=kinds or None,
        subject=subject,
        as_of=as_of,
        sources=sources,
        limit=limit + 1,
        after=position_of(cursor, "facts"),
    )
    page, last = page_of(found, limit)
    return FactPage(
        items=[FactView.of(fact, sources=sources) for fact in page],
        next=None if last is None else position_cursor("facts", last.created_at, last.fact_id),
    )


@router.post("/facts/search", summary="Search facts")
async def search_facts(context: Context, acting: Reader, wanted: FactsSearchGiven) -> FoundFacts:
    """Active facts that fit, best first, by meaning and by words. What was written a moment ago is found."""
    found = await context.memory.search_facts(
        acting.scope, wanted.query, limit=wanted.limit, kinds=wanted.kinds, as_of=wanted.as_of, sources=wanted.sources
    )
    return FoundFacts(
        items=[FoundFact(fact=FactView.of(one.fact, sources=wanted.sources), score=one.score, why=one.why) for one in found]
    )


@router.post("/facts", summary="Add or correct facts")
async def add_facts(context: Context, acting: Writer, given: FactsGiven, key: IdempotencyKey = None) -> AddedFacts:
    """Keep what a person states; its source is `manual`. Secrets in it are redacted.

    A statement that is known is confirmed, not added again. To correct a fact, name it in `supersedes`: it ends with the new one
    and stays in the history. With an `Idempotency-Key` the same body again is the same call.
    """
    added = await context.memory.add_facts(
        acting.scope,
        [one.model_dump() for one in given.facts],
        team=given.team,
        request_id=request_id(key, "add", given),
    )
    return AddedFacts(
        items=[AddedFact(fact=FactView.of(one.fact, sources=False), did=one.did, superseded=list(one.superseded)) for one in added]
    )


@router.post("/facts/forget", summary="Forget facts")
async def forget_facts(context: Context, acting: Writer, given: IdsGiven) -> Forgotten:
    """Remove facts with their text and sources for good. Unknown ones and those of others are left alone."""
    return Forgotten(forgotten=await context.memory.forget_facts(acting.scope, given.ids, team=given.team))


@router.get("/facts/{fact_id}", summary="Read a fact with its history")
async def get_fact(context: Context, acting: Reader, fact_id: ItemPath) -> FactHistory:
    """The fact with its sources, and the statements that it took the place of or that took its place."""
    chain = [FactView.of(fact, sources=True) for fact in await context.memory.fact_history(acting.scope, fact_id)]
    found = next((fact for fact in chain if fact.fact_id == fact_id), None)
    if found is None:
        raise NotFound("there is no such fact")
    return FactHistory(fact=found, history=chain)


@router.delete("/facts/{fact_id}", summary="Forget a fact")
async def forget_fact(context: Context, acting: Writer, fact_id: ItemPath, team: Team = None) -> Forgotten:
    """Remove it with its text and sources for good. One that is gone already counts as 0, so the call may be repeated."""
    return Forgotten(forgotten=await context.memory.forget_facts(acting.scope, [fact_id], team=team))
