"""Who may see a page. Somebody who has not signed in is sent to sign in and comes back."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from api.auth.access import GUARDS, authenticated
from api.context import Context
from api.problems import Forbidden, Unauthenticated
from memory.model.access import Permission, Principal

LOGIN: Final = "/login"


class SignInNeeded(Exception):
    """``next_path``: of this server, where to come back to."""

    def __init__(self, next_path: str) -> None:
        super().__init__("sign in first")
        self.next_path = next_path


async def page_reader(request: Request, context: Context) -> Principal:
    """A person who may see their own memory. Raises SignInNeeded, Forbidden."""
    principal = await page_person(request, context)
    if Permission.READ not in principal.permissions:
        raise Forbidden("this account may not read memory")
    return principal


async def page_person(request: Request, context: Context) -> Principal:
    """Somebody who has signed in; what of the page is for them, its route says. Raises SignInNeeded, Forbidden."""
    try:
        principal = await authenticated(request, context)
    except Unauthenticated:
        raise SignInNeeded(request.url.path) from None
    if principal.subject is None:
        raise Forbidden("the pages are for people; a service uses /v1")
    return principal


GUARDS.update({page_person, page_reader})

PagePerson = Annotated[Principal, Depends(page_person)]
PageReader = Annotated[Principal, Depends(page_reader)]


def install(app: FastAPI) -> None:
    async def to_login(request: Request, error: Exception) -> Response:
        assert isinstance(error, SignInNeeded)  # noqa: S101
        return RedirectResponse(
            f"{request.scope.get('root_path', '')}{LOGIN}?next={quote(error.next_path, safe='/')}",
            status_code=303,
            headers={"Cache-Control": "no-store"},
        )

    app.add_exception_handler(SignInNeeded, to_login)
