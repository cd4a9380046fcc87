"""Settings and deploy/ agree, both ways: what is named there is a setting or another program's, and each setting is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from memory.settings import PREFIX, load_settings
from starter.cli.settings_table import setting_rows
from tests.deploy.compose import DEPLOY, ROOT, is_ours, load, read_env
from tests.support import settings_env

SETTINGS = {name for row in setting_rows() for name in row.names}
TEMPORAL_SDK = {
    # Of Temporal's SDKs and command: docs.temporal.io, "Environment configuration".
    "TEMPORAL_ADDRESS",
    "TEMPORAL_NAMESPACE",
    "TEMPORAL_API_KEY",
    "TEMPORAL_CONFIG_FILE",
    "TEMPORAL_PROFILE",
    "TEMPORAL_TLS",
    "TEMPORAL_TLS_CLIENT_CERT_PATH",
    "TEMPORAL_TLS_CLIENT_KEY_PATH",
    "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    "TEMPORAL_TLS_SERVER_NAME",
    "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION",
}
OURS = SETTINGS | TEMPORAL_SDK
"""What a container of ours may be given."""
NO_SETTING = {"AFTERTURN_API_PORT"}
"""What Kubernetes would put into the pods for a Service of that name; manifests say why they forbid it."""
OTHERS: dict[str, set[str]] = {
    # hub.docker.com/_/postgres; the two passwords are read by compose/postgresql.sql.
    "postgres": {"POSTGRES_PASSWORD", "POSTGRES_USER", "POSTGRES_DB", "PGDATA", "DATABASE_PASSWORD", "TEMPORAL_DATABASE_PASSWORD"},
    # MinIO's "Server Configuration Reference", and that of its command mc.
    "quay.io/minio/minio": {
        "MINIO_ROOT_USER",
        "MINIO_ROOT_PASSWORD",
        "MINIO_BROWSER_REDIRECT_URL",
        "MINIO_PROMETHEUS_AUTH_TYPE",
        "MC_CONFIG_DIR",
    },
    # Any setting of Qdrant's config.yaml as QDRANT__SECTION__NAME.
    "qdrant/qdrant": {"QDRANT__SERVICE__API_KEY", "QDRANT__TELEMETRY_DISABLED"},
    # temporal-sql-tool's flags (tools/sql/main.go), and the command temporal.
    "temporalio/admin-tools": {
        "SQL_PLUGIN",
        "SQL_HOST",
        "SQL_PORT",
        "SQL_USER",
        "SQL_PASSWORD",
        "TEMPORAL_ADDRESS",
        "TEMPORAL_NAMESPACE",
    },
    # The server's embedded template (common/config/config_template_embedded.yaml) and its entry point.
    "temporalio/server": {
        "DB",
        "DB_PORT",
        "DBNAME",
        "VISIBILITY_DBNAME",
        "POSTGRES_SEEDS",
        "POSTGRES_USER",
        "POSTGRES_PWD",
        "BIND_ON_IP",
        "NUM_HISTORY_SHARDS",
        "PROMETHEUS_ENDPOINT",
        "DYNAMIC_CONFIG_FILE_PATH",
        "LOG_LEVEL",
    },
    # The UI's own template (server/config/docker.yaml).
    "temporalio/ui": {"TEMPORAL_ADDRESS", "TEMPORAL_UI_PORT", "TEMPORAL_CORS_ORIGINS", "TEMPORAL_NOTIFY_ON_NEW_VERSION"},
    # Any setting of grafana.ini as GF_SECTION_NAME.
    "grafana/grafana": {
        "GF_SECURITY_ADMIN_USER",
        "GF_SECURITY_ADMIN_PASSWORD",
        "GF_SERVER_ROOT_URL",
        "GF_USERS_ALLOW_SIGN_UP",
        "GF_ANALYTICS_REPORTING_ENABLED",
        "GF_ANALYTICS_CHECK_FOR_UPDATES",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES",
        "GF_PLUGINS_PREINSTALL_DISABLED",
    },
}
"""Variables of other programs, by image; where they are documented."""
TEXTS = {".yaml", ".yml", ".env", ".md", ".sh", ".json", ".sql", ""}


def texts() -> Iterator[tuple[Path, str]]:
    for file in sorted(DEPLOY.rglob("*")):
        # .env holds somebody's passwords.
        if file.is_file() and file.name != ".env" and file.suffix in TEXTS:
            yield file.relative_to(ROOT), file.read_text(encoding="utf-8")


def env_files() -> list[Path]:
    """Of Kubernetes' ConfigMaps, by kustomize."""
    return sorted((DEPLOY / "kubernetes").rglob("settings.env"))


def test_each_name_of_ours_is_a_setting() -> None:
    """In whatever file: manifests, comments, documents."""
    unknown = {
        (str(file), name)
        for file, text in texts()
        for name in re.findall(rf"\b(?:{PREFIX}|UNITY_MEMORY_)[A-Z0-9_]*[A-Z0-9]\b", text)
        if name not in SETTINGS | NO_SETTING
    }
    # A name with more behind it, as AFTERTURN_API_….
    assert {(file, name) for file, name in unknown if not any(known.startswith(f"{name}_") for known in SETTINGS)} == set()


def test_each_setting_is_in_deploy() -> None:
    """With its meaning and its default, as they are now."""
    text = settings_env.FILE.read_text(encoding="utf-8")
    assert settings_env.START in text
    made = settings_env.START + _commented_out(text.partition(settings_env.START)[2])
    assert made == settings_env.generated(), "run python -m tests.support.settings_env"


def _commented_out(text: str) -> str:
    """A setting that was switched on for these containers counts as the same line."""
    return re.sub(r"(?m)^([A-Z])", r"#\1", text)


def test_each_variable_of_a_service_is_known() -> None:
    services = load()["services"]
    for name, service in services.items():
        image = str(service["image"]).rpartition(":")[0]
        known = OURS if is_ours(service) else OTHERS.get(image, set())
        assert (service.get("environment") or {}).keys() <= known, name
    # And nothing is listed that nobody uses.
    used = {str(service["image"]).rpartition(":")[0] for service in services.values()}
    assert OTHERS.keys() <= used


def test_each_variable_of_a_manifest_is_known() -> None:
    given: dict[str, set[str]] = {}
    for file in env_files():
        given[str(file.relative_to(ROOT))] = set(read_env(file))
    for file, text in texts():
        if file.suffix == ".yaml" and "kubernetes" in file.parts:
            for document in yaml.safe_load_all(text):
                given.setdefault(str(file), set()).update(_variables(document))
    assert given
    for where, names in given.items():
        assert names <= OURS, f"{where}: {sorted(names - OURS)}"


def _variables(node: Any) -> Iterator[str]:
    """Of containers of ours and of the maps that kustomize makes; other programs' containers are left to their manifests."""
    match node:
        case {"image": "afterturn", "env": list(entries)}:
            yield from (str(entry["name"]) for entry in entries)
        case {"configMapGenerator": list(maps)}:
            yield from (line.partition("=")[0] for one in maps if "settings" in one["name"] for line in one.get("literals", []))
        case _:
            pass
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _variables(inner)


@pytest.mark.parametrize("file", env_files(), ids=lambda file: str(file.relative_to(DEPLOY)))
def test_each_map_is_accepted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the settings themselves: values, not names alone. An overlay's map is laid over that of the base."""
    for name in [name for name in os.environ if name in SETTINGS or name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    for name, value in (read_env(DEPLOY / "kubernetes" / "base" / "settings.env") | read_env(file)).items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert settings.log_format == "json"
    assert settings.vector_url


def test_no_secret_is_in_a_map() -> None:
    secret = {name for row in setting_rows() if row.secret for name in row.names} | {"TEMPORAL_API_KEY"}
    for file in [*env_files(), settings_env.FILE]:
        assert not secret & read_env(file).keys(), file
