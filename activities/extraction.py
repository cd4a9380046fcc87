"""The step that calls a language model for a window. It reads the events and returns counts."""

from __future__ import annotations

import asyncio
import time

from temporalio import activity

from activities.common import since, teams_of
from activities.errors import translated
from activities.heartbeat import heartbeats
from activities.model_steps import stage_usage
from memory.categories import spec_of
from memory.categories.spec import Stores
from memory.extraction import Extractor, load_known
from memory.metering import Meter
from memory.model.errors import InvalidInput
from memory.model.names import EXTRACT_WINDOW
from memory.model.window import CategoryExtraction, CategoryOutcome, Extraction, shown_events
from memory.model.window_steps import ExtractReply, WindowRef
from memory.ports import Directory, ModelProvider, WindowLedger


class ExtractionActivities:
    """On the model queue."""

    def __init__(self, models: ModelProvider, ledger: WindowLedger, directory: Directory, stores: Stores, meter: Meter) -> None:
        self._models = models
        self._ledger = ledger
        self._directory = directory
        self._stores = stores
        self._meter = meter

    @activity.defn(name=EXTRACT_WINDOW)
    @translated
    async def extract_window(self, job: WindowRef) -> ExtractReply:
        """Extract all categories of a window in one pass and put the checked result aside.

        A result that an earlier try of the same attempt put aside is not paid for again.
        """
        began = time.perf_counter()
        scope = job.user.scope
        async with heartbeats():
            window, done = await asyncio.gather(
                self._ledger.window(scope, job.window_id), self._ledger.extraction(scope, job.window_id, job.attempt)
            )
            if window is None:
                raise InvalidInput(f"there is no window {job.window_id}")
            if done is not None:
                return _reply(done, flags=("already_extracted",), elapsed_ms=since(began))
            events = shown_events(window, await self._ledger.window_events(window))
            specs = [spec_of(category) for category in window.categories]
            # Not the time of this try: whoever tries again has to ask the same.
            now = window.planned_at
            teams = await teams_of(self._directory, scope) if any(spec.reads_teams for spec in specs) else ()
            known = await load_known(self._stores, scope, events, specs=specs, now=now, teams=teams)
            model = self._meter.metered(self._models.model(job.model), scope)
            result = await Extractor(model, timeout_s=job.model_timeout_s).run(window, events, known, specs, now=now)
            # A try that was given up as dead may end after the next one, whose result is being applied.
            kept = await self._ledger.save_extraction(scope, result.extraction, replaces=False)
        reply = _reply(kept, flags=kept.flags, elapsed_ms=since(began))
        return reply.model_copy(update={"usage": {stage: stage_usage(spent) for stage, spent in result.usage.items()}})


def _reply(extraction: Extraction, *, flags: tuple[str, ...], elapsed_ms: int) -> ExtractReply:
    return ExtractReply(
        categories=tuple(_outcome(one) for one in extraction.categories),
        items={one.category: len(one.items) for one in extraction.categories if one.failed is None},
        flags=flags,
        elapsed_ms=elapsed_ms,
    )


def _outcome(found: CategoryExtraction) -> CategoryOutcome:
    dropped: dict[str, int] = {}
    for one in found.dropped:
        dropped[one.reason] = dropped.get(one.reason, 0) + 1
    return CategoryOutcome(
        category=found.category,
        state="failed" if found.failed else "done",
        reason=found.failed,
        proposed=found.proposed,
        dropped=dropped,
    )
