"""The loss guard: a rewrite must not lose much unless the turn explains it.

Identity and Communication Preferences are guarded by the settings, the other sections more loosely: in them much changes. A
bullet is lost when nothing in the new profile, in any section, says nearly the same; "Name: Bernd" does not say nearly the same
as "Name: Anna". The turn explains the loss of a bullet when one of its sentences speaks of that bullet with a word of change
("no longer", "statt", "不再"), or gives what now stands in its place, or asks to forget it.
One sentence explains a few bullets only.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from memory.model import forgetting
from memory.model.headings import COMMUNICATION_PREFERENCES, FOLLOW_UPS, IDENTITY, RECENT_TOPICS, SECTIONS
from memory.model.profile import Bullet, Profile
from memory.model.stale import is_stale
from memory.model.words import STOP_WORDS, fold, is_dense, key_words, tokens

GUARDED = (IDENTITY, COMMUNICATION_PREFERENCES)
OTHERS = tuple(name for name in SECTIONS if name not in GUARDED)

_SAME_WORDS = 0.5
_SAME_TEXT = 0.75
_SAME_NAME = 0.8
_RELATED = 0.25
_MENTIONED = 0.3
_REPEATED = 0.5
_MAX_EXPLAINED = 3
"""Bullets of one sentence with a word of change."""
_REACH = 80
"""Characters before and behind a word of change that it may speak of."""
_MAX_LOST_OF_SECTION = 0.6
_MIN_SECTION = 3
_MAX_LOST_OF_ALL = 0.5
_MIN_LOST_OF_ALL = 3
_MAX_TURN_CHARS = 200_000
_MAX_SENTENCES = 2000
_MAX_REQUESTS = 200
_MAX_TEXT_COMPARISONS = 4000

_SENTENCES = re.compile(r"[.!?。！？;；\n]+")
_STRONG = re.compile(
    r"\b(?:no longer|not any ?more|any ?more|anymore|stop(?:ped)?|quit|left|leaving|instead|actually|changed?|moved|"
    r"switch(?:ed)?|wrong|incorrect|mistake|correction|rather|used to|former(?:ly)?|forget|"
    r"nicht mehr|kein(?:e[nmrs]?)? mehr|statt|stattdessen|sondern|inzwischen|geändert|gewechselt|umgezogen|falsch|früher|"
    r"ehemalig\w*|vergiss|désormais|ya no)\b"
    r"|不再|已经不|不想|换|改|错|以前|忘",
    re.IGNORECASE,
)
"""Words that end something: one name of the bullet is enough beside them."""
_WEAK = re.compile(
    r"\b(?:don['’]?t|do not|doesn['’]?t|isn['’]?t|not|never|now|no|without|leave|remove|delete|drop|"
    r"nicht|kein(?:e[nmrs]?)?|nie|jetzt|nun|ohne|lösche?|streiche?|entferne?|plus|ne|pas|maintenant|ahora)\b"
    r"|不是|不要|不用|没有|现在|删|别",
    re.IGNORECASE,
)
"""Words of any talk: beside them half of the bullet must be said."""
_DONE = re.compile(
    r"\b(?:done|did|finished|completed?|sent|shipped|launched|delivered|submitted|cancell?ed|postponed|over|closed|solved|"
    r"booked|paid|called|handed in|erledigt|fertig|abgeschlossen|abgesagt|abgegeben|verschoben|geschickt|gesendet|beendet|vorbei)\b"
    r"|完成|取消|结束|做完|发了|搞定|交了",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[^\W\d_][^:：]{0,30}[:：]\s*")
_MAX_LABELLED_WORDS = 4
_SENTENCE_START = re.compile(r"(?:^|[.!?:;–—(\"“„\[|])[\s\"'*_`(\[]*$")


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a rewrite was refused. ``lost`` of ``total`` bullets (sub-bullets count) are gone without an explanation."""

    lost: int
    total: int
    bullets: tuple[str, ...] = field(repr=False)
    """The texts of the lost bullets, for the explanation to the model; never for logs."""

    @property
    def fraction(self) -> float:
        return self.lost / self.total


def find_loss(
    old: Profile, new: Profile, turn_text: str, *, max_lost_fraction: float, min_bullets: int, today: date | None = None
) -> Loss | None:
    """What a rewrite lost, if it is too much.

    Args:
        turn_text: what the user said in the turn or turns (the assistant's words explain nothing).
        max_lost_fraction: this share of the bullets of Identity, of Communication Preferences, or of both may be lost. Of
            another section (of three bullets and more) 60 %, of all bullets half, or this share if it is more; Recent Topics may
            go. 1: the guard is off.
        min_bullets: fewer lost bullets are never too many, except the last ones of a guarded section.
        today: follow-ups that are stale on this day may go.

    Returns:
        None when the rewrite may stand.
    """
    if max_lost_fraction >= 1 or old.sections == new.sections:
        return None
    search = _Search(old, new, turn_text, today)
    core = [search.losses(name) for name in GUARDED]
    if loss := _core_loss(core, new, max_lost_fraction, min_bullets):
        return loss
    others = [search.losses(name) for name in OTHERS if name != RECENT_TOPICS]
    for each in others:
        if each.total >= _MIN_SECTION and each.is_over(max(_MAX_LOST_OF_SECTION, max_lost_fraction), max(2, min_bullets)):
            return each.loss
    everything = _together([*core, *others])
    is_over = everything.is_over(max(_MAX_LOST_OF_ALL, max_lost_fraction), max(_MIN_LOST_OF_ALL, min_bullets))
    return everything.loss if is_over else None


def find_core_loss(old: Profile, new: Profile, turn_text: str, *, max_lost_fraction: float, min_bullets: int) -> Loss | None:
    """As :func:`find_loss`, for Identity and Communication Preferences alone: what condensing must keep."""
    if max_lost_fraction >= 1:
        return None
    search = _Search(old, new, turn_text, None)
    return _core_loss([search.losses(name) for name in GUARDED], new, max_lost_fraction, min_bullets)


def find_removal(before: Profile, after: Profile, *, max_lost_fraction: float, min_bullets: int) -> Loss | None:
    """What a privacy pass took away, if it is more than such a pass may: nothing but what is told of others should go.

    Guarded sections as in :func:`find_loss`; at most half of all bullets (Recent Topics too); no section of three bullets and
    more, and never all.
    """
    search = _Search(before, after, "", None)
    core = [search.losses(name) for name in GUARDED]
    others = [search.losses(name) for name in OTHERS]
    everything = _together([*core, *others])
    if everything.lost and after.is_empty:
        return everything.loss
    if loss := _core_loss(core, after, max_lost_fraction, min_bullets):
        return loss
    for each in others:
        if each.total >= _MIN_SECTION and len(each.lost) == each.total:
            return each.loss
    return everything.loss if everything.is_over(_MAX_LOST_OF_ALL, _MIN_LOST_OF_ALL) else None


def ends_early(old: Profile, new: Profile) -> bool:
    """Whether the new profile breaks off inside a bullet of the old one: as its last bullet it has the beginning of an old one,
    and either the old ones behind that are gone, or the break is within a word or before a word that cannot end a bullet."""
    last = [line for bullet in new.sections[-1] for line in bullet.lines]
    before = [line for bullet in old.sections[-1] for line in bullet.lines]
    if not last or last[-1] in before:
        return False
    broken, kept = last[-1], set(last)
    for place, line in enumerate(before):
        if not line.startswith(broken):
            continue
        inside = broken[-1].isalnum() and line[len(broken)].isalnum() and not is_dense(broken[-1])
        behind = before[place + 1 :]
        words = list(tokens(broken))
        if inside or (words and fold(words[-1]) in STOP_WORDS) or (behind and kept.isdisjoint(behind)):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Losses:
    """Of one section, or several: the old bullets that count, and those of them that are lost without an explanation."""

    name: str
    lost: tuple[str, ...]
    total: int

    def is_over(self, max_fraction: float, least: int) -> bool:
        return bool(self.lost) and len(self.lost) >= least and len(self.lost) > self.total * max_fraction

    @property
    def loss(self) -> Loss:
        return Loss(len(self.lost), self.total, self.lost)


def _together(parts: Sequence[_Losses]) -> _Losses:
    return _Losses("", tuple(line for part in parts for line in part.lost), sum(part.total for part in parts))


def _core_loss(core: Sequence[_Losses], new: Profile, max_fraction: float, least: int) -> Loss | None:
    for each in (_together(core), *core):
        if each.is_over(max_fraction, least):
            return each.loss
    return next((each.loss for each in core if each.lost and not new.section(each.name)), None)


class _Search:
    """Old bullets that the new profile does not have and the turn does not explain."""

    def __init__(self, old: Profile, new: Profile, turn_text: str, today: date | None) -> None:
        self._old = old
        self._today = today
        known = {line for _, bullets in old.items() for bullet in bullets for line in bullet.lines}
        self._after = _NewProfile((line for _, bullets in new.items() for bullet in bullets for line in bullet.lines), known)
        self._turn_text = turn_text

    @cached_property
    def _turn(self) -> _Turn:
        return _Turn(self._turn_text)

    def losses(self, name: str) -> _Losses:
        lines = [line for bullet in self._old.section(name) if not self._may_go(name, bullet) for line in bullet.lines]
        lost = tuple(one for one in lines if not self._after.keeps(one) and not self._turn.explains(one, name, self._after))
        return _Losses(name, lost, len(lines))

    def _may_go(self, name: str, bullet: Bullet) -> bool:
        return name == FOLLOW_UPS and self._today is not None and is_stale(bullet, self._today)


@dataclass(frozen=True, slots=True)
class _Line:
    """A bullet's text, what it is about, and the names, numbers and labelled values in it."""

    text: str
    words: frozenset[str]
    values: frozenset[str]

    @classmethod
    def of(cls, line: str) -> _Line:
        return cls(fold(line), key_words(line), frozenset(_values(line)))


def _values(line: str) -> Iterator[str]:
    label = _LABEL.match(line)
    if label is not None and len(line[label.end() :].split()) <= _MAX_LABELLED_WORDS:
        yield from key_words(line[label.end() :])
    position = 0
    for token in tokens(line):
        at = line.find(token, position)
        position = max(position, at + len(token))
        if is_dense(token):
            continue
        is_name = token[0].isupper() and not _SENTENCE_START.search(line[max(0, at - 8) : at] if at > 8 else line[: max(at, 0)])
        if is_name or token[1:] != token[1:].lower() or any(map(str.isdigit, token)):
            yield from key_words(token)


class _NewProfile:
    def __init__(self, lines: Iterable[str], known: set[str]) -> None:
        self._raw = list(lines)
        self._exact = set(self._raw)
        self._known = known
        self._comparisons = 0

    @cached_property
    def _lines(self) -> list[_Line]:
        return [_Line.of(line) for line in self._raw]

    @cached_property
    def _texts(self) -> set[str]:
        return {line.text for line in self._lines}

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, line in enumerate(self._lines):
            for word in line.words:
                places.setdefault(word, []).append(place)
        return places

    def _sharing(self, words: frozenset[str]) -> Counter[int]:
        """How many of ``words`` each line has, for those that have any."""
        return Counter(place for word in words for place in self._by_word.get(word, ()))

    def keeps(self, line: str) -> bool:
        """Whether some bullet says nearly the same: the same text, more than half of its words, or almost the same letters, and
        does not put another name or number in the place of one that is gone."""
        if line in self._exact:
            return True
        old = _Line.of(line)
        if old.text in self._texts:
            return True
        gone = frozenset(value for value in old.values if value not in self._by_word)
        for place, shared in self._sharing(old.words).items():
            if shared > len(old.words) * _SAME_WORDS and not _is_swapped(gone, old, self._lines[place]):
                return True
        return any(self._is_same_text(old.text, other.text) and not _is_swapped(gone, old, other) for other in self._lines)

    def _is_same_text(self, one: str, other: str) -> bool:
        # Only lines of like length can be alike; the bound keeps hostile sizes cheap.
        if not (0.6 < (len(one) + 1) / (len(other) + 1) < 1.7) or len(one) > 300 or self._comparisons >= _MAX_TEXT_COMPARISONS:
            return False
        self._comparisons += 1
        matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
        return matcher.real_quick_ratio() >= _SAME_TEXT and matcher.quick_ratio() >= _SAME_TEXT and matcher.ratio() >= _SAME_TEXT

    def replacements(self, words: frozenset[str]) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """What new bullets on a related matter say beyond ``words``, and the values in that."""
        for place, shared in self._sharing(words).items():
            other = self._lines[place]
            if shared >= len(words) * _RELATED and self._raw[place] not in self._known and (added := other.words - words):
                yield added, other.values & added


def _is_swapped(gone: frozenset[str], old: _Line, new: _Line) -> bool:
    """Whether a value of ``old`` that is nowhere any more has another in its place; a corrected spelling is no other one."""
    come = new.values - old.words
    return bool(come) and any(not any(_is_same_name(value, other) for other in come) for value in gone)


def _is_same_name(one: str, other: str) -> bool:
    if any(map(str.isdigit, one + other)) or min(len(one), len(other)) < 4:
        return False
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() >= _SAME_NAME


class _Sentence:
    """What one sentence of the user says around its words of change, and how many bullets it may still explain."""

    def __init__(self, text: str) -> None:
        self.near_strong = _near(_STRONG, text)
        self.near_any = self.near_strong | _near(_WEAK, text)
        self.near_done = _near(_DONE, text)
        self.left = _MAX_EXPLAINED

    def explains(self, line: _Line, *, guarded: bool) -> bool:
        if not self.left or not line.words:
            return False
        strong = line.words & (self.near_strong if guarded else self.near_strong | self.near_done)
        shared = len(line.words & self.near_any)
        found = (bool(strong) and (not strong.isdisjoint(line.values) or len(strong) >= len(line.words) * _MENTIONED)) or (
            shared >= len(line.words) * _REPEATED and (shared > 1 or len(line.words) <= 2)
        )
        self.left -= int(found)
        return found


def _near(pattern: re.Pattern[str], sentence: str) -> frozenset[str]:
    """The words within reach of the matches, without the matches themselves."""
    found: set[str] = set()
    end = 0
    for match in pattern.finditer(sentence):
        start = max(match.start() - _REACH, end - _REACH, 0)
        # Each stretch of the sentence once: a sentence of change words only must not be read again and again.
        end = match.end()
        found |= key_words(sentence[start : match.start()]) | key_words(sentence[end : end + _REACH])
    return frozenset(found)


class _Turn:
    def __init__(self, text: str) -> None:
        sentences = [one for one in _SENTENCES.split(text[:_MAX_TURN_CHARS]) if one.strip()]
        self._words = key_words(" ".join(sentences))
        self._requests = [found for one in sentences if (found := forgetting.read_request(one))][:_MAX_REQUESTS]
        self._by_word: dict[str, list[_Sentence]] = {}
        for sentence in map(_Sentence, sentences[:_MAX_SENTENCES]):
            for word in sentence.near_any | sentence.near_done:
                self._by_word.setdefault(word, []).append(sentence)

    def explains(self, text: str, section: str, after: _NewProfile) -> bool:
        line = _Line.of(text)
        if any(request.covers(text, line.values, is_style=section == COMMUNICATION_PREFERENCES) for request in self._requests):
            return True
        for added, values in after.replacements(line.words):
            if not values.isdisjoint(self._words) or len(added & self._words) >= len(added) * _REPEATED:
                return True
        guarded = section in GUARDED
        return any(sentence.explains(line, guarded=guarded) for word in line.words for sentence in self._by_word.get(word, ()))
