"""The only ways into a route: as a user, for a user, as an administrator. A route without one of them does not pass the tests.

``acting(Permission.READ)`` gives the user whose memory it is about: a person is always themselves; a service names a user of its
own tenant in the header ``Afterturn-User`` (percent-encoded UTF-8). ``administrator()`` gives the tenant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import Depends, Header, Request

from api.context import ApiContext, Context
from api.limits import Place
from api.problems import Forbidden, Unauthenticated
from api.rates import Rates
from memory.model.access import Permission, Principal, Role
from memory.model.errors import InvalidInput
from memory.model.ids import short_hash
from memory.model.scope import Scope

USER_HEADER: Final = "Afterturn-User"
GUARDS: Final[set[Callable[..., Any]]] = set()
"""All dependencies that check access; the test that walks the routes looks for one of them in each."""
NEEDS: Final[dict[Callable[..., Any], Permission]] = {}
"""What those of them ask for that give :class:`Acting`."""

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

UserHeader = Annotated[
    str | None,
    Header(
        alias=USER_HEADER,
        description="for service tokens: the user that it is about (percent-encoded UTF-8). A person's token needs none.",
        max_length=16_384,
        examples=["user_123"],
    ),
]


@dataclass(frozen=True, slots=True)
class Acting:
    """The user that a request is about, and who asks."""

    scope: Scope
    principal: Principal


async def authenticated(request: Request, context: Context) -> Principal:
    """Who is asking, counted against how often and how much at once they may, once per request.

    Raises Unauthenticated, Forbidden, TooMany, InvalidInput.
    """
    known: Principal | None = getattr(request.state, "principal", None)
    if known is not None:
        return known
    principal = await _proven(request, context)
    request.state.principal = principal
    # A service's users do not use up what another one may ask; however a name is written, it is one user.
    user = unquote(request.headers.get(USER_HEADER, "")) if Role.SERVICE in principal.roles else ""
    counted_as = f"{principal.caller} {short_hash(user) if user else ''}"
    request.state.counted_as = counted_as
    rates: Rates = request.app.state.rates
    request.state.rate = await rates.count(counted_as)
    place: Place | None = getattr(request.state, "place", None)
    if place is not None:
        place.claim(counted_as)
    if len(request.headers.getlist(USER_HEADER)) > 1:
        # Which one counts would be up to whoever reads it: this program, or a proxy before it.
        raise InvalidInput(f"send the header {USER_HEADER} once")
    return principal


async def _proven(request: Request, context: ApiContext) -> Principal:
    for authenticator in context.authenticators:
        principal = await authenticator.authenticate(request)
        if principal is not None:
            return principal
    raise Unauthenticated("send a token: Authorization: Bearer …")


GUARDS.add(authenticated)
Authenticated = Annotated[Principal, Depends(authenticated)]


def acting(permission: Permission) -> Any:
    """A dependency that gives :class:`Acting`, or refuses."""

    async def guard(principal: Authenticated, user: UserHeader = None) -> Acting:
        named = None if user is None else _unquoted(user)
        if Role.SERVICE in principal.roles:
            if named is None:
                raise InvalidInput(f"a service token needs the header {USER_HEADER} that names the user")
        elif principal.subject is None or (named is not None and named != principal.subject):
            raise Forbidden("a person's token is for that person's own memory")
        else:
            named = principal.subject
        if permission not in principal.permissions:
            raise Forbidden(f"this token may not {permission}")
        return Acting(Scope.of(principal.tenant_id, named), principal)

    GUARDS.add(guard)
    NEEDS[guard] = permission
    return Depends(guard)


def administrator() -> Any:
    """A dependency that gives the :class:`Principal` of an administrator, or refuses."""

    async def guard(principal: Authenticated) -> Principal:
        if Role.ADMIN not in principal.roles or Permission.ADMIN not in principal.permissions:
            raise Forbidden("this is for administrators of the company")
        return principal

    GUARDS.add(guard)
    return Depends(guard)


def _unquoted(raw: str) -> str:
    """Strictly: text that could be read in two ways would be two users to two programs."""
    try:
        if raw.isascii() and _BAD_ESCAPE.search(raw) is None:
            return unquote(raw, errors="strict")
    except UnicodeDecodeError:
        pass
    raise InvalidInput(f"the header {USER_HEADER} is percent-encoded UTF-8")


Reader = Annotated[Acting, acting(Permission.READ)]
Writer = Annotated[Acting, acting(Permission.WRITE)]
Forgetter = Annotated[Acting, acting(Permission.FORGET)]
Administrator = Annotated[Principal, administrator()]
