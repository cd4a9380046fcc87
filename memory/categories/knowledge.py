"""Domain knowledge: durable claims become facts. How-to goes to guidance; what a person is like belongs to contacts."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Final

from memory.categories.common import Tally, clean, one_line, quotes_of, sentences_of, zone_of_user
from memory.categories.fact_rules import elsewhere, is_procedure, is_trait, takes_place
from memory.categories.spec import AddedFact, Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.evidence import text_of
from memory.model.fact import MAX_STATEMENT_CHARS, MAX_TOPICS, Fact, FactStatus
from memory.model.items import DropReason, Grounded, Item, KnowledgeItem
from memory.model.library import Guidance
from memory.model.near_duplicate import is_same, may_be_same, statement_key
from memory.model.owner import Owner, View
from memory.model.validity import validity
from memory.model.window import StoredEvent
from memory.model.words import key_words
from memory.ports import AddFact, ConfirmFact, FactChange

CANDIDATES: Final = 12
"""Facts that a search gives for one statement."""
TEAM_CANDIDATES: Final = 24
"""Facts of the user and the user's teams; the user's own among them do not count."""
SAME_SUBJECT: Final = 50
MAX_SUBJECT_CHARS: Final = 200
MAX_TITLE_CHARS: Final = 120
MAX_TOPIC_CHARS: Final = 60
MAX_GUIDANCE_CHARS: Final = 32 * 1024
MAX_HOPS: Final = 20
"""Steps along a chain of superseded facts."""
_FACTS: Final = uuid.UUID("2b0d6a4f-8f0c-4b8f-9f44-6c1d7c5a9e21")
_GUIDANCE: Final = uuid.UUID("b8a4c7de-3d1e-4a6e-8f6b-1f0f3a4f2c90")


def check(item: Item, cited: Sequence[StoredEvent]) -> str | None:
    """A secret, what a person is like, a request, code: not what facts are for. (A how-to is kept, by the apply step.)"""
    if not isinstance(item, KnowledgeItem) or not key_words(item.statement):
        return DropReason.MALFORMED
    statement = " ".join(item.statement.split())
    if is_procedure(statement, [evidence.quote for evidence in item.evidence]):
        return None
    return DropReason.ROUTED_ELSEWHERE if elsewhere(statement) else None


async def apply(items: Sequence[Grounded[KnowledgeItem]], context: ApplyContext) -> Applied:
    """The same statement again is confirmed, one that contradicts takes the place of the old one, one that adds is added.

    All facts in one transaction; guidance before it.
    """
    tally = Tally(Category.KNOWLEDGE, proposed=len(items))
    book = await _Book.open(items, context)
    how_to: list[Guidance] = []
    for one in _in_order(items):
        statement = one_line(one.item.statement, MAX_STATEMENT_CHARS)
        if not key_words(statement):
            tally.drop(one, DropReason.MALFORMED)
        elif is_procedure(statement, sentences_of(one, context)):
            how_to.append(_guidance(one, statement, context))
            tally.drop(one, DropReason.ROUTED_ELSEWHERE)
        elif elsewhere(statement) or is_trait(statement, book.people):
            book.refuse(one)
            tally.drop(one, DropReason.ROUTED_ELSEWHERE)
        elif not await book.enter(one, statement):
            book.refuse(one)
            tally.drop(one, DropReason.CONFLICT)
    if how_to:
        await context.stores.guidance.add(book.owner, _by_title(how_to), now=context.now)
    added: list[AddedFact] = []
    by_effect = {one.key: one for one in items}
    for result in await context.stores.facts.apply(book.owner, book.changes, now=context.now):
        if result.did in ("added", "superseded"):
            added.append(AddedFact(result.fact_id, result.superseded))
        elif result.did == "forgotten":
            tally.drop(by_effect[result.effect], DropReason.FORGOTTEN)
        tally.confirmed += result.did == "confirmed" or (result.did == "nothing" and result.effect not in book.refused)
    tally.applied += len(added)
    return replace(tally.result(), added=tuple(added))


def _in_order(items: Sequence[Grounded[KnowledgeItem]]) -> list[Grounded[KnowledgeItem]]:
    """As it was said, so that of two statements that contradict each other the later one holds."""
    return sorted(items, key=lambda one: max((source.seq or 0 for source in one.sources), default=0))


@dataclass
class _Book:
    """What the user's facts will be: the stored ones, and the changes of this window as they are decided one after the other."""

    context: ApplyContext
    owner: Owner
    zone: tzinfo
    people: frozenset[str]
    by_key: dict[str, Fact]
    changes: list[FactChange] = field(default_factory=list[FactChange])
    added: dict[str, Fact] = field(default_factory=dict[str, Fact])
    ended: dict[str, str] = field(default_factory=dict[str, str])
    """By id of a fact that ends with this window, the one that takes its place."""
    refused: set[str] = field(default_factory=set[str])

    @classmethod
    async def open(cls, items: Sequence[Grounded[KnowledgeItem]], context: ApplyContext) -> _Book:
        scope = context.window.scope
        owner = Owner.user(scope)
        numbers = {int(value) for ref, value in context.refs.items() if ref.startswith("c") and value.isdecimal()}
        contacts = await context.stores.contacts.get(scope, numbers)
        people = {part for contact in contacts.values() for part in (contact.name, contact.first_name) if part}
        keys = {statement_key(one_line(one.item.statement, MAX_STATEMENT_CHARS)) for one in items}
        by_key = dict(await context.stores.facts.by_key(owner, keys))
        await context.stores.search.settle(View(scope))
        return cls(context, owner, await zone_of_user(context), frozenset(people), by_key)

    async def enter(self, one: Grounded[KnowledgeItem], statement: str) -> bool:
        """Decide on one statement. False: something newer is known that speaks against it."""
        item = one.item
        key = statement_key(statement)
        fact = self._fact(one, statement)
        related = await self._related(item)
        candidates = await self._candidates(fact, related)
        same = self._live(self.by_key.get(key)) or next((old for old in candidates if is_same(statement, old.statement)), None)
        if same is None and item.relation == "same" and related is not None and may_be_same(statement, related.statement):
            same = related
        if same is not None:
            self.changes.append(ConfirmFact(one.key, same.fact_id, one.sources))
            return True
        said = sentences_of(one, self.context)
        rivals = [
            old for old in candidates if takes_place(fact, old, said, claimed=item.relation == "supersedes" and old is related)
        ]
        if any(old.observed_at > fact.observed_at for old in rivals):
            return False
        if not rivals and await self._known_to_team(item, fact):
            # Theirs stays as it is, and the user sees it as it is: there is nothing to write but that this item is done.
            self.changes.append(ConfirmFact(one.key, "", ()))
            return True
        for old in rivals:
            self.ended[old.fact_id] = fact.fact_id
        self.added[fact.fact_id] = self.by_key[key] = fact
        self.changes.append(AddFact(one.key, fact, key, tuple(old.fact_id for old in rivals)))
        return True

    def refuse(self, one: Grounded[KnowledgeItem]) -> None:
        """Use up the key: what is refused now is refused whenever the window is applied again, whatever is known by then."""
        self.refused.add(one.key)
        self.changes.append(ConfirmFact(one.key, "", ()))

    def _live(self, fact: Fact | None) -> Fact | None:
        if fact is None or fact.owner != self.owner.key or fact.status is not FactStatus.ACTIVE or fact.fact_id in self.ended:
            return None
        return fact

    async def _related(self, item: KnowledgeItem) -> Fact | None:
        """The fact that the model means, or the one that holds in its place by now; None where nothing does."""
        wanted = self.context.refs.get(item.related) if item.related is not None else None
        for _ in range(MAX_HOPS):
            if wanted is None:
                return None
            if wanted in self.ended:
                wanted = self.ended[wanted]
                continue
            if wanted in self.added:
                return self.added[wanted]
            found = (await self.context.stores.facts.get(View(self.context.window.scope), [wanted])).get(wanted)
            if found is None or found.status is not FactStatus.SUPERSEDED:
                return self._live(found)
            wanted = found.superseded_by
        return None

    async def _candidates(self, fact: Fact, related: Fact | None) -> list[Fact]:
        """Live facts that may say the same or the contrary: what the model names, what a search finds, what has the subject."""
        view = View(self.context.window.scope)
        query = f"{fact.subject} {fact.statement}".strip()
        found = [one.fact for one in await self.context.stores.search.search(view, query, limit=CANDIDATES)]
        if fact.subject:
            found += await self.context.stores.facts.list(view, subject=fact.subject, limit=SAME_SUBJECT)
        everything = {one.fact_id: one for one in ([related] if related is not None else [])}
        for one in (*self.added.values(), *found):
            everything.setdefault(one.fact_id, one)
        return [one for one in everything.values() if self._live(one) is not None]

    async def _known_to_team(self, item: KnowledgeItem, fact: Fact) -> bool:
        """Whether a fact of one of the user's teams says the same."""
        if not self.context.teams:
            return False
        view, own = View(self.context.window.scope, self.context.teams), self.owner.key
        query = f"{fact.subject} {fact.statement}".strip()
        found = [one.fact for one in await self.context.stores.search.search(view, query, limit=TEAM_CANDIDATES)]
        if any(old.owner != own and is_same(fact.statement, old.statement) for old in found):
            return True
        meant = self.context.refs.get(item.related) if item.related is not None and item.relation == "same" else None
        old = (await self.context.stores.facts.get(view, [meant])).get(meant) if meant is not None else None
        if old is None or old.owner == own or old.status is not FactStatus.ACTIVE:
            return False
        return may_be_same(fact.statement, old.statement)

    def _fact(self, one: Grounded[KnowledgeItem], statement: str) -> Fact:
        item = one.item
        moments = [source.said_at for source in one.sources if source.said_at is not None]
        observed = min(moments) if moments else self.context.now
        begins, ends = validity(item.valid_from, item.valid_until, quotes_of(one), said_at=observed, zone=self.zone)
        topics = (one_line(topic, MAX_TOPIC_CHARS) for topic in item.topics)
        return Fact(
            fact_id=str(uuid.uuid5(_FACTS, f"{self.owner.path}/{one.key}")),
            owner=self.owner.key,
            subject=one_line(item.subject, MAX_SUBJECT_CHARS),
            statement=statement,
            kind=item.kind,
            topics=tuple(dict.fromkeys(topic for topic in topics if topic))[:MAX_TOPICS],
            confidence=min(1.0, max(0.0, item.confidence)),
            observed_at=observed,
            valid_from=begins,
            valid_until=ends,
            created_at=self.context.now,
            sources=one.sources,
        )


def _guidance(one: Grounded[KnowledgeItem], statement: str, context: ApplyContext) -> Guidance:
    """A how-to with the whole of what was said: a statement about it says too little."""
    owner = Owner.user(context.window.scope)
    texts = {stored.event.event_id: text_of(stored) for stored in context.events}
    said = [texts.get(source.event_id or "") or source.quote for source in one.sources]
    content = "\n\n".join(dict.fromkeys(clean(text) for text in said if text.strip())) or statement
    title = one_line(one.item.subject, MAX_TITLE_CHARS) or one_line(statement, MAX_TITLE_CHARS)
    topics = (one_line(topic, MAX_TOPIC_CHARS) for topic in one.item.topics)
    return Guidance(
        guidance_id=str(uuid.uuid5(_GUIDANCE, f"{owner.path}/{statement_key(title)}")),
        owner=owner.key,
        title=title,
        content=content[:MAX_GUIDANCE_CHARS],
        tags=tuple(dict.fromkeys(topic for topic in topics if topic))[:MAX_TOPICS],
        created_at=context.now,
        updated_at=context.now,
    )


def _by_title(entries: Sequence[Guidance]) -> list[Guidance]:
    """One entry a title: a procedure that was said in several messages is one text."""
    found: dict[str, Guidance] = {}
    for entry in entries:
        before = found.get(entry.guidance_id)
        if before is None:
            found[entry.guidance_id] = entry
        elif entry.content not in before.content:
            content = f"{before.content}\n\n{entry.content}"[:MAX_GUIDANCE_CHARS]
            found[entry.guidance_id] = before.model_copy(update={"content": content})
    return list(found.values())


SPEC: Final = CategorySpec(
    category=Category.KNOWLEDGE,
    prompt="extract_knowledge",
    item=KnowledgeItem,
    apply=apply,
    check=check,
    reads_teams=True,
    shielded_by=frozenset({"knowledgemanager", "knowledge", "knowledgebase", "factmanager", "factsmanager", "facts"}),
)
