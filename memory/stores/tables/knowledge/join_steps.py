"""The steps of a join, read and checked: which tables, which columns, and expressions over ``table.column``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memory.model.expression import Expression, parse_expression
from memory.model.federation import together
from memory.model.knowledge import MAX_NAME_CHARS, ColumnType, JoinStep, Table, ToolProblem
from memory.model.knowledge_names import name_key
from memory.model.knowledge_values import shortened

LEFT: Final = "__left"
RIGHT: Final = "__right"
"""How the sides are called in the tree of an expression; no name of a caller begins like that."""
PREVIOUS: Final = ("$prev", "__prev__", "_")
MODES: Final = ("inner", "left", "right", "outer")
MAX_STEPS: Final = 8
MAX_SELECTED: Final = 200

Types = Mapping[str, ColumnType]


@dataclass(frozen=True, slots=True)
class Step:
    """``tables``: as they were named; None for the result of the step before. ``select``: side, column, name in the result."""

    tables: tuple[str | None, str | None]
    on: Expression
    select: tuple[tuple[str, str, str], ...]
    mode: str
    left_where: Expression | None
    right_where: Expression | None
    types: Types

    def names(self, side: str) -> set[str]:
        """The columns that the join itself needs of a side."""
        asked = {name.split(".", 1)[1] for name in self.on.names if name.split(".", 1)[0] == side}
        return asked | {column for of, column, _ in self.select if of == side}


def tables_in(steps: Sequence[JoinStep]) -> list[str]:
    """The tables that are named in all steps. Raises ToolProblem (``bad_arguments``)."""
    if not 1 <= len(steps) <= MAX_STEPS:
        raise ToolProblem("bad_arguments", f"joins is a list of 1 to {MAX_STEPS} steps")
    found: list[str] = []
    for number, step in enumerate(steps):
        names = list(step.tables)
        if len(names) != 2 or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ToolProblem("bad_arguments", f"{_at(number)}tables is a list of two names")
        previous = [name for name in names if name in PREVIOUS]
        if number == 0 and previous:
            raise ToolProblem("bad_arguments", f"{_at(number)}there is no previous result in the first step")
        if number > 0 and len(previous) != 1:
            raise ToolProblem("bad_arguments", f"{_at(number)}one of the two tables is $prev, the result of the step before")
        others = [name for name in names if name not in PREVIOUS]
        if len(others) == 2 and name_key(others[0]) == name_key(others[1]):
            raise ToolProblem("bad_arguments", f"{_at(number)}a table cannot be joined with itself")
        found += others
    return list(dict.fromkeys(found))


def planned(steps: Sequence[JoinStep], tables: Mapping[str, Sequence[Table]]) -> list[Step]:
    """Raises ToolProblem for what does not fit the tables, with the step where there are several."""
    tables_in(steps)
    found: list[Step] = []
    for number, step in enumerate(steps):
        at = _at(number) if len(steps) > 1 else ""
        sides = [found[-1].types if name in PREVIOUS else together(tables[name]).types for name in step.tables]
        try:
            found.append(_Reader(step, sides[0], sides[1]).step())
        except ToolProblem as problem:
            raise ToolProblem(problem.code, f"{at}{problem.message}") from None
    return found


class _Reader:
    def __init__(self, step: JoinStep, left: Types, right: Types) -> None:
        self._step = step
        self._types = {LEFT: left, RIGHT: right}
        self._names = dict(zip((LEFT, RIGHT), step.tables, strict=True))
        self._aliases: dict[str, str] = {}
        for side, name in self._names.items():
            for alias in PREVIOUS if name in PREVIOUS else (name,):
                self._aliases[alias] = side
        bare = {side: name.rpartition(".")[2] for side, name in self._names.items()}
        if name_key(bare[LEFT]) != name_key(bare[RIGHT]):
            for side, name in bare.items():
                self._aliases.setdefault(name, side)

    def step(self) -> Step:
        step = self._step
        if step.mode not in MODES:
            raise ToolProblem("bad_arguments", f"{shortened(step.mode)} is no mode; there are {', '.join(MODES)}")
        selected = tuple(self._selected(key, name) for key, name in self._select().items())
        types = {name: self._types[side][column] for side, column, name in selected}
        names = [None if name in PREVIOUS else name for name in step.tables]
        return Step(
            (names[0], names[1]),
            self._parsed(step.join_expr, "join_expr", (LEFT, RIGHT)),
            selected,
            step.mode,
            None if step.left_where is None else self._parsed(step.left_where, "left_where", (LEFT,)),
            None if step.right_where is None else self._parsed(step.right_where, "right_where", (RIGHT,)),
            types,
        )

    def _parsed(self, text: str, what: str, sides: Sequence[str]) -> Expression:
        """Columns are named with their table, or alone where only one of the sides has them."""
        columns = {f"{side}.{name}": type_ for side in sides for name, type_ in self._types[side].items()}
        names = [name for side in sides for name in self._types[side]]
        alone = {name: f"{side}.{name}" for side in sides for name in self._types[side] if names.count(name) == 1}
        try:
            return parse_expression(text, columns, what=what, aliases=self._aliases, alone=alone)
        except ToolProblem as problem:
            message = problem.message
            for side, name in self._names.items():
                message = message.replace(f"{side}.", f"{name}.")
            raise ToolProblem(problem.code, message) from None

    def _select(self) -> Mapping[str, str]:
        given: Any = self._step.select
        if not isinstance(given, Mapping) or not 1 <= len(given) <= MAX_SELECTED:  # pyright: ignore[reportUnknownArgumentType]
            raise ToolProblem("bad_arguments", 'select is a dict such as {"A.x": "x"}, with at least one column')
        names: list[Any] = list(self._step.select.values())
        for name in names:
            if not isinstance(name, str) or not name.isidentifier() or len(name) > MAX_NAME_CHARS or name.startswith("_"):
                hint = "; names with an underscore in front, such as _source, are not given" if str(name).startswith("_") else ""
                raise ToolProblem("bad_arguments", f"select: {shortened(name)} is no name for a column of the result{hint}")
        if len(set(names)) < len(names):
            raise ToolProblem("bad_arguments", "select: two columns of the result have the same name")
        return self._step.select

    def _selected(self, key: str, name: str) -> tuple[str, str, str]:
        table, _, column = str(key).rpartition(".")
        known = {alias.casefold(): side for alias, side in self._aliases.items()}
        sides = [known[table.casefold()]] if table.casefold() in known else [LEFT, RIGHT] if not table else []
        found = [side for side in sides if column in self._types[side]]
        if len(found) != 1:
            listed = "; ".join(f"{self._names[side]} has {', '.join(self._types[side])}"[:500] for side in (LEFT, RIGHT))
            raise ToolProblem("unknown_column", f"select: {shortened(key)} is no column of one of the two tables; {listed}")
        return found[0], column, name


def _at(number: int) -> str:
    return f"step {number + 1}: "
