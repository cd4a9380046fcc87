"""The ledger's steps: claim the next turns of a user with everything the run needs to know, and record their outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from temporalio import activity

from activities.common import only_root
from activities.errors import translated
from activities.notices import NoticeActivities
from memory import telemetry
from memory.model import metrics
from memory.model.directory import MemoryFacts, SpaceSettings
from memory.model.enablement import Enablement, effective_enablement
from memory.model.errors import InvalidSettings
from memory.model.names import CLAIM_TURNS, FINISH_TURNS
from memory.model.scope import Scope
from memory.model.steps import FinishInput, Plan, TurnRef, UserRef
from memory.model.turn import Outcome, StoredTurn, Turn
from memory.ports import Directory, EventLog, TurnResult

_UPLOAD_REASONS = frozenset({"upload_failed", "candidate_missing", "conflict", "root_clash", "root_changed"})
_log = structlog.get_logger("afterturn.turns")


@dataclass(frozen=True, slots=True)
class PipelineRules:
    """What the deployment's settings say about the pipeline."""

    default_model: str
    feature_flag: bool | frozenset[str]
    allow_with_web_search: bool
    coalesce_max_turns: int
    """1 switches coalescing off."""
    model_timeout_s: float
    store_retry_for_s: float
    model_retry_for_s: float
    continue_as_new_after_turns: int
    remote_notices: bool


class TurnActivities:
    """Claim and finish. Local activities: one or two quick database steps each."""

    def __init__(self, log: EventLog, directory: Directory, notices: NoticeActivities, rules: PipelineRules) -> None:
        self._log = log
        self._directory = directory
        self._notices = notices
        self._rules = rules

    @activity.defn(name=CLAIM_TURNS)
    @translated
    async def claim_turns(self, user: UserRef) -> Plan:
        """The oldest unfinished turns that can be handled together, and the settings they are handled with.

        Turns go together only where space, model and consent are the same. No turns: nothing is due.
        """
        return await self._next(user.scope)

    async def _next(self, scope: Scope) -> Plan:
        waiting = await self._log.pending(scope, limit=self._rules.coalesce_max_turns + 1)
        if not waiting:
            return Plan(turns=())
        batch = _alike(waiting, self._rules.coalesce_max_turns)
        first = batch[0].turn
        refs = tuple(TurnRef(turn_id=t.turn.turn_id, attempt=t.attempt, ordinal=t.ordinal) for t in batch)
        more = len(waiting) > len(batch)
        try:
            facts = await self._directory.facts(scope, first.space_id)
        except InvalidSettings as error:
            # One space that cannot be read must not hold up the user's turns in all others.
            _log.error("space_unreadable", tenant=scope.tenant, error=error.message)
            return Plan(turns=(), skipped=refs, skip_reason="invalid_space_settings", skip_outcome=Outcome.KEPT, more=more)
        enablement = self._enablement(scope, facts, first)
        if not enablement.active:
            codes = ",".join(reason.code for reason in enablement.reasons)
            return Plan(turns=(), skipped=refs, skip_reason=codes, more=more)
        space = facts.space
        return Plan(
            turns=refs,
            more=more,
            model=self._model(space, first),
            gate=space.consolidation_gate_enabled,
            mode=space.consolidation_mode,
            notice=space.show_update_notice,
            remote_notices=self._rules.remote_notices,
            privacy_scrub=space.privacy_scrub,
            max_tokens=space.max_tokens,
            root=await only_root(self._directory, scope, facts),
            conversation_ids=tuple(dict.fromkeys(t.turn.conversation_id for t in batch)),
            empty=all(t.turn.is_empty for t in batch),
            model_timeout_s=self._rules.model_timeout_s,
            store_retry_for_s=self._rules.store_retry_for_s,
            model_retry_for_s=self._rules.model_retry_for_s,
            continue_after_turns=self._rules.continue_as_new_after_turns,
        )

    @activity.defn(name=FINISH_TURNS)
    @translated
    async def finish_turns(self, done: FinishInput) -> Plan:
        """Remove the notice, record the outcome of a batch and give the next one: one step saves a round of every run.

        Repeating it records nothing twice. Tokens and times are booked on the batch's first turn.
        """
        info = activity.info()
        flags = done.flags
        if done.notice is not None and not await self._notices.try_twice(done.notice):
            flags = (*flags, f"notice_failed:{done.notice.step}")
        usage = {stage: spent.model_dump() for stage, spent in done.usage.items()}
        results = [
            TurnResult(
                turn_id=ref.turn_id,
                attempt=ref.attempt,
                outcome=done.outcome,
                reason=done.reason,
                profile_version=done.profile_version,
                run_id=info.workflow_run_id or "",
                workflow_id=info.workflow_id or "",
                flags=flags,
                usage=usage if position == 0 else {},
                durations_ms=done.durations_ms if position == 0 else {},
                model=done.model,
            )
            for position, ref in enumerate(done.turns)
        ]
        await self._log.finish(done.user.scope, results, now=datetime.now(UTC))
        _count(done, flags)
        return await self._next(done.user.scope)

    def _enablement(self, scope: Scope, facts: MemoryFacts, turn: Turn) -> Enablement:
        return effective_enablement(
            feature_flag=self._rules.feature_flag,
            allow_with_web_search=self._rules.allow_with_web_search,
            tenant=scope.tenant,
            facts=facts,
            allow_user_memory=turn.allow_user_memory,
            web_search=turn.web_search,
        )

    def _model(self, space: SpaceSettings, turn: Turn) -> str:
        chosen = turn.language_model if space.use_orchestrator_language_model else space.language_model
        return chosen or self._rules.default_model


def _count(done: FinishInput, flags: Sequence[str]) -> None:
    """For whoever watches the workers. A step that is repeated after a crash counts twice; the ledger is what is exact."""
    # What follows a colon is a detail of that one case: labels stay few.
    reason, _, detail = (done.reason or "").partition(":")
    telemetry.count(metrics.TURNS, len(done.turns), outcome=done.outcome.value, reason=reason)
    for flag in sorted({flag.partition(":")[0] for flag in flags}):
        telemetry.count(metrics.FLAGS, flag=flag)
    for flag in flags:
        name, _, error = flag.partition(":")
        if name == "gate_failed":
            telemetry.count(metrics.GATE_DECISIONS, decision="failed_open")
            telemetry.count(metrics.FAIL_OPENS, stage="gate", error=error)
        elif name == "notice_failed":
            telemetry.count(metrics.FAIL_OPENS, stage="notice", error="")
    if done.outcome is Outcome.KEPT:
        # An upload that failed, by whatever: the rewrite is there, the old profile stays. All else happens before.
        stage = "upload" if reason in _UPLOAD_REASONS else "consolidate"
        telemetry.count(metrics.FAIL_OPENS, stage=stage, error=detail or reason)


def _alike(waiting: Sequence[StoredTurn], limit: int) -> Sequence[StoredTurn]:
    def key(stored: StoredTurn) -> tuple[object, ...]:
        turn = stored.turn
        return turn.space_id, turn.language_model, turn.allow_user_memory, turn.web_search, turn.is_empty

    first = key(waiting[0])
    count = next((i for i, stored in enumerate(waiting) if key(stored) != first), len(waiting))
    return waiting[: min(count, limit)]
