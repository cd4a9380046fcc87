"""A knowledge loop: think, use tools, think again, until the model answers. One run per loop, steerable from any process.

What the model reads and says, and what the tools give, is in the store, by entries that are written once; here are only their
numbers, names of tools, codes and counts. So a repeated step neither pays nor writes twice, and a run that was terminated is
started again under the same id and finds what it had done.

Whoever steers is heard before anything more happens: a pause takes effect before the next step, a write that the model asked for
before it heard an interjection is not made, a stop gives up what is running (a write that has begun is let end).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from memory.model.knowledge_loop import LoopState
    from memory.model.knowledge_steps import (
        FinishInput,
        LoopHistory,
        LoopInput,
        LoopPlan,
        LoopResult,
        LoopStatus,
        Steer,
        ThinkInput,
        ThinkReply,
    )
    from memory.model.names import (
        ANSWER_UPDATE,
        BEGIN_LOOP,
        FINISH_LOOP,
        HISTORY_QUERY,
        INTERJECT_UPDATE,
        KNOWLEDGE_LOOP_WORKFLOW,
        MODEL_TASK_QUEUE,
        PAUSE_UPDATE,
        RESUME_UPDATE,
        STATUS_QUERY,
        STOP_SIGNAL,
        THINK,
    )
    from workflows import policies
    from workflows.knowledge_calls import ToolCalls
    from workflows.knowledge_hand import OUTCOME, STAGE, LoopInHand
    from workflows.patience import STEP_FAILED, error_type, uninterrupted
    from workflows.window_loops import start_window_loop

_HEARS_IN_FORM = "heard-while-put-into-form"
"""Patch: what is said while the answer is put into its form is read and answered too."""
_TIME_NEAR = 0.9
"""Of the wall time: then the model is told to answer."""


@dataclass(frozen=True)
class _Ending:
    state: LoopState
    reason: str | None = None


@workflow.defn(name=KNOWLEDGE_LOOP_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class KnowledgeLoopWorkflow:
    """One loop. Id: ``knowledge/<tenant>/<user>/<loop id>``."""

    @workflow.init
    def __init__(self, start: LoopInput) -> None:
        self._hand = LoopInHand(start)
        self._calls = ToolCalls(self._hand)

    @workflow.run
    async def run(self, start: LoopInput) -> LoopResult:
        hand = self._hand
        work = asyncio.create_task(self._work())
        cancelled: BaseException | None = None
        try:
            await workflow.wait_condition(lambda: work.done() or hand.progress.stopping)
        except asyncio.CancelledError as error:
            cancelled = error
            hand.note(stopping=True)
        if not work.done():
            hand.enter("stopping")
            work.cancel()
            await workflow.wait_condition(work.done)
        ending = self._outcome(work, cancelled=cancelled is not None)
        if ending is None:
            await workflow.wait_condition(workflow.all_handlers_finished)
            workflow.continue_as_new(start.model_copy(update={"plan": hand.plan, "resumed": hand.progress}))
        hand.over = True
        result = await uninterrupted(self._finish(ending))
        if result.following is not None:
            await uninterrupted(start_window_loop(hand.ref.user, result.following))
        await workflow.wait_condition(workflow.all_handlers_finished)
        if cancelled is not None:
            raise cancelled
        return result

    def _outcome(self, work: asyncio.Task[_Ending | None], *, cancelled: bool) -> _Ending | None:
        """How the work ended; None: it goes on in a new run. Raises what is a fault of this code."""
        stopping = self._hand.progress.stopping
        stopped = _Ending(LoopState.STOPPED, "cancelled" if cancelled else "stopped")
        if work.cancelled():
            return stopped
        error = work.exception()
        if error is None:
            ending = work.result()
            return stopped if ending is None and stopping else ending
        if stopping and is_cancelled_exception(error):
            return stopped
        if isinstance(error, STEP_FAILED):
            return _Ending(LoopState.FAILED, f"step_failed:{error_type(error)}")
        raise error

    # ------------------------------------------------------------------------------------------------------------ steering

    @workflow.update(name=PAUSE_UPDATE)
    def pause(self) -> LoopStatus:
        """Takes effect before the next step."""
        self._hand.pause(True)
        return self._hand.status()

    @workflow.update(name=RESUME_UPDATE)
    def resume(self) -> LoopStatus:
        self._hand.pause(False)
        return self._hand.status()

    @workflow.update(name=INTERJECT_UPDATE)
    def interject(self, said: Steer) -> LoopStatus:
        """The text is entry ``entry`` of the store; the model reads it before the next step."""
        self._hand.heard(said.entry)
        return self._hand.status()

    @workflow.update(name=ANSWER_UPDATE)
    def answer_clarification(self, said: Steer) -> LoopStatus:
        self._hand.answered.add(said.clarification or "")
        self._hand.heard(said.entry)
        return self._hand.status()

    @pause.validator
    def check_pause(self) -> None:
        self._check_open()

    @resume.validator
    def check_resume(self) -> None:
        self._check_open()

    @interject.validator
    def check_interject(self, said: Steer) -> None:
        self._check_open()
        if self._hand.last:
            raise ApplicationError("the loop is at its limit and gives its last answer", type="LoopEnded")
        self._check_said(said)

    @answer_clarification.validator
    def check_answer(self, said: Steer) -> None:
        self._check_open()
        self._check_said(said)
        asked = said.clarification or ""
        # The question is in the store a moment before this run hears that it is: any of this step may be answered.
        if not asked.startswith(f"clarification/{self._hand.progress.step}/") or asked in self._hand.answered:
            raise ApplicationError("this question is not open: it was answered, or not in time", type="InvalidInput")

    @workflow.signal(name=STOP_SIGNAL)
    def stop(self, said: Steer) -> None:
        self._hand.note(stopping=True)

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> LoopStatus:
        return self._hand.status()

    @workflow.query(name=HISTORY_QUERY)
    def history(self) -> LoopHistory:
        return LoopHistory(lines=tuple(self._hand.lines), runs=self._hand.progress.runs)

    def _check_open(self) -> None:
        if self._hand.over or self._hand.progress.stopping:
            raise ApplicationError("the loop has ended or is just ending", type="LoopEnded")

    def _check_said(self, said: Steer) -> None:
        if said.entry < 1:
            raise ApplicationError("an interjection or answer is named by its entry", type="InvalidInput")
        if self._hand.steers_this_run >= policies.MAX_STEERS_PER_RUN:
            raise ApplicationError("too many interjections; wait until the loop has read them", type="InvalidInput")

    # ------------------------------------------------------------------------------------------------------------ the loop

    async def _work(self) -> _Ending | None:
        """Step after step to the end; None: a new run goes on."""
        hand = self._hand
        plan = hand.plan
        if plan is None:
            plan = await hand.store(BEGIN_LOOP, hand.ref, LoopPlan, policies.BEGIN_LOOP)
            hand.begun(plan)
        if plan.refused is not None:
            return _Ending(LoopState.FAILED, plan.refused)
        problem: str | None = None
        misses = 0
        while True:
            await hand.go_on()
            limit = self._limit_near(plan)
            hand.last = limit is not None
            reply = await self._think(plan, last=limit is not None, problem=problem)
            if isinstance(reply, _Ending):
                return reply
            problem = reply.problem
            misses = misses + 1 if problem else 0
            if limit is not None:
                ending = _Ending(LoopState.LIMIT, limit)
                return await self._structured(plan, ending, reply.seen) or ending if reply.unstructured else ending
            if misses > policies.MAX_REPAIRS:
                return _Ending(LoopState.FAILED, problem)
            if reply.calls:
                await self._calls.use(plan, reply)
                if self._should_continue_as_new(plan):
                    return None
            elif reply.answered and hand.progress.steered <= reply.seen:
                # What was said while the model answered, it has not read: then it thinks again.
                ending = _Ending(LoopState.DONE)
                formed = await self._structured(plan, ending, reply.seen) if reply.unstructured else ending
                if formed is not None:
                    return formed

    async def _structured(self, plan: LoopPlan, ending: _Ending, seen: int) -> _Ending | None:
        """Put the answer into the form that the caller asked for. ``seen``: the last entry that the answer knows of; None: somebody
        corrected the loop since, and it has to think again."""
        problem = None
        for _ in range(policies.MAX_STRUCTURE_TRIES):
            await self._hand.go_on()
            if self._heard_since(seen):
                return None
            reply = await self._think(plan, last=True, structure=True, problem=problem)
            if self._heard_since(seen):
                return None
            if isinstance(reply, _Ending):
                return reply
            problem = reply.problem
            if problem is None:
                return ending
        return _Ending(LoopState.FAILED, problem)

    def _heard_since(self, seen: int) -> bool:
        """At a limit nobody is heard any more."""
        return not self._hand.last and self._hand.progress.steered > seen and workflow.patched(_HEARS_IN_FORM)

    def _limit_near(self, plan: LoopPlan) -> str | None:
        progress = self._hand.progress
        if progress.step + 1 >= plan.max_steps:
            return "steps"
        if progress.input_tokens + progress.output_tokens + self._hand.last_tokens >= plan.max_tokens:
            return "tokens"
        return "time" if progress.worked_s >= plan.max_wall_s * _TIME_NEAR else None

    async def _think(
        self, plan: LoopPlan, *, last: bool, structure: bool = False, problem: str | None = None
    ) -> ThinkReply | _Ending:
        hand = self._hand
        step = hand.progress.step + 1
        hand.enter("thinking")
        argument = ThinkInput(ref=hand.ref, step=step, plan=plan, last=last, structure=structure, problem=problem)

        async def call() -> ThinkReply:
            return await workflow.execute_activity(
                THINK,
                argument,
                result_type=ThinkReply,
                task_queue=MODEL_TASK_QUEUE,
                summary=f"step {step}: the answer's form" if structure else f"step {step}",
                **policies.THINK.options(plan.model_timeout_s),
            )

        began = workflow.now()
        try:
            reply = await hand.patience.run(call, plan.store_retry_for_s)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            return _Ending(LoopState.FAILED, f"model_failed:{error_type(error)}")
        hand.worked(began)
        hand.thought(step, reply)
        return reply

    async def _finish(self, ending: _Ending) -> LoopResult:
        hand, progress = self._hand, self._hand.progress
        hand.enter("ending")
        argument = FinishInput(
            ref=hand.ref,
            state=ending.state,
            reason=ending.reason,
            steps=progress.step,
            input_tokens=progress.input_tokens,
            output_tokens=progress.output_tokens,
        )
        result = await hand.store(FINISH_LOOP, argument, LoopResult, policies.FINISH_LOOP, ending.state.value)
        workflow.upsert_search_attributes([OUTCOME.value_set(result.state.value), STAGE.value_set("done")])
        hand.enter("done")
        return result.model_copy(update={"runs": progress.runs})

    def _should_continue_as_new(self, plan: LoopPlan) -> bool:
        return (
            workflow.info().is_continue_as_new_suggested()
            or self._hand.steps_this_run >= plan.continue_after_steps
            or self._hand.steers_this_run >= policies.MAX_STEERS_PER_RUN
        )
