"""Texts in sentences, and the sentence that a quote is a part of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory.model.evidence import normalised, text_of
from memory.model.items import Item
from memory.model.window import StoredEvent

MAX_CHARS = 200_000

_ENDS = re.compile(r"(?<=[.!?…])(?<!\d\.)(?<!\b[A-Za-z]\.)[\"'”“»)\]]*\s+|(?<=[。！？；])[”」』）]*|\n+")
"""A full stop behind a number ("20. April") or an initial ends nothing."""


def sentences(text: str) -> list[str]:
    """The sentences of a text, in order, without white space around them."""
    return [part for one in _ENDS.split(text[:MAX_CHARS]) if (part := one.strip())]


def around(quote: str, text: str) -> list[str]:
    """The sentences of a text that a quote is a part of, or is made of; the quote's own where it is not found in one."""
    wanted = normalised(quote)
    found: list[str] = []
    if wanted:
        for one in sentences(text):
            plain = normalised(one)
            if wanted in plain or (plain in wanted and len(plain) > 3):
                found.append(one)
    return found or sentences(quote)


def quoted_sentences(item: Item, cited: Iterable[StoredEvent]) -> list[str]:
    """What the item's quotes say, each with the rest of its sentence; without the events, the quotes.

    Args:
        cited: the events that the item's evidence names, each once, in their order.
    """
    numbers = sorted({evidence.event for evidence in item.evidence})
    texts = {number: text_of(stored) for number, stored in zip(numbers, cited, strict=False)}
    said = (sentence for evidence in item.evidence for sentence in around(evidence.quote, texts.get(evidence.event, "")))
    return list(dict.fromkeys(said))
