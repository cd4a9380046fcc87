"""Where items come from, and which effects were applied: written together with the item, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from memory.model.fact import Source
from memory.model.ids import short_hash
from memory.model.transcript import clean_text
from memory.stores.tables.columns import escape_id
from memory.stores.tables.rows_records import EFFECTS, PROVENANCE
from memory.stores.tables.scoping import Rows


def add_sources(connection: Connection, rows: Rows, kind: str, item_id: str, sources: Sequence[Source], *, now: datetime) -> int:
    """Returns how many were new: one of the same event and quote is there once."""
    return rows.insert_new(
        connection,
        PROVENANCE,
        [
            {
                "item_kind": kind,
                "item_id": item_id,
                "source_key": short_hash(source.event_id or "", str(source.seq), source.quote, _manual(source)),
                "event_id": source.event_id,
                "seq": source.seq,
                "quote": clean_text(source.quote),
                "said_at": source.said_at,
                "origin": escape_id(source.origin),
                "added_at": now,
            }
            for source in sources
        ],
    )


def _manual(source: Source) -> str:
    return "" if source.event_id is not None or source.seq is not None else source.origin


def read_sources(connection: Connection, rows: Rows, kind: str, item_ids: Collection[str]) -> dict[str, tuple[Source, ...]]:
    """By item, oldest first."""
    if not item_ids:
        return {}
    statement = (
        rows.select(PROVENANCE)
        .where(PROVENANCE.c.item_kind == kind, PROVENANCE.c.item_id.in_(sorted(item_ids)))
        .order_by(PROVENANCE.c.added_at, PROVENANCE.c.seq, PROVENANCE.c.source_key)
    )
    found: dict[str, list[Source]] = {}
    for row in connection.execute(statement).mappings():
        found.setdefault(row["item_id"], []).append(
            Source.model_construct(
                event_id=row["event_id"], seq=row["seq"], quote=row["quote"], said_at=row["said_at"], origin=row["origin"]
            )
        )
    return {item_id: tuple(sources) for item_id, sources in found.items()}


def drop_sources(connection: Connection, rows: Rows, kind: str, item_ids: Collection[str]) -> None:
    connection.execute(rows.delete(PROVENANCE).where(PROVENANCE.c.item_kind == kind, PROVENANCE.c.item_id.in_(sorted(item_ids))))


def applied_effects(connection: Connection, rows: Rows, effects: Collection[str]) -> Mapping[str, dict[str, Any]]:
    """What these effects did, for those that were applied before."""
    statement = rows.select(EFFECTS, EFFECTS.c.effect, EFFECTS.c.result).where(EFFECTS.c.effect.in_(sorted(effects)))
    return {row.effect: row.result for row in connection.execute(statement)}


def note_effect(connection: Connection, rows: Rows, effect: str, result: Mapping[str, Any], *, now: datetime) -> None:
    rows.insert(connection, EFFECTS, [{"effect": effect, "result": dict(result), "at": now}])
