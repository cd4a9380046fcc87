"""A task: something that was concretely asked for or promised."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from memory.model.fact import Source


class TaskStatus(StrEnum):
    OPEN = "open"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    CANCELLED = "cancelled"


class TaskPriority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


LIVE_STATUSES = frozenset({TaskStatus.OPEN, TaskStatus.IN_PROGRESS})


class Task(BaseModel):
    """``schedule``: an iCalendar RRULE (without the ``RRULE:`` prefix) of a task that repeats."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    task_id: str
    name: str = Field(min_length=1, max_length=200, repr=False)
    description: str = Field(default="", max_length=4000, repr=False)
    status: TaskStatus = TaskStatus.OPEN
    priority: TaskPriority = TaskPriority.NORMAL
    deadline: AwareDatetime | None = None
    schedule: str | None = None
    tags: tuple[str, ...] = ()
    contact_id: int | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    sources: tuple[Source, ...] = Field(default=(), repr=False)
