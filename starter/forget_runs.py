"""A user's workflow executions: stopping and deleting them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from memory.model.errors import MemoryUnavailable
from memory.model.names import SEARCH_TENANT, SEARCH_USER
from memory.model.scope import Scope
from starter.temporal import address_of, ask

T = TypeVar("T")

RPC_S: Final = 10.0
CANCEL_S: Final = 5.0
"""A run that is cancelled takes its notice away; one that does not end in this time is terminated."""
TERMINATE_S: Final = 15.0
POLL_S: Final = 0.1
AT_ONCE: Final = 20
_BY_ITSELF: Final = (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CONTINUED_AS_NEW)


class TemporalUserRuns:
    """Raises MemoryUnavailable while Temporal is away, InvalidSettings where it refuses."""

    def __init__(self, client: Client, *, cancel_s: float = CANCEL_S) -> None:
        self._client = client
        self._cancel_s = cancel_s

    def use(self, client: Client) -> None:
        """From the next call on."""
        self._client = client

    async def stop(self, scope: Scope, loop_ids: Collection[str]) -> Mapping[str, int]:
        known = [scope.post_answer_workflow_id, scope.consolidate_events_workflow_id]
        known += [scope.knowledge_workflow_id(loop_id) for loop_id in loop_ids]
        listed = [run_id for run_id, _ in await self._listed(scope, "ExecutionStatus = 'Running'")]
        # By their ids too: what was started a moment ago may not be listed yet.
        running = await self._running(dict.fromkeys([*known, *listed]))
        stopped = Counter(running.values())
        if running:
            await self._each(self._cancel(one) for one in running)
            left = await self._until_closed(running, self._cancel_s)
            if left:
                await self._each(self._terminate(one) for one in left)
                left = await self._until_closed(left, TERMINATE_S)
            if left:
                raise MemoryUnavailable(f"{len(left)} workflows of the user still run")
        return dict(stopped)

    async def ended(self, scope: Scope, *, since: datetime, stopped_only_before: datetime) -> Mapping[str, datetime]:
        found: dict[str, datetime] = {}

        def note(kind: str, status: WorkflowExecutionStatus | None, closed: datetime | None) -> None:
            if closed is None or closed < since or status is WorkflowExecutionStatus.CONTINUED_AS_NEW:
                return
            if closed >= stopped_only_before or status not in _BY_ITSELF:
                found[kind] = max(closed, found.get(kind, closed))

        async def read() -> None:
            moment = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            async for run in self._client.list_workflows(_query(scope, f"CloseTime >= '{moment}'"), rpc_timeout=_within()):
                note(run.workflow_type, run.status, run.close_time)

        await self._asked(read(), "listing", within_s=6 * RPC_S)
        # By their ids too: what ended a moment ago may not be listed so yet.
        for one in await self._each(
            self._describe(known) for known in (scope.post_answer_workflow_id, scope.consolidate_events_workflow_id)
        ):
            if one is not None:
                note(one.workflow_type, one.status, one.close_time)
        return found

    async def delete(self, scope: Scope, listed: Callable[[int], Awaitable[None]]) -> int:
        found = dict.fromkeys(await self._listed(scope))
        for workflow_id in (scope.post_answer_workflow_id, scope.consolidate_events_workflow_id):
            there = await self._describe(workflow_id)
            if there is not None:
                found[(workflow_id, there.run_id)] = None
        # What is cut short and repeated finds less; where nothing may be deleted, nothing is counted as deleted.
        first, rest = list(found)[:1], list(found)[1:]
        await self._each(self._delete(*one) for one in first)
        await listed(len(found))
        await self._each(self._delete(*one) for one in rest)
        return len(found)

    # ----------------------------------------------------------------------------------------------------------- one run

    async def _cancel(self, workflow_id: str) -> None:
        await self._asked(_unless_gone(self._client.get_workflow_handle(workflow_id).cancel(rpc_timeout=_within())), "cancelling")

    async def _terminate(self, workflow_id: str) -> None:
        handle = self._client.get_workflow_handle(workflow_id)
        ended = handle.terminate(reason="all of the user's memory is being deleted", rpc_timeout=_within())
        await self._asked(_unless_gone(ended), "terminating")

    async def _delete(self, workflow_id: str, run_id: str) -> None:
        request = DeleteWorkflowExecutionRequest(
            namespace=self._client.namespace, workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
        )
        deleted = self._client.workflow_service.delete_workflow_execution(request, timeout=_within())
        await self._asked(_unless_gone(deleted), "deleting")

    async def _describe(self, workflow_id: str) -> WorkflowExecutionDescription | None:
        found = self._client.get_workflow_handle(workflow_id).describe(rpc_timeout=_within())
        return await self._asked(_unless_gone(found), "looking for")

    # --------------------------------------------------------------------------------------------------------------- many

    async def _listed(self, scope: Scope, more: str | None = None) -> list[tuple[str, str]]:
        """(workflow id, run id)."""

        async def read() -> list[tuple[str, str]]:
            found = self._client.list_workflows(_query(scope, more), rpc_timeout=_within())
            return [(run.id, run.run_id) async for run in found]

        return await self._asked(read(), "listing", within_s=6 * RPC_S)

    async def _running(self, workflow_ids: Collection[str]) -> dict[str, str]:
        """Those that run, and their type."""
        ordered = list(workflow_ids)
        found = await self._each(self._describe(one) for one in ordered)
        return {
            one: there.workflow_type
            for one, there in zip(ordered, found, strict=True)
            if there is not None and there.status is WorkflowExecutionStatus.RUNNING
        }

    async def _until_closed(self, workflow_ids: Collection[str], within_s: float) -> Collection[str]:
        """Those that still run after that time."""
        deadline = asyncio.get_running_loop().time() + within_s
        left = list(workflow_ids)
        while left := list(await self._running(left)):
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(POLL_S)
        return left

    async def _each(self, calls: Any) -> list[Any]:
        """All of them, some at once."""
        waiting: list[Awaitable[Any]] = list(calls)
        done: list[Any] = []
        for start in range(0, len(waiting), AT_ONCE):
            done += await asyncio.gather(*waiting[start : start + AT_ONCE])
        return done

    async def _asked(self, work: Awaitable[T], what: str, *, within_s: float = 2 * RPC_S) -> T:
        return await ask(work, f"{what} the workflows of a user", within_s=within_s, address=address_of(self._client))


def _query(scope: Scope, more: str | None) -> str:
    """Encoded ids hold nothing that a query would have to be saved from."""
    return " AND ".join([f"{SEARCH_TENANT} = '{scope.tenant}'", f"{SEARCH_USER} = '{scope.user}'", *([more] if more else [])])


async def _unless_gone(work: Awaitable[T]) -> T | None:
    try:
        return await work
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "namespace" not in error.message.lower():
            return None
        raise


def _within() -> timedelta:
    return timedelta(seconds=RPC_S)
