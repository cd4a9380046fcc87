# ruff: noqa: E501  (word lists)
"""What bios, rolling summaries and response policies have in common: each item is the whole new text of one contact.

A model that weaves an old text into a new one loses some of it, without a word. So the new text is compared, sentence by sentence,
with what is stored **now** (which may be newer than what the model was shown): what is gone and not spoken of in the quotes is put
back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from memory.categories.common import Tally, clean, contact_number, quotes_of
from memory.categories.spec import Applied, ApplyContext
from memory.model.category import Category
from memory.model.contact import MAX_TEXT_WORDS
from memory.model.contact_rules import MAX_TEXT_CHARS, count_words
from memory.model.items import ContactTextItem, DropReason, Grounded, Item
from memory.model.near_duplicate import is_negated, is_same
from memory.model.sentences import sentences
from memory.model.slots import contradicts
from memory.model.window import StoredEvent
from memory.model.words import fold, is_dense, key_words, tokens
from memory.ports import UpdateContact

COVERED: Final = 0.6
"""A sentence is in a text when a sentence of that has so much of its telling words, and all of its names and numbers."""
RELATED: Final = 0.4
"""A new sentence with so much of an old one's words speaks of the same thing."""
SPOKEN_OF: Final = 0.5
MIN_SENTENCES: Final = 3
MAX_DROPPED: Final = 0.7
"""A rolling summary may drop so much of the old one at once."""

_ENDS = re.compile(
    r"\b(?:no longer|not any ?more|any ?more|anymore|instead of|rather than|left|quit|wrong|incorrect|mistake|used to|former(?:ly)?|previously|forget|stop(?:s|ped)?|divorced|retired|over|done|finished|cancell?ed|sold|passed away|died|not|never|never ?mind|"
    r"nicht mehr|nicht|kein\w*|statt|anstatt|verlassen|verließ|gekündigt|falsch|irrtum|früher|ehemalig\w*|vergiss|erledigt|abgesagt|verkauft|fertig|geschieden|verstorben|aufgehört|beendet)\b|n['’]t\b"
    r"|不再|已经不|不是|没有|离开|辞|错|以前|忘|完成|取消|离婚|结束|卖了|去世",
    re.IGNORECASE,
)
"""Words that end something; what they end is in the same clause."""
_CLAUSES = re.compile(r"[,;:.!?()，；：。！？、\n]+\s*|\s+(?:and|but|und|aber|sondern)\s+")
_FIRST_PERSON = re.compile(
    r"^(?:i(?:['’](?:m|ve|d|ll))?|my|we|our)\s|^(?:ich|mein\w*|wir|unser\w*)\s|^(?:我|我们|我們)(?!国|方)", re.IGNORECASE
)
_QUOTED = re.compile(r"[\"“„«「『][^\"”“»」』]*[\"”“»」』]")


@dataclass(frozen=True, slots=True)
class TextRule:
    """``field`` of the contact. ``lets_go``: recent matters; what is over may be dropped, as long as it is not nearly all."""

    category: Category
    field: str
    lets_go: bool = False


def check_text(item: Item, cited: Sequence[StoredEvent]) -> str | None:
    """A text speaks of the contact in the third person, not as the contact."""
    if not isinstance(item, ContactTextItem):
        return DropReason.MALFORMED
    text = item.text.strip()
    if not key_words(text):
        return DropReason.MALFORMED
    lines = sentences(_QUOTED.sub(" ", text))
    own = sum(_FIRST_PERSON.match(line) is not None for line in lines)
    return DropReason.MALFORMED if own * 2 > len(lines) else None


async def apply_texts(rule: TextRule, items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    """Write the texts, in one transaction. Of several items for one contact each is woven into the one before."""
    tally = Tally(rule.category, proposed=len(items))
    scope = context.window.scope
    numbers = [contact_number(one.item.contact, context) for one in items]
    known = await context.stores.contacts.get(scope, {number for number in numbers if number is not None})
    texts: dict[int, str] = {}
    changes: list[UpdateContact] = []
    for one, number in zip(items, numbers, strict=True):
        contact = known.get(number) if number is not None else None
        if contact is None:
            tally.drop(one, DropReason.UNKNOWN_REF)
            continue
        new = clean(one.item.text)
        if not key_words(new):
            tally.drop(one, DropReason.MALFORMED)
            continue
        target = contact.contact_id
        old: str = texts.get(target) or getattr(contact, rule.field) or ""
        texts[target] = fitted(woven(old, new, quotes_of(one), lets_go=rule.lets_go, name=contact.name))
        changes.append(UpdateContact(one.key, target, {rule.field: texts[target]}, one.sources))
    results = await context.stores.contacts.apply(scope, changes, origin=context.origin, now=context.now)
    for result in results:
        tally.applied += result.did == "updated"
        tally.confirmed += result.did == "nothing"
    return tally.result()


def woven(old: str, new: str, quotes: Sequence[str], *, lets_go: bool = False, name: str = "") -> str:
    """``new``, with the sentences of ``old`` that it lacks although nothing that was said speaks of their end, as far as there is room.

    Args:
        quotes: what was said.
        lets_go: as :class:`TextRule`.
        name: of the contact; in every sentence, so it tells nothing.
    """
    if not old or old == new:
        return new
    own = key_words(name)
    fresh = [_Sentence(line, own) for line in sentences(new)]
    said = [_Sentence(clause, own) for quote in quotes for clause in _CLAUSES.split(quote) if clause]
    before = [_Sentence(line, own) for line in sentences(old)]
    kept = [line for line in before if not line.words or any(line.is_in(other) for other in fresh)]
    lost = [line for line in before if line not in kept and not line.is_over(fresh, said)]
    if lets_go and (len(before) < MIN_SENTENCES or len(lost) <= MAX_DROPPED * len(before)):
        return new
    while lost and not _fits(_joined([*(line.text for line in lost), *(line.text for line in fresh)])):
        lost.pop(0)
    if not lost:
        return new
    return _joined([*(line.text for line in lost), *(line.text for line in fresh)])


def fitted(text: str) -> str:
    """Within the bounds of its field: whole sentences, so far as they fit."""
    if _fits(text):
        return text
    lines = sentences(text)
    if len(lines) == 1:
        return _cut(text)
    kept: list[str] = []
    words = characters = 0
    for line in lines:
        words += count_words(line)
        characters += len(line) + 1
        if words > MAX_TEXT_WORDS or characters > MAX_TEXT_CHARS:
            break
        kept.append(line)
    return _joined(kept) if kept else _cut(lines[0])


def _fits(text: str) -> bool:
    return count_words(text) <= MAX_TEXT_WORDS and len(text) <= MAX_TEXT_CHARS


def _cut(text: str) -> str:
    """One long sentence, cut at a word."""
    low, high = 0, min(len(text), MAX_TEXT_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_words(text[:middle]) <= MAX_TEXT_WORDS - 1 else (low, middle - 1)
    cut = text[:low]
    head = cut.rsplit(" ", 1)[0] if " " in cut and not is_dense(cut[-1]) else cut
    return head.rstrip(" ,;:")[: MAX_TEXT_CHARS - 1] + "…"


def _joined(lines: Sequence[str]) -> str:
    """Sentences one after the other; scripts without spaces have none between sentences."""
    text = ""
    for line in lines:
        is_tight = not text or (is_dense(line[:1]) and text[-1] in "。！？；")
        text += line if is_tight else f" {line}"
    return text


class _Sentence:
    """``telling``: names and numbers; another one in their place is another statement."""

    __slots__ = ("telling", "text", "words")

    def __init__(self, text: str, common: frozenset[str]) -> None:
        self.text = text
        self.words = key_words(text) - common
        self.telling = frozenset(_values(text)) - common

    def is_in(self, other: _Sentence) -> bool:
        """Whether another sentence says this one too, and no other value of it."""
        if is_same(self.text, other.text):
            return True
        if len(self.words & other.words) < COVERED * len(self.words) or is_negated(self.text) != is_negated(other.text):
            return False
        return self.telling <= other.words and not contradicts(other.text, self.text)

    def is_over(self, fresh: Sequence[_Sentence], said: Sequence[_Sentence]) -> bool:
        """Whether what was said ends this sentence: by name, or with another value in its place."""
        for clause in said:
            shared = self.words & clause.words
            if shared and _ENDS.search(clause.text) and (self.telling & shared or len(shared) >= SPOKEN_OF * len(self.words)):
                return True
        spoken = frozenset(word for clause in said for word in clause.words)
        for other in fresh:
            added = other.words - self.words
            about_same = len(self.words & other.words) >= RELATED * len(self.words) or contradicts(other.text, self.text)
            if about_same and self.words - other.words and added and len(added & spoken) * 2 >= len(added):
                return True
        return False


def _values(text: str) -> list[str]:
    """Words that are capitalised inside a sentence, and numbers."""
    found: list[str] = []
    for place, token in enumerate(tokens(text)):
        if is_dense(token):
            continue
        if any(map(str.isdigit, token)) or (place and token[0].isupper()):
            found += key_words(fold(token))
    return found
