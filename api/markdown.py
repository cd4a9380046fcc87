"""A profile as HTML that cannot run script: bullets by our own hand, their text through a Markdown renderer without HTML, and the
result through a sanitizer that knows a dozen tags. Pictures are not shown: they would tell another host who reads this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import nh3
from markdown_it import MarkdownIt

from memory.model.profile import Bullet, Profile

MAX_LINES: Final = 1_000
"""Bullets and sub-bullets that are shown."""
MAX_LINE_CHARS: Final = 4_000
"""Of one bullet that are shown."""
MAX_CHARS: Final = 200_000
_TAGS: Final = {"ul", "li", "em", "strong", "code", "s", "a", "br"}
_LINK_REL: Final = "noopener noreferrer nofollow"


@dataclass(frozen=True, slots=True)
class RenderedSection:
    """``html``: safe to put into a page; empty for an empty section."""

    title: str
    html: str
    lines: int


@dataclass(frozen=True, slots=True)
class RenderedProfile:
    """``complete``: everything is shown."""

    sections: tuple[RenderedSection, ...]
    complete: bool


def render_profile(profile: Profile) -> RenderedProfile:
    """All six sections; of a very long profile the beginning."""
    left = _Left(MAX_LINES, MAX_CHARS)
    sections = tuple(
        RenderedSection(title, _section(bullets, left), sum(1 + len(bullet.children) for bullet in bullets))
        for title, bullets in profile.items()
    )
    return RenderedProfile(sections, complete=not left.cut)


@dataclass
class _Left:
    lines: int
    chars: int
    cut: bool = False

    def take(self, text: str) -> str | None:
        """The part of a line that is shown; None when no line is shown any more."""
        if self.lines <= 0 or self.chars <= 0:
            self.cut = True
            return None
        self.lines -= 1
        shown = text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + " …"
        self.cut = self.cut or shown is not text
        self.chars -= len(shown)
        return shown


def _section(bullets: Sequence[Bullet], left: _Left) -> str:
    items: list[str] = []
    for bullet in bullets:
        text = left.take(bullet.text)
        if text is None:
            break
        children = [_inline(shown) for child in bullet.children if (shown := left.take(child)) is not None]
        nested = f"<ul>{''.join(f'<li>{child}</li>' for child in children)}</ul>" if children else ""
        items.append(f"<li>{_inline(text)}{nested}</li>")
    return _safe(f"<ul>{''.join(items)}</ul>") if items else ""


def _inline(text: str) -> str:
    return _markdown().renderInline(text)


def _safe(html: str) -> str:
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes={"a": {"href"}, "*": set()},
        url_schemes={"http", "https", "mailto"},
        link_rel=_LINK_REL,
        strip_comments=True,
    )


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("strikethrough").disable("image")
