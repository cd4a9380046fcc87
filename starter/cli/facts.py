"""Facts on the command line: ``facts search|list|show|history|forget``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.desk import AfterOption, AsOfOption, BestOption, LimitOption, day, minute, moment_of, open_desk
from starter.cli.output import emit_json, print_table, safe_text, stderr, write
from starter.cli.state import DEFAULT_TENANT, DEFAULT_USER, JsonOption, State, TenantOption, UserOption, YesOption, run, state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory.model.fact import Fact

KindOption = Annotated[
    list[str] | None, typer.Option("--kind", help="Only of this kind: fact, policy, definition, decision, …; may be repeated.")
]


def register(app: typer.Typer) -> None:
    facts = typer.Typer(help="What is known: facts with their sources and history.", no_args_is_help=True)
    facts.command("search")(facts_search)
    facts.command("list")(facts_list)
    facts.command("show")(facts_show)
    facts.command("history")(facts_history)
    facts.command("forget")(facts_forget)
    app.add_typer(facts, name="facts")


# ------------------------------------------------------------------------------------------------------------------- search


def facts_search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="Any text, any language.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    kind: KindOption = None,
    as_of: AsOfOption = None,
    sources: Annotated[bool, typer.Option("--sources", help="With the quotes that they rest on.")] = False,
    limit: BestOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Find facts by meaning and words; active ones, or those that held at a time."""
    wanted = {"kinds": kind, "as_of": moment_of(as_of, "--as-of"), "sources": sources, "limit": limit}
    run(_search(state_of(ctx), (tenant, user), query, wanted, as_json=as_json))


async def _search(state: State, who: tuple[str, str], query: str, wanted: dict[str, Any], *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        found = await desk.records.facts.search(who, query, **wanted)
    if as_json:
        emit_json([{"fact": one.fact, "score": round(one.score, 4), "why": one.why} for one in found])
        return
    print_table(
        ("score", "fact", "statement", "kind", "observed", "valid until"),
        [(f"{one.score:.2f}", *_cells(one.fact)) for one in found],
        empty="no fact fits",
        whole=("fact",),
    )
    if wanted["sources"]:
        for one in found:
            _print_sources(one.fact)


def _cells(fact: Fact) -> tuple[str, ...]:
    return (fact.fact_id, fact.statement, fact.kind.value, day(fact.observed_at), day(fact.valid_until))


# --------------------------------------------------------------------------------------------------------------------- list


def facts_list(
    ctx: typer.Context,
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="active (default), superseded, invalidated; may be repeated.")
    ] = None,
    kind: KindOption = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only about this subject.")] = None,
    as_of: AsOfOption = None,
    after: AfterOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List facts."""
    wanted = {"kinds": kind, "subject": subject, "as_of": moment_of(as_of, "--as-of"), "after": after, "limit": limit}
    if status:
        wanted["statuses"] = status
    run(_list(state_of(ctx), (tenant, user), wanted, as_json=as_json))


async def _list(state: State, who: tuple[str, str], wanted: dict[str, Any], *, as_json: bool) -> None:
    async with open_desk(state) as desk:
        found = await desk.records.facts.list(who, sources=as_json, **wanted)
    if as_json:
        emit_json(found)
    else:
        _print_facts(found, empty="no fact")


def _print_facts(facts: Sequence[Fact], *, empty: str) -> None:
    print_table(
        ("fact", "statement", "kind", "observed", "valid until", "status"),
        [(*_cells(fact), fact.status.value) for fact in facts],
        empty=empty,
        whole=("fact",),
    )


# ------------------------------------------------------------------------------------------------------------ show, history


def facts_show(
    ctx: typer.Context,
    fact_id: Annotated[str, typer.Argument(help="The fact's id.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show a fact with the messages that it comes from."""
    run(_show(state_of(ctx), (tenant, user), fact_id, as_json=as_json))


async def _show(state: State, who: tuple[str, str], fact_id: str, *, as_json: bool) -> None:
    chain = await _chain(state, who, fact_id)
    fact = next(one for one in chain if one.fact_id == fact_id)
    if as_json:
        emit_json(fact)
        return
    lines = [
        ("fact", fact.fact_id),
        ("statement", fact.statement),
        ("subject", fact.subject),
        ("kind", fact.kind.value),
        ("topics", ", ".join(fact.topics)),
        ("confidence", f"{fact.confidence:g}"),
        ("owner", fact.owner),
        ("observed", minute(fact.observed_at)),
        ("valid from", minute(fact.valid_from)),
        ("valid until", minute(fact.valid_until)),
        ("status", fact.status.value + (f" by {fact.superseded_by}" if fact.superseded_by else "")),
        ("ended", minute(fact.ended_at)),
    ]
    for name, value in lines:
        if value:
            write(f"{name + ':':<13} {safe_text(value)}\n")
    _print_sources(fact)
    if len(chain) > 1:
        write(f"{len(chain) - 1} more in its history: afterturn facts history {fact_id}\n")


def _print_sources(fact: Fact) -> None:
    write(f"sources of {fact.fact_id}:\n")
    for source in fact.sources:
        where = f"event {source.event_id}" if source.event_id else "manual"
        said = f", {minute(source.said_at)}" if source.said_at else ""
        quote = f": “{' '.join(source.quote.split())}”" if source.quote else ""
        write(safe_text(f"- {where} ({source.origin}{said}){quote}\n"))


def facts_history(
    ctx: typer.Context,
    fact_id: Annotated[str, typer.Argument(help="The id of any fact of the chain.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    as_json: JsonOption = False,
) -> None:
    """Show what took the place of what, oldest first."""
    run(_history(state_of(ctx), (tenant, user), fact_id, as_json=as_json))


async def _history(state: State, who: tuple[str, str], fact_id: str, *, as_json: bool) -> None:
    chain = await _chain(state, who, fact_id)
    if as_json:
        emit_json(chain)
        return
    _print_facts(chain, empty="")
    for fact in chain:
        _print_sources(fact)


async def _chain(state: State, who: tuple[str, str], fact_id: str) -> tuple[Fact, ...]:
    from memory.model.errors import InvalidInput

    async with open_desk(state) as desk:
        chain = await desk.records.facts.history(who, fact_id)
    if not chain:
        raise InvalidInput(f"there is no fact {ascii(fact_id)[:80]} of this user; `afterturn facts list` shows those there are")
    return chain


# ------------------------------------------------------------------------------------------------------------------- forget


def facts_forget(
    ctx: typer.Context,
    fact_ids: Annotated[list[str], typer.Argument(help="Ids of facts.")],
    tenant: TenantOption = DEFAULT_TENANT,
    user: UserOption = DEFAULT_USER,
    team: Annotated[str | None, typer.Option("--team", help="Facts of this team of the user's; default: the user's own.")] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove facts with their text and sources for good."""
    if not yes:
        typer.confirm(f"Remove {len(fact_ids)} facts for good?", abort=True, err=True)
    wanted = list(dict.fromkeys(fact_ids))
    if run(_forget(state_of(ctx), (tenant, user), wanted, team, as_json=as_json)) < len(wanted):
        raise typer.Exit(1)


async def _forget(state: State, who: tuple[str, str], fact_ids: list[str], team: str | None, *, as_json: bool) -> int:
    async with open_desk(state) as desk:
        gone = await desk.records.facts.forget(who, fact_ids, team=team)
    if as_json:
        emit_json({"asked": len(fact_ids), "removed": gone})
    else:
        write(f"{gone} of {len(fact_ids)} facts removed\n")
    if gone < len(fact_ids):
        whose = "user" if team is None else "team"
        stderr().print(f"afterturn: {len(fact_ids) - gone} of the ids are not of facts of the {whose}", markup=False)
    return gone
