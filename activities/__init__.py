"""The activities of afterturn: small classes over ports. ``build_activities`` makes all of them from their collaborators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from activities.extraction import ExtractionActivities
from activities.forget import ForgetActivities, ForgetRules, UserRuns
from activities.knowledge import KnowledgeActivities
from activities.knowledge_desk import Desk, KnowledgeRules
from activities.knowledge_model import KnowledgeModelActivities
from activities.model_steps import ModelActivities
from activities.notices import NoticeActivities
from activities.profile import ProfileActivities
from activities.rollout_gate import RolloutGateActivities
from activities.sweep import SweepActivities, Waker
from activities.turns import PipelineRules, TurnActivities
from activities.window_plan import WindowRules
from activities.windows import WindowActivities
from memory.categories.spec import Stores
from memory.categories.table_loops import TableLoops
from memory.knowledge.search import KnowledgeSearch
from memory.metering import Meter
from memory.ports import Directory, EventLog, ModelProvider, Notifier, UsageLedger, WindowLedger
from memory.ports.knowledge import KnowledgeTables, LoopStore
from memory.ports.service import ErasureLedger, NoticeBox, Processes
from memory.profiles import Profiles
from memory.retrieval import SearchIndex


@dataclass(frozen=True, slots=True)
class Collaborators:
    """What the activities work with: ports, and the rules that the settings give."""

    log: EventLog
    directory: Directory
    profiles: Profiles
    models: ModelProvider
    notifier: Notifier
    waker: Waker
    rules: PipelineRules
    loss_guard_max_lost_fraction: float
    loss_guard_min_bullets: int
    review_url: str | None
    ledger: WindowLedger
    stores: Stores
    index: SearchIndex
    usage: UsageLedger
    meter: Meter
    window_rules: WindowRules
    loops: LoopStore
    knowledge: KnowledgeTables
    knowledge_search: KnowledgeSearch
    knowledge_rules: KnowledgeRules
    erasures: ErasureLedger
    box: NoticeBox
    processes: Processes
    runs: UserRuns
    forget_rules: ForgetRules


@dataclass(frozen=True, slots=True)
class Activities:
    """By task queue: ``store`` on the workflow queue, ``model`` on the model queue."""

    store: Sequence[Callable[..., Any]]
    model: Sequence[Callable[..., Any]]


def build_activities(parts: Collaborators) -> Activities:
    notices = NoticeActivities(parts.notifier, review_url=parts.review_url)
    turns = TurnActivities(parts.log, parts.directory, notices, parts.rules)
    profile = ProfileActivities(parts.profiles, parts.directory)
    windows = WindowActivities(
        parts.ledger,
        parts.directory,
        parts.stores,
        parts.index,
        parts.meter,
        parts.window_rules,
        TableLoops(parts.knowledge, parts.loops),
    )
    extraction = ExtractionActivities(parts.models, parts.ledger, parts.directory, parts.stores, parts.meter)
    sweep = SweepActivities(
        parts.log,
        parts.directory,
        parts.profiles,
        parts.waker,
        ledger=parts.ledger,
        loops=parts.loops,
        index=parts.index,
        meter=parts.meter,
        rules=parts.window_rules,
        box=parts.box,
        processes=parts.processes,
        erasures=parts.erasures,
    )
    model = ModelActivities(
        parts.models,
        parts.log,
        parts.profiles,
        parts.meter,
        loss_guard_max_lost_fraction=parts.loss_guard_max_lost_fraction,
        loss_guard_min_bullets=parts.loss_guard_min_bullets,
    )
    desk = Desk(
        loops=parts.loops,
        tables=parts.knowledge,
        search=parts.knowledge_search,
        stores=parts.stores,
        directory=parts.directory,
        rules=parts.knowledge_rules,
    )
    loops, thinking = KnowledgeActivities(desk, parts.meter), KnowledgeModelActivities(desk, parts.models, parts.meter)
    forget = ForgetActivities(parts.erasures, parts.profiles, parts.index, parts.loops, parts.runs, parts.forget_rules)
    gate = RolloutGateActivities(parts.log, parts.profiles)
    return Activities(
        store=[
            turns.claim_turns,
            turns.finish_turns,
            profile.upload_profile,
            profile.edit_profile,
            profile.rollback_profile,
            notices.send_notice,
            sweep.sweep,
            windows.plan_window,
            windows.apply_category,
            windows.commit_window,
            windows.index_events,
            windows.reconcile,
            loops.begin_loop,
            loops.use_tool,
            loops.settle_call,
            loops.finish_loop,
            forget.begin_forget,
            forget.stop_user_runs,
            forget.erase_user,
            forget.delete_user_runs,
            forget.mark_forget,
            gate.check_stores,
        ],
        model=[
            model.gate_turns,
            model.consolidate_turns,
            extraction.extract_window,
            thinking.think,
            thinking.answer_question,
        ],
    )


__all__ = [
    "Activities",
    "Collaborators",
    "ForgetRules",
    "KnowledgeRules",
    "PipelineRules",
    "UserRuns",
    "Waker",
    "WindowRules",
    "build_activities",
]
