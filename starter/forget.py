"""Forgetting a user from the outside: recorded first, then started; the receipt says how far it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from memory.model.erasure import Erasure, ErasureState
from memory.model.errors import MemoryUnavailable
from memory.model.forget_steps import ErasureRef
from memory.model.ids import encode_segment, new_id
from memory.model.names import FORGET_USER_WORKFLOW, SEARCH_TENANT, TASK_QUEUE
from memory.model.scope import Scope
from memory.ports.service import ErasureLedger
from starter.temporal import address_of, ask
from starter.who import Who, scope_of

START_S: Final = 10.0
FIRST_POLL_S: Final = 0.1
LONGEST_POLL_S: Final = 2.0

_log = logging.getLogger(__name__)


def forget_workflow_id(erasure_id: str) -> str:
    return f"forget/{erasure_id}"


async def start_forget(client: Client, tenant: str, erasure_id: str) -> None:
    """Start the workflow of an erasure, or leave the one that runs. The user is not named. Raises MemoryUnavailable.

    Args:
        client: connected or lazy.
        tenant: encoded.
        erasure_id: of an erasure that is recorded.
    """
    begin = client.start_workflow(
        FORGET_USER_WORKFLOW,
        ErasureRef(tenant=tenant, erasure_id=erasure_id),
        id=forget_workflow_id(erasure_id),
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        search_attributes=TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword(SEARCH_TENANT), tenant)]),
        static_summary="everything of a user is deleted",
        priority=Priority(fairness_key=tenant[:64]),
        rpc_timeout=timedelta(seconds=START_S),
    )
    await ask(begin, "starting an erasure", within_s=START_S, address=address_of(client))


class Forgetting:
    """For one event loop.

    Args:
        forgotten: told of a user who is being forgotten, for what this process itself holds.
    """

    def __init__(
        self,
        ledger: ErasureLedger,
        *,
        temporal: Callable[[], Awaitable[Client]],
        forgotten: Callable[[Scope], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._temporal = temporal
        self._forgotten = forgotten

    async def forget(self, scope: Scope, *, requested_by: str, wait_s: float) -> Erasure:
        erasure = await self._ledger.open(scope, erasure_id=new_id(), requested_by=requested_by, now=datetime.now(UTC))
        try:
            await start_forget(await self._temporal(), erasure.tenant, erasure.erasure_id)
        except MemoryUnavailable as error:
            _log.warning("the erasure %s is recorded and not started: %s; the sweeper does it", erasure.erasure_id, error.message)
        await self._forgotten(scope)
        return await self._followed(erasure, wait_s)

    async def _followed(self, erasure: Erasure, wait_s: float) -> Erasure:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        pause = FIRST_POLL_S
        while erasure.state is not ErasureState.DONE and (left := deadline - loop.time()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_POLL_S)
            erasure = await self._ledger.erasure(erasure.tenant, erasure.erasure_id) or erasure
        return erasure

    async def erasure(self, tenant_id: str, erasure_id: str) -> Erasure | None:
        return await self._ledger.erasure(encode_segment(tenant_id, what="tenant id"), erasure_id)

    async def erasures(self, scope: Scope, *, limit: int) -> Sequence[Erasure]:
        return await self._ledger.of_user(scope, limit=limit)


class ForgetMethods:
    """A part of :class:`starter.client.MemoryClient`, which sets the attribute."""

    _forgetting: Forgetting

    async def forget(self, who: Who, *, requested_by: str = "caller", wait_s: float = 0.0) -> Erasure:
        """Delete everything of the user, in every store, for good. What the user's teams know together stays.

        From now on until it is done nothing of the user is taken: turns and events are skipped with the reason ``being_forgotten``,
        ``load`` gives no memory, saves raise BeingForgotten. The state is ``erased`` as soon as all stores were emptied, ``done``
        when what was still under way has been waited for and deleted too. While one is open, that one is returned.

        Args:
            who: the user.
            requested_by: for the receipt, at most 100 characters, without ids of persons.
            wait_s: wait so long at most until it is done.

        Raises:
            MemoryUnavailable: the database is away; nothing was begun. Where Temporal is away, it begins as soon as that is back.
        """
        return await self._forgetting.forget(scope_of(who), requested_by=requested_by, wait_s=wait_s)

    async def erasure(self, tenant_id: str, erasure_id: str) -> Erasure | None:
        """A receipt; None where the company has no such erasure. Raises MemoryUnavailable, InvalidInput."""
        return await self._forgetting.erasure(tenant_id, erasure_id)

    async def erasures(self, who: Who, *, limit: int = 20) -> Sequence[Erasure]:
        """The user's receipts, newest first; found by a hash of the id. Raises MemoryUnavailable, InvalidInput."""
        return await self._forgetting.erasures(scope_of(who), limit=limit)
