"""Which categories a window may have: the deployment's flags, the switches of the spaces it was said in, the user's own wish."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from memory.categories import REGISTRY
from memory.model.category import Category
from memory.model.directory import MemoryFacts
from memory.model.enablement import effective_enablement
from memory.model.errors import InvalidSettings
from memory.model.scope import Scope
from memory.model.window import StoredEvent, Window, WindowKind
from memory.ports import Directory

_log = structlog.get_logger("afterturn.windows")

NO_CATEGORY = "no_category"
"""Why a window is consumed without a model: every category is off."""
UNREADABLE_SPACE = "invalid_space_settings"


@dataclass(frozen=True, slots=True)
class WindowRules:
    """What the deployment's settings say about windows."""

    size: int
    flags: Mapping[Category, bool]
    model: str
    model_timeout_s: float
    store_retry_for_s: float
    feature_flag: bool | frozenset[str]
    allow_with_web_search: bool
    embed_events: bool
    idle_s: float
    attempts: int
    retry_s: float
    retention_days: Mapping[str, int]
    continue_after_windows: int = 100


class Switches:
    """What is on now, asked anew at every plan."""

    def __init__(self, directory: Directory, rules: WindowRules) -> None:
        self._directory = directory
        self._rules = rules

    async def as_of_now(self, window: Window, events: Sequence[StoredEvent]) -> Window:
        """A window that was planned before (handed in as a chunk, left by a crash, reopened): what is off since is not learned.

        One without categories (its caller left them open, or it was skipped) has those that are on now. Of the others the plan
        stands, but for spaces where memory, or the category itself, was switched off since.
        """
        scope = window.scope
        if not window.categories:
            done = {outcome.category for outcome in window.outcomes if outcome.state == "done"}
            categories, spaces_off, reason = await self.categories(scope, events)
            again = tuple(category for category in categories if category not in done)
            model = self._rules.model if window.kind is WindowKind.EVENTS else window.model
            return window.model_copy(update={"categories": again, "spaces_off": spaces_off, "reason": reason, "model": model})
        facts = await self._space_facts(scope, events)
        shut = {space for space, found in facts.items() if found is None or self._reasons(scope, found)}
        on: list[Category] = []
        off: dict[Category, tuple[str, ...]] = {}
        for category in window.categories:
            switched_off = {
                space for space, found in facts.items() if found and found.space.memory_categories.get(category) is False
            }
            without = shut | switched_off | set(window.spaces_off.get(category, ()))
            if len(without) < len(facts):
                on.append(category)
                if without:
                    off[category] = tuple(sorted(without))
        if tuple(on) == window.categories and off == window.spaces_off:
            return window
        return window.model_copy(
            update={"categories": tuple(on), "spaces_off": off, "reason": None if on else self._why_off(scope, facts)}
        )

    async def categories(
        self, scope: Scope, events: Sequence[StoredEvent]
    ) -> tuple[tuple[Category, ...], dict[Category, tuple[str, ...]], str | None]:
        """Categories that are on in a space of these events, where each is off, and why none is on."""
        facts = await self._space_facts(scope, events)
        off: dict[Category, tuple[str, ...]] = {}
        on: list[Category] = []
        for category in (spec.category for spec in REGISTRY):
            without = tuple(space for space, found in facts.items() if not self._is_on(scope, found, category))
            if len(without) < len(facts):
                on.append(category)
                if without:
                    off[category] = without
        if on:
            return tuple(on), off, None
        return (), {}, self._why_off(scope, facts)

    def _why_off(self, scope: Scope, facts: Mapping[str, MemoryFacts | None]) -> str:
        codes = [code for found in facts.values() for code in (self._reasons(scope, found) if found else [UNREADABLE_SPACE])]
        return ",".join(dict.fromkeys(codes)) or NO_CATEGORY

    async def _space_facts(self, scope: Scope, events: Sequence[StoredEvent]) -> dict[str, MemoryFacts | None]:
        """By space of these events; None: its settings cannot be read."""
        spaces = sorted({event.space_id for event in events}) or ["default"]
        return dict(zip(spaces, await asyncio.gather(*(self._facts(scope, space) for space in spaces)), strict=True))

    async def _facts(self, scope: Scope, space_id: str) -> MemoryFacts | None:
        try:
            return await self._directory.facts(scope, space_id)
        except InvalidSettings as error:
            # One space that cannot be read must not hold up the user's events in all others.
            _log.error("space_unreadable", tenant=scope.tenant, error=error.message)
            return None

    def _is_on(self, scope: Scope, facts: MemoryFacts | None, category: Category) -> bool:
        if facts is None or self._reasons(scope, facts):
            return False
        return facts.space.memory_categories.get(category, self._rules.flags[category])

    def _reasons(self, scope: Scope, facts: MemoryFacts) -> list[str]:
        """Why memory is off now. The caller's consent and the web search of a turn were asked when it was recorded."""
        enablement = effective_enablement(
            feature_flag=self._rules.feature_flag,
            allow_with_web_search=self._rules.allow_with_web_search,
            tenant=scope.tenant,
            facts=facts,
            allow_user_memory=True,
            web_search=False,
        )
        return [reason.code.value for reason in enablement.reasons]
