"""What a model is asked to extract from a window, item by item, and what becomes of each.

Items refer to lines of the transcript by number (from 1) and to what is known by the refs of the prompt: ``c<contact id>``,
``t<n>``, ``f<n>``; ``new<n>`` names a contact that the same reply creates. All of it is untrusted until it is grounded.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from memory.model.category import Category
from memory.model.fact import FactKind, Source
from memory.model.task import TaskPriority, TaskStatus

MAX_ITEMS = 60
"""Per category and window."""
MAX_EVIDENCE = 8

Ref = Annotated[str, Field(min_length=1, max_length=40)]
Words = Annotated[str, Field(max_length=8000)]
Short = Annotated[str, Field(max_length=300)]


class Evidence(BaseModel):
    """``event``: the line's number in the transcript. ``quote``: words of that line, verbatim."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    event: int
    quote: str = Field(max_length=4000, repr=False)


class Item(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    evidence: tuple[Evidence, ...] = Field(default=(), repr=False)


class ContactItem(Item):
    """``create``: a person or organisation that is not among the contacts (``contact`` is then ``new<n>``).
    ``merge``: ``contact`` is the same as ``merge_with``."""

    action: Literal["create", "update", "merge"]
    contact: Ref
    merge_with: Ref | None = None
    first_name: Short | None = Field(default=None, repr=False)
    surname: Short | None = Field(default=None, repr=False)
    email_address: Short | None = Field(default=None, repr=False)
    phone_number: Short | None = Field(default=None, repr=False)
    whatsapp_number: Short | None = Field(default=None, repr=False)
    timezone: Short | None = None
    job_title: Short | None = Field(default=None, repr=False)


class ContactTextItem(Item):
    """Bios, rolling summaries and response policies: the whole new text, the old one woven in."""

    contact: Ref
    text: Words = Field(repr=False)


class KnowledgeItem(Item):
    """``relation`` to the fact ``related`` (a ref): ``same`` says it again, ``supersedes`` contradicts or refines it."""

    statement: Words = Field(repr=False)
    subject: Short = Field(default="", repr=False)
    kind: FactKind = FactKind.FACT
    topics: tuple[Short, ...] = ()
    confidence: float = 0.8
    relation: Literal["new", "same", "supersedes"] = "new"
    related: Ref | None = None
    valid_from: Short | None = None
    valid_until: Short | None = None
    """ISO 8601 dates or times."""


class TaskItem(Item):
    action: Literal["create", "update", "cancel"]
    task: Ref | None = None
    name: Short = Field(default="", repr=False)
    description: Words = Field(default="", repr=False)
    status: TaskStatus | None = None
    priority: TaskPriority | None = None
    deadline: Short | None = None
    schedule: Short | None = None
    tags: tuple[Short, ...] = ()
    contact: Ref | None = None


ItemT = TypeVar("ItemT", bound=Item)


class Grounded(BaseModel, Generic[ItemT]):
    """An item whose quotes were found. ``key``: of user, window and content; the same after a retry, a rerun, a split."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    key: str
    item: ItemT
    sources: tuple[Source, ...] = Field(repr=False)


class DropReason(StrEnum):
    """Why an item was not taken."""

    NO_QUOTE = "no_quote"
    QUOTE_NOT_FOUND = "quote_not_found"
    """Not in the event that it cites."""
    UNKNOWN_REF = "unknown_ref"
    MALFORMED = "malformed"
    UNGROUNDED = "ungrounded"
    """It says what neither its quotes nor what was known say."""
    TRANSLATED = "translated"
    """In another script than its quotes."""
    ASSISTANT_ONLY = "assistant_only"
    """Rests on the assistant's own words alone."""
    ALREADY_HANDLED = "already_handled"
    """A manager call in the window did it already (the shield)."""
    ROUTED_ELSEWHERE = "routed_elsewhere"
    """A how-to, a secret, a person attribute: not what this category keeps."""
    NOT_A_COMMITMENT = "not_a_commitment"
    CATEGORY_OFF = "category_off"
    """Off in the space of the events that it rests on."""
    DUPLICATE = "duplicate"
    """The same item twice in one reply."""
    TOO_MANY = "too_many"
    CONFLICT = "conflict"
    """A unique field belongs to another contact, or a rule of the store refuses it."""
    FORGOTTEN = "forgotten"
    """The user had it forgotten, and nothing newer says it."""


class Dropped(BaseModel):
    """An item that was not taken. ``item``: as the model gave it, for the person who looks; text of the user may be in it."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    category: Category
    reason: str
    """One of :class:`DropReason`."""
    item: dict[str, Any] = Field(default_factory=dict, repr=False)
