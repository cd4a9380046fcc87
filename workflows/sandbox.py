"""The sandbox that the workflows run in."""

from __future__ import annotations

from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions


class _ContextFree(WorkflowInstance):
    """A sandboxed instance that is not entered to ask for a serialization context.

    The SDK asks several times for every payload, which is a good part of a worker's CPU. Our data converter does the same for
    every payload, whatever the context, and payloads are not stored elsewhere; a converter that does not (a codec with a key per
    user, say) needs the plain runner.
    """

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._inner.activate(act)

    def get_serialization_context(self, command_info: Any) -> None:
        return None

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return StorageDriverStoreContext(target=None)

    def get_info(self) -> Any:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


class _Runner(SandboxedWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _ContextFree(super().create_instance(det))


def workflow_runner() -> SandboxedWorkflowRunner:
    """The SDK's sandbox with our light modules passed through: it imports a workflow file again for every single run."""
    passed = SandboxRestrictions.default.with_passthrough_modules(
        "memory",
        "workflows.policies",
        "workflows.details",
        "workflows.patience",
        "workflows.window_details",
        "workflows.knowledge_calls",
        "workflows.knowledge_details",
        "workflows.knowledge_hand",
        "pydantic",
        "structlog",
    )
    return _Runner(restrictions=passed)
