"""Whether a shortened profile says something that the long one does not, or a text something that its sources do not.

Numbers must be there before. So must names and terms: words that are capitalised inside a sentence, in capitals, or mixed. Other
words may change when sentences are merged, as long as every bullet mostly stays with the words of the profile. When in doubt the
answer is "invented": then the profile is cut by rule, which invents nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

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
_OPENERS = """
    access accounts agreement all always announcement any anyone applications approval approvals articles asked business change
    changes client clients code company confirm contracts customer customers cost costs data decision delivery departments
    discuss documents each employee employees every everybody everyone everything exceptions expenses external files find fixed
    follow get group help holidays hours however important internal invoices issue issues it's items keep let make management
    manager managers many may maximum meeting meetings members minimum must neither new no nobody none not note number office
    offices once one only open orders other otherwise parties payment payments people policy prepare price prices procedure
    process product products provide purchase quarterly releases remember reminder reports request requests require requirement
    reservation reserve review revised rule rules sales schedule send server servers services share shipping since software
    someone staff starting status support system systems take talk teams tell their they they're travel two until update updates
    use users vendor vendors version visitors weekly what when where who work workers write yearly you're your
    alle angestellte ausgaben ausnahmen besprechungen bestellungen büro daten dienstag die donnerstag entscheidung frage jede
    jeder jedes kosten kunde kunden kundinnen lieferung lieferungen mitarbeitende mitarbeiter mitarbeiterinnen niemand nur
    personal preise rechnungen regel regeln regelung reisen richtlinie seit sitzungen software standard system treffen
    verträge vertrag vorgabe während wegen zahlungen
"""
_OPENER = re.compile(
    "|".join(sorted({re.escape(fold(word)) for word in _OPENERS.split()})) + r"|.*(?:ing|tion|tions|ment|ments|ung|ungen)"
)
"""What sentences begin with that name no one and nothing in particular."""
_ACTS = re.compile(
    r"['’]s\b|\s+(?:is|was|has|had|will|works?|worked|lives?|lived|leads?|led|runs|owns|wants|likes|said|says|asked|asks|told|knows|prefers"
    r"|became|joined|moved|plans|needs|and [A-ZÄÖÜ]"
    r"|ist|war|hat|hatte|wird|arbeitet|wohnt|lebt|leitet|möchte|mag|sagt|sagte|braucht|und [A-ZÄÖÜ]"
    r")(?![\w'’])"
)
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


class Support:
    """What a text may rest on: the vocabularies of other texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        lines = [line for text in texts for line in text.splitlines()]
        self._parts = (_Vocabulary(lines),)
        self._lines = (lines,)

    def __or__(self, other: Support) -> Support:
        """Both together; neither is read again."""
        both = Support.__new__(Support)
        both._parts, both._lines = self._parts + other._parts, self._lines + other._lines
        return both

    def _has(self, word: str) -> bool:
        return any(part.has_word(word) for part in self._parts)

    def _has_number(self, number: str) -> bool:
        return any(number in part.numbers for part in self._parts)

    def _has_part_of_name(self, token: str) -> bool:
        word = fold(token)
        if is_dense(token):
            return any(word in fold("".join(lines)) for lines in self._lines)
        return any(part.has_exactly(word) for part in self._parts)

    def unknown_terms(self, text: str, *, free: bool = False) -> list[str]:
        """Numbers, names and terms of ``text`` that are in none of the texts, in order.

        A capital letter at the start of a sentence says little. The word there counts as a name when no form of it was said and it
        is none of the words that sentences usually begin with; in a ``free`` text, worded by the writer, when it is the one who
        does something ("Zelda leads …").
        """
        unknown: list[str] = []
        for line in text.splitlines():
            found = _read(line)
            unknown += [number for number in found.numbers if not self._has_number(number)]
            unknown += [name for name in found.names if not any(part.has_name(name) for part in self._parts)]
            begins = found.actors if free else found.openers
            unknown += [word for word in begins if not self._has(word) and not _OPENER.fullmatch(word)]
        return unknown

    def unknown_names(self, name: str) -> list[str]:
        """Words of a name that were not said just so, whatever their case and accents."""
        return [token for token in tokens(name) if not self._has_part_of_name(token)]

    def share(self, text: str) -> float:
        """How much of what ``text`` says, by its telling words, was said: 0 to 1; 1 for a text without such words."""
        known = total = 0.0
        for line in text.splitlines():
            found = _read(line)
            words = [*found.words, *found.names]
            total += len(words) + len(found.numbers)
            known += sum(map(self._has, words)) + sum(map(self._has_number, found.numbers))
            for run in found.dense:
                units = pairs(fold(run))
                total += len(units) / 2
                known += sum(max(part.dense_share(unit) for part in self._parts) for unit in units) / 2
        return known / total if total else 1.0


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    starts: bool
    rest: str
    """What follows in the line."""


def _split(line: str) -> Iterator[_Token]:
    """Tokens; ``starts``: a sentence begins here, so a capital letter says nothing."""
    line = unicodedata.normalize("NFC", line)  # as tokens() sees it
    position = 0
    for token in tokens(line):
        at = line.find(token, position)
        ahead = line[max(0, at - 4) : at]
        starts = at <= 0 or not line[:at].strip(" \"'*_`([") or _SENTENCE_END.search(ahead) is not None
        position = max(position, at + len(token))
        yield _Token(token, starts, line[position : position + 40])


class _Line:
    """The telling parts of one new line."""

    def __init__(self, line: str) -> None:
        self.numbers: list[str] = []
        self.names: list[str] = []
        self.words: list[str] = []
        self.openers: list[str] = []
        """Words with a capital letter at the start of a sentence, no labels ("Open: …"); they are in ``words`` too."""
        self.actors: list[str] = []
        """Those of them that do something."""
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
            if not is_name and token.text[0].isupper() and not token.rest.lstrip(" *_").startswith((":", "：")):
                self.openers.append(word)
                if _ACTS.match(token.rest):
                    self.actors.append(word)


@lru_cache(maxsize=256)
def _read(line: str) -> _Line:
    """For those who only look: what is asked of an item is asked against several texts."""
    return _Line(line)


class _Vocabulary:
    """What the long profile says. What only some questions need is made when it is needed."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines: set[str] = set()
        self.numbers: set[str] = set()
        self._words: set[str] = set()
        self._rows: list[list[str]] = []
        self._pairs: set[str] = set()
        self._chars: set[str] = set()
        for line in lines:
            self.lines.add(line)
            if line.isascii():
                self._add_ascii(line)
                continue
            row: list[str] = []
            for token in tokens(line):
                word = fold(token)
                if is_dense(token):
                    self._pairs.update(pairs(word))
                    self._chars.update(word)
                    continue
                if not token.isalpha():
                    self.numbers.update(_plain_number(found) for found in _NUMBER.findall(token))
                if token[0].isupper() and word in MONTHS:
                    self.numbers.add(str(MONTHS[word]))
                row.append(word)
            self._words.update(row)
            self._rows.append(row)

    def _add_ascii(self, line: str) -> None:
        """The same for what most lines are, as a whole."""
        row = list(tokens(line.lower()))
        self.numbers.update(map(_plain_number, _NUMBER.findall(line)))
        if not MONTHS.keys().isdisjoint(row):
            written = zip(tokens(line), row, strict=True)
            self.numbers.update(str(MONTHS[word]) for token, word in written if token[0].isupper() and word in MONTHS)
        self._words.update(row)
        self._rows.append(row)

    @cached_property
    def _stems(self) -> set[str]:
        return {stem(word) for word in self._words}

    @cached_property
    def _bases(self) -> set[str]:
        return {base for word in self._words for base in _bases(word)}

    @cached_property
    def _initials(self) -> str:
        """Of the words of each line, in a line each."""
        return "\n".join("".join(word[0] for word in row) for row in self._rows)

    @cached_property
    def _prefixes(self) -> set[str]:
        return {word[:size] for word in self._words for size in range(3, min(len(word), 9))}

    @cached_property
    def _long(self) -> str:
        return "\n".join(word for word in self._words if len(word) > 7)

    def has_name(self, word: str) -> bool:
        if word in self._words or not self._bases.isdisjoint(_bases(word)):
            return True
        if 2 <= len(word) <= 5 and word in self._initials:
            return True
        if word in MONTHS and str(MONTHS[word]) in self.numbers:
            return True
        # Shortened ("Sept"), or a part of a compound ("Platform" of "Datenplatform").
        return word in self._prefixes or (len(word) >= 5 and word in self._long)

    def has_word(self, word: str) -> bool:
        return word in self._words or stem(word) in self._stems or self.has_name(word)

    def has_exactly(self, word: str) -> bool:
        return word in self._words or not self._words.isdisjoint(_unpossessed(word))

    def dense_share(self, unit: str) -> float:
        """1 for a pair (or a single character) that was said, half for one whose characters were."""
        if unit in self._pairs or (len(unit) == 1 and unit in self._chars):
            return 1.0
        return 0.5 if self._chars.issuperset(unit) else 0.0

    def has_dense(self, run: str) -> bool:
        """Most of the run's pairs are known, and no pair is of two characters that never occurred."""
        wanted = [pair for part in _NEUTRAL_DENSE.split(fold(run)) if part for pair in pairs(part)]
        known = sum(1 for pair in wanted if pair in self._pairs or (len(pair) == 1 and pair in self._chars))
        foreign = any(len(pair) == 2 and self._chars.isdisjoint(pair) for pair in wanted)
        if len(wanted) == 1 and len(wanted[0]) == 1:
            return True  # one character between known words: a particle
        return not foreign and known >= len(wanted) * _MIN_DENSE_GROUNDED


def _unpossessed(word: str) -> set[str]:
    """A name without the ending of its owner's form ("Ada's", "Petras")."""
    plain = word.split("'")[0].split("’")[0]
    return {plain, plain.removesuffix("s") if len(plain) > 3 else plain}


@lru_cache(maxsize=20_000)
def _bases(word: str) -> frozenset[str]:
    """The word and what is left of it without a usual ending."""
    found = {word.split("'")[0].split("’")[0]}
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            found.add(word[: -len(suffix)])
    return frozenset(found)


def _plain_number(digits: str) -> str:
    return digits.lstrip("0") or "0"
