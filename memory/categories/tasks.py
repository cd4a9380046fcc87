"""Task commitments: created, changed or cancelled against the current list, never a second copy."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Final

from memory.categories.commitments import check
from memory.categories.common import Tally, clean, contact_number, one_line, quotes_of, said_at, zone_of_user
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.errors import InvalidInput
from memory.model.items import DropReason, Grounded, TaskItem
from memory.model.near_duplicate import is_same, may_be_same, overlap, statement_key
from memory.model.schedule import checked_schedule
from memory.model.task import LIVE_STATUSES, Task, TaskStatus
from memory.model.validity import read_deadline
from memory.model.words import key_words
from memory.ports import CreateTask, UpdateTask

MAX_LIVE: Final = 500
"""Live tasks that a new one is compared with."""
MAX_NAME_CHARS: Final = 200
MAX_DESCRIPTION_CHARS: Final = 4000
MAX_TAGS: Final = 12
MAX_TAG_CHARS: Final = 60
COVERED: Final = 0.6
"""A description that says so much of the old one takes its place; else it is added to it."""
_TOO_OFTEN: Final = ("FREQ=SECONDLY", "FREQ=MINUTELY")
_TASKS: Final = uuid.UUID("5f0f5f58-6f0b-43ac-9c6e-0c4b7f0c7a13")


async def apply(items: Sequence[Grounded[TaskItem]], context: ApplyContext) -> Applied:
    """All in one transaction."""
    tally = Tally(Category.TASKS, proposed=len(items))
    scope = context.window.scope
    live = await context.stores.tasks.list(scope, statuses=LIVE_STATUSES, limit=MAX_LIVE)
    named = {task_id for one in items if (task_id := context.refs.get(one.item.task or "")) is not None}
    known = {task.task_id: task for task in live} | dict(await context.stores.tasks.get(scope, named))
    linked = {number for one in items if (number := contact_number(one.item.contact, context)) is not None}
    found = await context.stores.contacts.get(scope, linked)
    contacts = {number: contact.contact_id for number, contact in found.items()}
    made = await _made_before(context) if context.window.attempt else ()
    desk = _Desk(context, await zone_of_user(context), contacts, known, made)
    for one in items:
        reason = desk.create(one) if one.item.action == "create" else desk.change(one)
        if reason is not None:
            tally.drop(one, reason)
    by_effect = {one.key: one for one in items}
    for result in await context.stores.tasks.apply(scope, desk.changes, now=context.now):
        if result.did == "forgotten":
            tally.drop(by_effect[result.effect], DropReason.FORGOTTEN)
        tally.applied += result.did in ("created", "updated")
        tally.confirmed += result.did in ("confirmed", "nothing")
    return tally.result()


async def _made_before(context: ApplyContext) -> Sequence[Task]:
    """Of a window that is run again: what it made before and what has ended since, which a reader of today would make anew."""
    tasks = await context.stores.tasks.list(context.window.scope, sources=True, limit=MAX_LIVE)
    return [
        task
        for task in tasks
        if task.status not in LIVE_STATUSES and any(source.origin == context.origin for source in task.sources)
    ]


@dataclass
class _Desk:
    """The user's tasks while the items of one window are gone through."""

    context: ApplyContext
    zone: tzinfo
    contacts: dict[int, int]
    """Contacts that there are, by the number that a ref stands for."""
    known: dict[str, Task]
    made: Sequence[Task] = ()
    changes: list[CreateTask | UpdateTask] = field(default_factory=list[CreateTask | UpdateTask])

    def create(self, one: Grounded[TaskItem]) -> DropReason | None:
        name = one_line(one.item.name, MAX_NAME_CHARS)
        if not key_words(name):
            return DropReason.MALFORMED
        fields = self._fields(one)
        contact = fields.get("contact_id")
        again = self._again(name, one)
        if again is not None:
            self.changes.append(UpdateTask(one.key, again.task_id, {}, one.sources))
            return None
        same = self._same(name, contact)
        if same is not None:
            self._update(one, same, {key: value for key, value in fields.items() if key != "status"})
            return None
        key = statement_key(name)
        if any(task.status in LIVE_STATUSES and statement_key(task.name) == key for task in self.known.values()):
            key = f"{key}:{contact}"  # the same words for somebody else
        scope = self.context.window.scope
        task = Task(
            task_id=str(uuid.uuid5(_TASKS, f"{scope.tenant}/{scope.user}/{one.key}")),
            name=name,
            created_at=self.context.now,
            updated_at=self.context.now,
            sources=one.sources,
        ).model_copy(update=fields)
        self.known[task.task_id] = task
        self.changes.append(CreateTask(one.key, task, key))
        return None

    def change(self, one: Grounded[TaskItem]) -> DropReason | None:
        task_id = self.context.refs.get(one.item.task or "")
        task = self.known.get(task_id) if task_id is not None else None
        if task is None:
            return DropReason.UNKNOWN_REF
        if one.item.action == "cancel":
            self._update(one, task, {"status": TaskStatus.CANCELLED})
            return None
        fields = self._fields(one)
        name = one_line(one.item.name, MAX_NAME_CHARS)
        if key_words(name) and not is_same(name, task.name):
            fields |= {"name": name, "key": statement_key(name)}
        self._update(one, task, fields)
        return None

    def _update(self, one: Grounded[TaskItem], task: Task, fields: dict[str, Any]) -> None:
        if "description" in fields:
            fields["description"] = _described(task.description, fields["description"])
        if "tags" in fields:
            fields["tags"] = tuple(dict.fromkeys((*task.tags, *fields["tags"])))[:MAX_TAGS]
        self.changes.append(UpdateTask(one.key, task.task_id, fields, one.sources))
        seen = {name: value for name, value in fields.items() if name != "key"}
        self.known[task.task_id] = task.model_copy(update=seen)

    def _same(self, name: str, contact: int | None) -> Task | None:
        """The live task that this one is a second copy of."""
        for task in self.known.values():
            if task.status not in LIVE_STATUSES or (None not in (contact, task.contact_id) and contact != task.contact_id):
                continue
            if is_same(name, task.name) or (may_be_same(name, task.name) and _covers(name, task.name)):
                return task
        return None

    def _again(self, name: str, one: Grounded[TaskItem]) -> Task | None:
        """The ended task that the same words of this window made before."""
        said = {(source.event_id, source.quote) for source in one.sources}
        return next(
            (
                task
                for task in self.made
                if is_same(name, task.name) and any((source.event_id, source.quote) in said for source in task.sources)
            ),
            None,
        )

    def _fields(self, one: Grounded[TaskItem]) -> dict[str, Any]:
        """What the item sets, in the form of the store; a deadline or a rule that cannot be one is left out."""
        item = one.item
        number = contact_number(item.contact, self.context)
        tags = (one_line(tag.lstrip("#"), MAX_TAG_CHARS) for tag in item.tags)
        fields: dict[str, Any] = {
            "description": clean(item.description)[:MAX_DESCRIPTION_CHARS] or None,
            "status": item.status,
            "priority": item.priority,
            "schedule": _schedule(item.schedule),
            "tags": tuple(dict.fromkeys(tag for tag in tags if tag))[:MAX_TAGS] or None,
            "contact_id": self.contacts.get(number) if number is not None else None,
        }
        if fields["schedule"] is None or item.deadline:
            fields["deadline"] = read_deadline(item.deadline, quotes_of(one), said_at=said_at(one, self.context), zone=self.zone)
        return {name: value for name, value in fields.items() if value is not None}


def _covers(one: str, other: str) -> bool:
    """Whether the shorter name says nothing that the longer one does not."""
    left, right = key_words(one), key_words(other)
    return len(left & right) == min(len(left), len(right)) and min(len(left), len(right)) >= 2


def _described(old: str, new: str) -> str:
    """The new description, with the old one before it where it says something else."""
    if not old.strip() or old.strip() in new:
        return new
    if new.strip() in old:
        return old
    if overlap(old, new) >= COVERED:
        return new if len(new) >= len(old) else old
    return f"{old.rstrip()}\n{new}"[:MAX_DESCRIPTION_CHARS]


def _schedule(written: str | None) -> str | None:
    if not (written or "").strip():
        return None
    try:
        rule = checked_schedule(written or "")
    except InvalidInput:
        return None
    return None if any(one in rule for one in _TOO_OFTEN) else rule


SPEC: Final = CategorySpec(
    category=Category.TASKS,
    prompt="extract_tasks",
    item=TaskItem,
    apply=apply,
    check=check,
    shielded_by=frozenset({"taskmanager", "tasksmanager", "tasks", "taskscheduler", "schedulermanager", "todomanager", "todos"}),
)
