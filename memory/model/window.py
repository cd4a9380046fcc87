"""A window: a run of a user's events that is consolidated once. A chunk: a transcript handed in for the same treatment."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from memory.model.category import Category
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.items import Dropped
from memory.model.scope import Scope


class StoredEvent(BaseModel):
    """``seq``: its number in the user's log (in a chunk: its place). ``space_id``: where it was said."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    seq: int
    event: MessageEvent | ManagerMethodEvent = Field(discriminator="kind")
    space_id: str = "default"
    recorded_at: AwareDatetime


class WindowKind(StrEnum):
    EVENTS = "events"
    CHUNK = "chunk"


class WindowState(StrEnum):
    PLANNED = "planned"
    """In work, or waiting to be."""
    DONE = "done"
    PARTIAL = "partial"
    """Some categories failed; the others stand. It can be run again: only those are."""
    FAILED = "failed"
    """Extraction failed for good; the events are kept and the window can be run again."""
    SKIPPED = "skipped"
    """Consumed without a model: all categories off, memory off, or no message in it."""


class WindowTrigger(StrEnum):
    SIZE = "size"
    FLUSH = "flush"
    IDLE = "idle"
    CHUNK = "chunk"


class CategoryOutcome(BaseModel):
    """Counts of one category. ``applied``: items that changed something; ``confirmed``: known already."""

    model_config = ConfigDict(frozen=True)

    category: Category
    state: str = "done"
    """``done`` or ``failed``."""
    reason: str | None = None
    proposed: int = 0
    applied: int = 0
    confirmed: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    """By :class:`memory.model.items.DropReason`."""


class Window(BaseModel):
    """A row of the window ledger. ``window_id``: ``w<number>`` for events, ``chunk-<hash>`` for chunks; unique per user.

    ``attempt``: 0 at first; each rerun adds one. ``categories``: those of the plan, in the order in which they are applied.
    ``spaces_off``: by category, the spaces whose events it may not use.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    scope: Scope
    window_id: str
    kind: WindowKind = WindowKind.EVENTS
    trigger: WindowTrigger = WindowTrigger.SIZE
    first_seq: int
    last_seq: int
    events: int
    state: WindowState = WindowState.PLANNED
    attempt: int = 0
    reason: str | None = None
    categories: tuple[Category, ...] = ()
    spaces_off: dict[Category, tuple[str, ...]] = Field(default_factory=dict)
    guidance: str | None = Field(default=None, repr=False)
    """The caller's free text for a chunk."""
    model: str | None = None
    outcomes: tuple[CategoryOutcome, ...] = ()
    flags: tuple[str, ...] = ()
    usage: dict[str, dict[str, int]] = Field(default_factory=dict)
    durations_ms: dict[str, int] = Field(default_factory=dict)
    run_id: str | None = None
    workflow_id: str | None = None
    planned_at: AwareDatetime
    finished_at: AwareDatetime | None = None

    @property
    def origin(self) -> str:
        """``window:<id>`` or ``chunk:<id>``: what sources, and loops that it opened, say of where they come from."""
        prefix = "" if self.window_id.startswith("chunk-") else "window:"
        return prefix + self.window_id.replace("chunk-", "chunk:", 1)


def shown_events(window: Window, events: Iterable[StoredEvent]) -> list[StoredEvent]:
    """Those that a model may see: not the ones of spaces in which all of the window's categories are off."""
    shut = [set(window.spaces_off.get(category, ())) for category in window.categories]
    hidden: set[str] = shut[0].intersection(*shut[1:]) if shut else set()
    return [stored for stored in events if stored.space_id not in hidden]


class CategoryExtraction(BaseModel):
    """What was read of one category. ``failed``: why the model's reply for it could not be used (no text)."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    category: Category
    items: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    """:class:`Grounded` items in JSON form, in the order to apply; the category's registry entry knows their type."""
    dropped: tuple[Dropped, ...] = Field(default=(), repr=False)
    refused: tuple[Dropped, ...] = Field(default=(), repr=False)
    """What the apply step did not take; the step writes it."""
    proposed: int = 0
    failed: str | None = None


class Extraction(BaseModel):
    """The stored result of the extract step of one window and attempt. ``refs``: what the refs of the prompt stand for:
    ``{"c3": "3", "f1": "<fact id>", "t1": "<task id>"}``."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    window_id: str
    attempt: int
    prompt_version: str
    model: str
    refs: dict[str, str] = Field(default_factory=dict)
    categories: tuple[CategoryExtraction, ...] = ()
    flags: tuple[str, ...] = ()
    """``more_room``, ``split:<n>``, ``repaired:<category>``, …"""

    def of(self, category: Category) -> CategoryExtraction | None:
        return next((one for one in self.categories if one.category is category), None)
