"""The API is killed again and again while an orchestrator hands turns over to it: `make endurance`.

The orchestrator sends a turn again, with its id, until it is told that the turn is recorded. ``pending`` is no such answer.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from memory.model.scope import Scope
from memory.model.service_token import make_token
from memory.model.turn import Turn
from memory.settings import Settings
from memory.stores.tables import build_tables
from starter.engines import S3Server, TemporalServer
from starter.schedules import ensure_schedules
from starter.views import ReceiptStatus
from tests.support.fleet import (
    Foreman,
    World,
    as_environment,
    migrated_file,
    new_namespace,
    open_world,
    plain_environment,
    server_of,
    world_settings,
)
from tests.support.load import HandOver, bound_s, check, under_load
from tests.support.results import wrote_down
from tests.support.servers import VectorService

ROUNDS = 10
USERS = 6
SAFE = {ReceiptStatus.RECORDED, ReceiptStatus.DUPLICATE, ReceiptStatus.SPOOLED}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def an_api(world: World, log: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """`afterturn api`; killed at the end of the block if it still runs."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "starter.cli", "api"),
            cwd=world.settings.data_dir,
            env=plain_environment({**as_environment(world.settings), **server_of(world.client)}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def a_token(settings: Settings) -> str:
    tables, made, now = build_tables(settings), make_token(), datetime.now(UTC)
    try:
        await tables.tokens.create(
            "acme",
            token_id=made.token_id,
            secret_hash=made.secret_hash,
            name="a test",
            permissions=["read", "write"],
            expires_at=None,
            now=now,
        )
    finally:
        await tables.aclose()
    return made.text


def over_http(http: httpx2.AsyncClient, repeats: list[str]) -> HandOver:
    async def hand_over(scope: Scope, turn: Turn) -> ReceiptStatus:
        body = turn.model_dump(mode="json", exclude_none=True)
        async with asyncio.timeout(120):
            while True:
                with suppress(httpx2.TransportError):
                    answer = await http.post("/v1/turns", json=body, headers={"Afterturn-User": scope.user_id})
                    if answer.status_code in {200, 202} and (status := ReceiptStatus(answer.json()["status"])) in SAFE:
                        return status
                    assert answer.status_code in {200, 202, 503}, answer.text
                repeats.append(turn.turn_id)
                await asyncio.sleep(0.5)

    return hand_over


@pytest.mark.endurance
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
async def test_the_api_is_replaced_ten_times(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, sent: signal.Signals
) -> None:
    repeats: list[str] = []
    async with AsyncExitStack() as exits:
        vectors = await exits.enter_async_context(VectorService(tmp_path / "vectors"))
        settings = world_settings(
            tmp_path / "data",
            migrated_file(tmp_path),
            s3_server.settings,
            **vectors.settings,
            memory_knowledge=True,
            window_size=6,
            sweep_interval_s=5,
            sweep_grace_s=5,
            model_timeout_s=10,
            notice_log=False,
            api_address=f"127.0.0.1:{free_port()}",
        )
        world = await exits.enter_async_context(open_world(settings, await new_namespace(temporal_server.address)))
        foreman = await exits.enter_async_context(Foreman(tmp_path / "workers"))
        worker = await foreman.start(settings, world.client, command=True)
        await ensure_schedules(world.client, settings)
        http = await exits.enter_async_context(
            httpx2.AsyncClient(
                base_url=f"http://{settings.api_address}",
                headers={"Authorization": f"Bearer {await a_token(settings)}"},
                timeout=30,
            )
        )
        apis = await exits.enter_async_context(AsyncExitStack())
        process = await apis.enter_async_context(an_api(world, tmp_path / "api.err"))
        async with under_load(world, users=USERS, pace_s=2.0, hand_over=over_http(http, repeats)) as load:
            for _ in range(ROUNDS):
                await load.goes_on(2 * USERS)
                since = datetime.now(UTC)
                process.send_signal(sent)
                code = await asyncio.wait_for(process.wait(), settings.graceful_shutdown_s + 15)
                assert code == (-signal.SIGKILL if sent is signal.SIGKILL else 0), (tmp_path / "api.err").read_text()[-3000:]
                process = await apis.enter_async_context(an_api(world, tmp_path / "api.err"))
                await load.goes_on(1)
                load.outages.append((since, datetime.now(UTC)))
            await load.goes_on(2 * USERS)
        await load.drained(within_s=240)
        worker.terminate()
        assert await worker.wait() == 0, worker.log()
        report = await check(load)
    wrote_down(f"api-{sent.name}", report, restarts=ROUNDS, repeated=len(repeats), bound_s=bound_s(settings))
    assert repeats, "no turn met a restart"
    assert report.late_s <= bound_s(settings), str(report)
