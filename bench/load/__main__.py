"""`make load`: prints a report and writes ``bench/load.json``.

    python -m bench.load [--turns 20000] [--users 2000] [--workflow-workers 2] [--model-workers 1] [--in-flight 100] …

Each user begins somewhere in a window, with messages that were recorded before the clock started: so windows fall due all the time,
as they do in life. First most of the turns as fast as the site takes them (throughput, CPU per turn), then the rest at half of that
rate (latency: at full speed it only tells how many turns were let in). Exit code 1 when a turn or an event was lost or had two
effects.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bench.load.check import Checked, check
from bench.load.drive import Driver, Handed, plan_before, plan_turns
from bench.load.report import latencies, show
from bench.load.site import Sizes, open_site
from bench.load.storage import stored_soon
from bench.results import BenchError
from memory.model.errors import AfterturnError

RESULTS: Final = Path(__file__).parents[1] / "load.json"
WARM_UP: Final = 0.05
"""Share of the turns before the clock starts: connections, caches, and code that is imported on first use."""

app = typer.Typer(add_completion=False)
console = Console(width=max(Console().width, 120))


async def run(sizes: Sizes, turns: int, users: int, in_flight: int, paced_share: float, pace: float, seed: int) -> dict[str, Any]:
    """The report. Raises BenchError, or what an engine raises, when the run could not be made."""
    planned = plan_turns(turns, users, seed)
    before_turns = plan_before(planned, sizes.window, seed)
    warm, paced = round(turns * WARM_UP), round(turns * paced_share)
    began = time.monotonic()
    async with open_site(sizes) as site:
        console.print(f"{time.monotonic() - began:.0f} s: the site is up", style="dim")
        driver = Driver(site, lambda line: console.print(f"{time.monotonic() - began:.0f} s: {line}", style="dim"))
        await driver.record_before(before_turns)
        await driver.flat_out(planned[:warm], in_flight=in_flight)
        before, started = site.cpu(), time.perf_counter()
        await driver.flat_out(planned[warm : turns - paced], in_flight=in_flight)
        took = time.perf_counter() - started
        cpu, count = site.cpu(), turns - paced - warm
        rate = count / took
        await driver.drained(windows=True)
        first_paced = len(driver.handed)
        if paced:
            await driver.paced(planned[turns - paced :], per_s=pace * rate, seed=seed)
            await driver.drained(windows=True)
        console.print(f"{time.monotonic() - began:.0f} s: all have an outcome; checking", style="dim")
        memory = site.peak_memory()
        checked = await check(site, driver.handed, before_turns)
        storage = await stored_soon(site)
    return {
        "at": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": {"cpus": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "sizes": {
            "turns": turns,
            "users": users,
            "messages_before": sum(before_turns.values()),
            "in_flight": in_flight,
            "workflow_workers": sizes.workflow_workers,
            "model_workers": sizes.model_workers,
            "database": sizes.database,
            "window": sizes.window,
        },
        "turns_per_s": rate,
        "flat_out_turns": count,
        "cpu_ms_per_turn": {kind: (cpu[kind] - before[kind]) / count * 1000 for kind in cpu},
        "cpus_used": sum(cpu[kind] - before[kind] for kind in cpu) / took,
        "flat_out": _phase(driver.handed[warm:first_paced], checked),
        "paced": {"turns_per_s": pace * rate, **_phase(driver.handed[first_paced:], checked)} if paced else None,
        "peak_memory_mb": {kind: [one / 1e6 for one in each] for kind, each in memory.items()},
        "checks": {
            "turns": len(checked.turns),
            "windows": checked.windows,
            "profile_versions": checked.profile_versions,
            "coalesced": checked.coalesced,
            "started_by_the_sweeper": checked.not_started,
            "problems": list(checked.problems),
        },
        "storage": storage.to_json(),
        "took_s": time.monotonic() - began,
    }


def _phase(handed: Sequence[Handed], checked: Checked) -> dict[str, Any]:
    return {
        "answer_to_outcome_ms": latencies(handed, checked, None),
        "answer_to_noop_ms": latencies(handed, checked, "noop"),
        "answer_to_update_ms": latencies(handed, checked, "updated"),
        "after_answer_ms": latencies(handed, checked, "call"),
    }


@app.command()
def main(
    turns: Annotated[int, typer.Option(min=20)] = 20_000,
    users: Annotated[int, typer.Option(min=1)] = 2_000,
    workflow_workers: Annotated[int, typer.Option(min=1, help="processes")] = 2,
    model_workers: Annotated[int, typer.Option(min=1, help="processes")] = 1,
    in_flight: Annotated[int, typer.Option(min=1, help="turns without an outcome at once, at full speed")] = 100,
    paced_share: Annotated[float, typer.Option(min=0, max=0.9, help="share of the turns that come at a pace")] = 0.25,
    pace: Annotated[float, typer.Option(min=0.05, max=0.95, help="that pace, as a share of the full speed")] = 0.5,
    database: Annotated[str, typer.Option(help="postgresql or sqlite")] = "postgresql",
    window: Annotated[int, typer.Option(min=2, help="events of a window; two per turn")] = 20,
    seed: Annotated[int, typer.Option()] = 1,
    out: Annotated[Path, typer.Option(help="where the report is kept")] = RESULTS,
) -> None:
    """Load one machine with many turns of many users and check that none was lost or done twice."""
    if database not in ("postgresql", "sqlite"):
        raise typer.BadParameter("postgresql or sqlite", param_hint="--database")
    logging.basicConfig(level=logging.WARNING)
    sizes = Sizes(workflow_workers, model_workers, database, window)
    try:
        report = asyncio.run(run(sizes, turns, users, in_flight, paced_share, pace, seed))
    except (BenchError, AfterturnError) as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(1) from None
    out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")
    show(console, report)
    console.print(str(out), style="dim")
    if report["checks"]["problems"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
