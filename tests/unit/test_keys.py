"""What a person types while a loop runs: keys at once, lines when one was asked for."""

from __future__ import annotations

import asyncio

from starter.keys import MAX_LINE_CHARS, Key, Keyboard, Line


def typed(keys: Keyboard) -> list[Key | Line]:
    found: list[Key | Line] = []
    while True:
        try:
            found.append(keys.pressed.get_nowait())
        except asyncio.QueueEmpty:
            return found


def board() -> tuple[Keyboard, list[str]]:
    echoed: list[str] = []
    return Keyboard(echoed.append), echoed


def test_keys_are_given_at_once_and_not_shown() -> None:
    keys, echoed = board()
    keys.feed("pq\n\x1b\x00é".encode())
    assert typed(keys) == [Key("p"), Key("q"), Key("é")]
    assert echoed == []


def test_a_line_is_shown_mended_and_given_whole() -> None:
    keys, echoed = board()
    keys.ask("say> ")
    for byte in "Köln, nicht\x7f\x7f 中".encode():
        keys.feed(bytes([byte]))
    assert keys.typing
    assert typed(keys) == []
    keys.feed(b"\nr")
    assert typed(keys) == [Line("Köln, nic 中"), Key("r")]
    assert not keys.typing
    assert "".join(echoed) == "say> Köln, nicht\b \b\b \b 中\n"


def test_escape_and_giving_up_leave_no_line() -> None:
    keys, _ = board()
    keys.ask("say> ")
    keys.feed(b"half\x1b")
    assert typed(keys) == [Line(None)]
    keys.ask("say> ")
    keys.feed(b"half")
    keys.give_up()
    keys.feed(b"s")
    assert typed(keys) == [Key("s")]


def test_a_line_is_bounded_and_holds_no_control_characters() -> None:
    keys, _ = board()
    keys.ask("")
    keys.feed(b"\x07\x7fa" + b"x" * (MAX_LINE_CHARS * 2) + b"\r")
    assert typed(keys) == [Line("a" + "x" * (MAX_LINE_CHARS - 1))]
