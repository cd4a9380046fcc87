"""Rows of a benchmark: what they hold, how they are judged, stored and shown.

A row of ``bench/results.json`` has ``measure``, ``value``, ``unit``, ``compared_with``, ``reach`` (``"≤ 1.5"``, null where a value
is only reported) and ``ok`` (null: only reported, or not measured); then ``group`` (the name for ``ONLY=``), ``note`` and any
further figures of that measure (``ours`` and ``theirs`` are absolute and say little on another machine).
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from rich.table import Table

KEYS: Final = ("measure", "value", "unit", "compared_with", "reach", "ok")


class BenchError(Exception):
    """A measure could not be taken; one line that says why."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a value is to stay within: ``most`` (at most) or ``least`` (at least), in the row's unit."""

    most: float | None = None
    least: float | None = None

    def __post_init__(self) -> None:
        if (self.most is None) == (self.least is None):
            raise ValueError("a reach has either an upper or a lower bound")

    def holds(self, value: float) -> bool:
        return value <= self.most if self.most is not None else self.least is not None and value >= self.least

    def __str__(self) -> str:
        return f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``value`` None: it was not measured, and ``note`` says why. ``details``: further keys of the JSON row."""

    measure: str
    value: float | None
    unit: str
    compared_with: str
    reach: Reach | None = None
    note: str = ""
    failed: bool = False
    """The measure broke: not ok, although there is no value to judge."""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ok(self) -> bool | None:
        if self.failed:
            return False
        return None if self.value is None or self.reach is None else self.reach.holds(self.value)

    def to_json(self, group: str) -> dict[str, Any]:
        clash = set(self.details) & {*KEYS, "group", "note"}
        if clash:
            raise ValueError(f"{self.measure}: details use the keys {sorted(clash)}")
        row: dict[str, Any] = {
            "measure": self.measure,
            "value": None if self.value is None else round(self.value, 4),
            "unit": self.unit,
            "compared_with": self.compared_with,
            "reach": None if self.reach is None else str(self.reach),
            "ok": self.ok,
            "group": group,
        }
        if self.note:
            row["note"] = self.note
        return row | {key: _rounded(value) for key, value in self.details.items()}


def ratio_row(
    measure: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    compared_with: str,
    reach: Reach | None,
    scale: float = 1.0,
    unit_of_both: str,
    note: str = "",
    **details: Any,
) -> Row:
    """The median over rounds of ours / theirs. Args: one figure per round and side; ``scale`` turns them into ``unit_of_both``."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Row(
        measure,
        statistics.median(ratios),
        "ratio",
        compared_with,
        reach,
        note,
        details={
            "ours": statistics.median(ours) * scale,
            "theirs": statistics.median(theirs) * scale,
            "unit_of_both": unit_of_both,
            "rounds": [round(one, 3) for one in ratios],
            **details,
        },
    )


def skipped(measure: str, unit: str, compared_with: str, why: str, reach: Reach | None = None) -> Row:
    return Row(measure, None, unit, compared_with, reach, note=f"skipped: {why}")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Mapping):
        return {str(key): _rounded(one) for key, one in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in cast(Sequence[Any], value)]
    return value


def read_results(path: Path) -> list[dict[str, Any]]:
    """The rows of the last runs; none when there is no file. Raises BenchError for a file that is not ours."""
    try:
        content: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be read ({type(error).__name__}); remove it") from None
    rows: list[Any] = cast(list[Any], content) if isinstance(content, list) else [None]
    if not all(isinstance(row, dict) and set(KEYS) <= set(cast(dict[str, Any], row)) for row in rows):
        raise BenchError(f"{path} is not a list of benchmark rows; remove it")
    return rows


def write_results(path: Path, rows: Sequence[Mapping[str, Any]], *, order: Iterable[str]) -> list[dict[str, Any]]:
    """Put these rows in the place of earlier ones of their groups, in the order of the groups. Returns what the file now has."""
    groups = list(order)
    measured = {row["group"] for row in rows}
    kept = [row for row in read_results(path) if row.get("group") in groups and row["group"] not in measured]
    merged = sorted([*kept, *map(dict, rows)], key=lambda row: groups.index(row["group"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n", "utf-8")
    os.replace(partial, path)
    return merged


def results_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="afterturn bench", title_justify="left", header_style="bold")
    table.add_column("measure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("reach", justify="right", no_wrap=True)
    table.add_column("ok")
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("theirs", justify="right", no_wrap=True)
    table.add_column("compared with, notes", overflow="fold")
    marks = {True: "[green]yes[/]", False: "[red]NO[/]", None: "–"}
    for row in rows:
        unit = row.get("unit_of_both", "")
        table.add_row(
            row["measure"],
            "–" if row["value"] is None else f"{_shown(row['value'])} {'' if row['unit'] == 'ratio' else row['unit']}".rstrip(),
            row["reach"] or "",
            marks[row["ok"]],
            f"{_shown(row['ours'])} {unit}" if "ours" in row else "",
            f"{_shown(row['theirs'])} {unit}" if "theirs" in row else "",
            "; ".join(part for part in (row["compared_with"], row.get("note", "")) if part),
        )
    return table


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
