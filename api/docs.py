"""``/docs``: the API's documentation to read and try, by Swagger UI from this server alone."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.context import Context
from api.pages.assets import asset_url
from api.pages.rendering import environment
from api.problems import NotFound

FILES: Final = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}

router = APIRouter()


@router.get("/docs")
async def documentation(request: Request, context: Context) -> Response:
    """Somebody who is signed in to the pages may try things as themselves; others give a token."""
    sessions = context.access.sessions
    principal = sessions.read(request) if sessions is not None else None
    html = (
        environment()
        .get_template("docs.html")
        .render(
            root=request.scope.get("root_path", ""),
            csrf=(principal.csrf if principal else "") or "",
            asset=lambda path: asset_url(request, path),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        )
    )
    return HTMLResponse(html)


@router.get("/docs/{name}")
async def documentation_file(name: str) -> Response:
    """Swagger UI's own files."""
    media_type = FILES.get(name)
    if media_type is None:
        raise NotFound("there is no such file")
    return Response(_content(name), media_type=media_type, headers={"Cache-Control": "public, max-age=86400"})


@cache
def _content(name: str) -> bytes:
    return (files("fastapi_offline") / "static" / name).read_bytes()
