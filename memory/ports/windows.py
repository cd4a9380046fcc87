"""The event window's ledger and the accounts of what models cost (SQL)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Protocol

from memory.model.category import Category
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.scope import Scope
from memory.model.window import CategoryOutcome, Extraction, StoredEvent, Window, WindowState, WindowTrigger
from memory.ports.pipeline import Usage


@dataclass(frozen=True, slots=True)
class DueUser:
    """A user whose window has work. ``reason``: ``size``, ``idle``, ``flush``, ``reopened`` or ``planned`` (left by a crash)."""

    scope: Scope
    waiting: int
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a user's log stands: numbers of events. ``indexed_seq`` and ``embedded_seq``: how far ``search_events`` is."""

    last_seq: int
    consolidated_seq: int
    flush_seq: int
    indexed_seq: int
    embedded_seq: int
    last_event_at: datetime | None

    @property
    def waiting(self) -> int:
        return self.last_seq - self.consolidated_seq


@dataclass(frozen=True, slots=True)
class NextEvents:
    """What is to be planned next: a window to take up again, or a run of events without a window."""

    window: Window | None = None
    first_seq: int = 0
    last_seq: int = 0
    trigger: WindowTrigger = WindowTrigger.SIZE


@dataclass(frozen=True, slots=True)
class WindowResult:
    """How a window ended; written in one transaction with the watermark."""

    state: WindowState
    reason: str | None = None
    outcomes: tuple[CategoryOutcome, ...] = ()
    flags: tuple[str, ...] = ()
    usage: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    durations_ms: Mapping[str, int] = field(default_factory=dict[str, int])
    model: str | None = None
    run_id: str = ""
    workflow_id: str = ""


@dataclass(frozen=True, slots=True)
class Expirable:
    """Events of one user beyond ``from_seq`` up to ``to_seq``; ``seqs``: those of them with a text. ``indexed_seq``: the user's."""

    scope: Scope
    from_seq: int
    to_seq: int
    seqs: tuple[int, ...]
    indexed_seq: int


@dataclass(frozen=True, slots=True)
class WindowPlace:
    """Where a window stands in the list of its user's windows."""

    planned_at: datetime
    first_seq: int
    window_id: str


class WindowLedger(Protocol):
    """Windows, chunks, extractions and the watermark. Every method is one transaction."""

    async def progress(self, scope: Scope) -> Progress: ...

    async def events(self, scope: Scope, first_seq: int, last_seq: int) -> Sequence[StoredEvent]:
        """Events with these numbers, in order, with their text."""
        ...

    async def events_by_seq(self, scope: Scope, seqs: Collection[int]) -> Sequence[StoredEvent]:
        """These events in order; unknown numbers are left out."""
        ...

    async def window_events(self, window: Window) -> Sequence[StoredEvent]:
        """The events of a window, or of a chunk."""
        ...

    async def next(self, scope: Scope, *, size: int, now: datetime) -> NextEvents | None:
        """What the user's run takes up next, oldest first; None: nothing is due.

        A window that is ``planned`` (new, left by a crash, reopened), a chunk, a full window of ``size`` events beyond the
        watermark, a short one up to where a flush was asked for.
        """
        ...

    async def plan(self, window: Window) -> Window:
        """Write the window's row. Where a window with this id is there already, that one is returned and nothing is written."""
        ...

    async def replan(self, window: Window) -> Window:
        """Other categories, spaces, reason and model for a window that is ``planned``; what this attempt extracted is forgotten.

        One that has ended or is at another attempt is left as it is. Returns it as it is now.
        """
        ...

    async def window(self, scope: Scope, window_id: str) -> Window | None: ...

    async def windows(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        states: Collection[WindowState] | None = None,
        after: WindowPlace | None = None,
        limit: int = 100,
    ) -> Sequence[Window]:
        """Newest first. ``after``: in the list of one user, behind this place."""
        ...

    async def save_extraction(self, scope: Scope, extraction: Extraction, *, replaces: bool = True) -> Extraction:
        """Put aside what was extracted; the same window and attempt again overwrites. Gives what is put aside now.

        Args:
            replaces: False: what is there stays. A try that was given up and ends late must not change what others build on.
        """
        ...

    async def extraction(self, scope: Scope, window_id: str, attempt: int | None = None) -> Extraction | None:
        """None for ``attempt``: the newest."""
        ...

    async def commit(self, scope: Scope, window_id: str, attempt: int, result: WindowResult, *, now: datetime) -> bool:
        """The outcome and, for a window of events, the watermark. False: this attempt had ended already; nothing was written.

        Raises InvalidInput when the window does not begin right after the watermark (and is not behind it, as in a rerun).
        """
        ...

    async def reopen(
        self,
        *,
        tenant: str | None = None,
        scope: Scope | None = None,
        window_ids: Sequence[str] | None = None,
        states: Collection[WindowState] = (WindowState.FAILED, WindowState.PARTIAL),
        max_attempt: int | None = None,
        ended_before: datetime | None = None,
        limit: int = 100,
    ) -> Sequence[Window]:
        """These windows become ``planned`` again with the next attempt number (a partial one with only its failed categories, a
        skipped one without any: they are for the plan step to say).

        ``max_attempt``: only those with fewer attempts. Returns them as they now are.
        """
        ...

    async def flush(self, scope: Scope, *, now: datetime) -> Progress:
        """Ask for all events recorded so far to be consolidated, also as a short window."""
        ...

    async def flush_idle(self, *, idle_since: datetime, limit: int) -> Sequence[DueUser]:
        """Do so for users whose last event was recorded before that time."""
        ...

    async def due(self, *, size: int, limit: int) -> Sequence[DueUser]:
        """Users whose run has something to do, longest waiting first."""
        ...

    async def failed(self, *, limit: int) -> int:
        """How many windows of everybody ended failed or partial and are still so; ``limit`` of them at most."""
        ...

    async def open_chunk(
        self,
        scope: Scope,
        events: Sequence[MessageEvent | ManagerMethodEvent],
        *,
        chunk_id: str,
        categories: Collection[Category],
        guidance: str | None,
        model: str | None,
        now: datetime,
        space_id: str = "default",
    ) -> Window:
        """Put a transcript aside as a window of its own; the same id again returns what is there.

        ``categories``: none of them leaves it to the plan step which. ``space_id``: whose settings count.
        """
        ...

    async def advance_index(
        self, scope: Scope, *, from_seq: int, to_seq: int, document_frequencies: Mapping[int, int], length: int
    ) -> bool:
        """Move ``indexed_seq`` and add to the user's term statistics of ``events``, in one transaction. ``length``: tokens in all.

        False: ``indexed_seq`` is not ``from_seq`` any more (another process did it); nothing was written.
        """
        ...

    async def advance_embedded(self, scope: Scope, *, from_seq: int, to_seq: int) -> bool: ...

    async def reset_index(self, scope: Scope | None = None) -> int:
        """Before a reindex: index and embedding begin anew, term statistics of events are emptied. Returns users."""
        ...

    async def users(self, *, after: Scope | None = None, limit: int = 500) -> Sequence[Scope]:
        """Users with recorded events, by tenant and user."""
        ...

    async def indexed_users(self, *, after: Scope | None = None, limit: int = 500) -> Sequence[Scope]:
        """Those of them with events that count as indexed."""
        ...

    async def unindexed(self, *, embedded: bool, limit: int) -> Sequence[Scope]:
        """Users with consumed events that are not in the index (``embedded``: not yet as dense vectors)."""
        ...

    async def expirable_events(self, tenant: str, *, before: datetime, limit: int) -> Sequence[Expirable]:
        """Consolidated events recorded before that (retention) whose text is still there, at most ``limit`` of them.

        Their points go first, then :meth:`expire_events` is called: whatever fails in between, the next look finds them again.
        """
        ...

    async def expire_events(self, due: Expirable, *, document_frequencies: Mapping[int, int], length: int) -> bool:
        """Delete their text and what was extracted from it, and take them out of the user's term statistics, in one transaction.

        ``document_frequencies`` and ``length``: of those that count as indexed. False: something has changed since they were
        looked up (another sweeper did it, more of them are indexed, a turn runs again); nothing was written.
        """
        ...

    async def expire_chunks(self, tenant: str, *, before: datetime, limit: int) -> int:
        """Delete the transcripts of chunks that ended, with what was extracted from them. Returns how many."""
        ...


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """For BM25: of all documents of one kind that a user may see. ``frequencies``: documents by term."""

    documents: int
    length: int
    frequencies: Mapping[int, int]

    @property
    def average_length(self) -> float:
        return self.length / self.documents if self.documents else 0.0


class Terms(Protocol):
    """Document frequencies per owner and kind of document; never over tenants or users."""

    async def statistics(self, tenant: str, owner_keys: Sequence[str], kind: str, terms: Collection[int]) -> TermStatistics:
        """Sums over these owners of one tenant. ``kind``: ``events`` or that of a :class:`~memory.ports.records.DocumentSource`."""
        ...


@dataclass(frozen=True, slots=True)
class UsageRow:
    tenant: str
    user: str
    day: date
    stage: str
    model: str
    usage: Usage


class UsageLedger(Protocol):
    """Tokens by tenant, user, day (UTC), stage and model."""

    async def add(self, scope: Scope, *, stage: str, model: str, usage: Usage, now: datetime) -> int:
        """Returns the user's tokens (in and out) of that day, these included."""
        ...

    async def spent(self, scope: Scope, day: date) -> int:
        """Tokens (in and out) of that user and day."""
        ...

    async def rows(
        self, *, tenant: str | None = None, scope: Scope | None = None, since: date | None = None, limit: int = 1000
    ) -> Sequence[UsageRow]:
        """Newest day first."""
        ...
