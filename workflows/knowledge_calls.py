"""The tool calls of a knowledge loop: one activity each, reads side by side, writes one after another, questions to persons and
loops of its own in their place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

from memory.model.knowledge_loop import Operation
from memory.model.knowledge_steps import (
    CallKind,
    CallRef,
    LoopInput,
    LoopPlan,
    LoopResult,
    SettleInput,
    ThinkReply,
    ToolInput,
    ToolReply,
)
from memory.model.names import KNOWLEDGE_LOOP_WORKFLOW, SEARCH_TENANT, SEARCH_USER, SETTLE_CALL, USE_TOOL
from workflows import policies
from workflows.knowledge_hand import LoopInHand
from workflows.patience import STEP_FAILED, error_type

_TENANT = SearchAttributeKey.for_keyword(SEARCH_TENANT)
_USER = SearchAttributeKey.for_keyword(SEARCH_USER)


class ToolCalls:
    """Of one run."""

    def __init__(self, hand: LoopInHand) -> None:
        self._hand = hand

    async def use(self, plan: LoopPlan, reply: ThinkReply) -> None:
        """The calls of a reply in its order; neighbours that only read run side by side."""
        reading: list[CallRef] = []
        for call in reply.calls:
            if call.kind in (CallKind.READ, CallKind.NESTED):
                reading.append(call)
                continue
            await self._read(plan, reply, reading)
            reading = []
            if call.kind is CallKind.CLARIFY:
                await self._clarify(plan, reply, call)
            elif call.kind is CallKind.WRITE:
                await self._write(plan, reply, call)
        await self._read(plan, reply, reading)

    async def _read(self, plan: LoopPlan, reply: ThinkReply, calls: Sequence[CallRef]) -> None:
        if not calls:
            return
        await self._hand.go_on()
        self._hand.enter("using")
        began = workflow.now()
        await asyncio.gather(*(self._read_one(plan, reply, call) for call in calls))
        self._hand.worked(began)

    async def _read_one(self, plan: LoopPlan, reply: ThinkReply, call: CallRef) -> None:
        done = await self._call(plan, reply, call)
        if done is not None and done.nested is not None:
            outcome = await self._nested(done.nested)
            await self._settle(reply, call, outcome, nested=done.nested)

    async def _write(self, plan: LoopPlan, reply: ThinkReply, call: CallRef) -> None:
        await self._hand.go_on()
        if self._hand.progress.steered > reply.seen:
            # Decided before the caller's last words were heard: the model reads them first.
            # One that a run made which was lost has its result, which stays; of one without a result it cannot be known.
            await self._settle(reply, call, "in_doubt" if self._hand.progress.step <= plan.thought else "overtaken")
            return
        self._hand.enter("using")
        began = workflow.now()
        await self._call(plan, reply, call)
        self._hand.worked(began)

    async def _clarify(self, plan: LoopPlan, reply: ThinkReply, call: CallRef) -> None:
        hand = self._hand
        await hand.go_on()
        done = await self._call(plan, reply, call)
        if done is None or done.clarification is None:
            return
        asked = done.clarification
        if done.answered:
            hand.answered.add(asked)
            await self._settle(reply, call, "settled", clarification=asked)
            return
        hand.open = asked
        hand.enter("waiting_for_answer")
        hand.stage("waiting_for_answer")
        outcome = "settled"
        try:
            await workflow.wait_condition(lambda: asked in hand.answered, timeout=plan.clarification_wait_s)
        except TimeoutError:
            outcome = "unanswered"
        hand.open = None
        hand.answered.add(asked)
        hand.stage("working")
        await self._settle(reply, call, outcome, clarification=asked)

    async def _call(self, plan: LoopPlan, reply: ThinkReply, call: CallRef) -> ToolReply | None:
        """None: it failed for good, and its result says so to the model."""
        hand, progress = self._hand, self._hand.progress
        nested = call.kind is CallKind.NESTED
        argument = ToolInput(
            ref=hand.ref,
            step=progress.step,
            index=call.index,
            name=call.name,
            kind=call.kind,
            entry=reply.entry,
            tokens_left=plan.max_tokens - progress.input_tokens - progress.output_tokens if nested else None,
            wall_left_s=plan.max_wall_s - progress.worked_s if nested else None,
        )

        async def use() -> ToolReply:
            return await workflow.execute_activity(
                USE_TOOL,
                argument,
                result_type=ToolReply,
                summary=call.name or "unknown",
                **policies.TOOL.options(writes=call.kind is CallKind.WRITE),
            )

        hand.running[call.index] = call.name
        hand.show()
        try:
            done = await hand.patience.run(use, plan.store_retry_for_s)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            await self._settle(reply, call, f"failed:{error_type(error)}")
            return None
        finally:
            hand.running.pop(call.index, None)
        if done.error is not None:
            hand.mark(call, done.error)
        return done

    async def _nested(self, loop_id: str) -> str:
        """A loop of its own, read only, to its end; gives the outcome for :meth:`_settle`. It goes when this one goes."""
        user = self._hand.ref.user
        operation = Operation(f"{self._hand.operation.value.split('.')[0]}.ask")
        try:
            result = await workflow.execute_child_workflow(
                KNOWLEDGE_LOOP_WORKFLOW,
                LoopInput(user=user, loop_id=loop_id, operation=operation),
                id=user.scope.knowledge_workflow_id(loop_id),
                result_type=LoopResult,
                cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
                parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                static_summary=f"{operation.value} within a loop",
                search_attributes=TypedSearchAttributes(
                    [SearchAttributePair(_TENANT, user.tenant), SearchAttributePair(_USER, user.user)]
                ),
            )
        except WorkflowAlreadyStartedError:
            # An earlier run of this loop had it done.
            return "settled"
        except ChildWorkflowError as error:
            if is_cancelled_exception(error):
                raise
            return "failed:ChildWorkflowError"
        self._hand.spend(result.input_tokens, result.output_tokens)
        return "settled"

    async def _settle(
        self, reply: ThinkReply, call: CallRef, outcome: str, *, nested: str | None = None, clarification: str | None = None
    ) -> None:
        """Write the result of a call that is not the tool's own."""
        argument = SettleInput(
            ref=self._hand.ref,
            step=self._hand.progress.step,
            index=call.index,
            name=call.name,
            kind=call.kind,
            entry=reply.entry,
            nested=nested,
            clarification=clarification,
            outcome=outcome,
        )
        done = await self._hand.store(SETTLE_CALL, argument, ToolReply, policies.SETTLE_CALL, call.name or "unknown")
        if done.error is not None:
            self._hand.mark(call, done.error)
