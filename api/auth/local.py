"""The ways in that only `afterturn dev` has: its issuer over HTTP, and a link that logs in. Both need the key of this start."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.auth.access import GUARDS
from api.auth.claims import permissions_of
from api.auth.issuer import DISCOVERY
from api.auth.local_issuer import LIFETIME_S, LINK, MAX_LIFETIME_S, PATH, LocalIssuer, roles_of
from api.auth.paths import NextPath, home, local_path
from api.auth.sign_in import SignInFailed
from api.context import Context
from api.problems import Unauthenticated
from memory.model.access import Permission, Principal
from memory.model.scope import Scope


class TokenWish(BaseModel):
    """Who the token shall be for."""

    model_config = ConfigDict(extra="forbid")

    tenant: str = "demo"
    user: str | None = "me"
    role: Literal["user", "admin", "service"] = "user"
    permissions: list[Permission] | None = Field(default=None, max_length=10)
    teams: list[str] | None = Field(default=None, max_length=100)
    lifetime_s: int = Field(default=LIFETIME_S, ge=1, le=MAX_LIFETIME_S)


class MintedToken(BaseModel):
    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105
    expires_in: int


def router(local: LocalIssuer) -> APIRouter:
    routes = APIRouter()

    async def holder_of_the_key(authorization: Annotated[str | None, Header()] = None) -> None:
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not local.permits(key):
            raise Unauthenticated("send the key of this `afterturn dev` as a bearer token; it is in dev.json")

    GUARDS.add(holder_of_the_key)

    @routes.get(PATH + DISCOVERY)
    async def local_discovery() -> dict[str, Any]:
        return local.discovery()

    @routes.get(PATH + "/jwks")
    async def local_keys() -> dict[str, Any]:
        return local.jwks()

    @routes.post(PATH + "/token", dependencies=[Depends(holder_of_the_key)])
    async def local_token(wish: TokenWish) -> MintedToken:
        token = local.token(
            tenant=wish.tenant,
            user=None if wish.role == "service" else wish.user,
            roles=[role.value for role in roles_of(wish.role)],
            permissions=None if wish.permissions is None else [one.value for one in wish.permissions],
            teams=wish.teams,
            lifetime_s=wish.lifetime_s,
        )
        return MintedToken(access_token=token, expires_in=wish.lifetime_s)

    async def holder_of_the_link(request: Request, key: str = "") -> None:
        if not local.permits(key):
            raise SignInFailed(
                "this link is of another start of `afterturn dev`; open one that the running one printed", status=401
            )

    GUARDS.add(holder_of_the_link)

    @routes.get(LINK, dependencies=[Depends(holder_of_the_link)])
    async def login_dev(
        request: Request,
        context: Context,
        tenant: str = "demo",
        user: str = "me",
        role: Literal["user", "admin"] = "admin",
        next_path: NextPath = None,
    ) -> Response:
        """The redirect takes the key out of the address bar, and nobody is told where it led from."""
        scope = Scope.of(tenant, user)
        roles = frozenset(roles_of(role))
        principal = Principal(
            tenant_id=scope.tenant_id,
            subject=scope.user_id,
            roles=roles,
            permissions=permissions_of(roles, person=True),
            caller="",
            via="session",
        )
        answer = context.access.signed_in(principal, local_path(next_path, home(request)))
        answer.headers["Referrer-Policy"] = "no-referrer"
        return answer

    return routes
