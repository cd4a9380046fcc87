"""The settings of running workers and watching them: a part of :class:`memory.settings.Settings`."""

from __future__ import annotations

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings

from memory.model.payload_key import payload_keys
from memory.settings_api import split_address


class OperationsSettings(BaseSettings):
    # health
    health_address: str | None = Field(
        None, description="host:port at which a worker answers probes: /livez, /readyz, /startupz; default: none"
    )
    health_max_tick_s: float = Field(
        20.0, gt=0, le=600, description="a worker whose event loop has stood still for longer counts as dead, seconds"
    )

    # metrics and traces
    metrics_tenants: int = Field(
        100, ge=0, le=10_000, description="companies that metrics name, per process; all further ones count as `other`"
    )
    model_prices: dict[str, tuple[float, float, float]] = Field(
        default_factory=dict[str, tuple[float, float, float]],
        description=(
            "US dollars per million tokens: input, cached input and output, by model, JSON: "
            '{"openai:gpt-4.1-mini": [0.4, 0.1, 1.6]}'
        ),
    )
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=AliasChoices("otlp_endpoint", "AFTERTURN_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="OpenTelemetry collector that takes traces by OTLP over HTTP, http(s)://host:4318; default: no traces",
    )

    # versions and pollers
    deployment_name: str | None = Field(
        None,
        validation_alias=AliasChoices("deployment_name", "AFTERTURN_DEPLOYMENT_NAME", "TEMPORAL_DEPLOYMENT_NAME"),
        description="Worker Versioning: name of the deployment; on with build_id",
    )
    build_id: str | None = Field(
        None,
        validation_alias=AliasChoices("build_id", "AFTERTURN_BUILD_ID", "TEMPORAL_WORKER_BUILD_ID"),
        description="Worker Versioning: build of this worker",
    )
    poller_autoscaling: bool = Field(True, description="workers poll with as many calls as the load needs")
    certificates_check_s: float = Field(
        60.0, ge=1, le=86_400, description="certificate files of the connection to Temporal are looked at this often, seconds"
    )

    # payloads
    payload_keys: SecretStr | None = Field(
        None,
        description="AES-256 keys for what Temporal stores, id:base64,…; the first encrypts, all decrypt; default: not encrypted",
    )
    codec_address: str = Field("127.0.0.1:8730", description="host:port at which `afterturn codec-server` serves the Web UI")
    codec_audience: str | None = Field(
        None, description="audience of the tokens that the Web UI passes to the codec server; default: as oidc_audience"
    )
    codec_role: str = Field("operator", min_length=1, description="role that such a token must have, in the claim of claim_roles")

    @field_validator("payload_keys")
    @classmethod
    def _check_payload_keys(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            try:
                payload_keys(value.get_secret_value())
            except ValueError as error:
                raise PydanticCustomError("keys", "{why}", {"why": str(error)}) from None
        return value

    @field_validator("codec_address")
    @classmethod
    def _check_codec_address(cls, value: str) -> str:
        if split_address(value) is None:
            raise PydanticCustomError("address", "must be host:port with a port of 1 to 65535, for instance 127.0.0.1:8730")
        return value
