"""Templates to pages. Everything that is put into a template is escaped."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from api.pages.assets import asset_url
from memory.model.access import Principal, Role


@cache
def environment() -> Environment:
    return Environment(
        loader=PackageLoader("api.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def page(request: Request, template: str, principal: Principal, *, current: str, **values: Any) -> HTMLResponse:
    """A page for a signed-in person. It is theirs alone, so nothing keeps it.

    Templates get ``current`` (which entry of the navigation this is), ``asset(path)``, ``root`` (what stands before every path of
    this server), ``csrf``, ``user``, ``person`` (company and user, as one text), ``is_admin`` and ``values``.
    """
    html = (
        environment()
        .get_template(template)
        .render(
            current=current,
            asset=partial(asset_url, request),
            root=request.scope.get("root_path", ""),
            csrf=principal.csrf or "",
            user=principal.subject or "",
            person=json.dumps([principal.tenant_id, principal.subject]),
            is_admin=Role.ADMIN in principal.roles,
            **values,
        )
    )
    return HTMLResponse(html, headers={"Cache-Control": "no-store"})
