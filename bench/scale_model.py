"""`make scale`: what the measured figures mean for 1 million and 100 million users. Prints Markdown tables.

    python -m bench.scale_model [--take] [--write] [--set NAME=VALUE …]

Measured figures are those of ``bench/measured.json``. ``--take`` makes it anew from ``bench/results.json`` (``make bench
ONLY=cost,tokens,extraction``) and ``bench/load.json`` (``make load``). All else is an assumption with a name, which ``--set``
changes. ``--write`` puts the tables into ``docs/scale.md``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bench.results import BenchError, read_results

BENCH: Final = Path(__file__).parent
MEASURED: Final = BENCH / "measured.json"
DOC: Final = BENCH.parent / "docs" / "scale.md"
BEGIN: Final = "<!-- made by `make scale ARGS=--write`: begin -->"
END: Final = "<!-- end -->"
DAY_S: Final = 86_400
MONTH_DAYS: Final = 30
SIZES: Final = (1_000_000, 100_000_000)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody can measure here. The text of each is in :data:`MEANING`."""

    daily_active: float = 0.2
    turns_per_day: float = 8.0
    peak: float = 4.0
    update_share: float = 1 / 3
    users_per_company: float = 1_000.0
    gate_s: float = 1.0
    rewrite_s: float = 6.0
    extract_s: float = 15.0
    message_days: float = 365.0
    history_days: float = 7.0
    profile_bytes: float = 8_000.0
    versions_kept: float = 50.0
    terms_per_user: float = 5_000.0
    facts_per_user: float = 50.0
    cpu_load: float = 0.6
    slots: float = 16.0
    connections: float = 8.0
    transactions: float = 6.0
    postgres_tb: float = 4.0
    postgres_row_limit: float = 200e6
    shard_transitions_per_s: float = 20.0
    partition_tasks_per_s: float = 200.0
    qdrant_node_gb: float = 64.0
    price_input: float = 0.40
    price_cached: float = 0.10
    price_output: float = 1.60
    price_action: float = 25.0
    price_retained_gb: float = 0.78


MEANING: Final[dict[str, str]] = {
    "daily_active": "share of the users who write on a day",
    "turns_per_day": "turns of a user who writes, per day",
    "peak": "the busiest minute beside the mean of the day",
    "update_share": "share of turns that the gate lets through",
    "users_per_company": "users of a company",
    "gate_s": "seconds of a gate call",
    "rewrite_s": "seconds of a rewrite",
    "extract_s": "seconds of an extraction",
    "message_days": "days that messages are kept (`AFTERTURN_EVENT_RETENTION_DAYS`)",
    "history_days": "days that Temporal keeps closed runs",
    "profile_bytes": "bytes of a full profile (2,000 tokens)",
    "versions_kept": "versions of a profile that a lifecycle rule of the bucket leaves",
    "terms_per_user": "different terms in the messages of a user",
    "facts_per_user": "facts of a user, where the categories are on",
    "cpu_load": "how busy a pod of one CPU may be at the peak",
    "slots": "model calls at once per process (`AFTERTURN_MODEL_CONCURRENCY`)",
    "connections": "PostgreSQL connections of a process (`memory/stores/tables/engine.py`)",
    "transactions": "transactions and single reads of a turn: record, claim, read what a prompt needs, book usage, finish",
    "postgres_tb": "terabytes that one PostgreSQL primary should hold",
    "postgres_row_limit": "rows of one partition",
    "shard_transitions_per_s": "state transitions that a history shard makes per second (one write at a time, half idle)",
    "partition_tasks_per_s": "tasks per second through a partition of a task queue",
    "qdrant_node_gb": "memory of a Qdrant node, GB",
    "price_input": "US dollars per million input tokens",
    "price_cached": "US dollars per million cached input tokens",
    "price_output": "US dollars per million output tokens",
    "price_action": "US dollars per million actions of Temporal Cloud (last published step; less by contract)",
    "price_retained_gb": "US dollars per GB and month of closed histories in Temporal Cloud",
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Per turn unless it says otherwise. ``…_noop`` and ``…_update`` are of the two kinds of turn, ``…_window`` of 50 events."""

    actions_noop: float
    actions_update: float
    actions_window: float
    actions_sweep: float
    heartbeats_per_s: float
    transitions_noop: float
    transitions_update: float
    transitions_window: float
    history_noop: float
    history_update: float
    history_window: float
    cpu_ms: Mapping[str, float]
    event_bytes: float
    turn_bytes: float
    other_row_bytes: float
    bytes_per_term: float
    raw_lexical_bytes: float
    lexical_bytes: float
    dense_bytes: float
    dense_cpu_ms: float
    tokens_in: float
    tokens_cached: float
    tokens_out: float
    window_tokens_in: float
    window_tokens_out: float


# ---------------------------------------------------------------------------------------------------------------- measured


def read_measured(path: Path = MEASURED) -> Measured:
    """The figures that were taken last. Raises BenchError for a file that is not such."""
    try:
        return Measured(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        raise BenchError(f"{path} is not there or not readable; run: make scale ARGS=--take") from None


def take_measured(results: Path = BENCH / "results.json", load: Path = BENCH / "load.json") -> Measured:
    """From the files of the last measures. Raises BenchError where a figure is missing, with the command that measures it."""
    rows = {row["measure"]: row for row in read_results(results)}
    try:
        report: dict[str, Any] = json.loads(load.read_text("utf-8"))
    except (OSError, ValueError):
        raise BenchError(f"{load} is not there or not readable; run: make load") from None

    def row(name: str, command: str) -> dict[str, Any]:
        found = next((row for measure, row in rows.items() if measure.startswith(name)), None)
        if found is None or found["value"] is None:
            raise BenchError(f"{results} has no {name!r}; run: make bench ONLY={command}")
        return found

    noop, update = row("Temporal actions, NOOP turn", "cost"), row("Temporal actions, UPDATE turn", "cost")
    window, sweep = row("Temporal actions, window", "cost"), row("Temporal actions, pass", "cost")
    kept = row("rows, ", "cost")
    tables: Mapping[str, float] = kept["by_table"]
    given, said = row("tokens in per turn, edits", "tokens"), row("tokens out per turn, edits", "tokens")
    cached, events = (
        row("input a prompt cache can serve, edits", "tokens"),
        row("tokens per 1,000 events, the default", "extraction"),
    )
    embedded, own = row("dense vector of one message: CPU", "cost"), ("events", "turns", "term_frequencies")
    return Measured(
        actions_noop=noop["value"],
        actions_update=update["value"],
        actions_window=window["value"],
        actions_sweep=sweep["value"],
        heartbeats_per_s=row("heartbeats per second", "cost")["value"],
        transitions_noop=noop["state_transitions"],
        transitions_update=update["state_transitions"],
        transitions_window=window["state_transitions"],
        history_noop=noop["history_bytes"],
        history_update=update["history_bytes"],
        history_window=window["history_bytes"],
        cpu_ms=report["cpu_ms_per_turn"],
        event_bytes=tables.get("events", 0) / 2,
        turn_bytes=tables.get("turns", 0),
        other_row_bytes=kept["value"] - sum(tables.get(name, 0) for name in own),
        bytes_per_term=kept["bytes_per_term"],
        raw_lexical_bytes=row("terms of a message's lexical vector", "cost")["raw_bytes"],
        lexical_bytes=row("a message in the vector engine, lexical", "cost")["value"],
        dense_bytes=embedded["vector_bytes"],
        dense_cpu_ms=embedded["value"],
        tokens_in=given["value"],
        tokens_cached=given["value"] * cached["value"],
        tokens_out=said["value"],
        window_tokens_in=events["input_tokens"] / 20,
        window_tokens_out=events["output_tokens"] / 20,
    )


# ------------------------------------------------------------------------------------------------------------------- model


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: what it is, and its value for a number of users."""

    what: str
    value: Callable[[float], float]
    exact: bool = False


def tables(m: Measured, a: Assumptions) -> dict[str, list[Line]]:
    """The tables by title."""
    u = a.update_share
    windows = 2 / 50  # per turn

    def turns(users: float) -> float:
        return users * a.daily_active * a.turns_per_day

    def peak(users: float) -> float:
        return turns(users) / DAY_S * a.peak

    def mixed(noop: float, update: float, window: float) -> float:
        return (1 - u) * noop + u * update + windows * window

    model_s = a.gate_s + u * a.rewrite_s + windows * a.extract_s
    actions = mixed(m.actions_noop, m.actions_update, m.actions_window) + m.heartbeats_per_s * model_s
    transitions = mixed(m.transitions_noop, m.transitions_update, m.transitions_window)
    history = mixed(m.history_noop, m.history_update, m.history_window)

    def shards(users: float) -> float:
        return float(max(512, 2 ** math.ceil(math.log2(max(1.0, peak(users) * transitions / a.shard_transitions_per_s)))))

    def partitions(per_turn: float) -> Callable[[float], float]:
        return lambda users: max(4, math.ceil(peak(users) * per_turn / a.partition_tasks_per_s))

    def pods(kind: str) -> Callable[[float], float]:
        return lambda users: math.ceil(peak(users) * m.cpu_ms.get(kind, 0.0) / 1000 / a.cpu_load)

    def model_pods(users: float) -> float:
        return max(pods("model workers")(users), math.ceil(peak(users) * model_s / a.slots / a.cpu_load))

    def processes(users: float) -> float:
        return pods("workflow workers")(users) + model_pods(users) + pods("orchestrator")(users)

    def messages(users: float) -> float:
        return 2 * turns(users) * a.message_days

    def sql_bytes(users: float) -> float:
        year = turns(users) * 365
        ledger = year * (m.turn_bytes + m.other_row_bytes)
        return messages(users) * m.event_bytes + ledger + users * a.terms_per_user * m.bytes_per_term

    def points(users: float) -> float:
        return messages(users) + users * a.facts_per_user

    def versions(users: float) -> float:
        per_year = turns(users) * 365 * u / users
        return users * min(a.versions_kept, per_year)

    def money_tokens(users: float) -> float:
        fresh = m.tokens_in - m.tokens_cached
        turn = fresh * a.price_input + m.tokens_cached * a.price_cached + m.tokens_out * a.price_output
        window = m.window_tokens_in * a.price_input + m.window_tokens_out * a.price_output
        return turns(users) * MONTH_DAYS * (turn + windows * window) / 1e6

    def million(value: float) -> float:
        return value / 1e6

    return {
        "Load": [
            Line("turns per day, millions", lambda n: million(turns(n))),
            Line("turns per second, mean", lambda n: turns(n) / DAY_S),
            Line("turns per second, peak", peak),
            Line("windows per second, peak", lambda n: peak(n) * windows),
            Line("model calls under way at the peak", lambda n: peak(n) * model_s),
        ],
        "Temporal": [
            Line("billable actions per turn, windows and heartbeats included", lambda _: actions),
            Line("actions per second, peak", lambda n: peak(n) * actions),
            Line("actions per month, millions", lambda n: million(turns(n) * MONTH_DAYS * actions)),
            Line("Temporal Cloud, actions, $ per month", lambda n: million(turns(n) * MONTH_DAYS * actions) * a.price_action),
            Line("state transitions per second, peak", lambda n: peak(n) * transitions),
            Line("history shards (`numHistoryShards`)", shards, exact=True),
            Line("partitions of `afterturn`: one workflow task per turn or window", partitions(1 + windows * 2)),
            Line("partitions of `afterturn-llm`: one or two activities per turn", partitions(1 + u + windows)),
            Line("closed histories kept, GB", lambda n: turns(n) * a.history_days * history / 1e9),
            Line(
                "Temporal Cloud, closed histories, $ per month",
                lambda n: turns(n) * a.history_days * history / 1e9 * a.price_retained_gb,
            ),
        ],
        "Processes": [
            Line("workflow workers, pods of one CPU", pods("workflow workers")),
            Line("model workers, pods: the larger of CPU and slots", model_pods),
            Line("orchestrators' share for memory, CPUs", pods("orchestrator")),
            Line(
                "embedding messages, CPUs at the peak (default embedder)",
                lambda n: 2 * peak(n) * m.dense_cpu_ms / 1000 / a.cpu_load,
            ),
            Line("PostgreSQL connections without a pooler", lambda n: processes(n) * a.connections),
        ],
        "PostgreSQL": [
            Line("messages kept, millions", lambda n: million(messages(n))),
            Line("messages, TB", lambda n: messages(n) * m.event_bytes / 1e12),
            Line("ledger and other rows of a year, TB", lambda n: turns(n) * 365 * (m.turn_bytes + m.other_row_bytes) / 1e12),
            Line("terms, millions of rows", lambda n: million(n * a.terms_per_user)),
            Line("terms, TB", lambda n: n * a.terms_per_user * m.bytes_per_term / 1e12),
            Line("all, TB", lambda n: sql_bytes(n) / 1e12),
            Line("partitions of `events`", lambda n: math.ceil(messages(n) / a.postgres_row_limit)),
            Line("partitions of `term_frequencies`", lambda n: math.ceil(n * a.terms_per_user / a.postgres_row_limit)),
            Line("primaries", lambda n: math.ceil(sql_bytes(n) / 1e12 / a.postgres_tb)),
            Line("transactions per second, peak", lambda n: peak(n) * a.transactions),
        ],
        "Vectors": [
            Line("points, millions", lambda n: million(points(n))),
            Line("lexical only, TB on disk", lambda n: points(n) * m.lexical_bytes / 1e12),
            Line("with dense vectors, TB on disk", lambda n: points(n) * (m.lexical_bytes + m.dense_bytes) / 1e12),
            Line("dense vectors in memory, 8 bit, TB", lambda n: points(n) * m.dense_bytes / 4 / 1e12),
            Line("nodes for those", lambda n: math.ceil(points(n) * m.dense_bytes / 4 / 1e9 / (a.qdrant_node_gb * 0.7))),
        ],
        "Objects": [
            Line("profiles, millions", million),
            Line("versions of profiles, millions", lambda n: million(versions(n))),
            Line("profiles and versions, TB", lambda n: versions(n) * a.profile_bytes / 1e12),
            Line("buckets: two of a company", lambda n: 2 * n / a.users_per_company),
            Line("PUTs per second, peak: staged and committed", lambda n: peak(n) * u * 2),
        ],
        "Model": [
            Line(
                "input tokens per month, billions",
                lambda n: turns(n) * MONTH_DAYS * (m.tokens_in + windows * m.window_tokens_in) / 1e9,
            ),
            Line(
                "output tokens per month, billions",
                lambda n: turns(n) * MONTH_DAYS * (m.tokens_out + windows * m.window_tokens_out) / 1e9,
            ),
            Line("$ per month", money_tokens),
            Line("$ per user and month", lambda n: money_tokens(n) / n),
        ],
    }


# ------------------------------------------------------------------------------------------------------------------ output


def render(measured: Measured, assumptions: Assumptions, sizes: Sequence[int] = SIZES) -> str:
    """Markdown: measured, assumed, and a table per part."""
    parts = [
        "### Measured figures that go in",
        "",
        _measured_table(measured),
        "",
        "### Assumptions",
        "",
        _assumed_table(assumptions),
    ]
    for title, lines in tables(measured, assumptions).items():
        head = f"| {title} | " + " | ".join(f"{size / 1e6:,.0f} M users" for size in sizes) + " |"
        body = [
            f"| {line.what} | "
            + " | ".join(f"{line.value(size):,.0f}" if line.exact else shown(line.value(size)) for size in sizes)
            + " |"
            for line in lines
        ]
        parts += ["", f"### {title}", "", head, "|---|" + "---:|" * len(sizes), *body]
    return "\n".join(parts) + "\n"


def _measured_table(measured: Measured) -> str:
    rows: list[str] = []
    for field in fields(measured):
        value = getattr(measured, field.name)
        if field.name == "cpu_ms":
            rows += [f"| CPU ms per turn, {kind} | {shown(each)} | `make load` |" for kind, each in value.items()]
        else:
            command = (
                "tokens" if field.name.startswith("tokens") else "extraction" if field.name.startswith("window_tokens") else "cost"
            )
            rows.append(f"| {field.name.replace('_', ' ')} | {shown(value)} | `make bench ONLY={command}` |")
    return "\n".join(["| figure | value | command |", "|---|---:|---|", *rows])


def _assumed_table(assumptions: Assumptions) -> str:
    rows = [
        f"| `{field.name}` | {shown(getattr(assumptions, field.name))} | {MEANING[field.name]} |" for field in fields(assumptions)
    ]
    return "\n".join(["| name | value | meaning |", "|---|---:|---|", *rows])


def shown(value: float) -> str:
    """Three digits that count: more would claim more than is known."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.0f}" if digits <= 0 or rounded == int(rounded) else f"{rounded:,.{digits}f}".rstrip("0").rstrip(".")


def written(document: str, made: str) -> str:
    """The document with the tables between its two marks. Raises BenchError where it has none."""
    before, mark, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise BenchError(f"{DOC} has lost its marks: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"


def assumed(changes: Sequence[str]) -> Assumptions:
    """``NAME=VALUE`` each. Raises BenchError for another name or no number."""
    given: dict[str, float] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in MEANING:
            raise BenchError(f"no assumption {name}; there are {', '.join(MEANING)}")
        try:
            given[name] = float(value)
        except ValueError:
            raise BenchError(f"{name} needs a number, not {value!r}") from None
    return replace(Assumptions(), **given)


app = typer.Typer(add_completion=False)


@app.command()
def main(
    take: Annotated[bool, typer.Option(help="take the figures of the last measures into bench/measured.json first")] = False,
    write: Annotated[bool, typer.Option(help="put the tables into docs/scale.md")] = False,
    changes: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of an assumption")] = None,
) -> None:
    """What the measured figures mean for many users."""
    try:
        if take:
            MEASURED.write_text(json.dumps(asdict(take_measured()), indent=1) + "\n", "utf-8")
        made = render(read_measured(), assumed(changes or []))
        if write:
            DOC.write_text(written(DOC.read_text("utf-8"), made), "utf-8")
        else:
            typer.echo(made)
    except BenchError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
