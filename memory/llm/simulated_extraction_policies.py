# ruff: noqa: E501  (patterns)
"""The simulated model's response policies: clear directives on how to deal with a contact, in the second person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memory.llm.simulated_extraction_people import People, Person
from memory.llm.simulated_extraction_prompt import Brief, Said, known_names
from memory.llm.simulated_text import likeness, sameness

_LASTING = re.compile(
    r"\b(?:always|never|from now on|in (?:the )?future|going forward|don't ever|do not ever|every time|any ?more|whenever you (?:write|call|answer|reply)|immer|nie(?:mals)?|ab (?:jetzt|sofort)|künftig|in zukunft|"
    r"nicht mehr|stets|grundsätzlich)\b|总是|永远|以后|从现在起|从今以后|不要再|别再|每次|千万",
    re.IGNORECASE,
)
_PLEASE_NOT = re.compile(r"\b(?:please (?:don't|do not)|bitte nicht|bitte\b[^.!?]{0,40}\bnicht)\b|请(?:不要|别)", re.IGNORECASE)
_DEALING = re.compile(
    r"\b(?:answer|reply|respond|call|ring|phone|write|text|e-?mail|message|contact|address|copy|cc|send|use|speak|talk|ping|disturb|antworte\w*|anrufen|rufe?n?|schreib\w*|kontaktier\w*|"
    r"sprich|sprechen|sprech\w*|duze\w*|sieze\w*|benutze\w*|verwende\w*|schick\w*|melde\w*|stör\w*)\b|回答|回复|打电话|发邮件|联系|称呼|用(?:中文|英文|英语|德语)|写",
    re.IGNORECASE,
)
_ABOUT_ME = re.compile(r"\b(?:me|my|us|mich|mir|uns|mein\w*)\b|我", re.IGNORECASE)
_HOW = re.compile(
    r"\b(?:in|auf) (?:german|english|french|spanish|chinese|italian|deutsch|englisch|französisch|spanisch|chinesisch|formal|plain|bullet)\b|\b(?:brief|short|formal|informal|first name|emojis?|kurz|förmlich|emojis)\b|用(?:中文|英文|英语|德语)|简短",
    re.IGNORECASE,
)
_REPORT = re.compile(
    r"^\W*(?:I|we|he|she|they|it|you|ich|wir|er|sie|es|du|我|我们|他|她)(?:'\w+)?\s*(?:always|never|have|am|are|immer|nie|habe|bin|总是|永远)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|ich)\b", re.IGNORECASE)
_LANGUAGE_TOPIC = re.compile(
    r"\b(?:german|english|french|spanish|chinese|italian|deutsch|englisch|französisch|spanisch|chinesisch)\b|中文|英文|英语|德语",
    re.IGNORECASE,
)
_OPENING = re.compile(r"^(?:please|bitte|oh|and|also|und|hey|hi|ok(?:ay)?|thanks|请|so)\b[,\s]*|^请", re.IGNORECASE)
_REASON = re.compile(
    r",?\s+(?:because|since|as|,)?\s*(?:I|we|ich|wir)\s+(?:can|am|have|do|don|never|kann|bin|habe|muss)\w*\b[^.!?]*$|,?\s+(?:because|denn|weil|da ich)\b[^.!?]*$|，?因为[^。！？]*",
    re.IGNORECASE,
)
_REPLACED = {
    "en": (("me", "{n}"), ("my", "{n}'s"), ("I'm", "{n} is"), ("I am", "{n} is")),
    "de": (("mich", "{n}"), ("mir", "{n}"), ("meine", "die"), ("meinen", "den"), ("meinem", "dem"), ("meiner", "der")),
    "zh": (("我", "{n}"),),
}
_SOMEBODY = {"en": "the contact", "zh": "对方"}


def policies(brief: Brief, people: People) -> Iterator[dict[str, Any]]:
    """Of the contact who gives the directive; one that the user gives about a known contact is that contact's."""
    names = known_names(brief)
    texts: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for heard in brief.said:
        person = people.of(heard)
        if person is None or not is_directive(heard):
            continue
        if (
            person.known.get("name") != ""
            and (contact := brief.contact(person.ref))
            and contact.is_user
            and not _ABOUT_ME.search(heard.text)
        ):
            named = [one for name, one in names.items() if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", heard.text, re.IGNORECASE)]
            if named and named[0].ref in people.persons and not named[0].is_user:
                person = people.persons[named[0].ref]
        old, evidence = texts.get(person.ref, (person.known.get("response_policy", ""), []))
        new = _woven(old, _directive(person, heard))
        if new != old:
            texts[person.ref] = new, [*evidence, heard.evidence]
    for ref, (text, evidence) in texts.items():
        yield {"contact": ref, "text": text, "evidence": evidence[:8]}


def is_directive(heard: Said) -> bool:
    """Whether it says for good how somebody wants to be dealt with."""
    text = heard.text
    if heard.language not in _REPLACED or heard.question or _REPORT.search(text) or not _DEALING.search(text):
        return False
    if _FIRST_PERSON.search(text.split(",")[0]) and not re.search(
        r"\b(?:want|would like|prefer|möchte|will)\b", text, re.IGNORECASE
    ):
        return False
    if _LASTING.search(text):
        return bool(
            _ABOUT_ME.search(text)
            or _HOW.search(text)
            or re.match(r"\W*(?:please |bitte )?(?:always|never|immer|nie)", text, re.IGNORECASE)
        )
    return bool(_PLEASE_NOT.search(text) and _ABOUT_ME.search(text))


def _directive(person: Person, heard: Said) -> str:
    """The sentence with the contact in place of "me"."""
    text = _REASON.sub("", _OPENING.sub("", heard.text.strip()))
    name = person.name.split()[0] if person.name else _SOMEBODY.get(heard.language, "")
    if not name:
        text = re.sub(r"\b(?:mich|mir)\s+", "", text, flags=re.IGNORECASE)
    for word, form in _REPLACED[heard.language]:
        pattern = re.escape(word) if heard.language == "zh" else rf"\b{re.escape(word)}\b"
        text = re.sub(pattern, lambda _, form=form: form.replace("{n}", name), text, flags=re.IGNORECASE)
    stop = "。" if heard.language == "zh" else "."
    text = text.rstrip(" .!。！") + stop
    return text[:1].upper() + text[1:]


def _woven(old: str, new: str) -> str:
    """The old policy with the new directive in it; one about the same thing goes."""
    kept: list[str] = []
    for sentence in (one.strip() for one in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", old) if one.strip()):
        if sameness(sentence, new) > 0.99:
            return old
        both_language = _LANGUAGE_TOPIC.search(sentence) and _LANGUAGE_TOPIC.search(new)
        if not both_language and likeness(re.sub(r"\d+", "", sentence), re.sub(r"\d+", "", new)) < 0.75:
            kept.append(sentence)
    kept.append(new)
    return ("" if all(one.endswith("。") for one in kept) else " ").join(kept)
