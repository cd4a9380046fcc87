"""The two steps that call a language model: gate and consolidate. They read texts from the stores and return none of them."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from temporalio import activity

from activities.common import since
from activities.errors import translated
from activities.heartbeat import heartbeats
from memory import telemetry
from memory.consolidation import Consolidator, Rules, for_prompt
from memory.gate import ask_gate
from memory.metering import Meter
from memory.model import metrics
from memory.model.errors import InvalidInput
from memory.model.ids import short_hash
from memory.model.names import CONSOLIDATE_TURNS, GATE_TURNS
from memory.model.steps import BatchInput, ConsolidateReply, Decision, GateReply, Plan, StageUsage, TurnRef
from memory.model.turn import Turn
from memory.ports import EventLog, ModelProvider, Usage
from memory.profiles import Profiles, ProfileSnapshot
from memory.prompts import PROMPT_VERSION

RECENT_S = 2.0


class ModelActivities:
    """Gate and consolidate, on the model queue."""

    def __init__(
        self,
        models: ModelProvider,
        log: EventLog,
        profiles: Profiles,
        meter: Meter,
        *,
        loss_guard_max_lost_fraction: float,
        loss_guard_min_bullets: int,
    ) -> None:
        self._models = models
        self._log = log
        self._profiles = profiles
        self._meter = meter
        self._max_lost_fraction = loss_guard_max_lost_fraction
        self._min_bullets = loss_guard_min_bullets

    @activity.defn(name=GATE_TURNS)
    @translated
    async def gate_turns(self, batch: BatchInput) -> GateReply:
        """UPDATE or NOOP for the batch; anything but an explicit NOOP is UPDATE."""
        began = time.perf_counter()
        async with heartbeats():
            plan = batch.plan
            snapshot, turns = await asyncio.gather(self._profiles.read(batch.user.scope, plan.root), self._turns(batch, plan.turns))
            if not _unapplied(snapshot, plan):
                return GateReply(update=True, flags=("already_applied",), elapsed_ms=since(began))
            counter = self._models.token_counter(plan.model)
            profile = await for_prompt(snapshot.document.profile, counter, plan.max_tokens, datetime.now(UTC).date())
            model = self._meter.metered(self._models.model(plan.model), batch.user.scope)
            decision = await ask_gate(model, profile, turns, timeout_s=plan.model_timeout_s)
        said = "failed_open" if decision.flags else "update" if decision.update else "noop"
        telemetry.count(metrics.GATE_DECISIONS, decision=said)
        if decision.flags:
            telemetry.count(metrics.FAIL_OPENS, stage="gate", error=decision.flags[0])
        return GateReply(
            update=decision.update,
            flags=decision.flags,
            usage=stage_usage(decision.usage),
            elapsed_ms=since(began),
            prompts=PROMPT_VERSION,
        )

    @activity.defn(name=CONSOLIDATE_TURNS)
    @translated
    async def consolidate_turns(self, batch: BatchInput) -> ConsolidateReply:
        """Rewrite the profile with the batch's turns and stage the result. Reads the profile anew, so a repeat sees later saves."""
        began = time.perf_counter()
        plan, scope = batch.plan, batch.user.scope
        async with heartbeats():
            # What the gate read a moment ago will do: a save in between is caught by compare-and-swap and then read.
            recent_s = RECENT_S if plan.gate and not batch.conflicts and activity.info().attempt == 1 else 0.0
            snapshot = await self._profiles.read(scope, plan.root, max_age_s=recent_s)
            missing = _unapplied(snapshot, plan)
            if not missing:
                return ConsolidateReply(decision=Decision.APPLIED, applied_version=snapshot.version, elapsed_ms=since(began))
            turns = await self._turns(batch, missing)
            rules = Rules(
                mode=plan.mode,
                max_tokens=plan.max_tokens,
                privacy_scrub=plan.privacy_scrub,
                loss_guard_max_lost_fraction=self._max_lost_fraction,
                loss_guard_min_bullets=self._min_bullets,
                timeout_s=plan.model_timeout_s,
            )
            model = self._meter.metered(self._models.model(plan.model), scope)
            consolidator = Consolidator(model, self._models.token_counter(plan.model), rules)
            now = datetime.now(UTC)
            result = await consolidator.run(snapshot.document.profile, turns, now=now)
            usage = {stage: stage_usage(spent) for stage, spent in result.usage.items()}
            if result.profile is None:
                return ConsolidateReply(
                    decision=Decision.KEPT if result.kept else Decision.NOOP,
                    reason=result.kept,
                    flags=result.flags,
                    usage=usage,
                    elapsed_ms=since(began),
                    prompts=PROMPT_VERSION,
                )
            document = self._profiles.compose(snapshot, result.profile, scope=scope, rewrite=True, now=now)
            candidate = await self._profiles.stage(scope, document)
        return ConsolidateReply(
            decision=Decision.CANDIDATE,
            candidate=candidate,
            base_etag=snapshot.etag,
            base_version=snapshot.version,
            flags=result.flags,
            usage=usage,
            elapsed_ms=since(began),
            prompts=PROMPT_VERSION,
        )

    async def _turns(self, batch: BatchInput, refs: tuple[TurnRef, ...]) -> list[Turn]:
        wanted = [ref.turn_id for ref in refs]
        stored = await self._log.turns(batch.user.scope, wanted)
        if len(stored) != len(wanted):
            raise InvalidInput(f"{len(wanted) - len(stored)} of {len(wanted)} turns are no longer in the ledger")
        return [one.turn for one in stored]


def turn_key(ref: TurnRef) -> str:
    """What names a turn in a profile's metadata: a rerun of a turn is another one."""
    return short_hash(ref.turn_id, str(ref.attempt))


def _unapplied(snapshot: ProfileSnapshot, plan: Plan) -> tuple[TurnRef, ...]:
    """The turns that the profile does not hold yet, as its metadata says."""
    return tuple(ref for ref in plan.turns if turn_key(ref) not in snapshot.applied_turns)


def stage_usage(usage: Usage) -> StageUsage:
    return StageUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        calls=usage.calls,
    )


__all__ = ["ModelActivities", "turn_key"]
