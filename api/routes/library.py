"""What is kept apart from facts: how things are done (guidance), and functions (stored, never run)."""

from __future__ import annotations

from api.auth.access import Reader, Writer
from api.context import Context
from api.problems import NotFound
from api.routing import Cursor, ItemPath, Limit, Team, make_router, page_of, position_cursor, position_of
from api.schemas.base import Forgotten
from api.schemas.library import (
    FoundFunction,
    FoundFunctions,
    FoundGuidance,
    FoundGuidances,
    FunctionGiven,
    FunctionPage,
    FunctionView,
    GuidanceGiven,
    GuidancePage,
    GuidanceView,
)
from api.schemas.records import WordsGiven

router = make_router("library")

# ----------------------------------------------------------------------------------------------------------------- guidance


@router.get("/guidance", summary="List guidance")
async def list_guidance(context: Context, acting: Reader, limit: Limit = 50, cursor: Cursor = None) -> GuidancePage:
    """The user's own entries and those of the user's teams, newest first."""
    found = await context.memory.guidance.list(acting.scope, limit=limit + 1, after=position_of(cursor, "guidance"))
    page, last = page_of(found, limit)
    return GuidancePage(
        items=[GuidanceView.of(entry) for entry in page],
        next=None if last is None else position_cursor("guidance", last.created_at, last.guidance_id),
    )


@router.post("/guidance", summary="Add guidance")
async def add_guidance(context: Context, acting: Writer, given: GuidanceGiven) -> GuidanceView:
    """Keep a how-to; the same title again replaces its content, so the call may be repeated."""
    return GuidanceView.of(
        await context.memory.guidance.add(acting.scope, given.title, given.content, tags=given.tags, team=given.team)
    )


@router.post("/guidance/search", summary="Search guidance")
async def search_guidance(context: Context, acting: Reader, wanted: WordsGiven) -> FoundGuidances:
    """Entries that fit, best first."""
    found = await context.memory.guidance.search(acting.scope, wanted.query, limit=wanted.limit)
    return FoundGuidances(items=[FoundGuidance(guidance=GuidanceView.of(one.guidance), score=one.score) for one in found])


@router.get("/guidance/{guidance_id}", summary="Read guidance")
async def get_guidance(context: Context, acting: Reader, guidance_id: ItemPath) -> GuidanceView:
    """One entry."""
    found = await context.memory.guidance.get(acting.scope, guidance_id)
    if found is None:
        raise NotFound("there is no such guidance")
    return GuidanceView.of(found)


@router.delete("/guidance/{guidance_id}", summary="Forget guidance")
async def forget_guidance(context: Context, acting: Writer, guidance_id: ItemPath, team: Team = None) -> Forgotten:
    """Remove it for good. One that is gone already counts as 0."""
    return Forgotten(forgotten=await context.memory.guidance.forget(acting.scope, guidance_id, team=team))


# ---------------------------------------------------------------------------------------------------------------- functions


@router.get("/functions", summary="List functions")
async def list_functions(context: Context, acting: Reader, limit: Limit = 50, cursor: Cursor = None) -> FunctionPage:
    """The user's own functions and those of the user's teams, newest first."""
    found = await context.memory.functions.list(acting.scope, limit=limit + 1, after=position_of(cursor, "functions"))
    page, last = page_of(found, limit)
    return FunctionPage(
        items=[FunctionView.of(entry) for entry in page],
        next=None if last is None else position_cursor("functions", last.created_at, last.function_id),
    )


@router.post("/functions", summary="Add a function")
async def add_function(context: Context, acting: Writer, given: FunctionGiven) -> FunctionView:
    """Keep a function; the same name again replaces it, so the call may be repeated. It is never run here."""
    return FunctionView.of(
        await context.memory.functions.add(
            acting.scope,
            given.name,
            given.source,
            docstring=given.docstring,
            dependencies=given.dependencies,
            team=given.team,
        )
    )


@router.post("/functions/search", summary="Search functions")
async def search_functions(context: Context, acting: Reader, wanted: WordsGiven) -> FoundFunctions:
    """Functions by their names and docstrings, best first."""
    found = await context.memory.functions.search(acting.scope, wanted.query, limit=wanted.limit)
    return FoundFunctions(items=[FoundFunction(function=FunctionView.of(one.function), score=one.score) for one in found])


@router.get("/functions/{function_id}", summary="Read a function")
async def get_function(context: Context, acting: Reader, function_id: ItemPath) -> FunctionView:
    """One function."""
    found = await context.memory.functions.get(acting.scope, function_id)
    if found is None:
        raise NotFound("there is no such function")
    return FunctionView.of(found)


@router.delete("/functions/{function_id}", summary="Forget a function")
async def forget_function(context: Context, acting: Writer, function_id: ItemPath, team: Team = None) -> Forgotten:
    """Remove it for good. One that is gone already counts as 0."""
    return Forgotten(forgotten=await context.memory.functions.forget(acting.scope, function_id, team=team))
