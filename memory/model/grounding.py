"""Whether a shortened profile says something that the long one does not.

Numbers must be there before. So must names and terms: words that are capitalised inside a sentence, in capitals, or mixed. Other
words may change when sentences are merged, as long as every bullet mostly stays with the words of the profile. When in doubt the
answer is "invented": then the profile is cut by rule, which invents nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from memory.model.profile import Profile
from memory.model.stale import MONTHS
from memory.model.words import STOP_WORDS, fold, is_dense, pairs, stem, tokens

_MIN_GROUNDED = 0.5
_MIN_DENSE_GROUNDED = 0.5
_MAX_NEW_SHARE = 0.2
_SUFFIXES = ("innen", "ern", "ers", "ing", "in", "en", "er", "es", "ed", "em", "s", "e", "n", "r")
_SENTENCE_END = re.compile(r"[.!?:;–—(\"“„\[/|]\s*$")
_NUMBER = re.compile(r"\d+")

# Words that a summary may bring along, because they name the kind of a thing and no fact.
_NEUTRAL_WORDS = """
    about also answers background based communication context currently detail details deadline employer experience expert
    expertise examples familiar focus format goal goals interested interests job knowledge known language languages likes location
    name plans preference preferences prefers project projects proficient related replies reply response responses role several
    skilled skills style task tasks team time timezone title tone topic topics tools uses various while wants working works
    angaben antwort antworten arbeit arbeitet arbeitgeber aufgabe aufgaben beispiele beruf bevorzugt derzeit details erfahrung
    erfahrungen firma fragen interesse interessen kenntnisse kontext mag möchte name nutzt ort position projekt projekte rolle
    sprache sprachen sprechen stadt stil team themen thema unternehmen verschiedene werkzeuge wohnort wohnt ziel ziele zeitzone
    monday tuesday wednesday thursday friday saturday sunday utc
"""
_NEUTRAL = frozenset(fold(word) for word in _NEUTRAL_WORDS.split())
_NEUTRAL_DENSE = re.compile(
    "用户|目前|项目|工作|喜欢|偏好|使用|以及|熟悉|擅长|正在|相关|回答|公司|职位|姓名|名字|语言|时区|所在地"
    r"|と|の|を|は|が|です|ます"
)


def find_invention(before: Profile, after: Profile) -> str | None:
    """Why ``after`` says more than ``before``, without any of its text; None when it does not."""
    known = _Vocabulary(line for _, bullets in before.items() for bullet in bullets for line in bullet.lines)
    used = fresh = 0
    for section, bullets in after.items():
        for bullet in bullets:
            for line in bullet.lines:
                if line in known.lines:
                    continue
                found = _Line(line)
                if any(number not in known.numbers for number in found.numbers):
                    return f"a number in {section} that the profile does not have"
                if any(not known.has_name(name) for name in found.names):
                    return f"a name or term in {section} that the profile does not have"
                new = [word for word in found.words if not known.has_word(word)]
                total = len(found.words) + len(found.names) + len(found.numbers)
                if new and (total - len(new)) < total * _MIN_GROUNDED:
                    return f"a bullet in {section} that the profile does not support"
                if any(not known.has_dense(run) for run in found.dense):
                    return f"a statement in {section} that the profile does not have"
                used += total
                fresh += len(new)
    if fresh > max(3, used * _MAX_NEW_SHARE):
        return "too many words that the profile does not have"
    return None


def unknown_terms(text: str, support: Iterable[str]) -> list[str]:
    """Numbers, names and terms of ``text`` that are in none of the supporting texts, in order."""
    known = _Vocabulary(support)
    unknown: list[str] = []
    for line in text.splitlines():
        found = _Line(line)
        unknown += [number for number in found.numbers if number not in known.numbers]
        unknown += [name for name in found.names if not known.has_name(name)]
    return unknown


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    starts: bool


def _split(line: str) -> Iterator[_Token]:
    """Tokens; ``starts``: a sentence begins here, so a capital letter says nothing."""
    line = unicodedata.normalize("NFC", line)  # as tokens() sees it
    position = 0
    for token in tokens(line):
        at = line.find(token, position)
        ahead = line[max(0, at - 4) : at]
        yield _Token(token, at <= 0 or not line[:at].strip(" \"'*_`([") or _SENTENCE_END.search(ahead) is not None)
        position = max(position, at + len(token))


class _Line:
    """The telling parts of one new line."""

    def __init__(self, line: str) -> None:
        self.numbers: list[str] = []
        self.names: list[str] = []
        self.words: list[str] = []
        self.dense: list[str] = []
        for token in _split(line):
            if is_dense(token.text):
                self.dense.append(token.text)
                continue
            self.numbers += (_plain_number(found) for found in _NUMBER.findall(token.text))
            word = fold(token.text)
            if word.isdigit() or len(word) < 2 or word in STOP_WORDS or word in _NEUTRAL:
                continue
            inner = token.text[1:]
            is_name = inner != inner.lower() or (token.text[0].isupper() and not token.starts) or any(map(str.isdigit, word))
            (self.names if is_name else self.words).append(word)


class _Vocabulary:
    """What the long profile says."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines: set[str] = set()
        self.numbers: set[str] = set()
        self._words: set[str] = set()
        self._stems: set[str] = set()
        self._bases: set[str] = set()
        self._initials: set[str] = set()
        self._pairs: set[str] = set()
        self._chars: set[str] = set()
        for line in lines:
            self.lines.add(line)
            row: list[str] = []
            for token in tokens(line):
                word = fold(token)
                if is_dense(token):
                    self._pairs.update(pairs(word))
                    self._chars.update(word)
                    continue
                self.numbers.update(_plain_number(found) for found in _NUMBER.findall(token))
                if token[0].isupper() and word in MONTHS:
                    self.numbers.add(str(MONTHS[word]))
                row.append(word)
            self._words.update(row)
            for size in range(2, 6):
                for place in range(len(row) - size + 1):
                    self._initials.add("".join(word[0] for word in row[place : place + size]))
        self._stems = {stem(word) for word in self._words}
        self._bases = {base for word in self._words for base in _bases(word)}
        self._prefixes = {word[:size] for word in self._words for size in range(3, min(len(word), 9))}
        self._long = "\n".join(word for word in self._words if len(word) > 7)

    def has_name(self, word: str) -> bool:
        if word in self._words or word in self._initials or not self._bases.isdisjoint(_bases(word)):
            return True
        if word in MONTHS and str(MONTHS[word]) in self.numbers:
            return True
        # Shortened ("Sept"), or a part of a compound ("Platform" of "Datenplatform").
        return word in self._prefixes or (len(word) >= 5 and word in self._long)

    def has_word(self, word: str) -> bool:
        return stem(word) in self._stems or self.has_name(word)

    def has_dense(self, run: str) -> bool:
        """Most of the run's pairs are known, and no pair is of two characters that never occurred."""
        wanted = [pair for part in _NEUTRAL_DENSE.split(fold(run)) if part for pair in pairs(part)]
        known = sum(1 for pair in wanted if pair in self._pairs or (len(pair) == 1 and pair in self._chars))
        foreign = any(len(pair) == 2 and self._chars.isdisjoint(pair) for pair in wanted)
        if len(wanted) == 1 and len(wanted[0]) == 1:
            return True  # one character between known words: a particle
        return not foreign and known >= len(wanted) * _MIN_DENSE_GROUNDED


def _bases(word: str) -> set[str]:
    """The word and what is left of it without a usual ending."""
    found = {word.split("'")[0].split("’")[0]}
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            found.add(word[: -len(suffix)])
    return found


def _plain_number(digits: str) -> str:
    return digits.lstrip("0") or "0"
