"""Every time-out and retry policy of the workflows, by name, checked when it is built.

Model steps run as regular activities on the model queue; store steps run as local activities. A store that is away is not the
model's fault: ``StoreUnavailable`` ends an activity at once and the workflow waits with a durable timer (:class:`Patience`), so an
outage neither uses up the bounded model attempts nor holds a worker slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from memory.model.names import (
    CONSOLIDATE_EVENTS_WORKFLOW,
    KNOWLEDGE_LOOP_WORKFLOW,
    KNOWLEDGE_QUESTION_WORKFLOW,
    POST_ANSWER_WORKFLOW,
)

HEARTBEAT_S: Final = 10.0
"""A dead worker is noticed after this long; the helper in ``activities.heartbeat`` beats three times as often."""

MODEL_CALLS_PER_CONSOLIDATION: Final = 6
"""Consolidate, repair or loss explanation, condense, scrub and its repair: an upper bound for one attempt."""

MODEL_CALLS_PER_EXTRACTION: Final = 24
"""The window, more room, its halves and single categories again: an upper bound for one attempt."""

NOT_RETRYABLE: Final = (
    "ModelRejected",
    "SpendCapReached",
    "ProfileConflict",
    "InvalidInput",
    "InvalidSettings",
    "NotPermitted",
    "RootClash",
    "StoreUnavailable",
)
"""Error types that the same attempt cannot cure. ``StoreUnavailable`` is waited for by the workflow itself."""

MAX_CONFLICTS: Final = 3
"""After a conflict the turn is consolidated again, at most this often."""

MAX_WAKEUPS_PER_RUN: Final = 5000
"""A run takes at most 10,000 signals (server limit); it continues as new well before."""


@dataclass(frozen=True)
class ModelStep:
    """Options of an activity that calls a model. ``calls``: model calls in one attempt, for the start-to-close time-out."""

    name: str
    attempts: int
    calls: int
    slack_s: float = 15.0
    initial_backoff_s: float = 1.0
    max_backoff_s: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.calls < 1:
            raise ValueError(f"{self.name}: attempts and calls must be at least 1")
        if not 0 < self.initial_backoff_s <= self.max_backoff_s:
            raise ValueError(f"{self.name}: back-off must be positive and not above its maximum")

    def longest_s(self, model_timeout_s: float) -> float:
        """One attempt takes no longer, wherever it runs."""
        return self.calls * model_timeout_s + self.slack_s

    def options(self, model_timeout_s: float, *, attempts: int | None = None) -> dict[str, Any]:
        """Keyword arguments for ``workflow.execute_activity``. ``attempts``: fewer than usual."""
        return {
            "start_to_close_timeout": timedelta(seconds=self.longest_s(model_timeout_s)),
            "heartbeat_timeout": timedelta(seconds=HEARTBEAT_S),
            "retry_policy": RetryPolicy(
                initial_interval=timedelta(seconds=self.initial_backoff_s),
                backoff_coefficient=2.0,
                maximum_interval=timedelta(seconds=self.max_backoff_s),
                maximum_attempts=min(self.attempts, attempts or self.attempts),
                non_retryable_error_types=list(NOT_RETRYABLE),
            ),
        }


@dataclass(frozen=True)
class StoreStep:
    """Options of a local activity on a store. Quick retries cure a hiccup; an outage is left to :class:`Patience`."""

    name: str
    start_to_close_s: float
    attempts: int = 2
    initial_backoff_s: float = 0.1

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"{self.name}: attempts must be at least 1")
        if self.start_to_close_s <= 0 or self.initial_backoff_s <= 0:
            raise ValueError(f"{self.name}: times must be positive")

    def options(self) -> dict[str, Any]:
        """Keyword arguments for ``workflow.execute_local_activity``."""
        return {
            "start_to_close_timeout": timedelta(seconds=self.start_to_close_s),
            "retry_policy": RetryPolicy(
                initial_interval=timedelta(seconds=self.initial_backoff_s),
                backoff_coefficient=2.0,
                maximum_interval=timedelta(seconds=2),
                maximum_attempts=self.attempts,
                non_retryable_error_types=list(NOT_RETRYABLE),
            ),
        }


@dataclass(frozen=True)
class LongStoreStep:
    """Options of a regular activity that works through many rows, with heartbeats."""

    name: str
    start_to_close_s: float
    attempts: int = 3

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.start_to_close_s <= 0:
            raise ValueError(f"{self.name}: attempts must be at least 1, times positive")

    def options(self) -> dict[str, Any]:
        """Keyword arguments for ``workflow.execute_activity``."""
        return {
            "start_to_close_timeout": timedelta(seconds=self.start_to_close_s),
            "heartbeat_timeout": timedelta(seconds=HEARTBEAT_S),
            "retry_policy": RetryPolicy(
                initial_interval=timedelta(seconds=1),
                backoff_coefficient=2.0,
                maximum_interval=timedelta(seconds=30),
                maximum_attempts=self.attempts,
                non_retryable_error_types=[kind for kind in NOT_RETRYABLE if kind != "StoreUnavailable"],
            ),
        }


@dataclass(frozen=True)
class ToolStep:
    """Options of a regular activity that makes one tool call of a knowledge loop; a repeat does nothing twice.

    A read is given up at once when its loop is stopped; a write is waited for, so that its result says whether it happened.
    """

    name: str
    start_to_close_s: float
    attempts: int = 3

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.start_to_close_s <= 0:
            raise ValueError(f"{self.name}: attempts must be at least 1, times positive")

    def options(self, *, writes: bool) -> dict[str, Any]:
        """Keyword arguments for ``workflow.execute_activity``."""
        wait, leave = ActivityCancellationType.WAIT_CANCELLATION_COMPLETED, ActivityCancellationType.TRY_CANCEL
        return {
            "start_to_close_timeout": timedelta(seconds=self.start_to_close_s),
            "heartbeat_timeout": timedelta(seconds=HEARTBEAT_S),
            "cancellation_type": wait if writes else leave,
            "retry_policy": RetryPolicy(
                initial_interval=timedelta(seconds=0.2),
                backoff_coefficient=2.0,
                maximum_interval=timedelta(seconds=5),
                maximum_attempts=self.attempts,
                non_retryable_error_types=list(NOT_RETRYABLE),
            ),
        }


@dataclass(frozen=True)
class Patience:
    """How the workflow waits for what is away: durable timers, doubling from ``first_s`` up to ``longest_s``."""

    first_s: float = 0.5
    longest_s: float = 30.0

    def delay(self, attempt: int) -> timedelta:
        """The wait before try number ``attempt`` (from 1)."""
        return timedelta(seconds=min(self.longest_s, self.first_s * 2 ** min(attempt - 1, 16)))


GATE: Final = ModelStep("gate", attempts=2, calls=1)
CONSOLIDATE: Final = ModelStep("consolidate", attempts=4, calls=MODEL_CALLS_PER_CONSOLIDATION)

CLAIM: Final = StoreStep("claim", start_to_close_s=40)
UPLOAD: Final = StoreStep("upload", start_to_close_s=45)
WRITE: Final = StoreStep("write", start_to_close_s=60)
FINISH: Final = StoreStep("finish", start_to_close_s=45)
NOTICE: Final = StoreStep("notice", start_to_close_s=12, attempts=2, initial_backoff_s=0.5)

EXTRACT: Final = ModelStep("extract", attempts=4, calls=MODEL_CALLS_PER_EXTRACTION)
PLAN_WINDOW: Final = StoreStep("plan window", start_to_close_s=40)
APPLY: Final = StoreStep("apply category", start_to_close_s=60, attempts=3)
COMMIT_WINDOW: Final = StoreStep("commit window", start_to_close_s=45)
INDEX: Final = LongStoreStep("index", start_to_close_s=900)
RECONCILE: Final = LongStoreStep("reconcile", start_to_close_s=1800)

THINK: Final = ModelStep("think", attempts=4, calls=1, slack_s=30)
QUESTION: Final = ModelStep("question", attempts=2, calls=1, slack_s=30)
QUESTION_STORE_S: Final = 60.0
"""A side question waits this long for a store that is away; somebody waits for the answer."""
BEGIN_LOOP: Final = StoreStep("begin loop", start_to_close_s=40)
TOOL: Final = ToolStep("tool", start_to_close_s=180)
SETTLE_CALL: Final = StoreStep("settle call", start_to_close_s=40)
FINISH_LOOP: Final = StoreStep("finish loop", start_to_close_s=45)
MAX_REPAIRS: Final = 2
"""Replies of a loop's model in a row that cannot be used and are asked for anew."""
MAX_STRUCTURE_TRIES: Final = 2
"""Tries to put an answer into the form that the caller asked for."""
MAX_STEERS_PER_RUN: Final = 500
"""Interjections and answers that one run takes; more are refused until it has continued as new."""

STORE_PATIENCE: Final = Patience()

MAX_PROMPTS_NOTED: Final = 20
"""Versions of prompts in a run's search attribute."""
MODEL_PATIENCE: Final = Patience(first_s=5.0, longest_s=60.0)
"""After the bounded attempts of a turn's rewrite; each further wait is followed by one attempt."""

FORGET_STEP: Final = LongStoreStep("forget step", start_to_close_s=120, attempts=2)
FORGET_ERASE: Final = LongStoreStep("erase", start_to_close_s=3600, attempts=2)
FORGET_PATIENCE: Final = Patience(first_s=1.0, longest_s=300.0)
"""An erasure outlasts any outage, so its waits grow longer."""
DELETION_PATIENCE: Final = Patience(first_s=1.0, longest_s=10.0)
"""A server that is well deletes executions within a minute or so."""

CHECK_STORES: Final = LongStoreStep("check stores", start_to_close_s=60, attempts=20)
"""Minutes of patience: a store that is away for a moment is no fault of a new version."""


def longest_steps(model_timeout_s: float) -> dict[str, float]:
    """By workflow type: so long, in seconds, a step of a run that was stopped may go on in a worker that does not hear of it."""
    loop = max(THINK.longest_s(model_timeout_s), TOOL.start_to_close_s)
    return {
        POST_ANSWER_WORKFLOW: max(CONSOLIDATE.longest_s(model_timeout_s), WRITE.start_to_close_s),
        CONSOLIDATE_EVENTS_WORKFLOW: max(EXTRACT.longest_s(model_timeout_s), INDEX.start_to_close_s),
        KNOWLEDGE_LOOP_WORKFLOW: loop,
        KNOWLEDGE_QUESTION_WORKFLOW: QUESTION.longest_s(model_timeout_s),
    }


SWEEP_TIMEOUT: Final = timedelta(minutes=10)
SWEEP_RETRIES: Final = RetryPolicy(
    maximum_attempts=3, non_retryable_error_types=["InvalidInput", "InvalidSettings", "NotPermitted"]
)
