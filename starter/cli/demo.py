"""``afterturn demo``: a conversation and a stream of events, played through real servers."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starter.cli.output import emit_json, safe_text, stderr, stdout
from starter.cli.running import check_model, steps, until_stopped_or_broken
from starter.cli.state import (
    DEFAULT_TENANT,
    JsonOption,
    State,
    open_client,
    open_tables,
    run,
    scope_of,
    state_of,
    until_signalled,
)

if TYPE_CHECKING:
    from rich.console import Console

    from memory.model.scope import Scope
    from memory.ports import EventLog
    from memory.settings import Settings
    from starter.client import MemoryClient
    from starter.conversations import Conversation
    from starter.demo import DemoReport, TurnReport
    from starter.dev import LocalStack
    from starter.event_files import EventStream

DEFAULT_CONVERSATION = "product-manager"
EVENTS_USER = "office"
TABLES_USER = "tables"
SHIPPED_NAME = "events-office"
DEMO_QUERIES = (("when does the library open", "rust fabric", "Termin"), ("drawings for Chen Wei", "样品"))
"""Of facts and of messages, for the shipped events."""


@dataclass(frozen=True)
class _Surroundings:
    """Where the demo plays. ``stack`` is None beside a running `afterturn dev`, whose data is used then."""

    settings: Settings
    client: MemoryClient
    log: EventLog
    web_ui: str
    namespace: str
    stack: LocalStack | None
    where: str


def demo(
    ctx: typer.Context,
    conversation: Annotated[
        str, typer.Argument(help="A shipped conversation, a file, or - for standard input; see docs/conversation-format.md.")
    ] = DEFAULT_CONVERSATION,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up afterwards, to look around, until Ctrl-C.")] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="provider:model; default: the setting, and that is simulated.")
    ] = None,
    events: Annotated[
        str | None, typer.Option("--events", help="Play this file of events alone: one a line (JSON), or a LoCoMo dialogue.")
    ] = None,
    sample: Annotated[str | None, typer.Option("--sample", help="With --events: which conversation of a LoCoMo file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Play a conversation through real servers.

    Shows for every turn what was decided and what it changed in the profile. After the conversation that is played by default,
    some weeks of an office's events follow: what each window took from them, in which words it was said, and searches; and
    then questions about tables, with every step of the loops that answer them.

    Uses a running `afterturn dev` of this data folder with a fresh user; without one, servers of its own in a folder that is
    removed at the end. Exit code 1 when a turn was kept because of a failure, a window failed, or a secret reached the profile.
    """
    from starter.conversations import load_conversation
    from starter.event_files import load_events

    state = state_of(ctx)
    loaded = load_conversation(conversation) if events is None else None
    shipped = SHIPPED_NAME if conversation == DEFAULT_CONVERSATION else None
    file = shipped if events is None else events
    stream = load_events(file, sample=sample) if file is not None else None
    settings = state.settings()
    check_model(settings, model or settings.language_model)
    if not run(_demo(state, settings, loaded, stream, keep=keep, model=model, as_json=as_json), patient=True):
        raise typer.Exit(1)


async def _demo(
    state: State,
    settings: Settings,
    conversation: Conversation | None,
    stream: EventStream | None,
    *,
    keep: bool,
    model: str | None,
    as_json: bool,
) -> bool:
    """Whether all went well. A conversation, a stream of events, or first the one and then the other."""
    from starter.cli.demo_events_view import events_json, show_events, show_stream
    from starter.cli.demo_view import report_json, show_end, show_start
    from starter.demo_events import play_events
    from starter.demo_knowledge import play_knowledge
    from starter.web_ui import workflow_url

    started = asyncio.get_running_loop().time()
    console = stderr() if as_json else stdout()
    async with _surroundings(state, settings, model) as place:
        used = model or place.settings.language_model
        documents: dict[str, Any] = {}
        last_lines: list[str] = []
        scopes: list[Scope] = []
        ok = True
        if conversation is not None:
            show_start(console, conversation, model=used, where=place.where)
            report = await _play(console, place, conversation, model, started)
            run_id = next((turn.run_id for turn in reversed(report.turns) if turn.run_id), None)
            scopes.append(scope_of(report.tenant, report.user))
            url = None
            if place.web_ui:
                url = workflow_url(place.web_ui, place.namespace, scopes[0].post_answer_workflow_id, run_id)
            show_end(console, report, run_url=url, stays=keep or place.stack is None)
            documents = report_json(report, model=used, run_url=url)
            last_lines, ok = [report.last_line], report.ok
        if stream is not None:
            user = EVENTS_USER if place.stack is not None else f"{EVENTS_USER}-{_run_name()}"
            scopes.append(scope_of(DEFAULT_TENANT, user))
            show_stream(console, stream)
            queries = DEMO_QUERIES if stream.name == SHIPPED_NAME else ((), ())
            played = await play_events(place.client, scopes[-1], stream, fact_queries=queries[0], event_queries=queries[1])
            show_events(console, played)
            documents |= {"events": events_json(played)} if documents else events_json(played)
            last_lines.insert(0, played.last_line)
            ok = ok and played.ok
            if stream.name == SHIPPED_NAME:
                user = TABLES_USER if place.stack is not None else f"{TABLES_USER}-{_run_name()}"
                scopes.append(scope_of(DEFAULT_TENANT, user))
                asked = await play_knowledge(place.client, scopes[-1], console)
                documents |= {"knowledge": asked.as_json()}
                last_lines.insert(0, asked.last_line)
                ok = ok and asked.ok
        if as_json:
            emit_json(documents)
        if keep:
            _show_how_to_look(console, place, scopes)
        for line in last_lines:
            console.print(line, markup=False)
        if keep:
            await (until_signalled() if place.stack is None else until_stopped_or_broken(place.stack))
    return ok


async def _play(
    console: Console, place: _Surroundings, conversation: Conversation, model: str | None, started: float
) -> DemoReport:
    from collections import Counter

    from starter.cli.demo_view import show_turn
    from starter.demo import Demo, DemoReport

    user = conversation.user if place.stack is not None else f"{conversation.user}-{_run_name()}"
    scope = scope_of(conversation.tenant, user)
    play = Demo(conversation, place.client, place.log, scope, language_model=model)
    turns: list[TurnReport] = []
    redacted: Counter[str] = Counter()
    with _progress(console, len(conversation.turns)) as advance:
        async for turn in play.play():
            turns.append(turn)
            redacted.update(turn.redacted)
            show_turn(console, turn, len(conversation.turns))
            advance()
    return DemoReport(
        title=conversation.title,
        tenant=conversation.tenant,
        user=user,
        turns=tuple(turns),
        profile=await place.client.get_profile(scope),
        redacted=dict(redacted),
        seconds=asyncio.get_running_loop().time() - started,
    )


def _run_name() -> str:
    from datetime import UTC, datetime
    from secrets import token_hex

    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{token_hex(2)}"


@contextmanager
def _progress(console: Console, total: int) -> Generator[Callable[[], None]]:
    if not console.is_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("turns"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("turns", total=total)
        yield lambda: bar.advance(task)


def _show_how_to_look(console: Console, place: _Surroundings, scopes: Sequence[Scope]) -> None:
    from shlex import quote

    folder = "" if place.stack is None else f"--data-dir {quote(str(place.stack.data_dir))} "
    for scope in scopes:
        who = f"--tenant {quote(scope.tenant_id)} --user {quote(scope.user_id)}"
        looks = {EVENTS_USER: "window list", TABLES_USER: "knowledge tables"}
        what = next((look for name, look in looks.items() if scope.user_id.startswith(name)), "profile history")
        console.print(safe_text(f"look around: afterturn {folder}{what} {who}"), markup=False)
    console.print("staying up until Ctrl-C")


@asynccontextmanager
async def _surroundings(state: State, settings: Settings, model: str | None) -> AsyncGenerator[_Surroundings]:
    from memory.settings import read_dev_file

    running = read_dev_file(settings.data_dir)
    if running:
        async with open_client(settings) as client, open_tables(settings) as tables:
            yield _Surroundings(
                settings=settings,
                client=client,
                log=tables.log,
                web_ui=str(running.get("urls", {}).get("web_ui", "")),
                namespace=str(running.get("temporal_namespace", "default")),
                stack=None,
                where=f"played on the running `afterturn dev` (process {running['pid']})",
            )
        return
    from memory.model.category import Category
    from starter.dev import LocalStack

    folder = Path(tempfile.mkdtemp(prefix="afterturn-demo-"))
    overrides: dict[str, Any] = {"language_model": model} if model else {}
    # All that there is to see; and nobody waits for an embedder that takes its time, unless it was asked for.
    overrides |= {f"memory_{category.value}": True for category in Category} | {"embed_events": False}
    if "embedder" not in settings.model_fields_set:
        overrides["embedder"] = "wordllama" if find_spec("wordllama") is not None else "none"
    try:
        console = stderr()
        with steps(console) as step:
            stack = await LocalStack(folder, overrides=overrides, throw_away=True, progress=step).__aenter__()
        try:
            async with open_client(stack.client_settings) as client:
                yield _Surroundings(
                    settings=stack.settings,
                    client=client,
                    log=stack.parts.log,
                    web_ui=stack.urls["web_ui"],
                    namespace=stack.client.namespace,
                    stack=stack,
                    where="played on servers of its own",
                )
        finally:
            await stack.__aexit__(None, None, None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
