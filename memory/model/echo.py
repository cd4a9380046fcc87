"""Bullets that only repeat the task: with nothing to tell, a model may give back the text of its own prompt."""

from __future__ import annotations

from collections.abc import Iterable

from memory.model.profile import Bullet, Profile
from memory.model.recent import read_stamp
from memory.model.words import fold, tokens

_MIN_WORDS = 4
_MAX_CHARS = 1000


class Instructions:
    """The texts of the prompts, made ready for comparison."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text = "\n".join(_plain(text) for text in texts)

    def hold(self, line: str) -> bool:
        """Whether a bullet of four words and more stands in the texts, whatever the marks and line ends."""
        plain = _plain(read_stamp(line)[1][:_MAX_CHARS])
        return plain.count(" ") > _MIN_WORDS and plain in self._text


def drop_echoes(old: Profile, new: Profile, turn_text: str, instructions: Instructions) -> Profile:
    """``new`` without the bullets that are text of the prompts, unless ``old`` has them or the user said just that.

    Sub-bullets stay; ``new`` itself comes back when there is none.
    """
    known = {line for _, bullets in old.items() for bullet in bullets for line in bullet.lines}
    said: list[str] = []

    def is_echo(line: str) -> bool:
        if line in known or not instructions.hold(line):
            return False
        if not said:
            said.append(_plain(turn_text))
        return _plain(read_stamp(line)[1]) not in said[0]

    found = {line for _, bullets in new.items() for bullet in bullets for line in bullet.lines if is_echo(line)}
    if not found:
        return new
    return Profile(
        tuple(
            tuple(
                Bullet("" if bullet.text in found else bullet.text, tuple(child for child in bullet.children if child not in found))
                for bullet in bullets
            )
            for bullets in new.sections
        ),
        new.truncated,
    )


def _plain(text: str) -> str:
    """The words between single blanks, with one at each end."""
    return f" {' '.join(fold(token) for token in tokens(text))} "
