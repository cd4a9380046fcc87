"""What a tool call gives back to the model: JSON, bounded, an error as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from memory.model.federation import LEFT_OUT
from memory.model.knowledge import ToolProblem
from memory.model.knowledge_loop import MAX_RESULT_BYTES

CUT: Final = "_cut"
"""Beside what is shown of a result that was too long. Names of tables and columns never begin with an underscore."""
_ROOM: Final = 600
_TELLS: Final = (
    "Too much to show at once: narrow the filter, ask for fewer columns (the select of a join), lower the limit, go on with offset."
)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """``content``: JSON for the model. ``code``: of an error. ``rows``: read or written, where it can be told.

    ``asked``: of ``ask`` and ``request_clarification``: the checked text; the call itself is the loop's part, ``content`` is empty.
    """

    content: str = field(repr=False)
    is_error: bool = False
    code: str | None = None
    rows: int | None = None
    asked: str | None = field(default=None, repr=False)


def problem(error: ToolProblem) -> ToolOutcome:
    content = written({"error": error.code, "message": error.message})
    return ToolOutcome(content, is_error=True, code=error.code)


def written(value: Any) -> str:
    """As JSON, letters of all scripts as they are."""
    text = json.dumps(value, ensure_ascii=False, default=str, separators=(", ", ": "))
    return text.encode("utf-8", "replace").decode()


def rendered(value: Any, *, most: int = MAX_RESULT_BYTES) -> tuple[str, int | None]:
    """The JSON of a result within ``most`` bytes, and how many rows it had. Longer ones are cut by rows and say so."""
    rows = _count(value)
    text = written(value)
    if len(text.encode()) <= most:
        return text, rows
    room = most - _ROOM
    if _is_rows(value):
        shown = _fitting(cast("Sequence[Any]", value), room)
        return written({"rows": shown, CUT: {"shown": len(shown), "of": len(value), "how": _TELLS}}), rows
    if isinstance(value, Mapping):
        return _cut_mapping(cast("Mapping[str, Any]", value), room), rows
    return written({"text": _start(str(value), room // 4), CUT: {"how": _TELLS}}), rows


def _cut_mapping(value: Mapping[str, Any], room: int) -> str:
    """Rows by table: every table gets a fair share. Other mappings: the first entries."""
    shown: dict[str, Any] = {}
    cut: dict[str, Any] = {}
    left, waiting = room, len(value)
    for name, one in sorted(value.items(), key=lambda item: len(written(item[1]))):
        share = left // max(1, waiting)
        waiting -= 1
        size = len(written({name: one}).encode())
        if size <= share:
            shown[name], left = one, left - size
        elif _is_rows(one) and one:
            part = _fitting(one, share - len(name.encode()) - 80)
            shown[name], cut[name] = part, {"shown": len(part), "of": len(one)}
            left -= len(written({name: part}).encode()) + 80
        else:
            cut[name] = {"shown": 0}
    shown = {name: shown[name] for name in value if name in shown}
    if len(cut) > 20:
        cut = {"names": f"{len(cut)} of {len(value)}"}
    return written({**shown, CUT: {**cut, "how": _TELLS}})


def _fitting(rows: Sequence[Any], room: int) -> list[Any]:
    shown: list[Any] = []
    for row in rows:
        room -= len(written(row).encode()) + 2
        if room < 0:
            break
        shown.append(row)
    return shown


def _is_rows(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _count(value: Any) -> int | None:
    if _is_rows(value):
        return len(value)
    if isinstance(value, Mapping):
        parts = [part for name, part in cast("Mapping[str, Any]", value).items() if name != LEFT_OUT]
        if parts and all(_is_rows(part) for part in parts):
            return sum(len(part) for part in parts)
    return None


def _start(text: str, most: int) -> str:
    return text[: max(0, most)]
