"""A sandbox for the event window: write as any contact on any medium, run the window, see what was taken and why."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final

from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from memory.model.category import Category
from memory.model.directory import SpaceSettings
from memory.model.errors import AfterturnError, InvalidInput, MemoryUnavailable
from memory.model.event import ASSISTANT_ID, USER_ID, ManagerMethodEvent, MessageEvent, Phase
from memory.model.fact import Fact, FactStatus, Source
from memory.model.ids import new_id
from memory.model.scope import Scope
from memory.model.window import WindowState
from memory.ports import Directory
from starter.chat import typed_lines
from starter.cli.output import safe_text
from starter.cli.window_view import extraction_lines, shortened
from starter.client import MemoryClient
from starter.views import ReceiptStatus
from starter.window_report import counts_of

MEDIA: Final = ("chat", "email", "sms", "call", "whatsapp")
RUN_TIMEOUT_S: Final = 180.0
MAX_ROWS: Final = 200
SEARCHED: Final = 5
SHOWN_SOURCES: Final = 3
_MARKS: Final[Mapping[str, str]] = {"head": "  ", "item": "    + ", "quote": "        ", "dropped": "    - not taken: "}
_STYLES: Final[Mapping[str, str]] = {"head": "bold", "item": "green", "quote": "dim", "dropped": "yellow"}
_TAKEN: Final = frozenset({ReceiptStatus.RECORDED, ReceiptStatus.DUPLICATE})
_CALL: Final = re.compile(r"(?P<manager>\w{1,100})\.(?P<method>\w{1,100})\s+(?P<text>.+)", re.DOTALL)
_HELP: Final = """\
any line             is said by the sender of the prompt
/as WHO [MEDIUM]     write as user, assistant, or any id, address or number: /as anna email
/to WHO              to whom; by default the user writes to the assistant, and everybody else to the user
/call M.METHOD TEXT  a manager call: /call TaskManager.update water the plants
/window              what waits in the window, and the windows before it
/run                 consolidate now, and show what was taken, in which words it was said, and what was not taken
/facts [QUERY]       facts that are stored, or those that fit
/contacts            contacts with what is known of them
/tasks               tasks
/search QUERY        messages that fit
/reset               begin anew with a user of whom nothing is known
/help                this list
/quit                leave (or Ctrl-D)"""


class Sandbox:
    """One session. All categories are switched on in its space, unless that has settings of its own.

    Args:
        client: as an orchestrator would hold it.
        directory: where the space's settings are.
        scope: the user; ``/reset`` takes another one, with a name made from this one's.
    """

    def __init__(self, client: MemoryClient, directory: Directory, scope: Scope, *, space_id: str, console: Console) -> None:
        self._client = client
        self._directory = directory
        self._first = self._scope = scope
        self._space_id = space_id
        self._console = console
        self._sender, self._medium = USER_ID, MEDIA[0]
        self._receiver: str | None = None
        self._waiting = self._size = 0
        self._shown: set[tuple[str, int]] = set()
        self._commands: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/as": self._write_as,
            "/to": self._write_to,
            "/call": self._call,
            "/window": self._show_windows,
            "/run": self._run_window,
            "/facts": self._show_facts,
            "/contacts": self._show_contacts,
            "/tasks": self._show_tasks,
            "/search": self._search,
            "/reset": self._reset,
            "/help": self._help,
        }

    async def run(self) -> None:
        """Until ``/quit`` or the end of the input. Raises MemoryUnavailable when there is nothing to begin with."""
        await self._set_up()
        self._print(f"The log of {self._scope.user_id} of {self._scope.tenant_id}. /help lists commands, /quit leaves.", "dim")
        self._prompt()
        async for line in typed_lines():
            said = line.strip()
            if not self._console.is_terminal:
                self._print(said)  # nobody typed it where the prompt is
            if said == "/quit":
                return
            if said:
                await self._handle(said)
            self._prompt()
        self._print("")

    async def _set_up(self) -> None:
        """Categories on; windows that there are already count as seen."""
        stored = await self._directory.space(self._scope.tenant, self._space_id) or SpaceSettings()
        if not stored.memory_categories:
            switched = stored.model_copy(update={"memory_categories": dict.fromkeys(Category, True)})
            await self._directory.save_space(self._scope.tenant, self._space_id, switched)
        await self._look()
        self._shown = {(window.window_id, window.attempt) for window in await self._client.windows.list(scope=self._scope)}

    async def _look(self) -> None:
        status = await self._client.windows.status(self._scope, limit=1)
        self._waiting, self._size = status.waiting, status.size

    def _prompt(self) -> None:
        who = safe_text(shortened(f"{self._sender} → {self._to}, {self._medium}", 80))
        self._console.print(Text(f"{self._waiting}/{self._size} {who}> ", style="bold"), end="")
        self._console.file.flush()

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(safe_text(text), style=style))

    @property
    def _to(self) -> str:
        return self._receiver or (ASSISTANT_ID if self._sender == USER_ID else USER_ID)

    async def _handle(self, said: str) -> None:
        name, _, rest = said.partition(" ")
        try:
            if not said.startswith("/"):
                await self._record(self._message(said))
            elif name in self._commands:
                await self._commands[name](rest.strip())
            else:
                self._print(f"there is no command {name[:40]}; /help lists them", "yellow")
        except AfterturnError as error:
            self._print(error.message, "red")

    async def _help(self, _: str) -> None:
        self._print(_HELP)

    # ------------------------------------------------------------------------------------------------------------- writing

    async def _write_as(self, rest: str) -> None:
        words = rest.split()
        if not 1 <= len(words) <= 2:
            raise InvalidInput(f"/as WHO [MEDIUM], for instance /as anna email; media are {', '.join(MEDIA)}, or your own word")
        medium = words[1].casefold() if len(words) == 2 else self._medium
        self._message("-", sender=words[0], medium=medium)
        self._sender, self._medium, self._receiver = words[0], medium, None

    async def _write_to(self, rest: str) -> None:
        if len(rest.split()) != 1:
            raise InvalidInput("/to WHO, for instance /to anna")
        self._message("-", sender=rest)
        self._receiver = rest

    def _message(self, text: str, *, sender: str | None = None, medium: str | None = None) -> MessageEvent:
        try:
            return MessageEvent(
                event_id=f"sandbox-{new_id()}",
                timestamp=datetime.now(UTC),
                sender_id=sender or self._sender,
                receiver_ids=(self._to,),
                medium=medium or self._medium,
                content=text,
            )
        except ValidationError:
            raise InvalidInput("that sender or medium cannot be used in an event: it is too long") from None

    async def _call(self, rest: str) -> None:
        call = _CALL.fullmatch(rest)
        if call is None:
            raise InvalidInput("/call MANAGER.METHOD TEXT, for instance /call TaskManager.update water the plants")
        await self._record(
            ManagerMethodEvent(
                event_id=f"sandbox-{new_id()}",
                timestamp=datetime.now(UTC),
                manager=call["manager"],
                method=call["method"],
                phase=Phase.INCOMING,
                calling_id=new_id(),
                payload={"text": call["text"]},
            )
        )

    async def _record(self, event: MessageEvent | ManagerMethodEvent) -> None:
        receipt = await self._client.record_events(self._scope, [event], space_id=self._space_id, allow_user_memory=True)
        if receipt.status not in _TAKEN:
            why = receipt.reason or ", ".join(receipt.reasons)
            self._print(f"{receipt.status.value}{f': {why}' if why else ''}", "yellow")
            await self._look()
            return
        if receipt.dropped:
            self._print("dropped: calls of the memory itself never enter the window", "yellow")
        self._waiting = receipt.waiting
        if self._waiting >= self._size:
            self._print(f"the window is full ({self._waiting}/{self._size}): it is consolidated", "dim")
            await self._finish()

    # ------------------------------------------------------------------------------------------------------------- windows

    async def _run_window(self, _: str) -> None:
        await self._look()
        if not self._waiting:
            self._print("nothing waits in the window")
            return
        await self._client.windows.flush(self._scope)
        await self._finish()

    async def _finish(self) -> None:
        """Wait for what is due and show the windows that ended."""
        with self._console.status("consolidating …"):
            done = await self._client.windows.wait_until_idle(self._scope, timeout_s=RUN_TIMEOUT_S)
        await self._show_new()
        await self._look()
        if not done:
            raise MemoryUnavailable(
                f"not through within {RUN_TIMEOUT_S:g} s: does a worker run? `afterturn window status` says more"
            )

    async def _show_new(self) -> None:
        contacts = await self._client.contacts.filter(self._scope, limit=1_000)
        tasks = await self._client.tasks.list(self._scope, limit=1_000)
        for window in reversed(await self._client.windows.list(scope=self._scope)):
            if (window.window_id, window.attempt) in self._shown or window.state is WindowState.PLANNED:
                continue
            self._shown.add((window.window_id, window.attempt))
            style = "bold green" if window.state is WindowState.DONE else "bold yellow"
            why = f" ({window.reason})" if window.reason else ""
            self._print(f"window {window.window_id}: {window.events} events, {window.state.value}{why}, {counts_of(window)}", style)
            view = await self._client.windows.show(self._scope, window.window_id)
            lines = extraction_lines(view, contacts, tasks)
            for kind, line in lines:
                self._print(_MARKS[kind] + line, _STYLES[kind])
            if not lines:
                self._print("  nothing was said that is worth keeping", "dim")

    async def _show_windows(self, _: str) -> None:
        status = await self._client.windows.status(self._scope, limit=20)
        self._waiting = status.waiting
        self._print(f"{status.waiting}/{status.size} events wait")
        for window in reversed(status.recent):
            where = f"events {window.first_seq} to {window.last_seq}"
            self._print(f"  {window.window_id}: {where}, {window.state.value}, {counts_of(window)}")

    # ------------------------------------------------------------------------------------------------------------- looking

    async def _show_facts(self, query: str) -> None:
        facts: list[Fact]
        if query:
            facts = [one.fact for one in await self._client.search_facts(self._scope, query, limit=SEARCHED, sources=True)]
        else:
            facts = list(await self._client.facts(self._scope, statuses=list(FactStatus), sources=True, limit=MAX_ROWS))
        for fact in facts:
            ended = "" if fact.status is FactStatus.ACTIVE else f", {fact.status.value}"
            until = f", until {fact.valid_until:%Y-%m-%d}" if fact.valid_until else ""
            self._print(f"  {shortened(fact.statement)} ({fact.kind.value}{until}{ended})", "dim" if ended else "")
            self._show_sources(fact.sources)
        if not facts:
            self._print("no fact fits" if query else "no fact yet")

    async def _show_tasks(self, _: str) -> None:
        found = await self._client.tasks.list(self._scope, sources=True, limit=MAX_ROWS)
        for task in found:
            due = f", by {task.deadline:%Y-%m-%d %H:%M}" if task.deadline else ""
            self._print(f"  {shortened(task.name)} ({task.status.value}{due})")
            self._show_sources(task.sources)
        if not found:
            self._print("no task yet")

    def _show_sources(self, sources: tuple[Source, ...]) -> None:
        for source in sources[-SHOWN_SOURCES:]:
            self._print(f"      “{shortened(source.quote)}” [{source.seq or source.origin}]", "dim")

    async def _show_contacts(self, _: str) -> None:
        for contact in await self._client.contacts.filter(self._scope, limit=MAX_ROWS):
            known = {0: "(the assistant)", 1: "(the user)"}.get(contact.contact_id, "(no name)")
            ids = (*contact.aliases, contact.email_address, contact.phone_number, contact.whatsapp_number)
            self._print(f"  {contact.contact_id}: {contact.name or known}  {', '.join(dict.fromkeys(one for one in ids if one))}")
            for name in ("job_title", "timezone", "bio", "rolling_summary", "response_policy"):
                value = getattr(contact, name)
                if value:
                    self._print(f"      {name.replace('_', ' ')}: {shortened(value)}", "dim")

    async def _search(self, query: str) -> None:
        found = await self._client.search_events(self._scope, query, limit=SEARCHED, neighbours=0)
        for one in found:
            event = one.event.event
            if isinstance(event, MessageEvent):
                self._print(f"  [{one.event.seq}] {event.sender_id}, {event.medium}: {shortened(event.content or '')}")
        if not found:
            self._print("no message fits")

    async def _reset(self, _: str) -> None:
        self._scope = Scope.of(self._first.tenant_id, f"{self._first.user_id}-{token_hex(4)}")
        self._sender, self._medium, self._receiver = USER_ID, MEDIA[0], None
        self._shown.clear()
        await self._look()
        self._print(f"anew, as {self._scope.user_id}", "dim")
