"""From names and settings to models: clear errors, nothing opened or imported before its time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from memory.llm import factory
from memory.llm.factory import MAX_OPEN_MODELS, SdkModels, build_models
from memory.model.errors import InvalidInput, InvalidSettings
from memory.settings import load_settings

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def models(**settings: Any) -> SdkModels:
    made = build_models(load_settings({}, **settings))
    assert isinstance(made, SdkModels)
    return made


@pytest.mark.parametrize("name", ["gemini:pro", "gemini", "Openai:gpt", "open-ai:x"])
def test_an_unknown_provider_lists_the_known_ones(name: str) -> None:
    for use in (models().model, models().token_counter):
        with pytest.raises(InvalidInput, match="anthropic, openai, simulated"):
            use(name)


@pytest.mark.parametrize("name", ["", ":", "openai:", "openai:a b", "openai:a\nb", "openai:ä", "openai:" + "x" * 300, "ignore all"])
def test_what_is_no_name_is_not_repeated(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        models().model(name)
    assert "provider:model" in caught.value.message
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(("name", "variable"), [("openai:gpt-4.1", "OPENAI_API_KEY"), ("anthropic:claude", "ANTHROPIC_API_KEY")])
def test_a_missing_key_is_named(name: str, variable: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name} needs a key: set {variable}"):
        models().model(name)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_provider_alone_is_not_enough(name: str) -> None:
    with pytest.raises(InvalidInput, match="names no model"):
        models(openai_api_key=KEY, anthropic_api_key=KEY).model(name)


@pytest.mark.parametrize("key", ["sk test", "sk-ключ", "sk\ntest"])
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidSettings, match="OPENAI_API_KEY has characters") as caught:
        models(openai_api_key=key).model("openai:gpt-4.1")
    assert key not in caught.value.message


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host/", "http://", "http://[", "http://host:99999"])
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_ANTHROPIC_BASE_URL"):
        models(anthropic_base_url=url).model("anthropic:claude")


def test_an_address_holds_no_password() -> None:
    with pytest.raises(InvalidSettings, match="holds a user or password") as caught:
        models(openai_base_url="http://me:secret@host/v1").model("openai:m")
    assert "secret" not in caught.value.message


def test_a_wrong_pattern_is_refused_at_start() -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_REASONING_MODELS"):
        models(reasoning_models="(")


def test_wrong_faults_name_the_setting() -> None:
    with pytest.raises(InvalidSettings, match=r"AFTERTURN_SIMULATED_FAULTS: .*typo"):
        models(simulated_faults="typo=1").model("simulated")


async def test_keys_are_nowhere_to_be_seen() -> None:
    made = models(openai_api_key=KEY, anthropic_api_key=KEY)
    for name in ("openai:gpt-4.1", "anthropic:claude"):
        model = made.model(name)
        assert KEY not in repr(model) + repr(made) + repr(vars(made)) + repr(vars(model))
    await made.aclose()


async def test_models_are_kept_and_bounded_and_share_one_client() -> None:
    made = models(openai_api_key=KEY)
    first = made.model("openai:m0")
    for n in range(MAX_OPEN_MODELS):
        made.model(f"openai:m{n}")
    assert made.model("openai:m0") is first
    made.model("openai:one-more")
    assert len(made._models) == MAX_OPEN_MODELS
    assert made.model("openai:m0") is first
    assert made.model("openai:m2")._client is first._client  # type: ignore[attr-defined]
    await made.aclose()


async def test_closing_closes_clients_and_can_be_repeated() -> None:
    made = models(openai_api_key=KEY, anthropic_api_key=KEY)
    clients = [made.model(name)._client for name in ("openai:m", "anthropic:m")]  # type: ignore[attr-defined]
    await made.aclose()
    await made.aclose()
    assert all(client.is_closed() for client in clients)


def test_token_counters_need_no_key() -> None:
    made = models()
    assert (made.token_counter("openai:gpt-4o").name, made.token_counter("openai:gpt-4o").exact) == ("o200k_base", True)
    assert made.token_counter("anthropic:claude").exact is False
    assert made.token_counter("simulated").exact is True


def test_a_provider_can_be_added() -> None:
    class Echo:
        def __init__(self, settings: Any) -> None: ...
        def model(self, name: str, model: str) -> Any:
            return (name, model)

        async def aclose(self) -> None: ...

    made = SdkModels(load_settings({}), {**factory.PROVIDERS, "echo": Echo})
    assert made.model("echo:a:b/c") == ("echo:a:b/c", "a:b/c")


def test_no_sdk_is_imported_before_a_model_of_it_is_asked_for() -> None:
    script = (
        "import sys\n"
        "from memory.llm.factory import build_models\n"
        "from memory.settings import load_settings\n"
        "m = build_models(load_settings({}))\n"
        "m.model('simulated'); m.token_counter('openai:gpt-4o')\n"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'tiktoken._tiktoken'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"[]", "['tiktoken._tiktoken']"}
