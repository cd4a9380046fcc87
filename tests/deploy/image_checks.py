"""What must hold of an installed image, however its packages came there."""

from __future__ import annotations

import signal
import socket
import subprocess
import urllib.error
import urllib.request
import zipfile

from tests.deploy.image import ROOT, Image
from tests.support.waiting import until

PACKAGES = ("activities", "api", "memory", "starter", "workflows", "worker.py")


def wheel_has_all_files(image: Image) -> None:
    """Sources, templates, static files, prompts, migrations, conversations: all that is under version control, and nothing else."""
    listed = subprocess.run(["git", "ls-files", "-z", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    expected = {name for name in listed.split("\0") if name and (ROOT / name).exists()}
    with zipfile.ZipFile(image.wheel) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert expected <= inside, sorted(expected - inside)[:10]
    assert {name for name in inside if not name.startswith(PACKAGES) or "__pycache__" in name} == set()
    for kind in (".html", ".js", ".css", ".svg", ".md", ".mako", ".json"):
        assert any(name.endswith(kind) for name in inside), f"no file {kind}"


def commands_run(image: Image) -> None:
    """With no HOME, as a user without a name, in a folder that cannot be written to."""
    # The servers of `afterturn dev` are not in the image: one line, no traceback.
    dev = image.run("dev")
    assert dev.returncode == 1, dev.stdout
    assert "Traceback" not in dev.stderr
    assert len(dev.stderr.strip().splitlines()) == 1, dev.stderr

    # A worker gets as far as its first server.
    away = image.run("worker", extra={"TEMPORAL_ADDRESS": f"127.0.0.1:{_free_port()}"})
    assert away.returncode == 1, away.stdout
    assert "Traceback" not in away.stderr
    assert "Temporal" in away.stderr, away.stderr


async def api_serves(image: Image) -> None:
    """Migrations, pages and static files come out of the installed package; SIGTERM ends it."""
    before = _files(image)
    migrated = image.run("migrate")
    assert migrated.returncode == 0, migrated.stderr
    port = _free_port()
    away = {
        "TEMPORAL_ADDRESS": "127.0.0.1:1",
        "AFTERTURN_VECTOR_URL": "http://127.0.0.1:1",
        "AFTERTURN_OBJECT_STORE_ENDPOINT": "127.0.0.1:1",
        "AFTERTURN_OBJECT_STORE_ACCESS_KEY": "somebody",
        "AFTERTURN_OBJECT_STORE_SECRET_KEY": "no-secret",
    }
    settings = {"AFTERTURN_API_ADDRESS": f"127.0.0.1:{port}", "AFTERTURN_PUBLIC_URL": f"http://127.0.0.1:{port}", **away}
    with image.running("api", extra=settings) as process:
        await until(lambda: _status(port, "/healthz") == 200 or process.poll() is not None, within_s=60)
        assert process.poll() is None, image.log.read_text()[-2000:]
        assert _status(port, "/readyz") == 503  # its stores are away
        assert _status(port, "/openapi.json") == 200
        assert _status(port, "/docs") == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    # No byte code, no caches: nothing beside the database and what belongs to it.
    written = _files(image) - before
    assert written <= {"afterturn.db", "afterturn.db-wal", "afterturn.db-shm", "spool.jsonl"}, written


def _files(image: Image) -> set[str]:
    return {file.relative_to(image.data).as_posix() for file in image.data.rglob("*") if file.is_file()}


def _status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
