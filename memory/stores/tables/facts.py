"""Facts in SQL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, tuple_

from memory import telemetry
from memory.model import metrics
from memory.model.errors import InvalidInput
from memory.model.fact import Fact, FactKind, FactStatus, Source
from memory.model.ids import body_hash
from memory.model.owner import Owner, View
from memory.model.transcript import clean_text
from memory.model.words import fold
from memory.ports import AddFact, ConfirmFact, FactChange, FactResult, FactStore, Position
from memory.stores.tables.columns import to_utc
from memory.stores.tables.effects import apply_once
from memory.stores.tables.engine import Database
from memory.stores.tables.forgotten import forget_sources, is_forgotten
from memory.stores.tables.indexing import NEW, IndexedRows, after_row, joined
from memory.stores.tables.provenance import add_sources, sources_of
from memory.stores.tables.rows_records import FACTS
from memory.stores.tables.scoping import Query, Records, batches, checked_limit

_THERE = FACTS.c.deleted_at.is_(None)
_ACTIVE = and_(FACTS.c.status == FactStatus.ACTIVE.value, _THERE)
_BEGINS = func.coalesce(FACTS.c.valid_from, FACTS.c.observed_at)
_AGAIN: Final = uuid.UUID("6f1f6c1e-3a51-4c1c-9a64-0d3f6f0f6a55")
"""Name space of the ids of facts whose own id was given out before."""


class SqlFacts(IndexedRows, FactStore):
    """Facts of users and teams. An active one has a vector; one that has ended has none, and is found by the time it held."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, FACTS, "fact_id")

    @property
    def kind(self) -> str:
        return "facts"

    def _live(self, row: Row[Any]) -> bool:
        return row.deleted_at is None and row.status == FactStatus.ACTIVE.value

    def _text(self, row: Row[Any]) -> str:
        return joined(row.subject, row.statement, " ".join(row.topics))

    def _payload(self, row: Row[Any]) -> dict[str, Any]:
        return {"kind": row.kind, "status": row.status}

    async def apply(self, owner: Owner, changes: Sequence[FactChange], *, now: datetime) -> Sequence[FactResult]:
        moment = to_utc(now)
        for change in changes:
            if isinstance(change, AddFact):
                _check_new(owner, change)

        def work(connection: Connection) -> list[FactResult]:
            records = Records(connection, owner)
            records.lock()
            writer = _Writer(records, self._raised, moment)
            return apply_once(records, "facts", changes, writer.apply, FactResult, now=moment)

        results = await self._database.write(work) if changes else []
        for result in results:
            if result.did != "nothing":
                telemetry.count(metrics.FACTS, change=result.did)
        return results

    async def get(self, view: View, fact_ids: Collection[str], *, sources: bool = False) -> Mapping[str, Fact]:
        wanted = sorted(set(fact_ids))

        def work(connection: Connection) -> dict[str, Fact]:
            records = Records(connection, view)
            rows: list[Row[Any]] = []
            for some in batches(wanted):
                rows += records.rows(select(FACTS).where(FACTS.c.fact_id.in_(some), _THERE))
            return {fact.fact_id: fact for fact in _facts(records, rows, sources=sources)}

        return await self._database.read(work) if wanted else {}

    async def by_key(self, owner: Owner, keys: Collection[str]) -> Mapping[str, Fact]:
        hashes = {body_hash(key): key for key in keys}

        def work(connection: Connection) -> dict[str, Fact]:
            records = Records(connection, owner)
            found: dict[str, Fact] = {}
            for some in batches(sorted(hashes)):
                for row in records.rows(select(FACTS).where(FACTS.c.fact_key.in_(some), _ACTIVE)):
                    found[hashes[row.fact_key]] = _fact(row)
            return found

        return await self._database.read(work) if hashes else {}

    async def list(
        self,
        view: View,
        *,
        statuses: Collection[FactStatus] = (FactStatus.ACTIVE,),
        kinds: Collection[FactKind] | None = None,
        subject: str | None = None,
        as_of: datetime | None = None,
        sources: bool = False,
        limit: int = 100,
        after: str | Position | None = None,
    ) -> Sequence[Fact]:
        order = (FACTS.c.created_at.desc(), FACTS.c.fact_id.desc())
        wanted = select(FACTS).where(_THERE).order_by(*order).limit(checked_limit(limit))
        if as_of is None:
            wanted = wanted.where(FACTS.c.status.in_(sorted(status.value for status in statuses)))
        else:
            wanted = wanted.where(_held_at(to_utc(as_of)))
        if kinds is not None:
            wanted = wanted.where(FACTS.c.kind.in_(sorted(kind.value for kind in kinds)))
        if subject is not None:
            wanted = wanted.where(FACTS.c.subject_key == _subject_key(subject))

        def work(connection: Connection) -> Sequence[Fact]:
            records = Records(connection, view)
            page: Query = wanted
            if after is not None:
                page = page.where(
                    tuple_(FACTS.c.created_at, FACTS.c.fact_id) < tuple_(*after_row(records, FACTS, "fact_id", after))
                )
            return _facts(records, records.rows(page), sources=sources)

        return await self._database.read(work)

    async def history(self, view: View, fact_id: str) -> Sequence[Fact]:
        def work(connection: Connection) -> Sequence[Fact]:
            records = Records(connection, view)
            found = records.row(select(FACTS.c.owner_key, FACTS.c.chain_id).where(FACTS.c.fact_id == fact_id, _THERE))
            if found is None:
                return []
            chain = select(FACTS).where(FACTS.c.owner_key == found.owner_key, FACTS.c.chain_id == found.chain_id, _THERE)
            # Of two that were written in one moment, the one that ended came first.
            chain = chain.order_by(FACTS.c.created_at, FACTS.c.ended_at.is_(None), FACTS.c.ended_at, FACTS.c.fact_id)
            return _facts(records, records.rows(chain), sources=True)

        return await self._database.read(work)

    async def delete(self, owner: Owner, fact_ids: Collection[str], *, now: datetime) -> int:
        moment = to_utc(now)
        wanted = sorted(set(fact_ids))
        blank: dict[str, Any] = {
            "subject": "",
            "subject_key": None,
            "statement": "",
            "fact_key": None,
            "topics": [],
            "status": FactStatus.INVALIDATED.value,
            "ended_at": func.coalesce(FACTS.c.ended_at, moment),
            "deleted_at": moment,
            **self._raised(),
        }

        def work(connection: Connection) -> int:
            records = Records(connection, owner)
            records.lock()
            deleted = 0
            for some in batches(wanted):
                deleted += records.update(FACTS, FACTS.c.fact_id.in_(some), _THERE, values=blank)
            forget_sources(records, "fact", wanted, now=moment)
            return deleted

        return await self._database.write(work) if wanted else 0


class _Writer:
    """The changes of one call, on one owner's facts, whose lock is held."""

    def __init__(self, records: Records, raised: Callable[[], dict[str, Any]], now: datetime) -> None:
        self._records = records
        self._raised = raised
        self._now = now

    def apply(self, change: FactChange) -> FactResult:
        if isinstance(change, AddFact):
            return self._add(change)
        if self._active(FACTS.c.fact_id == change.fact_id) is None:
            return FactResult(change.effect, "nothing", change.fact_id)
        if isinstance(change, ConfirmFact):
            add_sources(self._records, "fact", change.fact_id, change.sources, now=self._now)
            return FactResult(change.effect, "confirmed", change.fact_id)
        ended = {"status": FactStatus.INVALIDATED.value, "ended_at": self._now, **self._raised()}
        self._records.update(FACTS, FACTS.c.fact_id == change.fact_id, values=ended)
        return FactResult(change.effect, "ended", change.fact_id)

    def _add(self, change: AddFact) -> FactResult:
        holder = self._active(FACTS.c.fact_key == body_hash(change.key))
        if holder is None and is_forgotten(self._records, "fact", change.fact.sources):
            return FactResult(change.effect, "forgotten", change.fact.fact_id)
        fact_id = self._free_id(change) if holder is None else holder.fact_id
        ending = [
            row
            for old in dict.fromkeys(change.supersedes)
            if old != fact_id and (row := self._active(FACTS.c.fact_id == old)) is not None
        ]
        chain_id = self._one_chain([*([holder] if holder is not None else []), *ending]) or fact_id
        for row in ending:
            self._supersede(row, fact_id, change.fact)
        if holder is None:
            self._records.insert(FACTS, [_row(change, fact_id, chain_id)])
        add_sources(self._records, "fact", fact_id, change.fact.sources, now=self._now)
        did = "superseded" if ending else "added" if holder is None else "confirmed"
        return FactResult(change.effect, did, fact_id, tuple(row.fact_id for row in ending))

    def _supersede(self, old: Row[Any], new_id: str, new: Fact) -> None:
        """It ends when the new one was said or begins to hold, so that at no time both hold; never before it began."""
        begins = [old.valid_from or old.observed_at, to_utc(new.observed_at)]
        begins += [to_utc(new.valid_from)] if new.valid_from is not None else []
        values = {"status": FactStatus.SUPERSEDED.value, "superseded_by": new_id, "ended_at": max(begins)}
        self._records.update(FACTS, FACTS.c.fact_id == old.fact_id, values=values | self._raised())

    def _one_chain(self, rows: Sequence[Row[Any]]) -> str | None:
        """The chain that these facts are in from now on."""
        chains = list(dict.fromkeys(row.chain_id for row in rows))
        if len(chains) > 1:
            self._records.update(FACTS, FACTS.c.chain_id.in_(chains[1:]), values={"chain_id": chains[0]})
        return chains[0] if chains else None

    def _free_id(self, change: AddFact) -> str:
        """Its own id; another one where a fact that has ended or was deleted has that: its history is its own."""
        taken = self._records.row(select(FACTS.c.fact_id).where(FACTS.c.fact_id == change.fact.fact_id))
        return change.fact.fact_id if taken is None else str(uuid.uuid5(_AGAIN, f"{change.fact.fact_id}/{change.effect}"))

    def _active(self, condition: ColumnElement[bool]) -> Row[Any] | None:
        return self._records.row(select(FACTS).where(condition, _ACTIVE))


def _check_new(owner: Owner, change: AddFact) -> None:
    if change.fact.owner != owner.key:
        raise InvalidInput("a fact is added to the owner that it names")
    if change.fact.status is not FactStatus.ACTIVE:
        raise InvalidInput("a new fact is an active one")
    if not change.key or not clean_text(change.fact.statement).strip():
        raise InvalidInput("a fact has a statement and a key")


def _row(change: AddFact, fact_id: str, chain_id: str) -> dict[str, Any]:
    fact = change.fact
    subject = clean_text(fact.subject)
    return {
        "fact_id": fact_id,
        "fact_key": body_hash(change.key),
        "chain_id": chain_id,
        "subject": subject,
        "subject_key": _subject_key(subject),
        "statement": clean_text(fact.statement),
        "kind": fact.kind.value,
        "topics": [clean_text(topic) for topic in fact.topics],
        "confidence": fact.confidence,
        "observed_at": fact.observed_at,
        "valid_from": fact.valid_from,
        "valid_until": fact.valid_until,
        "status": FactStatus.ACTIVE.value,
        "created_at": fact.created_at,
        **NEW,
    }


def _subject_key(subject: str) -> str:
    return body_hash(" ".join(fold(clean_text(subject)).split()))


def _held_at(moment: datetime) -> ColumnElement[bool]:
    """``Fact.holds_at`` in SQL."""
    return and_(
        moment >= _BEGINS,
        or_(FACTS.c.valid_until.is_(None), FACTS.c.valid_until > moment),
        or_(FACTS.c.ended_at.is_(None), FACTS.c.ended_at > moment),
    )


def _facts(records: Records, rows: Sequence[Row[Any]], *, sources: bool) -> Sequence[Fact]:
    cited = sources_of(records, "fact", {row.fact_id for row in rows}) if sources and rows else {}
    return [_fact(row, cited.get((row.owner_key, row.fact_id), ())) for row in rows]


def _fact(row: Row[Any], sources: tuple[Source, ...] = ()) -> Fact:
    # Not validated again: it was when it was stored.
    return Fact.model_construct(
        fact_id=row.fact_id,
        owner=row.owner_key,
        subject=row.subject,
        statement=row.statement,
        kind=FactKind(row.kind),
        topics=tuple(row.topics),
        confidence=row.confidence,
        observed_at=row.observed_at,
        valid_from=row.valid_from,
        valid_until=row.valid_until,
        status=FactStatus(row.status),
        superseded_by=row.superseded_by,
        ended_at=row.ended_at,
        created_at=row.created_at,
        sources=sources,
    )
