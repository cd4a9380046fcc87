# ruff: noqa: E501  (patterns)
"""Which statements are domain knowledge, and which takes the place of which. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from memory.model.fact import Fact
from memory.model.near_duplicate import is_opposite, overlap
from memory.model.routing import Store, is_how_to, route
from memory.model.slots import adds, contradicts, is_correction, slot_of
from memory.model.words import fold, key_words

MIN_SHARED: Final = 0.3
"""A fact that is said to be superseded has so much in common with the statement that takes its place."""
MIN_SAID: Final = 0.5
"""A sentence is what a statement rests on when they have so much in common."""
MIN_CORRECTED: Final = 0.6
"""A correction that does not say of what is one of a fact that has so much in common with it."""

_RELATIVES: Final = r"(?:brother|sister|mother|father|mum|mom|dad|son|daughter|wife|husband|partner|boyfriend|girlfriend|uncle|aunt|cousin|grandmother|grandfather|parents|kids|children|friend|neighbou?r|bruder|schwester|mutter|vater|sohn|tochter|frau|mann|freund(?:in)?|onkel|tante|oma|opa|großmutter|großvater|eltern|kinder|nachbar(?:in)?)"
_OF_A_PERSON: Final = re.compile(
    rf"^(?:my|our|his|her|their|the user['’]?s|\w+['’]s|meine?|unsere?|seine?|ihre?)\s+(?:\w+\s+)?{_RELATIVES}\b"
    r"|^(?:the user|der nutzer|die nutzerin|der benutzer)(?:['’]s\s+(?:favou?rite|name|age|birthday|wife|husband|job|employer|city|home|hobby|hobbies|email|phone)\b|\s+(?:is|was|has|had|likes?|loves?|hates?|prefers?|lives?|works?|wants?|speaks?|owns?|plays?|studie[sd]|moved|comes?|enjoys?|needs?|ist|hat|mag|lebt|wohnt|arbeitet|spricht|bevorzugt|möchte|will)\b)"
    r"|^(?:she|he|sie|er)\s+(?:is|was|has|likes|loves|lives|works|speaks|prefers|ist|hat|mag|lebt|wohnt|arbeitet|spricht)\b"
    r"|^(?:用户|使用者|她|他)(?:是|有|喜欢|住|在|会|想|的)|^我?的?(?:哥哥|姐姐|弟弟|妹妹|妈妈|爸爸|母亲|父亲|儿子|女儿|妻子|丈夫|朋友)",
    re.IGNORECASE,
)
_TRAIT: Final = re.compile(
    r"^\s*(?:['’]s\s+(?:favou?rite|name|age|birthday|wife|husband|job|hobby|e-?mail|phone|number|address)\b"
    r"|(?:is|was)\s+(?:an?|from|married|divorced|single|retired|allergic|vegetarian|vegan|born|\d+ years|our|my|his|her|the\s+(?:new\s+)?\w+['’]s)\b|(?:has|had)\s+(?:an?|one|two|three|four|five|no|\d)\b"
    r"|(?:now\s+)?(?:lives?|works?|speaks?|likes?|loves?|hates?|prefers?|enjoys?|comes?\s+from|was\s+born|studie[sd]|grew\s+up|moved|plays?|retired|married|drives)\b"
    r"|(?:ist|war)\s+(?:eine?|verheiratet|geschieden|vegetarier\w*|veganer\w*|aus|\d+ jahre)\b|hat\s+(?:eine?n?|zwei|drei|vier|keine?)\b|(?:wohnt|lebt|arbeitet|spricht|mag|liebt|bevorzugt|kommt\s+aus|wurde\s+\d|studiert\w*)\b"
    r"|(?:现在)?(?:是(?!.{0,12}负责人)|有|住在|喜欢|会说|来自|在.{1,16}(?:工作|上班)))",
    re.IGNORECASE,
)


def elsewhere(statement: str) -> bool:
    """Whether a statement belongs to a person, a profile, a task list, or nowhere; a how-to is told by :func:`is_procedure`."""
    if _OF_A_PERSON.search(statement):
        return True
    return route(statement).store not in (Store.FACTS, Store.GUIDANCE)


def is_procedure(statement: str, said: Sequence[str]) -> bool:
    """Whether it says how something is done, itself or where it was said."""
    return is_how_to(statement) or any(map(is_how_to, said))


def is_trait(statement: str, names: Collection[str]) -> bool:
    """Whether a statement is about what one of these people is like, and not about who does what for a matter.

    Args:
        names: full names and first names, as they are written.
    """
    slot = slot_of(statement)
    if slot is not None and slot.kind == "owner":
        return False
    plain = statement.strip()
    for name in sorted(names, key=len, reverse=True):
        if name and fold(plain[: len(name)]) == fold(name) and _TRAIT.match(plain[len(name) :]):
            return True
    return False


def takes_place(new: Fact, old: Fact, said: Sequence[str], *, claimed: bool) -> bool:
    """Whether ``new`` and ``old`` cannot both stand, so that the newer one holds.

    Args:
        said: the sentences that the new one rests on.
        claimed: the model says so. It is believed where both are about the same matter and nothing says that the new one adds.
    """
    if _apart(new, old):
        return False
    # A quote may hold other sentences as well.
    said = [sentence for sentence in said if overlap(sentence, new.statement) >= MIN_SAID]
    corrected = any(map(is_correction, said))
    if contradicts(new.statement, old.statement) or is_opposite(new.statement, old.statement):
        return corrected or not any(map(adds, said))
    if _of_other_things(new.statement, old.statement):
        return False
    if corrected and overlap(new.statement, old.statement) >= MIN_CORRECTED:
        return True
    if not claimed or (not corrected and any(map(adds, (new.statement, *said)))):
        return False
    return overlap(new.statement, old.statement) >= MIN_SHARED or _same_subject(new, old)


def _of_other_things(new: str, old: str) -> bool:
    """Whether both give a value of one kind to two things: a correction of one deadline leaves the other one alone."""
    mine, theirs = slot_of(new), slot_of(old)
    if mine is None or theirs is None or mine.kind != theirs.kind:
        return False
    return not (mine.subject <= theirs.subject or theirs.subject <= mine.subject)


def _same_subject(new: Fact, old: Fact) -> bool:
    left, right = key_words(new.subject), key_words(old.subject)
    return bool(left) and (left <= right or right <= left)


def _apart(new: Fact, old: Fact) -> bool:
    """Whether both are limited in time and one ends before the other begins."""
    if old.valid_until is not None and new.valid_from is not None and old.valid_until <= new.valid_from:
        return True
    return new.valid_until is not None and old.valid_from is not None and new.valid_until <= old.valid_from
