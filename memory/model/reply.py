"""Reading what a model wrote. A model's output is untrusted: it is stripped, checked, and refused with a reason.

Reasons name sections and counts, never text of the reply: they end up in logs and histories, and in the repair request.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, cast

from memory.model.errors import MalformedOutput
from memory.model.headings import read_heading
from memory.model.profile import EMPTY_MARK, SECTIONS, Bullet, Profile, parse_body

MAX_REPLY_CHARS = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Noop:
    """The model says that nothing is to be changed."""


@dataclass(frozen=True, slots=True)
class Clean:
    """The model vouches that the profile is about its user alone."""


NOOP: Final = Noop()
CLEAN: Final = Clean()

_THINK_NAMES = r"(?:think|thinking|thought|thoughts|reasoning|reflection|analysis)"
_THINK_TAG = re.compile(rf"<[ \t]{{0,4}}(/?)[ \t]{{0,4}}{_THINK_NAMES}(?:\s[^<>]{{0,100}})?>", re.IGNORECASE)
_FENCE_LINE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)[ \t]*")
_DECORATION = " \t\r\n*_`~\"'“”„‚‘’«»()[]{}<>#>|-–—:：=.,;!。，！；、"
_WORDS = {"NOOP": r"no[-_ ]?op", "UPDATE": r"update", "CLEAN": r"clean"}
_LABEL = r"(?:(?:final\s+)?(?:decision|answer|verdict|result|output|response|reply)|entscheidung|antwort|ergebnis|决定|答案|结果)"
_LABELLED = (
    r"(?:^|\W){label}[\"'*_` ]{{0,9}}(?:is\b|ist\b|[:：=]|->|→|是)[\"'*_` :]{{0,9}}{word}"
    r"(?:[\"'*_`)\]}}.!。” ]{{0,9}}$|\"\s{{0,9}},\s{{0,9}}\")"
)
"""The word after its label ends the line, or is one value of a JSON object."""
_PLACEHOLDER = re.compile(
    r"(?:none|n/?a|nothing(?:\s+(?:yet|here|so far|known|noted|recorded))*|empty|unknown|tbd"
    r"|not\s+(?:specified|provided|known|available)"
    r"|no\s+(?:information|data|entries|details|known\s+\w+|\w+)\s*(?:yet|available|known|provided|recorded|so\s+far)"
    r"|keine(?:\s+(?:angaben?|einträge|informationen|daten))?|nichts|leer|无|暂无|没有|\.{2,}|…)[.。]?",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\[[^\[\]]{0,80}\]|<[^<>]{0,80}>|\{[^{}]{0,80}\}")
_TASK_BOX = re.compile(r"\[[ xX]\]")
_CHATTER = re.compile(
    r"[\s*_>#(\[]*(?:"
    r"let\s+me\s+know|i\s+(?:have|ve|added|updated|removed|merged|kept|made|did|hope|also|left|did\s+not)\b|i['’]ve\b|note\b|notes\b|"
    r"changes?\b|summary\b|explanation\b|reason(?:ing)?\b|rationale\b|(?:this|the)\s+(?:updated\s+|new\s+|above\s+|revised\s+)?"
    r"(?:profile|memory|update|rewrite)\b|here\s+(?:is|are)\b|hope\s+(?:this|that)|please\s+(?:let|note|review)|is\s+there\s+anything|"
    r"would\s+you\s+like|what\s+changed|(?:updates?|additions?|deletions?|removals?|added|removed|updated)\b\s*[:(]|"
    r"end\s+of\s+(?:profile|memory|file)|ich\s+habe\b|hinweis|änderungen|zusammenfassung|begründung|anmerkung|erläuterung|"
    r"lass\s+mich\s+wissen|以上|注[:：]|说明|变更|更新[:：]|总结|备注|希望)",
    re.IGNORECASE,
)

_CHANGE_LIST = re.compile(
    r"[#*_ ]{0,9}(?:(?:a |the )?(?:brief |short )?summary of (?:the )?(?:changes|updates)|what (?:has )?changed"
    r"|(?:key |the )?changes(?: made)?|explanation of (?:the )?changes"
    r"|(?:zusammenfassung der )?(?:vorgenommene )?änderungen|变更说明|变更|修改说明)[*_:： ]{0,9}",
    re.IGNORECASE,
)
"""A line that heads a list of what the model did."""


def strip_reply(text: str) -> str:
    """The reply without thinking blocks, byte order marks and the code fence around it.

    A thinking block that is never closed goes too; if nothing would be left, only its tag goes. Of a reply that holds a whole
    profile only what stands before the profile is thinking: a bullet may speak of ``<think>``.
    """
    text = _bounded(text)
    return _strip(text, _profile_marks(text))


def _strip(text: str, marks: _Marks) -> str:
    without = _strip_thinking(text, marks)
    if not without.strip():
        without = _THINK_TAG.sub("\n", text)
    return _strip_fence(without.strip())


def parse_gate(text: str) -> bool | None:
    """The gate's decision: True for UPDATE, False for an explicit NOOP, None for anything that is not clearly one of them."""
    return {"UPDATE": True, "NOOP": False}.get(_decision(text, ("NOOP", "UPDATE")) or "")


def parse_profile_reply(text: str) -> Profile | Noop:
    """The complete profile that a model wrote, or NOOP.

    Raises:
        MalformedOutput: empty, not exactly the six sections once each, cut off, or with text that may or may not belong to it.
    """
    body = strip_reply(text)
    if not body:
        raise MalformedOutput("the reply is empty")
    if not any(_section_of(line) for line in body.splitlines()):
        if _decision(text, ("NOOP", "UPDATE")) == "NOOP":
            return NOOP
        raise MalformedOutput("the reply has none of the six section headings and is not NOOP")
    return _read_profile(body)


def parse_scrub_reply(text: str) -> Clean | Profile:
    """CLEAN, or the cleaned profile. Raises MalformedOutput for anything else: such a reply vouches for nothing."""
    body = strip_reply(text)
    if not body:
        raise MalformedOutput("the reply is empty")
    if any(_section_of(line) for line in body.splitlines()):
        return _read_profile(body)
    if _decision(text, ("CLEAN",)) == "CLEAN":
        return CLEAN
    raise MalformedOutput("the reply is neither CLEAN nor a profile with its six sections")


# ------------------------------------------------------------------------------------------------------------ decisions


def _decision(text: str, words: tuple[str, ...]) -> str | None:
    """The one of ``words`` that the reply explicitly gives; None when it gives none, or speaks of more than one.

    Explicit is the word alone on the first or last line, or after a label at the end of a line: a word that goes on
    ("NOOP would be wrong", "CLEAN, except …") may say the opposite.
    """
    text = _strip_thinking(_bounded(text)).strip()
    spoken = [word for word in words if re.search(rf"(?<!\w){_WORDS[word]}(?!\w)", text, re.IGNORECASE)]
    if len(spoken) != 1:
        return None
    word, pattern = spoken[0], _WORDS[spoken[0]]
    lines = [line for line in text.splitlines() if line.strip(_DECORATION) and not _FENCE_LINE.fullmatch(line)]
    if not lines:
        return None
    alone = re.compile(pattern, re.IGNORECASE)
    if any(alone.fullmatch(line.strip(_DECORATION)) for line in (lines[0], lines[-1])):
        return word
    labelled = re.compile(_LABELLED.format(label=_LABEL, word=pattern), re.IGNORECASE)
    return word if any(labelled.search(line.rstrip()) for line in lines) else None


# ----------------------------------------------------------------------------------------------------- fences, thinking


def _bounded(text: str) -> str:
    if len(text) > MAX_REPLY_CHARS:
        raise MalformedOutput(f"the reply has {len(text)} characters; at most {MAX_REPLY_CHARS} are read")
    return text.replace("\ufeff", "").replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class _Marks:
    """Where the answer may begin: ``starts``, in order. From ``last`` on the text holds no whole answer any more."""

    starts: tuple[int, ...]
    last: int


_ANYWHERE = _Marks((), MAX_REPLY_CHARS)


def _profile_marks(text: str) -> _Marks:
    """The section headings; ``last``: the last place behind which all six stand."""
    starts: list[int] = []
    latest: dict[str, int] = {}
    position = 0
    for line in text.split("\n"):
        if section := _section_of(line):
            starts.append(position)
            latest[section] = position
        position += len(line) + 1
    return _Marks(tuple(starts), min(latest.values())) if len(latest) == len(SECTIONS) else _ANYWHERE


def _json_marks(text: str, key: str) -> _Marks:
    starts = tuple(found.start() for found in re.finditer(re.escape(f'"{key}"'), text))
    return _Marks(starts, starts[-1]) if starts else _ANYWHERE


def _strip_thinking(text: str, marks: _Marks = _ANYWHERE) -> str:
    """Without thinking blocks; an unopened one reaches from the start, an unclosed one to the end (or to a whole answer in it).

    Where the answer has begun, tags are text.
    """
    kept: list[str] = []
    depth, position, answer = 0, 0, 0
    for tag in _THINK_TAG.finditer(text):
        if depth == 0 and tag[1]:
            if tag.end() > marks.last:
                continue
            kept.clear()
        elif depth == 0:
            if bisect_left(marks.starts, position) < bisect_left(marks.starts, tag.start()):
                break
            kept.append(text[position : tag.start()])
            depth = 1
        else:
            depth += -1 if tag[1] else 1
        position = tag.end()
        answer = position if position <= marks.last else answer
    if depth == 0:
        kept.append(text[position:])
    elif marks is not _ANYWHERE and answer <= marks.last:
        kept.append(text[answer:])
    return "\n".join(kept)


def _strip_fence(text: str) -> str:
    """The content of a code fence around the whole text (several, one in the other, too)."""
    lines = text.splitlines()
    first, last = 0, len(lines) - 1
    while first < last and _is_fence_pair(lines[first], lines[last]):
        first, last = first + 1, last - 1
        while first <= last and not lines[first].strip():
            first += 1
        while first <= last and not lines[last].strip():
            last -= 1
    return text if first == 0 else "\n".join(lines[first : last + 1]).strip()


def _is_fence_pair(opening: str, closing: str) -> bool:
    one, other = _FENCE_LINE.fullmatch(opening), _FENCE_LINE.fullmatch(closing)
    return one is not None and other is not None and not other[2] and one[1][0] == other[1][0]


# -------------------------------------------------------------------------------------------------------------- profile


def _section_of(line: str) -> str | None:
    heading = read_heading(line)
    return heading.section if heading else None


def _read_profile(body: str) -> Profile:
    lines = body.splitlines()
    found = [(number, section) for number, line in enumerate(lines) if (section := _section_of(line))]
    counts = Counter(section for _, section in found)
    if missing := [name for name in SECTIONS if not counts[name]]:
        raise MalformedOutput(f"sections missing: {', '.join(missing)}")
    if repeated := [name for name in SECTIONS if counts[name] > 1]:
        raise MalformedOutput(f"sections given more than once: {', '.join(repeated)}")
    first, last = found[0][0], found[-1][0]
    fenced = sum(1 for line in lines[:first] if _FENCE_LINE.fullmatch(line)) % 2 == 1
    _check_headings(lines, first, last)
    tail = _strip_tail(lines[last + 1 :], fenced=fenced)
    profile = parse_body("\n".join([*lines[first : last + 1], *tail]))
    return _without_placeholders(profile)


def _check_headings(lines: list[str], first: int, last: int) -> None:
    heading = read_heading(lines[first])
    usual = heading.level if heading else 2
    for line in lines[first:last]:
        if _THINK_TAG.match(line.strip()):
            raise MalformedOutput("a thinking block stands between the sections")
        other = read_heading(line)
        if other and not other.section and not other.is_title and other.level <= usual:
            raise MalformedOutput("a heading between the sections is none of the six")


def _strip_tail(lines: list[str], *, fenced: bool) -> list[str]:
    """What belongs to the last section, of all that follows its heading."""
    if not any(line.strip() for line in lines):
        raise MalformedOutput(f"the reply ends after its last heading, without a bullet or {EMPTY_MARK}; it looks cut off")
    if fenced:
        end = next((number for number, line in enumerate(lines) if _FENCE_LINE.fullmatch(line)), None)
        if end is None:
            raise MalformedOutput("the code fence around the profile is not closed; the reply looks cut off")
        return lines[:end]
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled[-1]) == 1 and filled[-1] in "-*+•":
        raise MalformedOutput("the reply ends in a bullet without text; it looks cut off")
    after_blank, begun = False, False
    for number, line in enumerate(lines):
        text = line.strip()
        if not text:
            after_blank = True
            continue
        is_content = _is_item(text) or line.startswith(("  ", "\t")) or text.startswith("<!--")
        if is_content or re.fullmatch(r"[_*]*\(empty\)[_*]*", text):
            begun = True
        elif _ends_profile(text) or (begun and after_blank) or _CHATTER.match(text):
            _check_dropped(lines[number:], after_blank=after_blank)
            return lines[:number]
        after_blank = False
    return lines


def _check_dropped(lines: list[str], *, after_blank: bool) -> None:
    """Text after the last section may go; bullets in it may be real ones, unless a heading says that they tell of changes."""
    for line in lines:
        text = line.strip()
        if not text:
            after_blank = True
        elif _is_item(text):
            raise MalformedOutput("bullets follow other text in the last section; the profile must end with its last bullet")
        elif after_blank and _CHANGE_LIST.fullmatch(text):
            return
        elif re.fullmatch(r"[-*_=\s]{3,}", text):
            after_blank = True


def _is_item(text: str) -> bool:
    return re.match(r"[-*+•‣◦▪●○·–—]\s+\S|\d{1,3}[.)]\s", text) is not None and not re.fullmatch(r"[-*_\s]+", text)


def _ends_profile(text: str) -> bool:
    """A rule, a fence, a closing tag, a thinking block or a heading after the last section."""
    return (
        re.fullmatch(r"[-*_=\s]{3,}", text) is not None
        or _FENCE_LINE.fullmatch(text) is not None
        or text.startswith("</")
        or _THINK_TAG.match(text) is not None
        or read_heading(text) is not None
    )


def _without_placeholders(profile: Profile) -> Profile:
    """Without bullets that only say that there is nothing ("None", "[Name]"), and without the truncation mark."""
    rows = (
        tuple(Bullet("" if is_placeholder(bullet.text) else bullet.text, _real(bullet.children)) for bullet in bullets)
        for bullets in profile.sections
    )
    return Profile(tuple(rows))


def _real(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text for text in texts if not is_placeholder(text))


def is_placeholder(text: str) -> bool:
    """Whether a bullet only says that there is nothing, or repeats the blank of a form."""
    plain = text.strip(" *_()`")
    if _PLACEHOLDER.fullmatch(plain):
        return True
    return _BRACKETED.fullmatch(text.strip(" *_`")) is not None and not _TASK_BOX.fullmatch(text)


# ----------------------------------------------------------------------------------------------------------------- JSON


def find_json(text: str, key: str) -> dict[str, Any]:
    """The one JSON object with ``key`` in a reply; a list at its start stands for ``{key: list}``.

    Raises:
        MalformedOutput: none, or several that differ.
    """
    text = _bounded(text)
    body = _strip(text, _json_marks(text, key))
    if not body:
        raise MalformedOutput("the reply is empty")
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    position, tries = 0, 0
    while tries < 50 and (start := re.compile(r"[{\[]").search(body, position)):
        tries += 1
        try:
            value, position = decoder.raw_decode(body, start.start())
        except (ValueError, RecursionError):
            position = start.end()
            continue
        value = _as_object(value, key, alone=start.start() == 0)
        if value is not None and value not in found:
            found.append(value)
    if len(found) > 1:
        raise MalformedOutput(f'the reply has several JSON objects with "{key}"')
    if not found:
        raise MalformedOutput(f'the reply has no complete JSON object with "{key}"')
    return found[0]


def _as_object(value: Any, key: str, *, alone: bool) -> dict[str, Any] | None:
    if isinstance(value, dict):
        given = cast(dict[str, Any], value)
        return given if key in given else None
    if alone and isinstance(value, list) and all(isinstance(item, dict) and "op" in item for item in cast(list[Any], value)):
        return {key: value}
    return None
