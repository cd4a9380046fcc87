"""Where facts, contacts and tasks come from: quotes of events, in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import and_, bindparam, func, select

from memory.model.fact import Source
from memory.model.ids import short_hash
from memory.model.transcript import clean_text
from memory.stores.tables.rows_records import PROVENANCE
from memory.stores.tables.scoping import Prepared, Records, batches

ItemKind = Literal["fact", "contact", "task"]

MAX_SOURCES = 1000
"""Of one item. What is said more often than that is not quoted again."""


_ITEM = and_(PROVENANCE.c.item_kind == bindparam("b_kind"), PROVENANCE.c.item_id == bindparam("b_item"))
_COUNT = Prepared(select(func.count(PROVENANCE.c.source_key)).where(_ITEM))
_KNOWN = Prepared(select(PROVENANCE.c.source_key).where(_ITEM, PROVENANCE.c.source_key.in_(bindparam("b_keys", expanding=True))))
_OF_ITEMS = Prepared(
    select(PROVENANCE).where(
        PROVENANCE.c.item_kind == bindparam("b_kind"), PROVENANCE.c.item_id.in_(bindparam("b_items", expanding=True))
    )
)


def add_sources(records: Records, kind: ItemKind, item_id: str, sources: Sequence[Source], *, now: datetime) -> int:
    """Add what is not there yet: a source is the same when event and quote are. Returns how many were new."""
    if not sources:
        return 0
    rows: dict[str, dict[str, Any]] = {}
    for source in sources:
        quote = clean_text(source.quote)
        rows.setdefault(
            short_hash(source.event_id or "", quote),
            {
                "event_id": source.event_id,
                "seq": source.seq,
                "quote": quote,
                "said_at": source.said_at,
                "origin": clean_text(source.origin),
            },
        )
    item = {"b_kind": kind, "b_item": item_id}
    room = MAX_SOURCES - records.rows(_COUNT, item)[0][0]
    for some in batches(sorted(rows)):
        for row in records.rows(_KNOWN, {**item, "b_keys": some}):
            del rows[row.source_key]
    new = list(rows.items())[: max(room, 0)]
    records.insert(
        PROVENANCE,
        [
            {"item_kind": kind, "item_id": item_id, "source_key": key, "position": position, "added_at": now, **row}
            for position, (key, row) in enumerate(new)
        ],
    )
    return len(new)


def sources_of(records: Records, kind: ItemKind, item_ids: Collection[str]) -> dict[tuple[str, str], tuple[Source, ...]]:
    """By owner key and item id, oldest first; items without sources are left out."""
    rows: dict[tuple[str, str], list[Any]] = {}
    for some in batches(sorted(item_ids)):
        for row in records.rows(_OF_ITEMS, {"b_kind": kind, "b_items": some}):
            rows.setdefault((row.owner_key, row.item_id), []).append(row)
    return {
        item: tuple(
            # Not validated again: it was when it was stored.
            Source.model_construct(event_id=r.event_id, seq=r.seq, quote=r.quote, said_at=r.said_at, origin=r.origin)
            for r in sorted(found, key=lambda r: (r.said_at or r.added_at, r.added_at, r.position))
        )
        for item, found in rows.items()
    }


def delete_sources(records: Records, kind: ItemKind, item_ids: Collection[str]) -> None:
    for some in batches(sorted(item_ids)):
        records.delete(PROVENANCE, PROVENANCE.c.item_kind == kind, PROVENANCE.c.item_id.in_(some))


def move_sources(records: Records, kind: ItemKind, *, from_id: str, to_id: str) -> None:
    """All sources of one item become another's; those that it has too are dropped."""
    there = {row.source_key for row in records.rows(select(PROVENANCE.c.source_key).where(_item(kind, to_id)))}
    coming = {row.source_key for row in records.rows(select(PROVENANCE.c.source_key).where(_item(kind, from_id)))}
    for some in batches(sorted(there & coming)):
        records.delete(PROVENANCE, _item(kind, from_id), PROVENANCE.c.source_key.in_(some))
    records.update(PROVENANCE, _item(kind, from_id), values={"item_id": to_id})


def _item(kind: ItemKind, item_id: str) -> Any:
    return and_(PROVENANCE.c.item_kind == kind, PROVENANCE.c.item_id == item_id)
