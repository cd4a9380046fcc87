"""The sandbox that the workflows run in."""

from __future__ import annotations

from typing import Any

from temporalio.api.enums.v1 import VersioningBehavior
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

    def __init__(self, inner: WorkflowInstance, *, versioned: bool) -> None:
        self._inner = inner
        self._versioned = versioned

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        completion = self._inner.activate(act)
        if not self._versioned and completion.HasField("successful"):
            # The workflow types name a behaviour for Worker Versioning. From a worker without a version the server refuses every
            # task that bears one, and the SDK sends it all the same.
            completion.successful.versioning_behavior = VersioningBehavior.VERSIONING_BEHAVIOR_UNSPECIFIED
        return completion

    def get_serialization_context(self, command_info: Any) -> None:
        return None

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return StorageDriverStoreContext(target=None)

    def get_info(self) -> Any:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


class _Runner(SandboxedWorkflowRunner):
    versioned = False

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _ContextFree(super().create_instance(det), versioned=self.versioned)


class _VersionedRunner(_Runner):
    versioned = True


def workflow_runner(*, versioned: bool = False) -> SandboxedWorkflowRunner:
    """The SDK's sandbox with our light modules passed through: it imports a workflow file again for every single run.

    ``versioned``: the worker has a version (Worker Versioning).
    """
    passed = SandboxRestrictions.default.with_passthrough_modules(
        "memory",
        "workflows.policies",
        "workflows.details",
        "workflows.patience",
        "workflows.versions",
        "workflows.window_details",
        "workflows.knowledge_calls",
        "workflows.knowledge_details",
        "workflows.knowledge_hand",
        "pydantic",
        "structlog",
    )
    return _VersionedRunner(restrictions=passed) if versioned else _Runner(restrictions=passed)
