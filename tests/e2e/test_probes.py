"""What a kubelet sees of `afterturn worker`: start-up, readiness, life, and the way out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from memory.model.names import MODEL_TASK_QUEUE, TASK_QUEUE
from memory.model.scope import Scope
from memory.model.turn import Outcome
from starter.engines import S3Server, TemporalServer
from tests.starter.test_health import ask
from tests.support.fleet import migrated_file, new_namespace, open_world, worker_command, world_settings
from tests.support.stack import make_turn
from tests.support.waiting import until
from tests.support.webhook import WebhookReceiver

USER = Scope.of("acme", "ann")


async def test_probes_through_the_life_of_a_worker(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, unused_tcp_port: int
) -> None:
    with WebhookReceiver() as webhook:
        values: dict[str, Any] = {"health_address": f"127.0.0.1:{unused_tcp_port}", "notice_timeout_s": 10, **webhook.settings}
        settings = world_settings(tmp_path / "data", migrated_file(tmp_path), s3_server.settings, **values)

        async def probe(path: str) -> tuple[int, Any]:
            return await asyncio.to_thread(ask, unused_tcp_port, path)

        async def ready() -> bool:
            return (await probe("/readyz"))[0] == 200

        async with open_world(settings, await new_namespace(temporal_server.address)) as world:
            webhook.hold.clear()
            async with worker_command(settings, world.client, tmp_path / "worker.err") as worker:
                assert (await probe("/startupz"))[0] == 200
                await until(ready)
                assert (await probe("/readyz"))[1]["polling"] == {TASK_QUEUE: True, MODEL_TASK_QUEUE: True}
                assert (await probe("/livez"))[0] == 200

                # The notice hangs: SIGTERM comes in the middle of a step.
                await world.record(USER, [make_turn("My name is Ann and I work at Globex.", turn_id="t1")])
                await until(lambda: webhook.notices, within_s=60)
                worker.process.terminate()
                await until(lambda: "worker_stopping" in worker.log())
                status, body = await probe("/readyz")
                assert (status, body["stage"]) == (503, "stopping")
                assert (await probe("/livez"))[0] == 200, "a worker that lets its steps end is alive"
                webhook.hold.set()
                assert await worker.ended() == 0, worker.log()
            async with worker_command(settings, world.client, tmp_path / "next.err") as worker:
                await world.settle(USER)
                assert (await world.ledger(USER))["t1"].outcome is Outcome.UPDATED
                worker.process.terminate()
                assert await worker.ended() == 0, worker.log()
