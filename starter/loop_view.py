"""A knowledge loop as it runs, on a terminal: every step, and the keys that steer it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.text import Text

from memory.model.errors import AfterturnError, InvalidInput, LoopEnded
from memory.model.knowledge_loop import Entry, EntryKind, LoopState, settled_by
from starter.cli.output import one_line
from starter.keys import Key, Keyboard, Line, keyboard
from starter.steering import LoopAnswer, SteerableHandle

POLL_S: Final = 0.2
SHOWN_CHARS: Final = 160
HELP: Final = "keys: p pause, r resume, i interject, a ask about it, s stop"
ANSWER_HELP: Final = f"{HELP}, c answer its question"
_ROWS: Final[TypeAdapter[dict[str, list[dict[str, Any]]] | list[dict[str, Any]]]] = TypeAdapter(
    dict[str, list[dict[str, Any]]] | list[dict[str, Any]]
)
_ENDED: Final[Mapping[LoopState, str]] = {
    LoopState.STOPPED: "stopped",
    LoopState.LIMIT: "ended at its limit",
    LoopState.FAILED: "failed",
}


def shortened(text: str, limit: int = SHOWN_CHARS) -> str:
    line = one_line(text)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def entry_lines(entry: Entry) -> list[tuple[str, str]]:
    """Lines that show one entry, with their styles."""
    body = entry.body
    match entry.kind:
        case EntryKind.MODEL:
            calls = body.get("calls") or ()
            lines = [(f"{entry.step:>3}  {_call(call)}", "cyan") for call in calls]
            said = str(body.get("text") or "").strip()
            if said and calls:
                lines.insert(0, (f"     {shortened(said)}", "dim"))
            return lines or [(f"{entry.step:>3}  answers", "cyan")]
        case EntryKind.RESULT:
            return [_result(body)]
        case EntryKind.INTERJECTION:
            return [(f"  »  {shortened(str(body.get('text')))}", "bold")]
        case EntryKind.CLARIFICATION:
            return [(f"  ?  {shortened(str(body.get('question')), 1_000)}", "bold yellow")]
        case EntryKind.ANSWER:
            return [(f"  »  {shortened(str(body.get('text')))}", "bold")]
        case EntryKind.NOTICE:
            return [(f"  ·  {shortened(str(body.get('text')))}", "dim")]
        case EntryKind.SIDE_QUESTION:
            return [(f"  »  (beside) {shortened(str(body.get('text')))}", "bold")]
        case EntryKind.SIDE_ANSWER:
            return [(f"  «  {shortened(str(body.get('text')), 1_000)}", "")]
        case EntryKind.STOP:
            return [("  »  stop", "bold")]
        case EntryKind.PAUSE:
            return [("  »  pause" if body.get("paused") else "  »  resume", "bold")]


def _call(call: Mapping[str, Any]) -> str:
    arguments = call.get("arguments")
    shown = "…" if arguments is None else ", ".join(f"{name}={_value(value)}" for name, value in arguments.items())
    return shortened(f"{call.get('name')}({shown})")


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _result(body: Mapping[str, Any]) -> tuple[str, str]:
    content = str(body.get("content") or "")
    if not body.get("is_error"):
        return f"     → {shortened(_rows_of(content))}", "green"
    try:
        message = json.loads(content)
        said = f"{message['error']}: {message['message']}"
    except (ValueError, KeyError, TypeError):
        said = content
    return f"     → {shortened(said)}", "yellow"


def _rows_of(content: str) -> str:
    """How many rows a read gave, and the first one; anything else as it is."""
    try:
        found = _ROWS.validate_json(content)
    except ValidationError:
        return content
    tables = found if isinstance(found, dict) else {"": found}
    counts = ", ".join(
        f"{name + ': ' if name else ''}{len(rows)} row{'' if len(rows) == 1 else 's'}" for name, rows in tables.items()
    )
    first = next((rows[0] for rows in tables.values() if rows), None)
    return counts if first is None else f"{counts}; {', '.join(f'{name}={_value(value)}' for name, value in first.items())}"


class LoopView:
    """Follows one loop to its end.

    Args:
        handle: of the loop.
        console: where steps are shown.
        steer: whether keys are read; only on a terminal.
    """

    def __init__(self, handle: SteerableHandle, console: Console, *, steer: bool = True) -> None:
        self._handle = handle
        self._console = console
        self._steer = steer
        self._entries: list[Entry] = []
        self._left_open: set[str] = set()
        self._asking = ""
        """Id of the question whose answer is typed, ``i`` for an interjection, ``a`` for a question beside."""
        self._beside: set[asyncio.Task[None]] = set()

    async def follow(self) -> LoopAnswer:
        """Show what happens until it ends. Raises MemoryUnavailable. Whoever cancels this leaves the loop running."""
        if not self._steer:
            return await self._follow(None)
        with keyboard(self._echo) as keys:
            if keys is not None:
                self._print(f"     {HELP}", "dim")
            return await self._follow(keys)

    async def _follow(self, keys: Keyboard | None) -> LoopAnswer:
        ending = asyncio.create_task(self._handle.result())
        pressing = asyncio.create_task(self._press(keys)) if keys is not None else None
        try:
            while not ending.done():
                await self._show(keys)
                await asyncio.wait((ending,), timeout=POLL_S)
            if keys is not None:
                keys.give_up()
            await self._show(None)
            answer = ending.result()
        finally:
            for task in (ending, pressing, *self._beside):
                if task is not None:
                    task.cancel()
        if answer.state in _ENDED:
            why = f" ({answer.reason})" if answer.reason else ""
            self._print(f"     {_ENDED[answer.state]}{why} after {answer.steps} steps", "bold yellow")
        return answer

    async def _show(self, keys: Keyboard | None) -> None:
        # Nothing is written into a line that somebody types.
        if keys is not None and keys.typing:
            return
        for entry in await self._handle.history(after=self._entries[-1].number if self._entries else 0):
            self._entries.append(entry)
            for line, style in entry_lines(entry):
                self._print(line, style)
        if keys is not None and (asked := _open_question(self._entries)) is not None and asked not in self._left_open:
            self._answer(asked, keys)

    def _answer(self, asked: str, keys: Keyboard) -> None:
        self._asking = asked
        keys.ask("  answer> ")

    async def _press(self, keys: Keyboard) -> None:
        while True:
            pressed = await keys.pressed.get()
            try:
                await self._pressed(pressed, keys)
            except LoopEnded:
                self._print("     it has ended", "dim")
            except AfterturnError as error:
                self._print(f"     {error.message}", "yellow")

    async def _pressed(self, pressed: Key | Line, keys: Keyboard) -> None:
        if isinstance(pressed, Line):
            await self._typed(pressed.text)
            return
        match pressed.char:
            case "p":
                await self._handle.pause()
                self._print("     paused before its next step; r resumes", "bold")
            case "r":
                await self._handle.resume()
                self._print("     goes on", "bold")
            case "s":
                await self._handle.stop("stopped at the terminal")
            case "i" | "a":
                self._asking = pressed.char
                keys.ask("  correct it> " if pressed.char == "i" else "  ask about it> ")
            case "c" if (asked := _open_question(self._entries)) is not None:
                self._answer(asked, keys)
            case _:
                self._print(f"     {HELP if _open_question(self._entries) is None else ANSWER_HELP}", "dim")

    async def _typed(self, text: str | None) -> None:
        asking, self._asking = self._asking, ""
        if not text or not text.strip():
            if asking not in ("i", "a"):
                self._left_open.add(asking)
                self._print("     the question stays open; c answers it", "dim")
            return
        if asking == "i":
            await self._handle.interject(text)
        elif asking == "a":
            beside = asyncio.create_task(self._ask(text))
            self._beside.add(beside)
            beside.add_done_callback(self._beside.discard)
        else:
            await self._handle.answer_clarification(asking, text)

    async def _ask(self, text: str) -> None:
        """The answer is an entry, which is shown like all others."""
        try:
            await self._handle.ask(text)
        except (AfterturnError, TimeoutError) as error:
            self._print(f"     no answer: {error}", "yellow")

    def _print(self, line: str, style: str) -> None:
        self._console.print(Text(line, style=style))

    def _echo(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def _open_question(entries: Sequence[Entry]) -> str | None:
    keys = {entry.key for entry in entries}
    for entry in entries:
        if entry.kind is EntryKind.CLARIFICATION and keys.isdisjoint(settled_by(entry.key)):
            return entry.key
    return None


async def clarified(handle: SteerableHandle, answer: str) -> None:
    """Answer the open question of a loop. Raises InvalidInput where there is none."""
    asked = _open_question(await handle.history())
    if asked is None:
        raise InvalidInput(f"the loop {handle.loop_id} asks nothing now")
    await handle.answer_clarification(asked, answer)
