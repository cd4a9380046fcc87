"""The event window from the outside: where a user's log stands, what a window held and what was taken from it, flush, rerun, and
the same treatment for a transcript that somebody hands in.

Off the answering path: these calls may take seconds and raise clear errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from memory.model.category import Category
from memory.model.contact import Contact
from memory.model.errors import InvalidInput, MemoryUnavailable
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.ids import new_id, short_hash
from memory.model.knowledge_loop import Loop
from memory.model.redaction import redact
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.model.window import Extraction, StoredEvent, Window, WindowState, shown_events
from memory.model.window_transcript import events_from_transcript, render_transcript
from memory.ports import ContactStore, Progress, WindowLedger, WindowPlace
from memory.ports.knowledge import LoopStore
from memory.settings import Settings
from starter.pieces import EventsPiece
from starter.temporal import ask
from starter.who import Who, ids_of, scope_of, words_of
from starter.window_signals import WindowWaker

STATE_S = 5.0
FIRST_POLL_S = 0.02
LONGEST_POLL_S = 0.5
MAX_GUIDANCE_CHARS = 4_000
MAX_CHUNK_EVENTS = 500
MAX_LOOPS = 50
"""Of one window, that are shown."""
OF_CONTACTS = (Category.CONTACTS, Category.BIOS, Category.ROLLING_SUMMARIES, Category.RESPONSE_POLICIES)

Transcript = str | Sequence[MessageEvent | ManagerMethodEvent]


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """Where a user's log stands. ``size``: of a full window. ``running``: a run is at work; None: Temporal did not say."""

    progress: Progress
    size: int
    running: bool | None
    workflow_id: str
    recent: tuple[Window, ...] = ()

    @property
    def waiting(self) -> int:
        """Events that no window has consumed."""
        return self.progress.waiting


@dataclass(frozen=True, slots=True)
class WindowView:
    """A window as a person reads it. ``transcript``: as the model saw it. ``extraction``: None where there was none (yet).

    ``loops``: those that enter what it learned into tables, oldest first.
    """

    window: Window
    events: tuple[StoredEvent, ...] = field(repr=False)
    transcript: str = field(repr=False)
    extraction: Extraction | None = field(repr=False)
    loops: tuple[Loop, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowRerun:
    """``windows``: those that run again. ``started``: users whose run was told; the sweeper tells the others.

    ``left``: windows that were asked for by id and do not run again, as they are.
    """

    windows: tuple[Window, ...]
    started: int
    waiting_for_sweeper: int
    left: tuple[Window, ...] = ()


class Windows:
    """For one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        ledger: WindowLedger,
        contacts: ContactStore,
        loops: LoopStore,
        waker: WindowWaker,
        temporal: Callable[[], Awaitable[Client]],
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._contacts = contacts
        self._loops = loops
        self._waker = waker
        self._temporal = temporal

    # ------------------------------------------------------------------------------------------------------------- reading

    async def status(self, who: Who, *, limit: int = 5) -> WindowStatus:
        """Raises MemoryUnavailable when the event log is away."""
        scope = scope_of(who)
        progress, recent = await asyncio.gather(self._ledger.progress(scope), self._ledger.windows(scope=scope, limit=limit))
        try:
            running: bool | None = await self._running(scope)
        except MemoryUnavailable:
            running = None
        return WindowStatus(progress, self._settings.window_size, running, scope.consolidate_events_workflow_id, tuple(recent))

    async def list(
        self,
        *,
        tenant: str | None = None,
        scope: Who | None = None,
        states: Collection[WindowState] | None = None,
        after: WindowPlace | None = None,
        limit: int = 100,
    ) -> tuple[Window, ...]:
        """Newest first. ``tenant``: encoded, as in a Scope. ``after``: in the list of one user, behind this place."""
        user = None if scope is None else scope_of(scope)
        return tuple(await self._ledger.windows(tenant=tenant, scope=user, states=states, after=after, limit=limit))

    async def show(self, who: Who, window_id: str) -> WindowView:
        """Raises InvalidInput where there is no such window."""
        scope = scope_of(who)
        window = await self._ledger.window(scope, window_id)
        if window is None:
            raise InvalidInput(_no_window(window_id))
        events, extraction, loops = await asyncio.gather(
            self._ledger.window_events(window),
            self._ledger.extraction(scope, window_id),
            self._loops.loops(scope, parent=window.origin, limit=MAX_LOOPS),
        )
        shown = shown_events(window, events)
        names = await self._names(scope, shown)
        return WindowView(window, tuple(events), render_transcript(shown, names), extraction, tuple(reversed(loops)))

    async def _names(self, scope: Scope, events: Sequence[StoredEvent]) -> dict[str, str]:
        senders = {
            person
            for stored in events
            if isinstance(stored.event, MessageEvent)
            for person in (stored.event.sender_id, *stored.event.receiver_ids)
        }
        found: dict[str, Contact] = dict(await self._contacts.by_alias(scope, senders))
        return {sender: contact.name for sender, contact in found.items() if contact.name}

    async def _running(self, scope: Scope) -> bool:
        handle = (await self._temporal()).get_workflow_handle(scope.consolidate_events_workflow_id)

        async def describe() -> bool:
            try:
                return (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND and "namespace" not in error.message.lower():
                    return False
                raise

        return await ask(describe(), "the state of a workflow", within_s=STATE_S)

    # ----------------------------------------------------------------------------------------------------- flush and rerun

    async def flush(self, who: Who, *, wait_s: float = 0.0) -> Progress:
        """Have all events recorded so far consolidated, also as a short window.

        Args:
            who: the user.
            wait_s: wait this long for it to be done; the result says how far it is.

        Raises:
            MemoryUnavailable: the event log is away, or Temporal (then the sweeper starts the run).
        """
        scope = scope_of(who)
        progress = await self._ledger.flush(scope, now=datetime.now(UTC))
        if progress.waiting:
            await self._waker.wake(scope, progress.waiting)
        if wait_s > 0 and progress.waiting:
            await self.wait_until_idle(scope, timeout_s=wait_s)
            progress = await self._ledger.progress(scope)
        return progress

    async def rerun(
        self,
        *,
        tenant: str | None = None,
        scope: Who | None = None,
        window_ids: Sequence[str] | None = None,
        states: Collection[WindowState] = (WindowState.FAILED, WindowState.PARTIAL),
        limit: int = 100,
    ) -> WindowRerun:
        """Run windows again; what they wrote already stays as it is, since every write carries its item's key.

        A window that is asked for by id and cannot run again (it waits or runs already, it ended in another way than ``states``
        say, its user had opted out) is in ``left``.

        Raises:
            InvalidInput: window ids without a user, or one that the user does not have; then none runs again.
            MemoryUnavailable: the event log is away.
        """
        user = None if scope is None else scope_of(scope)
        asked: dict[str, Window] = {}
        if window_ids is not None:
            if user is None:
                raise InvalidInput("window ids belong to a user: say which")
            window_ids = ids_of(window_ids, "window id")
            found = [(window_id, await self._ledger.window(user, window_id)) for window_id in window_ids]
            if unknown := [window_id for window_id, window in found if window is None]:
                raise InvalidInput(_no_window(unknown[0]))
            asked = {window_id: window for window_id, window in found if window is not None}
        reopened = await self._ledger.reopen(tenant=tenant, scope=user, window_ids=window_ids, states=states, limit=limit)
        users = list(dict.fromkeys(window.scope for window in reopened))
        told = await asyncio.gather(*(self._waker.wake(user, 0) for user in users), return_exceptions=True)
        failed = [problem for problem in told if isinstance(problem, BaseException)]
        for problem in failed:
            if not isinstance(problem, MemoryUnavailable):
                raise problem
        again = {window.window_id for window in reopened}
        left = tuple(window for window_id, window in asked.items() if window_id not in again)
        return WindowRerun(tuple(reopened), len(users) - len(failed), len(failed), left)

    async def wait_until_idle(self, who: Who, *, timeout_s: float = 60.0) -> bool:
        """Whether nothing was due any more and no run was at work within the time. Raises MemoryUnavailable."""
        scope = scope_of(who)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pause = FIRST_POLL_S
        while True:
            due = await self._ledger.next(scope, size=self._settings.window_size, now=datetime.now(UTC))
            if due is None and not await self._running(scope):
                return True
            left = deadline - loop.time()
            if left <= 0:
                return False
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_POLL_S)

    # -------------------------------------------------------------------------------------------------------------- chunks

    async def process_chunk(
        self,
        who: Who,
        transcript: Transcript,
        *,
        space_id: str = "default",
        categories: Collection[Category] | None = None,
        guidance: str | None = None,
        chunk_id: str | None = None,
        language_model: str | None = None,
        wait_s: float = 60.0,
    ) -> Window:
        """Extract from a transcript what a window would be extracted from, without recording its messages.

        Args:
            who: the user.
            transcript: events, or text with one message a line (``name: text``).
            space_id: where it was said; its settings count. Where memory is off when the run takes it up, it is ``skipped``.
            categories: those wanted, also where the deployment's flag is off, but not what the space has switched off; None: those
                that are on in the space.
            guidance: free text for the model: what to look for.
            chunk_id: makes a repeated call the same chunk; by default the same transcript is another chunk each time.
            language_model: ``provider:model``; None: the deployment's.
            wait_s: wait this long for it to end; the window says how far it is.

        Raises:
            InvalidInput: an empty or unreadable transcript, more than 500 events, too long a guidance, no category.
            MemoryUnavailable: the event log is away, or Temporal (then the sweeper starts the run).
        """
        scope = scope_of(who)
        wanted = words_of(Category, categories, "category")
        events = _events(transcript)
        if guidance is not None and len(guidance) > MAX_GUIDANCE_CHARS:
            raise InvalidInput(f"the guidance has {len(guidance)} characters; at most {MAX_GUIDANCE_CHARS} are accepted")
        pieces = await asyncio.to_thread(lambda: EventsPiece(tuple(events)).checked().redacted())
        window = await self._ledger.open_chunk(
            scope,
            pieces.events,
            chunk_id=f"chunk-{short_hash(chunk_id or new_id())}",
            # None of them: those that are on in the space when the run takes it up.
            categories=[category for category in Category if wanted is not None and category in wanted],
            guidance=None if not guidance else redact(clean_text(guidance)).text,
            model=language_model,
            now=datetime.now(UTC),
            space_id=space_id,
        )
        if window.state is WindowState.PLANNED:
            await self._waker.wake(scope, 0)
            window = await self._ended(window, within_s=wait_s)
        return window

    async def update_contacts(
        self, who: Who, transcript: Transcript, *, space_id: str = "default", guidance: str | None = None, wait_s: float = 60.0
    ) -> Window:
        """Contacts, bios, rolling summaries and response policies of a transcript. As :meth:`process_chunk`."""
        return await self.process_chunk(
            who, transcript, space_id=space_id, categories=OF_CONTACTS, guidance=guidance, wait_s=wait_s
        )

    async def update_knowledge(
        self, who: Who, transcript: Transcript, *, space_id: str = "default", guidance: str | None = None, wait_s: float = 60.0
    ) -> Window:
        """Domain knowledge of a transcript. As :meth:`process_chunk`."""
        return await self.process_chunk(
            who, transcript, space_id=space_id, categories=(Category.KNOWLEDGE,), guidance=guidance, wait_s=wait_s
        )

    async def update_tasks(
        self, who: Who, transcript: Transcript, *, space_id: str = "default", guidance: str | None = None, wait_s: float = 60.0
    ) -> Window:
        """Task commitments of a transcript. As :meth:`process_chunk`."""
        return await self.process_chunk(
            who, transcript, space_id=space_id, categories=(Category.TASKS,), guidance=guidance, wait_s=wait_s
        )

    async def _ended(self, window: Window, *, within_s: float) -> Window:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        pause = FIRST_POLL_S
        while True:
            found = await self._ledger.window(window.scope, window.window_id)
            if found is not None and found.state is not WindowState.PLANNED:
                return found
            left = deadline - loop.time()
            if left <= 0:
                return found or window
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_POLL_S)


def _no_window(window_id: str) -> str:
    return f"there is no window {ascii(window_id)[:60]} of this user; `afterturn window list` shows those there are"


def _events(transcript: Transcript) -> Sequence[MessageEvent | ManagerMethodEvent]:
    events = events_from_transcript(transcript) if isinstance(transcript, str) else list(transcript)
    if not events:
        raise InvalidInput("the transcript is empty")
    if len(events) > MAX_CHUNK_EVENTS:
        raise InvalidInput(f"the transcript has {len(events)} events; at most {MAX_CHUNK_EVENTS} are accepted: hand it in in parts")
    return events
