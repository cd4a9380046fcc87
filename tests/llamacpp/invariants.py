"""What holds of a profile after any turn, whatever a model said: for tests with a model whose content means nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from memory.model.profile import SECTIONS, parse_body, render_body
from memory.model.turn import Outcome


def broken_invariants(
    before: str,
    after: str,
    *,
    outcome: Outcome,
    count: Callable[[str], int],
    max_tokens: int,
    versions: tuple[int, int],
    secrets: Sequence[str] = (),
) -> list[str]:
    """Those that do not hold, one sentence each; an empty list is what a test asserts.

    Args:
        before, after: the stored bodies, without frontmatter ("" for a profile that does not exist).
        outcome: how the turn, or the turns together, ended.
        count: the memory model's token counter.
        max_tokens: the budget.
        versions: of the profile before and after.
        secrets: text of the turns that must never be stored.
    """
    broken: list[str] = []

    def hold(condition: bool, sentence: str) -> None:
        if not condition:
            broken.append(sentence)

    hold(outcome in set(Outcome), f"the outcome {outcome!r} is none")
    if outcome is not Outcome.UPDATED:
        hold(after == before, f"{outcome} changed the stored body")
        hold(versions[1] == versions[0], f"{outcome} made a version")
    else:
        hold(after != before, "updated, but the body is the same")
        hold(versions[1] == versions[0] + 1, f"one update took version {versions[0]} to {versions[1]}")
        hold(bool(after.strip()), "an empty file was stored")
    if after.strip():
        profile = parse_body(after)
        headings = re.findall(r"^## (.+)$", after, re.MULTILINE)
        hold(headings == list(SECTIONS), f"the sections are {headings}")
        hold(render_body(profile).strip() == after.strip(), "the stored body is not in the strict form")
        hold(not re.match(r"\s*---", after), "frontmatter in the body")
        hold(re.search(r"</?think", after, re.IGNORECASE) is None, "a think block was stored")
        if outcome is Outcome.UPDATED:
            hold(count(after) <= max_tokens, f"{count(after)} tokens of {max_tokens}")
    for number, secret in enumerate(secrets):
        hold(secret not in after, f"secret number {number} was stored")
    return broken
