"""The user's rights to their data: take all of it along, delete all of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from fastapi import Response
from fastapi.responses import StreamingResponse

from api.auth.access import Forgetter, Reader
from api.context import Context
from api.problems import ApiError, NotFound, Problem
from api.routing import ItemPath, make_router
from api.schemas.data import Erasures, ErasureView, ForgetGiven

router = make_router("data")

CONFIRMATION: Final = "delete everything"
MAX_RECEIPTS: Final = 1_000


@router.get(
    "/export",
    summary="Export everything",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A zip archive, written while it is sent",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        },
        409: {"model": Problem, "description": "Everything is being deleted"},
    },
)
async def export_everything(context: Context, acting: Forgetter) -> StreamingResponse:
    """The profile with its versions as Markdown; facts, contacts, tasks and all else as JSON and, to read, as Markdown."""
    pieces = context.memory.export(acting.scope)
    # What is wrong from the beginning is an error, and not an archive that breaks off.
    first = await anext(pieces, b"")

    async def sent() -> AsyncGenerator[bytes]:
        async with aclosing(pieces):
            yield first
            async for piece in pieces:
                yield piece

    name = f"memory-{datetime.now(UTC):%Y-%m-%d}.zip"
    return StreamingResponse(
        sent(), media_type="application/zip", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


@router.post("/forget", summary="Delete everything", status_code=202)
async def forget_everything(context: Context, acting: Forgetter, given: ForgetGiven, response: Response) -> ErasureView:
    """The profile with all its versions, facts, contacts, tasks, messages, tables, loops, usage, the preference, and what runs.

    It cannot be undone. It begins at once: from now on nothing of the user is recorded until it is done. While one is under way
    that one is the answer. What a user's teams know stays: it is theirs.
    """
    if " ".join(given.confirm.casefold().split()) != CONFIRMATION:
        raise ApiError(422, "not-confirmed", f'nothing was deleted: to delete everything, send {{"confirm": "{CONFIRMATION}"}}')
    by = "the user" if acting.principal.subject is not None else "a service of the company"
    erasure = await context.memory.forget(acting.scope, requested_by=by)
    response.headers["Location"] = f"/v1/forget/{erasure.erasure_id}"
    return ErasureView.of(erasure)


@router.get("/forget", summary="List erasures")
async def list_erasures(context: Context, acting: Reader) -> Erasures:
    """Receipts of what was deleted of this user, newest first."""
    return Erasures(items=[ErasureView.of(one) for one in await context.memory.erasures(acting.scope, limit=MAX_RECEIPTS)])


@router.get("/forget/{erasure_id}", summary="Read the receipt of an erasure")
async def get_erasure(context: Context, acting: Reader, erasure_id: ItemPath) -> ErasureView:
    """How far it is, and what was deleted. Only the user whose it is, or was, may read it."""
    known = await context.memory.erasures(acting.scope, limit=MAX_RECEIPTS)
    found = next((one for one in known if one.erasure_id == erasure_id), None)
    if found is None:
        raise NotFound("there is no such erasure")
    return ErasureView.of(found)
