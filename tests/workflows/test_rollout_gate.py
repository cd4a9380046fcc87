"""The gate of a rollout, as Temporal's Worker Controller uses it: on a version that nobody else is sent to yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import PinnedVersioningOverride, VersioningBehavior, WorkerDeploymentVersion
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker, WorkerDeploymentConfig

from activities.rollout_gate import RolloutGateActivities
from memory.model.names import ROLLOUT_GATE_WORKFLOW, TASK_QUEUE
from starter.engines import S3Server, TemporalServer
from tests.support.fleet import migrated_file, new_namespace, open_world, world_settings
from tests.support.waiting import until
from workflows import WORKFLOWS
from workflows.sandbox import workflow_runner

VERSION = WorkerDeploymentVersion("afterturn/afterturn-workflows", "0-1-0-5d8f")


async def registered(client: Client, gate_id: str) -> WorkflowHandle[Any, Any]:
    """The gate, started as soon as the server knows the version: with the first poll of one of its workers."""
    started: list[WorkflowHandle[Any, Any]] = []

    async def start() -> bool:
        try:
            started.append(
                await client.start_workflow(
                    ROLLOUT_GATE_WORKFLOW,
                    id=gate_id,
                    task_queue=TASK_QUEUE,
                    versioning_override=PinnedVersioningOverride(VERSION),
                )
            )
        except RPCError as error:
            if "is not present in task queue" not in error.message:
                raise
            return False
        return True

    await until(start, within_s=30, what="the version")
    return started[0]


async def test_it_ends_well_on_the_new_version_only_where_the_stores_are_as_that_version_needs_them(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer
) -> None:
    settings = world_settings(tmp_path / "data", migrated_file(tmp_path), s3_server.settings)
    stale = world_settings(tmp_path / "stale", migrated_file(tmp_path), s3_server.settings)
    (tmp_path / "stale" / "afterturn.db").write_bytes(b"")
    client = await new_namespace(temporal_server.address)

    for number, (each, well) in enumerate(((settings, True), (stale, False))):
        async with (
            open_world(each, client) as world,
            Worker(
                client,
                task_queue=TASK_QUEUE,
                workflows=WORKFLOWS,
                activities=[RolloutGateActivities(world.parts.log, world.parts.profiles).check_stores],
                workflow_runner=workflow_runner(versioned=True),
                deployment_config=WorkerDeploymentConfig(
                    version=VERSION, use_worker_versioning=True, default_versioning_behavior=VersioningBehavior.UNSPECIFIED
                ),
            ),
        ):
            gate = await registered(client, f"gate-{number}")
            if well:
                assert await gate.result() is None
                continue
            with pytest.raises(WorkflowFailureError) as failed:
                await gate.result()
        step = failed.value.cause
        assert isinstance(step, ActivityError)
        assert isinstance(step.cause, ApplicationError)
        assert step.cause.type == "InvalidSettings", "a wrong schema does not get better by waiting"
        assert "afterturn migrate" in step.cause.message
