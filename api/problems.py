"""Errors as ``application/problem+json`` (RFC 9457): what is wrong and what to do; no text of a user, no secret."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from api.answers import Json
from memory.model.errors import (
    AfterturnError,
    BeingForgotten,
    FolderInUse,
    InvalidInput,
    InvalidSettings,
    LoopEnded,
    MemoryUnavailable,
    ModelError,
    NotPermitted,
    ProfileConflict,
    RootClash,
    SpendCapReached,
)
from starter.faults import fault

PROBLEM_JSON: Final = "application/problem+json"
MAX_ERRORS: Final = 20

_log = logging.getLogger(__name__)


class Problem(BaseModel):
    """The body of every error."""

    type: str = Field(description="what kind of error, as a name that stays the same", examples=["/problems/invalid-input"])
    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(description="what is wrong and what to do", examples=["the user id is empty"])
    errors: list[dict[str, Any]] | None = Field(default=None, description="where a body or parameter is not valid, and why")


class ApiError(Exception):
    """An error of the API itself. ``headers`` go with the answer, ``extra`` into the body."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})


class Unauthenticated(ApiError):
    """No proof of who is asking, or one that does not hold."""

    def __init__(self, detail: str, *, error: str | None = None) -> None:
        challenge = 'Bearer realm="afterturn"' + (f', error="{error}"' if error else "")
        super().__init__(401, "unauthenticated", detail, headers={"WWW-Authenticate": challenge})


class Forbidden(ApiError):
    def __init__(self, detail: str) -> None:
        super().__init__(403, "forbidden", detail)


class NotFound(ApiError):
    def __init__(self, detail: str) -> None:
        super().__init__(404, "not-found", detail)


class TooMany(ApiError):
    def __init__(self, detail: str, *, retry_after_s: float, headers: Mapping[str, str] | None = None) -> None:
        wait = {"Retry-After": str(max(1, round(retry_after_s)))}
        super().__init__(429, "too-many-requests", detail, headers={**(headers or {}), **wait})


STATUSES: Final[tuple[tuple[type[AfterturnError], int, str], ...]] = (
    (LoopEnded, 409, "loop-ended"),
    (SpendCapReached, 429, "spend-cap-reached"),
    (BeingForgotten, 409, "being-forgotten"),
    (InvalidInput, 400, "invalid-input"),
    (NotPermitted, 403, "forbidden"),
    (ProfileConflict, 412, "profile-conflict"),
    (RootClash, 409, "root-clash"),
    (MemoryUnavailable, 503, "unavailable"),
    (FolderInUse, 503, "unavailable"),
    (InvalidSettings, 500, "misconfigured"),
    (ModelError, 502, "model-error"),
)
"""The first that fits counts."""


def problem(
    status: int, kind: str, detail: str, *, headers: Mapping[str, str] | None = None, extra: Mapping[str, Any] | None = None
) -> JSONResponse:
    body = {"type": f"/problems/{kind}", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **(extra or {})}
    given = dict(headers or {})
    if status == 503:
        given.setdefault("Retry-After", "2")
    return Json(body, status, headers=given, media_type=PROBLEM_JSON)


def of_error(error: AfterturnError) -> JSONResponse:
    status, kind = next(((status, kind) for cls, status, kind in STATUSES if isinstance(error, cls)), (500, "error"))
    return problem(status, kind, error.message)


def install(app: FastAPI) -> None:
    """Have every error of the application answered in this form."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, AfterturnError)  # noqa: S101
        return of_error(error)

    async def api(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ApiError)  # noqa: S101
        return problem(error.status, error.kind, error.detail, headers=error.headers, extra=error.extra)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        # What was sent is not told back: it may be a user's text.
        found = [
            {"where": [str(part) for part in one["loc"]], "what": str(one["msg"])[:200]} for one in error.errors()[:MAX_ERRORS]
        ]
        first = f"{'.'.join(found[0]['where'])}: {found[0]['what']}" if found else "the request is not valid"
        return problem(422, "invalid-request", first, extra={"errors": found})

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # noqa: S101
        kind = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http")
        return problem(error.status_code, kind, str(error.detail)[:500], headers=error.headers)

    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        route = getattr(request.scope.get("route"), "path", "?")
        _log.error("%s %s failed: %s", request.method, route, fault(error))
        return problem(500, "error", "a fault of this program; its log has more")

    app.add_exception_handler(AfterturnError, ours)
    app.add_exception_handler(ApiError, api)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unforeseen)


RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": Problem, "description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: {}}}
    for status in (400, 401, 403, 404, 409, 422, 429, 503)
}
"""What every route may answer beside its own; for the OpenAPI document."""
