"""Settings of a space, roots of a company, and the facts that decide whether memory is on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from memory.model.category import Category

DEFAULT_ROOT_FOLDER = "user-memory"
MIN_BUDGET_TOKENS = 500
MAX_BUDGET_TOKENS = 8000
DEFAULT_BUDGET_TOKENS = 2000


class ConsolidationMode(StrEnum):
    REWRITE = "rewrite"
    """The model returns NOOP or a complete profile."""
    EDITS = "edits"
    """The model sees numbered bullets and returns operations that the program applies."""


class SpaceSettings(BaseModel):
    """Settings per space; an absent key has the default here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context_memory: bool | None = None
    """The space's "Context memory" toggle; None (no stored key) counts as on."""
    web_search: bool = False
    use_orchestrator_language_model: bool = True
    language_model: str | None = Field(default=None, max_length=200)
    """``provider:model``, used when ``use_orchestrator_language_model`` is false; None: the deployment's."""
    max_tokens: int = Field(default=DEFAULT_BUDGET_TOKENS, ge=MIN_BUDGET_TOKENS, le=MAX_BUDGET_TOKENS)
    consolidation_gate_enabled: bool = True
    consolidation_mode: ConsolidationMode = ConsolidationMode.REWRITE
    privacy_scrub: bool = False
    show_update_notice: bool = True
    memory_categories: dict[Category, bool] = Field(default_factory=dict[Category, bool])
    """Categories of the event window that are switched on or off here; absent ones follow the deployment's flags."""
    root_folder: str = Field(default=DEFAULT_ROOT_FOLDER, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")
    """Hidden in forms."""


@dataclass(frozen=True, slots=True)
class MemoryRoot:
    """``folder``: the first segment of the object keys. A company should have exactly one active root."""

    folder: str
    active: bool


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What the stores say about a user in a space: input of :func:`memory.model.enablement.effective_enablement`."""

    space: SpaceSettings
    user_allows: bool
    active_roots: tuple[str, ...]
    """No root yet is not a fault: it is provisioned on first use."""
    forgetting: bool = False
    """Everything of the user is being deleted: whatever arrives is dropped."""
    forgotten_before: datetime | None = None
    """The user was forgotten: what was accepted until then and arrives late is dropped too."""
