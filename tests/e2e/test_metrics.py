"""What a Prometheus server sees of a worker process."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path

from memory.model.scope import Scope
from memory.model.turn import Outcome
from starter.engines import S3Server, TemporalServer
from tests.support.fleet import migrated_file, new_namespace, open_world, worker_command, world_settings
from tests.support.stack import make_turn

USER = Scope.of("acme", "ann")


def scrape(address: str) -> dict[str, float]:
    """Samples by name and labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


async def test_a_worker_serves_the_sdk_s_metrics_and_our_outcomes(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, unused_tcp_port: int
) -> None:
    address = f"localhost:{unused_tcp_port}"
    settings = world_settings(tmp_path / "data", migrated_file(tmp_path), s3_server.settings, metrics_address=address)
    async with open_world(settings, await new_namespace(temporal_server.address)) as world:
        async with worker_command(settings, world.client, tmp_path / "worker.err") as worker:
            await world.record(USER, [make_turn("My name is Ann and I work at Globex.", turn_id="t1")])
            await world.record(USER, [make_turn(None, None, turn_id="t2")])
            await world.settle(USER)
            samples = await asyncio.to_thread(scrape, address)
            worker.process.terminate()
            assert await worker.ended() == 0, worker.log()
        outcomes = {row.outcome for row in (await world.ledger(USER)).values()}
    assert outcomes == {Outcome.UPDATED, Outcome.NOOP}
    assert "alembic" not in worker.log(), "our log is not where libraries introduce themselves"
    ours = {labels: value for labels, value in samples.items() if labels.startswith("afterturn_turns_total")}
    by_outcome = {re.findall(r'outcome="(\w+)"', labels)[0]: value for labels, value in ours.items() if value}
    assert by_outcome == {"updated": 1, "noop": 1}
    assert any('reason="empty_exchange"' in labels for labels in ours)
    assert not any("acme" in labels or "ann" in labels for labels in ours)
    assert any(name.startswith("temporal_workflow_completed_total") for name in samples)
    assert any(name.startswith("temporal_activity_execution_latency_seconds_bucket") for name in samples)
