"""What the steps of a knowledge loop share: its row and entries, the toolbox of its user, writing entries down."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from memory.categories.spec import Stores
from memory.knowledge.search import KnowledgeSearch
from memory.knowledge.toolbox import Toolbox
from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.knowledge import PERSONAL
from memory.model.knowledge_loop import Entry, Limits, Loop
from memory.model.knowledge_steps import LoopRef
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports import Directory
from memory.ports.knowledge import KnowledgeTables, LoopStore

PAGE: Final = 1_000
KEEP_PAUSES_S: Final = (0.1, 0.5, 2.0)
"""What was paid for is written down with more patience than a store's hiccup lasts."""


@dataclass(frozen=True, slots=True)
class KnowledgeRules:
    """What the deployment's settings say about loops. ``limits``: the most that any loop gets."""

    model: str
    model_timeout_s: float
    store_retry_for_s: float
    feature_flag: bool | frozenset[str]
    allow_with_web_search: bool
    limits: Limits = field(default_factory=Limits)
    continue_after_steps: int = 50


@dataclass(frozen=True, slots=True)
class Hands:
    """Toolbox of a loop's user, and the user's teams: id, and whether the user may write there."""

    tools: Toolbox
    teams: Sequence[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Desk:
    """The collaborators of all steps."""

    loops: LoopStore
    tables: KnowledgeTables
    search: KnowledgeSearch
    stores: Stores
    directory: Directory
    rules: KnowledgeRules

    async def loop(self, ref: LoopRef) -> Loop:
        """Raises InvalidInput where there is none."""
        found = await self.loops.loop(ref.user.scope, ref.loop_id)
        if found is None:
            raise InvalidInput("there is no such loop of this user")
        return found

    async def entries(self, ref: LoopRef, *, after: int = 0) -> list[Entry]:
        """All entries beyond ``after``, by number."""
        found: list[Entry] = []
        while True:
            page = await self.loops.entries(ref.user.scope, ref.loop_id, after=after, limit=PAGE)
            found.extend(page)
            if len(page) < PAGE:
                return found
            after = page[-1].number

    async def hands(self, scope: Scope, loop: Loop) -> Hands:
        teams = await self.directory.memberships(scope)
        owners = {f"team:{team}": Owner.team(scope.tenant, team) for team in teams}
        writable = {PERSONAL: Owner.user(scope)} | {name: owner for name, owner in owners.items() if teams[name[5:]]}
        tools = Toolbox(
            tables=self.tables,
            search=self.search,
            stores=self.stores,
            view=View(scope, tuple(owners.values())),
            loop=loop,
            writable=writable,
            readable=[name for name in owners if name not in writable],
        )
        return Hands(tools, [(team, may) for team, may in teams.items()])

    async def keep(self, ref: LoopRef, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Append entries; those that are there already come back as they are. Raises StoreUnavailable after some tries."""
        for pause in KEEP_PAUSES_S:
            try:
                return await self._append(ref, entries)
            except StoreUnavailable:
                await asyncio.sleep(pause)
        return await self._append(ref, entries)

    async def _append(self, ref: LoopRef, entries: Sequence[Entry]) -> Sequence[Entry]:
        return await self.loops.append(ref.user.scope, ref.loop_id, entries, now=datetime.now(UTC))
