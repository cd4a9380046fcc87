"""Deleting everything: the wish, and its receipt."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.schemas.base import Given, Shown, example
from memory.model.erasure import Erasure, ErasureState


class ForgetGiven(Given):
    """What has to be typed, so that nobody deletes everything by accident."""

    confirm: Annotated[str, Field(max_length=100, description="`delete everything`")]

    model_config = example({"confirm": "delete everything"})


class ErasureView(Shown):
    """The receipt of an erasure: counts by store, no content."""

    erasure_id: str
    state: ErasureState = Field(
        description="`erased`: all stores were emptied once; what was under way then is waited for and deleted too"
    )
    requested_by: str = Field(examples=["the user"])
    started_at: datetime
    erased_at: datetime | None
    finished_at: datetime | None
    counts: dict[str, int] = Field(description="what was deleted, by store")
    problems: list[str] = Field(description="what could not be deleted and why; empty as a rule")

    model_config = example(
        {
            "erasure_id": "0b2a6c1e-5b0e-4f6e-9a53-0d7f3b0c9a11",
            "state": "done",
            "requested_by": "the user",
            "started_at": "2026-06-17T12:00:00Z",
            "erased_at": "2026-06-17T12:00:02Z",
            "finished_at": "2026-06-17T12:03:10Z",
            "counts": {"rows.turns": 12, "rows.events": 24, "objects.profile_versions": 7},
            "problems": [],
        }
    )

    @classmethod
    def of(cls, erasure: Erasure) -> ErasureView:
        return cls(
            erasure_id=erasure.erasure_id,
            state=erasure.state,
            requested_by=erasure.requested_by,
            started_at=erasure.started_at,
            erased_at=erasure.erased_at,
            finished_at=erasure.finished_at,
            counts=dict(erasure.counts),
            problems=list(erasure.problems),
        )


class Erasures(Shown):
    """Newest first. After an erasure only a hash remembers whose it was."""

    items: list[ErasureView]
