"""The receipt of an erasure: what was deleted, by store, without content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memory.model.ids import body_hash
from memory.model.scope import Scope


class ErasureState(StrEnum):
    RUNNING = "running"
    ERASED = "erased"
    """All stores were emptied once; what was still on its way at that time is waited for and deleted too."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Erasure:
    """``counts``: things deleted by store, for instance ``{"rows.events": 120, "objects.profile_versions": 7}``.

    ``problems``: what could not be deleted and why, one line each, no content; empty as a rule.
    """

    erasure_id: str
    tenant: str
    state: ErasureState
    requested_by: str
    started_at: datetime
    erased_at: datetime | None = None
    finished_at: datetime | None = None
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    problems: tuple[str, ...] = ()


def user_hash(scope: Scope) -> str:
    """What remains of a user's id after an erasure."""
    return body_hash(f"{scope.tenant}/{scope.user}")
