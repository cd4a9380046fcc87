"""What a loop has copied or moved elsewhere and which tables it has made, read from its entries.

``refactor`` may delete what is elsewhere. That it still is, :mod:`memory.knowledge.lossless` asks the tables themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from memory.model.knowledge_loop import Entry, EntryKind, Loop
from memory.model.knowledge_names import name_key

_COPIES: Final = frozenset({"copy_column", "move_column"})
_MADE: Final = "made:"
_TO: Final = ">"

Place = tuple[str, str, str]
"""(destination, table, column), as names are compared."""


@dataclass
class Moves:
    """``copies``: a column → where its values were put, the last one last. ``made``: tables of this loop."""

    copies: list[tuple[Place, Place]] = field(default_factory=list[tuple[Place, Place]])
    made: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def written(self) -> frozenset[str]:
        """As strings, in no order."""
        pairs = {f"{'/'.join(source)}{_TO}{'/'.join(target)}" for source, target in self.copies}
        return frozenset(pairs | {_MADE + "/".join(table) for table in self.made})

    @classmethod
    def read(cls, written: Collection[str]) -> Moves:
        moves = cls()
        for one in sorted(written):
            if one.startswith(_MADE):
                destination, _, table = one.removeprefix(_MADE).rpartition("/")
                moves.made.add((destination, table))
            else:
                source, _, target = one.partition(_TO)
                moves.copies.append((_place(source), _place(target)))
        return moves


def moved_by(loop: Loop, entries: Iterable[Entry]) -> frozenset[str]:
    """By calls that were carried out; to be read with :meth:`Moves.read`."""
    calls: dict[int, Sequence[Mapping[str, Any]]] = {}
    moves = Moves()
    for entry in entries:
        if entry.kind is EntryKind.MODEL:
            calls[entry.step] = entry.body.get("calls") or ()
        elif entry.kind is EntryKind.RESULT and not entry.body.get("is_error"):
            index = int(entry.key.rpartition("/")[2])
            for call in calls.get(entry.step, ())[index : index + 1]:
                arguments: Mapping[str, Any] = call.get("arguments") or {}
                _follow(moves, str(call["name"]), arguments, str(arguments.get("destination") or loop.destination))
    return moves.written()


def _follow(moves: Moves, name: str, arguments: Mapping[str, Any], destination: str) -> None:
    def at(table: str, column: str) -> Place:
        return destination, bare_key(str(arguments.get(table))), name_key(str(arguments.get(column)))

    if name in _COPIES:
        moves.copies.append((at("source_table", "column_name"), at("dest_table", "column_name")))
    elif name == "create_table":
        moves.made.add((destination, bare_key(str(arguments.get("name")))))
    elif name == "rename_column":
        old, new = at("table", "old_name"), at("table", "new_name")
        moves.copies = [(new if source == old else source, new if target == old else target) for source, target in moves.copies]
    elif name == "rename_table":
        old_table, new_table = (bare_key(str(arguments.get(key))) for key in ("old_name", "new_name"))

        def renamed(place: Place) -> Place:
            return (place[0], new_table, place[2]) if place[:2] == (destination, old_table) else place

        moves.copies = [(renamed(source), renamed(target)) for source, target in moves.copies]
        if (destination, old_table) in moves.made:
            moves.made = (moves.made - {(destination, old_table)}) | {(destination, new_table)}
    elif name in ("update_rows", "transform_column", "create_derived_column"):
        # It holds something of its own now.
        moves.made.discard((destination, bare_key(str(arguments.get("table")))))


def bare_key(name: str) -> str:
    """Of a table, without the source that it may be named with."""
    return name_key(name.rpartition(".")[2])


def _place(written: str) -> Place:
    rest, _, column = written.rpartition("/")
    destination, _, table = rest.rpartition("/")
    return destination, table, column
