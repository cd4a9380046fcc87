"""FAULTS 31 and 36: what the sandbox does to types, and what workflow code must not do."""

from __future__ import annotations

import ast
import uuid
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from memory.model.turn import Turn
from tests.workflows.echo import Echo
from workflows.sandbox import workflow_runner

WORKFLOWS = Path(__file__).parents[2] / "workflows"
HEAVY = {"json", "re", "hashlib", "difflib", "yaml", "csv", "pickle", "zlib", "html", "base64", "tiktoken", "pydantic"}
CLOCKS_AND_DICE = {"random", "uuid", "time", "secrets", "os", "socket", "threading", "subprocess"}


@pytest.mark.parametrize(
    "moment",
    [datetime(2026, 6, 17, 12, 0, 0, 123456, tzinfo=UTC), datetime(2026, 6, 17, tzinfo=timezone(timedelta(hours=5, minutes=30)))],
)
async def test_a_datetime_is_still_one_after_the_sandbox_with_its_zone_and_microseconds(
    temporal_client: Client, moment: datetime
) -> None:
    queue = f"echo-{uuid.uuid4().hex}"
    turn = Turn(turn_id="t1", user_text="x", occurred_at=moment)
    async with Worker(temporal_client, task_queue=queue, workflows=[Echo], workflow_runner=workflow_runner()):
        back = await temporal_client.execute_workflow(Echo.run, turn, id=queue, task_queue=queue)
    assert back.occurred_at == moment
    assert back.occurred_at.utcoffset() == moment.utcoffset()
    assert back.conversation_id == "datetime"


@pytest.mark.parametrize("file", sorted(WORKFLOWS.glob("*.py")), ids=lambda file: file.name)
def test_workflow_code_parses_nothing_and_asks_no_clock_or_dice(file: Path) -> None:
    """Two seconds in a workflow task trip the deadlock detector, and what differs at replay breaks the run."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.split(".")[0])
    assert not imported & (HEAVY | CLOCKS_AND_DICE)
