"""Domain knowledge: durable claims become facts; how-to goes to guidance, attributes of people to contacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from memory.categories.common import Tally, clean, quotes_of
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.fact import MAX_STATEMENT_CHARS, MAX_TOPICS, Fact, FactStatus
from memory.model.ids import short_hash
from memory.model.items import DropReason, Grounded, KnowledgeItem
from memory.model.library import Guidance
from memory.model.near_duplicate import is_same, overlap, statement_key
from memory.model.owner import Owner, View
from memory.model.routing import is_how_to, is_person_attribute
from memory.model.slots import contradicts
from memory.model.validity import read_moment, said_until
from memory.ports import AddFact, ConfirmFact, FactChange

CANDIDATES: Final = 8
MIN_SHARED: Final = 0.3
"""A fact that is said to be superseded has so much in common with the statement that takes its place."""
MIN_SAME: Final = 0.5
MAX_TITLE: Final = 120


@dataclass
class _Write:
    """Changes of one window, decided one after the other."""

    changes: list[FactChange] = field(default_factory=list[FactChange])
    added: list[Fact] = field(default_factory=list[Fact])
    ended: set[str] = field(default_factory=set[str])


async def apply(items: Sequence[Grounded[KnowledgeItem]], context: ApplyContext) -> Applied:
    """The same statement is confirmed, a contradicting one superseded, an additive one added. One transaction."""
    tally = Tally(Category.KNOWLEDGE)
    owner = Owner.user(context.window.scope)
    write = _Write()
    for one in items:
        statement = clean(one.item.statement)[:MAX_STATEMENT_CHARS]
        said = " ".join((statement, *quotes_of(one)))
        if not statement:
            tally.drop(one, DropReason.MALFORMED)
        elif is_how_to(statement) or is_how_to(said):
            await _to_guidance(one, owner, context, statement)
            tally.drop(one, DropReason.ROUTED_ELSEWHERE)
        elif is_person_attribute(statement):
            tally.drop(one, DropReason.ROUTED_ELSEWHERE)
        else:
            await _decide(one, statement, context, write)
    for result in await context.stores.facts.apply(owner, write.changes, now=context.now):
        tally.applied += result.did in ("added", "superseded")
        tally.confirmed += result.did == "confirmed"
    return tally.result()


async def _decide(one: Grounded[KnowledgeItem], statement: str, context: ApplyContext, write: _Write) -> None:
    item = one.item
    facts = context.stores.facts
    view = View(context.window.scope)
    key = statement_key(statement)
    same = (await facts.by_key(Owner.user(context.window.scope), [key])).get(key)
    related = None
    if item.related is not None and (fact_id := context.refs.get(item.related)) is not None:
        related = (await facts.get(view, [fact_id])).get(fact_id)
    near = [found.fact for found in await context.stores.search.search(view, f"{item.subject} {statement}", limit=CANDIDATES)]
    known = [fact for fact in (related, *near, *write.added) if fact is not None and fact.status is FactStatus.ACTIVE]
    live = [fact for fact in known if fact.fact_id not in write.ended]
    if same is None:
        same = next((fact for fact in live if is_same(statement, fact.statement)), None)
    if same is None and item.relation == "same" and related in live and overlap(statement, related.statement) >= MIN_SAME:  # type: ignore[union-attr]
        same = related
    if same is not None and same.fact_id not in write.ended:
        write.changes.append(ConfirmFact(one.key, same.fact_id, one.sources))
        return
    fact = _fact(one, statement, context)
    superseded = [old.fact_id for old in live if _takes_the_place(fact, old, item, related)]
    write.ended.update(superseded)
    write.added.append(fact)
    write.changes.append(AddFact(one.key, fact, key, tuple(dict.fromkeys(superseded))))


def _takes_the_place(new: Fact, old: Fact, item: KnowledgeItem, related: Fact | None) -> bool:
    """The model says so and both are about the same matter; or both give one thing another value, and the model forgot."""
    # What was said earlier does not take the place of what was said later: a window that runs again changes nothing.
    if old.observed_at > new.observed_at:
        return False
    if item.relation == "supersedes" and related is not None and old.fact_id == related.fact_id:
        same_subject = bool(new.subject) and statement_key(new.subject) == statement_key(old.subject)
        return same_subject or overlap(new.statement, old.statement) >= MIN_SHARED
    return contradicts(new.statement, old.statement)


def _fact(one: Grounded[KnowledgeItem], statement: str, context: ApplyContext) -> Fact:
    item = one.item
    moments = [source.said_at for source in one.sources if source.said_at is not None]
    observed = min(moments) if moments else context.now
    begins = read_moment(item.valid_from, said_at=observed)
    ends = read_moment(item.valid_until, said_at=observed, end=True) or said_until(quotes_of(one), said_at=observed)
    if ends is not None and ends <= max(observed, begins or datetime.min.replace(tzinfo=UTC)):
        ends = None
    topics = tuple(dict.fromkeys(clean(topic)[:60] for topic in item.topics if topic.strip()))[:MAX_TOPICS]
    return Fact(
        fact_id=f"f-{one.key}",
        owner=Owner.user(context.window.scope).key,
        subject=clean(item.subject)[:200],
        statement=statement,
        kind=item.kind,
        topics=topics,
        confidence=min(1.0, max(0.0, item.confidence)),
        observed_at=observed,
        valid_from=begins,
        valid_until=ends,
        created_at=context.now,
        sources=one.sources,
    )


async def _to_guidance(one: Grounded[KnowledgeItem], owner: Owner, context: ApplyContext, statement: str) -> None:
    """A how-to is kept, with the whole of what was said: a statement about it alone says too little."""
    texts = {stored.seq: getattr(stored.event, "content", None) or "" for stored in context.events}
    said = [clean(texts.get(source.seq or 0, "")) or source.quote for source in one.sources]
    content = "\n\n".join(dict.fromkeys(said)) or statement
    title = clean(one.item.subject) or statement
    entry = Guidance(
        guidance_id=f"g-{short_hash(owner.path, statement_key(title))}",
        owner=owner.key,
        title=title[:MAX_TITLE],
        content=content[:60_000],
        tags=tuple(clean(topic)[:60] for topic in one.item.topics[:MAX_TOPICS]),
        created_at=context.now,
        updated_at=context.now,
    )
    await context.stores.guidance.add(owner, [entry], now=context.now)


SPEC = CategorySpec(
    category=Category.KNOWLEDGE,
    prompt="extract_knowledge",
    item=KnowledgeItem,
    apply=apply,
    shielded_by=frozenset({"knowledgemanager", "knowledge", "factmanager"}),
)
