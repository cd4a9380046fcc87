"""Which version comes back: chains of versions, people's decisions, damage that is no longer in use."""

from __future__ import annotations

import pytest

from memory.model.damage import Diagnosis, Finding, Version, diagnose


def history(*words: str) -> list[Version]:
    """From the oldest on: ``t`` a turn's, ``x`` a damaged one, ``edit``, ``other`` a program's file, ``r2`` a person's roll-back,
    ``u2`` an undoing, ``empty`` an emptying."""
    found: list[Version] = []
    for number, word in enumerate(words, start=1):
        if word in {"t", "x"}:
            found.append(Version(number, "turns", damaged=word == "x"))
        elif word == "other":
            found.append(Version(number, None))
        elif word == "empty":
            found.append(Version(number, "edit", ours=True))
        elif word[0] in "ru" and word[1:].isdigit():
            found.append(Version(number, f"rollback:{word[1:]}", ours=word[0] == "u"))
        else:
            found.append(Version(number, word))
    return found[::-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("t", "x"), Diagnosis(Finding.DAMAGED, first=2, target=1)),
        (("t", "x", "x", "x"), Diagnosis(Finding.DAMAGED, first=2, target=1)),
        (("t", "x", "t", "x", "t"), Diagnosis(Finding.DAMAGED, first=2, target=1, lost=2)),
        (("edit", "x"), Diagnosis(Finding.DAMAGED, first=2, target=1)),
        (("t", "x", "edit"), Diagnosis(Finding.EDITED, edited=3)),
        (("t", "x", "edit", "t", "t"), Diagnosis(Finding.EDITED, edited=3)),
        (("t", "x", "other"), Diagnosis(Finding.EDITED, edited=3)),
        # What the person saved stays, and what came over it goes.
        (("t", "x", "edit", "t", "x", "t"), Diagnosis(Finding.DAMAGED, first=5, target=4, lost=1)),
        (("t", "x", "edit", "x"), Diagnosis(Finding.DAMAGED, first=4, target=3)),
        # The person brought a good version back, or a damaged one on purpose.
        (("t", "x", "r1"), Diagnosis(Finding.CLEAN)),
        (("t", "x", "r1", "t"), Diagnosis(Finding.CLEAN)),
        (("t", "x", "t", "r2"), Diagnosis(Finding.EDITED, edited=4)),
        (("t", "x", "r1", "x"), Diagnosis(Finding.DAMAGED, first=4, target=3)),
        # Undone before: done, and not in the way of the next time.
        (("t", "x", "u1"), Diagnosis(Finding.CLEAN)),
        (("t", "x", "u1", "t"), Diagnosis(Finding.CLEAN)),
        (("t", "x", "u1", "t", "x"), Diagnosis(Finding.DAMAGED, first=5, target=4)),
        # An undoing went to a version that is found to be damaged too.
        (("t", "x", "x", "u2"), Diagnosis(Finding.DAMAGED, first=2, target=1)),
        (("x",), Diagnosis(Finding.NOTHING_BEFORE, first=1)),
        (("x", "t"), Diagnosis(Finding.NOTHING_BEFORE, first=1, lost=1)),
        (("x", "empty"), Diagnosis(Finding.CLEAN)),
        (("x", "empty", "t"), Diagnosis(Finding.CLEAN)),
        (("x", "empty", "t", "x"), Diagnosis(Finding.DAMAGED, first=4, target=3)),
        (("t", "t"), Diagnosis(Finding.CLEAN)),
        ((), Diagnosis(Finding.CLEAN)),
    ],
)
def test_the_version_before_the_damage_comes_back(words: tuple[str, ...], expected: Diagnosis) -> None:
    assert diagnose(history(*words)) == expected


def test_a_history_that_was_cut_short_below_the_damage_is_enough() -> None:
    assert diagnose(history("t", "t", "t", "x", "t")[:3]) == Diagnosis(Finding.DAMAGED, first=4, target=3, lost=1)


def test_a_cause_that_names_a_later_version_leads_nowhere() -> None:
    strange = [Version(3, "rollback:3", ours=True), Version(2, "turns", damaged=True), Version(1, "turns")]
    assert diagnose(strange).finding is Finding.CLEAN
