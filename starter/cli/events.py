"""``afterturn events``, ``usage`` and ``reindex``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from starter.cli.operations import user_command
from starter.cli.output import emit_json, one_line, print_table, stderr, write
from starter.cli.state import (
    DEFAULT_TENANT,
    DEFAULT_USER,
    JsonOption,
    State,
    TenantOption,
    UserOption,
    YesOption,
    open_client,
    run,
    scope_of,
    state_of,
)

if TYPE_CHECKING:
    from memory.model.scope import Scope
    from memory.model.window import StoredEvent
    from starter.client import MemoryClient


def register(app: typer.Typer) -> None:
    events = typer.Typer(help="What happened: messages on any channel, calls of managers.", no_args_is_help=True)
    events.command("record")(record)
    events.command("search")(search)
    events.command("sandbox")(sandbox)
    app.add_typer(events, name="events")
    app.command("usage")(usage)
    app.command("reindex")(reindex)


def record(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(help="Events one a line (JSON), a LoCoMo file, events-office (shipped), or - .")],
    sample: Annotated[str | None, typer.Option("--sample", help="Which conversation of a LoCoMo file.")] = None,
    space: Annotated[str, typer.Option("--space", help="The space that the events happened in.")] = "default",
    flush: Annotated[
        bool, typer.Option("--flush", help="Have them consolidated at once, also as a short window; does not wait for it.")
    ] = False,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Record the events of a file. Recording them again changes nothing.

    Events with an id that is there already count as such and change nothing. Dropped are messages without content and calls of the
    memory itself, which never enter a window.
    """
    from starter.event_files import load_events

    stream = load_events(file, sample=sample)

    async def work(state: State) -> None:
        from starter.demo_events import record_all

        scope = scope_of(tenant, user)
        async with open_client(state.settings()) as client:
            counts = await record_all(client, scope, stream.events, space_id=space)
            if flush:
                await client.flush(scope)
        if as_json:
            emit_json(counts)
        else:
            write(
                f"{counts['recorded']} recorded, {counts['duplicates']} were there already, "
                f"{counts['dropped']} dropped (no content, or calls of the memory itself), "
                f"{counts['waiting']} {'are being consolidated' if flush else 'wait for the next window'}\n"
            )
            if flush:
                command = user_command(("window", "status"), tenant, user, state.data_dir)
                stderr().print(f"the windows run on a worker; how far they are says: {command}", markup=False)

    run(work(state_of(ctx)))


def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="Any words, in any language; names and days count.")],
    contacts: Annotated[
        list[str] | None, typer.Option("--contact", help="Only from or to this contact id or sender id; several times.")
    ] = None,
    media: Annotated[list[str] | None, typer.Option("--medium", help="Only on this one (email, chat, …); several times.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", formats=["%Y-%m-%d"], help="From this day on (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option("--until", formats=["%Y-%m-%d"], help="Before this day (UTC).")] = None,
    around: Annotated[int, typer.Option("--around", min=0, max=10, help="So many messages before and after each.")] = 1,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="At most this many.")] = 10,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Find recorded messages, best first, each with what was said around it."""

    async def work(state: State) -> None:
        people = None if contacts is None else [int(one) if one.isdecimal() and len(one) < 7 else one for one in contacts]
        async with open_client(state.settings()) as client:
            for person in people or ():
                if isinstance(person, int):
                    await _contact(client, scope_of(tenant, user), person)
            found = await client.search_events(
                scope_of(tenant, user),
                query,
                contacts=people,
                media=media,
                since=since and since.replace(tzinfo=UTC),
                until=until and until.replace(tzinfo=UTC),
                limit=limit,
                neighbours=around,
            )
        if as_json:
            emit_json([{"score": one.score, "event": one.event, "before": one.before, "after": one.after} for one in found])
            return
        for place, one in enumerate(found):
            if place:
                write("\n")
            for mark, stored in (*((" ", s) for s in one.before), (">", one.event), *((" ", s) for s in one.after)):
                write(f"{mark} {_line(stored)}\n")
        if not found:
            write("no message found\n")

    run(work(state_of(ctx)))


async def _contact(client: MemoryClient, scope: Scope, contact_id: int) -> None:
    from memory.model.contact import SYSTEM_CONTACTS
    from memory.model.errors import InvalidInput

    if contact_id not in SYSTEM_CONTACTS and await client.contacts.get(scope, contact_id) is None:
        raise InvalidInput(f"there is no contact {contact_id} of this user; `afterturn contacts list` shows those there are")


def sandbox(
    ctx: typer.Context,
    tenant: TenantOption = "sandbox",
    user: Annotated[str | None, typer.Option("--user", "-u", help="The user; default: a new one.")] = None,
    space: Annotated[str, typer.Option("--space", help="The space that it happens in.")] = "default",
) -> None:
    """Write as any contact on any medium, watch the window fill, run it, see what was taken and why.

    Needs `afterturn dev` or a worker. All categories of the event window are switched on in this space of the company, unless it
    has settings of its own.
    """

    async def work(state: State) -> None:
        from secrets import token_hex

        from starter.cli.output import stdout
        from starter.cli.state import open_tables
        from starter.sandbox import Sandbox

        scope = scope_of(tenant, user or f"sandbox-{token_hex(4)}")
        settings = state.settings()
        async with open_client(settings) as client, open_tables(settings) as tables:
            await Sandbox(client, tables.directory, scope, space_id=space, console=stdout()).run()

    run(work(state_of(ctx)))


def _line(stored: StoredEvent) -> str:
    from memory.model.event import MessageEvent

    event = stored.event
    moment = f"[{stored.seq}] {event.timestamp.astimezone(UTC):%Y-%m-%d %H:%M}"
    if isinstance(event, MessageEvent):
        return one_line(f"{moment} {event.sender_id} ({event.medium}): {event.content or ''}")
    return one_line(f"{moment} {event.manager}.{event.method} ({event.phase})")


def usage(
    ctx: typer.Context,
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Only this company; default: all.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user; needs --tenant.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", formats=["%Y-%m-%d"], help="From this day on (UTC).")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many rows, newest first.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show the tokens of language models by company, user, day, stage and model."""
    from memory.model.errors import InvalidInput
    from memory.model.ids import decode_segment

    if user is not None and tenant is None:
        raise InvalidInput("a user belongs to a company: add --tenant")

    async def work(state: State) -> None:
        who = None if user is None or tenant is None else (tenant, user)
        day = None if since is None else since.date()
        async with open_client(state.settings()) as client:
            found = await client.usage(who, tenant=tenant if who is None else None, since=day, limit=limit)
        if as_json:
            emit_json({"rows": list(found.rows), "total": found.total, "complete": found.complete})
            return
        print_table(
            ("day", "company", "user", "stage", "model", "calls", "in", "out"),
            [
                (
                    f"{row.day}",
                    decode_segment(row.tenant),
                    decode_segment(row.user),
                    row.stage,
                    row.model,
                    str(row.usage.calls),
                    str(row.usage.input_tokens),
                    str(row.usage.output_tokens),
                )
                for row in found.rows
            ],
            empty=f"no model call{_of_whom(tenant, user)} yet"
            if day is None
            else f"no model call{_of_whom(tenant, user)} since {day}",
        )
        if found.rows:
            more = "" if found.complete else " (of these rows; there are more)"
            write(f"in all {found.total.input_tokens} tokens in, {found.total.output_tokens} out{more}\n")

    run(work(state_of(ctx)))


def _of_whom(tenant: str | None, user: str | None) -> str:
    whose = "" if user is None else f" of the user {ascii(user)[:60]}"
    return whose + ("" if tenant is None else f" of {ascii(tenant)[:60]}")


def reindex(
    ctx: typer.Context,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="Only this: facts, contacts, guidance, functions or events; several times.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build the search index anew from the database, for instance after another embedder was chosen."""
    if not yes:
        typer.confirm("Build the index anew? Until it is done searches find less.", abort=True, err=True)

    async def work(state: State) -> dict[str, int]:
        from memory.model.errors import InvalidInput
        from starter.cli.state import open_tables
        from starter.search import open_search

        settings = state.settings()
        async with open_tables(settings) as tables:
            index = open_search(settings, tables, owner="afterturn reindex")
            try:
                unknown = [kind for kind in kinds or () if kind not in index.kinds]
                if unknown:
                    raise InvalidInput(f"there is no index of {ascii(unknown[0])[:40]}; there are {', '.join(index.kinds)}")
                return await index.reindex(kinds)
            finally:
                await index.aclose()

    counts = run(work(state_of(ctx)))
    if as_json:
        emit_json(counts)
    else:
        write("".join(f"{kind}: {count} indexed\n" for kind, count in counts.items()))
