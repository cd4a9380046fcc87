"""Facts from the outside: search, lists, histories, statements that a person adds, forgetting."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from memory.model.errors import InvalidInput
from memory.model.fact import MAX_STATEMENT_CHARS, MAX_TOPICS, Fact, FactKind, FactStatus, Source
from memory.model.ids import new_id, short_hash
from memory.model.near_duplicate import is_same, statement_key
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.ports import AddFact, ConfirmFact, FactChange, FactResult, FactStore, Position
from memory.retrieval.facts import FactSearch, FoundFact
from starter.record_rows import Rows, Views, plain
from starter.who import MAX_SEARCH, Who, checked_limit, checked_moment, checked_query, ids_of, scope_of, words_of

MAX_STATEMENTS: Final = 100
"""In one call."""
CANDIDATES: Final = 8
ACTIVE: Final = (FactStatus.ACTIVE,)


class Statement(BaseModel):
    """What a person wants to be kept. ``supersedes``: ids of facts that end with it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    statement: str = Field(min_length=1, max_length=MAX_STATEMENT_CHARS, repr=False)
    subject: str = Field(default="", max_length=200, repr=False)
    kind: FactKind = FactKind.FACT
    topics: tuple[str, ...] = Field(default=(), max_length=MAX_TOPICS)
    valid_from: AwareDatetime | None = None
    valid_until: AwareDatetime | None = None
    supersedes: tuple[str, ...] = Field(default=(), max_length=20)


Given = str | Statement | Mapping[str, Any]
"""A statement as a caller may give it: its text, or its fields."""


@dataclass(frozen=True, slots=True)
class AddedFact:
    """What became of one statement. ``did``: ``added``, ``superseded`` (others ended with it), ``confirmed`` (known already)."""

    fact: Fact = field(repr=False)
    did: Literal["added", "superseded", "confirmed"]
    superseded: tuple[str, ...] = ()


class Facts:
    """Search and lists give the user's own facts and those of the user's teams; writes go to one of them.

    All methods raise MemoryUnavailable when a store is away.
    """

    def __init__(self, store: FactStore, search: FactSearch, rows: Rows, views: Views) -> None:
        self._store = store
        self._search = search
        self._rows = rows
        self._views = views

    async def search(
        self,
        who: Who,
        query: str,
        *,
        limit: int = 10,
        kinds: Collection[FactKind | str] | None = None,
        as_of: datetime | None = None,
        sources: bool = False,
    ) -> tuple[FoundFact, ...]:
        """Active facts that fit, best first; what was written a moment ago is found.

        Args:
            who: the user.
            query: any text, any language.
            limit: 1 to 100.
            kinds: of these kinds only (``fact``, ``policy``, ``decision``, …).
            as_of: those that held at that time, whatever became of them since.
            sources: with the quotes that they rest on.

        Raises:
            InvalidInput: a query that is empty, an unknown kind, a time without a zone.
        """
        scope, query = scope_of(who), checked_query(query)
        limit, moment = checked_limit(limit, most=MAX_SEARCH), checked_moment(as_of, "as_of")
        wanted = words_of(FactKind, kinds, "kind of fact")
        view = await self._views.of(scope)
        return tuple(await self._search.search(view, query, limit=limit, kinds=wanted, as_of=moment, sources=sources))

    async def list(
        self,
        who: Who,
        *,
        statuses: Collection[FactStatus | str] = ACTIVE,
        kinds: Collection[FactKind | str] | None = None,
        subject: str | None = None,
        as_of: datetime | None = None,
        sources: bool = False,
        limit: int = 100,
        after: str | Position | None = None,
    ) -> tuple[Fact, ...]:
        """Facts, newest first.

        Args:
            who: the user.
            statuses: ``active``, ``superseded``, ``invalidated``; does not count with ``as_of``.
            kinds: of these kinds only.
            subject: of this subject only; capitals and accents do not count.
            as_of: those that held at that time.
            sources: with the quotes that they rest on.
            limit: 1 to 1,000.
            after: the last fact of the page before, by id, or as a Position where it may be gone by now.

        Raises:
            InvalidInput: an argument out of bounds, or ``after`` is no fact that the user may see.
        """
        scope, limit, moment = scope_of(who), checked_limit(limit), checked_moment(as_of, "as_of")
        wanted = words_of(FactStatus, statuses, "status") or frozenset(ACTIVE)
        chosen = words_of(FactKind, kinds, "kind of fact")
        found = await self._store.list(
            await self._views.of(scope),
            statuses=wanted,
            kinds=chosen,
            subject=subject,
            as_of=moment,
            sources=sources,
            limit=limit,
            after=after,
        )
        return tuple(found)

    async def history(self, who: Who, fact_id: str) -> tuple[Fact, ...]:
        """The chain of statements that this fact belongs to, oldest first, with sources; empty where there is no such fact."""
        (checked,) = ids_of([fact_id], "fact id")
        return tuple(await self._store.history(await self._views.of(scope_of(who)), checked))

    async def forget(self, who: Who, ids: Collection[str] | str, *, team: str | None = None) -> int:
        """Remove facts with their text and sources for good. Returns how many there were.

        Args:
            who: the user.
            ids: at most 1,000; unknown ones and those of others are left alone.
            team: of this team of the user's; None: the user's own.

        Raises:
            InvalidInput: what are no ids.
            NotPermitted: the user is not in that team.
        """
        scope, wanted = scope_of(who), ids_of(ids, "fact id")
        owner = await self._views.owner(scope, team)
        gone = await self._store.delete(owner, wanted, now=datetime.now(UTC)) if wanted else 0
        if gone:
            await self._rows.settle(owner)
        return gone

    async def add(
        self,
        who: Who,
        statements: Given | Sequence[Given],
        *,
        team: str | None = None,
        request_id: str | None = None,
    ) -> tuple[AddedFact, ...]:
        """Keep statements that a person makes; their origin is ``manual``. Secrets in them are redacted.

        A statement that is known is confirmed, not added again. Facts that it is said to supersede end with it and stay in the
        history; which ones those are is for the caller to say.

        Args:
            who: the user.
            statements: texts, or fields of :class:`Statement`; at most 100.
            team: for this team of the user's; None: the user's own.
            request_id: makes a repeated call the same call.

        Raises:
            InvalidInput: a statement that cannot be used; says which one.
            NotPermitted: the user is not in that team.
        """
        scope, checked = scope_of(who), _statements(statements)
        owner = await self._views.owner(scope, team)
        if not checked:
            return ()
        now, call = datetime.now(UTC), request_id or new_id()
        changes: list[FactChange] = []
        added: list[Fact] = []
        for number, statement in enumerate(checked):
            effect = f"manual:{short_hash(call, str(number))}"
            changes.append(await self._change(scope, owner, statement, effect, added, now))
        results = await self._store.apply(owner, changes, now=now)
        facts = await self._store.get(View(scope, (owner,) if team is not None else ()), [one.fact_id for one in results])
        return tuple(_added(result, facts[result.fact_id]) for result in results if result.fact_id in facts)

    async def _change(
        self, scope: Scope, owner: Owner, statement: Statement, effect: str, added: list[Fact], now: datetime
    ) -> FactChange:
        key = statement_key(statement.statement)
        source = Source(origin="manual", quote=statement.statement[:1000], said_at=now)
        held = (await self._store.by_key(owner, [key])).get(key)
        view = View(scope, (owner,) if owner.kind == "t" else ())
        near = [one.fact for one in await self._search.search(view, statement.statement, limit=CANDIDATES)]
        live = [fact for fact in (*near, *added) if fact.owner == owner.key and fact.fact_id not in statement.supersedes]
        held = held or next((fact for fact in live if is_same(statement.statement, fact.statement)), None)
        if held is not None and held.fact_id not in statement.supersedes:
            return ConfirmFact(effect, held.fact_id, (source,))
        fact = Fact(
            fact_id=f"f-{short_hash(owner.path, key, effect)}",
            owner=owner.key,
            subject=statement.subject,
            statement=statement.statement,
            kind=statement.kind,
            topics=statement.topics,
            observed_at=now,
            valid_from=statement.valid_from,
            valid_until=statement.valid_until,
            created_at=now,
            sources=(source,),
        )
        added.append(fact)
        return AddFact(effect, fact, key, tuple(dict.fromkeys(statement.supersedes)))


def _statements(given: Given | Sequence[Given]) -> list[Statement]:
    listed: list[Given] = [given] if isinstance(given, str | Mapping | Statement) else list(given)
    if len(listed) > MAX_STATEMENTS:
        raise InvalidInput(f"{len(listed)} statements in one call; at most {MAX_STATEMENTS} are accepted")
    checked: list[Statement] = []
    for number, one in enumerate(listed, start=1):
        try:
            statement = (
                one if isinstance(one, Statement) else Statement.model_validate({"statement": one} if isinstance(one, str) else one)
            )
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            place = ".".join(str(part)[:40] for part in first["loc"]) or "it"
            raise InvalidInput(f"statement {number} is not valid: {place}: {first['msg']}") from None
        begins, ends = statement.valid_from, statement.valid_until
        if begins is not None and ends is not None and ends <= begins:
            raise InvalidInput(f"statement {number} is not valid: it ends before it begins")
        cleaned = {
            "statement": plain(statement.statement, f"text of statement {number}", longest=MAX_STATEMENT_CHARS),
            "subject": plain(statement.subject, "subject", longest=200) if statement.subject.strip() else "",
            "topics": tuple(plain(topic, "topic", longest=60) for topic in statement.topics),
        }
        checked.append(statement.model_copy(update=cleaned))
    return checked


def _added(result: FactResult, fact: Fact) -> AddedFact:
    if result.did == "added" or result.did == "superseded":
        return AddedFact(fact, result.did, result.superseded)
    return AddedFact(fact, "confirmed")
