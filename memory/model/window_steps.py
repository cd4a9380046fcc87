"""What travels between starter, ``ConsolidateEventsWorkflow`` and its activities: ids, numbers, counts, usage. Never user text.

These are Temporal payloads: add optional fields, never rename or remove (running workflows hold the old form).
"""

from __future__ import annotations

from pydantic import Field

from memory.model.category import Category
from memory.model.steps import Payload, StageUsage, UserRef
from memory.model.window import CategoryOutcome, WindowState, WindowTrigger


class WindowTotals(Payload):
    """Over all runs that continued as one another."""

    windows: int = 0
    events: int = 0
    applied: int = 0
    failed: int = 0
    runs: int = 1

    def next_run(self) -> WindowTotals:
        return self.model_copy(update={"runs": self.runs + 1})


class ConsolidateInput(Payload):
    """Start argument of ``ConsolidateEventsWorkflow``."""

    user: UserRef
    resumed: WindowTotals | None = None


class EventsRecorded(Payload):
    """Signal ``events_recorded``: a wake-up. The ledger says which windows are due and in which order."""

    waiting: int = 0


class WindowPlan(Payload):
    """What the plan step decided for the next window; a recorded result, so the workflow never reads settings or the registry.

    ``window_id`` None: nothing is due. ``skip``: why the window is consumed without a model.
    """

    window_id: str | None = None
    attempt: int = 0
    trigger: WindowTrigger = WindowTrigger.SIZE
    first_seq: int = 0
    last_seq: int = 0
    events: int = 0
    categories: tuple[Category, ...] = ()
    skip: str | None = None
    capped: bool = False
    """The user's tokens of today are spent: nothing is begun before tomorrow."""
    model: str = ""
    model_timeout_s: float = 60.0
    store_retry_for_s: float = 900.0
    continue_after_windows: int = 100
    embed: bool = False


class WindowRef(Payload):
    """Argument of the extract step."""

    user: UserRef
    window_id: str
    attempt: int
    model: str
    model_timeout_s: float = 60.0


class ExtractReply(Payload):
    """``categories``: counts by category; those with ``applied`` 0 of ``proposed - dropped`` have nothing to apply yet."""

    categories: tuple[CategoryOutcome, ...] = ()
    items: dict[Category, int] = Field(default_factory=dict[Category, int])
    """How many items of each category wait to be applied."""
    flags: tuple[str, ...] = ()
    usage: dict[str, StageUsage] = Field(default_factory=dict[str, StageUsage])
    elapsed_ms: int = 0


class ApplyInput(Payload):
    user: UserRef
    window_id: str
    attempt: int
    category: Category


class ApplyReply(Payload):
    outcome: CategoryOutcome
    elapsed_ms: int = 0
    loops: tuple[str, ...] = ()
    """Knowledge loops that are to be started: what the window learned is entered into tables by them."""


class CommitInput(Payload):
    """Argument of the last step of a window: its outcome, written together with the watermark."""

    user: UserRef
    window_id: str
    attempt: int
    state: WindowState
    reason: str | None = None
    outcomes: tuple[CategoryOutcome, ...] = ()
    flags: tuple[str, ...] = ()
    usage: dict[str, StageUsage] = Field(default_factory=dict[str, StageUsage])
    durations_ms: dict[str, int] = Field(default_factory=dict[str, int])
    model: str | None = None


class IndexInput(Payload):
    """``embed``: dense vectors too. ``limit``: events at most in one call."""

    user: UserRef
    embed: bool = False


class IndexReply(Payload):
    indexed: int = 0
    embedded: int = 0
    documents: int = 0
    elapsed_ms: int = 0


class WindowStatusReply(Payload):
    """Query ``status``."""

    stage: str
    window_id: str | None = None
    totals: WindowTotals = WindowTotals()
    last_state: WindowState | None = None
    last_reason: str | None = None


class ReconcilePlace(Payload):
    """Where a pass over one kind of document ended: the last row (owner path, document id), point and user. None: at the end."""

    row: tuple[str, str] | None = None
    point: str | None = None
    user: UserRef | None = None


class ReconcileInput(Payload):
    """``places``: by kind, where to go on; the workflow takes them from the pass before."""

    limit: int = 10_000
    places: dict[str, ReconcilePlace] = Field(default_factory=dict[str, ReconcilePlace])


class ReconcileReply(Payload):
    """Drift between rows and vectors, by kind of document: what was looked at, missing, orphaned, stale, and mended.

    ``places``: where the next pass goes on.
    """

    places: dict[str, ReconcilePlace] = Field(default_factory=dict[str, ReconcilePlace])
    checked: dict[str, int] = Field(default_factory=dict[str, int])
    missing: dict[str, int] = Field(default_factory=dict[str, int])
    orphaned: dict[str, int] = Field(default_factory=dict[str, int])
    stale: dict[str, int] = Field(default_factory=dict[str, int])
    repaired: dict[str, int] = Field(default_factory=dict[str, int])
    elapsed_ms: int = 0


ConsolidateInput.model_rebuild()
