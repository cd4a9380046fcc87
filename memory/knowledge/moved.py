"""What a loop has copied or moved elsewhere, read from its entries: what ``refactor`` may delete afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from memory.knowledge.guard import place
from memory.model.knowledge_loop import Entry, EntryKind, Loop

_MOVES: Final = frozenset({"copy_column", "move_column"})


def moved_by(loop: Loop, entries: Iterable[Entry]) -> frozenset[str]:
    """Columns whose values are in another table by a call that was carried out; see :func:`memory.knowledge.guard.place`.

    A column that has itself received values is the only holder of them and does not count any more.
    """
    calls: dict[int, Sequence[Mapping[str, Any]]] = {}
    moved: set[str] = set()
    for entry in entries:
        if entry.kind is EntryKind.MODEL:
            calls[entry.step] = entry.body.get("calls") or ()
        elif entry.kind is EntryKind.RESULT and not entry.body.get("is_error"):
            index = int(entry.key.rpartition("/")[2])
            call = calls.get(entry.step, ())[index : index + 1]
            for one in call:
                arguments: Mapping[str, Any] = one.get("arguments") or {}
                _follow(moved, str(one["name"]), arguments, str(arguments.get("destination") or loop.destination))
    return frozenset(moved)


def _follow(moved: set[str], name: str, arguments: Mapping[str, Any], destination: str) -> None:
    def at(table: str, column: str) -> str:
        return place(destination, str(arguments.get(table)), str(arguments.get(column)))

    def rename(old: str, new: str) -> None:
        for one in [one for one in moved if one.startswith(old)]:
            moved.discard(one)
            moved.add(new + one[len(old) :])

    if name in _MOVES:
        moved.discard(at("dest_table", "column_name"))
        moved.add(at("source_table", "column_name"))
    elif name == "rename_column":
        old, new = at("table", "old_name"), at("table", "new_name")
        moved.discard(new)
        if old in moved:
            moved.discard(old)
            moved.add(new)
    elif name == "rename_table":
        rename(place(destination, str(arguments.get("old_name")), ""), place(destination, str(arguments.get("new_name")), ""))
    elif name in ("create_derived_column", "create_empty_column", "transform_column", "delete_column"):
        moved.discard(at("table", "column_name"))
    elif name == "update_rows":
        old = place(destination, str(arguments.get("table")), "")
        moved.difference_update({one for one in moved if one.startswith(old)})
    elif name == "create_table":
        old = place(destination, str(arguments.get("name")), "")
        moved.difference_update({one for one in moved if one.startswith(old)})
    elif name == "delete_tables":
        _forget_tables(moved, arguments, destination)


def _forget_tables(moved: set[str], arguments: Mapping[str, Any], destination: str) -> None:
    tables = arguments.get("tables") or ()
    names = [tables] if isinstance(tables, str) else [str(one) for one in cast("Iterable[Any]", tables)]
    prefixes = [place(destination, name, "") for name in names]
    if start := str(arguments.get("startswith") or "").casefold():
        prefixes.append(f"{destination}/{start}")
    moved.difference_update({one for one in moved if any(one.startswith(prefix) for prefix in prefixes)})
