"""Whether what a model extracted rests on what was said: quotes, and names and numbers of the text itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from memory.model.event import ASSISTANT_ID, ManagerMethodEvent, MessageEvent
from memory.model.fact import MAX_QUOTE_CHARS, Source
from memory.model.items import DropReason, Item
from memory.model.redaction import redact
from memory.model.transcript import clean_text, defuse
from memory.model.window import StoredEvent
from memory.model.window_transcript import manager_json
from memory.model.words import STOP_WORDS, fold, is_dense, tokens

MIN_TELLING_CHARS: Final = 3
"""A quote says something when its words beside the most common ones have so many letters; in dense scripts two do."""
MAX_ASSENT_CHARS: Final = 200
MAX_PIECES: Final = 3
"""Of one quote with words left out: from more, anything can be put together."""

_QUOTE_MARKS = str.maketrans(dict.fromkeys("\"“”„‟«»‹›'’‘‚‛`´′″「」『』＂＇", ""))
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−", "-"))
_SPACE = re.compile(r"\s+")
_ELLIPSIS = re.compile(r"\s*\[?(?:…|\.{3,})\]?\s*")


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
    """Whether the words stand in this event, as they are and as whole words.

    Words left out in the middle may be marked (``…``), as long as each piece says something by itself.
    """
    return stands_in(text_of(stored), quote)


def stands_in(text: str, quote: str) -> bool:
    """As :func:`has_quote`, for a text."""
    parts = [part.strip(" .,;:!?") for part in _ELLIPSIS.split(normalised(quote))]
    parts = [part for part in parts if part]
    if not parts or len(parts) > MAX_PIECES or (len(parts) > 1 and not all(map(is_telling, parts))):
        return False
    # What could pass for a tag is shown to the model in another form.
    return _has_parts(_normalised_line(text), parts) or ("<" in text and _has_parts(_normalised_line(defuse(text)), parts))


@lru_cache(maxsize=64)
def _normalised_line(text: str) -> str:
    """Several quotes are looked up in one line."""
    return normalised(text)


def _has_parts(said: str, parts: Sequence[str]) -> bool:
    position = 0
    for part in parts:
        found = _find_words(said, part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


def _find_words(said: str, part: str, start: int) -> int:
    """Where ``part`` stands from ``start`` on without cutting a word in two; -1: nowhere."""
    found = said.find(part, start)
    while found >= 0:
        end = found + len(part)
        if not _cuts(said, found) and not _cuts(said, end):
            return found
        found = said.find(part, found + 1)
    return -1


def _cuts(text: str, place: int) -> bool:
    """Whether a word of a script with spaces goes over this place."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    return before.isalnum() and after.isalnum() and not is_dense(before) and not is_dense(after)


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
        if redact(evidence.quote).kinds:
            return DropReason.ROUTED_ELSEWHERE
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


_ASSENT: Final = re.compile(
    r"(?:^|[.!?]\s+)\W*(?:oh |and |ah |und )?"
    r"(?:yes|yep|yeah|yup|right|correct|exactly|precisely|absolutely|sure|ok|okay|agreed|indeed|fine|perfect|deal|done|please do"
    r"|do it|do that|go ahead|sounds (?:good|great|right)|that(?:'s|’s| is) (?:right|correct|it|true|fine)|that works|works for me"
    r"|ja|jawohl|genau|richtig|stimmt|gerne?|einverstanden|passt|mach das|machen wir|klar|in ordnung|si|sí|oui|d'accord)\b"
    r"|^\W*(?:是的?|对的?|對的?|好的?|没错|沒錯|可以|行|嗯|正确|はい|そうです|네|예|نعم|ใช่|да\b)",
    re.IGNORECASE,
)


_ASKING: Final = re.compile(
    r"\W*(?:(?:and|so|but|ok|okay|hey|hi|und|also|aber)\W+)*"
    r"(?:what|who|whom|whose|where|when|why|how|which|do|does|did|is|are|was|were|can|could|would|will|should|have|has|am|any"
    r"|tell me|remind me (?:what|who|where|when|how|of)|show me|wer|wen|wem|wo|wann|warum|wieso|wie|welche[rsnm]?"
    r"|kannst|könntest|weißt|hast|habe|haben|ist|sind|bin|gibt|sag mir|zeig mir|que|qué|quoi|quel(?:le)?|cómo)\b",
    re.IGNORECASE,
)
_TELL: Final = re.compile(
    r"\W*(?:please |bitte |can you |could you )?"
    r"(?:tell me|remind me (?:what|who|where|when|how|of)|show me|sag mir|erinnere mich daran, was|zeig mir)\b"
    r"|^(?:告诉我|你(?:知道|记得)).{0,40}(?:什么|多少|哪|谁|吗)",
    re.IGNORECASE,
)


def is_asking(sentence: str) -> bool:
    """Whether a sentence wants to know something and so states nothing. "…, right?" states."""
    plain = sentence.rstrip(" \"'”’」』)")
    if plain.endswith("？") or (plain.endswith("?") and _ASKING.match(plain)):
        return True
    return _TELL.match(plain) is not None


def is_assent(quote: str) -> bool:
    """Whether somebody agrees to what was said before: then the assistant's words stand for theirs."""
    return len(quote) <= MAX_ASSENT_CHARS and _ASSENT.search(quote) is not None


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
_KEPT_SHARE = 0.3
"""Of the share that a script has in the quotes."""


def keeps_script(text: str, quotes: Iterable[str], *, known: str = "") -> bool:
    """Whether a text is written in the scripts of its sources: what was said in Chinese does not come back in English.

    Args:
        text: what was extracted.
        quotes: what it rests on.
        known: an older text that it goes on with, if any; one in another script may be gone on with in that script.
    """
    said, before, now = _script_shares(" ".join(quotes)), _script_shares(known), _script_shares(text)
    if not said or not now:
        return True
    for script, share in said.items():
        if script == "other" or share < _MIN_SHARE:
            continue
        wanted = 0.0 if before.get(script, 0.0) < _MIN_SHARE and before else _KEPT_SHARE * share
        if now.get(script, 0.0) < wanted:
            return False
    return all(script == "other" or share < _MIN_SHARE or script in said or script in before for script, share in now.items())


def _script_shares(text: str) -> dict[str, float]:
    """The share of the letters of a text by script; ``other`` are the Latin ones, and those not told apart here."""
    letters = sum(map(str.isalpha, text))
    if not letters:
        return {}
    shares = {name: count / letters for name, script in _SCRIPTS if (count := len(script.findall(text)))}
    return {**shares, "other": max(0.0, 1.0 - sum(shares.values()))}
