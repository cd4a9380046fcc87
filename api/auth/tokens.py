"""Bearer tokens of OpenID Connect issuers: signature, issuer, audience and times are checked before a claim is believed."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
from fastapi import Request

from api.auth.claims import ClaimNames, principal_of
from api.auth.issuer import KeySource
from api.auth.teams import TeamSync
from api.problems import Unauthenticated
from memory.model.access import Principal

MAX_TOKEN_CHARS: Final = 16_384
TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""Media types of what may be an access token; a logout token, say, is none."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_BEARER = re.compile(r"bearer +([!-~]+)", re.IGNORECASE)
_REASONS: Final[tuple[tuple[type[jwt.PyJWTError], str], ...]] = (
    (jwt.ExpiredSignatureError, "the token has expired"),
    (jwt.ImmatureSignatureError, "the token is not valid yet"),
    (jwt.InvalidAudienceError, "the token is for somebody else: its audience is not this API's"),
    (jwt.InvalidIssuerError, "the token is of another issuer"),
    (jwt.MissingRequiredClaimError, "the token lacks one of the claims iss, aud, exp"),
    (jwt.InvalidSignatureError, "the token's signature does not hold"),
)


def bearer(request: Request) -> str | None:
    """The token of the header ``Authorization``; None without one. Raises Unauthenticated for any other scheme, or two headers."""
    given = request.headers.getlist("authorization")
    if not given:
        return None
    found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        raise refused("send one header: Authorization: Bearer …", error="invalid_request")
    return found[1]


def refused(why: str, *, error: str = "invalid_token") -> Unauthenticated:
    return Unauthenticated(why, error=error)


class TokenVerifier:
    """Tokens of one issuer.

    Args:
        issuer: exactly as ``iss`` has it.
        audience: what ``aud`` must hold.
        algorithms: those that are accepted, asymmetric ones only; what the token itself says is never enough.
        skew_s: difference of clocks that is tolerated.
        keys: of the issuer.
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        algorithms: Sequence[str],
        skew_s: float,
        keys: KeySource,
        names: ClaimNames,
    ) -> None:
        self.issuer = issuer
        self.names = names
        self._audience = audience
        self._algorithms = frozenset(algorithms)
        self._skew_s = skew_s
        self._keys = keys

    async def claims(self, token: str, *, audience: str | None = None) -> dict[str, Any]:
        """The claims of a token that holds.

        Args:
            audience: another one than usual, for instance the client id of a sign-in.

        Raises:
            Unauthenticated: it does not hold, and why; nothing of the token is told back.
            MemoryUnavailable: the issuer's keys are not known and cannot be fetched now.
        """
        header = header_of(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise refused("the token is signed by an algorithm that is not accepted here (AFTERTURN_OIDC_ALGORITHMS)")
        if str(header.get("typ", "JWT")).lower() not in TYPES:
            raise refused("the token is of another type than an access token")
        if kid is not None and not isinstance(kid, str):
            raise refused("the token's header is not as it must be")
        key = await self._keys.key(kid, algorithm)
        if key is None:
            raise refused("the token's key is none of the issuer's")
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=audience or self._audience,
                issuer=self.issuer,
                leeway=self._skew_s,
                options={"require": ["iss", "aud", "exp"], "verify_sub": False, "verify_jti": False},
            )
        except jwt.PyJWTError as error:
            raise refused(next((why for kind, why in _REASONS if isinstance(error, kind)), "the token is not valid")) from None
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise refused("the token is not valid") from None
        return claims


def header_of(token: str) -> dict[str, Any]:
    """The header, before anything is believed. Raises Unauthenticated: this is no JWT of a sane size."""
    if len(token) > MAX_TOKEN_CHARS or not _TOKEN.fullmatch(token):
        raise refused("this is no token that is understood here: a signed JWT, or a service token aft_…")
    return _part(token, 0)


def issuer_of(token: str) -> str:
    """Who the token says it is of, before it is believed; to know whose keys to look at. Raises Unauthenticated."""
    header_of(token)
    return str(_part(token, 1).get("iss", ""))


def _part(token: str, place: int) -> dict[str, Any]:
    raw = token.split(".")[place]
    try:
        part = json.loads(urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
    except (ValueError, RecursionError):
        part = None
    if not isinstance(part, dict):
        raise refused("this is no token that is understood here: a signed JWT, or a service token aft_…")
    return part  # pyright: ignore[reportUnknownVariableType]


class BearerTokens:
    """The authenticator for JWTs. Stands last among those for the header ``Authorization``: it refuses what it does not know."""

    def __init__(self, verifiers: Sequence[TokenVerifier], teams: TeamSync) -> None:
        self._verifiers: Mapping[str, TokenVerifier] = {verifier.issuer: verifier for verifier in verifiers}
        self._teams = teams

    async def authenticate(self, request: Request) -> Principal | None:
        token = bearer(request)
        if token is None:
            return None
        verifier = self._verifiers.get(issuer_of(token))
        if verifier is None:
            known = "of another issuer" if self._verifiers else "not accepted: no issuer is configured (AFTERTURN_OIDC_ISSUER)"
            raise refused(f"the token is {known}")
        claims = await verifier.claims(token)
        principal = principal_of(claims, verifier.names)
        await self._teams.bring_in_line(principal, issued_at=_issued_at(claims))
        return principal


def _issued_at(claims: Mapping[str, Any]) -> float:
    issued = claims.get("iat")
    return float(issued) if isinstance(issued, int | float) else 0.0
