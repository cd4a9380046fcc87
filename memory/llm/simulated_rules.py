"""From what the user said to what changes in the profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.llm.simulated_chinese import CHINESE
from memory.llm.simulated_english import ENGLISH
from memory.llm.simulated_german import GERMAN
from memory.llm.simulated_patterns import Pattern
from memory.llm.simulated_prompt import SpokenTurn
from memory.llm.simulated_slots import SLOTS, Statement, read_bullet
from memory.llm.simulated_text import is_attributed, is_cjk, likeness, sameness, sentences, without_stamp, words
from memory.model.profile import SECTIONS, Bullet, Profile

_FIRST_PERSON = re.compile(r"\b(?:I|I'm|I've|I'll|ich|mein\w*|my)\b", re.IGNORECASE)
_JOINED = re.compile(r"(?:and|und)\b", re.IGNORECASE)
_LATIN = re.compile(r"[A-Za-z]")
_SAME = 0.99
_LIKE = 0.5
_ALIKE = 0.75


def statements(turns: Sequence[SpokenTurn]) -> Iterator[Statement]:
    """What the user said about themselves, in the order of saying. The assistant's words are not looked at."""
    for turn in turns:
        for sentence in sentences(turn.user):
            for pattern in _patterns(sentence.text):
                if sentence.question and not pattern.asks:
                    continue
                for match in pattern.regex.finditer(sentence.text):
                    if is_attributed(sentence.text, match.start()):
                        continue
                    if _JOINED.match(match[0]) and not _FIRST_PERSON.search(sentence.text, 0, match.start()):
                        continue
                    yield from pattern.make(match, turn.stamp)


def _patterns(text: str) -> Iterator[Pattern]:
    if is_cjk(text):
        yield from CHINESE
    if _LATIN.search(text):
        yield from ENGLISH
        yield from GERMAN


@dataclass(slots=True)
class _Entry:
    """A bullet at work. ``number``: as in the profile that came in (``W3``), None for a new one."""

    text: str = field(repr=False)
    number: str | None
    before: str = field(default="", repr=False)
    children: tuple[str, ...] = field(default=(), repr=False)
    dropped: bool = False


class Sheet:
    """A profile that statements change; afterwards it gives the new profile, or the edits that lead there."""

    def __init__(self, profile: Profile) -> None:
        self._rows: dict[str, list[_Entry]] = {
            name: [
                _Entry(bullet.text, f"{name[0]}{count}", bullet.text, bullet.children) for count, bullet in enumerate(bullets, 1)
            ]
            for name, bullets in profile.items()
        }

    def hear(self, statement: Statement) -> None:
        match statement.action:
            case "set" | "set_if_new":
                self._set(statement, only_new=statement.action == "set_if_new")
            case "add":
                self._add(statement)
            case "replace":
                self._replace(statement)
            case "remove":
                self._remove(statement)
            case "remove_like":
                self._remove_like(statement.section, statement.value)
            case "forget":
                for section in SECTIONS:
                    self._remove_like(section, statement.value, share=_ALIKE)
            case "reword":
                self._reword(statement.text, statement.value)

    @property
    def changed(self) -> bool:
        return any(True for _ in self._changes())

    def profile(self) -> Profile:
        return Profile.of(
            {
                name: [bullet for e in row for bullet in ([Bullet(e.text, e.children)] if not e.dropped else [])]
                for name, row in self._rows.items()
            }
        )

    def edits(self) -> dict[str, Any]:
        """In the form of the ``edits`` task."""
        return {"edits": list(self._changes())}

    def _changes(self) -> Iterator[dict[str, str]]:
        for name, row in self._rows.items():
            for entry in row:
                if entry.number is None:
                    if not entry.dropped:
                        yield {"op": "add", "to": name[0], "text": entry.text}
                elif entry.dropped:
                    yield {"op": "delete", "target": entry.number}
                    yield from ({"op": "delete", "target": f"{entry.number}.{count}"} for count, _ in enumerate(entry.children, 1))
                elif entry.text != entry.before:
                    yield {"op": "update", "target": entry.number, "text": entry.text}

    def _living(self, section: str) -> Iterator[_Entry]:
        return (entry for entry in self._rows[section] if not entry.dropped)

    def _of_key(self, statement: Statement, *, dropped: bool = False) -> list[_Entry]:
        known = (statement.slot, statement.key)
        return [
            e
            for e in self._rows[statement.section]
            if (dropped or not e.dropped) and read_bullet(statement.section, e.text) == known
        ]

    def _set(self, statement: Statement, *, only_new: bool) -> None:
        found = self._of_key(statement)
        if found and only_new:
            return
        for entry in found[1:]:
            entry.dropped = True
        if found:
            if sameness(found[0].text, statement.text) < _SAME:
                found[0].text = statement.text
            return
        if back := [e for e in self._of_slot(statement) if e.dropped and not SLOTS[statement.slot].keyed]:
            # "no longer at A. Now at B": the same bullet, not one less and one more
            back[0].dropped, back[0].text = False, statement.text
            return
        self._add(statement)

    def _of_slot(self, statement: Statement) -> list[_Entry]:
        row = self._rows[statement.section]
        return [e for e in row if (found := read_bullet(statement.section, e.text)) and found[0] == statement.slot]

    def _add(self, statement: Statement) -> None:
        section = statement.section
        for entry in self._living(section):
            if self._says(entry, statement):
                return
        if statement.slot == "learning" and any(
            likeness(e.text, statement.value) >= 1 for e in self._of_slot(Statement("add", "knows", section, ""))
        ):
            return
        self._rows[section].append(_Entry(statement.text, None))

    def _says(self, entry: _Entry, statement: Statement) -> bool:
        """Whether a bullet says the statement already; where it is the same with less, it takes the fuller wording."""
        if entry.text.strip().lower() == statement.text.strip().lower():
            return True
        if statement.slot in ("topic", "follow_up", "project", "milestone", "goal"):
            old, new = set(words(entry.text)), set(words(statement.text))
            return bool(old and new) and (sameness(entry.text, statement.text) >= _ALIKE or new <= old)
        found = read_bullet(statement.section, entry.text)
        if found is None or found[0] != statement.slot:
            return False
        if found[1] == statement.key:
            return True
        old, new = set(found[1].split(":", 1)[1].split()), set(statement.key.split(":", 1)[1].split())
        if new <= old:
            return True
        if old < new and statement.slot in ("speaks", "knows"):
            entry.text = statement.text
            return True
        return False

    def _replace(self, statement: Statement) -> None:
        others = [e for e in self._of_slot(statement) if not e.dropped]
        if any(self._says(e, statement) for e in others):
            return
        if others:
            others[-1].text = statement.text
        elif back := [e for e in self._of_slot(statement) if e.dropped]:
            back[-1].dropped, back[-1].text = False, statement.text
        else:
            self._rows[statement.section].append(_Entry(statement.text, None))

    def _remove(self, statement: Statement) -> None:
        section = SLOTS[statement.slot].section
        for entry in self._living(section):
            found = read_bullet(section, entry.text)
            if found and found[0] == statement.slot and (not statement.value or likeness(entry.text, statement.value) >= _LIKE):
                entry.dropped = True

    def _remove_like(self, section: str, value: str, *, share: float = _LIKE) -> None:
        needed = 2 if len(set(words(value))) > 1 else 1
        for entry in self._living(section):
            shared = set(words(entry.text)) & set(words(value))
            if len(shared) >= min(needed, len(set(words(entry.text)))) and likeness(entry.text, value) >= share:
                entry.dropped = True

    def _reword(self, said: str, old: str) -> None:
        count = len(old.split()) if " " in old or not is_cjk(old) else 0
        new = " ".join(said.split()[-count:]) if count else re.split(r"是|在|做|到", said)[-1]
        if not new or sameness(new, old) >= _SAME:
            return
        for section in SECTIONS:
            for entry in self._living(section):
                stamp, body = entry.text[: len(entry.text) - len(without_stamp(entry.text))], without_stamp(entry.text)
                pattern = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)" if not is_cjk(old) else re.escape(old), re.IGNORECASE)
                if pattern.search(body) and new.lower() not in body.lower():
                    entry.text = stamp + pattern.sub(lambda _: new, body, count=1)


def learn(profile: Profile, turns: Sequence[SpokenTurn]) -> Sheet:
    """The sheet after all that the user said in these turns."""
    sheet = Sheet(profile)
    for statement in statements(turns):
        sheet.hear(statement)
    return sheet
