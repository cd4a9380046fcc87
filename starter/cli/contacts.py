"""Contacts on the command line: ``contacts list|show|search|update|merge|forget|ask|tell``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.desk import BestOption, fields_of, minute, open_desk
from starter.cli.operations import operation
from starter.cli.output import emit_json, print_table, safe_text, write
from starter.cli.state import DEFAULT_TENANT, DEFAULT_USER, JsonOption, State, TenantOption, UserOption, YesOption, run, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.model.contact import Contact, ContactChange

ContactArgument = Annotated[str, typer.Argument(help="Its id, or an address, number or sender id of it.")]
_FIELDS = (
    "first_name",
    "surname",
    "email_address",
    "phone_number",
    "whatsapp_number",
    "timezone",
    "job_title",
    "bio",
    "rolling_summary",
    "response_policy",
    "should_respond",
)


def register(app: typer.Typer) -> None:
    contacts = typer.Typer(help="People and organisations that a user deals with.", no_args_is_help=True)
    contacts.command("list")(contacts_list)
    contacts.command("show")(contacts_show)
    contacts.command("search")(contacts_search)
    contacts.command("update")(contacts_update)
    contacts.command("merge")(contacts_merge)
    contacts.command("forget")(contacts_forget)
    contacts.command("ask")(operation("ask", "Have a question about contacts answered. Nothing is changed.", manager="contacts"))
    contacts.command("tell")(operation("update", "Have the contacts say what TEXT says.", manager="contacts"))
    app.add_typer(contacts, name="contacts")


# ---------------------------------------------------------------------------------------------------------------- contacts


def contacts_list(
    ctx: typer.Context,
    where: Annotated[
        list[str] | None,
        typer.Argument(help="name=value …: only with these values; an empty value: not known.", metavar="NAME=VALUE"),
    ] = None,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    after: Annotated[int | None, typer.Option("--after", help="Go on after this id, the last one of the page before.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, by id.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List contacts: afterturn contacts list surname=Lovelace."""
    run(_list(state_of(ctx), (tenant, user), _values(where or []), after, limit, as_json=as_json))


async def _list(state: State, who: tuple[str, str], where: dict[str, Any], after: int | None, limit: int, *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        found = await desk.records.contacts.filter(who, limit=limit, after=after, **where)
    if as_json:
        emit_json(found)
    else:
        _print_contacts(found, empty="no contact")


def _values(pairs: list[str]) -> dict[str, Any]:
    """Fields of contacts as they are typed."""
    from memory.model.errors import InvalidInput

    values: dict[str, Any] = dict(fields_of(pairs))
    if str(values.get("contact_id") or "").isdecimal():
        values["contact_id"] = int(values["contact_id"])
    for name in ("should_respond", "is_system"):
        if name in values:
            if values[name] not in ("true", "false"):
                raise InvalidInput(f"{name} is true or false")
            values[name] = values[name] == "true"
    if "limit" in values or "after" in values or "request_id" in values:
        raise InvalidInput("a contact has no such field; see the options of this command")
    return values


def _print_contacts(contacts: Sequence[Contact], *, empty: str) -> None:
    print_table(
        ("id", "name", "job title", "email", "phone", "whatsapp", "about"),
        [
            (
                str(contact.contact_id),
                contact.name or {0: "(assistant)", 1: "(user)"}.get(contact.contact_id, ""),
                contact.job_title or "",
                contact.email_address or "",
                contact.phone_number or "",
                contact.whatsapp_number or "",
                shortened(contact.bio or contact.rolling_summary or ""),
            )
            for contact in contacts
        ],
        empty=empty,
    )


def shortened(text: str, most: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def contacts_show(
    ctx: typer.Context,
    contact: ContactArgument,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show a contact with the history of its fields and the quotes that it comes from."""
    run(_show(state_of(ctx), (tenant, user), contact, as_json=as_json))


async def _show(state: State, who: tuple[str, str], name: str, *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        contact = await found_contact(desk.records.contacts, who, name)
        history = await desk.records.contacts.history(who, contact.contact_id)
        sources = await desk.records.contacts.sources(who, contact.contact_id)
    if as_json:
        emit_json({"contact": contact, "history": history, "sources": sources})
        return
    _print_contact(contact, history)
    for source in sources:
        if source.quote:
            write(safe_text(f"said ({minute(source.said_at) or 'time not known'}): {shortened(source.quote, 200)}\n"))


async def found_contact(contacts: Any, who: tuple[str, str], name: int | str) -> Contact:
    from memory.model.errors import InvalidInput

    found: Contact | None = await contacts.get(who, name)
    if found is None:
        raise InvalidInput(f"there is no contact {ascii(name)[:80]} of this user; `afterturn contacts list` shows those there are")
    return found


def _print_contact(contact: Contact, history: Sequence[ContactChange]) -> None:
    write(f"{'contact:':<17} {contact.contact_id}\n")
    for name in _FIELDS:
        value = getattr(contact, name)
        if value is not None:
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            write(safe_text(f"{name.replace('_', ' ') + ':':<17} {shown}\n"))
    if contact.aliases:
        write(safe_text(f"{'writes as:':<17} {', '.join(contact.aliases)}\n"))
    if not history:
        return
    write("\n")
    print_table(
        ("changed (UTC)", "field", "before", "after", "origin"),
        [(minute(one.at), one.field, shortened(one.before or ""), shortened(one.after or ""), one.origin) for one in history],
        empty="",
    )


def contacts_search(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(help="A name, an address, or a description.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    limit: BestOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Find contacts by meaning and words; an exact address or number comes first."""
    run(_search(state_of(ctx), (tenant, user), text, limit, as_json=as_json))


async def _search(state: State, who: tuple[str, str], text: str, limit: int, *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        found = await desk.records.contacts.search(who, text, limit=limit)
    if as_json:
        emit_json([{"contact": one.contact, "score": round(one.score, 4)} for one in found])
    else:
        _print_contacts([one.contact for one in found], empty="no contact fits")


def contacts_update(
    ctx: typer.Context,
    contact: ContactArgument,
    values: Annotated[list[str], typer.Argument(help="name=value …; an empty value removes it.", metavar="NAME=VALUE...")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Change a contact: afterturn contacts update 7 job_title=architect timezone=Europe/Berlin."""
    run(_update(state_of(ctx), (tenant, user), contact, _values(values), as_json=as_json))


async def _update(state: State, who: tuple[str, str], name: str, values: dict[str, Any], *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        found = await found_contact(desk.records.contacts, who, name)
        changed = await desk.records.contacts.update(who, found.contact_id, **values)
    if as_json:
        emit_json(changed)
    else:
        _print_contact(changed, ())


def contacts_merge(
    ctx: typer.Context,
    keep: Annotated[str, typer.Argument(help="The contact that stays: its id, address, number or sender id.")],
    drop: Annotated[str, typer.Argument(help="The contact that becomes part of it.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make two contacts one: empty fields are filled, sender ids, tasks and both histories stay. It cannot be undone."""
    if not yes:
        typer.confirm(f"Merge {drop} into {keep} for good?", abort=True, err=True)
    run(_merge(state_of(ctx), (tenant, user), keep, drop, as_json=as_json))


async def _merge(state: State, who: tuple[str, str], keep: str, drop: str, *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        kept, dropped = [await found_contact(desk.records.contacts, who, name) for name in (keep, drop)]
        merged = await desk.records.contacts.merge(who, kept.contact_id, dropped.contact_id)
    if as_json:
        emit_json(merged)
        return
    write(f"contact {dropped.contact_id} is now part of contact {merged.contact_id}\n")
    _print_contact(merged, ())


def contacts_forget(
    ctx: typer.Context,
    contacts: Annotated[list[str], typer.Argument(help="Ids, addresses, numbers or sender ids.", metavar="CONTACT...")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove contacts for good, with their texts, history and sources; tasks lose the link. It cannot be undone."""
    if not yes:
        typer.confirm(f"Forget {', '.join(contacts)} for good?", abort=True, err=True)
    run(_forget(state_of(ctx), (tenant, user), contacts, as_json=as_json))


async def _forget(state: State, who: tuple[str, str], names: list[str], *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        ids = list(dict.fromkeys([(await found_contact(desk.records.contacts, who, name)).contact_id for name in names]))
        gone = await desk.records.contacts.forget(who, ids)
    emit_json({"asked": len(ids), "removed": gone}) if as_json else write(f"{gone} of {len(ids)} contacts removed\n")
