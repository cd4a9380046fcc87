"""What a turn and a window cost beside the model: Temporal Cloud's billable actions, history bytes, rows, objects, vectors, CPU of
embedding. Counted on a real site with a model that takes no time, one turn of a user at a time.

Actions come from the histories themselves (:mod:`bench.actions`), heartbeats from the server's own count of requests.
"""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import time
import urllib.request
import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

from sqlalchemy import func, select
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecution

from bench.actions import billable_actions
from bench.load.site import Site, Sizes, open_site
from bench.load.storage import Stored, disk, stored_soon
from bench.load.texts import load_turn, sentences
from bench.results import BenchError, Row, skipped
from bench.scripted_model import SLOW_S
from bench.world import TENANT
from memory.model.names import (
    CONSOLIDATE_EVENTS_WORKFLOW,
    POST_ANSWER_WORKFLOW,
    SEARCH_OUTCOME,
    SWEEP_SCHEDULE_ID,
    SWEEP_WORKFLOW,
)
from memory.model.scope import Scope
from memory.ports.vectors import PAYLOAD_OWNER, CollectionSpec, Point, VectorIndex
from memory.retrieval.events import INDEXES
from memory.settings import load_settings
from memory.stores.embedders import build_embedder
from memory.stores.tables.rows_window import TERM_FREQUENCIES
from memory.stores.vectors.edge import EdgeVectors
from starter.search import index_over
from starter.views import ReceiptStatus
from tests.support.postgres import find_postgres

USERS: Final = 20
TURNS: Final = 25
"""Per user: 50 events, one window."""
WARM_USERS: Final = 4
UPDATE_EVERY: Final = 3
BURST: Final = 5
WITHIN_S: Final = 60.0
TEXTS: Final = 24
FEW_COPIES: Final = 2
MANY_COPIES: Final = 12
DEFINITION: Final = "https://docs.temporal.io/cloud/actions"


@dataclass(slots=True)
class Runs:
    """Of the runs of one kind: what each had."""

    actions: list[Counter[str]] = field(default_factory=list[Counter[str]])
    events: list[int] = field(default_factory=list[int])
    history: list[int] = field(default_factory=list[int])
    transitions: list[int] = field(default_factory=list[int])


async def measure() -> list[Row]:
    database = "postgresql" if find_postgres() is not None else "sqlite"
    async with open_site(Sizes(workflow_workers=1, model_workers=1, database=database)) as site:
        await asyncio.gather(*(_user(site, f"warm-{number}", TURNS) for number in range(WARM_USERS)))
        await _windows_done(site, WARM_USERS)
        before = await stored_soon(site)
        await asyncio.gather(*(_user(site, f"user-{number}", TURNS) for number in range(USERS)))
        await _windows_done(site, WARM_USERS + USERS)
        after = await stored_soon(site)
        terms = await site.tables.database.read(
            lambda c: c.execute(select(func.count()).select_from(TERM_FREQUENCIES)).scalar_one()
        )
        await _burst(site)
        beats = await _slow_turn(site)
        await _sweep(site)
        runs = await _runs(site)
        points = await _points(site)
    return [
        *_action_rows(runs, beats),
        *_storage_rows(before, after, terms, database),
        *await _vector_rows(points),
        await _embedding(),
    ]


# ------------------------------------------------------------------------------------------------------------- what is done


async def _user(site: Site, name: str, turns: int) -> None:
    scope = Scope.of(TENANT, name)
    for number in range(turns):
        await _turn(site, scope, f"{name}-{number}", update=number % UPDATE_EVERY == 0)


async def _turn(site: Site, scope: Scope, turn_id: str, *, update: bool, slow: bool = False) -> None:
    """To the end of the run that worked it off."""
    receipt = await site.memory.after_answer(scope, load_turn(turn_id, update=update, slow=slow))
    if receipt.status is not ReceiptStatus.RECORDED or not receipt.started:
        raise BenchError(f"turn {turn_id} was {receipt.status}, started {receipt.started}: {receipt.reason}")
    await _ended(site, scope.post_answer_workflow_id)


async def _ended(site: Site, workflow_id: str) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            await site.client.get_workflow_handle(workflow_id).result()
    except TimeoutError:
        raise BenchError(f"the run {workflow_id} did not end within {WITHIN_S:g} s") from None


async def _windows_done(site: Site, users: int) -> None:
    """One window of each user: a wake-up goes beside the answer, so its run may not be there yet."""
    query = f"WorkflowType = '{CONSOLIDATE_EVENTS_WORKFLOW}' AND ExecutionStatus = 'Completed'"
    await _until(site, query, users)


async def _until(site: Site, query: str, count: int) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            while (await site.client.count_workflows(query)).count < count:
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise BenchError(f"not {count} runs within {WITHIN_S:g} s of: {query}") from None


async def _burst(site: Site) -> None:
    """Several turns of a user at once, which a run takes together as far as they are there when it asks."""
    scope = Scope.of(TENANT, "burst")
    await asyncio.gather(*(site.memory.after_answer(scope, load_turn(f"burst-{n}", update=True)) for n in range(BURST)))
    await _ended(site, scope.post_answer_workflow_id)


async def _slow_turn(site: Site) -> float:
    """Heartbeats that reached the server during a turn whose gate and rewrite take ``SLOW_S`` each."""
    before = await asyncio.to_thread(_heartbeats, site)
    await _turn(site, Scope.of(TENANT, "slow"), "slow", update=True, slow=True)
    return await asyncio.to_thread(_heartbeats, site) - before


def _heartbeats(site: Site) -> float:
    with urllib.request.urlopen(site.temporal.metrics_url, timeout=10) as response:
        text = response.read().decode("utf-8")
    lines = re.findall(r"^service_requests\{([^}]*)\} (\S+)$", text, re.MULTILINE)
    return sum(
        float(value)
        for labels, value in lines
        if 'operation="RecordActivityTaskHeartbeat"' in labels and 'service_name="frontend"' in labels
    )


async def _sweep(site: Site) -> None:
    await site.client.get_schedule_handle(SWEEP_SCHEDULE_ID).trigger()
    await _until(site, f"WorkflowType = '{SWEEP_WORKFLOW}' AND ExecutionStatus = 'Completed'", 1)


# ----------------------------------------------------------------------------------------------------------------- reading


async def _runs(site: Site) -> dict[str, Runs]:
    """By kind: ``noop``, ``updated``, ``window``, ``sweep``, ``burst``, ``slow``."""
    found: defaultdict[str, Runs] = defaultdict(Runs)
    async for run in site.client.list_workflows("ExecutionStatus = 'Completed'"):
        kind = _kind(run)
        if kind is None:
            continue
        handle = site.client.get_workflow_handle(run.id, run_id=run.run_id)
        events: Sequence[HistoryEvent] = (await handle.fetch_history()).events
        runs = found[kind]
        runs.actions.append(billable_actions(events))
        runs.events.append(len(events))
        runs.history.append(run.raw_info.history_size_bytes)
        runs.transitions.append(run.raw_info.state_transition_count)
    for kind in ("noop", "updated", "window", "sweep", "burst", "slow"):
        if not found[kind].actions:
            raise BenchError(f"no run of the kind {kind} is to be found")
    return found


def _kind(run: WorkflowExecution) -> str | None:
    if run.workflow_type == CONSOLIDATE_EVENTS_WORKFLOW:
        return "window"
    if run.workflow_type == SWEEP_WORKFLOW:
        return "sweep"
    if run.workflow_type != POST_ANSWER_WORKFLOW:
        return None
    user = run.id.rsplit("/", 1)[-1]
    if user in ("burst", "slow"):
        return user
    outcome: Any = run.search_attributes.get(SEARCH_OUTCOME)
    return str(outcome[0]) if outcome else None


# -------------------------------------------------------------------------------------------------------------------- rows


def _action_rows(runs: dict[str, Runs], beats: float) -> list[Row]:
    names = {
        "noop": "NOOP turn",
        "updated": "UPDATE turn",
        "window": "window of 50 events",
        "sweep": "pass of the sweeper",
    }
    rows: list[Row] = []
    for kind, name in names.items():
        one = runs[kind]
        totals = [counted.total() for counted in one.actions]
        by_kind: Counter[str] = sum(one.actions, Counter[str]())
        rows.append(
            Row(
                f"Temporal actions, {name}",
                statistics.mean(totals),
                "actions",
                DEFINITION,
                details={
                    "runs": len(totals),
                    "least": min(totals),
                    "most": max(totals),
                    "by_kind": {label: count / len(totals) for label, count in sorted(by_kind.items())},
                    "history_events": statistics.mean(one.events),
                    "history_bytes": statistics.mean(one.history),
                    "state_transitions": statistics.mean(one.transitions),
                },
            )
        )
    burst = sum(counted.total() for counted in runs["burst"].actions)
    rows.append(Row(f"Temporal actions, each of {BURST} turns at once", burst / BURST, "actions", DEFINITION))
    rows.append(
        Row(
            "heartbeats per second of model time",
            beats / (2 * SLOW_S),
            "actions/s",
            DEFINITION,
            note=f"{beats:g} in a turn whose two model steps took {SLOW_S:g} s each; each is an action that no history shows",
        )
    )
    return rows


def _storage_rows(before: Stored, after: Stored, terms: int, database: str) -> list[Row]:
    turns = USERS * TURNS
    tables = {name: (size - before.tables.get(name, 0)) / turns for name, size in after.tables.items()}
    what = f"{USERS} users of {TURNS} turns (150 words each) and one window, every third turn an UPDATE, beside before"
    return [
        Row(
            f"rows, {database}",
            (after.sql - before.sql) / turns,
            "bytes/turn",
            what,
            details={
                "by_table": {name: size for name, size in sorted(tables.items(), key=lambda item: -item[1]) if size},
                "terms_per_user": terms / (USERS + WARM_USERS),
                "bytes_per_term": after.tables.get("term_frequencies", 0) / terms,
            },
            note="indexes included, after VACUUM",
        ),
        Row(
            "profile versions",
            (after.objects - before.objects) / (after.object_versions - before.object_versions),
            "bytes/version",
            what,
            details={"versions_per_turn": (after.object_versions - before.object_versions) / turns, "staged_left": after.staged},
            note=f"young profiles of {TURNS // UPDATE_EVERY} bullets; a full one has 8 KB",
        ),
        Row("histories", (after.histories - before.histories) / turns, "bytes/turn", what, note="windows' runs included"),
        Row(
            "dev server's database",
            (after.temporal_disk - before.temporal_disk) / turns,
            "bytes/turn",
            what,
            note="histories, closed runs' state, visibility, indexes",
        ),
    ]


# ----------------------------------------------------------------------------------------------------------------- vectors


class _Kept:
    """Takes the points that an index would get, and keeps them."""

    def __init__(self) -> None:
        self.points: dict[str, Point] = {}

    async def ensure(self, collection: CollectionSpec) -> None: ...

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        self.points.update({point.point_id: point for point in points})


async def _points(site: Site) -> list[Point]:
    """The points of all messages of the users, as their windows wrote them: lexical only."""
    kept = _Kept()
    tables = site.tables
    index = index_over(tables, cast(VectorIndex, kept))
    for number in range(USERS):
        await index.events.rewrite(Scope.of(TENANT, f"user-{number}"), range(1, 2 * TURNS + 1))
    if len(kept.points) != USERS * TURNS * 2:
        raise BenchError(f"{len(kept.points)} points for {USERS * TURNS * 2} messages")
    return list(kept.points.values())


async def _vector_rows(points: Sequence[Point]) -> list[Row]:
    """The engine's files grow in steps, so the difference of a small and a large collection counts."""
    terms = statistics.mean(len(point.sparse.indices) for point in points)
    rows = [
        Row(
            "terms of a message's lexical vector",
            terms,
            "terms",
            "nothing",
            details={"raw_bytes": 8 * terms},
            note="with its neighbours' terms",
        )
    ]
    with TemporaryDirectory(prefix="afterturn-bench-") as folder:
        small = await _filled(Path(folder) / "small", points, FEW_COPIES)
        large = await _filled(Path(folder) / "large", points, MANY_COPIES)
    rows.append(
        Row(
            "a message in the vector engine, lexical",
            (large - small) / (len(points) * (MANY_COPIES - FEW_COPIES)),
            "bytes/message",
            f"{len(points) * MANY_COPIES:,} points beside {len(points) * FEW_COPIES:,}",
            note="files on the disk: vector, inverted index, payload and its indexes, write-ahead log",
        )
    )
    return rows


async def _filled(folder: Path, points: Sequence[Point], copies: int) -> int:
    """Bytes on the disk of a collection with so many copies of the points, each copy with owners of its own."""
    chance, spec = random.Random(1), CollectionSpec("sizes", None, None, INDEXES)
    vectors = EdgeVectors(folder, owner="bench", timeout_s=60.0)
    try:
        await vectors.ensure(spec)
        for number in range(copies):
            copied = [
                replace(
                    point,
                    point_id=str(uuid.UUID(int=chance.getrandbits(128))),
                    owner=f"{point.owner}-{number}",
                    payload={key: value for key, value in point.payload.items() if key != PAYLOAD_OWNER},
                )
                for point in points
            ]
            await vectors.upsert(spec.name, copied)
    finally:
        await vectors.aclose()
    return disk(folder)


async def _embedding() -> Row:
    """CPU of a dense vector of one message, with the default embedder in this process."""
    name, what = "dense vector of one message: CPU", "nothing"
    embedder = build_embedder(load_settings({}))
    if embedder is None:
        return skipped(name, "ms", what, "no embedder is configured")
    texts = [sentences(f"embed-{number}", 75) for number in range(TEXTS)]
    try:
        await embedder.passages(texts[:2])
        began = time.process_time()
        vectors = await embedder.passages(texts)
        spent = time.process_time() - began
    finally:
        await embedder.aclose()
    return Row(
        name,
        spent / len(texts) * 1000,
        "ms",
        what,
        details={"embedder": embedder.name, "dimension": len(vectors[0]), "vector_bytes": 4 * len(vectors[0])},
        note="75 words, the mean of a user's message and an answer",
    )
