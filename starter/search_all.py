"""One search over everything that is remembered of a user: the profile, facts, contacts, tasks, how-tos, functions, messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, get_args

from memory.model.errors import AfterturnError, MemoryUnavailable
from memory.model.event import MessageEvent
from memory.model.profile import SECTIONS, parse_body
from memory.model.words import fold, key_words
from memory.retrieval.documents import rank
from starter.records import Records
from starter.views import ProfileView
from starter.who import Who, checked_limit, checked_query, scope_of

FoundKind = Literal["profile", "fact", "contact", "task", "guidance", "function", "message"]
KINDS: Final[tuple[FoundKind, ...]] = get_args(FoundKind)

MAX_LIMIT: Final = 50
MAX_TASKS: Final = 1_000
MAX_RELATED: Final = 3
"""Of a kind, items that fit by meaning alone: there is always a nearest one, and after a few it has little to do with the query."""
MAX_TEXT_CHARS: Final = 600

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundItem:
    """``item_id``: of its kind, as the other methods take it; of a bullet of the profile its section and place.

    ``title``: what it stands under (section, subject, name). ``at``: when it was said, or written down. ``by_words``: it shares a
    word with the query; else it is near by meaning. ``score``: only for comparing within one kind of one answer.
    """

    kind: FoundKind
    item_id: str
    text: str = field(repr=False)
    title: str | None = field(default=None, repr=False)
    at: datetime | None = None
    sender_id: str | None = field(default=None, repr=False)
    by_words: bool = True
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class FoundEverywhere:
    """``items``: by kind, in the order of :data:`KINDS`, the best first. ``unavailable``: by kind, why it was not searched."""

    items: tuple[FoundItem, ...]
    unavailable: dict[str, str] = field(default_factory=dict[str, str])

    def of(self, kind: FoundKind) -> tuple[FoundItem, ...]:
        return tuple(item for item in self.items if item.kind == kind)


class EverythingSearch:
    """For one event loop. ``profile``: reads the profile of a user."""

    def __init__(self, records: Records, profile: Callable[[Who], Awaitable[ProfileView]]) -> None:
        self._records = records
        self._profile = profile

    async def search(self, who: Who, query: str, *, limit: int = 20) -> FoundEverywhere:
        """Everything that fits, by kind.

        Args:
            who: the user; what the user's teams know is found too, as the single searches find it.
            query: any text, any language. Capitals and accents do not count.
            limit: at most this many of each kind, 1 to 50.

        Raises:
            InvalidInput: an empty query, a limit out of its range.
            MemoryUnavailable: nothing could be searched. What could not be searched beside the rest is named in the result.
        """
        scope, query, limit = scope_of(who), checked_query(query), checked_limit(limit, most=MAX_LIMIT)
        searches: dict[FoundKind, Callable[[Who, str, int], Awaitable[Sequence[FoundItem]]]] = {
            "profile": self._in_profile,
            "fact": self._facts,
            "contact": self._contacts,
            "task": self._tasks,
            "guidance": self._guidance,
            "function": self._functions,
            "message": self._messages,
        }
        results = await asyncio.gather(*(search(scope, query, limit) for search in searches.values()), return_exceptions=True)
        words, plain = key_words(query), " ".join(fold(query).split())
        items: list[FoundItem] = []
        unavailable: dict[str, str] = {}
        for kind, result in zip(searches, results, strict=True):
            if isinstance(result, AfterturnError):
                unavailable[kind] = result.message
                _log.warning("%s of %s were not searched: %s", kind, scope.tenant, result.message)
            elif isinstance(result, BaseException):
                raise result
            else:
                # Messages may be long: their words are looked for in a thread.
                items += await asyncio.to_thread(_best, result, words, plain, limit)
        if len(unavailable) == len(searches):
            raise MemoryUnavailable(f"nothing can be searched: {next(iter(unavailable.values()))}")
        return FoundEverywhere(tuple(items), unavailable)

    async def _in_profile(self, who: Who, query: str, limit: int) -> Sequence[FoundItem]:
        view = await self._profile(who)
        return await asyncio.to_thread(_bullets, view, query)

    async def _facts(self, who: Who, query: str, limit: int) -> Sequence[FoundItem]:
        return [
            FoundItem("fact", one.fact.fact_id, one.fact.statement, one.fact.subject or None, one.fact.observed_at, score=one.score)
            for one in await self._records.facts.search(who, query, limit=limit)
        ]

    async def _contacts(self, who: Who, query: str, limit: int) -> Sequence[FoundItem]:
        items: list[FoundItem] = []
        for one in await self._records.contacts.search(who, query, limit=limit):
            contact = one.contact
            about = (contact.job_title, contact.bio, contact.rolling_summary, contact.response_policy)
            addresses = (contact.email_address, contact.phone_number, contact.whatsapp_number, *contact.aliases)
            text = " · ".join(dict.fromkeys(part for part in (*about, *addresses) if part))
            name = contact.name or {0: "the assistant", 1: "the user"}.get(contact.contact_id)
            items.append(FoundItem("contact", str(contact.contact_id), text, name, contact.updated_at, score=one.score))
        return items

    async def _tasks(self, who: Who, query: str, limit: int) -> Sequence[FoundItem]:
        tasks = await self._records.tasks.list(who, limit=MAX_TASKS)
        texts = [f"{task.name}\n{task.description}\n{' '.join(task.tags)}" for task in tasks]
        found = await asyncio.to_thread(rank, query, texts, [task.task_id for task in tasks])
        return [
            FoundItem(
                "task",
                tasks[place].task_id,
                "\n".join(part for part in (tasks[place].name, tasks[place].description) if part),
                tasks[place].status.value.replace("_", " "),
                tasks[place].deadline,
                score=score,
            )
            for place, score in found[:limit]
        ]

    async def _guidance(self, who: Who, query: str, limit: int) -> Sequence[FoundItem]:
        return [
            FoundItem(
                "guidance",
                one.guidance.guidance_id,
                one.guidance.content,
                one.guidance.title,
                one.guidance.updated_at,
                score=one.score,
            )
            for one in await self._records.guidance.search(who, query, limit=limit)
        ]

    async def _functions(self, who: Who, query: str, limit: int) -> Sequence[FoundItem]:
        return [
            FoundItem(
                "function",
                one.function.function_id,
                one.function.docstring or one.function.name,
                one.function.name,
                one.function.updated_at,
                score=one.score,
            )
            for one in await self._records.functions.search(who, query, limit=limit)
        ]

    async def _messages(self, who: Who, query: str, limit: int) -> Sequence[FoundItem]:
        items: list[FoundItem] = []
        for one in await self._records.search_events(who, query, limit=limit, neighbours=0):
            event = one.event.event
            if isinstance(event, MessageEvent) and event.content:
                items.append(
                    FoundItem(
                        "message", event.event_id, event.content, event.medium, event.timestamp, event.sender_id, score=one.score
                    )
                )
        return items


def _bullets(view: ProfileView, query: str) -> list[FoundItem]:
    """Bullets of the profile that share a word with the query, or hold it as it is; those with most of its words first."""
    wanted, plain = key_words(query), " ".join(fold(query).split())
    found: list[FoundItem] = []
    for section, bullets in zip(SECTIONS, parse_body(view.body, is_stored=True).sections, strict=True):
        for place, bullet in enumerate(bullets, start=1):
            text = "\n".join(bullet.lines)
            shared = len(wanted & key_words(text)) / max(1, len(wanted)) + (plain in " ".join(fold(text).split()))
            if shared:
                found.append(FoundItem("profile", f"{section}/{place}", text, section, view.last_updated, score=shared))
    return sorted(found, key=lambda item: -item.score)


def _best(items: Sequence[FoundItem], words: frozenset[str], plain: str, limit: int) -> list[FoundItem]:
    """Those that share a word with the query first, then a few that are near by meaning; texts are cut to what is shown."""
    said: list[FoundItem] = []
    near: list[FoundItem] = []
    for item in items:
        text = f"{item.title or ''}\n{item.text}"
        by_words = not words.isdisjoint(key_words(text)) or plain in " ".join(fold(text).split())
        (said if by_words else near).append(_shown(item, by_words=by_words))
    return [*said, *near[:MAX_RELATED]][:limit]


def _shown(item: FoundItem, *, by_words: bool) -> FoundItem:
    text = item.text if len(item.text) <= MAX_TEXT_CHARS else item.text[: MAX_TEXT_CHARS - 1].rstrip() + "…"
    return FoundItem(item.kind, item.item_id, text, item.title, item.at, item.sender_id, by_words, item.score)
