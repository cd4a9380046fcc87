"""Building the index anew from the rows: after a change of the embedder, or when the vectors were lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from memory.model.errors import InvalidInput
from memory.model.scope import Scope
from memory.ports import DocumentSource, WindowLedger
from memory.retrieval.documents import Documents
from memory.retrieval.events import KIND, EventIndex
from memory.retrieval.tables import KIND as TABLES
from memory.retrieval.tables import TableVectors

PAGE: Final = 500
_ALL: Final = 1_000_000_000

Progress = Callable[[str, int], None]
"""Called with a kind and how many rows or events of it are done."""


async def reindex(
    documents: Documents,
    ledger: WindowLedger,
    events: EventIndex,
    sources: Sequence[DocumentSource],
    tables: TableVectors | None = None,
    *,
    kinds: Sequence[str] | None = None,
    embed_events: bool = True,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Collections are dropped and made again, everything is pending, and then brought in, messages by their words first.

    Rows and messages that a search does not find yet meanwhile it compares in memory, as far as that is bounded. Cut short, it
    goes on with what is still pending, by whoever comes first: a run, the sweeper, or this again.

    Args:
        kinds: ``facts``, ``contacts``, ``guidance``, ``functions``, ``events``, ``knowledge``; None: all. Rows of tables are
            embedded anew by the searches that need them.
        embed_events: give messages dense vectors too.

    Returns:
        Rows and events by kind.

    Raises:
        InvalidInput: an unknown kind.
        StoreUnavailable: the database or the vectors are away.
    """
    known = (*(source.kind for source in sources), KIND, *((TABLES,) if tables else ()))
    unknown = sorted(set(kinds or ()) - set(known))
    if unknown:
        raise InvalidInput(f"there is no index of {unknown[0][:40]}; there are {', '.join(known)}")
    done: dict[str, int] = {}

    def note(kind: str, count: int) -> None:
        done[kind] = done.get(kind, 0) + count
        if progress is not None:
            progress(kind, done[kind])

    for source in sources:
        if kinds is None or source.kind in kinds:
            note(source.kind, 0)
            # Reset before as well: a crash in between leaves nothing that counts as indexed and is not.
            await source.reset_index()
            await documents.index.recreate(documents.spec(source.kind))
            await source.reset_index()
            while count := await documents.sync(source, limit=PAGE):
                note(source.kind, count)
    if tables is not None and (kinds is None or TABLES in kinds):
        note(TABLES, await tables.recreate())
    if kinds is None or KIND in kinds:
        note(KIND, 0)
        await ledger.reset_index()
        await documents.index.recreate(events.spec())
        await ledger.reset_index()
        for step in (events.index, *((events.embed,) if embed_events else ())):
            after: Scope | None = None
            while users := await ledger.users(after=after, limit=PAGE):
                after = users[-1]
                for scope in users:
                    count = await step(scope, limit=_ALL)
                    note(KIND, count if step == events.index else 0)
    return done
