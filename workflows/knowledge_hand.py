"""A knowledge loop that is in hand: what a run knows of it, and what all its steps do alike."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from memory.model.knowledge_steps import CallRef, LoopInput, LoopLine, LoopPlan, LoopProgress, LoopRef, LoopStatus, ThinkReply
from memory.model.names import SEARCH_OUTCOME, SEARCH_STAGE
from workflows import policies
from workflows.knowledge_details import MAX_LINES, details_markdown
from workflows.patience import AWAY_OR_HANGING, Patience

OUTCOME = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
STAGE = SearchAttributeKey.for_keyword(SEARCH_STAGE)
_R = TypeVar("_R")


class LoopInHand:
    """``running``: tools by the position of their call. ``open``: the clarification that is waited for. ``answered``: those that
    were, or that nobody answered in time. ``last``: the model gives its answer at a limit, and reads nothing more. ``over``: its
    end is being recorded, nobody can steer any more."""

    def __init__(self, start: LoopInput) -> None:
        self.operation = start.operation
        self.ref = LoopRef(user=start.user, loop_id=start.loop_id)
        self.plan = start.plan
        self.progress = start.resumed.next_run() if start.resumed else LoopProgress()
        self.doing = "starting"
        self.running: dict[int, str] = {}
        self.lines: list[LoopLine] = []
        self.open: str | None = None
        self.answered: set[str] = set()
        self.last = False
        self.over = False
        self.pause_told = False
        self.steps_this_run = 0
        self.steers_this_run = 0
        self.last_tokens = 0
        self.patience = Patience(self._note_waiting)

    # ------------------------------------------------------------------------------------------------------------ progress

    def note(self, **changed: Any) -> None:
        self.progress = self.progress.model_copy(update=changed)

    def begun(self, plan: LoopPlan) -> None:
        """What an earlier run was told counts in this one; what was said since the store was read is newer."""
        self.plan = plan
        self.note(
            steered=max(plan.steered, self.progress.steered),
            paused=self.progress.paused if self.pause_told else plan.paused,
            stopping=plan.stopping or self.progress.stopping,
        )

    def pause(self, paused: bool) -> None:
        self.pause_told = True
        self.note(paused=paused)

    def heard(self, entry: int) -> None:
        """Somebody corrected or answered the loop."""
        self.steers_this_run += 1
        self.note(steered=max(entry, self.progress.steered))

    def spend(self, input_tokens: int, output_tokens: int) -> None:
        progress = self.progress
        self.note(input_tokens=progress.input_tokens + input_tokens, output_tokens=progress.output_tokens + output_tokens)

    def worked(self, began: datetime) -> None:
        """Count the time since ``began``; that of pauses and of waiting for persons is never counted."""
        self.note(worked_s=round(self.progress.worked_s + (workflow.now() - began).total_seconds(), 3))

    def thought(self, step: int, reply: ThinkReply) -> None:
        used_in = sum(one.input_tokens for one in reply.usage.values())
        used_out = sum(one.output_tokens for one in reply.usage.values())
        self.last_tokens = used_in + used_out
        self.steps_this_run += 1
        self.note(step=step, seen=max(reply.seen, self.progress.seen))
        self.spend(used_in, used_out)
        calls = tuple(call.name or "unknown" for call in reply.calls)
        line = LoopLine(step=step, calls=calls, tokens=self.last_tokens, problem=reply.problem)
        self.lines = [*self.lines[1 - MAX_LINES :], line]

    def mark(self, call: CallRef, code: str) -> None:
        """A call of the last step ended with an error, for the view."""
        calls = list(self.lines[-1].calls) if self.lines else []
        name = call.name or "unknown"
        if name in calls:
            calls[calls.index(name)] = f"{name}: {code}"
            self.lines[-1] = self.lines[-1].model_copy(update={"calls": tuple(calls)})

    # --------------------------------------------------------------------------------------------------------------- steps

    async def go_on(self) -> None:
        """Before every step: hear a stop, wait while paused."""
        if self.progress.paused and not self.progress.stopping:
            self.enter("paused")
            self.stage("paused")
            await workflow.wait_condition(lambda: not self.progress.paused or self.progress.stopping)
            self.stage("working")
        if self.progress.stopping:
            # A call that ended well although it was to be cancelled leads on to here.
            raise asyncio.CancelledError

    async def store(
        self, activity: str, argument: Any, result_type: type[_R], policy: policies.StoreStep, summary: str | None = None
    ) -> _R:
        """A step that only touches the store; waited for as long as it is away."""

        async def call() -> _R:
            return await workflow.execute_local_activity(
                activity, argument, result_type=result_type, summary=summary, **policy.options()
            )

        return await self.patience.run(call, None, AWAY_OR_HANGING)

    # ---------------------------------------------------------------------------------------------------------------- view

    def enter(self, doing: str) -> None:
        self.doing = doing
        self.show()

    def show(self) -> None:
        workflow.set_current_details(details_markdown(self.operation.value, self.doing, self.progress, self.lines))

    def stage(self, stage: str) -> None:
        """For operators, what is out of the ordinary: the normal course costs no update of the search index."""
        workflow.upsert_search_attributes([STAGE.value_set(stage)])

    def status(self) -> LoopStatus:
        return LoopStatus(
            doing=f"{self.doing}, waiting_for_store" if self.patience.waiting else self.doing,
            progress=self.progress,
            tools=tuple(self.running[index] for index in sorted(self.running)),
            clarification=self.open,
            plan=self.plan,
        )

    def _note_waiting(self) -> None:
        self.stage("waiting_for_store")
