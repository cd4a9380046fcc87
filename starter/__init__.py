"""What an orchestrator imports. See :class:`starter.client.MemoryClient`.

The names are loaded when they are asked for, so that the command line and the engines do not pay for what they do not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory.knowledge.registry import Primitives
    from memory.model.category import Category
    from memory.model.contact import Contact
    from memory.model.erasure import Erasure, ErasureState
    from memory.model.errors import (
        AfterturnError,
        BeingForgotten,
        InvalidInput,
        InvalidSettings,
        LoopEnded,
        MemoryUnavailable,
        NotPermitted,
        RootClash,
        UnreadableProfile,
    )
    from memory.model.event import ManagerMethodEvent, MessageEvent
    from memory.model.fact import Fact, FactKind, FactStatus
    from memory.model.knowledge_loop import Limits, Loop, LoopState, Operation
    from memory.model.scope import Scope
    from memory.model.steps import WriteStatus
    from memory.model.task import Task, TaskStatus
    from memory.model.turn import Turn
    from memory.model.window import Window, WindowState
    from memory.ports import Notice
    from memory.settings import Settings, load_settings
    from starter.client import MemoryClient, Parts
    from starter.record_facts import AddedFact, Statement
    from starter.records import UsageReport
    from starter.steering import Clarification, LoopAnswer, Notification, SteerableHandle
    from starter.views import (
        DrainResult,
        EditResult,
        EventsReceipt,
        LoadedMemory,
        LoadReason,
        ProfilePreview,
        ProfileRepair,
        ProfileVersion,
        ProfileView,
        Receipt,
        ReceiptStatus,
        RepairReport,
        RepairStatus,
        RerunResult,
        UserStatus,
    )
    from starter.windows import WindowRerun, WindowStatus, WindowView

__all__ = [
    "AddedFact",
    "AfterturnError",
    "BeingForgotten",
    "Category",
    "Clarification",
    "Contact",
    "DrainResult",
    "EditResult",
    "Erasure",
    "ErasureState",
    "EventsReceipt",
    "Fact",
    "FactKind",
    "FactStatus",
    "InvalidInput",
    "InvalidSettings",
    "Limits",
    "LoadReason",
    "LoadedMemory",
    "Loop",
    "LoopAnswer",
    "LoopEnded",
    "LoopState",
    "ManagerMethodEvent",
    "MemoryClient",
    "MemoryUnavailable",
    "MessageEvent",
    "NotPermitted",
    "Notice",
    "Notification",
    "Operation",
    "Parts",
    "Primitives",
    "ProfilePreview",
    "ProfileRepair",
    "ProfileVersion",
    "ProfileView",
    "Receipt",
    "ReceiptStatus",
    "RepairReport",
    "RepairStatus",
    "RerunResult",
    "RootClash",
    "Scope",
    "Settings",
    "Statement",
    "SteerableHandle",
    "Task",
    "TaskStatus",
    "Turn",
    "UnreadableProfile",
    "UsageReport",
    "UserStatus",
    "Window",
    "WindowRerun",
    "WindowState",
    "WindowStatus",
    "WindowView",
    "WriteStatus",
    "load_settings",
]

_HOMES = {
    "memory.knowledge.registry": ("Primitives",),
    "memory.model.category": ("Category",),
    "memory.model.contact": ("Contact",),
    "memory.model.erasure": ("Erasure", "ErasureState"),
    "memory.model.errors": (
        "AfterturnError",
        "BeingForgotten",
        "InvalidInput",
        "InvalidSettings",
        "LoopEnded",
        "MemoryUnavailable",
        "NotPermitted",
        "RootClash",
        "UnreadableProfile",
    ),
    "memory.model.event": ("ManagerMethodEvent", "MessageEvent"),
    "memory.model.fact": ("Fact", "FactKind", "FactStatus"),
    "memory.model.knowledge_loop": ("Limits", "Loop", "LoopState", "Operation"),
    "memory.model.scope": ("Scope",),
    "memory.model.steps": ("WriteStatus",),
    "memory.model.task": ("Task", "TaskStatus"),
    "memory.model.turn": ("Turn",),
    "memory.model.window": ("Window", "WindowState"),
    "memory.ports": ("Notice",),
    "memory.settings": ("Settings", "load_settings"),
    "starter.client": ("MemoryClient", "Parts"),
    "starter.record_facts": ("AddedFact", "Statement"),
    "starter.records": ("UsageReport",),
    "starter.steering": ("Clarification", "LoopAnswer", "Notification", "SteerableHandle"),
    "starter.windows": ("WindowRerun", "WindowStatus", "WindowView"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "starter.views")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
