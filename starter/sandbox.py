"""A sandbox for the event window in the terminal: speak as anybody on any channel, run the window, see what was taken and why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from memory.model.errors import AfterturnError, InvalidInput
from memory.model.event import MessageEvent
from memory.model.ids import new_id
from memory.model.scope import Scope
from memory.model.window import WindowState
from starter.chat import typed_lines
from starter.cli.demo_events_view import show_window
from starter.cli.output import one_line, safe_text
from starter.client import MemoryClient
from starter.views import ReceiptStatus

RUN_TIMEOUT_S: Final = 180.0
USER: Final = "user"
ASSISTANT: Final = "assistant"
MAX_LINES: Final = 400
_HELP: Final = """\
/as NAME [MEDIUM]  speak as this sender from now on (user, assistant, a name, an address, a number), on chat, email, sms, …
/run               have what was said so far consolidated, and show what was taken, in which words, and what was not
/facts [WORDS]     the facts, or those that fit
/contacts          the contacts
/tasks             the tasks
/reset             begin anew with another, empty user
/help              this list
/quit              leave (or Ctrl-D)"""


class Sandbox:
    """One session. What is typed is recorded as a message of whoever speaks; ``/reset`` takes a user that is not used yet."""

    def __init__(self, client: MemoryClient, scope: Scope, *, console: Console, space_id: str = "default") -> None:
        self._client = client
        self._first = scope
        self._scope = scope
        self._console = console
        self._space_id = space_id
        self._sender = USER
        self._medium = "chat"
        self._commands: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/as": self._speak_as,
            "/run": self._run_window,
            "/facts": self._show_facts,
            "/contacts": self._show_contacts,
            "/tasks": self._show_tasks,
            "/reset": self._reset,
            "/help": self._help,
        }

    async def run(self) -> None:
        """Until ``/quit`` or the end of the input."""
        self._print(f"What you type is recorded for {self._scope.user_id} of {self._scope.tenant_id}. /help lists commands.", "dim")
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

    def _prompt(self) -> None:
        self._console.print(Text(safe_text(f"{self._sender} ({self._medium})> "), style="bold"), end="")
        self._console.file.flush()

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(safe_text(text), style=style))

    async def _handle(self, said: str) -> None:
        name, _, rest = said.partition(" ")
        try:
            if not name.startswith("/"):
                await self._say(said)
            elif name in self._commands:
                await self._commands[name](rest.strip())
            else:
                self._print(f"there is no command {name[:40]}; /help lists them", "yellow")
        except AfterturnError as error:
            self._print(error.message, "red")

    # ------------------------------------------------------------------------------------------------------------- speaking

    async def _say(self, said: str) -> None:
        event = MessageEvent(
            event_id=new_id(),
            timestamp=datetime.now(UTC),
            sender_id=self._sender,
            receiver_ids=(ASSISTANT if self._sender == USER else USER,),
            medium=self._medium,
            content=said,
        )
        receipt = await self._client.record_events(self._scope, [event], space_id=self._space_id, allow_user_memory=True)
        if receipt.status is not ReceiptStatus.RECORDED:
            why = receipt.reason or ", ".join(receipt.reasons)
            self._print(f"{receipt.status.value}{f': {why}' if why else ''}", "yellow")
            return
        status = await self._client.windows.status(self._scope, limit=1)
        self._print(f"{status.waiting}/{status.size}", "dim")

    async def _speak_as(self, rest: str) -> None:
        words = rest.split()
        if not 1 <= len(words) <= 2:
            raise InvalidInput("/as NAME [MEDIUM] is expected, such as /as anna email")
        # Built once to have the rules of events checked before anything is said.
        try:
            MessageEvent(
                event_id="check", timestamp=datetime.now(UTC), sender_id=words[0], medium=words[1] if words[1:] else self._medium
            )
        except ValueError:
            raise InvalidInput("that name or medium cannot be used in an event") from None
        self._sender = words[0]
        self._medium = words[1] if words[1:] else self._medium

    async def _reset(self, rest: str) -> None:
        self._scope = Scope.of(self._first.tenant_id, f"{self._first.user_id}-{new_id()[:8]}")
        self._sender, self._medium = USER, "chat"
        self._print(f"a new user: {self._scope.user_id}", "dim")

    async def _help(self, rest: str) -> None:
        self._print(_HELP)

    # -------------------------------------------------------------------------------------------------------------- looking

    async def _run_window(self, rest: str) -> None:
        before = {window.window_id: window for window in await self._client.windows.list(scope=self._scope)}
        progress = await self._client.flush(self._scope, wait_s=RUN_TIMEOUT_S)
        after = await self._client.windows.list(scope=self._scope)
        fresh = [one for one in after if one.window_id not in before or before[one.window_id].state is WindowState.PLANNED]
        for window in reversed(fresh):
            view = await self._client.windows.show(self._scope, window.window_id)
            show_window(self._console, view, lines=MAX_LINES)
        if progress.waiting:
            self._print(f"{progress.waiting} events still wait: is a worker running?", "yellow")
        elif not fresh:
            self._print("nothing waits", "dim")

    async def _show_facts(self, rest: str) -> None:
        if rest:
            facts = [one.fact for one in await self._client.search_facts(self._scope, rest)]
        else:
            facts = list(await self._client.facts(self._scope))
        for fact in facts:
            until = f", until {fact.valid_until:%Y-%m-%d}" if fact.valid_until else ""
            self._print(f"  {one_line(fact.statement)}  ({fact.kind.value}{until})")
        self._none(facts, "fact")

    async def _show_contacts(self, rest: str) -> None:
        for contact in await self._client.contacts.filter(self._scope):
            self._print(f"  {contact.contact_id}  {one_line(contact.name or ', '.join(contact.aliases) or '(no name)')}", "bold")
            for name in ("job_title", "email_address", "phone_number", "bio", "rolling_summary", "response_policy"):
                value = getattr(contact, name)
                if value:
                    self._print(f"     {name.replace('_', ' ')}: {one_line(value)}")

    async def _show_tasks(self, rest: str) -> None:
        tasks = await self._client.tasks.list(self._scope)
        for task in tasks:
            until = f", until {task.deadline:%Y-%m-%d}" if task.deadline else ""
            self._print(f"  {one_line(task.name)}  ({task.status.value}{until})")
        self._none(tasks, "task")

    def _none(self, found: object, what: str) -> None:
        if not found:
            self._print(f"no {what} yet", "dim")
