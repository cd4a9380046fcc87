"""Runs PostAnswerWorkflow with scripted activities on the Temporal server that `--workflow-environment` chose."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.worker import Worker

from memory.model.names import MODEL_TASK_QUEUE, SEARCH_TENANT, SEARCH_USER, TASK_QUEUE, TURNS_RECORDED_SIGNAL
from memory.model.scope import Scope
from memory.model.steps import PostAnswerInput, RunTotals, TurnsRecorded, UserRef
from starter.scripted import Scripted
from workflows import PostAnswerWorkflow
from workflows.sandbox import workflow_runner


@dataclass
class Run:
    """One user's workflow on a real server, and the scripted world that it works on."""

    client: Client
    world: Scripted
    scope: Scope

    async def wake(self, *turn_ids: str) -> WorkflowHandle[PostAnswerWorkflow, RunTotals]:
        """Signal-with-start, as the starter does."""
        return await self.client.start_workflow(
            PostAnswerWorkflow.run,
            PostAnswerInput(user=UserRef.of(self.scope)),
            id=self.scope.post_answer_workflow_id,
            task_queue=TASK_QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            start_signal=TURNS_RECORDED_SIGNAL,
            start_signal_args=[TurnsRecorded(turn_ids=turn_ids)],
            search_attributes=TypedSearchAttributes(
                [
                    SearchAttributePair(SearchAttributeKey.for_keyword(SEARCH_TENANT), self.scope.tenant),
                    SearchAttributePair(SearchAttributeKey.for_keyword(SEARCH_USER), self.scope.user),
                ]
            ),
        )


@pytest.fixture
def running(temporal_client: Client) -> Callable[[Scripted], AbstractAsyncContextManager[Run]]:
    """``async with running(Scripted(...)) as run``: workers for both queues until the block ends."""

    @asynccontextmanager
    async def start(world: Scripted) -> AsyncIterator[Run]:
        async with (
            Worker(
                temporal_client,
                task_queue=TASK_QUEUE,
                workflows=[PostAnswerWorkflow],
                activities=world.all(),
                workflow_runner=workflow_runner(),
            ),
            Worker(temporal_client, task_queue=MODEL_TASK_QUEUE, activities=[world.gate, world.consolidate]),
        ):
            yield Run(temporal_client, world, Scope.of("acme", uuid.uuid4().hex))

    return start
