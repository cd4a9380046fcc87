"""``make eval``: the golden cases of the event window through the real extraction and the real stores, with a table of results.

    make eval                                   # the simulated model; fails when it misses a case
    make eval ARGS="--model openai:gpt-4.1-mini"  # a real one, when its key is set
    make eval ARGS="--only until_march --verbose"

Every case runs as a user of its own on one SQLite database in a temporary folder, search is lexical unless an embedder is asked
for. Precision and recall count things that were stored or changed, not what the model proposed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.golden import GOLDEN, NOW, Case, Observed, Score, Stored, Verdict, judge, load_cases, scores
from memory.categories import spec_of
from memory.categories.spec import ApplyContext, Stores
from memory.extraction import Extractor, load_known
from memory.llm.factory import build_models
from memory.model.category import Category
from memory.model.contact import TEXT_FIELDS, USER_CONTACT, Contact
from memory.model.errors import AfterturnError
from memory.model.fact import Fact, FactStatus
from memory.model.ids import new_id
from memory.model.items import Grounded
from memory.model.near_duplicate import statement_key
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.task import Task
from memory.model.window import StoredEvent, Window
from memory.ports import (
    AddFact,
    ChatModel,
    ContactChangeRequest,
    CreateContact,
    CreateTask,
    UpdateContact,
    Usage,
)
from memory.settings import Settings, load_settings
from memory.stores.migrations import migrate
from memory.stores.tables import build_tables
from starter.search import open_search, stores_of

MODEL_TIMEOUT_S = 120.0
_FACT_TIME = NOW - timedelta(days=30)
_CATEGORY_OF_TEXT = {
    "bio": Category.BIOS,
    "rolling_summary": Category.ROLLING_SUMMARIES,
    "response_policy": Category.RESPONSE_POLICIES,
}
_CONTACT_FIELDS = (
    "first_name",
    "surname",
    "email_address",
    "phone_number",
    "whatsapp_number",
    "timezone",
    "job_title",
)


@dataclass(frozen=True, slots=True)
class Report:
    model: str
    verdicts: tuple[Verdict, ...]
    usage: Usage

    @property
    def failed(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)


@asynccontextmanager
async def throw_away_stores(settings: Settings) -> AsyncGenerator[Stores]:
    """The record stores and their search on a SQLite database in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        own = settings.model_copy(
            update={
                "data_dir": Path(folder),
                "database_url": None,
                "vector_url": None,
                "vector_service_url": None,
            }
        )
        await asyncio.to_thread(migrate, own.sqlalchemy_url)
        tables = build_tables(own)
        index = open_search(own, tables)
        try:
            yield stores_of(tables, index)
        finally:
            await index.aclose()
            await tables.aclose()


async def evaluate(model: ChatModel, cases: Sequence[Case], stores: Stores, *, simulated: bool) -> Report:
    """Run the cases one after the other. What goes wrong with one case is its verdict, not the end."""
    verdicts: list[Verdict] = []
    usage = Usage(calls=0)
    for case in cases:
        try:
            stored, spent, dropped = await _run(case, model, stores)
            usage += spent
            verdicts.append(replace(judge(case, stored, simulated=simulated), dropped=dropped))
        except AfterturnError as error:
            nothing = judge(case, Stored(()), simulated=simulated)
            verdicts.append(replace(nothing, error=f"{type(error).__name__}: {error}"))
    return Report(model.name, tuple(verdicts), usage)


async def _run(case: Case, model: ChatModel, stores: Stores) -> tuple[Stored, Usage, tuple[str, ...]]:
    scope = Scope.of("golden", case.name)
    aliases = await _prepare(case, scope, stores)
    usage, seq, dropped = Usage(calls=0), 0, list[str]()
    before: _Snapshot | None = None
    specs = [spec_of(category) for category in case.categories]
    for number, events in enumerate(case.events(), 1):
        stored = [StoredEvent(seq=seq + place, event=event, recorded_at=NOW) for place, event in enumerate(events, 1)]
        seq += len(stored)
        window = Window(
            scope=scope,
            window_id=f"w{number}",
            first_seq=stored[0].seq,
            last_seq=seq,
            events=len(stored),
            categories=case.categories,
            planned_at=NOW,
        )
        known = await load_known(stores, scope, stored, specs=specs, now=NOW)
        before = before or await _snapshot(scope, stores)
        result = await Extractor(model, timeout_s=MODEL_TIMEOUT_S).run(window, stored, known, specs, now=NOW)
        for spent in result.usage.values():
            usage += spent
        refs = dict(result.extraction.refs)
        for found in result.extraction.categories:
            spec = spec_of(found.category)
            items = [Grounded[spec.item].model_validate(item) for item in found.items]
            applied = await spec.apply(items, ApplyContext(window, stored, refs, stores, NOW))
            refs |= applied.refs
            dropped += [f"{one.category.value}: {one.reason}" for one in (*found.dropped, *applied.dropped)]
            if found.failed:
                dropped.append(f"{found.category.value}: failed, {found.failed}")
    after = await _snapshot(scope, stores)
    return await _stored(scope, stores, before or after, after, aliases), usage, tuple(dropped)


# ----------------------------------------------------------------------------------------------------- before and afterwards


@dataclass(frozen=True, slots=True)
class _Snapshot:
    contacts: Mapping[int, Contact]
    facts: Mapping[str, Fact]
    tasks: Mapping[str, Task]


async def _prepare(case: Case, scope: Scope, stores: Stores) -> set[str]:
    """Store what is known before; returns the aliases that the case speaks of."""
    aliases = {event.sender for window in case.windows for event in window if event.sender} | {"user"}
    changes: list[ContactChangeRequest] = []
    for count, row in enumerate(case.before.contacts):
        fields = {name: value for name, value in row.items() if name not in ("aliases", "user")}
        if row.get("user"):
            changes.append(UpdateContact(f"before-{count}", USER_CONTACT, fields))
        else:
            changes.append(CreateContact(f"before-{count}", fields, tuple(row.get("aliases", ()))))
            aliases |= set(row.get("aliases", ()))
    await stores.contacts.apply(scope, changes, origin="manual", now=_FACT_TIME)
    owner = Owner.user(scope)
    facts = [
        Fact.model_validate({"fact_id": new_id(), "owner": owner.key, "observed_at": _FACT_TIME, "created_at": _FACT_TIME, **row})
        for row in case.before.facts
    ]
    await stores.facts.apply(
        owner,
        [AddFact(f"before-{count}", fact, statement_key(fact.statement)) for count, fact in enumerate(facts)],
        now=_FACT_TIME,
    )
    tasks = [
        Task.model_validate({"task_id": new_id(), "created_at": _FACT_TIME, "updated_at": _FACT_TIME, **row})
        for row in case.before.tasks
    ]
    await stores.tasks.apply(
        scope,
        [CreateTask(f"before-{count}", task, statement_key(task.name)) for count, task in enumerate(tasks)],
        now=_FACT_TIME,
    )
    return aliases


async def _snapshot(scope: Scope, stores: Stores) -> _Snapshot:
    contacts = await stores.contacts.list(scope, limit=200)
    facts = await stores.facts.list(View.of(scope), statuses=tuple(FactStatus), sources=True, limit=200)
    tasks = await stores.tasks.list(scope, sources=True, limit=200)
    return _Snapshot(
        {contact.contact_id: contact for contact in contacts},
        {fact.fact_id: fact for fact in facts},
        {task.task_id: task for task in tasks},
    )


async def _stored(scope: Scope, stores: Stores, before: _Snapshot, after: _Snapshot, aliases: set[str]) -> Stored:
    by_alias = await stores.contacts.by_alias(scope, aliases)
    whose: dict[int, set[str]] = {}
    for alias, contact in by_alias.items():
        whose.setdefault(contact.contact_id, set()).add(alias)
    observed = [
        *_contacts(before, after, whose),
        *_facts(before, after),
        *_tasks(before, after, whose),
    ]
    texts = [json.dumps(one.model_dump(mode="json"), ensure_ascii=False) for one in after.contacts.values()]
    texts += [json.dumps(one.model_dump(mode="json"), ensure_ascii=False) for one in after.tasks.values()]
    facts = [f"{fact.subject} {fact.statement}" for fact in after.facts.values()]
    active = [f"{fact.subject} {fact.statement}" for fact in after.facts.values() if fact.status is FactStatus.ACTIVE]
    return Stored(tuple(observed), (*texts, *facts), tuple(facts), tuple(active))


def _contacts(before: _Snapshot, after: _Snapshot, whose: Mapping[int, set[str]]) -> list[Observed]:
    observed: list[Observed] = []
    gone = set(before.contacts) - set(after.contacts)
    for contact_id, contact in after.contacts.items():
        old = before.contacts.get(contact_id)
        names = frozenset(whose.get(contact_id, ()))
        values: dict[str, str | None] = {name: getattr(contact, name) for name in _CONTACT_FIELDS}
        was = {name: getattr(old, name) if old else None for name in _CONTACT_FIELDS}
        merged = old is not None and bool(gone) and len(contact.aliases) > len(old.aliases)
        if values != was or merged:
            observed.append(Observed(Category.CONTACTS, " ".join(filter(None, values.values())), values, names))
        for name in TEXT_FIELDS:
            text = getattr(contact, name)
            if text and not merged and text != (getattr(old, name) if old else None):
                observed.append(Observed(_CATEGORY_OF_TEXT[name], text, {}, names))
    return observed


def _facts(before: _Snapshot, after: _Snapshot) -> list[Observed]:
    observed: list[Observed] = []
    for fact_id, fact in after.facts.items():
        old = before.facts.get(fact_id)
        if fact.status is not FactStatus.ACTIVE or (old is not None and len(old.sources) == len(fact.sources)):
            continue
        fields: dict[str, str | None] = {
            "kind": fact.kind.value,
            "status": fact.status.value,
            "subject": fact.subject,
            "valid_from": fact.valid_from.isoformat() if fact.valid_from else None,
            "valid_until": fact.valid_until.isoformat() if fact.valid_until else None,
        }
        ended = tuple(other.statement for other in after.facts.values() if other.superseded_by == fact_id)
        text = f"{fact.subject}: {fact.statement}"
        observed.append(Observed(Category.KNOWLEDGE, text, fields, supersedes=ended, sources=len(fact.sources)))
    return observed


def _tasks(before: _Snapshot, after: _Snapshot, whose: Mapping[int, set[str]]) -> list[Observed]:
    observed: list[Observed] = []
    watched = ("name", "description", "status", "priority", "deadline", "schedule", "tags", "contact_id")
    for task_id, task in after.tasks.items():
        old = before.tasks.get(task_id)
        if old is not None and all(getattr(old, name) == getattr(task, name) for name in watched):
            continue
        fields: dict[str, str | None] = {
            "status": task.status.value,
            "priority": task.priority.value,
            "deadline": task.deadline.isoformat() if task.deadline else None,
            "schedule": task.schedule,
            "tags": " ".join(task.tags) or None,
            "contact": " ".join(sorted(whose.get(task.contact_id, ()))) if task.contact_id is not None else None,
        }
        observed.append(Observed(Category.TASKS, f"{task.name} {task.description}", fields, sources=len(task.sources)))
    return observed


# ------------------------------------------------------------------------------------------------------------- the command


def show(report: Report, console: Console, *, verbose: bool) -> None:
    """The tables, and every case that is not as expected."""
    for by in ("category", "language"):
        table = Table(title=f"{report.model}: golden cases by {by}")
        for column in (by, "cases", "passed", "expected", "stored", "right", "precision", "recall"):
            table.add_column(column, justify="left" if column == by else "right")
        for name, score in scores(report.verdicts, by=by):
            table.add_row(name, *_cells(score))
        console.print(table)
    traps = [(name, score) for name, score in scores(report.verdicts, by="trap") if verbose or score.passed < score.cases]
    for name, score in traps:
        console.print(f"trap {name}: {score.passed} of {score.cases} held", markup=False)
    for verdict in report.verdicts if verbose else report.failed:
        console.print(f"{'ok    ' if verdict.passed else 'MISSED'} {verdict.case.name}: {verdict.case.about}", markup=False)
        for what, lines in (
            ("missing", verdict.missing),
            ("too much", verdict.extra),
            ("must not be there", verdict.forbidden),
            ("not taken", verdict.dropped),
        ):
            for line in lines:
                console.print(f"         {what}: {line}", markup=False)
        if verdict.error:
            console.print(f"         {verdict.error}", markup=False)
    held = len(report.verdicts) - len(report.failed)
    console.print(f"{held} of {len(report.verdicts)} cases as expected, {report.usage.calls} model calls")


def _cells(score: Score) -> tuple[str, ...]:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    counts = (score.cases, score.passed, score.expected, score.observed, score.right)
    return (*map(str, counts), share(score.precision), share(score.recall))


def as_json(report: Report) -> dict[str, Any]:
    """For ``--json``: no text of what was stored, only what the cases themselves say."""
    return {
        "model": report.model,
        "usage": {
            "calls": report.usage.calls,
            "input_tokens": report.usage.input_tokens,
            "output_tokens": report.usage.output_tokens,
        },
        **{
            f"by_{by}": {
                name: {
                    "cases": score.cases,
                    "passed": score.passed,
                    "expected": score.expected,
                    "stored": score.observed,
                    "right": score.right,
                    "precision": score.precision,
                    "recall": score.recall,
                }
                for name, score in scores(report.verdicts, by=by)
            }
            for by in ("category", "language", "trap")
        },
        "cases": [
            {
                "name": verdict.case.name,
                "passed": verdict.passed,
                "missing": verdict.missing,
                "extra": verdict.extra,
                "forbidden": verdict.forbidden,
                "dropped": verdict.dropped,
                "error": verdict.error,
            }
            for verdict in report.verdicts
        ],
    }


def _chosen(case: Case, only: str | None) -> bool:
    return only is None or only in (case.name, case.language, case.trap, *(category.value for category in case.categories))


async def run(model_name: str, cases: Sequence[Case], *, embedder: str = "none") -> Report:
    """Raises InvalidInput for a model without a key, InvalidSettings for an embedder that cannot be used."""
    settings = load_settings().model_copy(update={"embedder": embedder, "simulated_faults": "", "simulated_latency_ms": 0.0})
    models = build_models(settings)
    try:
        async with throw_away_stores(settings) as stores:
            model = models.model(model_name)
            return await evaluate(model, cases, stores, simulated=model_name.split(":")[0] == "simulated")
    finally:
        await models.aclose()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make eval", description="The golden cases of the event window, with a table of results.")
    parser.add_argument("--model", default="simulated", help="provider:model; default: simulated")
    parser.add_argument("--embedder", default="none", help="as AFTERTURN_EMBEDDER; default: none (lexical search only)")
    parser.add_argument("--only", help="cases of this name, category, language or trap")
    parser.add_argument("--golden", type=Path, default=GOLDEN, help="folder of the cases")
    parser.add_argument("--json", type=Path, help="write the report there too")
    parser.add_argument("--verbose", action="store_true", help="all cases, not only those that were missed")
    given = parser.parse_args(arguments)
    console = Console()
    try:
        cases = [case for case in load_cases(given.golden) if _chosen(case, given.only)]
        if not cases:
            parser.error(f"no case of that name, category, language or trap: {given.only}")
        report = asyncio.run(run(given.model, cases, embedder=given.embedder))
    except AfterturnError as error:
        console.print(f"{type(error).__name__}: {error}", markup=False)
        return 2
    show(report, console, verbose=given.verbose)
    if given.json:
        given.json.write_text(json.dumps(as_json(report), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    broken = any(verdict.error for verdict in report.verdicts)
    return 1 if broken or (report.failed and given.model.split(":")[0] == "simulated") else 0


if __name__ == "__main__":
    sys.exit(main())
