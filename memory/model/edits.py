"""The ``edits`` mode: the model sees numbered bullets and names what changes; the program makes the complete profile.

Numbers are a section's letter and a count, ``W3``, and ``W3.1`` for a sub-bullet. All edits speak of the numbers of the profile
that the model saw. What no edit names stays, word for word: a deleted bullet's sub-bullets too, which then stand on their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast, get_args

from memory.model.errors import MalformedOutput
from memory.model.headings import read_heading
from memory.model.profile import EMPTY_MARK, SECTIONS, Bullet, Profile, clean_line
from memory.model.recent import stamp_recent_topics
from memory.model.reply import NOOP, Noop, find_json, is_placeholder, parse_gate

MAX_EDITS = 100
MAX_TEXT_CHARS = 2000

LETTERS: dict[str, str] = {name: name[0] for name in SECTIONS}
"""Section → the letter of its numbers: I, C, W, S, R, F."""

Op = Literal["add", "update", "delete", "move"]
_OPS: tuple[Op, ...] = get_args(Op)
_SYNONYMS: dict[str, Op | Literal["noop"]] = {
    "insert": "add", "create": "add", "append": "add", "replace": "update", "edit": "update", "modify": "update",
    "remove": "delete", "drop": "delete", "noop": "noop", "none": "noop", "keep": "noop",
}  # fmt: skip
_NUMBER = re.compile(r"([ICWSRF])\s*(\d{1,6})(?:\s*[.\-]\s*(\d{1,6}))?", re.IGNORECASE)
_JSON_KEY = re.compile(r'"(?:edits|op)"')
"""A reply with one of these is read as JSON only: the text of an edit may end in "the answer is NOOP"."""
_STRING: dict[str, Any] = {"type": "string"}


def _variant(op: Op, **properties: Any) -> dict[str, Any]:
    fields = {"op": {"type": "string", "enum": [op]}, **properties}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


_TARGET = {"type": "string", "description": "number of the bullet, for instance W3 or W3.1"}
_TO = {"type": "string", "description": "letter of the section (I, C, W, S, R, F), or number of a bullet to stand under, W3"}

EDITS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "edits": {
            "type": "array",
            "items": {
                "anyOf": [
                    _variant("add", to=_TO, text=_STRING),
                    _variant("update", target=_TARGET, text=_STRING),
                    _variant("delete", target=_TARGET),
                    _variant("move", target=_TARGET, to=_TO),
                ]
            },
        }
    },
    "required": ["edits"],
    "additionalProperties": False,
}
"""For structured output; an empty list means that nothing changes. ``{"edits": [{"op": "add", "to": "W", "text": "…"}]}``"""


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """A bullet's number: section (0 to 5), bullet (from 1), sub-bullet (from 1; 0 for the bullet itself)."""

    section: int
    bullet: int
    child: int = 0

    def __str__(self) -> str:
        return f"{SECTIONS[self.section][0]}{self.bullet}" + (f".{self.child}" if self.child else "")


@dataclass(frozen=True, slots=True)
class Edit:
    """One operation. ``to``: a section's place (0 to 5), or the bullet to stand under."""

    op: Op
    target: Number | None = None
    to: int | Number | None = None
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Edits:
    """One or more operations, checked for form; :func:`apply_edits` checks them against a profile."""

    edits: tuple[Edit, ...]


def number_bullets(profile: Profile) -> str:
    """The profile as the model sees it: every bullet begins with its number ("W3: text", "  W3.1: text")."""
    blocks: list[str] = []
    for place, (name, bullets) in enumerate(profile.items()):
        lines = [f"## {name} ({LETTERS[name]})"]
        for position, bullet in enumerate(bullets, 1):
            lines.append(f"{Number(place, position)}: {bullet.text}")
            lines.extend(f"  {Number(place, position, count)}: {child}" for count, child in enumerate(bullet.children, 1))
        if not bullets:
            lines.append(EMPTY_MARK)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def parse_edits(text: str) -> Edits | Noop:
    """Read a reply: JSON as in ``EDITS_SCHEMA``, fenced or with prose around it; NOOP or an empty list is Noop.

    Raises:
        MalformedOutput: no (complete) JSON, several objects, an operation that lacks something, too many or too long.
    """
    if _JSON_KEY.search(text) is None and parse_gate(text) is False:
        return NOOP
    items = find_json(text, "edits")["edits"]
    if not isinstance(items, list):
        raise MalformedOutput('"edits" is not a list')
    items = cast(list[Any], items)
    if len(items) > MAX_EDITS:
        raise MalformedOutput(f"{len(items)} edits; at most {MAX_EDITS} are applied at once")
    edits = tuple(edit for place, item in enumerate(items, 1) if (edit := _read_edit(item, f"edit {place}")) is not None)
    return Edits(edits) if edits else NOOP


def _read_edit(item: Any, name: str) -> Edit | None:
    if not isinstance(item, dict):
        raise MalformedOutput(f"{name} is not an object")
    given = {str(key).lower(): value for key, value in cast(dict[Any, Any], item).items()}
    word = _text_of(given, name, "op", "operation", "action").lower()
    op = _SYNONYMS.get(word, word)
    if op == "noop":
        return None
    if op not in _OPS:
        raise MalformedOutput(f"{name} has no operation of {', '.join(_OPS)}")
    target = to = None
    text = _bullet_text(_text_of(given, name, "text", "content", "value"))
    if len(text) > MAX_TEXT_CHARS:
        raise MalformedOutput(f"{name} has a text of {len(text)} characters; at most {MAX_TEXT_CHARS} are taken")
    if op in ("add", "update") and not text:
        raise MalformedOutput(f"{name} ({op}) has no text")
    if op != "add":
        target = _read_number(_text_of(given, name, "target", "number", "id", "bullet"))
        if target is None:
            raise MalformedOutput(f"{name} ({op}) has no bullet number as its target")
    if op in ("add", "move"):
        to = _read_place(_text_of(given, name, "to", "section", "parent"))
        if to is None:
            raise MalformedOutput(f'{name} ({op}) needs "to": a section letter ({", ".join(LETTERS.values())}) or a bullet number')
    return Edit(op, target, to, text if op != "delete" else "")


def _text_of(given: dict[str, Any], name: str, *keys: str) -> str:
    for key in keys:
        value = given.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise MalformedOutput(f'"{key}" of {name} is not a string')
        if value.strip():
            return value.strip()
    return ""


def _bullet_text(text: str) -> str:
    """One line, without the bullet mark and the number that a model may put before it; "" for the blank of a form ("…")."""
    line = re.sub(r"^(?:[-*+•]\s+)+", "", clean_line(text))
    line = clean_line(re.sub(rf"^(?:{_NUMBER.pattern}):\s+", "", line))
    return "" if is_placeholder(line) else line


def _read_number(text: str) -> Number | None:
    found = _NUMBER.fullmatch(text.strip(" \t[]()#:.*`-"))
    if found is None:
        return None
    return Number(next(p for p, s in enumerate(SECTIONS) if s[0] == found[1].upper()), int(found[2]), int(found[3] or 0))


def _read_place(text: str) -> int | Number | None:
    word = text.strip(" \t[]():.*`-")
    for place, name in enumerate(SECTIONS):
        if word.upper() == LETTERS[name]:
            return place
    if number := _read_number(word):
        return number
    heading = read_heading(text if text.startswith("#") else f"## {word}")
    return SECTIONS.index(heading.section) if heading and heading.section else None


def apply_edits(profile: Profile, edits: Edits, *, occurred_at: datetime | None = None) -> Profile:
    """The complete profile after all edits.

    ``occurred_at``: the time of the turn, with a zone; new Recent Topics get it as their stamp. An added text that its section
    already has is not added again. The truncation mark is gone.

    Raises:
        MalformedOutput: a target that does not exist, or that two edits name; says which number.
    """
    board = _Board(profile)
    for edit in edits.edits:
        board.check(edit)
    for edit in edits.edits:
        board.apply(edit)
    result = board.finish()
    return result if occurred_at is None else stamp_recent_topics(profile, result, occurred_at)


class _Node:
    """A bullet on the board. Deleted nodes stay in place until the end, so that numbers keep their meaning."""

    __slots__ = ("children", "deleted", "is_new", "parent", "section", "text")

    def __init__(self, text: str, section: int, parent: _Node | None = None, *, is_new: bool = False) -> None:
        self.text = text
        self.section = section
        self.parent = parent
        self.is_new = is_new
        self.deleted = False
        self.children: list[_Node] = []


class _Board:
    def __init__(self, profile: Profile) -> None:
        self._rows: list[list[_Node]] = [[] for _ in SECTIONS]
        self._nodes: dict[Number, _Node] = {}
        self._named: set[Number] = set()
        for section, bullets in enumerate(profile.sections):
            for position, bullet in enumerate(bullets, 1):
                node = self._nodes[Number(section, position)] = _Node(bullet.text, section)
                self._rows[section].append(node)
                for count, text in enumerate(bullet.children, 1):
                    child = self._nodes[Number(section, position, count)] = _Node(text, section, node)
                    node.children.append(child)

    def check(self, edit: Edit) -> None:
        for number in (edit.target, edit.to):
            if isinstance(number, Number) and number not in self._nodes:
                raise MalformedOutput(f"there is no bullet {number}")
        if edit.target is not None:
            if edit.target in self._named:
                raise MalformedOutput(f"{edit.target} is named by more than one edit")
            self._named.add(edit.target)

    def apply(self, edit: Edit) -> None:
        if edit.target is None:
            self._put(_Node(edit.text, 0, is_new=True), edit)
            return
        node = self._nodes[edit.target]
        if edit.op == "delete":
            node.deleted = True
            return
        node.text = edit.text or node.text
        if edit.op == "move":
            self._siblings(node).remove(node)
            self._put(node, edit)

    def _siblings(self, node: _Node) -> list[_Node]:
        return self._rows[node.section] if node.parent is None else node.parent.children

    def _put(self, node: _Node, edit: Edit) -> None:
        """At the end of a section, or under a bullet; two levels at most, so sub-bullets come along as siblings."""
        parent = None
        if isinstance(edit.to, Number):
            parent = self._nodes[edit.to]
            parent = parent.parent or parent
            if parent is node:
                raise MalformedOutput(f"{edit.target} cannot be moved under itself")
        section = parent.section if parent else cast(int, edit.to)
        moved = [node]
        if parent is not None:
            moved += node.children
            node.children = []
        for each in moved:
            each.parent, each.section = parent, section
            self._siblings(each).append(each)
        for child in node.children:
            child.section = section

    def finish(self) -> Profile:
        return Profile(tuple(tuple(self._standing(row)) for row in self._rows))

    def _standing(self, row: list[_Node]) -> Iterator[Bullet]:
        nodes = [each for node in row for each in (node, *node.children) if not each.deleted]
        known = {each.text.casefold() for each in nodes if not each.is_new}
        repeated: set[int] = set()
        for each in nodes:
            if each.is_new and each.text.casefold() in known:
                repeated.add(id(each))
            known.add(each.text.casefold())
        for node in row:
            children = [child for child in node.children if not child.deleted and id(child) not in repeated]
            if node.deleted or id(node) in repeated:
                yield from (Bullet(child.text) for child in children)
            else:
                yield Bullet(node.text, tuple(child.text for child in children))
