"""Skips this folder unless it is asked for and installed; starts the model's server once per session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from memory.llm.factory import build_models
from memory.ports import ModelProvider
from memory.settings import load_settings
from tests.llamacpp.install import MODEL_FILE, missing

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    absent = missing()
    reason = None
    if absent:
        reason = f"needs {absent}; `make llamacpp` installs it"
    elif "llamacpp" not in config.option.markexpr:
        reason = "optional, slow; `make llamacpp` runs it"
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.llamacpp)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def llama_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that speaks OpenAI chat completions (below ``/v1``) and Anthropic messages."""
    log = tmp_path_factory.mktemp("llamacpp") / "server.log"
    command = [sys.executable, "-m", "tests.llamacpp.server", str(MODEL_FILE)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=HERE.parents[1]) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            # The line comes when the model is loaded, or the pipe ends; the test's own time-out bounds the wait.
            address = server.stdout.readline().decode().strip()
            if not address:
                pytest.fail(f"the llama.cpp server did not start: {log.read_text(errors='replace')[-2000:]}")
            yield address
        finally:
            server.stdin.close()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture
async def llama_models(llama_url: str) -> AsyncIterator[ModelProvider]:
    """``openai:…`` and ``anthropic:…`` of any model name are the small model."""
    models = build_models(load_settings({}, openai_base_url=f"{llama_url}/v1", anthropic_base_url=llama_url))
    yield models
    await models.aclose()
