"""Every metric of this project: name, kind, labels, what it means. The tables in the documents are made from here.

Names are those that Prometheus sees. No label ever holds an id of a user, a text, or anything else that grows with use: companies
are named up to ``AFTERTURN_METRICS_TENANTS`` (the rest is ``other``), errors by their type, routes by their template.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"
    AMOUNT = "amount"
    """Only ever grows and is no whole number: ``rate`` and ``increase`` are for it. Exposed with the type gauge, because counters
    of Temporal's SDK count in whole numbers."""


class Process(StrEnum):
    """Who reports it."""

    WORKER = "worker"
    CLIENT = "client"
    """The orchestrator's process, and the API's, which is a client as well."""
    API = "API"


@dataclass(frozen=True, slots=True)
class Metric:
    """``zeros``: label values that are reported as 0 from the start: what has not happened yet can be told from what is not
    measured, and the first time counts as an increase. For a metric with labels each entry gives all of them, in their order."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    zeros: tuple[tuple[str, ...], ...] = ()
    by: tuple[Process, ...] = (Process.WORKER,)


STEP_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""From a read of a row to a model that thinks for minutes."""
LAG_S: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 86_400.0)
"""From an answer to its memory: seconds when all is well, as long as the outage otherwise."""
REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""An HTTP request, or a load on the answering path (its budget is 0.3 s)."""

_ANSWERING: Final = (Process.CLIENT, Process.API)

# ------------------------------------------------------------------------------------------------------------------ turns

TURNS: Final = Metric(
    "afterturn_turns_total",
    Kind.COUNTER,
    "Turns with an outcome. The reason is a code: why a turn was kept, skipped or nothing was to be done.",
    ("outcome", "reason"),
    zeros=(("updated", ""), ("noop", "gate"), ("kept", ""), ("skipped", "")),
)
FLAGS: Final = Metric(
    "afterturn_flags_total",
    Kind.COUNTER,
    "Flags of batches of turns: what failed, was repaired or was cut.",
    ("flag",),
    zeros=tuple((flag,) for flag in ("gate_failed", "repaired", "loss_guard", "conflict", "redacted", "notice_failed")),
)
FRESHNESS_LAG: Final = Metric(
    "afterturn_freshness_lag_seconds",
    Kind.HISTOGRAM,
    "From the moment a turn was recorded to its outcome; reruns do not count.",
    buckets=LAG_S,
)
STAGE_DURATION: Final = Metric(
    "afterturn_stage_duration_seconds",
    Kind.HISTOGRAM,
    "One try of a step of a workflow, by stage: gate, consolidate, upload, extract, think and so on.",
    ("stage",),
    buckets=STEP_S,
)
GATE_DECISIONS: Final = Metric(
    "afterturn_gate_decisions_total",
    Kind.COUNTER,
    "What the gate said of a batch of turns; failed_open: no usable answer, which counts as an update.",
    ("decision",),
    zeros=(("update",), ("noop",), ("failed_open",)),
)
LOSS_GUARD: Final = Metric(
    "afterturn_loss_guard_total",
    Kind.COUNTER,
    "Rewrites that lost too much: sent_back to the model to explain, or kept: the old profile stayed.",
    ("result",),
    zeros=(("sent_back",), ("kept",)),
)
CONFLICTS: Final = Metric(
    "afterturn_conflicts_total",
    Kind.COUNTER,
    "Writes of a profile that met a newer version, by the kind of the write: a turn's (profile), an edit, a rollback.",
    ("kind",),
    zeros=(("profile",), ("edit",), ("rollback",)),
)
FAIL_OPENS: Final = Metric(
    "afterturn_fail_opens_total",
    Kind.COUNTER,
    "Failures that were passed over: the old profile stays, a category waits for its rerun, an answer goes without memory.",
    ("stage", "error"),
    zeros=tuple((stage, "") for stage in ("gate", "consolidate", "upload", "extract", "apply", "notice")),
    by=(Process.WORKER, *_ANSWERING),
)
NOTICES: Final = Metric(
    "afterturn_notices_total",
    Kind.COUNTER,
    "Loading notices by sink (log, stream, webhook) and result (sent, failed).",
    ("sink", "result"),
)

# ----------------------------------------------------------------------------------------------------------------- models

MODEL_CALLS: Final = Metric(
    "afterturn_model_calls_total",
    Kind.COUNTER,
    "Calls of language models; the result is ok or the type of the error.",
    ("model", "stage", "result"),
)
MODEL_CALL_DURATION: Final = Metric(
    "afterturn_model_call_duration_seconds",
    Kind.HISTOGRAM,
    "One call of a language model, failed ones too.",
    ("model", "stage"),
    buckets=STEP_S,
)
MODEL_TOKENS: Final = Metric(
    "afterturn_model_tokens_total",
    Kind.COUNTER,
    "Tokens of language models by direction: input (without cached), cached (input served from a prompt cache), output.",
    ("model", "stage", "tenant", "direction"),
)
MODEL_COST: Final = Metric(
    "afterturn_model_cost_usd_total",
    Kind.AMOUNT,
    "US dollars by AFTERTURN_MODEL_PRICES; a model without a price is not there.",
    ("model", "tenant"),
)

# ---------------------------------------------------------------------------------------------------------------- windows

WINDOWS: Final = Metric(
    "afterturn_windows_total",
    Kind.COUNTER,
    "Windows of events that ended, by state (done, partial, failed, skipped) and the code of the reason.",
    ("state", "reason"),
    zeros=(("done", ""), ("partial", "failed"), ("failed", "extract_failed"), ("skipped", "")),
)
WINDOW_ITEMS: Final = Metric(
    "afterturn_window_items_total",
    Kind.COUNTER,
    "Items that windows extracted, by category and what became of them: applied, confirmed, or why they were dropped.",
    ("category", "result"),
)
FACTS: Final = Metric(
    "afterturn_facts_total",
    Kind.COUNTER,
    "Changes to facts: added, superseded (and took the place of an older one), confirmed, forgotten (was deleted by a person).",
    ("change",),
    zeros=(("added",), ("superseded",), ("confirmed",)),
    by=(Process.WORKER, *_ANSWERING),
)
DRIFT: Final = Metric(
    "afterturn_drift_total",
    Kind.COUNTER,
    "Vectors that did not agree with their rows and were mended, by kind of row.",
    ("kind",),
    zeros=(("events",), ("facts",)),
)

# --------------------------------------------- backlogs: each worker looks at them, so that of several the maximum is what counts

TURNS_WAITING: Final = Metric(
    "afterturn_turns_waiting",
    Kind.GAUGE,
    "Recorded turns without an outcome, over all companies; at most 100000 are counted.",
)
OLDEST_TURN_WAITING: Final = Metric(
    "afterturn_oldest_turn_waiting_seconds",
    Kind.GAUGE,
    "Age of the oldest turn without an outcome; 0: none waits.",
)
WINDOWS_DUE: Final = Metric(
    "afterturn_windows_due",
    Kind.GAUGE,
    "Users with a window of events that is due; at most 1000 are counted.",
)
WINDOWS_FAILED: Final = Metric(
    "afterturn_windows_failed",
    Kind.GAUGE,
    "Windows that ended failed or partial and were not repaired by a later try; at most 100000 are counted.",
)
ERASURES_OPEN: Final = Metric(
    "afterturn_erasures_open",
    Kind.GAUGE,
    "Requests to be forgotten that are not done; at most 1000 are counted.",
)
OLDEST_ERASURE: Final = Metric(
    "afterturn_oldest_erasure_seconds",
    Kind.GAUGE,
    "Age of the oldest request to be forgotten that is not done; 0: all are.",
)
SWEEP_LAST_SUCCESS: Final = Metric(
    "afterturn_sweep_last_success_timestamp_seconds",
    Kind.GAUGE,
    "Unix time of the last sweep that this process made and of which no part failed; absent before its first.",
)

# ------------------------------------------------------------------------------------------------------ loops, forgetting

LOOPS: Final = Metric(
    "afterturn_loops_total",
    Kind.COUNTER,
    "Knowledge loops that ended, by operation and outcome (done, failed, stopped).",
    ("operation", "outcome"),
    zeros=tuple((f"knowledge.{operation}", "done") for operation in ("ask", "update", "refactor")),
)
FORGETS: Final = Metric(
    "afterturn_forgets_total",
    Kind.COUNTER,
    "Erasures by the state that they reached.",
    ("state",),
    zeros=(("done",),),
)

# -------------------------------------------------------------------------------------------------- client, API, stores

LOADS: Final = Metric(
    "afterturn_loads_total",
    Kind.COUNTER,
    "Loads before an answer: ok, no_profile, off, or why there was no memory (timeout, busy, unavailable, unreadable, …).",
    ("status",),
    zeros=(("ok",), ("timeout",), ("unavailable",)),
    by=_ANSWERING,
)
LOAD_DURATION: Final = Metric(
    "afterturn_load_duration_seconds",
    Kind.HISTOGRAM,
    "Loads before an answer; their budget is AFTERTURN_LOAD_BUDGET_MS.",
    buckets=REQUEST_S,
    by=_ANSWERING,
)
RECORDED: Final = Metric(
    "afterturn_recorded_total",
    Kind.COUNTER,
    "Turns and calls of record_events that were handed over, by what became of them (recorded, spooled, lost, refused, off, …).",
    ("what", "status"),
    zeros=(("turn", "recorded"),),
    by=_ANSWERING,
)
LOST_TURNS: Final = Metric(
    "afterturn_lost_turns_total",
    Kind.COUNTER,
    "Turns that neither the event log nor the spool took.",
    zeros=((),),
    by=_ANSWERING,
)
SPOOL_BYTES: Final = Metric(
    "afterturn_spool_bytes",
    Kind.GAUGE,
    "Size of the spool file that takes turns while the event log is away.",
    zeros=((),),
    by=_ANSWERING,
)
SPOOL_TURNS: Final = Metric(
    "afterturn_spool_turns",
    Kind.GAUGE,
    "Turns and groups of events that wait in the spool.",
    zeros=((),),
    by=_ANSWERING,
)
HTTP_REQUESTS: Final = Metric(
    "afterturn_http_requests_total",
    Kind.COUNTER,
    "Requests to the API by the template of the route, the method and the status.",
    ("route", "method", "status"),
    by=(Process.API,),
)
HTTP_REQUEST_DURATION: Final = Metric(
    "afterturn_http_request_duration_seconds",
    Kind.HISTOGRAM,
    "From the head of a request to the end of its answer; streams, which last for hours, are not among them.",
    ("route", "method"),
    buckets=REQUEST_S,
    by=(Process.API,),
)
STORE_ERRORS: Final = Metric(
    "afterturn_store_errors_total",
    Kind.COUNTER,
    "Calls of a store (rows, objects, vectors, embedder) that failed, by the type of the error.",
    ("store", "error"),
    zeros=tuple((store, "StoreUnavailable") for store in ("rows", "objects", "vectors")),
    by=(Process.WORKER, *_ANSWERING),
)
METRICS: Final[tuple[Metric, ...]] = tuple(value for value in tuple(globals().values()) if isinstance(value, Metric))
"""All, in the order of this file."""
