"""The workflows of afterturn. Deterministic code only: no I/O, no clock, no text of a user."""

from workflows.post_answer import PostAnswerWorkflow
from workflows.sweep import SweepWorkflow

WORKFLOWS = (PostAnswerWorkflow, SweepWorkflow)
"""All workflow classes: what a worker registers and what `afterturn replay` checks."""

__all__ = ["WORKFLOWS", "PostAnswerWorkflow", "SweepWorkflow"]
