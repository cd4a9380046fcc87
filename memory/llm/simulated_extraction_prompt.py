# ruff: noqa: E501  (word lists)
"""How the simulated model reads the prompt of an extraction: what is known, the transcript, what is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, cast

from memory.llm.simulated_text import sentences
from memory.model.category import Category
from memory.model.errors import ModelRejected
from memory.ports import ChatRequest

_KNOWN = re.compile(r"^<known>\n(.*?)\n?^</known>$", re.MULTILINE | re.DOTALL)
_TRANSCRIPT = re.compile(r"^<transcript>\n(.*?)\n?^</transcript>$", re.MULTILINE | re.DOTALL)
_TODAY = re.compile(r"^Today is (\d{4}-\d{2}-\d{2})\b", re.MULTILINE)
_CATEGORIES = re.compile(r"\bCategories: ([a-z_, ]+)")
_LINE = re.compile(r"^\[(\d+)\] (\d{4}-\d{2}-\d{2} \d{2}:\d{2}) UTC \| (.*)$")
_HAN = re.compile(r"[\u3400-\u9fff]")
_OTHER_SCRIPT = re.compile(r"[\u3040-\u30ff\u0400-\u04ff\u0590-\u06ff\u0900-\u0e7f\uac00-\ud7af]")
_MARKS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and is are not we i you he she to of in on this that will has have my our your please with for by it from was were be"
        " can could never always until at an if as his her their been no all me us each every only also",
        "de": "der die das und ist sind nicht ich wir du sie er es zu von im am bis den dem ein eine einen hat haben mein meine unser"
        " unsere bitte mit für auf wird auch noch ab vom zum zur mir mich nie immer kein keine jeden beim brauchen seit jetzt heißt",
        "fr": "le la les et est sont ne pas je nous vous tu il elle des du une un pour dans sur avec mon ma notre au aux que qui à",
        "es": "el los las y es son yo nosotros usted para por con mi nuestro que de del una un no está muy su",
        "it": "il lo gli e è sono io noi voi per con mio nostro che di del una un non",
    }.items()
}
_MAX_SENTENCES = 4000
_CUT = re.compile(r"\[…|\[redacted", re.IGNORECASE)
"""A sentence with one of these stands in no event as it is."""
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class KnownContact:
    """``fields``: those that are set. A contact that this reply creates has a ref ``new<n>``."""

    ref: str
    name: str = field(repr=False)
    fields: Mapping[str, str] = field(repr=False)
    is_user: bool = False
    is_assistant: bool = False
    sender_ids: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class KnownTask:
    ref: str
    name: str = field(repr=False)
    description: str = field(repr=False)
    fields: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class KnownFact:
    ref: str
    subject: str = field(repr=False)
    statement: str = field(repr=False)
    valid_until: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A message. ``sender``: the ref of its contact, "" where there is none."""

    number: int
    at: datetime
    sender: str
    sender_name: str = field(repr=False)
    medium: str
    text: str = field(repr=False)
    from_assistant: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A manager call, ``text``: all the words of its request or answer."""

    number: int
    manager: str
    method: str
    phase: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence in which somebody other than the assistant speaks for themselves. ``quote``: as it stands in the line."""

    line: Line
    text: str = field(repr=False)
    quote: str = field(repr=False)
    question: bool
    language: str

    @property
    def evidence(self) -> dict[str, Any]:
        return {"event": self.line.number, "quote": self.quote}


@dataclass(frozen=True, slots=True)
class Brief:
    """What an extraction asks for."""

    contacts: tuple[KnownContact, ...]
    tasks: tuple[KnownTask, ...]
    facts: tuple[KnownFact, ...]
    lines: tuple[Line, ...]
    calls: tuple[Call, ...]
    categories: tuple[Category, ...]
    today: date
    said: tuple[Said, ...] = ()
    """What people said, sentence by sentence; the assistant's words are left out."""

    def contact(self, ref: str) -> KnownContact | None:
        return next((one for one in self.contacts if one.ref == ref), None)


def is_extraction(request: ChatRequest) -> bool:
    return request.schema_name == "window_items" and bool(request.messages)


def read_extraction(request: ChatRequest) -> Brief:
    """Raises ModelRejected for a prompt without a transcript or without categories."""
    text = request.messages[0].text
    known = _KNOWN.search(text)
    transcript = _TRANSCRIPT.search(text, known.end() if known else 0)
    after = transcript.end() if transcript else 0
    today, asked = _TODAY.search(text, after), _CATEGORIES.search(text, after)
    if transcript is None or asked is None:
        raise ModelRejected("the simulated model answers the prompts of this project only")
    rows = [_object(line) for line in known[1].split("\n")] if known else []
    contacts = tuple(_contact(row) for row in rows if _text(row, "ref").startswith("c"))
    lines, calls = _transcript(transcript[1], contacts)
    named = [name.strip() for name in asked[1].split(",")]
    return Brief(
        contacts,
        tuple(
            KnownTask(_text(row, "ref"), _text(row, "name"), _text(row, "description"), _strings(row))
            for row in rows
            if _text(row, "ref").startswith("t")
        ),
        tuple(
            KnownFact(_text(row, "ref"), _text(row, "subject"), _text(row, "statement"), _text(row, "valid_until") or None)
            for row in rows
            if _text(row, "ref").startswith("f")
        ),
        lines,
        calls,
        tuple(category for category in Category if category.value in named),
        date.fromisoformat(today[1]) if today else max((line.at.date() for line in lines), default=date(1970, 1, 1)),
        tuple(_said(lines)),
    )


def _said(lines: tuple[Line, ...]) -> Iterator[Said]:
    for line in lines:
        if line.from_assistant:
            continue
        language = language_of(line.text)
        plain, start = line.text.replace("’", "'"), 0
        for sentence in sentences(line.text, limit=_MAX_SENTENCES):
            at = plain.find(sentence.text, start)
            if at < 0 or _CUT.search(sentence.text):
                continue
            start = at + len(sentence.text)
            yield Said(line, sentence.text, line.text[at:start], sentence.question, language)


def language_of(text: str) -> str:
    """``en``, ``de``, ``zh``, another language by its commonest words, or ``other`` for a script that is not known."""
    if _OTHER_SCRIPT.search(text):
        return "other"
    if _HAN.search(text):
        return "zh"
    words = [word.casefold() for word in _WORD.findall(text)]
    if any("ß" in word or "ä" in word for word in words):
        return "de"
    scores = {language: sum(word in marks for word in words) for language, marks in _MARKS.items()}
    return max(scores, key=lambda language: scores[language])


def known_names(brief: Brief) -> dict[str, KnownContact]:
    """Contacts by full name and, where only one has it, by first name; casefolded."""
    names: dict[str, KnownContact] = {}
    firsts: dict[str, list[KnownContact]] = {}
    for contact in brief.contacts:
        if contact.name and not contact.is_assistant:
            names[contact.name.casefold()] = contact
            firsts.setdefault(contact.name.split()[0].casefold(), []).append(contact)
    return {**{first: ones[0] for first, ones in firsts.items() if len(ones) == 1}, **names}


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", row) if isinstance(row, dict) else {}


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _strings(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in row.items() if isinstance(value, str)}


def _contact(row: Mapping[str, Any]) -> KnownContact:
    senders = row.get("sender_ids")
    return KnownContact(
        _text(row, "ref"),
        _text(row, "name"),
        _strings(row),
        is_user=row.get("user") is True,
        is_assistant=row.get("assistant") is True,
        sender_ids=tuple(str(one) for one in cast("list[Any]", senders)) if isinstance(senders, list) else (),
    )


def _transcript(block: str, contacts: tuple[KnownContact, ...]) -> tuple[tuple[Line, ...], tuple[Call, ...]]:
    labels: dict[str, KnownContact] = {}
    for contact in contacts:
        usual = ("user",) if contact.is_user else ("assistant",) if contact.is_assistant else ()
        for label in (*contact.sender_ids, contact.name, *usual):
            labels.setdefault(label, contact)
    lines: list[Line] = []
    calls: list[Call] = []
    for raw in block.split("\n"):
        row = _LINE.match(raw)
        if row is None:
            continue
        number, at = int(row[1]), datetime.strptime(row[2], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        if row[3].startswith("{"):
            call = _object(row[3])
            words = " ".join(_leaves({name: value for name, value in call.items() if name not in ("manager", "method", "phase")}))
            calls.append(Call(number, _text(call, "manager"), _text(call, "method"), _text(call, "phase"), words))
            continue
        parts = row[3].split(" | ", 2)
        if len(parts) < 3:
            continue
        name = parts[0].split(" → ", 1)[0].strip()
        contact = labels.get(name)
        lines.append(
            Line(
                number,
                at,
                contact.ref if contact else "",
                name,
                parts[1].strip(),
                parts[2],
                contact.is_assistant if contact else name == "assistant",
            )
        )
    return tuple(lines), tuple(calls)


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _leaves(inner)
    elif value is not None:
        yield str(value)
