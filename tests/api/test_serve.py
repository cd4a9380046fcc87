"""`afterturn api` as a process of its own: what stops its start, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memory.model.errors import MemoryUnavailable
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import build_tables
from starter.dev import _listener, _page_settings  # pyright: ignore[reportPrivateUsage]
from starter.engines import TemporalServer
from starter.processes import free_ports
from tests.api.test_auth_service import stored
from tests.e2e.command import afterturn, command, environment
from tests.support.issuer import Keys, providing
from tests.support.waiting import until


class Served:
    """The running command."""

    def __init__(self, process: asyncio.subprocess.Process, base: str, log: Path) -> None:
        self.process = process
        self.base = base
        self._log = log

    @property
    def told(self) -> str:
        return self._log.read_text("utf-8")

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.told.splitlines()]


@asynccontextmanager
async def serving(folder: Path, env: dict[str, str]) -> AsyncGenerator[Served]:
    [port] = free_ports(1)
    log = folder / "api.err"
    given = {"AFTERTURN_API_ADDRESS": f"127.0.0.1:{port}", "AFTERTURN_LOG_FORMAT": "json", **env}
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command("api"), cwd=folder, env=environment(given), stdout=asyncio.subprocess.DEVNULL, stderr=errors
        )
    served = Served(process, f"http://127.0.0.1:{port}", log)
    try:
        await until(lambda: "api_started" in served.told or process.returncode is not None, within_s=90)
        assert process.returncode is None, served.told
        yield served
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
def env(s3_settings: Callable[..., Settings], temporal_server: TemporalServer, tmp_path: Path) -> dict[str, str]:
    """Settings of the API as an operator sets them."""
    settings = s3_settings()
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    return {
        "AFTERTURN_DATA_DIR": str(data_dir),
        "AFTERTURN_OBJECT_STORE_ENDPOINT": settings.object_store_endpoint,
        "AFTERTURN_OBJECT_STORE_ACCESS_KEY": settings.object_store_access_key.get_secret_value(),
        "AFTERTURN_OBJECT_STORE_SECRET_KEY": settings.object_store_secret_key.get_secret_value(),
        "AFTERTURN_BUCKET_PREFIX": settings.bucket_prefix,
        "AFTERTURN_EMBEDDER": "none",
        "TEMPORAL_ADDRESS": temporal_server.address,
    }


async def test_it_serves_and_ends_in_order(env: dict[str, str], tmp_path: Path) -> None:
    url = f"sqlite:///{env['AFTERTURN_DATA_DIR']}/afterturn.db"
    migrate(url)
    tables = build_tables(url)
    token = (await stored(tables.tokens, "acme", "read", "write")).text
    headers = {"Authorization": f"Bearer {token}", "Afterturn-User": "walrus"}
    async with providing(Keys("ec-1", "ES256")) as issuer:
        more = {"AFTERTURN_OIDC_ISSUER": issuer.url, "AFTERTURN_OIDC_AUDIENCE": "afterturn-api"}
        async with (
            serving(tmp_path, {**env, **more}) as served,
            httpx2.AsyncClient(base_url=served.base, timeout=30) as http,
        ):
            assert (await http.get("/healthz")).json() == {"status": "ok"}
            ready = await http.get("/readyz")
            for probe in ("/healthz", "/readyz"):
                head = await http.head(probe)
                assert (head.status_code, head.content) == (200, b"")
            assert ready.json() == {"status": "ready", "checks": dict.fromkeys(("database", "temporal", "object store"), "ok")}
            assert (await http.get("/v1/account", headers=headers)).json()["roles"] == ["service"]
            mine = {"Authorization": f"Bearer {issuer.token(sub='walrus')}"}
            assert (await http.get("/v1/account", headers=mine)).json()["user"] == "walrus"
            for path in ("/login/dev", "/dev/issuer/jwks", "/dev/issuer/token"):
                assert (await http.get(path)).status_code == 404
            await until(lambda: _kinds(tables, "api"))

            # A request that runs is answered, a stream is ended, and nothing new is taken.
            async with http.stream("GET", "/v1/notices", headers=headers) as stream:
                pieces = stream.aiter_text()
                await anext(pieces)
                reader, writer = await asyncio.open_connection("127.0.0.1", int(served.base.rpartition(":")[2]))
                head = f"PUT /v1/preference HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nAfterturn-User: walrus\r\n"
                body = b'{"allow_user_memory": false}'
                writer.write(head.encode() + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{" % len(body))
                await writer.drain()
                assert (await http.get("/healthz")).status_code == 200
                served.process.send_signal(signal.SIGTERM)
                rest = [piece async for piece in pieces]
                assert isinstance(rest, list), "it ended as streams end, not by a broken connection"
            await until(lambda: _is_closed(served.base))
            writer.write(body[1:])
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            writer.close()
            async with asyncio.timeout(30):
                assert await served.process.wait() == 0
            assert not await _kinds(tables, "api")
            events = [line["event"] for line in served.lines]
            assert events[0] == "api_started"
            assert events[-2:] == ["api_stopping", "api_stopped"] or events[-1] == "api_stopped"
            assert token not in served.told
            assert "walrus" not in served.told
    await tables.aclose()


async def _kinds(tables: Any, kind: str) -> bool:
    from datetime import UTC, datetime, timedelta

    return any(one.kind == kind for one in await tables.processes.running(since=datetime.now(UTC) - timedelta(minutes=1)))


async def _is_closed(base: str) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
    except ConnectionError:
        return True
    writer.close()
    return False


async def test_what_is_away_is_said_and_does_not_stop_it(env: dict[str, str], tmp_path: Path) -> None:
    migrate(f"sqlite:///{env['AFTERTURN_DATA_DIR']}/afterturn.db")
    nobody, other = free_ports(2)
    away = {"TEMPORAL_ADDRESS": f"127.0.0.1:{nobody}", "AFTERTURN_OBJECT_STORE_ENDPOINT": f"127.0.0.1:{other}"}
    async with serving(tmp_path, {**env, **away}) as served, httpx2.AsyncClient(base_url=served.base, timeout=30) as http:
        ready = await http.get("/readyz")
        assert ready.status_code == 503
        assert ready.json() == {
            "status": "not ready",
            "checks": {"database": "ok", "temporal": "away", "object store": "away"},
        }
        served.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            assert await served.process.wait() == 0


def test_what_is_wrong_stops_the_start_with_one_line(env: dict[str, str]) -> None:
    data_dir = Path(env["AFTERTURN_DATA_DIR"])
    done = afterturn("api", data_dir=data_dir, env=env)
    assert done.code == 1
    assert "afterturn migrate" in done.complaint

    done = afterturn("api", data_dir=data_dir, env={**env, "AFTERTURN_OIDC_ISSUER": "https://issuer.example"})
    assert (done.code, "AFTERTURN_OIDC_AUDIENCE is missing" in done.complaint) == (1, True)


def test_the_api_of_dev_has_its_port_before_it_tells_it() -> None:
    """Two that start at once do not meet on one port; one that was asked for a port takes no other."""
    [port] = free_ports(1)
    place = load_settings({}, api_address=f"127.0.0.1:{port}")
    place.model_fields_set.discard("api_address")  # as if this were the usual one
    with _listener(place, "api_address", name="the API") as first, _listener(place, "api_address", name="the API") as second:
        assert first.getsockname()[1] == port
        assert second.getsockname()[1] != port
        told = _page_settings(place, second, "http://127.0.0.1:1")
        assert told["review_url"] == f"http://127.0.0.1:{second.getsockname()[1]}/settings"
        with pytest.raises(MemoryUnavailable, match=f"cannot listen on 127.0.0.1:{port}"):
            _listener(load_settings({}, api_address=f"127.0.0.1:{port}"), "api_address", name="the API")
    given = load_settings({}, review_url="https://x.example", session_secret="y" * 40)
    with _listener(place, "api_address", name="the API") as listener:
        assert _page_settings(given, listener, None).keys() == {"api_address", "temporal_ui_url"}
