"""What an orchestrator imports: load a user's memory before an answer, hand over the finished turn after it.

    async with MemoryClient() as memory:
        user = ("acme", "user_123")
        loaded = await memory.load(user, allow_user_memory=True)
        system = "You are a helpful assistant.\\n\\n" + memory.system_prompt_section(loaded)
        answer = await my_model(system, question)
        turn = {"turn_id": "t-42", "user_text": question, "assistant_text": answer, "allow_user_memory": True}
        await memory.after_answer(user, turn)

``load`` and ``after_answer`` are on the answering path: they never raise and end within their budgets, whatever is down. All
other methods raise the errors of :mod:`memory.model.errors`. One client serves many users and tasks of one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError
from temporalio.client import Client

from memory.categories.spec import Stores
from memory.llm.factory import build_models
from memory.model.enablement import Enablement
from memory.model.errors import AfterturnError, InvalidInput
from memory.model.event import Event, ManagerMethodEvent, MessageEvent
from memory.model.scope import Scope
from memory.model.turn import Outcome, Turn
from memory.ports import Directory, EventLog, ModelProvider, Progress, UsageLedger, WindowLedger
from memory.ports.knowledge import KnowledgeTables, LoopStore
from memory.profiles import Profiles
from memory.prompts import memory_section
from memory.retrieval import SearchIndex
from memory.settings import Settings, load_settings
from memory.stores.objects.minio import MinioObjectStore
from memory.stores.tables import build_tables
from starter.faults import fault
from starter.guard import Guard
from starter.handles import Handles
from starter.knowledge import Knowledge
from starter.loading import Loader
from starter.loops import Loops
from starter.pieces import EventsPiece
from starter.recording import Recorder
from starter.records import Records
from starter.relay import NoticeRelay, OnNotice
from starter.search import open_search, stores_of
from starter.signals import TurnSignaller
from starter.temporal import connect, connect_options
from starter.views import (
    DrainResult,
    EditResult,
    EventsReceipt,
    LoadedMemory,
    LoadReason,
    ProfileVersion,
    ProfileView,
    Receipt,
    ReceiptStatus,
    RerunResult,
    UserStatus,
)
from starter.who import Who, scope_of
from starter.window_signals import WindowWaker
from starter.windows import Windows

MAX_TABLE_CALLS = 64
MAX_OBJECT_CALLS = 32
MAX_SIGNALS = 1_000
CLOSE_S = 5.0
MAX_EVENTS = 1_000

_EVENT: TypeAdapter[MessageEvent | ManagerMethodEvent] = TypeAdapter(Event)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a client works with. ``temporal`` is asked once, at first use; ``close`` is awaited in order at the end."""

    directory: Directory
    log: EventLog
    profiles: Profiles
    models: ModelProvider
    temporal: Callable[[], Awaitable[Client]]
    ledger: WindowLedger
    stores: Stores
    index: SearchIndex
    usage: UsageLedger
    loops: LoopStore
    knowledge: KnowledgeTables
    close: Sequence[Callable[[], Awaitable[None]]] = ()


class MemoryClient:
    """Connects to nothing before it is used.

    Attributes:
        windows: where the log of events stands, what windows took from it; rerun, transcripts handed in.
        knowledge: tables in the words of their users: ask, update, refactor (see :class:`starter.knowledge.Knowledge`).
        contacts, tasks, guidance, functions: what was learned of people, of what is to be done, of how it is done.
        facts, search_facts, fact_history, add_facts, forget_facts: see :class:`starter.record_facts.Facts`.
        search_events, usage, route, set_teams, teams: see :class:`starter.records.Records`.

    Args:
        settings: ``load_settings()`` by default.
        on_notice: called with the loading notices (see :class:`starter.relay.NoticeRelay`).

    Raises:
        InvalidSettings: one line that names the setting.
    """

    def __init__(self, settings: Settings | None = None, *, on_notice: OnNotice | None = None) -> None:
        settings = load_settings() if settings is None else settings
        self._set_up(settings, _build_parts(settings), on_notice)

    @classmethod
    def from_settings(cls, settings: Settings, *, on_notice: OnNotice | None = None) -> Self:
        return cls(settings, on_notice=on_notice)

    @classmethod
    def from_parts(cls, settings: Settings, parts: Parts, *, on_notice: OnNotice | None = None) -> Self:
        """With collaborators of the caller's own."""
        client = cls.__new__(cls)
        client._set_up(settings, parts, on_notice)
        return client

    def _set_up(self, settings: Settings, parts: Parts, on_notice: OnNotice | None) -> None:
        self._parts = parts
        self._temporal: Client | None = None
        self._signaller: TurnSignaller | None = None
        self._window_waker = WindowWaker(self._connected)
        self._connecting = asyncio.Lock()
        self._started = self._closed = False
        self._warming: asyncio.Task[None] | None = None
        self._tables = Guard("the database", limit=MAX_TABLE_CALLS)
        self._objects = Guard("the object store", limit=MAX_OBJECT_CALLS)
        self._signals = Guard("Temporal", limit=MAX_SIGNALS)
        self._relay = NoticeRelay(on_notice)
        self._loader = Loader(
            settings,
            directory=parts.directory,
            profiles=parts.profiles,
            models=parts.models,
            tables=self._tables,
            objects=self._objects,
            relay=self._relay,
        )
        self._recorder = Recorder(
            settings,
            log=parts.log,
            loader=self._loader,
            tables=self._tables,
            wake=self._wake,
            wake_windows=self._window_waker.wake_soon,
        )
        self.windows = Windows(
            settings,
            ledger=parts.ledger,
            contacts=parts.stores.contacts,
            waker=self._window_waker,
            temporal=self._connected,
        )
        loops = Loops(settings, store=parts.loops, directory=parts.directory, temporal=self._connected)
        self.knowledge = Knowledge(loops, parts.knowledge, parts.directory)
        records = Records(directory=parts.directory, stores=parts.stores, index=parts.index, usage=parts.usage, loops=loops)
        self.contacts, self.tasks = records.contacts, records.tasks
        self.guidance, self.functions = records.guidance, records.functions
        # Methods of the client, without a step between; their docstrings say what they take and raise.
        self.facts = records.facts.list
        self.search_facts = records.facts.search
        self.fact_history = records.facts.history
        self.add_facts = records.facts.add
        self.forget_facts = records.facts.forget
        self.search_events = records.search_events
        self.usage = records.usage
        self.route = records.route
        self.set_teams = records.set_teams
        self.teams = records.teams
        self._handles = Handles(
            settings,
            directory=parts.directory,
            log=parts.log,
            profiles=parts.profiles,
            loader=self._loader,
            temporal=self._connected,
            wake=self._wake,
        )

    # -------------------------------------------------------------------------------------------------- the answering path

    async def load(
        self,
        who: Who,
        *,
        space_id: str = "default",
        allow_user_memory: bool = False,
        web_search: bool | None = None,
        language_model: str | None = None,
    ) -> LoadedMemory:
        """The user's memory for the next answer; empty, with a reason, when there is none to be had within ``load_budget_ms``.

        Args:
            who: the user.
            space_id: whose settings count.
            allow_user_memory: the caller's consent for this turn; memory is off without it.
            web_search: whether this turn searches the web; None: as the space says.
            language_model: the model that will answer, ``provider:model``; its tokenizer counts where the space says so.
        """
        self._start()
        try:
            scope = scope_of(who)
        except InvalidInput as error:
            return LoadedMemory(reason=LoadReason.INVALID_ID, detail=error.message)
        return await self._loader.load(
            scope,
            space_id=space_id,
            allow_user_memory=allow_user_memory is True,
            web_search=web_search,
            language_model=language_model,
        )

    @staticmethod
    def system_prompt_section(loaded: LoadedMemory) -> str:
        """The part of the system prompt with the memory in it, verbatim under "What I know about you"; empty when there is none."""
        return memory_section(loaded.body) if loaded.body else ""

    async def after_answer(self, who: Who, turn: Turn | Mapping[str, Any]) -> Receipt:
        """Record a finished turn and wake its workflow, within ``after_answer_budget_ms``.

        The same ``turn_id`` again is recognised, so a caller that is not sure may call again.

        Args:
            who: the user.
            turn: a Turn, or its fields (``turn_id``, ``user_text``, ``assistant_text``, ``allow_user_memory``, …; without
                ``occurred_at`` it is now). What is not valid is refused in the receipt, where building a Turn would raise.
        """
        self._start()
        try:
            scope, checked = scope_of(who), _turn_of(turn)
        except InvalidInput as error:
            return Receipt(ReceiptStatus.REFUSED, reason=error.message)
        return await self._recorder.after_answer(scope, checked)

    async def record_events(
        self,
        who: Who,
        events: Sequence[MessageEvent | ManagerMethodEvent | Mapping[str, Any]],
        *,
        space_id: str = "default",
        allow_user_memory: bool = False,
    ) -> EventsReceipt:
        """Record what happened (messages on any channel, manager calls), in this order, within ``after_answer_budget_ms``.

        Recording a turn feeds the window too: its two messages need not be recorded again. An event without an id gets one that
        its fields determine, so the same events again are recognised.

        Args:
            who: the user.
            events: at most 1,000; events, or their fields (``timestamp`` with a zone, ``sender_id``, ``receiver_ids``, ``medium``,
                ``content``; or ``manager``, ``method``, ``phase``, ``calling_id``, ``payload``). What is not valid is refused in
                the receipt, and then nothing is recorded.
            space_id: where it happened; its settings say what may be learned.
            allow_user_memory: the user's consent; without it nothing is recorded.
        """
        self._start()
        try:
            scope = scope_of(who)
            piece = EventsPiece(_events_of(events), space_id, allow_user_memory is True)
        except InvalidInput as error:
            return EventsReceipt(ReceiptStatus.REFUSED, reason=error.message)
        if not piece.events:
            return EventsReceipt(ReceiptStatus.RECORDED, started=True)
        return await self._recorder.record_events(scope, piece)

    @property
    def lost_events(self) -> int:
        """Events that neither the event log nor the spool took, since this client was made."""
        return self._recorder.lost_events

    @property
    def lost_turns(self) -> int:
        """Turns that neither the event log nor the spool took, since this client was made. Each is in the log with its ids."""
        return self._recorder.lost_turns

    @property
    def failed_notices(self) -> int:
        """Loading notices that did not reach ``on_notice``: it raised, was too slow, or too many waited."""
        return self._relay.failed + self._relay.dropped

    # ----------------------------------------------------------------------------------------------- users and operators

    async def get_profile(self, who: Who, *, space_id: str = "default", version: int | None = None) -> ProfileView:
        """The profile as it is, or as it was at a version. Reading creates nothing.

        Raises:
            MemoryUnavailable: a store is away.
            RootClash: the company has more than one active root.
            InvalidInput: the ids cannot be used.
            UnreadableProfile: another program put a file of more than 2 MiB there. Its ``etag`` lets it be saved over; ``history``
                and ``rollback`` work.
        """
        return await self._handles.get_profile(scope_of(who), space_id=space_id, version=version)

    async def profile_at(self, who: Who, version: int) -> ProfileView:
        """The profile at a version; ``exists`` is false where there is no such version. Raises as :meth:`get_profile`."""
        return await self.get_profile(who, version=version)

    async def history(self, who: Who, *, limit: int = 50) -> tuple[ProfileVersion, ...]:
        """The newest versions, newest first, at most 1,000. Raises as :meth:`get_profile`."""
        return await self._handles.history(scope_of(who), limit=limit)

    async def edit_profile(self, who: Who, document: str, *, expected_etag: str | None, edit_id: str | None = None) -> EditResult:
        """Save the body that a user edited. It waits for a write in progress; secrets in it are redacted.

        Args:
            who: the user.
            document: the new body, at most 1 MiB of UTF-8, read generously. Frontmatter in it is ignored. A blank one empties
                the memory.
            expected_etag: ``etag`` of the :class:`ProfileView` that was edited; None: there was no profile.
            edit_id: makes a repeated call with the same text the same save; a new id by default.

        Returns:
            After a conflict nothing was overwritten and both versions are in the result.

        Raises:
            InvalidInput: too large, or not valid Unicode; nothing was changed.
            MemoryUnavailable: something is away; the message says whether the save may still be applied.
            RootClash: the company has more than one active root.
        """
        return await self._handles.edit_profile(scope_of(who), document, expected_etag=expected_etag, edit_id=edit_id)

    async def rollback(
        self, who: Who, to_version: int, *, expected_etag: str | None = None, edit_id: str | None = None
    ) -> EditResult:
        """Make an earlier version the newest again; the history stays. Raises as :meth:`edit_profile`.

        Args:
            who: the user.
            to_version: as in :meth:`history`.
            expected_etag: refuse when the profile changed since; None: whatever is there now.
            edit_id: makes a repeated call the same roll-back.
        """
        return await self._handles.rollback(scope_of(who), to_version, expected_etag=expected_etag, edit_id=edit_id)

    async def status(self, who: Who, *, space_id: str = "default") -> UserStatus:
        """Where the user's memory stands; what cannot be read is named in the result. Raises InvalidInput for ids only."""
        return await self._handles.status(scope_of(who), space_id=space_id)

    async def enablement(
        self, who: Who, *, space_id: str = "default", allow_user_memory: bool = True, web_search: bool | None = None
    ) -> Enablement:
        """Whether memory is on, and every reason why not, for a caller that allows it. Raises MemoryUnavailable, InvalidInput."""
        return await self._handles.enablement(
            scope_of(who), space_id=space_id, allow_user_memory=allow_user_memory, web_search=web_search
        )

    async def set_preference(self, who: Who, *, allow_user_memory: bool) -> None:
        """The user's own choice for all spaces. Opting out deletes nothing. Raises MemoryUnavailable, InvalidInput."""
        await self._parts.directory.set_preference(scope_of(who), allow_user_memory=allow_user_memory)

    async def rerun(
        self,
        *,
        tenant: str | None = None,
        scope: Who | None = None,
        turn_ids: Sequence[str] | None = None,
        outcomes: Collection[Outcome] = (Outcome.KEPT,),
        limit: int = 1000,
    ) -> RerunResult:
        """Run turns again that were kept out by a failure, or skipped because memory was off.

        Args:
            tenant: of this company only (encoded, as in a Scope).
            scope: of this user only.
            turn_ids: these only; needs ``scope``.
            outcomes: ``kept``, ``skipped`` or both. A turn that was skipped because its user had opted out stays so, and one for
                which memory is still off is skipped again.
            limit: at most this many turns.

        Raises:
            MemoryUnavailable: the event log is away. A workflow that cannot be told is started by the sweeper.
            InvalidInput: turn ids without a user, one that the user does not have (then none runs again), or another outcome.
        """
        if turn_ids is not None and scope is None:
            raise InvalidInput("turn ids belong to a user: say which")
        user = None if scope is None else scope_of(scope)
        return await self._handles.rerun(tenant=tenant, scope=user, turn_ids=turn_ids, outcomes=outcomes, limit=limit)

    async def wait_until_idle(self, who: Who, *, timeout_s: float = 60.0) -> bool:
        """Whether all recorded turns were finished and the workflow had ended within the time. Raises MemoryUnavailable."""
        return await self._handles.wait_until_idle(scope_of(who), timeout_s=timeout_s)

    async def flush(self, who: Who, *, wait_s: float = 0.0) -> Progress:
        """Have the events recorded so far consolidated, also as a short window. See :meth:`starter.windows.Windows.flush`."""
        return await self.windows.flush(scope_of(who), wait_s=wait_s)

    async def drain_spool(self) -> DrainResult:
        """Record what waits in the spool, now. This happens by itself too. Raises MemoryUnavailable when the disk fails."""
        return await self._recorder.drainer.drain()

    # ----------------------------------------------------------------------------------------------------------- lifecycle

    def _start(self) -> None:
        """What goes on in the background from the first turn on: the warm-up, turns of an earlier process."""
        if not self._started and not self._closed:
            self._started = True
            self._warming = asyncio.create_task(self._loader.warm_up(), name="afterturn warm-up")
            self._recorder.drainer.start()

    async def _connected(self) -> Client:
        if self._temporal is None:
            async with self._connecting:
                if self._temporal is None:
                    self._temporal = await self._parts.temporal()
                    self._signaller = TurnSignaller(self._temporal)
        return self._temporal

    async def _wake(self, scope: Scope, turn_ids: Sequence[str], deadline: float) -> str | None:
        """Tell a workflow of turns; None, or why it was not told (yet): the sweeper does it then. Never raises."""

        async def signal() -> None:
            await self._connected()
            assert self._signaller is not None  # noqa: S101
            await self._signaller.signal(scope, turn_ids)

        try:
            await self._signals.call(signal, deadline=deadline)
        except AfterturnError as error:
            return error.message
        except Exception as error:  # noqa: BLE001 - the turn is recorded; the sweeper starts it
            _log.error("the workflow of %s/%s was not told: %s", scope.tenant, scope.user, fault(error))
            return fault(error)
        return None

    async def aclose(self) -> None:
        """Let what is on its way end (a few seconds), then close everything. May be called twice."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        end = loop.time() + CLOSE_S

        def left() -> float:
            return max(0.1, end - loop.time())

        if self._warming is not None:
            await asyncio.gather(self._warming, return_exceptions=True)
        # Turns first: all that follows is only for them, or can be had again.
        await self._recorder.aclose(within_s=left())
        await self._relay.aclose(within_s=left())
        await self._window_waker.aclose(within_s=left())
        if self._signaller is not None:
            await self._signaller.aclose(within_s=left())
        for guard in (self._signals, self._tables, self._objects):
            await guard.aclose(within_s=left())
        await self._loader.aclose(within_s=left())
        for close in self._parts.close:
            await close()

    async def __aenter__(self) -> Self:
        self._start()
        # About a second of work, once: better now than in the first user's answer.
        if self._warming is not None:
            await asyncio.gather(self._warming, self._loader.meet_stores())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()


def _turn_of(turn: Turn | Mapping[str, Any]) -> Turn:
    if isinstance(turn, Turn):
        return turn
    try:
        return Turn.model_validate({"occurred_at": datetime.now(UTC), **turn})
    except ValidationError as error:
        raise InvalidInput(f"the turn is not valid: {_problems(error)}") from None
    except TypeError:
        raise InvalidInput(f"a turn is a Turn or a mapping of its fields, not {type(turn).__name__}") from None


def _events_of(
    events: Sequence[MessageEvent | ManagerMethodEvent | Mapping[str, Any]],
) -> tuple[MessageEvent | ManagerMethodEvent, ...]:
    if isinstance(events, str | bytes | Mapping) or not isinstance(events, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"events are a list of events, not {type(events).__name__}")
    if len(events) > MAX_EVENTS:
        raise InvalidInput(f"{len(events)} events in one call; at most {MAX_EVENTS} are accepted")
    checked: list[MessageEvent | ManagerMethodEvent] = []
    for place, event in enumerate(events, 1):
        if isinstance(event, MessageEvent | ManagerMethodEvent):
            checked.append(event)
            continue
        try:
            kind = "manager_method" if "manager" in event else "message"
            checked.append(_EVENT.validate_python({"kind": kind, **event}))
        except ValidationError as error:
            raise InvalidInput(f"event {place} is not valid: {_problems(error)}") from None
        except TypeError:
            raise InvalidInput(f"event {place} is neither an event nor a mapping of its fields") from None
    return tuple(checked)


def _problems(error: ValidationError) -> str:
    """What is wrong with which field, without the values."""
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(str(part)[:40] for part in item['loc']) or 'it'}: {item['msg']}" for item in problems[:5])


def _build_parts(settings: Settings) -> Parts:
    connect_options(settings)  # a configuration that cannot be read stops the start, not the first turn
    tables = build_tables(settings)
    store = MinioObjectStore.from_settings(settings)
    models = build_models(settings)
    index = open_search(settings, tables)
    return Parts(
        directory=tables.directory,
        log=tables.log,
        profiles=Profiles(store, bucket_prefix=settings.bucket_prefix),
        models=models,
        temporal=lambda: connect(settings, lazy=True),
        ledger=tables.windows,
        stores=stores_of(tables, index),
        index=index,
        usage=tables.usage,
        loops=tables.loops,
        knowledge=tables.knowledge,
        close=(models.aclose, index.aclose, store.aclose, tables.aclose),
    )
