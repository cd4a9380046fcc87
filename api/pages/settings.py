"""The settings page, "Context Memory": what a person sees, corrects, undoes, takes along and deletes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from api.auth.paths import home
from api.pages.access import PagePerson, PageReader
from api.pages.rendering import page
from memory.model.access import Permission
from memory.model.headings import SECTIONS

router = APIRouter()


@router.get("/")
async def front_page(request: Request, principal: PagePerson) -> RedirectResponse:
    """Whoever types the server's address alone comes to their own page."""
    return RedirectResponse(home(request), 303, headers={"Cache-Control": "no-store"})


@router.get("/settings", response_class=HTMLResponse)
async def settings_page(request: Request, principal: PageReader) -> HTMLResponse:
    """The shell; the memory itself is read by the page's script, so that a store that is away is a state of the page."""
    return page(
        request,
        "settings.html",
        principal,
        current="settings",
        sections=SECTIONS,
        may_write=Permission.WRITE in principal.permissions,
        may_forget=Permission.FORGET in principal.permissions,
    )
