"""Loops of knowledge in SQL: the request, what was said and done in it, how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final, cast

from sqlalchemy import Connection, Row, and_, bindparam, or_, select

from memory.model.errors import InvalidInput
from memory.model.knowledge_loop import (
    MAX_ANSWER_BYTES,
    MAX_CONTEXT_BYTES,
    MAX_CONTEXT_MESSAGES,
    MAX_INSTRUCTIONS_BYTES,
    MAX_REQUEST_BYTES,
    MAX_SCHEMA_BYTES,
    Entry,
    EntryKind,
    Limits,
    Loop,
    LoopState,
    Operation,
)
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.ports import Position, Usage
from memory.ports.knowledge import LoopStore, WindowLoop
from memory.stores.tables.columns import to_utc
from memory.stores.tables.engine import Database
from memory.stores.tables.rows_knowledge import KNOWLEDGE_ENTRIES, KNOWLEDGE_LOOPS
from memory.stores.tables.scoping import EveryOwner, Prepared, Records, batches, checked_limit, guard

MAX_BODY_BYTES: Final = 1024 * 1024
"""Of one entry, as JSON."""
MAX_ENTRIES: Final = 20_000
"""Of one loop."""
MAX_APPENDED: Final = 1_000
"""In one call."""
MAX_NAME_CHARS: Final = 255
"""Of an id, a key, a destination, a model."""
MAX_REASON_CHARS: Final = 2_000
_LOOP = KNOWLEDGE_LOOPS.c
_ENTRY = KNOWLEDGE_ENTRIES.c

_BY_ID: Final = Prepared(select(KNOWLEDGE_LOOPS).where(_LOOP.loop_id == bindparam("b_loop")))
_KNOWN: Final = Prepared(select(_LOOP.loop_id).where(_LOOP.loop_id == bindparam("b_loop")))
_NEWEST: Final = Prepared(
    select(_ENTRY.number).where(_ENTRY.loop_id == bindparam("b_loop")).order_by(_ENTRY.number.desc()).limit(1)
)
_PAGE: Final = Prepared(
    select(KNOWLEDGE_ENTRIES)
    .where(_ENTRY.loop_id == bindparam("b_loop"), _ENTRY.number > bindparam("b_after"))
    .order_by(_ENTRY.number)
    .limit(bindparam("b_limit"))
)
_BY_KEY: Final = Prepared(
    select(KNOWLEDGE_ENTRIES).where(
        _ENTRY.loop_id == bindparam("b_loop"), _ENTRY.entry_key.in_(bindparam("b_keys", expanding=True))
    )
)


class SqlLoops(LoopStore):
    """A user's loops, whatever they write to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        guard(database.engine)

    async def open(self, scope: Scope, loop: Loop) -> Loop:
        row = _opened(loop)

        def work(connection: Connection) -> Loop:
            records = Records(connection, Owner.user(scope))
            records.lock()
            there = _row(records, loop.loop_id)
            if there is None:
                records.insert(KNOWLEDGE_LOOPS, [row])
                there = _row(records, loop.loop_id)
            return _loop(cast("Row[Any]", there))

        return await self._database.write(work)

    async def loop(self, scope: Scope, loop_id: str) -> Loop | None:
        def work(connection: Connection) -> Loop | None:
            row = _row(Records(connection, Owner.user(scope)), loop_id)
            return None if row is None else _loop(row)

        return await self._database.read(work)

    async def loops(
        self,
        scope: Scope,
        *,
        state: LoopState | None = None,
        parent: str | None = None,
        after: Position | None = None,
        limit: int = 50,
    ) -> Sequence[Loop]:
        wanted = select(KNOWLEDGE_LOOPS).order_by(_LOOP.created_at.desc(), _LOOP.loop_id.desc()).limit(checked_limit(limit))
        if state is not None:
            wanted = wanted.where(_LOOP.state == state.value)
        if parent is not None:
            _check_name(parent)
            wanted = wanted.where(_LOOP.parent == parent)
        if after is not None:
            _check_name(after.item_id)
            moment = to_utc(after.created_at)
            same = and_(_LOOP.created_at == moment, _LOOP.loop_id < after.item_id)
            wanted = wanted.where(or_(_LOOP.created_at < moment, same))
        return await self._database.read(lambda c: [_loop(row) for row in Records(c, Owner.user(scope)).rows(wanted)])

    async def of_windows(self, scope: Scope | None, *, after: datetime, before: datetime, limit: int = 50) -> Sequence[WindowLoop]:
        wanted = (
            select(_LOOP.tenant, _LOOP.owner_key, _LOOP.loop_id)
            .where(_LOOP.state == LoopState.RUNNING.value, _LOOP.parent.contains(":", autoescape=True))
            .where(_LOOP.created_at > to_utc(after), _LOOP.created_at < to_utc(before))
            .order_by(_LOOP.created_at, _LOOP.loop_id)
            .limit(checked_limit(limit))
        )

        def work(connection: Connection) -> list[WindowLoop]:
            reader = EveryOwner(connection) if scope is None else Records(connection, Owner.user(scope))
            return [
                WindowLoop(Scope(row.tenant, Owner.of_key(row.tenant, row.owner_key).name), row.loop_id)
                for row in reader.rows(wanted)
            ]

        return await self._database.read(work)

    async def append(self, scope: Scope, loop_id: str, entries: Sequence[Entry], *, now: datetime) -> Sequence[Entry]:
        """Raises InvalidInput: no such loop; an entry, or the loop, is too large."""
        moment = to_utc(now)
        _check_name(loop_id)
        if len(entries) > MAX_APPENDED:
            raise InvalidInput(f"{len(entries)} entries in one call; at most {MAX_APPENDED} are taken")
        new: dict[str, dict[str, Any]] = {}
        for entry in entries:
            new.setdefault(entry.key, _entry_row(loop_id, entry, moment))

        def work(connection: Connection) -> list[Entry]:
            records = Records(connection, Owner.user(scope))
            # Whoever appends holds the user's lock until commit, so the numbers have no gaps.
            records.lock()
            newest = records.row(_NEWEST, {"b_loop": loop_id})
            if newest is None and records.row(_KNOWN, {"b_loop": loop_id}) is None:
                raise InvalidInput("there is no such loop of this user")
            last = 0 if newest is None else newest.number
            there = _by_key(records, loop_id, list(new))
            added = [{**row, "number": number} for number, row in enumerate(_without(new, there), last + 1)]
            if last + len(added) > MAX_ENTRIES:
                raise InvalidInput(f"a loop has at most {MAX_ENTRIES} entries; start a new one")
            if added:
                records.insert(KNOWLEDGE_ENTRIES, added)
            made = {row["entry_key"]: _added(row) for row in added}
            return [there.get(entry.key) or made[entry.key] for entry in entries]

        return await self._database.write(work) if entries else []

    async def entries(self, scope: Scope, loop_id: str, *, after: int = 0, limit: int = 1_000) -> Sequence[Entry]:
        if clean_text(loop_id) != loop_id:
            return []  # no database takes it, so nothing has this id
        binds = {"b_loop": loop_id, "b_after": after, "b_limit": checked_limit(limit)}
        return await self._database.read(lambda c: [_entry(row) for row in Records(c, Owner.user(scope)).rows(_PAGE, binds)])

    async def finish(
        self,
        scope: Scope,
        loop_id: str,
        *,
        state: LoopState,
        answer: str | None,
        structured: Any = None,
        reason: str | None = None,
        steps: int,
        usage: Usage,
        now: datetime,
    ) -> Loop:
        """Raises InvalidInput: no such loop, RUNNING as the end, an answer beyond MAX_ANSWER_BYTES."""
        if state is LoopState.RUNNING:
            raise InvalidInput("a loop ends in another state than running")
        _check_name(loop_id)
        values = {
            "state": state.value,
            "answer": _bounded({"text": answer, "structured": structured}, MAX_ANSWER_BYTES, "the answer"),
            "reason": None if reason is None else clean_text(reason)[:MAX_REASON_CHARS],
            "steps": steps,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "ended_at": to_utc(now),
        }

        def work(connection: Connection) -> Loop:
            records = Records(connection, Owner.user(scope))
            running = (_LOOP.loop_id == loop_id, _LOOP.state == LoopState.RUNNING.value)
            records.update(KNOWLEDGE_LOOPS, *running, values=values)
            row = _row(records, loop_id)
            if row is None:
                raise InvalidInput("there is no such loop of this user")
            return _loop(row)

        return await self._database.write(work)


def _row(records: Records, loop_id: str) -> Row[Any] | None:
    if clean_text(loop_id) != loop_id:
        return None  # no database takes it, so nothing has this id
    return records.row(_BY_ID, {"b_loop": loop_id})


def _by_key(records: Records, loop_id: str, keys: Sequence[str]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for some in batches(keys):
        rows = records.rows(_BY_KEY, {"b_loop": loop_id, "b_keys": list(some)})
        found |= {row.entry_key: _entry(row) for row in rows}
    return found


def _without(new: Mapping[str, dict[str, Any]], there: Mapping[str, Entry]) -> list[dict[str, Any]]:
    return [row for key, row in new.items() if key not in there]


# ------------------------------------------------------------------------------------------------------------------- stored


def _opened(loop: Loop) -> dict[str, Any]:
    """Raises InvalidInput for what is too large, and for limits that are no numbers."""
    if problem := loop.limits.problem():
        raise InvalidInput(problem)
    if len(loop.context) > MAX_CONTEXT_MESSAGES:
        raise InvalidInput(
            f"{len(loop.context)} messages of context; at most {MAX_CONTEXT_MESSAGES} are taken, the newest are best"
        )
    request = {
        "text": _bounded(loop.text, MAX_REQUEST_BYTES, "the request"),
        "instructions": _bounded(loop.instructions, MAX_INSTRUCTIONS_BYTES, "case_specific_instructions"),
        "context": _bounded([dict(message) for message in loop.context], MAX_CONTEXT_BYTES, "the context"),
        "response_format": _bounded(loop.response_format, MAX_SCHEMA_BYTES, "the response format"),
    }
    if loop.only:
        request["only"] = _bounded(list(loop.only), MAX_INSTRUCTIONS_BYTES, "the names of tables")
    if loop.said is not None:
        request["said"] = _bounded(list(loop.said), MAX_CONTEXT_BYTES, "what the user has said")
    for name in (loop.loop_id, loop.destination, loop.model, loop.parent or ""):
        _check_name(name)
    return {
        "loop_id": loop.loop_id,
        "operation": loop.operation.value,
        "request": request,
        "destination": loop.destination,
        "clarify": loop.clarify,
        "limits": asdict(loop.limits),
        "model": loop.model,
        "parent": loop.parent,
        "state": LoopState.RUNNING.value,
        "steps": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "created_at": to_utc(loop.created_at),
    }


def _loop(row: Row[Any]) -> Loop:
    answer: Mapping[str, Any] = row.answer or {}
    loop = Loop(
        loop_id=row.loop_id,
        operation=Operation(row.operation),
        text=row.request["text"],
        destination=row.destination,
        created_at=row.created_at,
        instructions=row.request["instructions"],
        context=tuple(row.request["context"]),
        response_format=row.request["response_format"],
        clarify=row.clarify,
        limits=Limits(**row.limits),
        model=row.model,
        parent=row.parent,
        only=tuple(row.request.get("only") or ()),
        said=None if row.request.get("said") is None else tuple(row.request["said"]),
    )
    return replace(
        loop,
        state=LoopState(row.state),
        answer=answer.get("text"),
        structured=answer.get("structured"),
        reason=row.reason,
        steps=row.steps,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        ended_at=row.ended_at,
    )


def _entry_row(loop_id: str, entry: Entry, now: datetime) -> dict[str, Any]:
    _check_name(entry.key)
    return {
        "loop_id": loop_id,
        "entry_key": entry.key,
        "kind": entry.kind.value,
        "step": entry.step,
        "body": _bounded(dict(entry.body), MAX_BODY_BYTES, "an entry of a loop"),
        "at": now,
    }


def _added(row: Mapping[str, Any]) -> Entry:
    """As :func:`_entry` would read it."""
    return Entry(row["entry_key"], EntryKind(row["kind"]), row["step"], row["body"], row["number"], row["at"])


def _entry(row: Row[Any]) -> Entry:
    return Entry(row.entry_key, EntryKind(row.kind), row.step, row.body, row.number, row.at)


def _bounded(value: Any, most: int, what: str) -> Any:
    """The value with text that every store takes. Raises InvalidInput for more than ``most`` bytes."""
    clean = _clean(value)
    try:
        text = clean if isinstance(clean, str) else "" if clean is None else json.dumps(clean, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput(f"{what} is not plain JSON") from None
    size = len(text.encode())
    if size > most:
        raise InvalidInput(f"{what} has {size} bytes; at most {most} are taken")
    return clean


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in cast("Sequence[Any]", value)]
    return value


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME_CHARS or clean_text(name) != name:
        raise InvalidInput(f"an id, key, destination or model of a loop is at most {MAX_NAME_CHARS} plain characters")
