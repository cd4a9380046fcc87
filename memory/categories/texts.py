# ruff: noqa: E501  (word lists)
"""Texts about contacts: bios, rolling summaries, response policies. Each item is the whole new text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memory.categories.common import Tally, clean, contact_id, quotes_of
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.contact import ASSISTANT_CONTACT, MAX_TEXT_WORDS
from memory.model.contact_rules import MAX_TEXT_CHARS, count_words
from memory.model.items import ContactTextItem, DropReason, Grounded, Item
from memory.model.window import StoredEvent
from memory.model.words import key_words
from memory.ports import UpdateContact

COVERED: Final = 0.5
"""A sentence of the old text is in the new one when it has so much of its telling words."""

_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_DIRECTIVE = re.compile(
    r"\b(?:always|never|from now on|in future|in the future|do not|don't|stop|only|must|please (?:use|answer|reply|write|call|address|keep|send|speak|avoid|be|copy|cc|make sure|let|ask)"
    r"|(?:answer|reply|respond|write|address|call|email) (?:me|him|her|them|us)\b)|\bi (?:want|expect|need) you to\b|\bwhenever\b"
    r"|\b(?:immer|nie|niemals|ab jetzt|ab sofort|künftig|in zukunft|nicht mehr|nur noch|auf keinen fall|keine?n?)\b|\bbitte (?:nur|nicht|immer|nie|antworte|schreib|sprich|ruf|duze?|sieze?|nenne?|verwende|benutze)\w*"
    r"|\b(?:antworte|schreib|sprich|nenn|duz|siez)\w* (?:mir|mich|ihr|ihm|ihnen|uns|sie|ihn)\b|总是|永远|不要|别再|以后|今后|从现在起|请(?:用|不要|叫|总|只|务必)|必须|务必",
    re.IGNORECASE,
)
_REVOKED = re.compile(
    r"\b(?:no longer|not any ?more|anymore|instead|forget (?:that|what)|changed my mind|rather than|stop)\b"
    r"|\b(?:nicht mehr|stattdessen|doch nicht|doch lieber|vergiss|anders überlegt)\b|不再|改成|改为|不用再|换成",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"\b(?:actually|not .{1,40} (?:but|any ?more)|no longer|left|moved|changed|correction|i mean[t]?|wrong|new (?:job|role|employer|address|city|name)|used to|now)\b"
    r"|\b(?:eigentlich|nicht mehr|sondern|umgezogen|gewechselt|korrektur|falsch|neue[rns]? (?:job|stelle|adresse|stadt|name)|jetzt|seit)\b|其实|不再|换|搬|改|现在|以前",
    re.IGNORECASE,
)


def is_directive(item: Item, cited: Sequence[StoredEvent]) -> str | None:
    """A response policy needs a clear directive in what it quotes."""
    quotes = [evidence.quote for evidence in item.evidence]
    return None if any(_DIRECTIVE.search(quote) for quote in quotes) else DropReason.NOT_A_COMMITMENT


async def _apply(category: Category, field: str, items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    tally = Tally(category)
    scope = context.window.scope
    wanted = {one.key: contact_id(one.item.contact, context) for one in items}
    known = await context.stores.contacts.get(scope, {number for number in wanted.values() if number is not None})
    texts = {number: getattr(contact, field) for number, contact in known.items()}
    changes: list[UpdateContact] = []
    for one in items:
        number = wanted[one.key]
        if number is None or number not in known or number == ASSISTANT_CONTACT:
            tally.drop(one, DropReason.UNKNOWN_REF)
            continue
        text = clean(one.item.text)
        if not text:
            tally.drop(one, DropReason.MALFORMED)
            continue
        texts[number] = fitted(category, woven(category, texts[number], text, quotes_of(one)))
        changes.append(UpdateContact(one.key, number, {field: texts[number]}, one.sources))
    for result in await context.stores.contacts.apply(scope, changes, origin=context.origin, now=context.now):
        tally.applied += result.did == "updated"
        tally.confirmed += result.did == "nothing"
    return tally.result()


def woven(category: Category, old: str | None, new: str, quotes: Sequence[str]) -> str:
    """The new text, with what a bio or a policy had and the new one silently lacks. A summary may let go."""
    if not old or category is Category.ROLLING_SUMMARIES:
        return new
    told = _REVOKED if category is Category.RESPONSE_POLICIES else _CORRECTED
    if any(told.search(quote) for quote in quotes):
        return new
    has = key_words(new)
    lost = [sentence.strip() for sentence in _SENTENCE.split(old) if not _is_covered(sentence, has)]
    return " ".join([*lost, new]) if lost else new


def _is_covered(sentence: str, has: frozenset[str]) -> bool:
    words = key_words(sentence)
    return not words or len(words & has) >= COVERED * len(words)


def fitted(category: Category, text: str) -> str:
    """Within the bound of its field: whole sentences from the beginning, so far as they fit."""
    if category is Category.RESPONSE_POLICIES:
        return text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS].rsplit(" ", 1)[0]
    if count_words(text) <= MAX_TEXT_WORDS:
        return text
    kept: list[str] = []
    words = 0
    for sentence in _SENTENCE.split(text):
        words += count_words(sentence)
        if words > MAX_TEXT_WORDS:
            break
        kept.append(sentence.strip())
    return " ".join(kept) or " ".join(text.split()[:MAX_TEXT_WORDS])


async def apply_bios(items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    return await _apply(Category.BIOS, "bio", items, context)


async def apply_summaries(items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    return await _apply(Category.ROLLING_SUMMARIES, "rolling_summary", items, context)


async def apply_policies(items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    return await _apply(Category.RESPONSE_POLICIES, "response_policy", items, context)


_SHIELD: Final = frozenset({"contactmanager", "contacts"})
BIOS = CategorySpec(Category.BIOS, "extract_bios", ContactTextItem, apply_bios, shielded_by=_SHIELD)
ROLLING_SUMMARIES = CategorySpec(Category.ROLLING_SUMMARIES, "extract_rolling_summaries", ContactTextItem, apply_summaries)
RESPONSE_POLICIES = CategorySpec(
    Category.RESPONSE_POLICIES,
    "extract_response_policies",
    ContactTextItem,
    apply_policies,
    check=is_directive,
    shielded_by=_SHIELD,
)
