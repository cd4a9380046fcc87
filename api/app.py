"""The application: routers, errors, what guards every request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from api import docs, graphql, openapi, pages, problems, streams
from api.auth import pages as sign_in_pages
from api.auth.setup import base_url
from api.context import ApiContext
from api.headers import Outermost
from api.limits import Admission, BodyLimit
from api.openapi import operation_id
from api.rates import Rates
from api.routes import ROUTERS, health

SLACK_S: Final = 30.0
"""The longest that an answer may take is that of a save in its queue and this much."""


def create_app(context: ApiContext) -> FastAPI:
    """The whole API over a context. Closing the context is the application's work, at its shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        try:
            template({})  # looks through all routes, which the first request would wait for otherwise
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
        # An address is right or not there: a redirect would be to the host that the request names, by http behind a proxy.
        redirect_slashes=False,
        # Its own spans have the address that was asked for, with what is searched for in it; ours have the route.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False},
        lifespan=lifespan,
        responses=problems.RESPONSES,
        generate_unique_id_function=operation_id,
    )
    template = _templates(app)
    settings = context.settings
    app.state.context = context
    app.state.rates = Rates(settings.api_rate_per_minute)
    problems.install(app)
    streams.install(app)
    for router in ROUTERS:
        app.include_router(router, prefix="/v1")
    app.include_router(health.router, include_in_schema=False)
    app.include_router(docs.router, include_in_schema=False)
    sign_in_pages.install(app)
    pages.install(app)
    graphql.install(app)
    # Each goes around those before it.
    app.add_middleware(BodyLimit)
    app.add_middleware(Admission, most=settings.api_max_concurrent, within_s=settings.edit_timeout_s + SLACK_S)
    app.add_middleware(Outermost, template=template, https=base_url(settings).startswith("https:"))
    openapi.install(app)
    return app


def _templates(app: FastAPI) -> Callable[[Mapping[str, Any]], str]:
    """Gives the template of the route that a scope was led to, ``/v1/facts/{fact_id}`` say."""
    known: dict[Any, str] = {}

    def template(scope: Mapping[str, Any]) -> str:
        if not known:
            for route in iter_route_contexts(app.routes):
                if (endpoint := getattr(route, "endpoint", None)) is not None:
                    known[endpoint] = str(route.path)
        return known.get(scope.get("endpoint"), "-")

    return template
