"""Single keys and typed lines from one terminal, without a thread that waits for ever.

While a line is typed (an interjection, an answer), keys go into it; else each key is given at once.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

MAX_LINE_CHARS: Final = 8_000
_ERASE: Final = ("\x7f", "\b")
_END: Final = ("\r", "\n")
_ESCAPE: Final = "\x1b"


@dataclass(frozen=True, slots=True)
class Key:
    """A key outside a line."""

    char: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was asked for with :meth:`Keyboard.ask`; None: given up with Escape."""

    text: str | None


class Keyboard:
    """What is typed. Control characters other than Enter, Backspace and Escape are dropped; Ctrl-C stays a signal.

    Args:
        echo: writes what a person types into a line.
    """

    def __init__(self, echo: Callable[[str], None]) -> None:
        self.pressed: asyncio.Queue[Key | Line] = asyncio.Queue()
        self._echo = echo
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._line: list[str] | None = None

    @property
    def typing(self) -> bool:
        return self._line is not None

    def ask(self, prompt: str) -> None:
        """Begin a line."""
        self._line = []
        self._echo(prompt)

    def give_up(self) -> None:
        """End a line without an outcome."""
        if self._line is not None:
            self._line = None
            self._echo("\n")

    def feed(self, data: bytes) -> None:
        for char in self._decoder.decode(data):
            self._take(char)

    def _take(self, char: str) -> None:
        line = self._line
        if line is None:
            if char.isprintable():
                self.pressed.put_nowait(Key(char))
        elif char in _END:
            self._line = None
            self._echo("\n")
            self.pressed.put_nowait(Line("".join(line)))
        elif char == _ESCAPE:
            self._line = None
            self._echo("\n")
            self.pressed.put_nowait(Line(None))
        elif char in _ERASE:
            if line:
                line.pop()
                self._echo("\b \b")
        elif char.isprintable() and len(line) < MAX_LINE_CHARS:
            line.append(char)
            self._echo(char)


@contextmanager
def keyboard(echo: Callable[[str], None]) -> Generator[Keyboard | None]:
    """The keyboard of this terminal while the block runs; None where standard input is none. The terminal is put back after."""
    descriptor = 0
    if not os.isatty(descriptor) or not sys.stderr.isatty():
        yield None
        return
    keys = Keyboard(echo)
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(descriptor, 4096)
        if data:
            keys.feed(data)
        else:
            loop.remove_reader(descriptor)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield keys
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
