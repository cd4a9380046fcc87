"""The event window's steps on the stores: plan the next window, apply one category, commit with the watermark, index, reconcile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import structlog
from temporalio import activity

from activities.common import since, teams_of
from activities.errors import translated
from activities.heartbeat import heartbeats
from activities.window_plan import NO_CATEGORY, Switches, WindowRules
from memory import telemetry
from memory.categories import spec_of
from memory.categories.spec import AddedFact, ApplyContext, Stores
from memory.categories.table_loops import TableLoops
from memory.metering import Meter
from memory.model import metrics
from memory.model.category import Category
from memory.model.errors import InvalidInput
from memory.model.event import MessageEvent
from memory.model.items import Dropped, Grounded
from memory.model.names import APPLY_CATEGORY, COMMIT_WINDOW, INDEX_EVENTS, PLAN_WINDOW, RECONCILE
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.window import (
    CategoryExtraction,
    CategoryOutcome,
    Extraction,
    StoredEvent,
    Window,
    WindowState,
    shown_events,
)
from memory.model.window_steps import (
    ApplyInput,
    ApplyReply,
    CommitInput,
    IndexInput,
    IndexReply,
    ReconcileInput,
    ReconcilePlace,
    ReconcileReply,
    WindowPlan,
)
from memory.ports import Directory, NextEvents, WindowLedger, WindowResult
from memory.retrieval import Cursor, SearchIndex

_log = structlog.get_logger("afterturn.windows")


class WindowActivities:
    """Quick steps are local activities; indexing and reconciling are regular ones with heartbeats."""

    def __init__(
        self,
        ledger: WindowLedger,
        directory: Directory,
        stores: Stores,
        index: SearchIndex,
        meter: Meter,
        rules: WindowRules,
        table_loops: TableLoops,
    ) -> None:
        self._ledger = ledger
        self._directory = directory
        self._stores = stores
        self._index = index
        self._meter = meter
        self._rules = rules
        self._table_loops = table_loops
        self._switches = Switches(directory, rules)

    # ---------------------------------------------------------------------------------------------------------------- plan

    @activity.defn(name=PLAN_WINDOW)
    @translated
    async def plan_window(self, user: UserRef) -> WindowPlan:
        """The next window of the user, written down; repeating the step gives the same window."""
        return await self._next(user.scope)

    async def _next(self, scope: Scope) -> WindowPlan:
        now = datetime.now(UTC)
        following = await self._ledger.next(scope, size=self._rules.size, now=now)
        if following is None:
            return WindowPlan()
        there = following.window
        if there is None:
            events = await self._ledger.events(scope, following.first_seq, following.last_seq)
            window = await self._drawn_up(scope, following, events, now)
        else:
            events = await self._ledger.window_events(there)
            window = await self._switches.as_of_now(there, events)
        if await self._meter.is_spent(scope) and await self._needs_model(window, events):
            return WindowPlan(capped=True)
        if there is None:
            window = await self._ledger.plan(window)
        elif window != there:
            window = await self._ledger.replan(window)
        return WindowPlan(
            window_id=window.window_id,
            attempt=window.attempt,
            trigger=window.trigger,
            first_seq=window.first_seq,
            last_seq=window.last_seq,
            events=window.events,
            categories=window.categories,
            skip=None if window.categories else window.reason or NO_CATEGORY,
            model=window.model or self._rules.model,
            model_timeout_s=self._rules.model_timeout_s,
            store_retry_for_s=self._rules.store_retry_for_s,
            continue_after_windows=self._rules.continue_after_windows,
            embed=self._rules.embed_events,
        )

    async def _drawn_up(self, scope: Scope, following: NextEvents, events: Sequence[StoredEvent], now: datetime) -> Window:
        categories, spaces_off, reason = await self._switches.categories(scope, events)
        return Window(
            scope=scope,
            window_id=f"w{following.first_seq}",
            trigger=following.trigger,
            first_seq=following.first_seq,
            last_seq=following.last_seq,
            events=following.last_seq - following.first_seq + 1,
            categories=categories,
            spaces_off=spaces_off,
            reason=reason,
            model=self._rules.model,
            planned_at=now,
        )

    async def _needs_model(self, window: Window, events: Sequence[StoredEvent]) -> bool:
        """Whether the extraction will ask a model: something is on, somebody said something, and it was not put aside already."""
        if not window.categories:
            return False
        said = (stored.event for stored in shown_events(window, events))
        if not any(isinstance(event, MessageEvent) and not event.is_empty for event in said):
            return False
        return await self._ledger.extraction(window.scope, window.window_id, window.attempt) is None

    # --------------------------------------------------------------------------------------------------------------- apply

    @activity.defn(name=APPLY_CATEGORY)
    @translated
    async def apply_category(self, job: ApplyInput) -> ApplyReply:
        """Write what was extracted of one category. Repeating it changes nothing: every write carries the item's key."""
        began = time.perf_counter()
        scope = job.user.scope
        window, extraction = await self._set_aside(scope, job.window_id, job.attempt)
        found = extraction.of(job.category)
        if found is None:
            raise InvalidInput(f"nothing was extracted of {job.category.value} for {job.window_id}")
        spec = spec_of(job.category)
        items = [Grounded[spec.item].model_validate(item) for item in found.items]
        context = ApplyContext(
            window=window,
            events=await self._ledger.window_events(window),
            refs=extraction.refs,
            stores=self._stores,
            now=window.planned_at,
            teams=await teams_of(self._directory, scope) if spec.reads_teams else (),
        )
        applied = await spec.apply(items, context)
        if applied.refs or applied.dropped or found.refused:
            await self._ledger.save_extraction(scope, _with_applied(extraction, job.category, applied.refs, applied.dropped))
        dropped = dict(applied.outcome.dropped)
        for one in found.dropped:
            dropped[one.reason] = dropped.get(one.reason, 0) + 1
        outcome = applied.outcome.model_copy(update={"proposed": found.proposed, "dropped": dropped})
        loops = await self._handed_over(context, applied.added) if applied.added else ()
        return ApplyReply(outcome=outcome, elapsed_ms=since(began), loops=loops)

    async def _handed_over(self, context: ApplyContext, added: Sequence[AddedFact]) -> tuple[str, ...]:
        """Record the loops for what belongs in tables; gives the one whose turn it is.

        None where the user's tokens of today are spent: the sweeper starts it when they are not.
        """
        await self._table_loops.open(context, added)
        scope = context.window.scope
        due = await self._table_loops.next(scope)
        return () if due is None or await self._meter.is_spent(scope) else (due,)

    async def _set_aside(self, scope: Scope, window_id: str, attempt: int) -> tuple[Window, Extraction]:
        window, extraction = await asyncio.gather(
            self._ledger.window(scope, window_id), self._ledger.extraction(scope, window_id, attempt)
        )
        if window is None or extraction is None:
            raise InvalidInput(f"the window {window_id} or what was extracted from it is no longer there")
        return window, extraction

    # -------------------------------------------------------------------------------------------------------------- commit

    @activity.defn(name=COMMIT_WINDOW)
    @translated
    async def commit_window(self, done: CommitInput) -> WindowPlan:
        """Outcome and watermark in one transaction; gives the next window: one step saves a round of every window."""
        scope = done.user.scope
        info = activity.info()
        outcomes = await self._outcomes(scope, done)
        result = WindowResult(
            state=done.state,
            reason=done.reason,
            outcomes=outcomes,
            flags=done.flags,
            usage={stage: spent.model_dump() for stage, spent in done.usage.items()},
            durations_ms=done.durations_ms,
            model=done.model,
            run_id=info.workflow_run_id or "",
            workflow_id=info.workflow_id or "",
        )
        if await self._ledger.commit(scope, done.window_id, done.attempt, result, now=datetime.now(UTC)):
            _count(done)
        return await self._next(scope)

    async def _outcomes(self, scope: Scope, done: CommitInput) -> tuple[CategoryOutcome, ...]:
        """Of a window that ran again for its failed categories, the others keep what they had."""
        if not done.attempt:
            return done.outcomes
        before = await self._ledger.window(scope, done.window_id)
        again = {outcome.category for outcome in done.outcomes}
        kept = tuple(outcome for outcome in (before.outcomes if before else ()) if outcome.category not in again)
        return (*kept, *done.outcomes)

    # --------------------------------------------------------------------------------------------------------------- index

    @activity.defn(name=INDEX_EVENTS)
    @translated
    async def index_events(self, job: IndexInput) -> IndexReply:
        """Make the user's messages and rows findable: the lexical index first, dense vectors after it."""
        began = time.perf_counter()
        scope = job.user.scope
        async with heartbeats():
            documents = await self._index.sync_documents(scope)
            indexed = await self._index.events.index(scope)
            embedded = await self._index.events.embed(scope) if job.embed else 0
        return IndexReply(indexed=indexed, embedded=embedded, documents=documents, elapsed_ms=since(began))

    @activity.defn(name=RECONCILE)
    @translated
    async def reconcile(self, job: ReconcileInput) -> ReconcileReply:
        """Compare rows with vectors over everybody and mend what differs."""
        began = time.perf_counter()
        cursors = {kind: Cursor(place.row, place.point, place.user and place.user.scope) for kind, place in job.places.items()}
        async with heartbeats():
            report = await self._index.reconcile(limit=job.limit, cursors=cursors)
        if any(report.repaired.values()):
            _log.warning("drift_repaired", missing=dict(report.missing), orphaned=dict(report.orphaned), stale=dict(report.stale))
        for kind, count in report.repaired.items():
            telemetry.count(metrics.DRIFT, count, kind=kind)
        return ReconcileReply(
            places={
                kind: ReconcilePlace(row=one.row, point=one.point, user=one.user and UserRef.of(one.user))
                for kind, one in cursors.items()
            },
            checked=dict(report.checked),
            missing=dict(report.missing),
            orphaned=dict(report.orphaned),
            stale=dict(report.stale),
            repaired=dict(report.repaired),
            elapsed_ms=since(began),
        )


def _with_applied(extraction: Extraction, category: Category, refs: Mapping[str, str], refused: Sequence[Dropped]) -> Extraction:
    def noted(one: CategoryExtraction) -> CategoryExtraction:
        return one.model_copy(update={"refused": tuple(refused)}) if one.category is category else one

    return extraction.model_copy(
        update={"refs": {**extraction.refs, **refs}, "categories": tuple(noted(one) for one in extraction.categories)}
    )


def _count(done: CommitInput) -> None:
    reason, _, detail = (done.reason or "").partition(":")
    telemetry.count(metrics.WINDOWS, state=done.state.value, reason=reason)
    if done.state is WindowState.FAILED and reason == "extract_failed":
        telemetry.count(metrics.FAIL_OPENS, stage="extract", error=detail)
    for outcome in done.outcomes:
        category = outcome.category.value
        for result, count in {"applied": outcome.applied, "confirmed": outcome.confirmed, **outcome.dropped}.items():
            telemetry.count(metrics.WINDOW_ITEMS, count, category=category, result=result)
        if outcome.state == "failed":
            telemetry.count(metrics.FAIL_OPENS, stage="apply", error=(outcome.reason or "").rpartition(":")[2])
