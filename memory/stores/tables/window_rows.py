"""Windows as rows of the ledger and back, and the statements that every step of a run makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import and_, bindparam, false, literal, literal_column, not_, or_, select, true
from sqlalchemy.engine import RowMapping

from memory.model.category import Category
from memory.model.enablement import ReasonCode
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.model.window import CategoryOutcome, Window, WindowKind, WindowState, WindowTrigger
from memory.ports import DueUser, Progress, WindowResult
from memory.stores.tables.event_rows import clean_json
from memory.stores.tables.rows import EVENTS, USER_COUNTERS
from memory.stores.tables.rows_window import WINDOWS
from memory.stores.tables.statements import of_user

# Literals, not parameters: only then can the planner use the partial indexes.
IS_PLANNED = WINDOWS.c.state == literal_column("'planned'")
_IS_UNHAPPY = {
    WindowState.FAILED: WINDOWS.c.state == literal_column("'failed'"),
    WindowState.PARTIAL: WINDOWS.c.state == literal_column("'partial'"),
}
IS_UNHAPPY = or_(*_IS_UNHAPPY.values())
"""In the words of its index."""
HAS_WAITING = USER_COUNTERS.c.waiting != literal_column("0")
"""Not ``>``: SQLite would take that as the bound in the index, and not the window's size beside it."""
IS_FLUSHED = USER_COUNTERS.c.flush_seq > USER_COUNTERS.c.consolidated_seq
NOT_FLUSHED = USER_COUNTERS.c.flush_seq < USER_COUNTERS.c.last_seq

_ONE = select(literal(1).label("one")).subquery("one")
_FIRST = (
    select(WINDOWS.c.window_id)
    .where(of_user(WINDOWS), IS_PLANNED)
    .order_by(WINDOWS.c.planned_at, WINDOWS.c.first_seq, WINDOWS.c.window_id)
    .limit(1)
    .scalar_subquery()
)
NEXT = select(
    USER_COUNTERS.c.last_seq.label("c_last_seq"),
    USER_COUNTERS.c.consolidated_seq.label("c_consolidated_seq"),
    USER_COUNTERS.c.flush_seq.label("c_flush_seq"),
    USER_COUNTERS.c.flush_cause.label("c_flush_cause"),
    WINDOWS,
).select_from(
    _ONE.outerjoin(USER_COUNTERS, of_user(USER_COUNTERS)).outerjoin(WINDOWS, and_(of_user(WINDOWS), WINDOWS.c.window_id == _FIRST))
)
"""One row: the user's numbers (null for one without events) and the oldest planned window (null where there is none)."""

EVENTS_BETWEEN = (
    select(EVENTS).where(of_user(EVENTS), EVENTS.c.seq.between(bindparam("b_first"), bindparam("b_last"))).order_by(EVENTS.c.seq)
)
EVENTS_BY_SEQ = select(EVENTS).where(of_user(EVENTS), EVENTS.c.seq.in_(bindparam("b_seqs", expanding=True))).order_by(EVENTS.c.seq)
LOCKED_COUNTERS = select(USER_COUNTERS).where(of_user(USER_COUNTERS)).with_for_update()
ONE_WINDOW = select(WINDOWS).where(of_user(WINDOWS), WINDOWS.c.window_id == bindparam("b_window"))


def user_binds(scope: Scope) -> dict[str, Any]:
    return {"b_tenant": scope.tenant, "b_user": scope.user}


def reopenable(states: Iterable[WindowState]) -> Any:
    """``WHERE`` of windows that ended in one of these ways, but not because their user had opted out."""
    kept_out = WINDOWS.c.reason.like(f"%{ReasonCode.USER_OPTED_OUT.value.replace('_', '!_')}%", escape="!")
    conditions: list[Any] = []
    for state in sorted(set(states)):
        condition = _IS_UNHAPPY.get(state, WINDOWS.c.state == state.value)
        if state is WindowState.SKIPPED:
            condition = and_(condition, or_(WINDOWS.c.reason.is_(None), not_(kept_out)))
        conditions.append(condition)
    return or_(false(), *conditions) if conditions else ~true()


def progress_of(row: Any) -> Progress:
    if row is None:
        return Progress(0, 0, 0, 0, 0, None)
    return Progress(
        last_seq=row.last_seq,
        consolidated_seq=row.consolidated_seq,
        flush_seq=row.flush_seq,
        indexed_seq=row.indexed_seq,
        embedded_seq=row.embedded_seq,
        last_event_at=row.last_event_at,
    )


def due_user(row: Any, reason: str) -> DueUser:
    return DueUser(Scope(row.tenant, row.user_id), row.waiting or 0, reason)


def window_row(window: Window) -> dict[str, Any]:
    """A window that has not ended yet as a row."""
    return {
        "tenant": window.scope.tenant,
        "user_id": window.scope.user,
        "window_id": window.window_id,
        "kind": window.kind.value,
        "cause": window.trigger.value,
        "first_seq": window.first_seq,
        "last_seq": window.last_seq,
        "events": window.events,
        "state": WindowState.PLANNED.value,
        "attempt": window.attempt,
        "reason": _cleaned(window.reason),
        "categories": [category.value for category in window.categories],
        "spaces_off": {category.value: list(spaces) for category, spaces in window.spaces_off.items()},
        "guidance": _cleaned(window.guidance),
        "model": _cleaned(window.model),
        "planned_at": window.planned_at,
    }


def window_of(row: RowMapping) -> Window:
    # A category that this version does not know was written by a newer one during a roll-out.
    known = {category.value for category in Category}
    off: dict[str, list[str]] = row["spaces_off"] or {}
    return Window(
        scope=Scope(row["tenant"], row["user_id"]),
        window_id=row["window_id"],
        kind=WindowKind(row["kind"]),
        trigger=WindowTrigger(row["cause"]),
        first_seq=row["first_seq"],
        last_seq=row["last_seq"],
        events=row["events"],
        state=WindowState(row["state"]),
        attempt=row["attempt"],
        reason=row["reason"],
        categories=tuple(Category(name) for name in row["categories"] if name in known),
        spaces_off={Category(name): tuple(spaces) for name, spaces in off.items() if name in known},
        guidance=row["guidance"],
        model=row["model"],
        outcomes=tuple(outcomes_of(row["outcomes"])),
        flags=tuple(row["flags"] or ()),
        usage=row["usage"] or {},
        durations_ms=row["durations_ms"] or {},
        run_id=row["run_id"],
        workflow_id=row["workflow_id"],
        planned_at=row["planned_at"],
        finished_at=row["finished_at"],
    )


def outcomes_of(stored: Iterable[Mapping[str, Any]] | None) -> list[CategoryOutcome]:
    known = {category.value for category in Category}
    return [CategoryOutcome.model_validate(one) for one in stored or () if one["category"] in known]


def ended_values(result: WindowResult, before: Window) -> dict[str, Any]:
    """The columns of a window that ended; outcomes of categories that this attempt had nothing to do with stay."""
    again = {outcome.category for outcome in result.outcomes}
    outcomes = (*(outcome for outcome in before.outcomes if outcome.category not in again), *result.outcomes)
    return {
        "state": result.state.value,
        "reason": _cleaned(result.reason),
        "outcomes": [clean_json(outcome.model_dump(mode="json")) for outcome in outcomes],
        "flags": [clean_text(flag) for flag in result.flags],
        "usage": {stage: dict(counts) for stage, counts in result.usage.items()},
        "durations_ms": dict(result.durations_ms),
        "run_id": result.run_id,
        "workflow_id": result.workflow_id,
    } | ({} if result.model is None else {"model": clean_text(result.model)})


def reopened_values(window: Window) -> dict[str, Any]:
    """The columns of a window that is to be run again. What stands of one that was not done is not done again.

    A skipped one has no categories: those of its old plan were off, and the plan step says which are on now.
    """
    is_done, is_skipped = window.state is WindowState.DONE, window.state is WindowState.SKIPPED
    stands = [outcome for outcome in window.outcomes if not is_done and outcome.state == "done"]
    done = {outcome.category for outcome in stands}
    planned = () if is_skipped else (*(outcome.category for outcome in window.outcomes), *window.categories)
    all_of_it = dict.fromkeys(planned)
    order = list(Category)
    again = sorted((category for category in all_of_it if category not in done), key=order.index)
    return {
        "state": WindowState.PLANNED.value,
        "attempt": window.attempt + 1,
        "categories": [category.value for category in again],
        "spaces_off": {} if is_skipped else {category.value: list(spaces) for category, spaces in window.spaces_off.items()},
        "outcomes": [outcome.model_dump(mode="json") for outcome in stands],
        **dict.fromkeys(("reason", "flags", "usage", "durations_ms", "run_id", "workflow_id", "finished_at")),
    }


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
