"""What travels between starter, workflow and activities: ids, versions, hashes, counts, usage, decisions. Never user text.

These are Temporal payloads: add optional fields, never rename or remove (running workflows hold the old form).
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from memory.model.directory import ConsolidationMode
from memory.model.scope import Scope
from memory.model.turn import Outcome


class Payload(BaseModel):
    model_config = ConfigDict(frozen=True)


class UserRef(Payload):
    """Whose run it is, in the encoded form."""

    tenant: str
    user: str

    @classmethod
    def of(cls, scope: Scope) -> UserRef:
        return cls(tenant=scope.tenant, user=scope.user)

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.user)


# ------------------------------------------------------------------------------------------------ starter <-> workflow


class PostAnswerInput(Payload):
    """Start argument of ``PostAnswerWorkflow``. ``resumed``: totals of the runs that continued as this one."""

    user: UserRef
    resumed: RunTotals | None = None


class TurnsRecorded(Payload):
    """Signal ``turns_recorded``: a wake-up. The ledger says which turns are due and in which order."""

    turn_ids: tuple[str, ...] = ()


class EditRequest(Payload):
    """Update ``edit_profile``. The new body waits in the object store under ``candidate`` (its hash)."""

    edit_id: str
    candidate: str
    expected_etag: str | None
    """ETag of the version that the user read; None: there was no profile."""


class RollbackRequest(Payload):
    """Update ``rollback_profile``: make version ``to_version`` the newest again."""

    edit_id: str
    to_version: int
    expected_etag: str | None = None
    """None: whatever is there now."""


class WriteStatus(StrEnum):
    SAVED = "saved"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    NOT_FOUND = "not_found"
    OPTED_OUT = "opted_out"
    """The user switched memory off while the turn was processed."""
    FAILED = "failed"


class WriteReply(Payload):
    """``version`` and ``etag`` are those of the profile as it is now (after a conflict: the other writer's)."""

    status: WriteStatus
    version: int | None = None
    etag: str | None = None
    reason: str | None = None
    elapsed_ms: int = 0


class RunTotals(Payload):
    updated: int = 0
    noop: int = 0
    kept: int = 0
    skipped: int = 0
    edits: int = 0
    runs: int = 1

    def next_run(self) -> RunTotals:
        """What the run begins with that continues this one."""
        return self.model_copy(update={"runs": self.runs + 1})


class RunStatus(Payload):
    """Query ``status``."""

    stage: str
    turn_ids: tuple[str, ...] = ()
    totals: RunTotals = RunTotals()
    profile_version: int | None = None
    last_outcome: Outcome | None = None
    last_reason: str | None = None


# --------------------------------------------------------------------------------------------- workflow <-> activities


class TurnRef(Payload):
    turn_id: str
    attempt: int
    ordinal: int


class Plan(Payload):
    """What the claim step decided for the next batch of turns; a recorded result, so the workflow never reads settings."""

    turns: tuple[TurnRef, ...]
    skipped: tuple[TurnRef, ...] = ()
    skip_reason: str | None = None
    skip_outcome: Outcome = Outcome.SKIPPED
    """``kept`` where the turns cannot be handled because of a fault that an operator can mend."""
    more: bool = False
    model: str = ""
    gate: bool = True
    mode: ConsolidationMode = ConsolidationMode.REWRITE
    notice: bool = True
    remote_notices: bool = False
    """A sink is across the network: showing the notice must not hold back the rewrite."""
    privacy_scrub: bool = False
    max_tokens: int = 2000
    root: str = "user-memory"
    conversation_ids: tuple[str, ...] = ()
    empty: bool = False
    """All turns are empty exchanges: no call, no write."""
    model_timeout_s: float = 60.0
    store_retry_for_s: float = 900.0
    model_retry_for_s: float = 0.0
    """Plans of histories from before this field did not wait."""
    continue_after_turns: int = 500


class StageUsage(Payload):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    calls: int = 0

    def plus(self, other: StageUsage) -> StageUsage:
        return StageUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            calls=self.calls + other.calls,
        )


class BatchInput(Payload):
    """Argument of the gate and consolidate steps."""

    user: UserRef
    plan: Plan
    conflicts: int = 0
    """How often this batch met another write; then the profile is read anew, whatever was read a moment ago."""


class GateReply(Payload):
    update: bool
    flags: tuple[str, ...] = ()
    """Why it counts as UPDATE although the model did not say so."""
    usage: StageUsage = StageUsage()
    elapsed_ms: int = 0
    prompts: str | None = None
    """Version of the prompts that the model was asked with; None where it was not asked."""


class Decision(StrEnum):
    CANDIDATE = "candidate"
    NOOP = "noop"
    KEPT = "kept"
    APPLIED = "applied"
    """The profile already holds these turns: an earlier run's upload whose record was lost."""


class ConsolidateReply(Payload):
    decision: Decision
    reason: str | None = None
    candidate: str | None = None
    """Hash of the staged body."""
    base_etag: str | None = None
    base_version: int = 0
    applied_version: int | None = None
    flags: tuple[str, ...] = ()
    """For instance ``repaired``, ``condensed``, ``truncated``, ``loss_guard``, ``scrubbed``, ``redacted``."""
    usage: dict[str, StageUsage] = Field(default_factory=dict)
    elapsed_ms: int = 0
    prompts: str | None = None
    """As in a :class:`GateReply`."""


class UploadInput(Payload):
    user: UserRef
    plan: Plan
    candidate: str
    base_etag: str | None
    base_version: int
    prompts: str | None = None
    """Version of the prompts that the candidate was made with."""


class EditInput(Payload):
    user: UserRef
    request: EditRequest


class RollbackInput(Payload):
    user: UserRef
    request: RollbackRequest


class NoticeInput(Payload):
    user: UserRef
    notice_id: str
    step: str
    turn_ids: tuple[str, ...]
    conversation_ids: tuple[str, ...] = ()
    at: str
    """ISO 8601, the workflow's time."""
    outcome: Outcome | None = None


class FinishInput(Payload):
    """Argument of the last step of a batch."""

    user: UserRef
    turns: tuple[TurnRef, ...]
    outcome: Outcome
    reason: str | None = None
    flags: tuple[str, ...] = ()
    profile_version: int | None = None
    model: str | None = None
    usage: dict[str, StageUsage] = Field(default_factory=dict)
    durations_ms: dict[str, int] = Field(default_factory=dict)
    notice: NoticeInput | None = None
    """Sent before the outcome is recorded: the removal of the notice that was shown."""


class SweepInput(Payload):
    grace_s: float = 30.0
    staging_ttl_s: float = 86_400.0
    limit: int = 500
    loop_grace_s: float = 300.0
    """A loop that a window opened so long ago and that does not run is started."""


class SweepReport(Payload):
    """Result of one ``sweep``: what was found and done."""

    users_started: int = 0
    turns_waiting: int = 0
    failed: int = 0
    staging_removed: int = 0
    more: bool = False
    windows_reopened: int = 0
    windows_idle: int = 0
    window_users_started: int = 0
    window_users_capped: int = 0
    """Users whose model tokens of today are spent."""
    events_expired: int = 0
    users_indexed: int = 0
    window_loops_started: int = 0
    """Loops that windows opened: those that did not run run now; those that ran count too."""
    erasures_started: int = 0
    """Erasures that are not done: those that did not run run now; those that ran count too."""
    failed_parts: tuple[str, ...] = ()


PostAnswerInput.model_rebuild()
