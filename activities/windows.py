"""The event window's steps on the stores: plan the next window, apply one category, commit with the watermark, index, reconcile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from temporalio import activity

from activities.common import since
from activities.errors import translated
from activities.heartbeat import heartbeats
from memory.categories import REGISTRY, spec_of
from memory.categories.spec import ApplyContext, Stores
from memory.metering import Meter
from memory.model.category import Category
from memory.model.directory import MemoryFacts
from memory.model.enablement import ReasonCode, effective_enablement
from memory.model.errors import InvalidInput, InvalidSettings
from memory.model.items import Dropped, Grounded
from memory.model.names import APPLY_CATEGORY, COMMIT_WINDOW, INDEX_EVENTS, PLAN_WINDOW, RECONCILE
from memory.model.scope import Scope
from memory.model.steps import UserRef
from memory.model.window import CategoryExtraction, CategoryOutcome, Extraction, StoredEvent, Window, WindowKind
from memory.model.window_steps import (
    ApplyInput,
    ApplyReply,
    CommitInput,
    IndexInput,
    IndexReply,
    ReconcileInput,
    ReconcileReply,
    WindowPlan,
)
from memory.ports import Directory, NextEvents, WindowLedger, WindowResult
from memory.retrieval import SearchIndex

_log = structlog.get_logger("afterturn.windows")

NO_CATEGORY = "no_category"
"""Why a window is consumed without a model: every category is off."""


@dataclass(frozen=True, slots=True)
class WindowRules:
    """What the deployment's settings say about windows."""

    size: int
    flags: Mapping[Category, bool]
    model: str
    model_timeout_s: float
    store_retry_for_s: float
    feature_flag: bool | frozenset[str]
    allow_with_web_search: bool
    embed_events: bool
    idle_s: float
    attempts: int
    retry_s: float
    retention_days: Mapping[str, int]
    continue_after_windows: int = 100


class WindowActivities:
    """Quick steps are local activities; indexing and reconciling are regular ones with heartbeats."""

    def __init__(
        self, ledger: WindowLedger, directory: Directory, stores: Stores, index: SearchIndex, meter: Meter, rules: WindowRules
    ) -> None:
        self._ledger = ledger
        self._directory = directory
        self._stores = stores
        self._index = index
        self._meter = meter
        self._rules = rules

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
        if await self._meter.is_spent(scope):
            return WindowPlan(capped=True)
        window = following.window
        if window is None:
            window = await self._ledger.plan(await self._drawn_up(scope, following, now))
        elif window.kind is WindowKind.EVENTS and not await self._allowed(scope):
            # Reopened, or left by a crash, and the user has opted out since.
            window = window.model_copy(update={"categories": (), "reason": ReasonCode.USER_OPTED_OUT.value})
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

    async def _drawn_up(self, scope: Scope, following: NextEvents, now: datetime) -> Window:
        events = await self._ledger.events(scope, following.first_seq, following.last_seq)
        categories, spaces_off, reason = await self._categories(scope, events)
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

    async def _categories(
        self, scope: Scope, events: Sequence[StoredEvent]
    ) -> tuple[tuple[Category, ...], dict[Category, tuple[str, ...]], str | None]:
        """Categories that are on in a space of these events, where each is off, and why none is on."""
        spaces = sorted({event.space_id for event in events}) or ["default"]
        facts = dict(zip(spaces, await asyncio.gather(*(self._facts(scope, space) for space in spaces)), strict=True))
        off: dict[Category, tuple[str, ...]] = {}
        on: list[Category] = []
        for category in (spec.category for spec in REGISTRY):
            without = tuple(space for space in spaces if not self._is_on(scope, facts[space], category))
            if len(without) < len(spaces):
                on.append(category)
                if without:
                    off[category] = without
        if on:
            return tuple(on), off, None
        known = [found for found in facts.values() if found is not None]
        reasons = [code for found in known for code in self._reasons(scope, found)]
        return (), {}, next(iter(reasons), NO_CATEGORY)

    async def _facts(self, scope: Scope, space_id: str) -> MemoryFacts | None:
        try:
            return await self._directory.facts(scope, space_id)
        except InvalidSettings as error:
            # One space that cannot be read must not hold up the user's events in all others.
            _log.error("space_unreadable", tenant=scope.tenant, error=error.message)
            return None

    def _is_on(self, scope: Scope, facts: MemoryFacts | None, category: Category) -> bool:
        if facts is None or self._reasons(scope, facts):
            return False
        return facts.space.memory_categories.get(category, self._rules.flags[category])

    def _reasons(self, scope: Scope, facts: MemoryFacts) -> list[str]:
        """Why memory is off now. The caller's consent and the web search of a turn were asked when it was recorded."""
        enablement = effective_enablement(
            feature_flag=self._rules.feature_flag,
            allow_with_web_search=self._rules.allow_with_web_search,
            tenant=scope.tenant,
            facts=facts,
            allow_user_memory=True,
            web_search=False,
        )
        return [reason.code.value for reason in enablement.reasons]

    async def _allowed(self, scope: Scope) -> bool:
        facts = await self._facts(scope, "default")
        return facts is None or facts.user_allows

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
        )
        applied = await spec.apply(items, context)
        if applied.refs or applied.dropped or found.refused:
            await self._ledger.save_extraction(scope, _with_applied(extraction, job.category, applied.refs, applied.dropped))
        dropped = dict(applied.outcome.dropped)
        for one in found.dropped:
            dropped[one.reason] = dropped.get(one.reason, 0) + 1
        outcome = applied.outcome.model_copy(update={"proposed": found.proposed, "dropped": dropped})
        return ApplyReply(outcome=outcome, elapsed_ms=since(began))

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
        async with heartbeats():
            report = await self._index.reconcile(limit=job.limit)
        if any(report.repaired.values()):
            _log.warning("drift_repaired", missing=dict(report.missing), orphaned=dict(report.orphaned), stale=dict(report.stale))
        meter = activity.metric_meter().create_counter("afterturn_drift", "vectors that did not agree with their rows")
        for kind, count in report.repaired.items():
            meter.add(count, {"kind": kind})
        return ReconcileReply(
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
    meter = activity.metric_meter()
    windows = meter.create_counter("afterturn_windows", "windows that ended")
    windows.add(1, {"state": done.state.value, "reason": (done.reason or "").partition(":")[0]})
    items = meter.create_counter("afterturn_items", "extracted items by category and what became of them")
    for outcome in done.outcomes:
        counts = {"applied": outcome.applied, "confirmed": outcome.confirmed, **outcome.dropped}
        for what, count in counts.items():
            if count:
                items.add(count, {"category": outcome.category.value, "what": what})
