"""The issuer of `afterturn dev`: tokens and sign-in links for whoever holds the key that this start made. Nowhere else.

Its keys and discovery document are served under ``/dev/issuer``, so that another process can check its tokens like any others.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from typing import Any, Final, Literal
from urllib.parse import urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from api.auth.claims import SCOPE_PREFIX
from memory.model.access import Role

PATH: Final = "/dev/issuer"
LINK: Final = "/login/dev"
ALGORITHM: Final = "ES256"
AUDIENCE: Final = "afterturn"
LIFETIME_S: Final = 3600
MAX_LIFETIME_S: Final = 86_400


class LocalIssuer:
    """A key pair that lives as long as this object. It is a :class:`api.auth.issuer.KeySource` of its own tokens.

    Args:
        base_url: of the API that serves it.
    """

    def __init__(self, base_url: str) -> None:
        self.url = base_url.rstrip("/") + PATH
        self.key_text = secrets.token_urlsafe(18)
        """Whoever has it may be anybody here."""
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._kid = secrets.token_hex(8)
        self._public = jwt.PyJWK(self.jwks()["keys"][0], ALGORITHM)

    def permits(self, key: str) -> bool:
        return hmac.compare_digest(key.encode(), self.key_text.encode())

    def token(
        self,
        *,
        tenant: str,
        user: str | None,
        roles: Sequence[str],
        permissions: Sequence[str] | None = None,
        teams: Sequence[str] | None = None,
        lifetime_s: int = LIFETIME_S,
        **more: Any,
    ) -> str:
        """A signed JWT. ``permissions``: of a service, by the names of :class:`Permission`. ``more``: claims that win."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": user if user is not None else "local-service",
            "tenant": tenant,
            "roles": list(roles),
            "iat": now,
            "exp": now + lifetime_s,
            "jti": secrets.token_hex(8),
        }
        if permissions is not None:
            claims["scope"] = " ".join(SCOPE_PREFIX + one for one in permissions)
        if teams is not None:
            claims["teams"] = list(teams)
        return jwt.encode({**claims, **more}, self._private, ALGORITHM, headers={"kid": self._kid, "typ": "at+jwt"})

    def jwks(self) -> dict[str, Any]:
        public = ECAlgorithm.to_jwk(self._private.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": self._kid, "alg": ALGORITHM, "use": "sig"}]}

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "token_endpoint": f"{self.url}/token",
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "response_types_supported": ["none"],
            "subject_types_supported": ["public"],
        }

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        return self._public if kid == self._kid and algorithm == ALGORITHM else None


def roles_of(role: Literal["user", "admin", "service"]) -> tuple[Role, ...]:
    """An administrator here is a person with a memory too."""
    return (Role.USER, Role.ADMIN) if role == "admin" else (Role(role),)


def sign_in_link(base_url: str, key: str, next_path: str, **who: str) -> str:
    """The address that signs a browser in. ``who``: ``tenant``, ``user``, ``role``, where they are not the usual ones."""
    query = urlencode({"key": key, **who, "next": next_path}, safe="/")
    return f"{base_url.rstrip('/')}{LINK}?{query}"
