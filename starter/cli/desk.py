"""What the commands on records and windows work with: the database, the search index, and Temporal only where it is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.state import State, open_tables

if TYPE_CHECKING:
    from temporalio.client import Client

    from memory.retrieval import SearchIndex
    from memory.settings import Settings
    from memory.stores.tables import Tables
    from starter.records import Records
    from starter.windows import Windows

LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, newest first.")]
BestOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="At most this many, best first.")]
AfterOption = Annotated[str | None, typer.Option("--after", help="Go on after this id, the last one of the page before.")]
AsOfOption = Annotated[str | None, typer.Option("--as-of", help="What held at that time, ISO 8601; UTC where no zone is given.")]


@dataclass(frozen=True)
class Desk:
    """Open for one command."""

    settings: Settings
    tables: Tables
    index: SearchIndex
    records: Records
    windows: Windows


@asynccontextmanager
async def open_desk(state: State) -> AsyncGenerator[Desk]:
    """Raises StoreUnavailable, or InvalidSettings where the database is not at the schema of this code.

    The vectors are those of a running ``afterturn dev`` or of a server; without either this process opens the engine of the data
    folder for as long as the command takes.
    """
    from starter.loops import Loops
    from starter.records import Records
    from starter.search import open_search, stores_of
    from starter.temporal import connect
    from starter.window_signals import WindowWaker
    from starter.windows import Windows

    settings = state.settings()

    async def temporal() -> Client:
        return await connect(settings)

    async with open_tables(settings) as tables:
        await tables.log.ping()
        index = open_search(settings, tables, owner="afterturn (a command)")
        waker = WindowWaker(temporal)
        try:
            stores = stores_of(tables, index)
            loops = Loops(settings, store=tables.loops, directory=tables.directory, temporal=temporal)
            records = Records(directory=tables.directory, stores=stores, index=index, usage=tables.usage, loops=loops)
            windows = Windows(
                settings, ledger=tables.windows, contacts=tables.contacts, loops=tables.loops, waker=waker, temporal=temporal
            )
            yield Desk(settings, tables, index, records, windows)
        finally:
            await waker.aclose()
            await index.aclose()


def moment_of(text: str | None, option: str) -> datetime | None:
    """A time that a person typed. Raises InvalidInput."""
    from memory.model.errors import InvalidInput

    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{option} is not a date or time of ISO 8601, such as 2026-06-17 or 2026-06-17T12:00:00+02:00") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def fields_of(pairs: Sequence[str]) -> dict[str, str | None]:
    """``name=value`` as a mapping; an empty value is None. Raises InvalidInput."""
    from memory.model.errors import InvalidInput

    fields: dict[str, str | None] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{ascii(pair)[:60]} is not of the form name=value")
        fields[name] = value or None
    return fields


def day(moment: datetime | None) -> str:
    """A date as people read it."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d}"


def minute(moment: datetime | None) -> str:
    """A time as people read it: UTC, minutes."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
