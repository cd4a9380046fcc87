"""Facts in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, literal, or_, tuple_
from sqlalchemy.engine import RowMapping

from memory.model.fact import Fact, FactKind, FactStatus, Source
from memory.model.owner import Owner, View
from memory.model.transcript import clean_text
from memory.ports import AddFact, ConfirmFact, FactChange, FactResult, FactStore
from memory.stores.tables.columns import to_utc
from memory.stores.tables.indexed import IndexedTable
from memory.stores.tables.provenance import add_sources, applied_effects, drop_sources, note_effect, read_sources
from memory.stores.tables.rows_records import FACTS
from memory.stores.tables.scoping import Rows

KIND = "fact"
_NEVER = datetime.max.replace(tzinfo=UTC)
MAX_CHAIN = 200
"""Facts of one history at most."""


class SqlFacts(IndexedTable, FactStore):
    table = FACTS
    id_column = "fact_id"

    def _text(self, row: RowMapping) -> str:
        return " ".join(part for part in (row["subject"], row["statement"], " ".join(row["topics"])) if part)

    def _is_live(self, row: RowMapping) -> bool:
        return not row["deleted"] and row["status"] == FactStatus.ACTIVE.value

    def _payload(self, row: RowMapping) -> Mapping[str, Any]:
        return {"kind": row["kind"]}

    # --------------------------------------------------------------------------------------------------------------- write

    async def apply(self, owner: Owner, changes: Sequence[FactChange], *, now: datetime) -> Sequence[FactResult]:
        moment = to_utc(now)
        rows = Rows(owner)

        def work(connection: Connection) -> list[FactResult]:
            before = applied_effects(connection, rows, {change.effect for change in changes})
            results: list[FactResult] = []
            for change in changes:
                known = before.get(change.effect) or next((_json(r) for r in results if r.effect == change.effect), None)
                if known is not None:
                    results.append(_repeated(change.effect, known))
                    continue
                result = _apply_one(connection, rows, change, moment)
                note_effect(connection, rows, change.effect, _json(result), now=moment)
                results.append(result)
            return results

        return await self._database.write(work) if changes else []

    async def delete(self, owner: Owner, fact_ids: Collection[str], *, now: datetime) -> int:
        rows = Rows(owner)
        wanted = sorted(set(fact_ids))

        def work(connection: Connection) -> int:
            drop_sources(connection, rows, KIND, wanted)
            blank: dict[str, Any] = {"subject": "", "statement": "", "statement_key": None, "topics": [], "deleted": True}
            gone = rows.update(FACTS).where(FACTS.c.fact_id.in_(wanted), FACTS.c.deleted.is_(False))
            status = {"status": FactStatus.INVALIDATED.value, "ended_at": to_utc(now), "revision": FACTS.c.revision + 1}
            return connection.execute(gone.values(**blank, **status)).rowcount

        return await self._database.write(work) if wanted else 0

    # ---------------------------------------------------------------------------------------------------------------- read

    async def get(self, view: View, fact_ids: Collection[str], *, sources: bool = False) -> Mapping[str, Fact]:
        rows = Rows(view)
        statement = _there(rows).where(FACTS.c.fact_id.in_(sorted(set(fact_ids))))
        return {fact.fact_id: fact for fact in await self._facts(rows, statement, sources=sources)}

    async def by_key(self, owner: Owner, keys: Collection[str]) -> Mapping[str, Fact]:
        statement = (
            Rows(owner).select(FACTS).where(FACTS.c.statement_key.in_(sorted(set(keys))), FACTS.c.status == FactStatus.ACTIVE.value)
        )
        return await self._database.read(
            lambda c: {row["statement_key"]: _fact(row, ()) for row in c.execute(statement).mappings()}
        )

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
        after: str | None = None,
    ) -> Sequence[Fact]:
        rows, columns = Rows(view), FACTS.c
        statement = _there(rows)
        if as_of is not None:
            moment = to_utc(as_of)
            statement = statement.where(
                func.coalesce(columns.valid_from, columns.observed_at) <= moment,
                or_(columns.valid_until.is_(None), columns.valid_until > moment),
                or_(columns.ended_at.is_(None), columns.ended_at > moment),
            )
        else:
            statement = statement.where(columns.status.in_(sorted(status.value for status in statuses)))
        if kinds is not None:
            statement = statement.where(columns.kind.in_(sorted(kind.value for kind in kinds)))
        if subject is not None:
            statement = statement.where(func.lower(columns.subject) == clean_text(subject).lower())
        if after is not None:
            last = rows.select(FACTS, columns.observed_at, columns.fact_id).where(columns.fact_id == after)
            place = await self._database.read(lambda c: c.execute(last).first())
            if place is None:
                return []
            statement = statement.where(
                tuple_(columns.observed_at, columns.fact_id) < tuple_(literal(place.observed_at, columns.observed_at.type), after)
            )
        statement = statement.order_by(columns.observed_at.desc(), columns.fact_id.desc()).limit(limit)
        return await self._facts(rows, statement, sources=sources)

    async def history(self, view: View, fact_id: str) -> Sequence[Fact]:
        rows, columns = Rows(view), FACTS.c

        def work(connection: Connection) -> list[Fact]:
            known: dict[str, RowMapping] = {}
            wanted, pointed_at = {fact_id}, set[str]()
            while (wanted or pointed_at) and len(known) < MAX_CHAIN:
                found = connection.execute(
                    _there(rows).where(or_(columns.fact_id.in_(sorted(wanted)), columns.superseded_by.in_(sorted(pointed_at))))
                ).mappings()
                fresh = [row for row in found if row["fact_id"] not in known]
                known.update({row["fact_id"]: row for row in fresh})
                pointed_at = {row["fact_id"] for row in fresh}
                wanted = {row["superseded_by"] for row in fresh if row["superseded_by"]} - known.keys()
            sources = read_sources(connection, rows, KIND, known.keys())
            facts = [_fact(row, sources.get(row["fact_id"], ())) for row in known.values()]
            return sorted(facts, key=lambda fact: (fact.created_at, fact.ended_at or _NEVER))

        return await self._database.read(work)

    async def _facts(self, rows: Rows, statement: Any, *, sources: bool) -> list[Fact]:
        def work(connection: Connection) -> list[Fact]:
            found = connection.execute(statement).mappings().all()
            known = read_sources(connection, rows, KIND, {row["fact_id"] for row in found}) if sources else {}
            return [_fact(row, known.get(row["fact_id"], ())) for row in found]

        return await self._database.read(work)


def _there(rows: Rows) -> Any:
    return rows.select(FACTS).where(FACTS.c.deleted.is_(False))


def _apply_one(connection: Connection, rows: Rows, change: FactChange, now: datetime) -> FactResult:
    if isinstance(change, AddFact):
        return _add(connection, rows, change, now)
    active = rows.select(FACTS, FACTS.c.fact_id).where(FACTS.c.fact_id == change.fact_id, FACTS.c.status == FactStatus.ACTIVE.value)
    if connection.execute(active).first() is None:
        return FactResult(change.effect, "nothing", change.fact_id)
    if isinstance(change, ConfirmFact):
        add_sources(connection, rows, KIND, change.fact_id, change.sources, now=now)
        return FactResult(change.effect, "confirmed", change.fact_id)
    _end(connection, rows, (change.fact_id,), FactStatus.INVALIDATED, None, now)
    return FactResult(change.effect, "ended", change.fact_id)


def _add(connection: Connection, rows: Rows, change: AddFact, now: datetime) -> FactResult:
    fact = change.fact
    holder = connection.execute(
        rows.select(FACTS, FACTS.c.fact_id).where(FACTS.c.statement_key == change.key, FACTS.c.status == FactStatus.ACTIVE.value)
    ).scalar()
    superseded = _end(
        connection, rows, [one for one in change.supersedes if one != holder], FactStatus.SUPERSEDED, holder or fact.fact_id, now
    )
    if holder is not None:
        add_sources(connection, rows, KIND, holder, fact.sources, now=now)
        return FactResult(change.effect, "superseded" if superseded else "confirmed", holder, superseded)
    row = {
        "fact_id": fact.fact_id,
        "subject": clean_text(fact.subject),
        "statement": clean_text(fact.statement),
        "statement_key": change.key,
        "kind": fact.kind.value,
        "topics": [clean_text(topic) for topic in fact.topics],
        "confidence": fact.confidence,
        "observed_at": fact.observed_at,
        "valid_from": fact.valid_from,
        "valid_until": fact.valid_until,
        "status": FactStatus.ACTIVE.value,
        "superseded_by": None,
        "ended_at": None,
        "created_at": now,
        "revision": 1,
        "indexed_revision": 0,
        "index_length": 0,
        "deleted": False,
    }
    if rows.insert_new(connection, FACTS, [row]) == 0:
        # Its id is there and it is not active: the statement has come back.
        again = {
            name: value
            for name, value in row.items()
            if name not in ("fact_id", "revision", "indexed_revision", "index_length", "created_at")
        }
        connection.execute(rows.update(FACTS).where(FACTS.c.fact_id == fact.fact_id).values(**again, revision=FACTS.c.revision + 1))
    add_sources(connection, rows, KIND, fact.fact_id, fact.sources, now=now)
    return FactResult(change.effect, "superseded" if superseded else "added", fact.fact_id, superseded)


def _end(
    connection: Connection, rows: Rows, fact_ids: Sequence[str], status: FactStatus, by: str | None, now: datetime
) -> tuple[str, ...]:
    ended: list[str] = []
    for fact_id in dict.fromkeys(fact_ids):
        done = connection.execute(
            rows.update(FACTS)
            .where(FACTS.c.fact_id == fact_id, FACTS.c.status == FactStatus.ACTIVE.value)
            .values(status=status.value, superseded_by=by, ended_at=now, revision=FACTS.c.revision + 1)
        )
        if done.rowcount:
            ended.append(fact_id)
    return tuple(ended)


def _fact(row: RowMapping, sources: tuple[Source, ...]) -> Fact:
    # Not validated again: it was when it was written.
    names = ("fact_id", "owner", "subject", "statement", "confidence", "observed_at", "valid_from", "valid_until", "superseded_by")
    return Fact.model_construct(
        **{name: row[name] for name in (*names, "ended_at", "created_at")},
        kind=FactKind(row["kind"]),
        status=FactStatus(row["status"]),
        topics=tuple(row["topics"]),
        sources=sources,
    )


def _json(result: FactResult) -> dict[str, Any]:
    return {"did": result.did, "fact_id": result.fact_id, "superseded": list(result.superseded)}


def _repeated(effect: str, known: Mapping[str, Any]) -> FactResult:
    return FactResult(effect, known["did"], known["fact_id"], tuple(known["superseded"]), repeated=True)
