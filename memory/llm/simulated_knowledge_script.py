"""Scripts in place of rules: what the simulated model does in each step of a loop, for tests and demonstrations.

A script is a JSON list of steps in the instructions of a request, after the word ``SCRIPT:``, or, for the model
``simulated:script``, in the request itself (from its first ``[`` on). A step is an answer as text, or an object
``{"text": …, "calls": [{"name": …, "arguments": …}]}``; ``arguments`` that are a text are given as they are, broken or not. Each
reply of the conversation is one step. ``{"repeat": true}`` in the last one makes it go on for ever.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

MARKER: Final = "SCRIPT:"
MODEL: Final = "simulated:script"


def script_of(system: str, request: str) -> list[Any] | None:
    """The steps; None where there is no script, or none that can be read."""
    _, marked, after = system.rpartition(MARKER)
    text = after if marked else request
    start = text.find("[")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return cast("list[Any]", value) if isinstance(value, list) else None


def scripted(steps: list[Any], number: int, *, last: bool) -> tuple[str, list[tuple[str, Any]]]:
    """Text and calls of a step, 0 at first. After the script, and where nothing can be called any more, an answer."""
    step = steps[number] if number < len(steps) else None
    if step is None and steps and _object(steps[-1]).get("repeat"):
        step = steps[-1]
    if isinstance(step, str):
        return step, []
    about = _object(step)
    if not about or last:
        return "(simulated) The script is at its end.", []
    calls: list[tuple[str, Any]] = []
    for call in cast("list[Any]", about.get("calls") or []):
        if made := _object(call):
            calls.append((str(made.get("name")), made.get("arguments", {})))
    return str(about.get("text") or ""), calls


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
