"""What travels between starter, workflow and activities of an erasure: never a user's id, which is in the database only.

These are Temporal payloads: add optional fields, never rename or remove (running workflows hold the old form).
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from memory.model.erasure import ErasureState
from memory.model.steps import Payload


class ErasureRef(Payload):
    """Which erasure. ``tenant``: encoded. Start argument of ``ForgetUserWorkflow``."""

    tenant: str
    erasure_id: str


class ErasedStore(StrEnum):
    ROWS = "rows"
    VECTORS = "vectors"
    OBJECTS = "objects"


class ForgetPlan(Payload):
    """What the first step decided; a recorded result, so the workflow never reads settings."""

    open: bool
    """False: it was done before."""
    stores: tuple[ErasedStore, ...] = tuple(ErasedStore)
    max_passes: int = 10
    retry_for_s: float = 86_400.0
    """A step is tried this long; then the run fails, and the sweeper starts the next one."""
    runs_for_s: float = 900.0
    """Temporal is given this long to delete workflow executions."""


class StopReply(Payload):
    """``stopped``: runs by workflow type; 0 of a type whose runs had ended shortly before, and may have steps that go on.
    ``settle_s``: so long what was under way may still write."""

    stopped: dict[str, int] = Field(default_factory=dict)
    settle_s: float = 0.0


class EraseInput(Payload):
    erasure: ErasureRef
    store: ErasedStore
    passed: int
    """Number of the pass, from 1."""


class EraseReply(Payload):
    """``counts``: what was there, by name; without what was not."""

    counts: dict[str, int] = Field(default_factory=dict)
    elapsed_ms: int = 0


class RunsReply(Payload):
    """``left``: workflow executions that the server still lists."""

    left: int


class MarkInput(Payload):
    erasure: ErasureRef
    state: ErasureState
    problems: tuple[str, ...] = ()


class ForgetResult(Payload):
    state: ErasureState
    passes: int = 0
    counts: dict[str, int] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()
