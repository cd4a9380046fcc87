"""The application: routers, errors, what guards every request."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from api import pages, problems
from api.context import ApiContext
from api.routes import ROUTERS


def create_app(context: ApiContext) -> FastAPI:
    """The whole API over a context. Closing the context is the application's work, at its shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            for close in context.close:
                await close()

    app = FastAPI(
        title="afterturn",
        summary="Durable memory for AI assistants.",
        version=version("afterturn"),
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=lifespan,
        responses=problems.RESPONSES,
    )
    app.state.context = context
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router, prefix="/v1")
    pages.install(app)
    return app
