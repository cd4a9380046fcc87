"""Rows against vectors: what is missing, what has no row any more, what is of an old revision; and mending it.

One owner at a time, so that a look at a part of the rows never takes the rest for missing. A run looks at a bounded number of rows
and the next one goes on where it ended. What differs is read again before it is touched: rows and vectors change while one looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from memory.model.event import MessageEvent
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.ports import PAYLOAD_OWNER, DocumentSource, Hit, IndexDocument, WindowLedger
from memory.retrieval.documents import BATCH, PAYLOAD_EMBEDDED, PAYLOAD_REVISION, Documents, point_id
from memory.retrieval.events import KIND, EventIndex
from memory.retrieval.messages import EMBEDDED

PAGE: Final = 500
_BEFORE_ALL: Final = "-1"
"""A document id that is smaller than any."""

Place = tuple[str, str]
"""(owner path, document id), in the order in which rows are listed."""


@dataclass
class ReconcileReport:
    """By kind: rows looked at; rows without a point, points without a row, points of an old revision; what was mended."""

    checked: dict[str, int] = field(default_factory=dict[str, int])
    missing: dict[str, int] = field(default_factory=dict[str, int])
    orphaned: dict[str, int] = field(default_factory=dict[str, int])
    stale: dict[str, int] = field(default_factory=dict[str, int])
    repaired: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, what: str, kind: str, count: int) -> None:
        counts: dict[str, int] = getattr(self, what)
        counts[kind] = counts.get(kind, 0) + count

    @property
    def drift(self) -> int:
        return sum(sum(counts.values()) for counts in (self.missing, self.orphaned, self.stale))


@dataclass
class Cursor:
    """Where the last pass ended, of one kind. None: begin at the first."""

    row: Place | None = None
    point: str | None = None
    user: Scope | None = None


# --------------------------------------------------------------------------------------------------------------- documents


async def reconcile_documents(
    documents: Documents,
    source: DocumentSource,
    report: ReconcileReport,
    cursor: Cursor,
    *,
    limit: int,
    repair: bool = True,
) -> None:
    """Rows of one kind against their points, about ``limit`` of them. What is pending is brought in first and is no drift.

    Raises StoreUnavailable, or what the embedder raises; what was mended stays so.
    """
    kind = source.kind
    await documents.ready(kind)
    if repair:
        await documents.sync(source, limit=limit)
    for counts in ("checked", "missing", "orphaned", "stale", *(("repaired",) if repair else ())):
        report.add(counts, kind, 0)
    looked_at = 0
    while looked_at < limit:
        rows = await _rows_of_next_owner(source, cursor.row)
        if not rows:
            cursor.row = None
            break
        await _compare_owner(documents, source, rows, cursor.row, report, repair)
        looked_at += len(rows)
        cursor.row = _place(rows[-1])
    await _remove_ownerless(documents, source, report, cursor, limit=limit, repair=repair)


async def _rows_of_next_owner(source: DocumentSource, after: Place | None) -> list[IndexDocument]:
    """All rows of the first owner beyond ``after``, or the rest of the owner's there."""
    rows: list[IndexDocument] = []
    while True:
        page = await source.documents(after=_place(rows[-1]) if rows else after, limit=PAGE)
        owner = rows[0].owner if rows else page[0].owner if page else None
        mine = [row for row in page if row.owner == owner]
        rows += mine
        if len(mine) < PAGE:
            return rows


async def _compare_owner(
    documents: Documents,
    source: DocumentSource,
    rows: Sequence[IndexDocument],
    after: Place | None,
    report: ReconcileReport,
    repair: bool,
) -> None:
    kind, owner = source.kind, rows[0].owner
    report.add("checked", kind, len(rows))
    points = await _points(documents, kind, owner.path)
    suspects = _differing(documents, kind, rows, points)
    if not suspects:
        return
    # The points were read after the rows. What differs still, with rows that are younger than the points, is drift.
    rows = await _rows_of_next_owner(source, after)
    rows = rows if rows and rows[0].owner == owner else []
    wrong = {key: why for key, why in _differing(documents, kind, rows, points).items() if key in suspects}
    for why in ("missing", "orphaned", "stale"):
        report.add(why, kind, sum(one == why for one in wrong.values()))
    if repair and wrong:
        known = {point_id(owner, kind, row.document_id): row for row in rows}
        due = [row for key, row in known.items() if key in wrong]
        for start in range(0, len(due), BATCH):
            # Embedding thousands takes minutes. An owner who was deleted meanwhile gets no points again.
            if not await _has_rows(source, owner.path):
                return
            await documents.write(kind, due[start : start + BATCH])
        gone = [key for key in wrong if key not in known]
        if gone:
            await documents.index.delete(documents.spec(kind).name, gone)
        report.add("repaired", kind, len(wrong))


def _differing(documents: Documents, kind: str, rows: Sequence[IndexDocument], points: dict[str, Hit]) -> dict[str, str]:
    """Point id → ``missing``, ``orphaned`` or ``stale``."""
    wrong: dict[str, str] = {}
    seen: set[str] = set()
    for row in rows:
        key = point_id(row.owner, kind, row.document_id)
        seen.add(key)
        hit = points.get(key)
        if not (row.live and row.text.strip()):
            if hit is not None:
                wrong[key] = "orphaned"
        elif hit is None:
            wrong[key] = "missing"
        elif hit.payload.get(PAYLOAD_REVISION) != row.revision or _lacks_meaning(documents, hit, PAYLOAD_EMBEDDED):
            wrong[key] = "stale"
    return wrong | {key: "orphaned" for key in points if key not in seen}


def _lacks_meaning(documents: Documents, hit: Hit, name: str) -> bool:
    """Whether it was written while the embedder was away."""
    return documents.embedder is not None and not hit.payload.get(name)


async def _points(documents: Documents, kind: str, owner: str) -> dict[str, Hit]:
    collection, found, after = documents.spec(kind).name, dict[str, Hit](), None
    while page := await documents.index.scroll(collection, owner=owner, after=after, limit=PAGE):
        found.update({hit.point_id: hit for hit in page})
        after = page[-1].point_id
    return found


async def _remove_ownerless(
    documents: Documents, source: DocumentSource, report: ReconcileReport, cursor: Cursor, *, limit: int, repair: bool
) -> None:
    """Points of owners that have no row at all: the walk over the rows never comes to them."""
    kind, known = source.kind, dict[str, bool]()
    looked_at = 0
    while looked_at < limit:
        page = await documents.index.scroll(documents.spec(kind).name, after=cursor.point, limit=PAGE)
        if not page:
            cursor.point = None
            return
        cursor.point = page[-1].point_id
        looked_at += len(page)
        orphans: list[str] = []
        for hit in page:
            path = str(hit.payload.get(PAYLOAD_OWNER, ""))
            if path not in known:
                known[path] = await _has_rows(source, path)
            if not known[path]:
                orphans.append(hit.point_id)
        report.add("orphaned", kind, len(orphans))
        if repair and orphans:
            await documents.index.delete(documents.spec(kind).name, orphans)
            report.add("repaired", kind, len(orphans))


async def _has_rows(source: DocumentSource, path: str) -> bool:
    first = await source.documents(after=(path, _BEFORE_ALL), limit=1)
    return bool(first) and first[0].owner.path == path


def _place(row: IndexDocument) -> Place:
    return row.owner.path, row.document_id


# ------------------------------------------------------------------------------------------------------------------ events


async def reconcile_events(
    documents: Documents,
    ledger: WindowLedger,
    events: EventIndex,
    report: ReconcileReport,
    cursor: Cursor,
    *,
    limit: int,
    repair: bool = True,
) -> None:
    """Messages that count as indexed against their points, user by user, about ``limit`` of them.

    Raises StoreUnavailable, or what the embedder raises; what was mended stays so.
    """
    await events.ready()
    for counts in ("checked", "missing", "orphaned", "stale", *(("repaired",) if repair else ())):
        report.add(counts, KIND, 0)
    looked_at = 0
    while looked_at < limit:
        users = await ledger.indexed_users(after=cursor.user, limit=1)
        if not users:
            cursor.user = None
            break
        cursor.user = users[0]
        looked_at += await _compare_user(documents, ledger, events, users[0], report, repair)
    await _remove_userless(documents, ledger, events, report, cursor, limit=limit, repair=repair)


async def _compare_user(
    documents: Documents, ledger: WindowLedger, events: EventIndex, scope: Scope, report: ReconcileReport, repair: bool
) -> int:
    progress = await ledger.progress(scope)
    there = {
        int(hit.payload["seq"]): hit
        for hit in (await _points(documents, KIND, Owner.user(scope).path)).values()
        if "seq" in hit.payload
    }
    # The log is read after the points. What was recorded since is no orphan: only numbers that count as indexed are compared.
    wanted: set[int] = set()
    for first in range(1, progress.indexed_seq + 1, PAGE):
        stored = await ledger.events(scope, first, min(first + PAGE - 1, progress.indexed_seq))
        wanted |= {one.seq for one in stored if isinstance(one.event, MessageEvent) and not one.event.is_empty}
    missing = sorted(wanted - there.keys())
    orphaned = sorted(seq for seq in there.keys() - wanted if seq <= progress.indexed_seq)
    stale = sorted(
        seq for seq in wanted & there.keys() if seq <= progress.embedded_seq and _lacks_meaning(documents, there[seq], EMBEDDED)
    )
    for what, seqs in (("checked", wanted), ("missing", missing), ("orphaned", orphaned), ("stale", stale)):
        report.add(what, KIND, len(seqs))
    if repair:
        if missing or stale:
            await events.rewrite(scope, sorted({*missing, *stale}))
        await events.remove(scope, orphaned)
        report.add("repaired", KIND, len(missing) + len(orphaned) + len(stale))
    return max(1, len(wanted))


async def _remove_userless(
    documents: Documents,
    ledger: WindowLedger,
    events: EventIndex,
    report: ReconcileReport,
    cursor: Cursor,
    *,
    limit: int,
    repair: bool,
) -> None:
    """Points of users whose log is gone."""
    collection, known, looked_at = events.spec().name, dict[str, bool](), 0
    while looked_at < limit:
        page = await documents.index.scroll(collection, after=cursor.point, limit=PAGE)
        if not page:
            cursor.point = None
            return
        cursor.point = page[-1].point_id
        looked_at += len(page)
        orphans: list[str] = []
        for hit in page:
            path = str(hit.payload.get(PAYLOAD_OWNER, ""))
            if path not in known:
                tenant, _, user = path.partition("/u/")
                known[path] = bool(user) and (await ledger.progress(Scope(tenant, user))).last_seq > 0
            if not known[path]:
                orphans.append(hit.point_id)
        report.add("orphaned", KIND, len(orphans))
        if repair and orphans:
            await documents.index.delete(collection, orphans)
            report.add("repaired", KIND, len(orphans))
