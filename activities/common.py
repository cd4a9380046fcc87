"""What several activities do in the same way."""

from __future__ import annotations

import time

from memory.model.directory import MemoryFacts
from memory.model.errors import RootClash
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports import Directory


async def only_root(directory: Directory, scope: Scope, facts: MemoryFacts) -> str:
    """The company's one root, provisioned on first use. Raises RootClash when several are active."""
    if len(facts.active_roots) > 1:
        raise RootClash(f"active memory roots clash: {', '.join(facts.active_roots)}")
    if facts.active_roots:
        return facts.active_roots[0]
    return (await directory.provision_root(scope.tenant, facts.space.root_folder)).folder


async def teams_of(directory: Directory, scope: Scope) -> tuple[Owner, ...]:
    """The teams that the user is in now, whoever asks; what they know may be read."""
    return View.of(scope, await directory.teams(scope)).teams


def since(began: float) -> int:
    """Milliseconds since a reading of ``time.perf_counter()``."""
    return round((time.perf_counter() - began) * 1000)
