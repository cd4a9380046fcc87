"""The admin page: the company's flag, spaces, roots, usage, what failed, tokens. Its script reads all of it from ``/v1/admin``."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.pages.access import PagePerson
from api.pages.rendering import page
from memory.model.access import Permission, Role

router = APIRouter()


@router.get("/admin", response_class=HTMLResponse)
async def admin_page(request: Request, principal: PagePerson) -> HTMLResponse:
    """The shell. A person who is no administrator is told so, on a page that has nothing of the company."""
    if Role.ADMIN in principal.roles and Permission.ADMIN in principal.permissions:
        return page(request, "admin.html", principal, current="admin")
    refused = page(request, "admin_refused.html", principal, current="")
    refused.status_code = 403
    return refused
