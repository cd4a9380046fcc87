"""Settings: an unknown name or a wrong value stops the start with one line that names it; secrets are not shown."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from memory.model.errors import InvalidSettings
from memory.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AFTERTURN_", "FEATURE_FLAG_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_an_unknown_name_is_refused_with_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_LOAD_BUDET_MS", "1")
    with pytest.raises(InvalidSettings, match=r"AFTERTURN_LOAD_BUDET_MS; did you mean AFTERTURN_LOAD_BUDGET_MS\?"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AFTERTURN_LOAD_BUDGET_MS", "soon"),
        ("AFTERTURN_MODEL_TIMEOUT_S", "-1"),
        ("AFTERTURN_KNOWLEDGE_MAX_WALL_S", "nan"),
        ("AFTERTURN_WINDOW_IDLE_S", "inf"),
        ("AFTERTURN_RECONCILE_EVERY_S", "nan"),
        ("AFTERTURN_LOG_LEVEL", "loud"),
        ("AFTERTURN_BUCKET_PREFIX", "UPPER"),
        ("AFTERTURN_COALESCE_MAX_TURNS", "0"),
        ("AFTERTURN_METRICS_ADDRESS", "9464"),
        ("AFTERTURN_METRICS_ADDRESS", ":9464"),
        ("AFTERTURN_METRICS_ADDRESS", "[]:9464"),
        ("AFTERTURN_METRICS_ADDRESS", "::1:9464"),
        ("AFTERTURN_METRICS_ADDRESS", "localhost:0"),
        ("AFTERTURN_METRICS_ADDRESS", "localhost:65536"),
        ("AFTERTURN_METRICS_ADDRESS", "localhost:²"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_not_repeated(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings, match=name) as caught:
        load_settings()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("address", ["127.0.0.1:9464", "[::1]:9464", "metrics.example.com:1", "localhost:65535"])
def test_an_address_for_metrics(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("AFTERTURN_METRICS_ADDRESS", address)
    assert load_settings().metrics_address == address


def test_a_wrong_secret_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_OPENAI_API_KEY", "sk-not-to-be-seen")
    assert "not-to-be-seen" not in repr(load_settings())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("true", True),
        ("1", True),
        ("", False),
        ("false", False),
        ("acme, beta", frozenset({"acme", "beta"})),
        ('["acme"]', frozenset({"acme"})),
    ],
)
def test_the_feature_flag_is_true_or_a_list_of_companies(monkeypatch: pytest.MonkeyPatch, value: str, expected: object) -> None:
    monkeypatch.setenv("FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033", value)
    assert load_settings().feature_flag == expected


def test_the_environment_wins_over_a_running_dev_and_arguments_over_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ".afterturn"
    folder.mkdir()
    record = {"pid": os.getpid(), "settings": {"object_store_endpoint": "dev:1", "object_store_region": "dev"}}
    (folder / "dev.json").write_text(json.dumps(record))
    assert load_settings().object_store_endpoint == "dev:1"
    monkeypatch.setenv("AFTERTURN_OBJECT_STORE_ENDPOINT", "env:1")
    assert load_settings().object_store_endpoint == "env:1"
    assert load_settings().object_store_region == "dev"
    assert load_settings(object_store_endpoint="arg:1").object_store_endpoint == "arg:1"


def test_the_environments_feature_flag_wins_over_a_running_dev(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ".afterturn"
    folder.mkdir()
    (folder / "dev.json").write_text(json.dumps({"pid": os.getpid(), "settings": {"feature_flag": True}}))
    assert load_settings().feature_flag is True
    monkeypatch.setenv("FEATURE_FLAG_ENABLE_CONTEXT_MEMORY_UN_22033", "acme")
    assert load_settings().feature_flag == frozenset({"acme"})


def test_a_dev_record_of_a_process_that_is_gone_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / ".afterturn"
    folder.mkdir()
    (folder / "dev.json").write_text(json.dumps({"pid": 2**22 + 1, "settings": {"object_store_endpoint": "dev:1"}}))
    assert load_settings().object_store_endpoint == "127.0.0.1:9000"


def test_a_broken_dev_record_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ".afterturn"
    folder.mkdir()
    (folder / "dev.json").write_text("{")
    with pytest.raises(InvalidSettings, match=r"dev\.json"):
        load_settings()


def test_every_setting_says_what_it_means() -> None:
    assert all(field.description for field in Settings.model_fields.values())
