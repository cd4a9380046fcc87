"""Tools that a language model can call: what is offered, what was called, what came back. Provider-independent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_TOOL_CALLS: Final = 16
"""Calls of one reply; those beyond are answered with an error and not made."""
MAX_ARGUMENT_CHARS: Final = 256 * 1024
"""Of one call's arguments, as text."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """``parameters``: a JSON schema of type object. ``name``: ``[a-zA-Z0-9_-]{1,64}``, what both providers take."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model asked for; untrusted. ``arguments`` None: ``raw`` is no JSON object; the call is answered with an error.

    ``call_id``: the provider's, or one made from the position for a call that stood in the text. ``beyond``: it is one more than
    :data:`MAX_TOOL_CALLS`, and answered with an error too.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None = field(repr=False)
    raw: str = field(default="", repr=False)
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class ToolResult:
    """``content``: JSON or text, for the model to read."""

    call_id: str
    name: str
    content: str = field(repr=False)
    is_error: bool = False
