"""Who am I."""

from __future__ import annotations

from pydantic import BaseModel

from api.auth.access import Authenticated
from api.routing import make_router
from memory.model.access import Permission, Role

router = make_router("account")


class Account(BaseModel):
    """As the token or the session says."""

    tenant: str
    user: str | None
    roles: list[Role]
    permissions: list[Permission]


@router.get("/account")
async def account(principal: Authenticated) -> Account:
    """Who the token belongs to, and what it may do."""
    return Account(
        tenant=principal.tenant_id,
        user=principal.subject,
        roles=sorted(principal.roles),
        permissions=sorted(principal.permissions),
    )
