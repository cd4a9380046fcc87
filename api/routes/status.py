"""Is memory on, where does it stand, what does the space say."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from api.auth.access import Reader
from api.context import Context
from api.routing import Space, make_router
from api.schemas.account import EnablementView, SettingsView, StatusView

router = make_router("status")

MAX_WAIT_S = 60.0


@router.get("/status", summary="Say where the user's memory stands")
async def get_status(
    context: Context,
    acting: Reader,
    space: Space = "default",
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="wait so many seconds until nothing waits or runs")] = 0.0,
) -> StatusView:
    """What runs, what waits, the last turns, the profile's version. What cannot be read is named, and does not hide the rest."""
    if wait_s > 0:
        await context.memory.wait_until_idle(acting.scope, timeout_s=wait_s)
    return StatusView.of(await context.memory.status(acting.scope, space_id=space))


@router.get("/enablement", summary="Say whether memory is on")
async def get_enablement(
    context: Context,
    acting: Reader,
    space: Space = "default",
    allow_user_memory: Annotated[bool, Query(description="the caller's consent")] = True,
    web_search: Annotated[bool | None, Query(description="whether the turn searches the web; else as the space says")] = None,
) -> EnablementView:
    """And if not, every reason why, with who can do what about it."""
    return EnablementView.of(
        await context.memory.enablement(acting.scope, space_id=space, allow_user_memory=allow_user_memory, web_search=web_search)
    )


@router.get("/settings", summary="Read the settings of a space")
async def get_settings(context: Context, acting: Reader, space: Space = "default") -> SettingsView:
    """Those that a user may want to know; where nothing is stored, the defaults. Administrators change them."""
    return SettingsView.of((await context.directory.facts(acting.scope, space)).space)
