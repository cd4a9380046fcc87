"""A sandbox for knowledge: ask, fill and reshape the tables of a ready scenario, and watch the loops as they run."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from typing import Final

from rich.console import Console
from rich.text import Text

from memory.model.errors import AfterturnError, InvalidInput
from memory.model.knowledge import DEFAULT_LIMIT, SOURCE_FIELD
from memory.model.scope import Scope
from starter.chat import typed_lines
from starter.cli.output import left_out_note, safe_text, table
from starter.client import MemoryClient
from starter.loop_view import LoopView, shortened
from starter.scenarios import SCENARIOS, install, load_scenario
from starter.steering import SteerableHandle

RESULT_ROWS: Final = 20
_HELP: Final = """\
any line             is a question; it is answered from the tables
/update TEXT         make the tables say it
/refactor TEXT       put the tables in order
/why TEXT            ask the last loop how it came to its answer
/tables              the tables with their columns
/show TABLE [WHERE]  rows of a table: /show Models range_km > 500
/questions           questions and requests to try
/scenario NAME       electric-vehicles or papers, with a new user
/reset               begin anew with a new user
/help                this list
/quit                leave (or Ctrl-D)"""


class KnowledgeSandbox:
    """One session.

    Args:
        client: as an orchestrator would hold it.
        scope: the user; ``/reset`` takes another one, with a name made from this one's.
        scenario: its tables are made where they are not there.
    """

    def __init__(self, client: MemoryClient, scope: Scope, scenario: str, console: Console) -> None:
        self._client = client
        self._first = self._scope = scope
        self._scenario = load_scenario(scenario)
        self._console = console
        self._last: SteerableHandle | None = None
        self._commands: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/update": self._update,
            "/refactor": self._refactor,
            "/why": self._why,
            "/tables": self._tables,
            "/show": self._show,
            "/questions": self._questions,
            "/scenario": self._change,
            "/reset": self._reset,
            "/help": self._help,
        }

    async def run(self) -> None:
        """Until ``/quit`` or the end of the input. Raises MemoryUnavailable when there is nothing to begin with."""
        await self._begin()
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

    async def _begin(self) -> None:
        await install(self._client.knowledge, self._scope, self._scenario)
        self._print(f"{self._scenario.title}. {self._scenario.about}", "bold")
        await self._tables("")
        self._print("/questions shows what to try, /help lists commands, /quit leaves.", "dim")
        self._prompt()

    def _prompt(self) -> None:
        self._console.print(Text("ask> ", style="bold"), end="")

    async def _handle(self, said: str) -> None:
        command, _, rest = said.partition(" ")
        try:
            if not said.startswith("/"):
                await self._follow(await self._client.knowledge.ask(self._scope, said))
            elif command in self._commands:
                await self._commands[command](rest.strip())
            else:
                self._print(f"there is no command {shortened(command, 40)}; /help lists them", "yellow")
        except (AfterturnError, TimeoutError) as error:
            self._print(str(error), "yellow")

    async def _follow(self, handle: SteerableHandle) -> None:
        # Lines are read by this session, so that keys do not steer here; `afterturn knowledge attach` does.
        self._last = handle
        answer = await LoopView(handle, self._console, steer=False).follow()
        self._print(answer.text)

    async def _update(self, text: str) -> None:
        await self._follow(await self._client.knowledge.update(self._scope, text))

    async def _refactor(self, text: str) -> None:
        await self._follow(await self._client.knowledge.refactor(self._scope, text))

    async def _why(self, text: str) -> None:
        if self._last is None:
            raise InvalidInput("nothing was asked yet")
        self._print(await self._last.ask(text or "How did you come to this answer?"))

    async def _tables(self, _: str) -> None:
        for one in await self._client.knowledge.tables(self._scope):
            columns = ", ".join((one.unique_key, *(f"{column.name}: {column.type.value}" for column in one.columns)))
            self._print(f"  {safe_text(one.name)}  {safe_text(columns)}", "dim")

    async def _show(self, text: str) -> None:
        found = re.fullmatch(r"(\S+)(?:\s+(.+))?", text, re.DOTALL)
        if found is None:
            raise InvalidInput("name a table: /show Models")
        rows = await self._client.knowledge.show(self._scope, found[1], where=found[2], limit=DEFAULT_LIMIT)
        names = [name for name in dict.fromkeys(name for row in rows for name in row) if name != SOURCE_FIELD]
        shown = [[shortened("" if row.get(name) is None else str(row[name]), 40) for name in names] for row in rows[:RESULT_ROWS]]
        if not rows:
            self._print("no row", "dim")
            return
        fitting, left_out = table(names, shown, width=self._console.width, cut=True)
        self._console.print(fitting, soft_wrap=False)
        if left_out:
            self._print(left_out_note(left_out), "dim")
        if len(rows) > RESULT_ROWS:
            more = "" if len(rows) < DEFAULT_LIMIT else " or more"
            self._print(f"{len(rows) - RESULT_ROWS}{more} rows more", "dim")

    async def _questions(self, _: str) -> None:
        for question in self._scenario.questions:
            self._print(question.text)
        for update in self._scenario.updates:
            self._print(f"/update {update['text']}")
        self._print(f"/refactor {self._scenario.refactor['text']}")

    async def _change(self, name: str) -> None:
        self._scenario = load_scenario(name or next(one for one in SCENARIOS if one != self._scenario.name))
        await self._reset("")

    async def _reset(self, _: str) -> None:
        self._last = None
        self._scope = Scope.of(self._first.tenant_id, f"{self._first.user_id}-{token_hex(3)}")
        await self._begin()

    async def _help(self, _: str) -> None:
        self._print(_HELP, "dim")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(safe_text(text), style=style))
