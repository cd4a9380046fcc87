"""Facts, contacts, tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StrictBool

from api.routing import MAX_PAGE, Best, ContactId, Id, ItemId, Moment, Words
from api.schemas.base import Given, Page, Shown, example
from memory.model.contact import Contact, ContactChange
from memory.model.fact import MAX_STATEMENT_CHARS, MAX_TOPICS, Fact, FactKind, FactStatus, Source
from memory.model.ids import decode_segment
from memory.model.task import Task, TaskPriority, TaskStatus
from starter.record_facts import MAX_STATEMENTS

TeamGiven = Annotated[
    Annotated[str, Field(min_length=1, max_length=4096)] | None,
    Field(description="for this team of the user's; without it, the user's own"),
]


def team_of(owner_key: str) -> str | None:
    """The team that owns it; None: the user."""
    kind, _, name = owner_key.partition("/")
    return decode_segment(name) if kind == "t" else None


class SourceView(Shown):
    """Where an item comes from."""

    quote: str
    event_id: str | None
    seq: int | None = Field(description="the event's number in the user's log")
    said_at: datetime | None
    origin: str = Field(description="`window:<id>`, `chunk:<id>`, `merge:<contact id>` or `manual`", examples=["window:w3"])

    @classmethod
    def all_of(cls, sources: Sequence[Source]) -> list[SourceView]:
        return [cls(quote=one.quote, event_id=one.event_id, seq=one.seq, said_at=one.said_at, origin=one.origin) for one in sources]


# -------------------------------------------------------------------------------------------------------------------- facts


class FactView(Shown):
    """One statement with its life."""

    fact_id: str = Field(examples=["f-2c26b46b68ffc68f"])
    team: str | None = Field(description="the team that owns it; null: the user")
    subject: str = Field(examples=["Globex"])
    statement: str = Field(examples=["Globex pays within 30 days."])
    kind: FactKind
    topics: list[str]
    confidence: float
    observed_at: datetime
    valid_from: datetime | None
    valid_until: datetime | None
    status: FactStatus
    superseded_by: str | None
    ended_at: datetime | None
    created_at: datetime
    sources: list[SourceView] | None = Field(description="the quotes that it rests on, oldest first; null: not asked for")

    @classmethod
    def of(cls, fact: Fact, *, sources: bool = False) -> FactView:
        return cls(
            **fact.model_dump(exclude={"owner", "sources", "topics"}),
            team=team_of(fact.owner),
            topics=list(fact.topics),
            sources=SourceView.all_of(fact.sources) if sources else None,
        )


class FactPage(Page[FactView]):
    """Facts, newest first."""


class FactsFilterGiven(Given):
    """Which facts are listed. `as_of`: those that held at that time, whatever became of them since."""

    statuses: list[FactStatus] = Field(default_factory=lambda: [FactStatus.ACTIVE], min_length=1, max_length=3)
    kinds: Annotated[list[FactKind], Field(min_length=1, max_length=7)] | None = None
    subject: Annotated[str, Field(max_length=200, description="capitals and accents do not count")] | None = None
    as_of: Moment | None = None
    sources: StrictBool = False
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50
    cursor: Annotated[str, Field(max_length=2_000)] | None = None

    model_config = example({"subject": "Globex", "statuses": ["active", "superseded"]})


class FactsSearchGiven(Given):
    query: Words
    kinds: Annotated[list[FactKind], Field(min_length=1, max_length=7)] | None = None
    as_of: Moment | None = Field(default=None, description="those that held at that time")
    sources: StrictBool = False
    limit: Best = 10

    model_config = example({"query": "When does Globex pay?"})


class FoundFact(Shown):
    """`score`: only for comparing within one answer. `why`: how it was found."""

    fact: FactView
    score: float
    why: str = Field(examples=["hybrid"])


class FoundFacts(Shown):
    """Best first."""

    items: list[FoundFact]


class StatementGiven(Given):
    """What a person wants to be kept. To correct a fact, name it in `supersedes`: it ends, and stays in the history."""

    statement: Annotated[str, Field(min_length=1, max_length=MAX_STATEMENT_CHARS)]
    subject: Annotated[str, Field(max_length=200)] = ""
    kind: FactKind = FactKind.FACT
    topics: list[Annotated[str, Field(max_length=60)]] = Field(default_factory=list[str], max_length=MAX_TOPICS)
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    supersedes: list[ItemId] = Field(default_factory=list[str], max_length=20)


class FactsGiven(Given):
    facts: Annotated[list[StatementGiven], Field(min_length=1, max_length=MAX_STATEMENTS)]
    team: TeamGiven = None

    model_config = example({"facts": [{"statement": "Globex pays in 14 days.", "supersedes": ["f-2c26b46b68ffc68f"]}]})


class AddedFact(Shown):
    """What became of one statement. `confirmed`: it was known already."""

    fact: FactView
    did: Literal["added", "superseded", "confirmed"]
    superseded: list[str]


class AddedFacts(Shown):
    items: list[AddedFact]


class FactHistory(Shown):
    """A fact with its sources, and the chain of statements that it belongs to, oldest first."""

    fact: FactView
    history: list[FactView]


# ----------------------------------------------------------------------------------------------------------------- contacts


class ContactFields(Given):
    """Fields of a contact; null: not known. A field that is left out stays as it is."""

    first_name: str | None = Field(default=None, max_length=200, examples=["Ada"])
    surname: str | None = Field(default=None, max_length=200)
    email_address: str | None = Field(default=None, max_length=400)
    phone_number: str | None = Field(default=None, max_length=100)
    whatsapp_number: str | None = Field(default=None, max_length=100)
    timezone: str | None = Field(default=None, max_length=100, examples=["Europe/Berlin"])
    job_title: str | None = Field(default=None, max_length=1_000)
    bio: str | None = Field(default=None, max_length=20_000)
    rolling_summary: str | None = Field(default=None, max_length=20_000)
    response_policy: str | None = Field(default=None, max_length=20_000)
    should_respond: StrictBool | None = None

    model_config = example({"first_name": "Ada", "job_title": "CTO"})


class ContactGiven(ContactFields):
    """Where an alias or a unique field belongs to a contact already, that one gets what it does not have yet."""

    aliases: list[Id] = Field(default_factory=list[str], max_length=100, description="sender ids under which it writes")

    model_config = example({"first_name": "Ada", "email_address": "ada@example.com"})


class ContactsFilterGiven(Given):
    """Contacts whose fields are exactly these."""

    where: ContactFields = ContactFields()
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 50
    cursor: Annotated[str, Field(max_length=2_000)] | None = None

    model_config = example({"where": {"first_name": "Ada"}})


class ContactView(Shown):
    """Absent text is null. Id 0 is the assistant, id 1 the user."""

    contact_id: int
    first_name: str | None
    surname: str | None
    email_address: str | None
    phone_number: str | None
    whatsapp_number: str | None
    timezone: str | None
    job_title: str | None
    bio: str | None
    rolling_summary: str | None
    response_policy: str | None
    should_respond: bool
    is_system: bool
    aliases: list[str]
    created_at: datetime
    updated_at: datetime
    sources: list[SourceView] | None = Field(description="the quotes that it rests on; null: not asked for")

    @classmethod
    def of(cls, contact: Contact, sources: Sequence[Source] | None = None) -> ContactView:
        return cls(
            **contact.model_dump(exclude={"merged_into", "aliases"}),
            aliases=list(contact.aliases),
            sources=None if sources is None else SourceView.all_of(sources),
        )


class ContactPage(Page[ContactView]):
    """Contacts by id."""


class WordsGiven(Given):
    query: Words
    limit: Best = 10

    model_config = example({"query": "who handles invoices?"})


class FoundContact(Shown):
    contact: ContactView
    score: float = Field(description="only for comparing within one answer")


class FoundContacts(Shown):
    """Best first."""

    items: list[FoundContact]


class ContactIdsGiven(Given):
    ids: Annotated[list[ContactId], Field(min_length=1, max_length=1_000, examples=[[7]])]


class MergeGiven(Given):
    drop: ContactId = Field(description="the contact that is merged away")

    model_config = example({"drop": 7})


class ContactChangeView(Shown):
    contact_id: int
    field: str
    before: str | None
    after: str | None
    origin: str
    at: datetime

    @classmethod
    def of(cls, change: ContactChange) -> ContactChangeView:
        return cls(**change.model_dump())


class ContactHistory(Shown):
    """Changes of its fields, oldest first; the newest ones where there are more than were asked for."""

    items: list[ContactChangeView]


# -------------------------------------------------------------------------------------------------------------------- tasks


class TaskView(Shown):
    task_id: str
    name: str = Field(examples=["Send the offer to Ada"])
    description: str
    status: TaskStatus
    priority: TaskPriority
    deadline: datetime | None
    schedule: str | None = Field(description="an iCalendar rule of a task that repeats", examples=["FREQ=WEEKLY;BYDAY=MO"])
    tags: list[str]
    contact_id: int | None
    created_at: datetime
    updated_at: datetime
    sources: list[SourceView] | None = Field(description="the quotes that it rests on; null: not asked for")

    @classmethod
    def of(cls, task: Task, *, sources: bool = False) -> TaskView:
        return cls(
            **task.model_dump(exclude={"sources", "tags"}),
            tags=list(task.tags),
            sources=SourceView.all_of(task.sources) if sources else None,
        )


class TaskPage(Page[TaskView]):
    """Tasks, newest first."""


class TaskFields(Given):
    """A field that is left out stays as it is; null empties it."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    description: Annotated[str, Field(max_length=4_000)] | None = None
    status: TaskStatus | None = None
    priority: TaskPriority | None = None
    deadline: Moment | None = None
    schedule: Annotated[str, Field(max_length=600)] | None = None
    tags: Annotated[list[Annotated[str, Field(min_length=1, max_length=60)]], Field(max_length=20)] | None = None
    contact_id: ContactId | None = None

    model_config = example({"status": "done"})


class TaskIdsGiven(Given):
    ids: Annotated[list[ItemId], Field(min_length=1, max_length=1_000, examples=[["0f2f6c3a-6f0f-5a49-9f5c-4d4f4f3f1a10"]])]
