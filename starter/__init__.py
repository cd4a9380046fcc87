"""What an orchestrator imports. See :class:`starter.client.MemoryClient`.

The names are loaded when they are asked for, so that the command line and the engines do not pay for what they do not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory.model.errors import (
        AfterturnError,
        InvalidInput,
        InvalidSettings,
        MemoryUnavailable,
        RootClash,
        UnreadableProfile,
    )
    from memory.model.scope import Scope
    from memory.model.steps import WriteStatus
    from memory.model.turn import Turn
    from memory.ports import Notice
    from memory.settings import Settings, load_settings
    from starter.client import MemoryClient, Parts
    from starter.views import (
        DrainResult,
        EditResult,
        LoadedMemory,
        LoadReason,
        ProfileVersion,
        ProfileView,
        Receipt,
        ReceiptStatus,
        RerunResult,
        UserStatus,
    )

__all__ = [
    "AfterturnError",
    "DrainResult",
    "EditResult",
    "InvalidInput",
    "InvalidSettings",
    "LoadReason",
    "LoadedMemory",
    "MemoryClient",
    "MemoryUnavailable",
    "Notice",
    "Parts",
    "ProfileVersion",
    "ProfileView",
    "Receipt",
    "ReceiptStatus",
    "RerunResult",
    "RootClash",
    "Scope",
    "Settings",
    "Turn",
    "UnreadableProfile",
    "UserStatus",
    "WriteStatus",
    "load_settings",
]

_HOMES = {
    "memory.model.errors": (
        "AfterturnError",
        "InvalidInput",
        "InvalidSettings",
        "MemoryUnavailable",
        "RootClash",
        "UnreadableProfile",
    ),
    "memory.model.scope": ("Scope",),
    "memory.model.steps": ("WriteStatus",),
    "memory.model.turn": ("Turn",),
    "memory.ports": ("Notice",),
    "memory.settings": ("Settings", "load_settings"),
    "starter.client": ("MemoryClient", "Parts"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "starter.views")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
