"""The container image: what its Dockerfile says, and its steps done here with the packages of its lock alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.deploy import image_checks
from tests.deploy.image import DOCKERFILE, LOCK, ROOT, Image, copied, environment_of, instructions, is_sent, locked, user

HADOLINT = Path(sysconfig.get_path("scripts")) / "hadolint"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Built by the Dockerfile's own commands; packages are links to those installed here."""
    root = Path(tempfile.mkdtemp(prefix="afterturn-image-"))
    try:
        built = Image(root)
        built.build(install=False)
        built.lock_down()
        yield built
    finally:
        shutil.rmtree(root)


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [HADOLINT, "--failure-threshold", "style", DOCKERFILE], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_bases_are_pinned_and_the_result_has_no_tools_to_build() -> None:
    before, build, result = instructions()
    (base,) = (one.text.partition("=")[2] for one in before if one.name == "ARG")
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base)
    assert [stage[0].text for stage in (build, result)] == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    # The Python that the tests run on is the one that is shipped.
    assert base.startswith(f"python:{_tested_python()}.")
    steps = [command for one in result if one.name == "RUN" for command in one.commands]
    assert [command[0] for command in steps] == ["python", "rm", "install"]
    assert steps[0][:4] == ["python", "-m", "pip", "uninstall"]
    assert not any(one.name == "ADD" for stage in (build, result) for one in stage)
    # Nothing is fetched but by its hash, nothing is compiled.
    for command in (command for one in build if one.name == "RUN" for command in one.commands if "pip" in command):
        assert "--no-index" in command or {"--require-hashes", "--only-binary"} <= set(command), command


def test_runs_as_a_numbered_user_in_exec_form() -> None:
    _, _, result = instructions()
    number, group = user().split(":")
    assert int(number) >= 10_000
    assert number == group
    names = [one.name for one in result]
    assert names.index("USER") > max(index for index, name in enumerate(names) if name in {"RUN", "COPY"})
    assert json.loads(next(one.text for one in result if one.name == "ENTRYPOINT")) == ["afterturn"]
    assert json.loads(next(one.text for one in result if one.name == "CMD")) == ["worker"]
    # Ports of the API, of health and of metrics.
    assert next(one.text for one in result if one.name == "EXPOSE").split() == ["8080", "8081", "9464"]
    assert environment_of(result)["AFTERTURN_DATA_DIR"] == "/var/lib/afterturn"


def test_lock_is_the_runtime_without_the_servers_of_dev() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    engines = {Requirement(one).name for one in project["optional-dependencies"]["engines"]}
    runtime = {
        pin: hashes for pin, hashes in locked(ROOT / "requirements" / "runtime.txt").items() if Requirement(pin).name not in engines
    }
    assert locked(LOCK) == runtime, "run make lock"
    names = {Requirement(pin).name for pin in locked(LOCK)}
    assert {Requirement(one).name for one in project["dependencies"]} <= names
    assert not names & engines
    assert not names & {"pytest", "ruff", "basedpyright", "hatchling", "pip", "setuptools", "wheel"}


def test_only_what_is_copied_is_sent_to_the_builder() -> None:
    _, build, _ = instructions()
    sources = [source for names, _ in copied(build) for source in names]
    for source in sources:
        assert is_sent(source), source
        assert (ROOT / source).exists(), source
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sent = {name for name in listed.split("\0") if name and is_sent(name)}
    assert {name for name in sent if not any(name == source or name.startswith(f"{source}/") for source in sources)} == set()
    for name in (
        ".git/config",
        ".env",
        "deploy/.env",
        "deploy/compose/settings.env",
        ".afterturn/dev.json",
        "api/.env",
        "tests/conftest.py",
    ):
        assert not is_sent(name), name
    assert not is_sent("memory/__pycache__/settings.cpython-311.pyc")


def test_wheel_has_all_files(image: Image) -> None:
    image_checks.wheel_has_all_files(image)


def test_commands_run_read_only_without_home(image: Image) -> None:
    image_checks.commands_run(image)


async def test_api_serves_read_only_without_home(image: Image) -> None:
    await image_checks.api_serves(image)


def _tested_python() -> str:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return config["tool"]["basedpyright"]["pythonVersion"]
