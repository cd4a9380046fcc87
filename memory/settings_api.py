"""The settings of the HTTP API and its pages: a part of :class:`memory.settings.Settings`."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a private key, which whoever checks them does not have."""
MIN_SECRET_CHARS: Final = 32
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def split_address(address: str) -> tuple[str, int] | None:
    """Host and port of ``host:port`` (``[::1]:80``); None where it is not one."""
    host, _, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host if ":" not in host else ""
    if not bare or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65_536:
        return None
    return bare, int(port)


class ApiSettings(BaseSettings):
    # where
    api_address: str = Field("127.0.0.1:8720", description="host:port at which `afterturn api` serves")
    public_url: str | None = Field(
        None, description="address of the API as browsers see it, https://…; default: that of api_address (for sign-in and links)"
    )
    temporal_ui_url: str | None = Field(None, description="address of the Temporal Web UI, for links on the admin page")

    # who
    oidc_issuer: str | None = Field(None, description="OpenID Connect issuer whose tokens are accepted, https://…")
    oidc_audience: str | None = Field(None, description="audience that a token must name; required with an issuer")
    oidc_jwks_url: str | None = Field(None, description="keys of the issuer; default: as its discovery document says")
    oidc_algorithms: str = Field("RS256,ES256", description="accepted signature algorithms, by commas; never none or HS…")
    oidc_clock_skew_s: float = Field(30.0, ge=0, le=300, description="difference of clocks that is tolerated, seconds")
    oidc_client_id: str | None = Field(None, description="client id for signing in to the pages")
    oidc_client_secret: SecretStr | None = Field(None, description="client secret for signing in to the pages")
    oidc_scopes: str = Field("openid profile", description="scopes asked for when signing in to the pages")
    claim_tenant: str = Field("tenant", description="claim with the company; a.b reads b inside a")
    claim_user: str = Field("sub", description="claim with the user id")
    claim_roles: str = Field("roles", description="claim with the roles (user, admin, service), a list or words")
    claim_teams: str = Field("teams", description="claim with the teams; where it is there, it sets the user's teams")
    claim_read_only_teams: str = Field("read_only_teams", description="claim with those teams whose tables are only read")
    session_secret: SecretStr | None = Field(None, description="signs the pages' cookies, at least 32 characters; needed for pages")
    session_max_age_s: float = Field(28_800.0, ge=60, le=2_592_000, description="a sign-in to the pages ends after this time")

    # how much
    api_rate_per_minute: int = Field(
        1200, ge=0, description="requests per minute and caller (for a service: and user) in one process; 0: no limit"
    )
    api_max_concurrent: int = Field(400, ge=1, le=100_000, description="requests at once in one process; more have to come back")
    api_max_streams: int = Field(1000, ge=1, le=100_000, description="open event streams in one process")

    # notices
    notice_stream: bool = Field(True, description="notices go to the streams of the API")

    # forgetting
    forget_settle_s: float | None = Field(
        None,
        ge=0,
        le=86_400,
        description="after an erasure, wait this long for what was under way and delete that too; default: the longest step",
    )

    @field_validator("api_address")
    @classmethod
    def _check_api_address(cls, value: str) -> str:
        if split_address(value) is None:
            raise PydanticCustomError("address", "must be host:port with a port of 1 to 65535, for instance 127.0.0.1:8720")
        return value

    @field_validator("public_url", "temporal_ui_url", "oidc_issuer", "oidc_jwks_url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            url = urlsplit(value)
            usable = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
            bare = url.username is None and not url.query and not url.fragment
        except ValueError:
            usable = bare = False
        if not usable or not bare:
            raise PydanticCustomError("url", "must be an address https://host/… without user, password, query or fragment")
        return value

    @field_validator("oidc_issuer", "oidc_jwks_url")
    @classmethod
    def _check_encrypted(cls, value: str | None) -> str | None:
        # Whoever can change these answers on their way can sign in as anybody.
        if value is not None and value.startswith("http:") and urlsplit(value).hostname not in LOOPBACK:
            raise PydanticCustomError("https", "must be an https:// address (http:// only on this machine)")
        return value

    @field_validator("oidc_algorithms")
    @classmethod
    def _check_algorithms(cls, value: str) -> str:
        names = [name.strip() for name in value.split(",") if name.strip()]
        wrong = sorted(set(names) - set(ALGORITHMS))
        if not names or wrong:
            told = f"not {wrong[0][:20]!r}; " if wrong else ""
            raise PydanticCustomError(
                "algorithms", "{told}names, by commas, of: {all}", {"told": told, "all": ", ".join(ALGORITHMS)}
            )
        return ",".join(names)

    @field_validator("session_secret")
    @classmethod
    def _check_secret(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < MIN_SECRET_CHARS:
            raise PydanticCustomError(
                "secret", "must have at least {n} characters, for instance of: openssl rand -base64 48", {"n": MIN_SECRET_CHARS}
            )
        return value
