"""The pages around a sign-in: ``/login``, ``/login/callback``, ``/logout`` and ``/signed-out``."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from api.auth import local
from api.auth.paths import NextPath, home, local_path
from api.auth.sessions import CSRF_HEADER
from api.auth.setup import Access
from api.auth.sign_in import SignInFailed
from api.context import Context
from api.pages.assets import asset_url
from api.pages.rendering import environment
from api.problems import ApiError
from memory.model.errors import AfterturnError

router = APIRouter()


@router.get("/login")
async def login(request: Request, context: Context, next_path: NextPath = None) -> Response:
    """Off to the issuer, and back to ``next``."""
    access = context.access
    if access.sign_in is None:
        return _told(request, "Signing in is not set up here", access.missing, status=503)
    try:
        address, cookie = await access.sign_in.begin(local_path(next_path, home(request)))
    except (ApiError, AfterturnError) as error:
        return _failed(request, error, next_path)
    answer = RedirectResponse(address, 303)
    answer.headers.append("Set-Cookie", cookie)
    return answer


@router.get("/login/callback")
async def login_callback(request: Request, context: Context) -> Response:
    """Where the issuer sends people back to."""
    access = context.access
    if access.sign_in is None or access.sessions is None:
        return _told(request, "Signing in is not set up here", access.missing, status=503)
    try:
        principal, next_path = await access.sign_in.finish(request)
        answer = access.signed_in(principal, local_path(next_path, home(request)))
    except (ApiError, AfterturnError) as error:
        answer = _failed(request, error, None)
    answer.headers.append("Set-Cookie", access.sign_in.clear())
    return answer


@router.post("/logout")
async def logout(request: Request, context: Context, csrf: Annotated[str | None, Form(max_length=200)] = None) -> Response:
    """End the session of this browser. A form says the session's CSRF token in ``csrf``, a script in its header."""
    sessions = context.access.sessions
    answer = RedirectResponse(f"{request.scope.get('root_path', '')}/signed-out", 303)
    if sessions is not None and (principal := sessions.read(request)) is not None:
        sessions.check_origin(request)
        sessions.check_csrf(principal, csrf or request.headers.get(CSRF_HEADER))
        answer.headers.append("Set-Cookie", sessions.end())
    return answer


@router.get("/signed-out")
async def signed_out(request: Request) -> Response:
    detail = "You are signed out of Context Memory in this browser. At your identity provider you may still be signed in."
    return _told(request, "Signed out", detail, again=_again(request, None))


def install(app: FastAPI) -> None:
    """Add the pages, and in `afterturn dev` its issuer."""
    access: Access = app.state.context.access
    app.include_router(router, include_in_schema=False)
    if access.local is not None:
        app.include_router(local.router(access.local), include_in_schema=False)

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, SignInFailed)  # noqa: S101
        return _failed(request, error, None)

    app.add_exception_handler(SignInFailed, failed)


def _again(request: Request, next_path: str | None) -> str:
    query = f"?next={quote(local_path(next_path, home(request)), safe='/')}"
    return f"{request.scope.get('root_path', '')}/login{query}"


def _failed(request: Request, error: ApiError | AfterturnError, next_path: str | None) -> Response:
    status = error.status if isinstance(error, ApiError) else 503
    detail = error.detail if isinstance(error, ApiError) else error.message
    return _told(request, "You are not signed in", detail, status=status, again=_again(request, next_path))


def _told(request: Request, title: str, detail: str, *, status: int = 200, again: str | None = None) -> Response:
    values: dict[str, Any] = {
        "title": title,
        "detail": detail[:1].upper() + detail[1:],
        "again": again,
        "asset": lambda path: asset_url(request, path),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    }
    return HTMLResponse(environment().get_template("sign_in.html").render(values), status)
