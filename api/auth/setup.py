"""From settings to the ways in: which proofs of who is asking are accepted, and how people sign in to the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fastapi.responses import RedirectResponse, Response

from api.auth.claims import ClaimNames
from api.auth.issuer import Issuer
from api.auth.local_issuer import ALGORITHM, AUDIENCE, LocalIssuer
from api.auth.service_tokens import ServiceTokenAuthenticator
from api.auth.sessions import Cookies, Sessions
from api.auth.sign_in import SignIn, SignInFailed
from api.auth.teams import TeamSync
from api.auth.tokens import BearerTokens, TokenVerifier
from memory.model.access import Principal
from memory.model.errors import InvalidSettings
from memory.ports import Directory
from memory.ports.service import ServiceTokens
from memory.settings import Settings

if TYPE_CHECKING:
    from api.context import Authenticator

CALLBACK: Final = "/login/callback"
_EVERYWHERE: Final = {"0.0.0.0:": "127.0.0.1:", "[::]:": "[::1]:"}


@dataclass(frozen=True, slots=True)
class Access:
    """``sessions``, ``sign_in``, ``local``: None where that is not set up. ``missing``: what to do for people to sign in."""

    authenticators: Sequence[Authenticator] = ()
    sessions: Sessions | None = None
    sign_in: SignIn | None = None
    local: LocalIssuer | None = None
    missing: str = "this server has no sign-in"
    issuer: Issuer | None = None
    services: ServiceTokenAuthenticator | None = None

    def signed_in(self, principal: Principal, next_path: str) -> Response:
        """Begins a session and goes on. Raises SignInFailed, Forbidden, InvalidInput."""
        if self.sessions is None:
            raise SignInFailed(self.missing, status=503)
        answer = RedirectResponse(next_path, 303)
        answer.headers.append("Set-Cookie", self.sessions.begin(principal))
        return answer

    async def aclose(self) -> None:
        if self.services is not None:
            await self.services.aclose()
        if self.issuer is not None:
            await self.issuer.aclose()


def check_access(settings: Settings) -> None:
    """Raises InvalidSettings, one line, for settings that do not go together."""
    if settings.oidc_issuer is not None and settings.oidc_audience is None:
        raise InvalidSettings("AFTERTURN_OIDC_AUDIENCE is missing: it says which tokens of AFTERTURN_OIDC_ISSUER are for this API")
    if settings.oidc_issuer is None and (settings.oidc_audience or settings.oidc_client_id or settings.oidc_jwks_url):
        raise InvalidSettings("AFTERTURN_OIDC_ISSUER is missing: without it no token of an issuer is accepted")
    if settings.oidc_client_id is not None and settings.session_secret is None:
        raise InvalidSettings("AFTERTURN_SESSION_SECRET is missing: with AFTERTURN_OIDC_CLIENT_ID people sign in to the pages")
    if settings.oidc_client_id is not None and settings.public_url is None and settings.api_address.startswith(tuple(_EVERYWHERE)):
        raise InvalidSettings("AFTERTURN_PUBLIC_URL is missing: the issuer sends people back there after a sign-in")
    if settings.oidc_client_id is not None and "openid" not in settings.oidc_scopes.split():
        raise InvalidSettings("AFTERTURN_OIDC_SCOPES must have openid")


def base_url(settings: Settings) -> str:
    """Where browsers reach the API, without a slash at the end."""
    address = settings.api_address
    for everywhere, here in _EVERYWHERE.items():
        address = address.replace(everywhere, here)
    return (settings.public_url or f"http://{address}").rstrip("/")


def build_access(settings: Settings, *, tokens: ServiceTokens, directory: Directory, local: LocalIssuer | None = None) -> Access:
    """Connects to nothing.

    Args:
        local: of `afterturn dev`: its tokens are accepted beside those of the configured issuer.

    Raises:
        InvalidSettings: see :func:`check_access`.
    """
    check_access(settings)
    base = base_url(settings)
    teams = TeamSync(directory)
    services = ServiceTokenAuthenticator(tokens)
    verifiers: list[TokenVerifier] = []
    issuer = verifier = None
    if settings.oidc_issuer is not None and settings.oidc_audience is not None:
        issuer = Issuer(settings.oidc_issuer, jwks_url=settings.oidc_jwks_url)
        verifier = TokenVerifier(
            issuer=settings.oidc_issuer,
            audience=settings.oidc_audience,
            algorithms=settings.oidc_algorithms.split(","),
            skew_s=settings.oidc_clock_skew_s,
            keys=issuer,
            names=ClaimNames.of(settings),
        )
        verifiers.append(verifier)
    if local is not None:
        verifiers.append(
            TokenVerifier(
                issuer=local.url,
                audience=AUDIENCE,
                algorithms=(ALGORITHM,),
                skew_s=settings.oidc_clock_skew_s,
                keys=local,
                names=ClaimNames(),
            )
        )
    authenticators: list[Authenticator] = [services, BearerTokens(verifiers, teams)]
    sessions = sign_in = None
    missing = "AFTERTURN_OIDC_ISSUER, AFTERTURN_OIDC_CLIENT_ID and AFTERTURN_SESSION_SECRET set it up"
    if settings.session_secret is not None:
        url = urlsplit(base)
        cookies = Cookies(settings.session_secret.get_secret_value(), secure=url.scheme == "https")
        origin = f"{url.scheme}://{url.netloc}".lower() if settings.public_url else None
        sessions = Sessions(cookies, max_age_s=settings.session_max_age_s, origin=origin)
        authenticators.append(sessions)
        if issuer is not None and verifier is not None and settings.oidc_client_id is not None:
            secret = settings.oidc_client_secret
            sign_in = SignIn(
                issuer=issuer,
                verifier=verifier,
                client_id=settings.oidc_client_id,
                client_secret=secret.get_secret_value() if secret else None,
                scopes=settings.oidc_scopes,
                callback_url=base + CALLBACK,
                cookies=cookies,
                teams=teams,
            )
    if local is not None:
        missing = "this is `afterturn dev`: open one of the links that it printed, or `afterturn dev-token --link`"
    return Access(tuple(authenticators), sessions, sign_in, local, missing, issuer, services)
