"""The figures of a load run: latencies from the ledger, and the tables that a person reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.load.check import Checked
from bench.load.drive import Handed

_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
CALL: Final = "call"


def latencies(handed: Sequence[Handed], checked: Checked, what: str | None) -> dict[str, float] | None:
    """p50, p95, p99 and the largest, ms. None where there is none.

    Args:
        what: an outcome: from the answer to it, of the turns that ended so; None: of all; ``call``: of the call ``after_answer``.
    """
    if what == CALL:
        return quantiles([one.took_ms for one in handed])
    times: list[float] = []
    for one in handed:
        finished = checked.turns.get(one.turn.turn_id)
        if finished is not None and finished.finished_at is not None and what in (None, finished.outcome):
            times.append((finished.finished_at - one.at).total_seconds() * 1000)
    return quantiles(times)


def quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """Each is a value that was measured: the smallest one that as large a share does not exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    last = len(ordered) - 1
    found = {name: ordered[min(last, max(0, -int(-share * len(ordered) // 1) - 1))] for name, share in _QUANTILES.items()}
    return {**found, "max": ordered[-1]}


def show(console: Console, report: dict[str, Any]) -> None:
    sizes, checks, storage = report["sizes"], report["checks"], report["storage"]
    console.print(
        f"[bold]{sizes['turns']:,} turns of {sizes['users']:,} users[/], {sizes['database']},"
        f" {sizes['workflow_workers']} + {sizes['model_workers']} worker processes, {report['machine']['cpus']} CPUs:"
        f" [bold]{report['turns_per_s']:.1f} turns/s[/], {report['cpus_used']:.2f} CPUs busy, {report['took_s']:.0f} s in all"
    )
    times = Table("ms", "p50", "p95", "p99", "max", title="Latency", title_justify="left")
    for phase in ("flat_out", "paced"):
        one: dict[str, Any] = report[phase] or {}
        label = "full speed" if phase == "flat_out" else f"at {one.get('turns_per_s', 0):.1f} turns/s"
        for name, values in one.items():
            if isinstance(values, dict):
                times.add_row(f"{label}: {name.removesuffix('_ms')}", *(f"{values[q]:,.0f}" for q in (*_QUANTILES, "max")))
    console.print(times)
    work = Table("process", "CPU ms per turn", "peak memory MB", title="Processes", title_justify="left")
    for kind, each in report["cpu_ms_per_turn"].items():
        work.add_row(kind, f"{each:.1f}", " + ".join(f"{one:.0f}" for one in report["peak_memory_mb"][kind]))
    work.add_row("all", f"{sum(report['cpu_ms_per_turn'].values()):.1f}", "")
    console.print(work)
    pairs = sizes["turns"] + sizes["messages_before"] / 2
    kept = Table("kept", "bytes", "per two messages", "per user", title="Storage", title_justify="left")
    for name, value in storage.items():
        if name.endswith("_bytes"):
            per_pair, per_user = value / pairs, value / sizes["users"]
            kept.add_row(name.removesuffix("_bytes"), f"{value:,}", f"{per_pair:,.0f}", f"{per_user:,.0f}")
    console.print(kept)
    console.print("by table: " + ", ".join(f"{name} {size:,}" for name, size in storage["sql_bytes_by_table"].items()))
    if checks["problems"]:
        console.print("[red]" + "\n".join(checks["problems"]) + "[/]")
    else:
        console.print(
            f"nothing lost, nothing twice: {checks['turns']:,} turns, {checks['profile_versions']:,} versions of profiles,"
            f" {checks['windows']:,} windows; {checks['coalesced']:,} turns shared a run's step with others,"
            f" {checks['started_by_the_sweeper']:,} were started by the sweeper"
        )
