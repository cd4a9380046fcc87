"""What the user chose, and the teams that the user is in."""

from __future__ import annotations

from api.auth.access import Reader, Writer
from api.context import Context
from api.routing import make_router
from api.schemas.account import Preference, Teams

router = make_router("preference")


@router.get("/preference", summary="Read the user's choice")
async def get_preference(context: Context, acting: Reader) -> Preference:
    """Whether the user allows memory, in all spaces; a user who never chose does."""
    return Preference(allow_user_memory=(await context.directory.facts(acting.scope, "default")).user_allows)


@router.put("/preference", summary="Set the user's choice")
async def set_preference(context: Context, acting: Writer, given: Preference) -> Preference:
    """Opting out stops loading and updating in every space at once. It deletes nothing: what was stored is kept."""
    await context.memory.set_preference(acting.scope, allow_user_memory=given.allow_user_memory)
    return given


@router.get("/teams", summary="List the user's teams")
async def list_teams(context: Context, acting: Reader) -> Teams:
    """As the directory has them; at most 1,000."""
    return Teams(items=list(await context.memory.teams(acting.scope)))
