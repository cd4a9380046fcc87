"""Whether what a model extracted rests on what was said: quotes, and names and numbers of the text itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from memory.model.event import ASSISTANT_ID, ManagerMethodEvent, MessageEvent
from memory.model.fact import MAX_QUOTE_CHARS, Source
from memory.model.grounding import unknown_terms
from memory.model.items import DropReason, Item
from memory.model.transcript import clean_text
from memory.model.window import StoredEvent
from memory.model.window_transcript import manager_json
from memory.model.words import STOP_WORDS, fold, is_dense, tokens

MIN_TELLING_CHARS: Final = 3
"""A quote says something when its words beside the most common ones have so many letters; in dense scripts two do."""

_QUOTE_MARKS = str.maketrans(dict.fromkeys("\"“”„‟«»‹›'’‘‚‛`´′″「」『』＂＇", ""))
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−", "-"))
_SPACE = re.compile(r"\s+")
_ELLIPSIS = re.compile(r"\s*(?:\[?…\]?|\.{3,})\s*")


def normalised(text: str) -> str:
    """For comparing a quote with its source: Unicode form, case, white space, quote marks and dashes do not count."""
    plain = unicodedata.normalize("NFKC", clean_text(text)).translate(_QUOTE_MARKS).translate(_DASHES).casefold()
    return _SPACE.sub(" ", plain).strip()


def text_of(stored: StoredEvent) -> str:
    """What may be quoted of an event."""
    event = stored.event
    return manager_json(event) if isinstance(event, ManagerMethodEvent) else event.content or ""


def is_telling(quote: str) -> bool:
    """Whether a quote has a word that says something: a letter or "the" is in every message."""
    letters = 0
    for token in tokens(quote):
        if is_dense(token):
            if len(token) >= 2:
                return True
            letters += 1
        elif fold(token) not in STOP_WORDS:
            letters += len(token)
    return letters >= MIN_TELLING_CHARS


def has_quote(stored: StoredEvent, quote: str) -> bool:
    """Whether the words stand in this event, as they are. Words left out in the middle may be marked (``…``)."""
    said = normalised(text_of(stored))
    parts = [part for part in _ELLIPSIS.split(normalised(quote).strip(" .,;:!?")) if part]
    if not parts:
        return False
    position = 0
    for part in parts:
        found = said.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


def sources_of(item: Item, events: Sequence[StoredEvent], *, origin: str) -> tuple[Source, ...] | DropReason:
    """The item's evidence as sources, or why it is none. Every quote must hold: one that does not makes the whole item doubtful.

    Args:
        item: its evidence cites lines by number, from 1.
        events: the lines.
        origin: for the sources.
    """
    if not item.evidence:
        return DropReason.NO_QUOTE
    sources: list[Source] = []
    for evidence in item.evidence:
        if not evidence.quote.strip() or not is_telling(evidence.quote):
            return DropReason.NO_QUOTE
        if not 1 <= evidence.event <= len(events):
            return DropReason.QUOTE_NOT_FOUND
        stored = events[evidence.event - 1]
        if not has_quote(stored, evidence.quote):
            return DropReason.QUOTE_NOT_FOUND
        source = Source(
            event_id=stored.event.event_id,
            seq=stored.seq,
            quote=clean_text(evidence.quote).strip()[:MAX_QUOTE_CHARS],
            said_at=stored.event.timestamp,
            origin=origin,
        )
        if source not in sources:
            sources.append(source)
    return tuple(sources)


def cited_events(item: Item, events: Sequence[StoredEvent]) -> list[StoredEvent]:
    """The events that the item's evidence names, in order, each once."""
    numbers = sorted({evidence.event for evidence in item.evidence if 1 <= evidence.event <= len(events)})
    return [events[number - 1] for number in numbers]


def is_assistants_own(stored: StoredEvent) -> bool:
    """Words of the assistant, and manager calls: they are no evidence for what somebody said."""
    return not isinstance(stored.event, MessageEvent) or stored.event.sender_id == ASSISTANT_ID


def is_grounded(text: str, support: Iterable[str]) -> bool:
    """Whether the names and numbers of ``text`` are all in what supports it."""
    return not unknown_terms(text, support)


_SCRIPTS: Final = (
    ("han", re.compile(r"[\u3400-\u9fff]")),
    ("kana", re.compile(r"[\u3040-\u30ff]")),
    ("hangul", re.compile(r"[\uac00-\ud7af\u1100-\u11ff]")),
    ("arabic", re.compile(r"[\u0600-\u06ff\u0750-\u077f]")),
    ("thai", re.compile(r"[\u0e00-\u0e7f]")),
    ("cyrillic", re.compile(r"[\u0400-\u04ff]")),
    ("hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("devanagari", re.compile(r"[\u0900-\u097f]")),
    ("greek", re.compile(r"[\u0370-\u03ff]")),
)
_MIN_SHARE = 0.3


def keeps_script(text: str, quotes: Iterable[str]) -> bool:
    """Whether a statement is written in a script of its quotes: what was said in Chinese does not come back in English."""
    said = " ".join(quotes)
    letters = sum(map(str.isalpha, said))
    if not letters:
        return True
    used = (script for _, script in _SCRIPTS if len(script.findall(said)) > _MIN_SHARE * letters)
    return all(script.search(text) for script in used)
