"""Which version of a profile to bring back when some of its versions turn out to be damaged.

A version was made from the one before it; a roll-back was made from the one that it names. So what is in a profile now comes from a
chain of versions, and damage counts only where it is in that chain. What a person wrote (a save, a roll-back of their own, another
program's file) vouches for what it was made from, and is never undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

TURNS = "turns"
_ROLLBACK = "rollback:"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a history. ``damaged``: to be undone. ``ours``: an earlier undoing like this one, nobody's own decision."""

    number: int
    cause: str | None
    damaged: bool = False
    ours: bool = False

    @property
    def by_person(self) -> bool:
        return self.cause != TURNS and not self.ours

    @property
    def source(self) -> int | None:
        """The version that a roll-back brought back."""
        named = (self.cause or "").removeprefix(_ROLLBACK)
        return int(named) if (self.cause or "").startswith(_ROLLBACK) and named.isdigit() else None


class Finding(StrEnum):
    DAMAGED = "damaged"
    NOTHING_BEFORE = "nothing_before"
    """Damaged from its first version on: there is nothing to bring back."""
    EDITED = "edited_since"
    """A person wrote over the damage; what they wrote stays."""
    CLEAN = "not_damaged"
    """The damaged versions are not in what the profile says now (any more)."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """``first``: the oldest damaged version in use. ``target``: the version before it. ``lost``: versions of other turns that were
    made on top of the damage and go with it. ``edited``: the person's version."""

    finding: Finding
    first: int | None = None
    target: int | None = None
    lost: int = 0
    edited: int | None = None


def diagnose(versions: Sequence[Version]) -> Diagnosis:
    """What to do about a profile. ``versions``: newest first, down to the one before the oldest damaged one at least."""
    before = {version.number: older.number for version, older in pairwise(versions)}
    known = {version.number: version for version in versions}
    chain: list[Version] = []
    at: Version | None = versions[0] if versions else None
    while at is not None:
        chain.append(at)
        if at.ours and at.source is None:
            break  # emptied: nothing older is in it
        source = at.source if at.source is not None else before.get(at.number)
        at = known.get(source) if source is not None and source < at.number else None
    people = next((place for place, version in enumerate(chain) if version.by_person), len(chain))
    since = chain[:people]
    damaged = [place for place, version in enumerate(since) if version.damaged]
    if not damaged:
        deeper = any(version.damaged for version in chain[people:])
        return Diagnosis(Finding.EDITED, edited=chain[people].number) if deeper else Diagnosis(Finding.CLEAN)
    oldest = damaged[-1]
    first = chain[oldest].number
    lost = sum(version.cause == TURNS and not version.damaged for version in chain[:oldest])
    target = chain[oldest + 1].number if oldest + 1 < len(chain) else None
    if target is None:
        return Diagnosis(Finding.NOTHING_BEFORE, first=first, lost=lost)
    return Diagnosis(Finding.DAMAGED, first=first, target=target, lost=lost)
