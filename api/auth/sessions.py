"""Sessions of the pages: a signed cookie, and what keeps other sites from using it.

The cookie says who signed in, and is made once, at the sign-in; its age counts from then. It is readable by its owner and by nobody
else's script (HttpOnly), goes to this server alone (``__Host-`` where the address is https) and not along with requests that other
sites make, links apart (SameSite=Lax). A request that may change something also has to name the session's CSRF token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from fastapi import Request
from itsdangerous import BadData, URLSafeTimedSerializer

from api.auth.claims import caller_of, permissions_of
from api.problems import Forbidden
from memory.model.access import Principal, Role
from memory.model.errors import InvalidInput

CSRF_HEADER: Final = "X-CSRF-Token"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_COOKIE_CHARS: Final = 4_000
"""Browsers drop what is longer than 4096 bytes with its attributes."""


class Cookies:
    """Signed cookies of this server. ``secure``: whether browsers reach it by https."""

    def __init__(self, secret: str, *, secure: bool) -> None:
        self._secret = secret
        self.secure = secure

    def name(self, purpose: str) -> str:
        return f"{'__Host-' if self.secure else ''}afterturn_{purpose}"

    def write(self, purpose: str, content: Mapping[str, Any], *, max_age_s: float) -> str:
        """A value for ``Set-Cookie``. Raises InvalidInput where it is too long for browsers."""
        value = str(self._serializer(purpose).dumps(dict(content)))
        if len(value) > MAX_COOKIE_CHARS:
            raise InvalidInput("the ids of this user and company are too long for a session of the pages; use the API")
        return self._cookie(purpose, value, max_age_s)

    def clear(self, purpose: str) -> str:
        return self._cookie(purpose, "", 0)

    def read(self, request: Request, purpose: str, *, max_age_s: float) -> dict[str, Any] | None:
        """None: there is none, it is older, or it was not made by this server."""
        value = request.cookies.get(self.name(purpose))
        if not value or len(value) > MAX_COOKIE_CHARS:
            return None
        try:
            content = self._serializer(purpose).loads(value, max_age=int(max_age_s))
        except (BadData, ValueError, RecursionError):
            return None
        return cast("dict[str, Any]", content) if isinstance(content, dict) else None

    def _serializer(self, purpose: str) -> URLSafeTimedSerializer:
        # The purpose is part of the key: a cookie of one kind is nothing as another.
        options = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
        return URLSafeTimedSerializer(self._secret, salt=f"afterturn.{purpose}.1", signer_kwargs=options)

    def _cookie(self, purpose: str, value: str, max_age_s: float) -> str:
        parts = [f"{self.name(purpose)}={value}", "Path=/", f"Max-Age={int(max_age_s)}", "HttpOnly", "SameSite=Lax"]
        return "; ".join([*parts, "Secure"] if self.secure else parts)


class Sessions:
    """The authenticator for cookies.

    Args:
        cookies: how they are signed.
        max_age_s: a session ends so long after the sign-in, whatever happens.
        origin: scheme, host and port of the pages; None: whatever host a request names.
    """

    def __init__(self, cookies: Cookies, *, max_age_s: float, origin: str | None = None) -> None:
        self.cookies = cookies
        self._max_age_s = max_age_s
        self._origin = origin

    def begin(self, principal: Principal) -> str:
        """A ``Set-Cookie`` for a person that has just proved who they are. Teams are the directory's by then.

        Raises Forbidden (not a person), InvalidInput (ids too long for a cookie).
        """
        if principal.subject is None:
            raise Forbidden("the pages are for people; this account has no user id")
        content = {
            "t": principal.tenant_id,
            "u": principal.subject,
            "r": sorted(role.value for role in principal.roles),
            "c": secrets.token_urlsafe(24),
        }
        return self.cookies.write("session", content, max_age_s=self._max_age_s)

    def end(self) -> str:
        return self.cookies.clear("session")

    def read(self, request: Request) -> Principal | None:
        """Who is signed in."""
        found = self.cookies.read(request, "session", max_age_s=self._max_age_s)
        if found is None:
            return None
        try:
            roles = frozenset(Role(role) for role in found["r"])
            tenant, subject, csrf = found["t"], found["u"], found["c"]
        except (KeyError, ValueError, TypeError):
            return None  # of another version of this program
        return Principal(
            tenant_id=tenant,
            subject=subject,
            roles=roles,
            permissions=permissions_of(roles, person=True),
            caller=caller_of(tenant, subject),
            via="session",
            csrf=csrf,
        )

    async def authenticate(self, request: Request) -> Principal | None:
        """Raises Forbidden for a request that another site may have made."""
        principal = self.read(request)
        if principal is None:
            return None
        token = request.headers.get(CSRF_HEADER)
        if request.method not in SAFE_METHODS:
            self.check_origin(request)
            self.check_csrf(principal, token)
        elif token is not None:
            # A page that was opened in an earlier session must not show what belongs to this one's person.
            self.check_csrf(principal, token)
        return principal

    def check_csrf(self, principal: Principal, token: str | None) -> None:
        """Raises Forbidden."""
        if not hmac.compare_digest((token or "").encode(), (principal.csrf or "").encode()):
            raise Forbidden(f"the header {CSRF_HEADER} of a session's request must hold the session's token; reload the page")

    def check_origin(self, request: Request) -> None:
        """Browsers say where a request comes from. Raises Forbidden where that is not a page of this server."""
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        if site is not None and site != "same-origin":
            raise Forbidden("a request with a session must come from a page of this server")
        if origin is not None and not self._is_ours(origin, request):
            raise Forbidden("a request with a session must come from a page of this server (AFTERTURN_PUBLIC_URL says its address)")

    def _is_ours(self, origin: str, request: Request) -> bool:
        if self._origin is not None:
            return origin.lower() == self._origin
        try:
            return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
        except ValueError:
            return False
