"""deploy/compose.yaml and what it mounts, as far as that can be known without an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.main import get_command

from memory.settings import load_settings
from starter.cli.app import app
from tests.deploy.compose import DEPLOY, FILE, ROOT, is_job, is_ours, load, read_env, variables

COMPOSE = load()
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OPTIONAL = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}
UNPROBED = {"otel-collector", "jaeger"}
"""Images without a shell and without a client; nothing waits for them."""
DOCUMENT = ROOT / "docs" / "deploy-compose.md"


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What make-env writes."""
    folder = tmp_path_factory.mktemp("deploy") / "compose"
    folder.mkdir()
    shutil.copy(DEPLOY / "compose" / "make-env", folder)
    subprocess.run([folder / "make-env"], check=True, capture_output=True, timeout=30)
    return read_env(folder.parent / ".env")


def test_follows_the_compose_specification() -> None:
    text = (files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    problems = [
        f"{error.json_path}: {error.message[:200]}"
        for error in jsonschema.validators.validator_for(schema)(schema).iter_errors(COMPOSE)
    ]
    assert problems == []


def test_yamllint_finds_nothing() -> None:
    """In all of deploy/."""
    command = [sys.executable, "-m", "yamllint", "--strict", "--format", "parsable", "deploy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_images_are_of_one_version() -> None:
    for name, service in SERVICES.items():
        if not is_ours(service):
            _, _, tag = service["image"].rpartition(":")
            assert re.search(r"\d+\.\d+\.\d+|\d+\.\d+-|RELEASE\.\d{4}-\d\d-\d\dT", tag), name
    assert {service["image"] for service in SERVICES.values() if is_ours(service)} == {"afterturn:compose"}
    assert len({service["image"] for name, service in SERVICES.items() if name in {"temporal-schema", "temporal-namespace"}}) == 1


def test_waits_for_what_it_needs() -> None:
    for name, service in SERVICES.items():
        assert is_job(service) or name in UNPROBED or "healthcheck" in service, f"{name} has no health check"
        for needed, how in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if is_job(SERVICES[needed]) else "service_healthy"
            assert how["condition"] == wanted, f"{name} waits for {needed}"
            assert needed not in UNPROBED
    for name in ("worker", "llm-worker", "api"):
        assert {"migrate", "temporal", "postgresql", "minio", "qdrant"} <= SERVICES[name]["depends_on"].keys()
    started: set[str] = set()
    while len(started) < len(SERVICES):
        ready = {name for name, service in SERVICES.items() if service.get("depends_on", {}).keys() <= started}
        assert ready > started, f"they wait for each other: {SERVICES.keys() - started}"
        started = ready


def test_everything_is_bounded_and_has_few_rights() -> None:
    for name, service in SERVICES.items():
        assert service["cpus"] > 0, name
        assert service["mem_limit"], name
        assert {"max-size", "max-file"} <= service["logging"]["options"].keys(), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.keys() & {"privileged", "cap_add", "pid", "network_mode", "user"}, name
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), name
        for check in filter(None, [service.get("healthcheck")]):
            assert check["test"][0] == "CMD", f"{name}: exec form"
            assert {"interval", "timeout", "retries", "start_period"} <= check.keys(), name
        if is_ours(service):
            assert service["read_only"] is True
            assert service["init"] is True
            assert service["cap_drop"] == ["ALL"]
            assert service["tmpfs"]


def test_mounts_exist_and_are_read_only() -> None:
    for name, service in SERVICES.items():
        for mount in service.get("volumes", []):
            source, target, *mode = mount.split(":")
            assert target.startswith("/"), name
            if source.startswith("."):
                assert (DEPLOY / source).exists(), f"{name}: {source}"
                assert mode == ["ro"], f"{name}: {source}"
            else:
                assert source in COMPOSE["volumes"], f"{name}: {source}"
        for file in service.get("env_file", []):
            assert (DEPLOY / file).is_file()
    assert {mount.split(":")[0] for s in SERVICES.values() for mount in s.get("volumes", []) if mount[0] != "."} == set(
        COMPOSE["volumes"]
    )


def test_secrets_have_no_defaults(values: dict[str, str]) -> None:
    asked = variables(FILE.read_text(encoding="utf-8"))
    assert {name for name, (rule, _) in asked.items() if rule != ":?"} == OPTIONAL
    assert all(word == "" for name, (_, word) in asked.items() if name in OPTIONAL)
    # Two ways: what is asked for is written, what is written is asked for.
    assert asked.keys() == values.keys()
    for service in SERVICES.values():
        for name, value in (service.get("environment") or {}).items():
            if re.search(r"PASSWORD|_PWD|SECRET|API_KEY", name):
                assert str(value).startswith("${"), f"{name} is written out"
    with pytest.raises(KeyError, match="DATABASE_PASSWORD"):
        load({**values, "DATABASE_PASSWORD": ""})


def test_make_env_is_careful(tmp_path: Path) -> None:
    folder = tmp_path / "deploy" / "compose"
    folder.mkdir(parents=True)
    shutil.copy(DEPLOY / "compose" / "make-env", folder)
    file = tmp_path / "deploy" / ".env"
    first = subprocess.run([folder / "make-env"], capture_output=True, text=True, timeout=30, check=False)
    assert (first.returncode, first.stderr) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secrets = [value for name, value in read_env(file).items() if name.endswith(("PASSWORD", "_KEY")) and value]
    assert len(set(secrets)) == len(secrets) == 6
    assert all(re.fullmatch(r"[A-Za-z0-9]{40}", secret) for secret in secrets)
    assert not any(secret in first.stdout for secret in secrets)
    kept = file.read_bytes()
    again = subprocess.run([folder / "make-env"], capture_output=True, text=True, timeout=30, check=False)
    assert again.returncode == 1
    assert "down --volumes" in again.stderr
    assert file.read_bytes() == kept
    assert list(file.parent.iterdir()) == [folder, file] or set(file.parent.iterdir()) == {folder, file}


def test_git_and_the_builder_ignore_the_secrets() -> None:
    done = subprocess.run(["git", "check-ignore", "--quiet", "deploy/.env"], cwd=ROOT, timeout=30, check=False)
    assert done.returncode == 0


def test_settings_are_accepted(values: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, service in load(values)["services"].items():
        if not is_ours(service):
            continue
        given = read_env(DEPLOY / "compose" / "settings.env") | {key: str(value) for key, value in service["environment"].items()}
        with monkeypatch.context() as patch:
            for key in [
                key
                for key in os.environ
                if key.startswith(("AFTERTURN_", "TEMPORAL_", "OPENAI_", "ANTHROPIC_", "FEATURE_", "OTEL_"))
            ]:
                patch.delenv(key)
            for key, value in given.items():
                patch.setenv(key, value)
            settings = load_settings(data_dir=tmp_path)
        assert settings.language_model == "simulated"
        assert settings.feature_flag == frozenset({"demo"})
        assert settings.vector_url == "http://qdrant:6333"
        assert settings.sqlalchemy_url.endswith(f":{values['DATABASE_PASSWORD']}@postgresql:5432/afterturn")
        assert _seconds(service["stop_grace_period"]) == settings.graceful_shutdown_s + 15, name
        port = {"worker": settings.health_address, "llm-worker": settings.health_address, "api": settings.api_address}.get(name)
        if port is not None:
            assert service["healthcheck"]["test"][-2:] == [port.rpartition(":")[2], "/readyz"]
            assert settings.metrics_address == "0.0.0.0:9464"


def test_commands_are_ours(values: dict[str, str]) -> None:
    for service in load(values)["services"].values():
        if is_ours(service):
            _parse(service["command"])


def test_document_names_what_there_is() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert lines
    for line in lines:
        assert line.startswith(("docker compose -f deploy/compose.yaml ", "deploy/compose/make-env", "curl ", "MEMORY_TOKEN=")), (
            line
        )
        for arguments in re.findall(r"afterturn ((?:doctor|tokens|status)[^|)]*)", line):
            _parse(arguments.split())
        for service in re.findall(r"exec (?:-T )?(\S+)|logs --follow (\S+) (\S+)|--scale (\S+)=", line):
            assert set(filter(None, service)) <= SERVICES.keys(), line
    published = {f"localhost:{port.split(':')[1]}" for service in SERVICES.values() for port in service.get("ports", [])}
    assert set(re.findall(r"localhost:\d+", text)) == published
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link == "deploy.md" or (DOCUMENT.parent / link).exists(), link


def _parse(arguments: list[str]) -> None:
    """Finds the command and parses its options, without running it."""
    command: Any = get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.make_context("afterturn", rest)


def _seconds(text: str) -> int:
    return int(text.removesuffix("s"))
