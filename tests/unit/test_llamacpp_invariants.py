"""The judge of the small model's runs must itself notice what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from memory.model.profile import Profile, render_body
from memory.model.turn import Outcome
from tests.llamacpp.invariants import broken_invariants

OLD = render_body(Profile.of({"Identity": ["Name: Ada"]}))
NEW = render_body(Profile.of({"Identity": ["Name: Ada", "Lives in Paris"]}))


def judge(after: str, outcome: Outcome, versions: tuple[int, int], **more: Any) -> list[str]:
    given = {"count": len, "max_tokens": 2000, **more}
    return broken_invariants(OLD, after, outcome=outcome, versions=versions, **given)


def test_sound_runs_pass() -> None:
    assert judge(NEW, Outcome.UPDATED, (3, 4)) == []
    assert judge(OLD, Outcome.NOOP, (3, 3)) == []
    assert judge(OLD, Outcome.KEPT, (3, 3)) == []
    assert broken_invariants("", "", outcome=Outcome.NOOP, count=len, max_tokens=500, versions=(0, 0)) == []


@pytest.mark.parametrize(
    ("after", "outcome", "versions", "more", "says"),
    [
        (NEW, Outcome.NOOP, (3, 3), {}, "changed the stored body"),
        (OLD, Outcome.KEPT, (3, 4), {}, "made a version"),
        (OLD, Outcome.UPDATED, (3, 4), {}, "the same"),
        (NEW, Outcome.UPDATED, (3, 5), {}, "took version 3 to 5"),
        ("", Outcome.UPDATED, (3, 4), {}, "empty file"),
        (NEW.replace("## Follow-ups", "## Notes"), Outcome.UPDATED, (3, 4), {}, "the sections are"),
        (NEW.replace("- Lives", "* Lives"), Outcome.UPDATED, (3, 4), {}, "strict form"),
        ("---\nuser_id: x\n---\n" + NEW, Outcome.UPDATED, (3, 4), {}, "frontmatter"),
        (NEW.replace("Paris", "<think>Paris"), Outcome.UPDATED, (3, 4), {}, "think block"),
        (NEW, Outcome.UPDATED, (3, 4), {"max_tokens": 20}, "tokens of 20"),
        (NEW, Outcome.UPDATED, (3, 4), {"secrets": ["x", "in Paris"]}, "secret number 1"),
    ],
)
def test_each_breach_is_named(after: str, outcome: Outcome, versions: tuple[int, int], more: dict[str, Any], says: str) -> None:
    assert any(says in sentence for sentence in judge(after, outcome, versions, **more))
