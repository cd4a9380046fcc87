"""What an administrator of a company works with: settings of spaces with versions, and reports of ids and counts, never a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, Protocol

from memory.model.directory import SpaceSettings
from memory.model.window import Window
from memory.ports.pipeline import TurnSummary, Usage

UsageKey = Literal["day", "user", "stage", "model"]


@dataclass(frozen=True, slots=True)
class SpaceRecord:
    """The settings of one space, what is stored told apart from what follows the defaults of the code.

    ``stored``: the keys that are stored and known to this version, as JSON values. ``version`` changes with what is stored; None:
    nothing is. ``settings``: as they count. ``problem``: why they do not, where a stored value is not valid: memory is off in the
    space until they are saved again, and ``settings`` has defaults in place of those values.
    """

    space_id: str
    stored: Mapping[str, Any]
    version: str | None
    settings: SpaceSettings
    problem: str | None = None


class SpaceRecords(Protocol):
    """Settings of spaces for those who change them. ``tenant``: encoded; space ids as the outside has them."""

    async def space(self, tenant: str, space_id: str) -> SpaceRecord:
        """A space of which nothing is stored has the defaults; nothing is created."""
        ...

    async def spaces(self, tenant: str, *, after: str | None = None, limit: int = 100) -> Sequence[SpaceRecord]:
        """Spaces with stored settings, by the encoded form of their ids. ``after``: that form of the last one seen."""
        ...

    async def replace(self, tenant: str, space_id: str, settings: SpaceSettings, *, expected: str | None) -> SpaceRecord | None:
        """Store exactly the keys that were set, and provision the root, in one transaction.

        Keys that only a newer version of the code knows are kept.

        Args:
            expected: the ``version`` that was read; None: nothing was stored.

        Returns:
            None: what is stored is not (or no longer) that; nothing was written.
        """
        ...


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Tokens of language models by what was asked for; the other keys are None. ``user``: encoded."""

    usage: Usage
    day: date | None = None
    user: str | None = None
    stage: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class SpaceUsage:
    """Turns of one space. ``outcomes``: how many ended how; ``pending``: not finished yet.

    ``usage``: of their gates and consolidations. What windows and knowledge loops cost has no space and is in :class:`UsageSum`.
    """

    space_id: str
    turns: int
    users: int
    outcomes: Mapping[str, int]
    usage: Usage
    last_turn_at: datetime


class Reports(Protocol):
    """Read-only, bounded, of one tenant (encoded)."""

    async def usage(
        self,
        tenant: str,
        *,
        by: Sequence[UsageKey],
        since: date,
        until: date,
        after: UsageSum | None = None,
        limit: int = 100,
    ) -> Sequence[UsageSum]:
        """Sums by these keys of the days from ``since`` to ``until``, both inclusive (UTC).

        With ``day`` among them the newest day first, else those with the most tokens. ``after``: the last one seen.
        """
        ...

    async def usage_by_space(
        self, tenant: str, *, since: datetime, after: SpaceUsage | None = None, limit: int = 100
    ) -> Sequence[SpaceUsage]:
        """Turns recorded since then by space, those with the most turns first."""
        ...

    async def kept_turns(
        self, tenant: str, *, after: tuple[datetime, str, int] | None = None, limit: int = 100
    ) -> Sequence[TurnSummary]:
        """Turns whose last outcome is ``kept``, newest first. ``after``: (recorded_at, user, ordinal) of the last one seen."""
        ...

    async def unhappy_windows(
        self, tenant: str, *, after: tuple[datetime, str, str] | None = None, limit: int = 100
    ) -> Sequence[Window]:
        """Windows that failed wholly or partly, newest first, without the guidance of a chunk.

        ``after``: (planned_at, user, window_id) of the last one seen.
        """
        ...
