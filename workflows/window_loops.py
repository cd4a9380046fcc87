"""Starting the loop that enters what a window learned into tables: beside whoever starts it, and not ended with it."""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from memory.model.knowledge_loop import Operation
from memory.model.knowledge_steps import LoopInput
from memory.model.names import KNOWLEDGE_LOOP_WORKFLOW, SEARCH_TENANT, SEARCH_USER
from memory.model.steps import UserRef

_TENANT = SearchAttributeKey.for_keyword(SEARCH_TENANT)
_USER = SearchAttributeKey.for_keyword(SEARCH_USER)


async def start_window_loop(user: UserRef, loop_id: str) -> None:
    """Returns when the server has it; one that runs or ran already is left as it is."""
    try:
        await workflow.start_child_workflow(
            KNOWLEDGE_LOOP_WORKFLOW,
            LoopInput(user=user, loop_id=loop_id, operation=Operation.UPDATE),
            id=user.scope.knowledge_workflow_id(loop_id),
            parent_close_policy=ParentClosePolicy.ABANDON,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            static_summary="what a window learned, into tables",
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(_TENANT, user.tenant), SearchAttributePair(_USER, user.user)]
            ),
        )
    except WorkflowAlreadyStartedError:
        return
