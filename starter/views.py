"""What the client gives back: frozen results, safe to print (a user's text is left out of every ``repr``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memory.model.enablement import Enablement
from memory.model.profile import Profile
from memory.model.scope import Scope
from memory.model.steps import WriteStatus
from memory.ports import TurnSummary


class LoadReason(StrEnum):
    """Why a load gave no memory."""

    OFF = "off"
    """Memory is not active for this turn; ``LoadedMemory.reasons`` lists every reason."""
    NO_PROFILE = "no_profile"
    """Memory is on; nothing has been learned about this user yet."""
    INVALID_ID = "invalid_id"
    UNREADABLE = "unreadable"
    """Another program put a file there that is too large to be a profile; ``detail`` says the ways out."""
    TIMEOUT = "timeout"
    """No answer within the budget."""
    BUSY = "busy"
    """A store has not answered for a while; it was not asked again for this turn."""
    UNAVAILABLE = "unavailable"
    """A store refused or failed."""
    ERROR = "error"
    """A fault in this program; the log has it."""


@dataclass(frozen=True, slots=True)
class LoadedMemory:
    """The memory for one turn. ``body`` is empty whenever ``reason`` is set; both are safe to ignore.

    ``active``: whether memory is on for this turn, as far as it could be found out. ``reasons``: every reason why it is off.
    ``detail``: one line for operators. ``tokens``: size of ``body`` by the memory model's tokenizer, or None where its length in
    bytes already shows that it fits. ``truncated``: the stored profile was over the budget and was cut by rule for this turn.
    """

    body: str = field(default="", repr=False)
    active: bool = False
    reasons: tuple[str, ...] = ()
    reason: LoadReason | None = None
    detail: str | None = None
    version: int = 0
    etag: str | None = None
    tokens: int | None = None
    truncated: bool = False
    elapsed_ms: float = 0.0


class ReceiptStatus(StrEnum):
    RECORDED = "recorded"
    """In the event log."""
    DUPLICATE = "duplicate"
    """This turn id was in the event log already."""
    SKIPPED = "skipped"
    """Memory is off for this turn: nothing was written anywhere."""
    SPOOLED = "spooled"
    """The event log is away; the turn waits in this machine's spool file and is recorded later."""
    LOST = "lost"
    """The event log is away and the spool could not take the turn; counted in ``MemoryClient.lost_turns``."""
    PENDING = "pending"
    """Not settled within the budget (a very long text, a slow disk); it goes on in the background, and is counted if it is lost."""
    REFUSED = "refused"
    """The turn cannot be used; ``reason`` says what to change."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a turn. ``started``: the workflow has been told; if not, the sweeper tells it within about a minute.

    ``reason``: one line, ids and counts only. ``reasons``: why memory is off, for ``skipped``. ``ordinal``: the turn's number.
    """

    status: ReceiptStatus
    reason: str | None = None
    started: bool = False
    reasons: tuple[str, ...] = ()
    ordinal: int | None = None
    elapsed_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class EventsReceipt(Receipt):
    """What became of a batch of events. ``recorded``: new ones; ``duplicates``: ids that were there; ``dropped``: messages without
    content and calls of the memory itself. ``waiting``: events of the user that no window has consumed yet."""

    recorded: int = 0
    duplicates: int = 0
    dropped: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class ProfileView:
    """A user's profile as it is stored. ``version`` is 0 and ``etag`` None where there is none.

    ``tokens``: size of ``body``; ``max_tokens``: the budget of the space that was asked for.
    """

    body: str = field(repr=False)
    exists: bool
    version: int
    etag: str | None
    last_updated: datetime | None
    turn_count: int
    tokens: int
    max_tokens: int
    cause: str | None = None
    """What wrote this version, for instance ``turn``, ``edit``, ``rollback``."""


@dataclass(frozen=True, slots=True)
class ProfilePreview:
    """What a save of a text would store. ``removed``: how many secrets of each kind would be taken out."""

    profile: Profile = field(repr=False)
    tokens: int
    max_tokens: int
    size: int
    """Bytes of UTF-8 of the text as it was given."""
    removed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProfileVersion:
    """One line of the history, newest first."""

    version: int
    etag: str
    written_at: datetime
    cause: str | None
    size: int
    """Bytes of the stored file."""
    is_latest: bool
    prompts: str | None = None
    """Version of the prompts that it was made with; None where no model made it."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """What became of a save or a roll-back.

    ``version`` and ``etag`` are those of the profile as it is now. After a conflict nothing was overwritten: ``yours`` is the
    text that was not saved and ``theirs`` the body that is stored.
    """

    status: WriteStatus
    version: int | None = None
    etag: str | None = None
    reason: str | None = None
    yours: str | None = field(default=None, repr=False)
    theirs: str | None = field(default=None, repr=False)

    @property
    def saved(self) -> bool:
        """Whether the profile now is what was asked for."""
        return self.status in (WriteStatus.SAVED, WriteStatus.UNCHANGED)


@dataclass(frozen=True, slots=True)
class UserStatus:
    """Where a user's memory stands. A part that could not be read is None and named in ``unavailable`` with the reason."""

    workflow_id: str
    running: bool | None
    stage: str | None
    """Of a run that is open: ``gating``, ``consolidating``, … ; ``waiting_for_store`` or ``waiting_for_model`` at the end. None
    where no worker answered."""
    run_id: str | None
    pending_turns: int | None
    """Turns recorded and not finished; counted up to 1,000."""
    recent: tuple[TurnSummary, ...]
    """The last turns, newest first, without their text."""
    profile_version: int | None
    profile_etag: str | None
    enablement: Enablement | None
    unavailable: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RerunResult:
    """``reopened``: the turns as they are now. ``started``: users whose workflow was told; the sweeper tells the others."""

    reopened: tuple[TurnSummary, ...]
    started: int
    waiting: int
    """Users whose workflow could not be told."""


class RepairStatus(StrEnum):
    """What becomes, or became, of one profile in :meth:`starter.client.MemoryClient.rollback_runs`."""

    WOULD_ROLL_BACK = "would_roll_back"
    WOULD_EMPTY = "would_empty"
    ROLLED_BACK = "rolled_back"
    EMPTIED = "emptied"
    EDITED = "edited_since"
    """A person wrote over the damage: left alone."""
    CLEAN = "not_damaged"
    """What these runs wrote is not in the profile (any more): they wrote nothing, or it was undone before."""
    NOTHING_BEFORE = "nothing_before"
    """Damaged from the first version on: left alone, unless such profiles are to be emptied."""
    NO_PROFILE = "no_profile"
    FORGETTING = "being_forgotten"
    CHANGED = "changed_meanwhile"
    """Written to again and again while it was looked at: left alone."""
    UNAVAILABLE = "unavailable"
    """A store, Temporal or the workers are away."""
    FAILED = "failed"

    @classmethod
    def repairs(cls) -> frozenset[RepairStatus]:
        """Those that change a profile, or would."""
        return frozenset({cls.WOULD_ROLL_BACK, cls.WOULD_EMPTY, cls.ROLLED_BACK, cls.EMPTIED})

    @property
    def again(self) -> bool:
        """Whether another call may get further with it."""
        return self in (RepairStatus.FAILED, RepairStatus.CHANGED, RepairStatus.UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class ProfileRepair:
    """One user. ``version``: the newest one when it was looked at. ``damaged``: the oldest damaged one in use; ``target``: the one
    before it. ``lost``: versions of other runs that were made on top of the damage and go with it; their turns are not learned
    again. ``edited``: the person's version. ``written``: the version that the roll-back made."""

    scope: Scope
    status: RepairStatus
    version: int | None = None
    damaged: int | None = None
    target: int | None = None
    lost: int = 0
    edited: int | None = None
    written: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RepairReport:
    """``applied``: false for a dry run. ``left``: users that were not looked at, because of the limit or because it ``stopped``."""

    query: str
    applied: bool
    runs: int
    users: int
    profiles: tuple[ProfileRepair, ...]
    left: int
    stopped: str | None = None

    @property
    def counts(self) -> Mapping[RepairStatus, int]:
        found = Counter(one.status for one in self.profiles)
        return {status: found[status] for status in RepairStatus if found[status]}

    @property
    def again(self) -> bool:
        """Whether another call may get further."""
        return self.left > 0 or self.stopped is not None or any(one.status.again for one in self.profiles)


@dataclass(frozen=True, slots=True)
class DrainResult:
    """What one drain of the spool did, in turns. ``remaining``: left for the next drain. ``busy``: another process drains."""

    recorded: int = 0
    duplicates: int = 0
    skipped: int = 0
    rejected: int = 0
    remaining: int = 0
    busy: bool = False
    reason: str | None = None
    """Why it stopped early."""
