"""Tasks in SQL."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Row, select, tuple_

from memory.model.contact import SYSTEM_CONTACTS
from memory.model.errors import InvalidInput
from memory.model.fact import Source
from memory.model.ids import body_hash
from memory.model.owner import Owner
from memory.model.schedule import checked_schedule
from memory.model.scope import Scope
from memory.model.task import LIVE_STATUSES, Task, TaskPriority, TaskStatus
from memory.model.transcript import clean_text
from memory.model.words import fold
from memory.ports import CreateTask, Position, TaskResult, TaskStore, UpdateTask
from memory.stores.tables.columns import to_utc
from memory.stores.tables.effects import apply_once
from memory.stores.tables.engine import Database
from memory.stores.tables.forgotten import GONE, forget_sources, is_forgotten
from memory.stores.tables.indexing import after_row
from memory.stores.tables.provenance import add_sources, sources_of
from memory.stores.tables.rows_records import CONTACTS, TASKS
from memory.stores.tables.scoping import Query, Records, batches, checked_limit, guard

EDITABLE_FIELDS: Final = ("name", "description", "status", "priority", "deadline", "schedule", "tags", "contact_id")
_LIVE: Final = frozenset(status.value for status in LIVE_STATUSES)
_AGAIN: Final = uuid.UUID("0c1c7b5e-2f2a-4d53-9d1f-6a5f0c4be7d1")
"""Name space of the ids of tasks whose own id was given out before."""


class SqlTasks(TaskStore):
    """Tasks of users. Of the live ones (open, in progress) a key is there once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        guard(database.engine)

    async def apply(self, scope: Scope, changes: Sequence[CreateTask | UpdateTask], *, now: datetime) -> Sequence[TaskResult]:
        """An update may hold ``key`` beside a new ``name``; without it the name folded is the key.

        Raises InvalidInput for values that a task cannot have, a schedule that is no rule, a contact that is not there.
        """
        moment = to_utc(now)
        checked = [_checked_change(change) for change in changes]

        def work(connection: Connection) -> list[TaskResult]:
            records = Records(connection, Owner.user(scope))
            records.lock()
            return apply_once(records, "tasks", checked, _Writer(records, moment).apply, TaskResult, now=moment)

        return await self._database.write(work) if checked else []

    async def get(self, scope: Scope, task_ids: Collection[str], *, sources: bool = False) -> Mapping[str, Task]:
        wanted = sorted(set(task_ids))

        def work(connection: Connection) -> dict[str, Task]:
            records = Records(connection, Owner.user(scope))
            rows: list[Row[Any]] = []
            for some in batches(wanted):
                rows += records.rows(select(TASKS).where(TASKS.c.task_id.in_(some)))
            return {task.task_id: task for task in _tasks(records, rows, sources=sources)}

        return await self._database.read(work) if wanted else {}

    async def list(
        self,
        scope: Scope,
        *,
        statuses: Collection[TaskStatus] | None = None,
        contact_id: int | None = None,
        due_before: datetime | None = None,
        sources: bool = False,
        limit: int = 100,
        after: str | Position | None = None,
    ) -> Sequence[Task]:
        wanted = select(TASKS).order_by(TASKS.c.created_at.desc(), TASKS.c.task_id.desc()).limit(checked_limit(limit))
        if statuses is not None:
            wanted = wanted.where(TASKS.c.status.in_(sorted(status.value for status in statuses)))
        if due_before is not None:
            wanted = wanted.where(TASKS.c.deadline < to_utc(due_before))

        def work(connection: Connection) -> Sequence[Task]:
            records = Records(connection, Owner.user(scope))
            page: Query = wanted
            if contact_id is not None:
                page = page.where(TASKS.c.contact_id == _contact(records, contact_id))
            if after is not None:
                page = page.where(
                    tuple_(TASKS.c.created_at, TASKS.c.task_id) < tuple_(*after_row(records, TASKS, "task_id", after))
                )
            return _tasks(records, records.rows(page), sources=sources)

        return await self._database.read(work)

    async def delete(self, scope: Scope, task_ids: Collection[str], *, now: datetime) -> int:
        moment = to_utc(now)
        wanted = sorted(set(task_ids))

        def work(connection: Connection) -> int:
            records = Records(connection, Owner.user(scope))
            records.lock()
            forget_sources(records, "task", wanted, now=moment)
            return sum(records.delete(TASKS, TASKS.c.task_id.in_(some)) for some in batches(wanted))

        return await self._database.write(work) if wanted else 0


class _Writer:
    """The changes of one call, on one user's tasks; the user's lock is held."""

    def __init__(self, records: Records, now: datetime) -> None:
        self._records = records
        self._now = now

    def apply(self, change: CreateTask | UpdateTask) -> TaskResult:
        return self._create(change) if isinstance(change, CreateTask) else self._update(change)

    def _create(self, change: CreateTask) -> TaskResult:
        task = change.task
        holder = self._live(change.key) if task.status in LIVE_STATUSES else None
        if holder is not None:
            changed = self._write(holder, self._linked(_said(task, holder)))
            add_sources(self._records, "task", holder.task_id, task.sources, now=self._now)
            return TaskResult(change.effect, holder.task_id, "updated" if changed else "confirmed")
        if is_forgotten(self._records, "task", task.sources):
            return TaskResult(change.effect, task.task_id, "forgotten")
        taken = self._row(TASKS.c.task_id == task.task_id)
        task_id = task.task_id if taken is None else str(uuid.uuid5(_AGAIN, f"{task.task_id}/{change.effect}"))
        row = {name: _stored(getattr(task, name)) for name in EDITABLE_FIELDS}
        row |= {"task_id": task_id, "task_key": body_hash(change.key), "created_at": task.created_at, "updated_at": task.updated_at}
        self._records.insert(TASKS, [self._linked(row)])
        add_sources(self._records, "task", task_id, task.sources, now=self._now)
        return TaskResult(change.effect, task_id, "created")

    def _update(self, change: UpdateTask) -> TaskResult:
        row = self._row(TASKS.c.task_id == change.task_id)
        if row is None:
            return TaskResult(change.effect, change.task_id, "nothing")
        fields = self._linked(_validated(row, change.fields))
        key, status = fields.get("task_key", row.task_key), fields.get("status", row.status)
        other = self._live_hash(key) if status in _LIVE else None
        if other is not None and other.task_id != row.task_id:
            return TaskResult(change.effect, row.task_id, "nothing")
        changed = self._write(row, fields)
        cited = add_sources(self._records, "task", row.task_id, change.sources, now=self._now)
        return TaskResult(change.effect, row.task_id, "updated" if changed else "confirmed" if cited else "nothing")

    def _write(self, row: Row[Any], fields: Mapping[str, Any]) -> bool:
        changed = {name: value for name, value in fields.items() if getattr(row, name) != value}
        if changed:
            self._records.update(TASKS, TASKS.c.task_id == row.task_id, values=changed | {"updated_at": self._now})
        return bool(changed)

    def _linked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """With the contact as it is now, after merges."""
        contact_id = fields.get("contact_id")
        if contact_id is None:
            return dict(fields)
        kept = _contact(self._records, contact_id)
        if kept is None:
            raise InvalidInput(f"there is no contact {contact_id} to link a task to")
        return {**fields, "contact_id": kept}

    def _live(self, key: str) -> Row[Any] | None:
        return self._live_hash(body_hash(key))

    def _live_hash(self, task_key: str) -> Row[Any] | None:
        return self._row(TASKS.c.task_key == task_key, TASKS.c.status.in_(sorted(_LIVE)))

    def _row(self, *where: ColumnElement[bool]) -> Row[Any] | None:
        return self._records.row(select(TASKS).where(*where))


def _checked_change(change: CreateTask | UpdateTask) -> CreateTask | UpdateTask:
    if isinstance(change, CreateTask):
        if not change.key:
            raise InvalidInput("a task has a key")
        task = change.task
        if task.schedule is not None:
            task = task.model_copy(update={"schedule": checked_schedule(task.schedule)})
        return CreateTask(change.effect, task, change.key)
    unknown = set(change.fields) - {*EDITABLE_FIELDS, "key"}
    if unknown:
        raise InvalidInput(f"a task has no field {ascii(min(unknown))[:40]} to be set; there are {', '.join(EDITABLE_FIELDS)}")
    schedule = change.fields.get("schedule")
    if schedule is None:
        return change
    return UpdateTask(change.effect, change.task_id, {**change.fields, "schedule": checked_schedule(str(schedule))}, change.sources)


def _validated(row: Row[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored, once the task that they make is one."""
    given = {name: value for name, value in fields.items() if name != "key"}
    try:
        task = Task.model_validate({**_plain(row), **given})
    except ValidationError as error:
        names = sorted({str(one["loc"][0]) for one in error.errors(include_url=False, include_input=False) if one["loc"]})
    else:
        stored = {name: _stored(getattr(task, name)) for name in given}
        if "name" in given or "key" in fields:
            stored["task_key"] = body_hash(fields.get("key") or " ".join(fold(task.name).split()))
        return stored
    raise InvalidInput(f"a task cannot have this: {', '.join(names)}")


def _said(task: Task, holder: Row[Any]) -> dict[str, Any]:
    """What a task that is asked for again says that differs from saying nothing."""
    fields: dict[str, Any] = {name: getattr(task, name) for name in ("deadline", "schedule", "contact_id")}
    fields = {name: value for name, value in fields.items() if value is not None}
    if task.description.strip():
        fields["description"] = task.description
    if task.priority is not TaskPriority.NORMAL:
        fields["priority"] = task.priority
    if task.status is TaskStatus.IN_PROGRESS:
        fields["status"] = task.status
    if set(task.tags) - set(holder.tags):
        fields["tags"] = tuple(dict.fromkeys((*holder.tags, *task.tags)))
    return {name: _stored(value) for name, value in fields.items()}


def _stored(value: Any) -> Any:
    if isinstance(value, TaskStatus | TaskPriority):
        return value.value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, tuple):
        return [clean_text(str(tag)) for tag in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return to_utc(value, what="deadline") if isinstance(value, datetime) else value


def _contact(records: Records, contact_id: int) -> int | None:
    """The contact that this one is now; None where it is not there. Those of the system always are."""
    if contact_id in SYSTEM_CONTACTS:
        return contact_id
    found = records.row(select(CONTACTS.c.merged_into).where(CONTACTS.c.contact_id == contact_id))
    if found is None or found.merged_into == GONE:
        return None
    return contact_id if found.merged_into is None else found.merged_into


def _tasks(records: Records, rows: Sequence[Row[Any]], *, sources: bool) -> Sequence[Task]:
    cited = sources_of(records, "task", {row.task_id for row in rows}) if sources and rows else {}
    return [_task(row, cited.get((row.owner_key, row.task_id), ())) for row in rows]


def _plain(row: Row[Any]) -> dict[str, Any]:
    names = ("task_id", *EDITABLE_FIELDS, "created_at", "updated_at")
    return {name: getattr(row, name) for name in names} | {"tags": tuple(row.tags)}


def _task(row: Row[Any], sources: tuple[Source, ...]) -> Task:
    # Not validated again: it was when it was stored.
    values = _plain(row) | {"status": TaskStatus(row.status), "priority": TaskPriority(row.priority)}
    return Task.model_construct(None, **values, sources=sources)
