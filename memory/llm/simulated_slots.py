# ruff: noqa: E501  (patterns)
"""What the simulated model can know: slots, how each is written as a bullet, and how a bullet is recognised again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from memory.llm.simulated_text import words
from memory.model.headings import COMMUNICATION_PREFERENCES, FOLLOW_UPS, IDENTITY, RECENT_TOPICS, SKILLS, WORK_CONTEXT

Language = Literal["en", "de", "zh"]
Action = Literal["set", "set_if_new", "add", "replace", "remove", "remove_like", "forget", "reword"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing the user said.

    ``set``: the one bullet of this key says ``text``; ``set_if_new``: unless the key has a bullet; ``add``: unless a bullet
    says so; ``replace``: as ``add``, but the section's latest bullet of the slot goes; ``remove``: bullets of the slot that are
    like ``value`` (all, without a value); ``remove_like``: bullets of the section that are like ``value``; ``forget``: bullets
    of all sections that are; ``reword``: ``value`` becomes ``text`` wherever a bullet says it.
    """

    action: Action
    slot: str
    section: str
    key: str
    text: str = field(default="", repr=False)
    value: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """``forms``: the bullet by language, ``{}`` stands for the value. ``keyed``: by what the bullet is about; else one per user."""

    section: str
    forms: tuple[str, str, str]
    keyed: bool = False
    also: tuple[str, ...] = ()
    """Other beginnings that people and models write."""


SLOTS: Mapping[str, Slot] = {
    "name": Slot(IDENTITY, ("Name: {}", "Name: {}", "姓名：{}"), also=("Name is ", "Heißt ", "名字：")),
    "called": Slot(
        IDENTITY, ("Likes to be called {}", "Möchte {} genannt werden", "希望被称为{}"), also=("Prefers to be called ",)
    ),
    "role": Slot(
        IDENTITY,
        ("Role: {}", "Beruf: {}", "职业：{}"),
        also=("Job: ", "Title: ", "Works as ", "Rolle: ", "Arbeitet als ", "职位："),
    ),
    "employer": Slot(
        IDENTITY,
        ("Works at {}", "Arbeitet bei {}", "在{}工作"),
        also=("Employer: ", "Works for ", "Arbeitgeber: ", "雇主：", "公司："),
    ),
    "team": Slot(IDENTITY, ("Team: {}", "Team: {}", "团队：{}")),
    "place": Slot(
        IDENTITY,
        ("Lives in {}", "Wohnt in {}", "住在{}"),
        also=("Based in ", "Location: ", "Located in ", "Lebt in ", "Wohnort: ", "Ort: ", "居住地："),
    ),
    "origin": Slot(IDENTITY, ("Comes from {}", "Kommt aus {}", "来自{}"), also=("From ", "Originally from ")),
    "time_zone": Slot(IDENTITY, ("Time zone: {}", "Zeitzone: {}", "时区：{}"), also=("Timezone: ",)),
    "native": Slot(IDENTITY, ("Native language: {}", "Muttersprache: {}", "母语：{}")),
    "speaks": Slot(IDENTITY, ("Speaks {}", "Spricht {}", "会说{}"), keyed=True, also=("Languages: ", "Language: ", "Sprachen: ")),
    "dislikes": Slot(IDENTITY, ("Dislikes {}", "Mag nicht: {}", "不喜欢{}"), keyed=True),
    "likes": Slot(IDENTITY, ("Likes {}", "Mag {}", "喜欢{}"), keyed=True, also=("Enjoys ", "Loves ")),
    "prefers": Slot(IDENTITY, ("Prefers {}", "Bevorzugt {}", "更喜欢{}"), keyed=True),
    "favourite": Slot(IDENTITY, ("Favourite {}", "Lieblings{}", "最喜欢的{}"), keyed=True, also=("Favorite ",)),
    "answer_language": Slot(COMMUNICATION_PREFERENCES, ("Answers in {}", "Antworten auf {}", "用{}回答")),
    "answer_length": Slot(
        COMMUNICATION_PREFERENCES, ("Length: {}", "Länge: {}", "篇幅：{}"), also=("Short answers", "Kurze Antworten")
    ),
    "answer_format": Slot(COMMUNICATION_PREFERENCES, ("Format: {}", "Format: {}", "格式：{}")),
    "answer_tone": Slot(COMMUNICATION_PREFERENCES, ("Tone: {}", "Ton: {}", "语气：{}")),
    "emojis": Slot(COMMUNICATION_PREFERENCES, ("Emojis: {}", "Emojis: {}", "表情符号：{}"), also=("No emojis", "Keine Emojis")),
    "units": Slot(COMMUNICATION_PREFERENCES, ("Units: {}", "Einheiten: {}", "单位：{}")),
    "project": Slot(
        WORK_CONTEXT, ("Working on {}", "Arbeitet an {}", "正在做{}"), keyed=True, also=("Project: ", "Projekt: ", "项目：")
    ),
    "goal": Slot(WORK_CONTEXT, ("Goal: {}", "Ziel: {}", "目标：{}"), keyed=True),
    "deadline": Slot(WORK_CONTEXT, ("Deadline: {}", "Frist: {}", "截止日期：{}"), keyed=True),
    "milestone": Slot(WORK_CONTEXT, ("{}", "{}", "{}"), keyed=True),
    "learning": Slot(SKILLS, ("Learning {}", "Lernt {}", "正在学{}"), keyed=True),
    "good_at": Slot(SKILLS, ("Good at {}", "Gut in {}", "擅长{}"), keyed=True),
    "experience": Slot(SKILLS, ("Experience: {}", "Erfahrung: {}", "经验：{}"), keyed=True),
    "knows": Slot(SKILLS, ("Knows {}", "Kann {}", "会{}"), keyed=True),
    "follow_up": Slot(FOLLOW_UPS, ("{}", "{}", "{}"), keyed=True),
    "topic": Slot(RECENT_TOPICS, ("{}", "{}", "{}"), keyed=True),
}
_LANGUAGES: tuple[Language, ...] = ("en", "de", "zh")


def bullet_text(slot: str, language: Language, value: str) -> str:
    """The bullet that says ``value`` of ``slot``; it begins with a capital."""
    text = SLOTS[slot].forms[_LANGUAGES.index(language)].replace("{}", value)
    return text[:1].upper() + text[1:]


def key_of(slot: str, value: str) -> str:
    """What a bullet is about: two bullets of one key contradict each other.

    Of slots without a key the slot itself; a favourite is about its thing, a preference about its last noun, a milestone about
    its subject, everything else about its words.
    """
    if not SLOTS[slot].keyed:
        return slot
    if slot == "favourite":
        subject = re.split(r"[:：]| is | ist |是", value, maxsplit=1)[0]
    elif slot == "prefers":
        pair = re.split(r"\s+(?:to|over|vor|gegenüber|als)\s+", value)
        subject = " ".join(pair) if len(pair) > 1 else (words(value) or [value])[-1]
    elif slot == "milestone":
        subject = _MILESTONE_VERB.split(value, maxsplit=1)[0]
    elif slot == "deadline":
        subject = re.split(r"[:：]", value, maxsplit=1)[0] if re.search(r"[:：]", value) else ""
    else:
        subject = value
    return f"{slot}:{' '.join(sorted(set(words(subject)))) or subject.strip().lower()}"


_MILESTONE_VERB = re.compile(
    r"\s+(?:is due|goes out|goes live|launches|ships|starts|begins|ends|is (?:planned|scheduled)|geht|startet|beginnt|endet|ist fällig|erscheint)\b|上线|发布|开始|结束",
    re.IGNORECASE,
)


@cache
def _beginnings(section: str) -> tuple[tuple[str, str, str], ...]:
    """(beginning, end, slot) of the bullets of a section, the longest first."""
    found: set[tuple[str, str, str]] = set()
    for name, slot in SLOTS.items():
        if slot.section != section:
            continue
        for form in slot.forms:
            start, _, end = form.partition("{}")
            if start or end:
                found.add((start.lower(), end.lower(), name))
        found |= {(start.lower(), "", name) for start in slot.also}
    return tuple(sorted(found, key=lambda item: (-len(item[0]) - len(item[1]), item)))


def read_bullet(section: str, text: str) -> tuple[str, str] | None:
    """(slot, key) of a bullet that has a form the simulated model knows; None for any other."""
    lower = text.lower()
    for start, end, slot in _beginnings(section):
        if lower.startswith(start) and lower.endswith(end) and len(lower) >= len(start) + len(end):
            return slot, key_of(slot, text[len(start) : len(text) - len(end)])
    if section == WORK_CONTEXT and _MILESTONE_VERB.search(text):
        return "milestone", key_of("milestone", text)
    return None
