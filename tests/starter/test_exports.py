"""The public names: all of them are there, and asking for one loads no more than it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import starter


def test_every_public_name_is_there() -> None:
    for name in starter.__all__:
        assert getattr(starter, name).__name__ == name
    assert set(starter.__all__) <= set(dir(starter))


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        starter.no_such_name  # noqa: B018


def test_the_client_loads_no_model_sdk() -> None:
    code = "import sys, starter.client; print([n for n in ('openai', 'anthropic', 'tiktoken', 'alembic') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert done.stdout.strip() == "[]"
