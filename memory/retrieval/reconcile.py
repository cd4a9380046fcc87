"""Rows against vectors: finding what differs, mending it, saying so. Rows are the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from memory.model.event import MessageEvent
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.ports import PAYLOAD_OWNER, DocumentSource, Hit, IndexDocument, WindowLedger
from memory.retrieval.documents import PAYLOAD_REVISION, Documents, point_id
from memory.retrieval.events import KIND, EventIndex

PAGE: Final = 500


@dataclass
class ReconcileReport:
    """By kind: rows looked at; rows without a point, points without a row, points of an old revision; what was mended."""

    checked: dict[str, int] = field(default_factory=dict[str, int])
    missing: dict[str, int] = field(default_factory=dict[str, int])
    orphaned: dict[str, int] = field(default_factory=dict[str, int])
    stale: dict[str, int] = field(default_factory=dict[str, int])
    repaired: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, what: str, kind: str, count: int = 1) -> None:
        counts: dict[str, int] = getattr(self, what)
        counts[kind] = counts.get(kind, 0) + count

    @property
    def drift(self) -> int:
        return sum(sum(counts.values()) for counts in (self.missing, self.orphaned, self.stale))


async def reconcile_documents(
    documents: Documents, source: DocumentSource, report: ReconcileReport, *, limit: int, repair: bool = True
) -> None:
    """Rows of one kind against their points. What is merely pending is brought in first and is no drift."""
    kind = source.kind
    collection = await documents.ready(kind)
    await documents.sync(source, limit=limit)
    points = await _all_points(documents, collection, limit)
    after: tuple[str, str] | None = None
    seen: set[str] = set()
    rewrite: list[IndexDocument] = []
    while len(seen) < limit:
        rows = await source.documents(after=after, limit=PAGE)
        if not rows:
            break
        after = (rows[-1].owner.path, rows[-1].document_id)
        for row in rows:
            key = point_id(row.owner, kind, row.document_id)
            seen.add(key)
            report.add("checked", kind)
            hit = points.get(key)
            if not (row.live and row.text.strip()):
                if hit is not None:
                    report.add("orphaned", kind)
                    rewrite.append(row)
            elif hit is None:
                report.add("missing", kind)
                rewrite.append(row)
            elif hit.payload.get(PAYLOAD_REVISION) != row.revision or hit.payload.get(PAYLOAD_OWNER) != row.owner.path:
                report.add("stale", kind)
                rewrite.append(row)
    orphans = [key for key in points if key not in seen]
    report.add("orphaned", kind, len(orphans))
    if repair:
        for start in range(0, len(rewrite), PAGE):
            await documents.write(kind, rewrite[start : start + PAGE])
        if orphans:
            await documents.index.delete(collection, orphans)
        report.add("repaired", kind, len(rewrite) + len(orphans))


async def _all_points(documents: Documents, collection: str, limit: int) -> dict[str, Hit]:
    points: dict[str, Hit] = {}
    after: str | None = None
    while len(points) < limit:
        page = await documents.index.scroll(collection, after=after, limit=PAGE)
        if not page:
            break
        points.update({hit.point_id: hit for hit in page})
        after = page[-1].point_id
    return points


async def reconcile_events(
    documents: Documents, ledger: WindowLedger, events: EventIndex, report: ReconcileReport, *, limit: int, repair: bool = True
) -> None:
    """Messages that count as indexed against their points, user by user."""
    collection = await events.ready()
    after: Scope | None = None
    users: set[str] = set()
    checked = 0
    while checked < limit:
        some = await ledger.indexed_users(after=after, limit=PAGE)
        if not some:
            break
        after = some[-1]
        for scope in some:
            users.add(Owner.user(scope).path)
            checked += await _reconcile_user(documents, ledger, events, collection, scope, report, repair)
    foreign = [
        hit.point_id
        for hit in (await _all_points(documents, collection, limit)).values()
        if hit.payload.get(PAYLOAD_OWNER) not in users
    ]
    if foreign and checked < limit:
        report.add("orphaned", KIND, len(foreign))
        if repair:
            await documents.index.delete(collection, foreign)
            report.add("repaired", KIND, len(foreign))


async def _reconcile_user(
    documents: Documents,
    ledger: WindowLedger,
    events: EventIndex,
    collection: str,
    scope: Scope,
    report: ReconcileReport,
    repair: bool,
) -> int:
    progress = await ledger.progress(scope)
    wanted: set[int] = set()
    for first in range(1, progress.indexed_seq + 1, PAGE):
        stored = await ledger.events(scope, first, min(first + PAGE - 1, progress.indexed_seq))
        wanted |= {one.seq for one in stored if isinstance(one.event, MessageEvent) and not one.event.is_empty}
    there = await _seqs(documents, collection, Owner.user(scope).path)
    missing, orphaned = sorted(wanted - there.keys()), sorted(there.keys() - wanted)
    report.add("checked", KIND, len(wanted))
    report.add("missing", KIND, len(missing))
    # What was recorded since is no orphan: a search may have indexed it meanwhile.
    gone = [seq for seq in orphaned if seq <= progress.indexed_seq]
    report.add("orphaned", KIND, len(gone))
    if repair:
        if missing:
            await events.rewrite(scope, missing)
        await events.remove(scope, gone)
        report.add("repaired", KIND, len(missing) + len(gone))
    return max(1, len(wanted))


async def _seqs(documents: Documents, collection: str, owner: str) -> dict[int, Hit]:
    found: dict[int, Hit] = {}
    after: str | None = None
    while page := await documents.index.scroll(collection, owner=owner, after=after, limit=PAGE):
        found.update({int(hit.payload["seq"]): hit for hit in page if "seq" in hit.payload})
        after = page[-1].point_id
    return found


async def reindex(
    documents: Documents,
    ledger: WindowLedger,
    events: EventIndex,
    sources: Sequence[DocumentSource],
    *,
    kinds: Sequence[str] | None = None,
) -> dict[str, int]:
    """Build the index anew from the rows, with the embedder of now: after a change of it, or when the vectors were lost.

    Collections are dropped and made again, everything is pending, and then brought in. What a search does not find yet meanwhile,
    it ranks from the rows. Cut short, it goes on with what is still pending (a run, the sweeper, or this again).

    Returns:
        Rows and events by kind.
    """
    done: dict[str, int] = {}
    for source in sources:
        if kinds is None or source.kind in kinds:
            await documents.index.recreate(documents.spec(source.kind))
            await source.reset_index()
            total = 0
            while count := await documents.sync(source):
                total += count
            done[source.kind] = total
    if kinds is None or KIND in kinds:
        await documents.index.recreate(events.spec())
        await ledger.reset_index()
        done[KIND] = 0
        after: Scope | None = None
        while some := await ledger.users(after=after, limit=PAGE):
            after = some[-1]
            for scope in some:
                done[KIND] += await events.index(scope, limit=1_000_000)
                await events.embed(scope, limit=1_000_000)
    return done
