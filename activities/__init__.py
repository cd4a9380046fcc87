"""The activities of afterturn: small classes over ports. ``build_activities`` makes all of them from their collaborators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from activities.model_steps import ModelActivities
from activities.notices import NoticeActivities
from activities.profile import ProfileActivities
from activities.sweep import SweepActivities, Waker
from activities.turns import PipelineRules, TurnActivities
from memory.ports import Directory, EventLog, ModelProvider, Notifier
from memory.profiles import Profiles


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


@dataclass(frozen=True, slots=True)
class Activities:
    """By task queue: ``store`` on the workflow queue, ``model`` on the model queue."""

    store: Sequence[Callable[..., Any]]
    model: Sequence[Callable[..., Any]]


def build_activities(parts: Collaborators) -> Activities:
    notices = NoticeActivities(parts.notifier, review_url=parts.review_url)
    turns = TurnActivities(parts.log, parts.directory, notices, parts.rules)
    profile = ProfileActivities(parts.profiles, parts.directory)
    sweep = SweepActivities(parts.log, parts.directory, parts.profiles, parts.waker)
    model = ModelActivities(
        parts.models,
        parts.log,
        parts.profiles,
        loss_guard_max_lost_fraction=parts.loss_guard_max_lost_fraction,
        loss_guard_min_bullets=parts.loss_guard_min_bullets,
    )
    return Activities(
        store=[
            turns.claim_turns,
            turns.finish_turns,
            profile.upload_profile,
            profile.edit_profile,
            profile.rollback_profile,
            notices.send_notice,
            sweep.sweep,
        ],
        model=[model.gate_turns, model.consolidate_turns],
    )


__all__ = ["Activities", "Collaborators", "PipelineRules", "Waker", "build_activities"]
