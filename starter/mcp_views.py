"""What the tools of the MCP server give back: bounded, with a schema that a client can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, Field

from memory.model.contact import Contact
from memory.model.fact import Fact
from memory.model.task import Task
from starter.search_all import FoundItem
from starter.steering import LoopAnswer

MAX_TEXT_CHARS: Final = 4_000
"""Of one text within a list."""
MAX_LIST_CHARS: Final = 48 * 1024
"""Of one list, as JSON; what is beyond is left out, and said to be."""
MAX_ANSWER_CHARS: Final = 64 * 1024

Item = TypeVar("Item", bound=BaseModel)


class Told(BaseModel):
    """``memory`` off: nothing was read or written; ``note`` says why and who can change it."""

    memory: Literal["on", "off"] = "on"
    note: Annotated[str | None, Field(description="what else there is to know of this answer")] = None


class ProfileTold(Told):
    """``body``: Markdown; empty where nothing has been learned yet."""

    body: str = ""
    version: int = 0
    tokens: int | None = None
    truncated: Annotated[bool, Field(description="the stored profile is larger than its budget and was cut")] = False


class FactTold(BaseModel):
    fact_id: str
    statement: str
    subject: str
    kind: str
    shared: Annotated[bool, Field(description="of one of the user's teams, not the user's own")]
    observed_at: AwareDatetime
    valid_until: AwareDatetime | None


class FactsTold(Told):
    """Best first. ``left_out``: so many more did not fit into one answer."""

    facts: list[FactTold] = []
    left_out: int = 0


class TaskTold(BaseModel):
    task_id: str
    name: str
    description: str
    status: str
    priority: str
    deadline: AwareDatetime | None
    schedule: Annotated[str | None, Field(description="RRULE of a task that repeats")]
    contact_id: int | None


class TasksTold(Told):
    """Newest first."""

    tasks: list[TaskTold] = []
    left_out: int = 0


class ContactTold(BaseModel):
    """Id 0 is the assistant, id 1 the user."""

    contact_id: int
    name: str
    email_address: str | None
    phone_number: str | None
    whatsapp_number: str | None
    timezone: str | None
    job_title: str | None
    bio: str | None
    rolling_summary: str | None
    response_policy: str | None


class ContactsTold(Told):
    """Best first."""

    contacts: list[ContactTold] = []
    left_out: int = 0


class FoundTold(BaseModel):
    """``kind``: where it is from."""

    kind: Literal["profile", "fact", "contact", "task", "guidance", "function", "message"]
    item_id: str
    title: Annotated[str | None, Field(description="section, subject or name that it stands under")]
    text: str
    at: AwareDatetime | None
    by_words: Annotated[bool, Field(description="it shares a word with the query; else it is only near by meaning")]


class EverythingTold(Told):
    """By kind, of each the best first. ``unavailable``: kinds that could not be searched, and why."""

    found: list[FoundTold] = []
    unavailable: dict[str, str] = {}
    left_out: int = 0


class AnswerTold(Told):
    """``state`` running: not finished in time; the tool get_answer takes the ``loop_id``."""

    state: Annotated[Literal["running", "done", "stopped", "limit", "failed"] | None, Field(description="done: it went well")] = (
        None
    )
    loop_id: str | None = None
    answer: str = ""


class RememberedTold(Told):
    """``did``: added, superseded (others ended with it), confirmed (it was known)."""

    did: str | None = None
    fact_id: str | None = None


def fact_told(fact: Fact) -> FactTold:
    return FactTold(
        fact_id=fact.fact_id,
        statement=fact.statement,
        subject=fact.subject,
        kind=fact.kind.value,
        shared=fact.owner.startswith("t/"),
        observed_at=fact.observed_at,
        valid_until=fact.valid_until,
    )


def task_told(task: Task) -> TaskTold:
    return TaskTold(
        task_id=task.task_id,
        name=task.name,
        description=cut(task.description, MAX_TEXT_CHARS),
        status=task.status.value,
        priority=task.priority.value,
        deadline=task.deadline,
        schedule=task.schedule,
        contact_id=task.contact_id,
    )


def contact_told(contact: Contact) -> ContactTold:
    def text(value: str | None) -> str | None:
        return None if value is None else cut(value, MAX_TEXT_CHARS)

    return ContactTold(
        contact_id=contact.contact_id,
        name=contact.name,
        email_address=contact.email_address,
        phone_number=contact.phone_number,
        whatsapp_number=contact.whatsapp_number,
        timezone=contact.timezone,
        job_title=contact.job_title,
        bio=text(contact.bio),
        rolling_summary=text(contact.rolling_summary),
        response_policy=text(contact.response_policy),
    )


def found_told(item: FoundItem) -> FoundTold:
    return FoundTold(
        kind=item.kind,
        item_id=item.item_id,
        title=item.title,
        text=cut(item.text, MAX_TEXT_CHARS),
        at=item.at,
        by_words=item.by_words,
    )


def answer_told(ended: LoopAnswer) -> AnswerTold:
    return AnswerTold(state=ended.state.value, loop_id=ended.loop_id, answer=cut(ended.text, MAX_ANSWER_CHARS))


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def fitting(items: Sequence[Item]) -> tuple[list[Item], int]:
    """Those from the front that fit into one answer, at least the first, and how many are left out."""
    used = 0
    for place, item in enumerate(items):
        used += len(item.model_dump_json())
        if place and used > MAX_LIST_CHARS:
            return list(items[:place]), len(items) - place
    return list(items), 0
