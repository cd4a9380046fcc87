"""An OpenID Connect issuer as seen from outside: its discovery document and its keys, fetched over HTTP and kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import httpx2
import jwt

from api.auth.kept import Kept
from memory.model.errors import MemoryUnavailable

TIMEOUT_S: Final = 5.0
MAX_DOCUMENT_BYTES: Final = 512 * 1024
MAX_KEYS: Final = 100
MIN_RSA_BITS: Final = 2048
DISCOVERY: Final = "/.well-known/openid-configuration"

_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class KeySource(Protocol):
    """Where the public keys of an issuer come from."""

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """None: the issuer has no such key for this algorithm. Raises MemoryUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Metadata:
    """What we use of a discovery document. Addresses are checked to be such."""

    jwks_url: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    token_auth_methods: tuple[str, ...] = ("client_secret_basic",)


class KeySet:
    """The usable keys of a JWKS document. ``oct`` keys, those for encryption and those of unknown kinds are left out."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Raises ValueError: not a JWKS document, or none of its keys is usable."""
        given: Any = document.get("keys")
        if not isinstance(given, list):
            raise ValueError("no keys")
        self._keys = [key for key in cast("list[Any]", given)[:MAX_KEYS] if _usable(key)]
        if not self._keys:
            raise ValueError("no usable keys")
        self._made: dict[tuple[str | None, str], jwt.PyJWK | None] = {}

    def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """Without ``kid``: the only key of that kind, if there is but one."""
        fitting: list[dict[str, Any]] = [
            key
            for key in self._keys
            if (kid is None or key.get("kid") == kid)
            and key["kty"] == _KEY_TYPES[algorithm[:2]]
            and key.get("alg", algorithm) == algorithm
        ]
        if len(fitting) != 1:
            return None
        place = (fitting[0].get("kid"), algorithm)
        if place not in self._made:
            self._made[place] = _made(fitting[0], algorithm)
        return self._made[place]


def _usable(given: Any) -> bool:
    if not isinstance(given, dict):
        return False
    key = cast("dict[str, Any]", given)
    operations: Any = key.get("key_ops") or ["verify"]
    return key.get("kty") in _KEY_TYPES.values() and key.get("use", "sig") == "sig" and "verify" in operations


def _made(key: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """None: what the document says of the key cannot be, or it is too weak."""
    try:
        made = jwt.PyJWK({**key, "alg": algorithm}, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    too_weak = key["kty"] == "RSA" and made.key.key_size < MIN_RSA_BITS
    wrong_curve = algorithm.startswith("ES") and key.get("crv") != {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
    return None if too_weak or wrong_curve else made


class Issuer:
    """For one event loop; ``aclose`` at the end.

    Args:
        url: of the issuer, exactly as its tokens say it.
        jwks_url: None: as the discovery document says.
        http: owned by this from now on; a new one by default.
    """

    def __init__(
        self,
        url: str,
        *,
        jwks_url: str | None = None,
        http: httpx2.AsyncClient | None = None,
        clock: Callable[[], float] = time.monotonic,
        again_s: float = 30.0,
    ) -> None:
        self.url = url
        self._jwks_url = jwks_url
        self._http = http or httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)
        self._metadata = Kept("the issuer's discovery document", self._discover, fresh_s=3600, clock=clock)
        self._keys = Kept("the issuer's keys", self._fetch_keys, clock=clock, again_s=again_s)

    async def metadata(self) -> Metadata:
        """Raises MemoryUnavailable."""
        return await self._metadata.get()

    async def check(self) -> None:
        """Whether the keys can be had. Raises MemoryUnavailable."""
        await self._keys.get()

    async def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        found = (await self._keys.get()).key(kid, algorithm)
        if found is None:
            # Perhaps the issuer has new keys. Made-up ids do not make us ask more often.
            found = (await self._keys.newer()).key(kid, algorithm)
        return found

    async def fetch(self, url: str, *, what: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """A JSON object from the issuer. Raises MemoryUnavailable."""
        try:
            async with self._http.stream("GET", url, headers={"Accept": "application/json", **(headers or {})}) as answer:
                if answer.status_code != 200:
                    raise MemoryUnavailable(f"{what} cannot be fetched: the issuer answers {answer.status_code}")
                body = bytearray()
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_DOCUMENT_BYTES:
                        raise MemoryUnavailable(f"{what} has more than {MAX_DOCUMENT_BYTES} bytes")
            document = json.loads(body)
        except httpx2.HTTPError as error:
            raise MemoryUnavailable(f"{what} cannot be fetched ({type(error).__name__})") from None
        except (ValueError, RecursionError):
            raise MemoryUnavailable(f"{what}: not JSON") from None
        if not isinstance(document, dict):
            raise MemoryUnavailable(f"{what}: not a JSON object")
        return document  # pyright: ignore[reportUnknownVariableType]

    async def aclose(self) -> None:
        await self._metadata.aclose()
        await self._keys.aclose()
        await self._http.aclose()

    async def _discover(self) -> Metadata:
        what = "the issuer's discovery document"
        document = await self.fetch(self.url.rstrip("/") + DISCOVERY, what=what)
        if document.get("issuer") != self.url:
            raise MemoryUnavailable(f"{what} is for another issuer; AFTERTURN_OIDC_ISSUER must be exactly what it names")
        secure = self.url.startswith("https:")

        def address(name: str) -> str | None:
            value = document.get(name)
            return value if isinstance(value, str) and value.startswith("https://" if secure else ("http://", "https://")) else None

        jwks_url = address("jwks_uri")
        if jwks_url is None:
            raise MemoryUnavailable(f"{what} names no jwks_uri")
        methods = document.get("token_endpoint_auth_methods_supported")
        return Metadata(
            jwks_url=jwks_url,
            authorization_endpoint=address("authorization_endpoint"),
            token_endpoint=address("token_endpoint"),
            userinfo_endpoint=address("userinfo_endpoint"),
            token_auth_methods=tuple(map(str, methods)) if isinstance(methods, list) else ("client_secret_basic",),  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        )

    async def _fetch_keys(self) -> KeySet:
        url = self._jwks_url or (await self.metadata()).jwks_url
        document = await self.fetch(url, what="the issuer's keys")
        try:
            return KeySet(document)
        except ValueError as error:
            raise MemoryUnavailable(f"the issuer's keys: {error}") from None
