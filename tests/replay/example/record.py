"""Records the histories of the example: `python -m tests.replay.example.record`. One that is there stays as it is."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from starter.engines import TemporalServer
from tests.replay.example import before, deprecated, patched

HISTORIES = Path(__file__).parent / "histories"
VERSIONS = {"before": before.DigestWorkflow, "patched": patched.DigestWorkflow, "deprecated": deprecated.DigestWorkflow}


@activity.defn(name="collect")
async def collect(week: int) -> int:
    return week


@activity.defn(name="leave_out_repeats")
async def leave_out_repeats(found: int) -> int:
    return found


@activity.defn(name="publish")
async def publish(found: int) -> str:
    return f"{found} published"


async def record() -> None:
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, TemporalServer(Path(folder), in_memory=True, ui=False) as server:
        client = await Client.connect(server.address, identity="recorder")
        for name, version in VERSIONS.items():
            file = HISTORIES / f"{name}.json"
            if file.exists():
                continue
            async with Worker(
                client, task_queue=name, workflows=[version], activities=[collect, leave_out_repeats, publish], build_id=name
            ):
                handle = await client.start_workflow("DigestWorkflow", 7, id=f"digest-{name}", task_queue=name)
                await handle.result()
            text = (await handle.fetch_history()).to_json()
            file.write_text(json.dumps(json.loads(text), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(record())
