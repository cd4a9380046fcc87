"""The settings of the HTTP API and its pages: a part of :class:`memory.settings.Settings`."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings


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

    # forgetting
    forget_settle_s: float | None = Field(
        None,
        ge=0,
        le=86_400,
        description="after an erasure, wait this long for what was under way and delete that too; default: the longest step",
    )
