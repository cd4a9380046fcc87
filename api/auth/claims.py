"""What the claims of a token say: whose it is, in which company, and what it may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from api.problems import Forbidden
from memory.model.access import OWN, Permission, Principal, Role
from memory.model.errors import InvalidInput
from memory.model.ids import encode_segment, short_hash
from memory.settings import Settings

SCOPE_PREFIX: Final = "memory:"
SERVICE_DEFAULT: Final = frozenset({Permission.READ, Permission.WRITE})
"""What a service may do whose token names no permission of ours."""
SERVICE_MOST: Final = frozenset({Permission.READ, Permission.WRITE, Permission.FORGET})
MAX_WORDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """Names of claims; ``a.b`` is ``b`` inside ``a``, unless there is a claim of that very name."""

    tenant: str = "tenant"
    user: str = "sub"
    roles: str = "roles"
    teams: str = "teams"
    read_only_teams: str = "read_only_teams"

    @classmethod
    def of(cls, settings: Settings) -> ClaimNames:
        return cls(
            settings.claim_tenant, settings.claim_user, settings.claim_roles, settings.claim_teams, settings.claim_read_only_teams
        )


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """The value, or None. Names that are addresses (``https://…/tenant``) have dots and are looked up as they are."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = cast("Mapping[str, Any]", found).get(part) if isinstance(found, Mapping) else None
    return found


def permissions_of(roles: Iterable[Role], *, person: bool) -> frozenset[Permission]:
    """Of a person with these roles. An administrator without a memory of their own (no ``sub``) has none to read."""
    held = set(roles)
    permissions: set[Permission] = set(OWN) if person and held & {Role.USER, Role.ADMIN} else set()
    if Role.ADMIN in held:
        permissions.add(Permission.ADMIN)
    return frozenset(permissions)


def principal_of(claims: Mapping[str, Any], names: ClaimNames, *, via: Literal["token", "session"] = "token") -> Principal:
    """Whom verified claims belong to.

    Raises Forbidden, saying which claim is missing or cannot be used; values are not told back.
    """
    tenant = _id(claims, names.tenant, "company")
    if tenant is None:
        raise Forbidden(f"the token names no company: its claim {names.tenant!r} is missing (AFTERTURN_CLAIM_TENANT)")
    known = {role.value: role for role in Role}
    roles = frozenset(known[word] for word in words_of(claim(claims, names.roles)) if word in known)
    issuer = str(claims.get("iss", ""))
    if Role.SERVICE in roles:
        # A service is nobody else: a person's roles beside it would let it into that person's pages.
        by = claims.get("azp") or claims.get("client_id") or claims.get("sub") or ""
        return Principal(
            tenant_id=tenant,
            subject=None,
            roles=frozenset({Role.SERVICE}),
            permissions=_service_permissions(claims),
            caller=f"service:{short_hash(issuer, tenant, str(by))}",
            via=via,
        )
    if not roles:
        raise Forbidden(f"the token has none of the roles {', '.join(known)} in its claim {names.roles!r} (AFTERTURN_CLAIM_ROLES)")
    subject = _id(claims, names.user, "user")
    if subject is None and Role.ADMIN not in roles:
        raise Forbidden(f"the token names no user: its claim {names.user!r} is missing (AFTERTURN_CLAIM_USER)")
    teams = _teams(claims, names.teams)
    reads = _teams(claims, names.read_only_teams) or ()
    return Principal(
        tenant_id=tenant,
        subject=subject,
        roles=roles,
        permissions=permissions_of(roles, person=subject is not None),
        caller=caller_of(tenant, subject or f"admin of {issuer}"),
        teams=teams,
        read_only_teams=tuple(team for team in reads if teams is not None and team in teams),
        via=via,
    )


def caller_of(tenant: str, subject: str) -> str:
    """A person as logs and limits know them: the same for a token and a session."""
    return f"person:{short_hash(tenant, subject)}"


def _service_permissions(claims: Mapping[str, Any]) -> frozenset[Permission]:
    """``memory:read memory:write memory:forget`` in ``permissions`` or ``scope``; never those of an administrator."""
    words = [*words_of(claims.get("permissions")), *words_of(claims.get("scope")), *words_of(claims.get("scp"))]
    asked = {word.removeprefix(SCOPE_PREFIX) for word in words if word.startswith(SCOPE_PREFIX)}
    if not asked:
        return SERVICE_DEFAULT
    return frozenset(permission for permission in SERVICE_MOST if permission.value in asked)


def words_of(value: Any) -> list[str]:
    """A list of words, or words with blanks (or commas) between."""
    if isinstance(value, str):
        return value.replace(",", " ").split()[:MAX_WORDS]
    if isinstance(value, list):
        return [word for word in cast("list[Any]", value)[:MAX_WORDS] if isinstance(word, str)]
    return []


def _id(claims: Mapping[str, Any], name: str, what: str) -> str | None:
    value: Any = claim(claims, name)
    if value is None:
        return None
    # Some issuers number their users and companies.
    text: Any = str(value) if type(value) is int else value
    try:
        encode_segment(text, what=f"{what} id")
    except InvalidInput as error:
        raise Forbidden(f"the claim {name!r} cannot be used: {error.message}") from None
    return text


def _teams(claims: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = claim(claims, name)
    if value is None:
        return None
    given = words_of(value) if isinstance(value, str) else cast("list[Any]", value) if isinstance(value, list) else None
    if given is None or len(given) > MAX_WORDS or not all(isinstance(team, str) and team for team in given):
        raise Forbidden(f"the claim {name!r} must be a list of names of teams, at most {MAX_WORDS}")
    return tuple(dict.fromkeys(given))
