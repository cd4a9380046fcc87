"""An OpenID Connect issuer over HTTP that does as a test says, and a verifier of its tokens."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from api.auth.claims import ClaimNames
from api.auth.issuer import Issuer
from api.auth.tokens import TokenVerifier
from api.problems import Unauthenticated
from memory.stores.http_server import serving

AUDIENCE = "afterturn-api"


@dataclass
class Keys:
    """A key pair of the issuer. ``alg``: as its tokens say."""

    kid: str
    alg: str = "RS256"
    private: Any = None

    def __post_init__(self) -> None:
        if self.private is None:
            ecc = self.alg.startswith("ES")
            self.private = ec.generate_private_key(ec.SECP256R1()) if ecc else rsa.generate_private_key(65537, 2048)

    @property
    def jwk(self) -> dict[str, Any]:
        kind = ECAlgorithm if self.alg.startswith("ES") else RSAAlgorithm
        return {**kind.to_jwk(self.private.public_key(), as_dict=True), "kid": self.kid, "use": "sig"}


@dataclass
class Provider:
    """An issuer over HTTP, and a verifier of its tokens.

    ``asked``: for its keys so far; ``exchanged``: what was sent to its token endpoint, which gives ``answer``.
    """

    keys: list[Keys]
    url: str = ""
    away: bool = False
    asked: int = 0
    extra: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    answer_status: int = 200
    user_info: dict[str, Any] = field(default_factory=dict[str, Any])
    exchanged: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    now: float = 1_000.0
    issuer: Issuer = field(init=False)
    verifier: TokenVerifier = field(init=False)

    def token(self, keys: Keys | None = None, *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        keys = keys or self.keys[0]
        at = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "tenant": "acme", "roles": ["user"], "iat": at, "exp": at + 300}
        kept = {name: value for name, value in {**said, **claims}.items() if value is not None}
        return jwt.encode(kept, keys.private, keys.alg, headers={"kid": keys.kid, **(headers or {})})

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        async def discovery() -> Any:
            endpoints = {name: f"{self.url}/{name}" for name in ("authorization_endpoint", "token_endpoint", "userinfo_endpoint")}
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **endpoints}

        @app.get("/keys")
        async def keys() -> Any:
            self.asked += 1
            return Response(status_code=503) if self.away else {"keys": [*(one.jwk for one in self.keys), *self.extra]}

        @app.post("/token_endpoint")
        async def token(request: Request) -> Any:
            said = {name: str(value) for name, value in (await request.form()).items()}
            self.exchanged.append({**said, "authorization": request.headers.get("authorization", "")})
            return JSONResponse(self.answer, self.answer_status)

        @app.get("/userinfo_endpoint")
        async def userinfo() -> Any:
            return self.user_info

        return app

    async def refusal(self, token: str) -> str:
        with pytest.raises(Unauthenticated) as refused:
            await self.verifier.claims(token)
        assert 'error="invalid_token"' in refused.value.headers["WWW-Authenticate"]
        return refused.value.detail


@asynccontextmanager
async def providing(*keys: Keys, algorithms: tuple[str, ...] = ("RS256", "ES256")) -> AsyncGenerator[Provider]:
    provider = Provider(list(keys))
    async with serving(provider.app(), name="the issuer") as url:
        provider.url = url
        provider.issuer = Issuer(url, clock=lambda: provider.now)
        provider.verifier = TokenVerifier(
            issuer=url, audience=AUDIENCE, algorithms=algorithms, skew_s=30, keys=provider.issuer, names=ClaimNames()
        )
        try:
            yield provider
        finally:
            await provider.issuer.aclose()
