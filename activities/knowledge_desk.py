"""What the steps of a knowledge loop share: its row and entries, the toolbox of its user, writing entries down."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from memory.categories.spec import Stores
from memory.knowledge.search import KnowledgeSearch
from memory.knowledge.toolbox import Toolbox
from memory.model.errors import InvalidInput, StoreUnavailable
from memory.model.knowledge import PERSONAL
from memory.model.knowledge_loop import Entry, EntryKind, Limits, Loop
from memory.model.knowledge_steps import LoopRef
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports import Directory
from memory.ports.knowledge import KnowledgeTables, LoopStore

PAGE: Final = 1_000
KEEP_PAUSES_S: Final = (0.1, 0.5, 2.0)
"""What was paid for is written down with more patience than a store's hiccup lasts."""
MAX_REMEMBERED: Final = 128
"""Loops whose request and last reply this process remembers, so that a tool step need not read what the step before wrote."""


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


@dataclass(slots=True)
class _Remembered:
    """``loop``: as it was begun; ``reply``: the last one that this process wrote down or read."""

    loop: Loop | None = None
    reply: Entry | None = None


class Desk:
    """The collaborators of all steps. For one event loop."""

    def __init__(
        self,
        *,
        loops: LoopStore,
        tables: KnowledgeTables,
        search: KnowledgeSearch,
        stores: Stores,
        directory: Directory,
        rules: KnowledgeRules,
    ) -> None:
        self.loops = loops
        self.directory = directory
        self.rules = rules
        self._tables = tables
        self._search = search
        self._stores = stores
        self._remembered: OrderedDict[tuple[Scope, str], _Remembered] = OrderedDict()

    # -------------------------------------------------------------------------------------------------------------- reading

    async def loop(self, ref: LoopRef) -> Loop:
        """As it is now. Raises InvalidInput where there is none."""
        found = await self.loops.loop(ref.user.scope, ref.loop_id)
        if found is None:
            raise InvalidInput("there is no such loop of this user")
        self._remember(ref).loop = found
        return found

    async def request(self, ref: LoopRef) -> Loop:
        """What never changes of it; its state may be an older one."""
        known = self._remembered.get(_key(ref))
        return known.loop if known is not None and known.loop is not None else await self.loop(ref)

    async def entries(self, ref: LoopRef, *, after: int = 0) -> list[Entry]:
        """All entries beyond ``after``, by number."""
        found: list[Entry] = []
        while True:
            page = await self.loops.entries(ref.user.scope, ref.loop_id, after=after, limit=PAGE)
            found.extend(page)
            if len(page) < PAGE:
                return found
            after = page[-1].number

    async def reply(self, ref: LoopRef, number: int) -> Entry:
        """The model's reply in entry ``number``. Raises InvalidInput where it is none."""
        known = self._remembered.get(_key(ref))
        found = known.reply if known is not None else None
        if found is None or found.number != number:
            page = await self.loops.entries(ref.user.scope, ref.loop_id, after=number - 1, limit=1)
            found = page[0] if page and page[0].number == number and page[0].kind is EntryKind.MODEL else None
        if found is None:
            raise InvalidInput(f"entry {number} is no reply of a model")
        self.keep_in_mind(ref, found)
        return found

    async def hands(self, ref: LoopRef) -> Hands:
        """The permissions are those of now."""
        scope = ref.user.scope
        loop, teams = await asyncio.gather(self.request(ref), self.directory.memberships(scope))
        return self._hands(scope, loop, teams)

    def _hands(self, scope: Scope, loop: Loop, teams: Mapping[str, bool]) -> Hands:
        owners = {f"team:{team}": Owner.team(scope.tenant, team) for team in teams}
        writable = {PERSONAL: Owner.user(scope)} | {name: owner for name, owner in owners.items() if teams[name[5:]]}
        tools = Toolbox(
            tables=self._tables,
            search=self._search,
            stores=self._stores,
            view=View(scope, tuple(owners.values())),
            loop=loop,
            writable=writable,
            readable=[name for name in owners if name not in writable],
        )
        return Hands(tools, [(team, may) for team, may in teams.items()])

    # -------------------------------------------------------------------------------------------------------------- writing

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

    def keep_in_mind(self, ref: LoopRef, reply: Entry) -> None:
        """The next steps ask for this reply."""
        self._remember(ref).reply = reply

    def forget(self, ref: LoopRef) -> None:
        self._remembered.pop(_key(ref), None)

    def _remember(self, ref: LoopRef) -> _Remembered:
        found = self._remembered.setdefault(_key(ref), _Remembered())
        self._remembered.move_to_end(_key(ref))
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return found


def _key(ref: LoopRef) -> tuple[Scope, str]:
    return ref.user.scope, ref.loop_id
