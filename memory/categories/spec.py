"""What a category is: one registry entry. See ``memory.categories`` for the registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory.model.category import Category
from memory.model.items import Dropped, Grounded, Item
from memory.model.owner import Owner
from memory.model.window import CategoryOutcome, StoredEvent, Window
from memory.ports import ContactStore, FactStore, FunctionStore, GuidanceStore, TaskStore
from memory.retrieval.facts import FactSearch


@dataclass(frozen=True, slots=True)
class Stores:
    """What the apply functions write to."""

    facts: FactStore
    contacts: ContactStore
    tasks: TaskStore
    guidance: GuidanceStore
    functions: FunctionStore
    search: FactSearch
    """For near duplicates; finds what is committed, with or without vectors."""


@dataclass(frozen=True, slots=True)
class ApplyContext:
    """One category of one window. ``origin``: ``window:<id>`` or ``chunk:<id>``. ``refs``: of the prompt. ``created``: contacts
    that an earlier category of this window made, by the ``new<n>`` of the reply."""

    window: Window
    events: Sequence[StoredEvent] = field(repr=False)
    refs: Mapping[str, str]
    stores: Stores
    now: datetime
    teams: tuple[Owner, ...] = ()
    """The user's, where the category reads what they know. Nothing is ever written to them."""

    @property
    def origin(self) -> str:
        return self.window.origin


@dataclass(frozen=True, slots=True)
class AddedFact:
    """A fact that a window added. ``superseded``: ids of those that it took the place of."""

    fact_id: str
    superseded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """``dropped``: items that the apply step refused (a unique field in use, a routed how-to, …).

    ``added``: facts that are new with this window; the same again when it is applied again.
    """

    outcome: CategoryOutcome
    dropped: Sequence[Dropped] = ()
    refs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Refs that this category gave a meaning, for the categories after it: ``{"new1": "12"}``."""
    added: Sequence[AddedFact] = ()


Apply = Callable[[Sequence[Grounded[Any]], ApplyContext], Awaitable[Applied]]
Check = Callable[[Item, Sequence[StoredEvent]], str | None]
"""A drop reason for an item that is grounded and still not what the category keeps; None: it stays. Pure."""


@dataclass(frozen=True, slots=True)
class CategorySpec:
    """``prompt``: name of the prompt file of its section. ``item``: type of its items; their JSON schema is the reply's.

    ``shielded_by``: managers (casefolded letters, for instance ``knowledgemanager``) whose calls make an item handled.
    """

    category: Category
    prompt: str
    item: type[Item]
    apply: Apply
    check: Check | None = None
    shielded_by: frozenset[str] = frozenset()
    reads_teams: bool = False
    """It is told of what the user's teams know."""
    user_evidence: bool = True
    """At least one quote has to be somebody's other than the assistant's."""
