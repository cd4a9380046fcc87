"""The types of a profile and its strict form.

The types hold their own invariants: a bullet's text is one clean line, so every profile can be written and read back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from memory.model.headings import SECTIONS, TITLE

EMPTY_MARK = "_(empty)_"
TRUNCATION_MARK = "<!-- truncated to fit memory budget -->"

POSITION = {name: position for position, name in enumerate(SECTIONS)}
MARK = re.compile(r"<!--\s*truncated\s+to\s+fit\s+memory\s+budget\s*-->", re.IGNORECASE)
EMPTY = re.compile(r"[_*]*\(empty\)[_*]*\.?", re.IGNORECASE)
RULE_CHARS = frozenset("-*_+ ")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff]")
_ODD = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufeff\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Without NUL and other control characters and byte order marks; a lone surrogate becomes U+FFFD."""
    if _ODD.search(text) is None:
        return text
    # Through UTF-16 two surrogates that make a character become that character.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROLS.sub("", text)


def clean_line(text: str) -> str:
    """The text as one line: white space runs are one space, marks of the file format are gone; "" when no text is left."""
    line = " ".join(clean_text(text).split())
    if "<!--" in line:
        for _ in range(3):
            line = " ".join(MARK.sub(" ", line).split())
        # Marks inside marks inside marks: the rest is broken so that none can come together.
        line = MARK.sub("< !-- truncated to fit memory budget -->", line)
    if RULE_CHARS.issuperset(line) or ("(" in line and EMPTY.fullmatch(line)):
        return ""
    return line


@dataclass(frozen=True, slots=True)
class Bullet:
    """A bullet with its sub-bullets; texts are made one clean line each, empty sub-bullets are dropped."""

    text: str = field(repr=False)
    children: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clean_line(self.text))
        if self.children:
            cleaned = (clean_line(child) for child in self.children)
            object.__setattr__(self, "children", tuple(child for child in cleaned if child))

    @property
    def lines(self) -> tuple[str, ...]:
        """The bullet's text and those of its sub-bullets."""
        return (self.text, *self.children)


@dataclass(frozen=True, slots=True)
class Profile:
    """Six sections of bullets, in the order of ``SECTIONS``. ``truncated``: the body ends with the truncation mark.

    A bullet without text gives way to its sub-bullets. The repr shows no text.
    """

    sections: tuple[tuple[Bullet, ...], ...] = field(default=((),) * len(SECTIONS), repr=False)
    truncated: bool = False

    def __post_init__(self) -> None:
        if len(self.sections) != len(SECTIONS):
            raise ValueError(f"a profile has {len(SECTIONS)} sections, not {len(self.sections)}")
        object.__setattr__(self, "sections", tuple(_tidy(bullets) for bullets in self.sections))

    @classmethod
    def of(cls, sections: Mapping[str, Iterable[Bullet | str]], *, truncated: bool = False) -> Profile:
        """From section names to bullets; sections that are not given are empty. Raises KeyError for an unknown name."""
        rows: list[tuple[Bullet, ...]] = [()] * len(SECTIONS)
        for name, bullets in sections.items():
            rows[POSITION[name]] = tuple(b if isinstance(b, Bullet) else Bullet(b) for b in bullets)
        return cls(tuple(rows), truncated)

    def section(self, name: str) -> tuple[Bullet, ...]:
        """The bullets of a section. Raises KeyError for an unknown name."""
        return self.sections[POSITION[name]]

    def with_section(self, name: str, bullets: Iterable[Bullet]) -> Profile:
        """A copy with other bullets in one section. Raises KeyError for an unknown name."""
        rows = list(self.sections)
        rows[POSITION[name]] = tuple(bullets)
        return Profile(tuple(rows), self.truncated)

    def with_truncated(self, truncated: bool) -> Profile:
        return self if truncated == self.truncated else replace(self, truncated=truncated)

    def items(self) -> Iterator[tuple[str, tuple[Bullet, ...]]]:
        """``(section name, bullets)`` in the order of the file."""
        return zip(SECTIONS, self.sections, strict=True)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known: no section has a bullet."""
        return not any(self.sections)

    @property
    def bullet_count(self) -> int:
        """Bullets and sub-bullets."""
        return sum(1 + len(bullet.children) for bullets in self.sections for bullet in bullets)


def _tidy(bullets: Iterable[Bullet]) -> tuple[Bullet, ...]:
    row = tuple(bullets)
    if all(bullet.text for bullet in row):
        return row
    return tuple(kept for bullet in row for kept in ([bullet] if bullet.text else [Bullet(child) for child in bullet.children]))


EMPTY_PROFILE = Profile()


def render_body(profile: Profile) -> str:
    """The strict form: title, the six sections, ``_(empty)_`` in an empty one, the truncation mark last; ends with a line end."""
    blocks = [f"# {TITLE}"]
    for name, bullets in profile.items():
        lines = [f"## {name}"]
        for bullet in bullets:
            lines.append(f"- {bullet.text}")
            lines.extend(f"  - {child}" for child in bullet.children)
        if not bullets:
            lines.append(EMPTY_MARK)
        blocks.append("\n".join(lines))
    if profile.truncated:
        blocks.append(TRUNCATION_MARK)
    return "\n\n".join(blocks) + "\n"
