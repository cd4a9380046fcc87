"""How a pinned run comes to newer workers: Worker Versioning keeps it on the version that it began on.

A user who never stops writing would keep an old version of the workers alive. So a run hands over, between two pieces of work, as
soon as the server says that there is a newer version, and its successor begins there. Without Worker Versioning neither happens.
"""

from __future__ import annotations

from typing import Final

from temporalio import workflow
from temporalio.workflow import ContinueAsNewVersioningBehavior

TO_NEWEST: Final = ContinueAsNewVersioningBehavior.AUTO_UPGRADE
"""The successor begins on the version that new runs get. An override that an operator has set for the run still wins."""


def newer_workers() -> bool:
    """Whether new runs of this kind go to another version than this one."""
    return workflow.info().is_target_worker_deployment_version_changed()
