"""The six sections of a profile and how their headings are recognised in what people and models write."""

from __future__ import annotations

import difflib
import html
import re
import unicodedata
from dataclasses import dataclass

IDENTITY = "Identity"
COMMUNICATION_PREFERENCES = "Communication Preferences"
WORK_CONTEXT = "Work Context"
SKILLS = "Skills & Expertise"
RECENT_TOPICS = "Recent Topics"
FOLLOW_UPS = "Follow-ups"

SECTIONS: tuple[str, ...] = (IDENTITY, COMMUNICATION_PREFERENCES, WORK_CONTEXT, SKILLS, RECENT_TOPICS, FOLLOW_UPS)
"""The headings, in the order of the file."""

TITLE = "User Memory"

_KEYS: dict[str, str] = {
    "identity": IDENTITY,
    "communicationpreferences": COMMUNICATION_PREFERENCES,
    "communicationpreference": COMMUNICATION_PREFERENCES,
    "workcontext": WORK_CONTEXT,
    "skillsexpertise": SKILLS,
    "skillexpertise": SKILLS,
    "skills": SKILLS,
    "expertise": SKILLS,
    "recenttopics": RECENT_TOPICS,
    "recenttopic": RECENT_TOPICS,
    "followups": FOLLOW_UPS,
    "followup": FOLLOW_UPS,
}
_TITLE_KEY = "usermemory"
_JOINING_WORDS = frozenset({"and", "und", "et", "y"})
_NUMBERING = re.compile(r"^\W*(?:\d{1,2}|[ivx]{1,4})[.)]\s+")
_WORD = re.compile(r"[^\W_]+")
_REST = re.compile(r"\s*[:：]\s*|\s+[-–—]\s+|\s*(?=[(（])")
_BOLD = re.compile(r"(\*\*|__|\*|_)(?=\S)([^*_]{1,80})\1\s*:?")
_PLAIN = {form for name in SECTIONS for form in (name, name + ":", name.replace("&", "and"), name.replace("&", "&amp;"))}
_MAX_CHARS = 80
_TYPO_RATIO = 0.85


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading line. ``section``: the section it names, or None; ``is_title``: it is the file's title, "User Memory".

    ``rest``: for a section, what follows its name on the line ("Identity: Anna" → "Anna"); for an unknown heading its whole text.
    """

    level: int
    section: str | None
    rest: str
    is_title: bool = False


def read_heading(line: str, *, typos: bool = True) -> Heading | None:
    """The heading that a line is, or None for any other text.

    Hash headings of every level count; a line in bold or a plain line only if it names a section. ``typos``: also take a
    heading that is nearly a section's name ("Identitiy") for it.
    """
    text = line.strip()
    if not text:
        return None
    if text[0] == "#":
        return _read_hash_heading(line, text, typos=typos)
    if text in _PLAIN:
        return _named(2, text, typos=False)
    if text[0] in "*_" and (bold := _BOLD.fullmatch(text)):
        found = _named(2, bold[2], typos=False)
        return found if found.section and not found.rest else None
    return None


def read_underlined(text: str, level: int) -> Heading:
    """The heading of a line that is underlined with ``===`` (level 1) or ``---`` (level 2)."""
    return _named(level, text.strip(), typos=True)


def _read_hash_heading(line: str, text: str, *, typos: bool) -> Heading | None:
    body = text.lstrip("#")
    level = min(len(text) - len(body), 6)
    without_closing = body.rstrip("#")
    if not without_closing or without_closing[-1].isspace():
        body = without_closing
    found = _named(level, body.strip(), typos=typos)
    if found.section or found.is_title:
        return found
    indent = len(line) - len(line.lstrip())
    is_heading = indent < 4 and len(text) - len(text.lstrip("#")) <= 6 and (not body or body[0].isspace())
    return found if is_heading else None


def _named(level: int, text: str, *, typos: bool) -> Heading:
    unknown = Heading(level, None, text)
    if section := _section(text, typos=typos):
        return Heading(level, section, "")
    if len(text) <= _MAX_CHARS and _key(text) == _TITLE_KEY:
        return Heading(level, None, "", is_title=True)
    name, rest = _split_rest(text)
    if rest and (section := _section(name, typos=False)):
        return Heading(level, section, rest)
    return unknown


def _split_rest(text: str) -> tuple[str, str]:
    cut = _REST.search(text, 0, _MAX_CHARS)
    if cut is None:
        return text, ""
    return text[: cut.start()], text[cut.end() :].strip(" *_")


def _section(text: str, *, typos: bool) -> str | None:
    if len(text) > _MAX_CHARS:
        return None
    key = _key(text)
    if key in _KEYS:
        return _KEYS[key]
    if not typos or len(key) < 6:
        return None
    for known, section in _KEYS.items():
        if abs(len(known) - len(key)) <= 2 and (known[0] == key[0] or known[-3:] == key[-3:]):
            matcher = difflib.SequenceMatcher(None, known, key, autojunk=False)
            if matcher.ratio() >= _TYPO_RATIO:
                return section
    return None


def _key(text: str) -> str:
    """Letters and digits only, small, without numbering and joining words: "3. **Skills &amp; Expertise:**" → "skillsexpertise"."""
    plain = unicodedata.normalize("NFKC", html.unescape(text)).casefold()
    return "".join(word for word in _WORD.findall(_NUMBERING.sub("", plain)) if word not in _JOINING_WORDS)
