"""The loss guard: a rewrite must not lose much of Identity or Communication Preferences unless the turn explains it.

A bullet is lost when nothing in the new profile, in any section, says nearly the same. The turn explains the loss of a bullet when
one of its sentences speaks of it: repeats most of it, or names something of it together with a word of change ("no longer",
"statt", "不再"), or gives what now stands in its place, or asks to forget that topic.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from memory.model.headings import COMMUNICATION_PREFERENCES, IDENTITY
from memory.model.profile import Profile
from memory.model.words import fold, key_words

GUARDED = (IDENTITY, COMMUNICATION_PREFERENCES)

_SAME_WORDS = 0.5
_SAME_TEXT = 0.75
_RELATED = 0.25
_REPEATED = 0.5
_MAX_TURN_CHARS = 200_000
_MAX_TEXT_COMPARISONS = 20_000

_SENTENCES = re.compile(r"[.!?。！？;；\n]+")
_CHANGE = re.compile(
    r"\b(?:no longer|not any ?more|any ?more|anymore|stop(?:ped)?|quit|left|leave|leaving|don'?t|do not|doesn'?t|isn'?t|not|never|"
    r"instead|"
    r"actually|changed?|now|moved|switch(?:ed)?|wrong|incorrect|mistake|correction|rather|used to|former(?:ly)?|"
    r"remove|delete|drop|forget|"
    r"nicht|kein(?:e[nmrs]?)?|nie|statt|stattdessen|sondern|jetzt|nun|inzwischen|geändert|gewechselt|falsch|früher|ehemalig\w*|"
    r"vergiss|lösche?|streiche?|entferne?|plus|ne|pas|désormais|maintenant|ahora|ya no)\b"
    r"|不再|不是|不要|不用|不想|没有|改|换|现在|以前|错|忘|删|别",
    re.IGNORECASE,
)
_FORGET = re.compile(
    r"(?<!don't )(?<!don’t )(?<!do not )(?<!not )(?<!never )(?<!i )(?<!won't )(?<!i'll )\b"
    r"(?:forget|erase|delete|remove|wipe|drop|clear)\b(?! not\b)|"
    r"\b(?:vergiss|vergesst|vergessen sie|lösche?n?|streiche?|entferne)\b(?! nicht\b)|"
    r"\b(?:oublie[zr]?|supprime[zr]?|efface[zr]?|olvida|borra|elimina)\b|(?<!不要)(?<!别)(?<!不)(?:忘记|忘掉|忘了|删除|删掉|清除)",
    re.IGNORECASE,
)
_EVERYTHING = re.compile(
    r"\b(?:everything|all|anything|whole|entire|memory|profile|alles|sämtliche\w*|ganze\w*|tout|todo)\b"
    r"|一切|所有|全部",
    re.IGNORECASE,
)
_TOPICS: dict[str, re.Pattern[str]] = {
    "work": re.compile(
        r"\b(?:jobs?|work(?:s|ing|ed|place)?|employ(?:er|ed|ment|s)?|compan(?:y|ies)|roles?|positions?|careers?|professions?|titles?|teams?|"
        r"arbeit(?:e[tn]?|geber\w*|splatz)?|beruf\w*|stelle|firma|unternehmen|rolle|travail|emploi|trabajo|empleo)\b|"
        r"工作|公司|职业|职位|雇主|团队",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"\b(?:live[sd]?|living|lives|address|home|city|town|country|place|location|based|moved?|resid\w+|wohn\w*|adresse|stadt|ort|"
        r"zuhause|umgezogen|habite|ville|vive|ciudad|time ?zones?|zeitzone)\b|住|地址|城市|地点|时区",
        re.IGNORECASE,
    ),
    "name": re.compile(
        r"\b(?:names?|named|called|nickname|hei(?:ß|ss)e?[nt]?|vorname|nachname|pronouns?|nom|nombre)\b"
        r"|名字|姓名|叫",
        re.IGNORECASE,
    ),
    "language": re.compile(
        r"\b(?:languages?|speaks?|native|sprachen?|sprichst|spricht|muttersprache|english|german|deutsch|englisch|chinese|french|spanish|"
        r"langue|idioma)\b|语言|中文|英文|德语",
        re.IGNORECASE,
    ),
    "style": re.compile(
        r"\b(?:style|tone|format\w*|answers?|replies|reply|responses?|respond|prefer\w*|communicat\w*|bullets?|emojis?|length|stil|ton|antwort\w*|"
        r"bevorzug\w*|präferenz\w*|kommunikation\w*|préférences?|preferencias?)\b|回答|风格|偏好|语气|格式|沟通",
        re.IGNORECASE,
    ),
}


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


def find_loss(old: Profile, new: Profile, turn_text: str, *, max_lost_fraction: float, min_bullets: int) -> Loss | None:
    """What a rewrite lost, if it is too much.

    Args:
        turn_text: what the user said in the turn or turns (the assistant's words explain nothing).
        max_lost_fraction: this share of the bullets of Identity, of Communication Preferences, or of both may be lost.
        min_bullets: fewer lost bullets are never too many.

    Returns:
        None when the rewrite may stand.
    """
    after = _NewProfile(line for _, bullets in new.items() for bullet in bullets for line in bullet.lines)
    if all(after.has(line) for name in GUARDED for bullet in old.section(name) for line in bullet.lines):
        return None  # the usual case, and not worth a comparison
    turn = _Turn(turn_text)
    sections: list[tuple[list[str], int]] = []
    for name in GUARDED:
        lines = [line for bullet in old.section(name) for line in bullet.lines]
        lost = [line for line in lines if not after.keeps(line) and not turn.explains(line, name, after)]
        sections.append((lost, len(lines)))
    everything = ([line for lost, _ in sections for line in lost], sum(total for _, total in sections))
    for lost, total in (everything, *sections):
        if lost and len(lost) >= min_bullets and len(lost) > total * max_lost_fraction:
            return Loss(len(lost), total, tuple(lost))
    return None


class _NewProfile:
    def __init__(self, lines: Iterable[str]) -> None:
        self._raw = list(lines)
        self._exact = set(self._raw)
        self._comparisons = 0

    def has(self, line: str) -> bool:
        return line in self._exact

    @cached_property
    def _lines(self) -> list[tuple[str, frozenset[str]]]:
        return [(fold(line), key_words(line)) for line in self._raw]

    def keeps(self, line: str) -> bool:
        """Whether some bullet says nearly the same: the same text, more than half of its words, or almost the same letters."""
        if self.has(line):
            return True
        text, words = fold(line), key_words(line)
        if any(text == other for other, _ in self._lines):
            return True
        if words and any(len(words & other) > len(words) * _SAME_WORDS for _, other in self._lines):
            return True
        return any(self._is_same_text(text, other) for other, _ in self._lines)

    def _is_same_text(self, one: str, other: str) -> bool:
        # Only lines of like length can be alike; the bound keeps hostile sizes cheap.
        if not (0.6 < (len(one) + 1) / (len(other) + 1) < 1.7) or len(one) > 500 or self._comparisons >= _MAX_TEXT_COMPARISONS:
            return False
        self._comparisons += 1
        matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
        return matcher.real_quick_ratio() >= _SAME_TEXT and matcher.quick_ratio() >= _SAME_TEXT and matcher.ratio() >= _SAME_TEXT

    def replacements(self, words: frozenset[str]) -> list[frozenset[str]]:
        """What bullets on a related matter say beyond ``words``."""
        return [other - words for _, other in self._lines if len(words & other) >= max(1, len(words) * _RELATED) and other - words]


class _Turn:
    def __init__(self, text: str) -> None:
        sentences = [one for one in _SENTENCES.split(text[:_MAX_TURN_CHARS]) if one.strip()]
        self._sentences = [(key_words(one), _CHANGE.search(one) is not None) for one in sentences]
        self._words = frozenset(word for words, _ in self._sentences for word in words)
        self._forget = [one for one in sentences if _FORGET.search(one)]

    def explains(self, line: str, section: str, after: _NewProfile) -> bool:
        words = key_words(line)
        for spoken, is_change in self._sentences:
            shared = len(words & spoken)
            if shared and (is_change or shared >= len(words) * _REPEATED):
                return True
        if any(new & self._words for new in after.replacements(words)):
            return True
        return any(_covers(request, line, section) for request in self._forget)


def _covers(request: str, line: str, section: str) -> bool:
    """Whether a request to forget speaks of this bullet: of its topic, or of everything."""
    asked = _topics(request)
    if not asked:
        return _EVERYTHING.search(request) is not None
    own = _topics(line)
    if own:
        return bool(asked & own)
    # A bullet of no known topic ("Data engineer at Siemens"): the user gets the benefit of the doubt within the section.
    return ("style" in asked) == (section == COMMUNICATION_PREFERENCES)


def _topics(text: str) -> set[str]:
    return {name for name, pattern in _TOPICS.items() if pattern.search(text)}
