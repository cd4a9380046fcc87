"""What deploy/Dockerfile does, done here: there may be no container engine, but its steps are commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
LOCK = ROOT / "requirements" / "image.txt"
HOME = "/opt/afterturn"
"""The environment's place in the image."""
STEP_S = 900.0


@dataclass(frozen=True)
class Instruction:
    """``name``: as ``RUN``. ``text``: all behind it, continued lines joined."""

    name: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """Of a RUN in shell form: the commands between ``&&``."""
        return [shlex.split(part) for part in self.text.split(" && ")]


def instructions() -> list[list[Instruction]]:
    """By stage; what stands before the first FROM comes first."""
    lines = [line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[list[Instruction]] = [[]]
    for line in filter(None, map(str.strip, whole.splitlines())):
        name, _, text = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append(Instruction(name, text.strip()))
    return stages


def environment_of(stage: Sequence[Instruction]) -> dict[str, str]:
    """What ENV sets in a stage; ``$PATH`` stays as it is written."""
    pairs = [word.partition("=") for one in stage if one.name == "ENV" for word in shlex.split(one.text)]
    return {name: value for name, _, value in pairs}


def copied(stage: Sequence[Instruction]) -> list[tuple[list[str], str]]:
    """COPY from the build context: sources and target."""
    words = [one.text.split() for one in stage if one.name == "COPY" and not one.text.startswith("--from")]
    return [(line[:-1], line[-1]) for line in words]


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets a file go to the builder. The last pattern that fits a path or a folder above it decides."""
    sent = True
    place = PurePosixPath(path)
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        if any(_fits(str(part), pattern) for part in (place, *place.parents) if str(part) != "."):
            sent = line.startswith("!")
    return sent


def _fits(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatchcase(PurePosixPath(path).name, pattern[3:])
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def lay_context(stage: Sequence[Instruction], target: Path) -> None:
    """The files that the stage copies out of what is sent to the builder."""
    for sources, place in copied(stage):
        for source in sources:
            origin = ROOT / source
            for file in [origin] if origin.is_file() else sorted(origin.rglob("*")):
                name = file.relative_to(ROOT).as_posix()
                if file.is_file() and is_sent(name):
                    # A folder's content goes into the target, a file into it by its name.
                    inside = file.name if origin.is_file() else file.relative_to(origin).as_posix()
                    to = target / place / inside
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(file, to)


def locked(path: Path) -> dict[str, str]:
    """Every pin of a lock file, ``name==version`` with its marker, and all its hashes as one word."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=[a-z0-9])", path.read_text(encoding="utf-8").strip()):
        pin, *hashes = (part.strip() for part in entry.split("\\\n"))
        assert hashes, f"{pin} has no hash"
        assert all(one.startswith("--hash=sha256:") for one in hashes), entry
        found[pin] = " ".join(hashes)
    return found


def locked_here(path: Path) -> dict[str, str]:
    """Versions by name, of the pins whose markers hold here."""
    found: dict[str, str] = {}
    for pin in locked(path):
        requirement = Requirement(pin)
        if requirement.marker is None or requirement.marker.evaluate():
            found[requirement.name] = next(iter(requirement.specifier)).version
    return found


def link_packages(site: Path) -> None:
    """Fills a folder of packages with links to what is installed here, for what the lock names and nothing else."""
    for name, version in locked_here(LOCK).items():
        here = distribution(name)
        assert here.version == version, f"{name} {here.version} is installed, the lock has {version}: run make setup-dev"
        for file in here.files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (site / top).exists():
                (site / top).symlink_to(Path(str(here.locate_file(top))))


class Image:
    """A folder that holds what the image holds at the same places: ``<root>/opt/afterturn``, ``<root>/var/lib/afterturn``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / HOME.lstrip("/")
        self.data = root / "var" / "lib" / "afterturn"
        self.wheels = root / "wheels"
        self.log = root / "log"
        self._account: dict[str, Any] = {}
        """Whom commands run as, for ``subprocess``: the image's user, where we may become it."""

    @property
    def wheel(self) -> Path:
        (found,) = self.wheels.glob("*.whl")
        return found

    def build(self, *, install: bool) -> None:
        """Does the steps of the first stage.

        ``install``: packages come from the registry, as in the image, else they are linked.
        """
        source = self.root / "src"
        _, first, _ = instructions()
        lay_context(first, source)
        for step in (one for one in first if one.name == "RUN"):
            for command in step.commands:
                if "--require-hashes" in command and (not install or "requirements/build.txt" in command):
                    # Tools of the build: those that are here.
                    if "requirements/image.txt" in command:
                        link_packages(self.home / "lib" / f"python3.{sys.version_info.minor}" / "site-packages")
                    continue
                self._run(self._here(command), cwd=source)
        self.data.mkdir(parents=True)
        shutil.rmtree(source)

    def _here(self, command: Sequence[str]) -> list[str]:
        """A command of the Dockerfile with the places and the interpreter of this machine."""
        places = {"/wheels/*.whl": str(self.wheel) if "/wheels/*.whl" in command else "", "/wheels": str(self.wheels)}
        words = [places.get(word, word.replace(HOME, str(self.home))) for word in command]
        if words[0] != "python":
            return words
        return [interpreter() if "venv" in words else sys.executable, *words[1:]]

    @staticmethod
    def _run(command: Sequence[str], *, cwd: Path) -> None:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=STEP_S, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stdout[-1500:]}{done.stderr[-1500:]}"

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The image's own, nothing of this machine's, no HOME."""
        given = environment_of(instructions()[-1])
        path = given.pop("PATH").replace(HOME, str(self.home)).replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
        return {**given, "PATH": path, "AFTERTURN_DATA_DIR": str(self.data), **extra}

    def entrypoint(self) -> list[str]:
        (word,) = (json.loads(one.text) for one in instructions()[-1] if one.name == "ENTRYPOINT")
        return [str(self.home / "bin" / word[0]), *word[1:]]

    def run(self, *arguments: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return self.execute([*self.entrypoint(), *arguments], extra)

    def execute(self, command: Sequence[str], extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment(extra or {}),
            cwd=self.root / "empty",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **self._account,
        )

    @contextmanager
    def running(self, *arguments: str, extra: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """What it writes goes to ``self.log``."""
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [*self.entrypoint(), *arguments],
                env=self.environment(extra or {}),
                cwd=self.root / "empty",
                stdout=log,
                stderr=subprocess.STDOUT,
                **self._account,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def lock_down(self) -> None:
        """As in a container: what runs owns its data folder and can write nowhere else."""
        empty = self.root / "empty"
        empty.mkdir()
        empty.chmod(0o555)
        self.root.chmod(0o755)
        if os.geteuid() != 0:
            return
        self._account = account()
        if can_run(self.home / "bin" / "python", "import typer"):
            os.chown(self.data, self._account["user"], self._account["group"])
        else:
            self._account = {}  # this clone, or the interpreter, lies in a folder that is root's alone


def account() -> dict[str, Any]:
    """The image's user, for ``subprocess``."""
    number, group = map(int, user().split(":"))
    return {"user": number, "group": group, "extra_groups": []}


def can_run(python: Path, program: str) -> bool:
    """Whether the image's user can run this interpreter here. For root."""
    try:
        done = subprocess.run([python, "-c", program], cwd="/", capture_output=True, timeout=60, check=False, **account())
    except OSError:
        return False
    return done.returncode == 0


def interpreter() -> str:
    """That of the tests, but for root one of the same version that the image's user can run, where there is one."""
    name = f"python3.{sys.version_info.minor}"
    others = [Path(folder) / name for folder in ("/usr/local/bin", "/usr/bin")] if os.geteuid() == 0 else []
    here = Path(sys.executable).resolve()
    return str(next((path for path in (here, *others) if path.exists() and others and can_run(path, "import venv")), here))


def user() -> str:
    (found,) = (one.text for one in instructions()[-1] if one.name == "USER")
    return found
