"""Reading a profile generously: whatever the text, it gives a profile and keeps every word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from memory.model.headings import IDENTITY, SECTIONS, WORK_CONTEXT, Heading, read_heading, read_underlined
from memory.model.profile_form import EMPTY, MARK, POSITION, RULE_CHARS, Bullet, Profile, clean_text

_MARKERS = frozenset("-*+•‣◦▪●○·∙–—")
_ORDERED = re.compile(r"\d{1,3}[.)]\s+\S")
_KEY_VALUE = re.compile(r"[^\s:：][^:：]{0,40}[:：]\s")
_YAML_KEY = re.compile(r"[A-Za-z_\"'][\w.\"'-]{0,99}[ \t]*:(?:\s.*|)")
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]{0,4}([^\s`~]*)")
_TEXT_FENCES = frozenset({"", "md", "markdown", "text", "txt"})
_FRONTMATTER = re.compile(r"\s*---[ \t]*\r?\n(?:(.*?)\r?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_MAX_TYPO_HEADINGS = 200


def split_frontmatter(text: str) -> tuple[str | None, str]:
    """``(YAML text, body)``; None when the text does not begin with a closed ``---`` block. Line ends stay as they are."""
    found = _FRONTMATTER.match(text)
    if found is None:
        return None, text
    return found[1] or "", text[found.end() :].lstrip("\r\n")


def parse_body(text: str, *, is_stored: bool = False) -> Profile:
    """Read a profile from any text; never raises.

    Args:
        is_stored: the text is the body of a stored file, whose frontmatter is off already. Otherwise a block of ``key: value``
            lines at its top is somebody's frontmatter, which is none of a body's business.

    Understood: sections in another order, of another heading level, twice, with a misspelt name; no title; CRLF, BOM; bullets
    with other marks; wrapped lines; paragraphs; code fences; deeper nesting (brought to two levels). Text under an unknown
    heading, under none, or in place of a missing section is kept (see ``_place``). Only marks are dropped: title, section headings,
    ``_(empty)_``, rules, fences around the whole, the truncation mark (it sets ``truncated``), the program's own frontmatter.
    """
    text = clean_text(text)
    frontmatter, body = split_frontmatter(text)
    if frontmatter is not None and ("schema_version:" in frontmatter or (not is_stored and _is_key_block(frontmatter))):
        text = body
    text, marks = MARK.subn(" ", text)
    return Profile(_place(_Reader(text.splitlines()).read()), truncated=marks > 0)


def _is_key_block(block: str) -> bool:
    """Whether every line is ``key: value``, indented below such a line, a comment, or blank; and there is a key."""
    keys = 0
    for line in block.splitlines():
        if not line.strip():
            continue
        if line[0] == "#":
            heading = read_heading(line, typos=False)
            if heading is not None and (heading.section or heading.is_title):
                return False
        elif _YAML_KEY.fullmatch(line):
            keys += 1
        elif not keys or line[0] not in " \t":
            return False
    return keys > 0


class _Item:
    """A bullet that is being read: pieces of text and sub-items."""

    __slots__ = ("children", "is_paragraph", "parts")

    def __init__(self, text: str, *, is_paragraph: bool) -> None:
        self.parts = [text]
        self.children: list[_Item] = []
        self.is_paragraph = is_paragraph

    def finish(self) -> Bullet:
        return Bullet(" ".join(self.parts), tuple(" ".join(child.parts) for child in self.children))


@dataclass(slots=True)
class _Block:
    """A heading (None: the text before the first) with what stands under it."""

    heading: Heading | None
    items: list[_Item]

    def bullets(self) -> list[Bullet]:
        """A heading that names no section becomes a bullet above what stood under it."""
        found = [item.finish() for item in self.items]
        if self.heading is None or self.heading.section:
            return found
        return [Bullet(self.heading.rest, tuple(line for bullet in found for line in bullet.lines))]


class _Reader:
    """One pass over the lines of a body."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._headings = 0
        self._blocks = [_Block(None, [])]
        self._last: _Item | None = None
        self._indent = 0
        self._after_blank = False

    def read(self) -> list[_Block]:
        lines = self._lines
        fences = _fence_ends(lines) if any("```" in line or "~~~" in line for line in lines) else {}
        number = 0
        while number < len(lines):
            line = lines[number]
            text = line.strip()
            if not text:
                self._after_blank = True
                number += 1
                continue
            end = fences.get(number)
            if end is not None:
                self._take_text(line, text) if not _is_bullet(text) else self._take_bullet(line, text[1:].lstrip())
                assert self._last is not None  # noqa: S101  (both calls set it)
                self._last.parts.extend(inner.strip() for inner in lines[number + 1 : end + 1])
                number = end
            elif _is_bullet(text):
                self._take_bullet(line, text[1:].lstrip())
            elif not self._take_heading(number, line, text) and not _is_mark(text):
                if _ORDERED.match(text):
                    self._take_bullet(line, text)
                else:
                    self._take_text(line, text)
            self._after_blank = False
            number += 1
        return self._blocks

    def _take_heading(self, number: int, line: str, text: str) -> bool:
        heading = read_heading(line, typos=self._headings < _MAX_TYPO_HEADINGS)
        if heading is None:
            heading = self._read_underlined(number, text)
        if heading is None:
            return False
        self._headings += 1
        self._last = None
        if not heading.is_title:
            self._blocks.append(_Block(heading, []))
            if heading.section and heading.rest:
                self._take_text(heading.rest, heading.rest)
        return True

    def _read_underlined(self, number: int, text: str) -> Heading | None:
        below = self._lines[number + 1].strip() if number + 1 < len(self._lines) else ""
        if len(below) < 3 or not (set(below) == {"="} or set(below) == {"-"}) or _is_mark(text):
            return None
        heading = read_underlined(text, 1 if below[0] == "=" else 2)
        # Text above a rule of dashes is more often a paragraph than a heading.
        return heading if heading.section or heading.is_title or below[0] == "=" else None

    def _take_bullet(self, line: str, text: str) -> None:
        indent = _indent(line)
        items = self._blocks[-1].items
        item = _Item(text, is_paragraph=False)
        if items and indent >= self._indent + 2 and self._last is not None:
            items[-1].children.append(item)
        else:
            items.append(item)
            self._indent = indent
        self._last = item

    def _take_text(self, line: str, text: str) -> None:
        last = self._last
        if last is not None:
            wrapped = not self._after_blank and not (last.is_paragraph and _KEY_VALUE.match(text))
            if wrapped or line.startswith(("  ", "\t")):
                last.parts.append(text)
                return
        item = _Item(text, is_paragraph=True)
        self._blocks[-1].items.append(item)
        self._last, self._indent = item, 0


def _is_bullet(text: str) -> bool:
    return text[0] in _MARKERS and len(text) > 1 and text[1] in " \t\xa0"


def _is_mark(text: str) -> bool:
    """Rules, ``_(empty)_``, and code fences that hold nothing or the whole."""
    if RULE_CHARS.issuperset(text) or (len(text) > 2 and set(text) == {"="}) or EMPTY.fullmatch(text):
        return True
    fence = _FENCE.fullmatch(text)
    return fence is not None and fence[2].casefold() in _TEXT_FENCES


def _indent(line: str) -> int:
    if not line[0].isspace():
        return 0
    head = line[: len(line) - len(line.lstrip())]
    return len(head.expandtabs(4)) if "\t" in head else len(head)


def _fence_ends(lines: list[str]) -> dict[int, int]:
    """From the line that opens a code fence to the one that closes it; fences around sections or bullets are not code."""
    ends: dict[int, int] = {}
    closing: dict[str, int | None] = {"`": None, "~": None}
    next_close: list[dict[str, int | None]] = [closing] * len(lines)
    # From the end: for every line, the next bare fence below it before a section's heading.
    for number in range(len(lines) - 1, -1, -1):
        next_close[number] = closing
        text = lines[number].strip()
        if text.startswith(("```", "~~~")) and set(text) == {text[0]}:
            closing = {**closing, text[0]: number}
        elif (heading := read_heading(lines[number], typos=False)) and heading.section:
            closing = {"`": None, "~": None}
    number = 0
    while number < len(lines):
        end = _fence_end(lines, number, next_close[number])
        if end is not None:
            ends[number] = end
            number = end
        number += 1
    return ends


def _fence_end(lines: list[str], number: int, next_close: Mapping[str, int | None]) -> int | None:
    text = lines[number].strip()
    inner_of = -1
    if text and _is_bullet(text):
        inner_of = _indent(lines[number])
        text = text[1:].lstrip()
    opening = _FENCE.fullmatch(text)
    if opening is None:
        return None
    end = next_close[opening[1][0]]
    if end is None or len(lines[end].strip()) < len(opening[1]):
        return None
    content = [line for line in lines[number + 1 : end + 1] if line.strip()]
    if any(_indent(line) <= inner_of for line in content):
        return None
    if opening[2].casefold() in _TEXT_FENCES and any(_is_bullet(line.strip()) for line in content):
        return None
    return end


def _place(blocks: list[_Block]) -> tuple[tuple[Bullet, ...], ...]:
    """Give every block a section.

    Under a heading of deeper level than its section's: that section. Unknown headings between two known ones that are as many
    as the sections missing there: those sections, in order (they were renamed or translated). Text before the first heading:
    Identity, if only its heading is missing. Everything else: Work Context, which is neither cut first nor guarded.
    """
    rows: list[list[Bullet]] = [[] for _ in SECTIONS]
    known = {block.heading.section for block in blocks if block.heading and block.heading.section}
    levels = Counter(block.heading.level for block in blocks if block.heading)
    usual = levels.most_common(1)[0][0] if levels else 0
    section, level = None, 0
    strays: list[list[_Block]] = [[]]
    bounds: list[int] = []
    homes: dict[int, str] = {}
    for block in blocks:
        heading = block.heading
        if heading is None:
            continue
        if heading.section:
            section, level = heading.section, heading.level
            bounds.append(POSITION[section])
            strays.append([])
            homes[id(block)] = section
        elif section and heading.level > level:
            homes[id(block)] = section
        elif heading.level == usual:
            strays[-1].append(block)
    for before, after, between in zip([-1, *bounds], [*bounds, len(SECTIONS)], strays, strict=True):
        missing = [name for name in SECTIONS[before + 1 : after] if name not in known]
        if len(missing) == len(between):
            homes.update({id(block): name for block, name in zip(between, missing, strict=True)})
    leading = IDENTITY if known and IDENTITY not in known and IDENTITY not in homes.values() else WORK_CONTEXT
    in_front = True
    for block in blocks:
        in_front = in_front and not (block.heading and block.heading.section)
        home = homes.get(id(block)) or (leading if in_front else WORK_CONTEXT)
        rows[POSITION[home]].extend(block.bullets())
    return tuple(tuple(row) for row in rows)
