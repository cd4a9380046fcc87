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
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from temporalio.client import Client

from memory import telemetry
from memory.model import metrics
from memory.model.errors import AfterturnError, InvalidInput
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.scope import Scope
from memory.model.turn import Turn
from memory.ports import Progress
from memory.prompts import memory_section
from memory.settings import Settings, load_settings
from starter.bulk_rollback import BulkRollback
from starter.client_parts import Parts, build_parts
from starter.client_profiles import ProfileMethods
from starter.export import Exporter
from starter.faults import fault
from starter.forget import ForgetMethods, Forgetting
from starter.given import events_of, turn_of
from starter.guard import Guard
from starter.handles import Handles
from starter.knowledge import Knowledge
from starter.loading import Loader
from starter.loops import Loops
from starter.pieces import EventsPiece
from starter.recording import Recorder
from starter.records import Records
from starter.relay import NoticeRelay, OnNotice
from starter.roots import Roots
from starter.search_all import EverythingSearch
from starter.signals import TurnSignaller
from starter.views import (
    DrainResult,
    EventsReceipt,
    LoadedMemory,
    LoadReason,
    Receipt,
    ReceiptStatus,
)
from starter.who import Who, scope_of
from starter.window_signals import WindowWaker
from starter.windows import Windows

MAX_TABLE_CALLS = 64
MAX_OBJECT_CALLS = 32
MAX_SIGNALS = 1_000
CLOSE_S = 5.0

_ReceiptT = TypeVar("_ReceiptT", bound=Receipt)

_log = logging.getLogger(__name__)


class MemoryClient(ProfileMethods, ForgetMethods):
    """Connects to nothing before it is used.

    Attributes:
        windows: where the log of events stands, what windows took from it; rerun, transcripts handed in.
        knowledge: tables in the words of their users: ask, update, refactor (see :class:`starter.knowledge.Knowledge`).
        roots: where a company's profiles lie (see :class:`starter.roots.Roots`); for administrators.
        contacts, tasks, guidance, functions: what was learned of people, of what is to be done, of how it is done.
        facts, search_facts, fact_history, add_facts, forget_facts: see :class:`starter.record_facts.Facts`.
        search_events, usage, route, set_teams, teams: see :class:`starter.records.Records`.
        search_all: one search over all of it, see :class:`starter.search_all.EverythingSearch`.

    Args:
        settings: ``load_settings()`` by default.
        on_notice: called with the loading notices (see :class:`starter.relay.NoticeRelay`).

    Raises:
        InvalidSettings: one line that names the setting.
    """

    def __init__(self, settings: Settings | None = None, *, on_notice: OnNotice | None = None) -> None:
        settings = load_settings() if settings is None else settings
        self._set_up(settings, build_parts(settings), on_notice)

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
        self._window_waker = WindowWaker(self.temporal_client)
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
            loops=parts.loops,
            waker=self._window_waker,
            temporal=self.temporal_client,
        )
        self.roots = Roots(parts.directory, parts.profiles.is_unused)
        loops = Loops(settings, store=parts.loops, directory=parts.directory, temporal=self.temporal_client)
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
        self._exporter = Exporter(parts)
        self.search_all = EverythingSearch(records, self.get_profile).search
        self.usage = records.usage
        self.route = records.route
        self.set_teams = records.set_teams
        self.teams = records.teams
        self._forgetting = Forgetting(parts.erasures, temporal=self.temporal_client, forgotten=self._forgotten)
        self._handles = Handles(
            settings,
            directory=parts.directory,
            log=parts.log,
            profiles=parts.profiles,
            loader=self._loader,
            temporal=self.temporal_client,
            wake=self._wake,
        )
        self._bulk = BulkRollback(
            directory=parts.directory,
            log=parts.log,
            profiles=parts.profiles,
            handles=self._handles,
            temporal=self.temporal_client,
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
        with telemetry.span("load"):
            loaded = await self._loader.load(
                scope,
                space_id=space_id,
                allow_user_memory=allow_user_memory is True,
                web_search=web_search,
                language_model=language_model,
            )
            _measure(loaded)
        return loaded

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
            scope, checked = scope_of(who), turn_of(turn)
        except InvalidInput as error:
            return Receipt(ReceiptStatus.REFUSED, reason=error.message)
        with telemetry.span("after_answer"):
            return _noted("turn", await self._recorder.after_answer(scope, checked))

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
            piece = EventsPiece(events_of(events), space_id, allow_user_memory is True)
        except InvalidInput as error:
            return EventsReceipt(ReceiptStatus.REFUSED, reason=error.message)
        if not piece.events:
            return EventsReceipt(ReceiptStatus.RECORDED, started=True)
        with telemetry.span("record_events"):
            return _noted("events", await self._recorder.record_events(scope, piece))

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

    # -------------------------------------------------------------------------------------------------------------- export

    def export(self, who: Who) -> AsyncGenerator[bytes]:
        """Everything that is kept about the user, as the pieces of one zip archive. See :meth:`starter.export.Exporter.export`.

        Raises InvalidInput for ids, at once; the others with the first piece.
        """
        return self._exporter.export(scope_of(who))

    # ------------------------------------------------------------------------------------------------------------- windows

    async def flush(self, who: Who, *, wait_s: float = 0.0) -> Progress:
        """Have the events recorded so far consolidated, also as a short window. See :meth:`starter.windows.Windows.flush`."""
        return await self.windows.flush(scope_of(who), wait_s=wait_s)

    async def drain_spool(self) -> DrainResult:
        """Record what waits in the spool, now. This happens by itself too. Raises MemoryUnavailable when the disk fails."""
        return await self._recorder.drainer.drain()

    async def _forgotten(self, scope: Scope) -> None:
        """What this process itself holds of a user who is being forgotten."""
        self._loader.forget(scope)
        await self._recorder.drainer.forget(scope)

    # ----------------------------------------------------------------------------------------------------------- lifecycle

    def _start(self) -> None:
        """What goes on in the background from the first turn on: the warm-up, turns of an earlier process."""
        if not self._started and not self._closed:
            self._started = True
            self._warming = asyncio.create_task(self._loader.warm_up(), name="afterturn warm-up")
            self._recorder.drainer.start()

    async def temporal_client(self) -> Client:
        """The connection that this client works with, made at first use. Raises InvalidSettings, MemoryUnavailable."""
        if self._temporal is None:
            async with self._connecting:
                if self._temporal is None:
                    self._temporal = await self._parts.temporal()
                    self._signaller = TurnSignaller(self._temporal)
            return self._temporal
        # Asked again: another one when certificates have changed.
        self._temporal = await self._parts.temporal()
        assert self._signaller is not None  # noqa: S101
        self._signaller.use(self._temporal)
        return self._temporal

    async def _wake(self, scope: Scope, turn_ids: Sequence[str], deadline: float) -> str | None:
        """Tell a workflow of turns; None, or why it was not told (yet): the sweeper does it then. Never raises."""

        async def signal() -> None:
            await self.temporal_client()
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


def _measure(loaded: LoadedMemory) -> None:
    status = loaded.reason.value if loaded.reason is not None else "ok"
    telemetry.count(metrics.LOADS, status=status)
    telemetry.observe(metrics.LOAD_DURATION, loaded.elapsed_ms / 1000)
    telemetry.note({"status": status})
    if loaded.reason not in (None, LoadReason.OFF, LoadReason.NO_PROFILE):
        telemetry.count(metrics.FAIL_OPENS, stage="load", error=status)


def _noted(what: str, receipt: _ReceiptT) -> _ReceiptT:
    telemetry.count(metrics.RECORDED, what=what, status=receipt.status.value)
    telemetry.note({"status": receipt.status.value})
    return receipt
