"""A workflow that gives back what it was given, from inside the sandbox."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from memory.model.turn import Turn


@workflow.defn(name="Echo")
class Echo:
    @workflow.run
    async def run(self, turn: Turn) -> Turn:
        return turn.model_copy(update={"conversation_id": type(turn.occurred_at).__name__})
