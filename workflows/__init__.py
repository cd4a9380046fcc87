"""The workflows of afterturn. Deterministic code only: no I/O, no clock, no text of a user.

``WORKFLOWS`` holds all workflow classes: what a worker registers and what `afterturn replay` checks. The names are resolved on
first use (PEP 562): the sandbox imports this package again for every single run, and then needs one file of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflows.consolidate_events import ConsolidateEventsWorkflow
    from workflows.forget_user import ForgetUserWorkflow
    from workflows.knowledge_loop import KnowledgeLoopWorkflow
    from workflows.knowledge_question import KnowledgeQuestionWorkflow
    from workflows.post_answer import PostAnswerWorkflow
    from workflows.reconcile import ReconcileWorkflow
    from workflows.rollout_gate import RolloutGateWorkflow
    from workflows.sweep import SweepWorkflow

    WORKFLOWS: tuple[type, ...]

_HOMES = {
    "PostAnswerWorkflow": "workflows.post_answer",
    "ConsolidateEventsWorkflow": "workflows.consolidate_events",
    "SweepWorkflow": "workflows.sweep",
    "ReconcileWorkflow": "workflows.reconcile",
    "KnowledgeLoopWorkflow": "workflows.knowledge_loop",
    "KnowledgeQuestionWorkflow": "workflows.knowledge_question",
    "ForgetUserWorkflow": "workflows.forget_user",
    "RolloutGateWorkflow": "workflows.rollout_gate",
}

__all__ = [
    "WORKFLOWS",
    "ConsolidateEventsWorkflow",
    "ForgetUserWorkflow",
    "KnowledgeLoopWorkflow",
    "KnowledgeQuestionWorkflow",
    "PostAnswerWorkflow",
    "ReconcileWorkflow",
    "RolloutGateWorkflow",
    "SweepWorkflow",
]


def __getattr__(name: str) -> Any:
    if name == "WORKFLOWS":
        return tuple(getattr(importlib.import_module(home), workflow) for workflow, home in _HOMES.items())
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
