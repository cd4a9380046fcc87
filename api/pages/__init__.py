"""The pages for people: a shell rendered on the server, and ES modules that call ``/v1`` with the session's cookie.

``install(app)`` adds them all. A page is a template in ``templates``, a router in a module of its own (in ``ROUTERS``), and what it
needs in ``static``; nothing is loaded from other hosts, and there is no inline script or style.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from api.pages import access, admin, assets, settings

ROUTERS: tuple[APIRouter, ...] = (settings.router, admin.router)


def install(app: FastAPI) -> None:
    """Mount the pages and their assets."""
    access.install(app)
    app.include_router(assets.router, include_in_schema=False)
    for router in ROUTERS:
        app.include_router(router, include_in_schema=False)
