"""Memory roots of the company: where its profiles lie, and what to do where several clash."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Path
from pydantic import BaseModel, Field

from api.auth.access import Administrator
from api.context import ApiContext, Context
from api.problems import Problem
from api.routing import make_router
from memory.model.directory import MemoryRoot
from memory.model.errors import MemoryUnavailable
from starter.roots import active_of

MAX_ASKED: Final = 20
"""Roots of which the object store is asked whether they are empty."""
FOLDER: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"

Folder = Annotated[str, Field(pattern=FOLDER, description="letters, digits, - and _", examples=["user-memory"])]
FolderPath = Annotated[str, Path(pattern=FOLDER, examples=["user-memory"])]

router = make_router("admin")


class Clash(BaseModel):
    """Several active roots. Memory is off for the whole company until one of them is left."""

    folders: list[str] = Field(examples=[["user-memory", "team-memory"]])
    message: str
    remedy: str


def clash_of(roots: Sequence[MemoryRoot]) -> Clash | None:
    active = active_of(roots)
    if len(active) < 2:
        return None
    return Clash(
        folders=list(active),
        message=f"the company has {len(active)} active memory roots, so memory is off for everybody: {', '.join(active)}",
        remedy="keep the root that holds the profiles, and rename or remove the others; nothing is deleted by that",
    )


class Root(BaseModel):
    folder: str = Field(examples=["user-memory"])
    active: bool = Field(description="a removed root stays in the list")
    has_profiles: bool | None = Field(
        description="whether the object store has anything under it; null: not asked, or the store is away"
    )


class Roots(BaseModel):
    items: list[Root]
    clash: Clash | None


class NewRoot(BaseModel):
    folder: Folder = "user-memory"


class NewName(BaseModel):
    new_folder: Folder = Field(examples=["team-memory"])


@router.get("/admin/roots")
async def admin_roots(context: Context, principal: Administrator) -> Roots:
    """The roots of the company. There should be exactly one active one, or none before memory is first used."""
    return await _roots(context, principal.tenant)


@router.post("/admin/roots", responses={409: {"model": Problem, "description": "Another root is active"}})
async def admin_provision_root(context: Context, principal: Administrator, body: NewRoot) -> Roots:
    """Make a root, or make a removed one active again. The same again changes nothing.

    Refused (409) where another root is active: two of them would switch memory off. Saving a space's settings does it as well.
    """
    await context.memory.roots.provision(principal.tenant, body.folder)
    return await _roots(context, principal.tenant)


@router.post("/admin/roots/{folder}/rename")
async def admin_rename_root(context: Context, principal: Administrator, folder: FolderPath, body: NewName) -> Roots:
    """Rename the record of a root. Of several active ones it is set aside by that; to the name of another one, both become one.

    Nothing is moved in the object store, so the only active root can be renamed while no profile lies under it.
    """
    await context.memory.roots.rename(principal.tenant, folder, body.new_folder)
    return await _roots(context, principal.tenant)


@router.delete("/admin/roots/{folder}")
async def admin_remove_root(context: Context, principal: Administrator, folder: FolderPath) -> Roots:
    """Take a root out of use. Spaces that name it fall back to the company's one; nothing is deleted from the object store.

    The only active root can be removed while no profile lies under it.
    """
    await context.memory.roots.remove(principal.tenant, folder)
    return await _roots(context, principal.tenant)


async def _roots(context: ApiContext, tenant: str) -> Roots:
    found = await context.memory.roots.list(tenant)
    used = await asyncio.gather(*(_has_profiles(context, tenant, root) for root in found[:MAX_ASKED]))
    used += [None] * (len(found) - len(used))
    return Roots(
        items=[Root(folder=root.folder, active=root.active, has_profiles=has) for root, has in zip(found, used, strict=True)],
        clash=clash_of(found),
    )


async def _has_profiles(context: ApiContext, tenant: str, root: MemoryRoot) -> bool | None:
    try:
        return not await context.memory.roots.is_unused(tenant, root.folder)
    except MemoryUnavailable:
        return None
