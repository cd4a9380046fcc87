# ruff: noqa: E501  (patterns)
"""Shared parts of the language tables of the simulated model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from memory.llm.simulated_slots import SLOTS, Action, Language, Statement, bullet_text, key_of
from memory.llm.simulated_text import word_set

Make = Callable[[re.Match[str], str], Iterable[Statement]]
"""From a match and the stamp of the turn to statements."""

_NO_VALUE = word_set(
    """
    it this that these those there here them him her you me us everything something nothing anything someone what which
    how so too well to be a an the no not es das dies dir dich ihn sie mir mich alles etwas nichts so nicht kein keine
    ja nein 这个 那个 它 你 这 那 什么
    """
)
_HEALTH = re.compile(
    r"\b(?:diabet\w*|cancer|depress\w*|anxiety|disorder|adhd|autis\w*|asthma\w*|allerg\w*|pregnan\w*|disease|illness|sick|surgery|therapy|medication|"
    r"hiv|epilep\w*|migraine\w*|krank\w*|krebs|schwanger\w*|therapie|medikament\w*|operation|patient(?:in)?|insulin|bipolar|insomnia)\b|癌|糖尿病|抑郁|怀孕|手术|病",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"\s*(?:,\s*)?\b(?:now|currently|these days|at the moment|right now|any ?more|too|also|as well|please|thanks|thank you|again|very well|quite well|"
    r"pretty well|really well|well|very much|a lot|so much|at heart|actually|originally|recently|yesterday|last (?:year|month|week|spring|summer|autumn|fall|winter)|by the way|though|jetzt|gerade|zurzeit|zur zeit|momentan|derzeit|nun|mehr|"
    r"auch|bitte|danke|sehr gut|ganz gut|recht gut|gut|fließend|sehr|übrigens)$",
    re.IGNORECASE,
)
MAX_VALUE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Pattern:
    """``asks``: it also counts in a question ("Can you remind me …?")."""

    language: Language
    regex: re.Pattern[str]
    make: Make
    asks: bool = False


def tidy(value: str, *, drop: str = "") -> str:
    """A value without the words and marks around it; "" when nothing storable is left.

    ``drop``: a pattern of articles that go from the beginning.
    """
    value = " ".join(value.split()).strip(" ,.;:!?。，！？；、\"'“”„*_()")
    while shorter := _TAIL.search(value):
        value = value[: shorter.start()].rstrip(" ,")
    if drop:
        value = re.sub(rf"^(?:{drop})\s+", "", value, flags=re.IGNORECASE)
    if not value or value.lower() in _NO_VALUE or "[redacted" in value or len(value) > MAX_VALUE_CHARS or _HEALTH.search(value):
        return ""
    return value


def say(action: Action, slot: str, language: Language, value: str) -> Statement:
    """A statement of a slot's value."""
    return Statement(action, slot, SLOTS[slot].section, key_of(slot, value), bullet_text(slot, language, value), value)


def fact(
    language: Language,
    slot: str,
    pattern: str,
    *,
    action: Action = "set",
    drop: str = "",
    flags: int = re.IGNORECASE,
    asks: bool = False,
) -> Pattern:
    """The value is the group ``v`` (or ``v2``)."""

    def make(match: re.Match[str], stamp: str) -> Iterable[Statement]:
        groups = match.groupdict()
        value = tidy(groups.get("v") or groups.get("v2") or "", drop=drop)
        if value:
            yield say(action, slot, language, f"{stamp}: {value}" if slot == "topic" else value)

    return Pattern(language, re.compile(pattern, flags), make, asks)


def facts(language: Language, pattern: str, drop: str = "", **slots: Action) -> Pattern:
    """Several slots at once; each value is the group of the slot's name."""

    def make(match: re.Match[str], stamp: str) -> Iterable[Statement]:
        for slot, action in slots.items():
            if value := tidy(match[slot] or "", drop=drop):
                yield say(action, slot, language, value)

    return Pattern(language, re.compile(pattern, re.IGNORECASE), make)


def gone(language: Language, action: Action, slot: str, pattern: str, *, asks: bool = False) -> Pattern:
    """What no longer holds: the value, where there is a group ``v``, says which."""

    def make(match: re.Match[str], stamp: str) -> Iterable[Statement]:
        value = tidy(match.groupdict().get("v") or "")
        if value or action == "remove":
            yield Statement(action, slot, SLOTS[slot].section, key_of(slot, value), "", value)

    return Pattern(language, re.compile(pattern, re.IGNORECASE), make, asks)


def custom(language: Language, pattern: str, make: Make, *, asks: bool = False) -> Pattern:
    return Pattern(language, re.compile(pattern, re.IGNORECASE), make, asks)


def likes(language: Language, pattern: str, *, negative: bool) -> Pattern:
    """A liking or disliking; its opposite about the same thing goes."""

    def make(match: re.Match[str], stamp: str) -> Iterable[Statement]:
        if value := tidy(match["v"]):
            slot, opposite = ("dislikes", "likes") if negative else ("likes", "dislikes")
            yield Statement("remove", opposite, SLOTS[opposite].section, key_of(opposite, value), "", value)
            yield say("add", slot, language, value)

    return custom(language, pattern, make)


def favourite(language: Language, pattern: str) -> Pattern:
    """Groups ``thing`` and ``v``."""

    def make(match: re.Match[str], stamp: str) -> Iterable[Statement]:
        thing, value = tidy(match["thing"]), tidy(match["v"])
        if thing and value:
            colon = "：" if language == "zh" else ": "
            yield say("set", "favourite", language, f"{thing.lower() if language != 'zh' else thing}{colon}{value}")

    return custom(language, pattern, make)


def reworded(language: Language, pattern: str) -> Pattern:
    """ "NEW, not OLD": groups ``v`` (what was said before OLD) and ``old``."""

    def make(match: re.Match[str], stamp: str) -> Iterable[Statement]:
        old = tidy(match["old"], drop=r"on|in|at|by|until|for|with|the|am|im|bis|zum|der|die|das|den|dem")
        if old:
            yield Statement("reword", "", "", "", match["v"], old)

    return custom(language, pattern, make)
