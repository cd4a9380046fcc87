"""The sandbox that the workflows run in."""

from __future__ import annotations

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions


def workflow_runner() -> SandboxedWorkflowRunner:
    """The SDK's sandbox with our light modules passed through: it imports a workflow file again for every single run."""
    passed = SandboxRestrictions.default.with_passthrough_modules(
        "memory", "workflows.policies", "workflows.details", "pydantic", "structlog"
    )
    return SandboxedWorkflowRunner(restrictions=passed)
