"""A chat in the terminal that shows what memory does: what is injected, the notice, and what each turn changed."""

from __future__ import annotations

import asyncio
import codecs
import os
import threading
from collections import deque
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.text import Text
from temporalio.client import Client
from temporalio.service import RPCError

from memory.llm.factory import build_models
from memory.model.errors import AfterturnError, MemoryUnavailable, ModelError
from memory.model.ids import new_id
from memory.model.names import STATUS_QUERY
from memory.model.scope import Scope
from memory.model.steps import RunStatus
from memory.model.turn import Outcome, Turn
from memory.ports import ChatMessage, ChatRequest, ModelProvider, PromptPart, TurnSummary
from memory.prompts import memory_section
from memory.settings import Settings
from memory.stores.tables import Tables
from starter.cli.demo_view import diff_style
from starter.cli.output import safe_text
from starter.client import MemoryClient
from starter.demo import NOT_RECORDED, unified
from starter.views import LoadedMemory

NOTICE = "🧠 Updating context memory…"
SIMULATED_ANSWER = (
    "(simulated) There is no language model behind this answer. I only pass your words on to memory: "
    "set AFTERTURN_LANGUAGE_MODEL to talk to a real one."
)
TURN_TIMEOUT_S = 180.0
MAX_ANSWER_TOKENS = 1024
KEPT_MESSAGES = 20
_POLL_S = 0.1
_QUERY_TIMEOUT = timedelta(seconds=2)
_UPDATING = ("consolidating", "uploading")
_SYSTEM = "You are a helpful assistant in a terminal. Answer briefly and in the user's language."
_HELP = """\
/profile   show the whole profile
/history   list its versions
/undo      bring back the version before the newest one
/help      this list
/quit      leave (or Ctrl-D)
"""


class Chat:
    """One session. ``model``: the model that answers, as ``provider:model``."""

    def __init__(
        self,
        client: MemoryClient,
        tables: Tables,
        temporal: Client,
        settings: Settings,
        scope: Scope,
        *,
        space_id: str,
        model: str,
        console: Console,
    ) -> None:
        self._client = client
        self._tables = tables
        self._run = temporal.get_workflow_handle(scope.post_answer_workflow_id)
        self._settings = settings
        self._scope = scope
        self._space_id = space_id
        self._model = model
        self._console = console
        self._conversation_id = new_id()
        self._messages: deque[ChatMessage] = deque(maxlen=KEPT_MESSAGES)

    async def run(self) -> None:
        """Until ``/quit`` or the end of the input."""
        self._print(
            f"You are {self._scope.user_id} of {self._scope.tenant_id}; answers come from {self._model}. /help lists commands.",
            "dim",
        )
        models = build_models(self._settings)
        try:
            self._prompt()
            async for line in typed_lines():
                said = line.strip()
                if said == "/quit":
                    return
                if said:
                    await self._handle(said, models)
                self._prompt()
            self._print("")
        finally:
            await models.aclose()

    def _prompt(self) -> None:
        self._console.print(Text("you> ", style="bold"), end="")
        self._console.file.flush()

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(safe_text(text), style=style))

    async def _handle(self, said: str, models: ModelProvider) -> None:
        try:
            match said:
                case "/help":
                    self._print(_HELP.rstrip("\n"))
                case "/profile":
                    await self._show_profile()
                case "/history":
                    await self._show_history()
                case "/undo":
                    await self._undo()
                case _ if said.startswith("/"):
                    self._print(f"there is no command {said.split()[0][:40]}; /help lists them", "yellow")
                case _:
                    await self._turn(said, models)
        except AfterturnError as error:
            self._print(error.message, "red")

    # ------------------------------------------------------------------------------------------------------------ commands

    async def _show_profile(self) -> None:
        profile = await self._client.get_profile(self._scope)
        self._print(profile.body.rstrip("\n") if profile.exists else "no profile yet")

    async def _show_history(self) -> None:
        versions = await self._client.history(self._scope, limit=20)
        for version in versions:
            self._print(f"v{version.version}  {version.written_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC  {version.cause or ''}")
        if not versions:
            self._print("no version yet")

    async def _undo(self) -> None:
        versions = await self._client.history(self._scope, limit=2)
        if len(versions) < 2:
            self._print("there is no version before this one")
            return
        before = (await self._client.get_profile(self._scope)).body
        result = await self._client.rollback(self._scope, versions[1].version)
        if not result.saved:
            self._print(f"not undone: {result.reason or result.status.value}", "red")
            return
        await self._show_change(before)

    # ---------------------------------------------------------------------------------------------------------------- a turn

    async def _turn(self, said: str, models: ModelProvider) -> None:
        loaded = await self._client.load(self._scope, space_id=self._space_id, allow_user_memory=True)
        self._show_injected(loaded)
        before = (await self._client.get_profile(self._scope)).body
        try:
            answer = await self._answer(said, loaded, models)
        except ModelError as error:
            self._print(f"the model gave no answer, so there is no turn to remember: {error.message}", "red")
            return
        self._print(f"assistant> {answer}", "cyan")
        turn = Turn(
            turn_id=new_id(),
            user_text=said,
            assistant_text=answer,
            occurred_at=datetime.now(UTC),
            space_id=self._space_id,
            conversation_id=self._conversation_id,
            language_model=self._model,
            allow_user_memory=True,
        )
        receipt = await self._client.after_answer(self._scope, turn)
        if receipt.status in NOT_RECORDED:
            self._print(f"memory: {receipt.status.value}: {receipt.reason or ', '.join(receipt.reasons)}", "yellow")
            return
        done = await self._settled(turn.turn_id)
        flags = f" ({', '.join(done.flags)})" if done.flags else ""
        style = "green" if done.outcome is Outcome.UPDATED else "dim" if done.outcome is Outcome.NOOP else "red"
        self._print(
            f"memory: {done.outcome.value if done.outcome else 'unknown'}{f': {done.reason}' if done.reason else ''}{flags}", style
        )
        if done.outcome is Outcome.UPDATED:
            await self._show_change(before)

    def _show_injected(self, loaded: LoadedMemory) -> None:
        if not loaded.body:
            why = loaded.detail or "; ".join(loaded.reasons) or (loaded.reason.value if loaded.reason else "")
            self._print(f"nothing injected: {why}", "dim")
            return
        self._print("injected into the system prompt:", "dim")
        for line in memory_section(loaded.body).splitlines():
            self._print(f"  {line}", "dim")

    async def _answer(self, said: str, loaded: LoadedMemory, models: ModelProvider) -> str:
        if self._model.split(":")[0] == "simulated":
            return SIMULATED_ANSWER
        self._messages.append(ChatMessage("user", (PromptPart(said),)))
        system = [PromptPart(_SYSTEM, cacheable=True)]
        if loaded.body:
            system.append(PromptPart("\n\n" + memory_section(loaded.body), cacheable=True))
        request = ChatRequest(
            stage="answer",
            system=tuple(system),
            messages=tuple(self._messages),
            max_output_tokens=MAX_ANSWER_TOKENS,
            timeout_s=self._settings.model_timeout_s,
        )
        try:
            reply = await models.model(self._model).complete(request)
        except ModelError:
            self._messages.pop()
            raise
        self._messages.append(ChatMessage("assistant", (PromptPart(reply.text or "…"),)))
        return reply.text

    async def _settled(self, turn_id: str) -> TurnSummary:
        """Wait for the turn's outcome and show the notice while the profile is being rewritten."""
        deadline = asyncio.get_running_loop().time() + TURN_TIMEOUT_S
        wanted = (await self._tables.directory.facts(self._scope, self._space_id)).space.show_update_notice
        noticed = not wanted
        with self._console.status("deciding …") as status:
            while True:
                newest = await self._tables.log.summaries(scope=self._scope, limit=1)
                if newest and newest[0].turn_id == turn_id and newest[0].outcome is not None:
                    if newest[0].outcome is Outcome.UPDATED and not noticed:
                        self._print(NOTICE, "dim")  # it came and went between two looks
                    return newest[0]
                if not noticed and await self._is_updating():
                    noticed = True
                    status.update(NOTICE)
                    if not self._console.is_terminal:
                        self._print(NOTICE)
                if asyncio.get_running_loop().time() > deadline:
                    raise MemoryUnavailable(
                        f"the turn is recorded, but nobody processed it within {TURN_TIMEOUT_S:g} s: is a worker running?"
                    )
                await asyncio.sleep(_POLL_S)

    async def _is_updating(self) -> bool:
        try:
            state = await self._run.query(STATUS_QUERY, result_type=RunStatus, rpc_timeout=_QUERY_TIMEOUT)
        except RPCError:  # not begun, over already, or no worker to ask: the ledger says what came of it
            return False
        return state.stage.startswith(_UPDATING)

    async def _show_change(self, before: str) -> None:
        profile = await self._client.get_profile(self._scope)
        self._print(f"profile v{profile.version}", "dim")
        for line in unified(before, profile.body):
            self._print(f"  {line}", diff_style(line))


async def typed_lines(descriptor: int = 0) -> AsyncIterator[str]:
    """Lines of standard input.

    A daemon thread reads the bare descriptor, so that Ctrl-C neither waits for a key nor meets a lock of ``sys.stdin``.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        rest = ""
        try:
            while data := os.read(descriptor, 65_536):
                *whole, rest = (rest + decoder.decode(data)).split("\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line)
            if rest:
                loop.call_soon_threadsafe(lines.put_nowait, rest)
            loop.call_soon_threadsafe(lines.put_nowait, None)
        except (OSError, RuntimeError):  # the terminal or our event loop is gone
            return

    threading.Thread(target=read, name="standard input", daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line
