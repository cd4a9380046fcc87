"""Signing in to the pages at an OpenID Connect issuer: authorization code with PKCE, state and nonce."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from fastapi import Request

from api.auth.claims import claim, principal_of
from api.auth.issuer import Issuer, Metadata
from api.auth.sessions import Cookies
from api.auth.teams import TeamSync
from api.auth.tokens import TokenVerifier
from api.problems import ApiError
from memory.model.access import Principal
from memory.model.errors import MemoryUnavailable

MAX_AGE_S: Final = 600.0
"""A sign-in that takes longer has to be begun again."""
TIMEOUT_S: Final = 10.0
MAX_PARAMETER_CHARS: Final = 4_096
_PURPOSE: Final = "sign_in"


class SignInFailed(ApiError):
    """``detail``: for the person: what went wrong and what to do."""

    def __init__(self, detail: str, *, status: int = 400) -> None:
        super().__init__(status, "sign-in-failed", detail)


class SignIn:
    """A client of one issuer.

    Args:
        verifier: of the issuer's tokens.
        callback_url: registered with the issuer.
        cookies: what is needed at the return travels in one, which another site cannot set or read.
    """

    def __init__(
        self,
        *,
        issuer: Issuer,
        verifier: TokenVerifier,
        client_id: str,
        client_secret: str | None,
        scopes: str,
        callback_url: str,
        cookies: Cookies,
        teams: TeamSync,
    ) -> None:
        self._issuer = issuer
        self._verifier = verifier
        self._client_id = client_id
        self._client_secret = client_secret
        self._scopes = scopes
        self._callback_url = callback_url
        self._cookies = cookies
        self._teams = teams

    async def begin(self, next_path: str) -> tuple[str, str]:
        """The issuer's address to go to, and a ``Set-Cookie`` for the way. Raises MemoryUnavailable, SignInFailed."""
        metadata = await self._issuer.metadata()
        if metadata.authorization_endpoint is None or metadata.token_endpoint is None:
            raise SignInFailed("the issuer does not offer to sign people in (AFTERTURN_OIDC_ISSUER)", status=503)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        async with self._client(metadata) as client:
            address, _ = client.create_authorization_url(
                metadata.authorization_endpoint, state=state, nonce=nonce, code_verifier=verifier
            )
        kept = {"s": state, "n": nonce, "v": verifier, "p": next_path}
        return str(address), self._cookies.write(_PURPOSE, kept, max_age_s=MAX_AGE_S)

    async def finish(self, request: Request) -> tuple[Principal, str]:
        """Who came back from the issuer, and where to go on.

        Raises SignInFailed, Forbidden (the account may not use the pages), MemoryUnavailable.
        """
        given = {name: request.query_params.get(name, "")[:MAX_PARAMETER_CHARS] for name in ("state", "code", "error", "iss")}
        kept = self._cookies.read(request, _PURPOSE, max_age_s=MAX_AGE_S)
        if kept is None or not hmac.compare_digest(given["state"].encode(), kept["s"].encode()):
            raise SignInFailed("this sign-in took too long, or another one was begun meanwhile in this browser")
        if given["iss"] and given["iss"] != self._issuer.url:
            raise SignInFailed("the answer came from another issuer than the one that was asked")
        if given["error"] or not given["code"]:
            told = given["error"] if re.fullmatch(r"[a-z_]{1,40}", given["error"]) else "no code"
            raise SignInFailed(f"your identity provider did not sign you in ({told})", status=403)
        token = await self._exchange(given["code"], kept["v"])
        claims = await self._verified(token, kept["n"])
        principal = principal_of(claims, self._verifier.names, via="session")
        await self._teams.bring_in_line(principal, issued_at=float(claims.get("iat") or 0))
        return principal, kept["p"]

    def clear(self) -> str:
        """A ``Set-Cookie`` for the end of the way."""
        return self._cookies.clear(_PURPOSE)

    async def _exchange(self, code: str, verifier: str) -> Mapping[str, Any]:
        metadata = await self._issuer.metadata()
        try:
            async with self._client(metadata) as client:
                return await client.fetch_token(
                    metadata.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=verifier,
                    redirect_uri=self._callback_url,
                )
        except httpx2.HTTPError as error:
            raise MemoryUnavailable(f"the issuer's token endpoint does not answer ({type(error).__name__})") from None
        except (AuthlibBaseError, ValueError) as error:
            code_of_error = getattr(error, "error", None)
            told = code_of_error if isinstance(code_of_error, str) and re.fullmatch(r"[a-z_]{1,40}", code_of_error) else "no reason"
            hint = "; look at AFTERTURN_OIDC_CLIENT_ID and …_CLIENT_SECRET" if told == "invalid_client" else ""
            raise SignInFailed(f"the issuer did not accept the sign-in ({told}){hint}", status=502) from None

    async def _verified(self, token: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        id_token = token.get("id_token")
        if not isinstance(id_token, str):
            raise SignInFailed("the issuer gave no id_token: AFTERTURN_OIDC_SCOPES must have openid", status=502)
        try:
            claims = await self._verifier.claims(id_token, audience=self._client_id)
        except ApiError as error:
            raise SignInFailed(f"the issuer's answer cannot be trusted: {error.detail}", status=502) from None
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise SignInFailed("the issuer's answer belongs to another sign-in", status=502)
        audience = claims.get("aud")
        if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != self._client_id:  # pyright: ignore[reportUnknownArgumentType]
            raise SignInFailed("the issuer's answer is for another client", status=502)
        return await self._with_user_info(claims, token)

    async def _with_user_info(self, claims: dict[str, Any], token: Mapping[str, Any]) -> dict[str, Any]:
        """Many issuers tell roles and companies at their userinfo endpoint only."""
        names = self._verifier.names
        wanted = (names.tenant, names.user, names.roles)
        url = (await self._issuer.metadata()).userinfo_endpoint
        if url is None or all(claim(claims, name) is not None for name in wanted):
            return claims
        authorization = {"Authorization": f"Bearer {token.get('access_token', '')}"}
        told = await self._issuer.fetch(url, what="the issuer's user information", headers=authorization)
        if told.get("sub") != claims.get("sub"):
            raise SignInFailed("the issuer told of another user than the one that signed in", status=502)
        return {**told, **claims}

    def _client(self, metadata: Metadata) -> Any:
        methods = metadata.token_auth_methods
        method = "client_secret_post" if "client_secret_basic" not in methods else "client_secret_basic"
        return AsyncOAuth2Client(
            self._client_id,
            self._client_secret,
            token_endpoint_auth_method=method if self._client_secret else "none",
            scope=self._scopes,
            redirect_uri=self._callback_url,
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
        )
