# ruff: noqa: E501  (word lists)
"""Task commitments: created, changed or cancelled against the current list, never a second copy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from memory.categories.common import Tally, clean, contact_id
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.event import MessageEvent
from memory.model.items import DropReason, Grounded, Item, TaskItem
from memory.model.near_duplicate import is_same, statement_key
from memory.model.task import LIVE_STATUSES, Task, TaskPriority, TaskStatus
from memory.model.validity import read_moment, read_rule
from memory.model.window import StoredEvent
from memory.ports import CreateTask, UpdateTask

MAX_TASKS: Final = 200

_REMEMBER: Final = re.compile(
    r"\b(?:remember|keep in mind|note|don't forget|do not forget)\s+that\b|\bfor (?:your|the) record\b"
    r"|\b(?:merk(?:e)? dir|denk(?:e)? daran|vergiss nicht|beachte),? dass\b|记住|請記得|请记得.{0,6}(?:是|有)",
    re.IGNORECASE,
)
_DUTY: Final = re.compile(
    r"\b(?:is|are|am|was) (?:responsible for|in charge of)\b|\b(?:usually|normally|always|generally|typically) (?:handles?|does|takes care|prepares?|sends?|writes?|manages?|answers?)\b"
    r"|\b(?:her|his|their|my) (?:job|duties|duty|role) (?:is|are|includes?)\b|\b(?:ist|sind|bin) (?:zuständig|verantwortlich) für\b"
    r"|\bkümmer(?:t|n) sich (?:normalerweise|immer|sonst)\b|\bzu (?:ihren|seinen|meinen) aufgaben gehör(?:t|en)\b|负责.{0,20}(?:工作|事务)|的职责",
    re.IGNORECASE,
)


def check(item: Item, cited: Sequence[StoredEvent]) -> str | None:
    """A description of duties, or something to remember, is no commitment."""
    assert isinstance(item, TaskItem)  # noqa: S101 - the registry's own pairing
    quotes = [evidence.quote for evidence in item.evidence]
    said = [stored.event.content or "" for stored in cited if isinstance(stored.event, MessageEvent)]
    about = [sentence for text in said for sentence in re.split(r"(?<=[.!?。！？])\s*", text) if any(q in sentence for q in quotes)]
    texts = [*quotes, *about, item.name, item.description]
    if any(_REMEMBER.search(text) or _DUTY.search(text) for text in texts):
        return DropReason.NOT_A_COMMITMENT
    if item.action == "create" and not item.name.strip():
        return DropReason.MALFORMED
    return DropReason.UNKNOWN_REF if item.action != "create" and item.task is None else None


async def apply(items: Sequence[Grounded[TaskItem]], context: ApplyContext) -> Applied:
    """One transaction."""
    tally = Tally(Category.TASKS)
    scope = context.window.scope
    live = list(await context.stores.tasks.list(scope, statuses=LIVE_STATUSES, limit=MAX_TASKS))
    changes: list[CreateTask | UpdateTask] = []
    for one in items:
        item = one.item
        if item.action == "create":
            known = next((task for task in live if is_same(task.name, clean(item.name))), None)
            if known is None:
                task = _task(one, context)
                live.append(task)
                changes.append(CreateTask(one.key, task, statement_key(task.name)))
                continue
            task_id = known.task_id
        else:
            found = context.refs.get(item.task or "")
            if found is None:
                tally.drop(one, DropReason.UNKNOWN_REF)
                continue
            task_id = found
        changes.append(UpdateTask(one.key, task_id, _fields(one, context), one.sources))
    for result in await context.stores.tasks.apply(scope, changes, now=context.now):
        tally.applied += result.did in ("created", "updated")
        tally.confirmed += result.did == "confirmed"
    return tally.result()


def _task(one: Grounded[TaskItem], context: ApplyContext) -> Task:
    fields = _fields(one, context)
    return Task(
        task_id=f"t-{one.key}",
        name=clean(one.item.name)[:200],
        **{"description": "", "status": TaskStatus.OPEN, "priority": TaskPriority.NORMAL, **fields},
        created_at=context.now,
        updated_at=context.now,
        sources=one.sources,
    )


def _fields(one: Grounded[TaskItem], context: ApplyContext) -> dict[str, Any]:
    """The fields that the item sets, in the form of the store."""
    item = one.item
    moments = [source.said_at for source in one.sources if source.said_at is not None]
    said_at = max(moments) if moments else context.now
    status = TaskStatus.CANCELLED if item.action == "cancel" else item.status
    fields = {
        "description": clean(item.description)[:4000] or None,
        "status": status,
        "priority": item.priority,
        "deadline": read_moment(item.deadline, said_at=said_at),
        "schedule": read_rule(item.schedule),
        "tags": tuple(dict.fromkeys(clean(tag)[:60] for tag in item.tags if tag.strip()))[:12] or None,
        "contact_id": contact_id(item.contact, context),
    }
    return {name: value for name, value in fields.items() if value is not None}


SPEC = CategorySpec(
    category=Category.TASKS,
    prompt="extract_tasks",
    item=TaskItem,
    apply=apply,
    check=check,
    shielded_by=frozenset({"taskmanager", "tasks", "taskscheduler", "schedulermanager"}),
)
