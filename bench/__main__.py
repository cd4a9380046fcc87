"""`make bench`: prints a table and writes ``bench/results.json``.

    python -m bench [--only NAME[,NAME…]] [--out FILE] [--strict]

Exit code 1 when a measure could not be taken; with ``--strict`` also when a value is out of its reach.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bench.measures import (
    answering,
    cost,
    demo,
    http,
    knowledge_loop,
    knowledge_reads,
    knowledge_writes,
    locomo,
    search,
    tokens,
    turns,
    windows,
)
from bench.results import BenchError, Row, results_table, write_results
from memory.model.errors import AfterturnError

RESULTS: Final = Path(__file__).with_name("results.json")


@dataclass(frozen=True, slots=True)
class Measure:
    """``within_s``: it is given up after this long."""

    take: Callable[[], Awaitable[list[Row]]]
    what: str
    within_s: float = 240.0


MEASURES: Final[dict[str, Measure]] = {
    "tokens": Measure(tokens.measure, "tokens to and from the model per turn"),
    "load": Measure(answering.load, "load beside a bare get_object"),
    "after_answer": Measure(answering.after_answer, "after_answer beside a bare signal-with-start"),
    "http": Measure(http.measure, "GET /v1/memory beside load in the same process"),
    "turn": Measure(turns.turn, "a NOOP and an UPDATE turn beside a bare workflow"),
    "throughput": Measure(turns.throughput, "turns per second at 200 users"),
    "memory": Measure(turns.memory, "peak memory of a worker over 5,000 turns"),
    "recording": Measure(windows.recording, "recording events beside bare inserts of the same rows"),
    "windows": Measure(windows.consolidating, "100 windows beside bare workflows with as many empty activities"),
    "extraction": Measure(windows.extraction, "model calls and tokens per 1,000 events"),
    "knowledge_loop": Measure(knowledge_loop.measure, "a knowledge loop of 10 steps beside a bare workflow of 20 empty activities"),
    "knowledge_reads": Measure(
        knowledge_reads.measure, "filter and reduce beside a table of one's own; overview among many tables", within_s=600.0
    ),
    "knowledge_writes": Measure(knowledge_writes.measure, "add_rows beside inserts by hand", within_s=600.0),
    "cost": Measure(cost.measure, "Temporal actions, bytes and CPU of embedding per turn and window", within_s=900.0),
    "locomo": Measure(locomo.measure, "search_events on real conversations", within_s=900.0),
    "search_facts": Measure(search.measure, "search_facts among many facts", within_s=900.0),
    "demo": Measure(demo.demo, "make demo from a fresh clone", within_s=480.0),
}

app = typer.Typer(add_completion=False)
console = Console(width=max(Console().width, 132))


async def take(name: str) -> list[dict[str, Any]]:
    """The rows of one measure; a measure that cannot be taken is a row that says why."""
    measure = MEASURES[name]
    try:
        async with asyncio.timeout(measure.within_s):
            rows = await measure.take()
    except TimeoutError:
        rows = [_broken(measure, f"not done within {measure.within_s:g} s")]
    except (BenchError, AfterturnError) as error:
        rows = [_broken(measure, str(error))]
    except ExceptionGroup as group:
        first = group.exceptions[0]
        if group.split((BenchError, AfterturnError, TimeoutError))[1] is not None:
            raise
        rows = [_broken(measure, f"{type(first).__name__}: {first}")]
    return [row.to_json(name) for row in rows]


def _broken(measure: Measure, why: str) -> Row:
    return Row(measure.what, None, "", "", note=f"failed: {why}", failed=True)


@app.command()
def main(
    only: Annotated[str, typer.Option(help=f"comma-separated: {', '.join(MEASURES)}")] = "",
    out: Annotated[Path, typer.Option(help="where the rows are kept")] = RESULTS,
    strict: Annotated[bool, typer.Option(help="exit code 1 when a value is out of its reach")] = False,
) -> None:
    """Measure the product against the bare engines under it."""
    names = [name.strip() for name in only.split(",") if name.strip()] or list(MEASURES)
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        raise typer.BadParameter(f"no measure {', '.join(unknown)}; there are {', '.join(MEASURES)}", param_hint="--only")
    logging.basicConfig(level=logging.WARNING)
    rows: list[dict[str, Any]] = []
    try:
        for name in names:
            with console.status(f"{name}: {MEASURES[name].what} …"):
                began = time.monotonic()
                rows += asyncio.run(take(name))
            console.print(f"{name}: {time.monotonic() - began:.0f} s", style="dim")
            write_results(out, rows, order=MEASURES)
    except BenchError as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(1) from None
    console.print(results_table(rows))
    missed = [row["measure"] for row in rows if row["ok"] is False and row["value"] is not None]
    failed = [row["measure"] for row in rows if row["ok"] is False and row["value"] is None]
    judged = sum(row["ok"] is not None for row in rows)
    console.print(f"{judged - len(missed) - len(failed)} of {judged} within reach; {out}")
    if failed or (strict and missed):
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
