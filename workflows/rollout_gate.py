"""What has to end well on the workers of a new version before they get any work: the gate of a rollout.

Temporal's Worker Controller starts it, pinned to the new version, once for each task queue of that version. That it ends at all
shows that those workers poll, load the workflows in the sandbox and run steps; its step shows that they reach the stores, at the
schema of this version.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from memory.model.names import CHECK_STORES, ROLLOUT_GATE_WORKFLOW
    from workflows import policies


@workflow.defn(name=ROLLOUT_GATE_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class RolloutGateWorkflow:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(CHECK_STORES, summary="database and object store", **policies.CHECK_STORES.options())
