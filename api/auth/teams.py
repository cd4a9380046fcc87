"""The memberships that the directory keeps, brought in line with what tokens say of a user's teams."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from memory.model.access import Principal
from memory.model.errors import BeingForgotten
from memory.model.scope import Scope
from memory.ports import Directory

MAX_USERS: Final = 20_000
AGAIN_S: Final = 600.0
"""Looked at again after this time: another process, or a person at the command line, may have changed them."""


class TeamSync:
    """Once per change: what was brought in line is remembered for the users seen last."""

    def __init__(self, directory: Directory, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], tuple[int, float, float]] = OrderedDict()

    async def bring_in_line(self, principal: Principal, *, issued_at: float) -> None:
        """Nothing to do for a token that says nothing of teams, or for an older token than one seen before.

        Raises InvalidInput (too many teams), MemoryUnavailable.
        """
        if principal.teams is None or principal.subject is None:
            return
        scope = Scope.of(principal.tenant_id, principal.subject)
        who, reads = (scope.tenant, scope.user), frozenset(principal.read_only_teams)
        wanted = {team: team not in reads for team in principal.teams}
        digest = hash(frozenset(wanted.items()))
        known = self._known.get(who)
        if known is not None:
            if issued_at < known[1]:
                return
            if known[0] == digest and self._clock() - known[2] < AGAIN_S:
                self._known.move_to_end(who)
                return
        if dict(await self._directory.memberships(scope)) != wanted:
            try:
                await self._directory.set_teams(scope, principal.teams, read_only=principal.read_only_teams)
            except BeingForgotten:
                return  # whoever begins anew afterwards has them set then
        self._known[who] = (digest, issued_at, self._clock())
        self._known.move_to_end(who)
        while len(self._known) > MAX_USERS:
            self._known.popitem(last=False)
