# ruff: noqa: E501  (patterns)
"""The simulated model's bios: what does not change with time about a contact, in the third person, woven into the old text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from memory.llm.simulated_chinese import CHINESE
from memory.llm.simulated_english import ENGLISH
from memory.llm.simulated_extraction_people import NAME, People, Person
from memory.llm.simulated_extraction_prompt import Brief, Said
from memory.llm.simulated_german import GERMAN
from memory.llm.simulated_text import is_attributed, sameness

_SLOTS = ("role", "employer", "origin", "place", "native", "speaks", "team")
_PATTERNS = {"en": ENGLISH, "de": GERMAN, "zh": CHINESE}
_Change = Literal["set", "add"]

_FORMS: dict[str, dict[str, str]] = {
    "en": {
        "role": "{n} works as {v}.",
        "employer": "{n} works at {v}.",
        "origin": "{n} comes from {v}.",
        "place": "{n} lives in {v}.",
        "native": "{n}'s native language is {v}.",
        "speaks": "{n} speaks {v}.",
        "team": "{n} is in the {v} team.",
        "family": "{n} {v}.",
        "service": "{v}.",
    },
    "de": {
        "role": "{n} arbeitet als {v}.",
        "employer": "{n} arbeitet bei {v}.",
        "origin": "{n} kommt aus {v}.",
        "place": "{n} wohnt in {v}.",
        "native": "Muttersprache von {n}: {v}.",
        "speaks": "{n} spricht {v}.",
        "team": "{n} ist im Team {v}.",
        "family": "{n} {v}.",
        "service": "{v}.",
    },
    "zh": {
        "role": "{n}的职业是{v}。",
        "employer": "{n}在{v}工作。",
        "origin": "{n}来自{v}。",
        "place": "{n}住在{v}。",
        "native": "{n}的母语是{v}。",
        "speaks": "{n}会说{v}。",
        "team": "{n}的团队是{v}。",
        "family": "{n}{v}。",
        "service": "{v}。",
    },
}
_NO_NAME = re.compile(r"\{n\}(?:'s)?\s*|(?: von) \{n\}")
_RECOGNISED: tuple[tuple[str, str], ...] = (
    (
        "role",
        r"\bworks? as\b|\barbeitet als\b|职业是|\bis an? (?:[\w-]+ )?(?:engineer|designer|lawyer|teacher|nurse|developer|manager|architect)\b",
    ),
    ("employer", r"\bworks? (?:at|for)\b|\barbeitet (?:bei|für)\b|在.{1,20}工作"),
    ("origin", r"\b(?:comes from|is from|originally from|kommt (?:ursprünglich )?aus)\b|来自"),
    ("place", r"\b(?:lives? in|based in|wohnt in|lebt in)\b|住在"),
    ("native", r"\bnative language\b|\bmuttersprache\b|母语"),
    ("speaks", r"\bspeaks\b|\bspricht\b|会说"),
    ("team", r"\bis in the .{2,30} team\b|\bist im team\b|团队是"),
)
_FAMILY_EN = re.compile(
    r"\bI(?:'ve| have)(?: got)?\s+(?P<have>(?:an?|one|two|three|four|five|\d)\s+(?:young\s+|grown(?:-up)?\s+|little\s+)?(?:kids?|children|sons?|daughters?|child|brothers?|sisters?|siblings)(?:\s+and\s+(?:an?|one|two|three|\d)\s+(?:sons?|daughters?|kids?|brothers?|sisters?))?)"
    r"|\bI(?:'m| am)\s+(?P<am>married(?:\s+to\s+\w+)?|divorced|widowed|engaged(?:\s+to\s+\w+)?)"
    r"|\bmy\s+(?P<who>wife|husband|partner|son|daughter|brother|sister|mother|father)(?:'s name is|\s+is called|\s+is named)\s+(?P<whose>(?-i:[A-Z])[\w'-]+)",
    re.IGNORECASE,
)
_FAMILY_DE = re.compile(
    r"\bich\s+habe\s+(?P<have>(?:einen?|ein|zwei|drei|vier|\d)\s+(?:kleine\s+|erwachsene\s+)?(?:kind(?:er)?|s[oö]hne?|t[oö]chter|brüder|bruder|schwestern?|geschwister)(?:\s+und\s+(?:einen?|zwei|drei)\s+(?:s[oö]hne?|t[oö]chter))?)"
    r"|\bich\s+bin\s+(?P<am>verheiratet(?:\s+mit\s+\w+)?|geschieden|verwitwet|verlobt)"
    r"|\bmeine?\s+(?P<who>frau|mann|partner(?:in)?|sohn|tochter|bruder|schwester|mutter|vater)\s+heißt\s+(?P<whose>(?-i:[A-ZÄÖÜ])[\w'-]+)",
    re.IGNORECASE,
)
_FAMILY_ZH = re.compile(r"我(?P<have>有(?:一|两|三|\d)个(?:孩子|儿子|女儿|哥哥|姐姐|弟弟|妹妹))|我(?P<am>(?:已经)?(?:结婚|离婚)了)")
_END = r"(?=\s*(?:[.,;!]|$|\band\b|\bund\b|\bfrom\b|\bsince\b|\bseit\b))"
_OF_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (slot, re.compile(pattern, re.IGNORECASE))
    for slot, pattern in (
        ("role", rf"(?P<n>{NAME}|\b(?:she|he|er|sie))\s+(?:works|arbeitet)\s+(?:as|als)\s+(?P<v>(?:an?\s+|eine?\s+)?[\w -]{{3,40}}?)(?=\s+(?:at|for|bei|für)\b|[.,;!]|$)"),
        ("employer", rf"(?P<n>{NAME}|\b(?:she|he|er|sie))\s+(?:works|arbeitet)\s+(?:now\s+|jetzt\s+)?(?:(?:as|als)\s+[\w -]{{3,40}}?\s+)?(?:at|for|bei|für)\s+(?P<v>(?-i:[A-ZÄÖÜ])[\w&' -]{{1,40}}?){_END}"),
        ("origin", rf"(?P<n>{NAME}|\b(?:she|he|er|sie))\s+(?:is\s+(?:originally\s+)?from|comes\s+from|kommt\s+(?:ursprünglich\s+)?aus)\s+(?P<v>(?-i:[A-ZÄÖÜ])[\w' -]{{1,30}}?){_END}"),
        ("place", rf"(?P<n>{NAME}|\b(?:she|he|er|sie))\s+(?:lives|wohnt|lebt)\s+(?:now\s+|jetzt\s+)?in\s+(?P<v>(?-i:[A-ZÄÖÜ])[\w' -]{{1,30}}?){_END}"),
        ("speaks", r"(?P<n>" + NAME + r"|\b(?:she|he|er|sie))\s+(?:speaks|spricht)\s+(?:fluent\s+|fließend\s+)?(?P<v>(?-i:[A-ZÄÖÜ])[\w, ]{2,60}?)(?=[.;!]|$)"),
    )
)  # fmt: skip
_ZH_OF_OTHERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("employer", re.compile(r"(?P<n>[\u3400-\u9fff]{2,3}|[她他])在(?P<v>[^，,。\s]{2,20}?)(?:工作|上班)")),
    ("origin", re.compile(r"(?P<n>[\u3400-\u9fff]{2,3}|[她他])来自(?P<v>[^，,。\s]{2,12})")),
)
_PRONOUNS = frozenset("she he er sie 她 他".split())  # noqa: SIM905
_SPEAKING = re.compile(r"(?:I|I'm|we|you|my|ich|wir|mein\w*)\b", re.IGNORECASE)
_NO_ARTICLE = re.compile(r"(?:an?|the|head|chief|vp|director|vice|president|c[etfo]o)\b|.*\bof\b", re.IGNORECASE)
_HEALTH_OR_ODD = re.compile(r"[@\d]{6}|https?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Trait:
    """One thing about one contact."""

    person: Person
    slot: str
    value: str = field(repr=False)
    change: _Change
    heard: Said


def bios(brief: Brief, people: People) -> Iterator[dict[str, Any]]:
    by_person: dict[str, list[Trait]] = {}
    for trait in _traits(brief, people):
        by_person.setdefault(trait.person.ref, []).append(trait)
    for ref, traits in by_person.items():
        person = people.persons[ref]
        old = person.known.get("bio", "")
        text, used = _weave(person, old, traits)
        if used and text != old:
            evidence = [trait.heard.evidence for trait in used]
            yield {"contact": ref, "text": text, "evidence": [one for i, one in enumerate(evidence) if one not in evidence[:i]][:8]}


def _traits(brief: Brief, people: People) -> Iterator[Trait]:
    last: dict[int, Person] = {}
    for heard in brief.said:
        if heard.language not in _PATTERNS or heard.question:
            continue
        sender = people.of(heard)
        if sender is not None:
            yield from _own(sender, heard)
        for slot, pattern in _ZH_OF_OTHERS if heard.language == "zh" else _OF_OTHERS:
            for match in pattern.finditer(heard.text):
                name = " ".join(match["n"].split())
                person = last.get(heard.line.number) if name.casefold() in _PRONOUNS else people.find(name)
                if person is not None and person is not sender and not _HEALTH_OR_ODD.search(match["v"]):
                    yield Trait(person, slot, _value(match["v"]), "add" if slot == "speaks" else "set", heard)
        for person in people.persons.values():
            first = person.name.split()[0] if person.name else ""
            if (
                first
                and person is not sender
                and re.search(rf"(?<!\w){re.escape(first)}" + (r"(?!\w)" if first.isascii() else ""), heard.text)
            ):
                last[heard.line.number] = person
    for person in people.persons.values():
        if person.service and person.evidence:
            entry = person.evidence[0]
            line = next(line for line in brief.lines if line.number == entry["event"])
            heard = Said(line, entry["quote"], entry["quote"], False, "en")
            yield Trait(person, "service", person.service[:1].upper() + person.service[1:], "add", heard)


def _own(sender: Person, heard: Said) -> Iterator[Trait]:
    """What the sender says of themselves."""
    for pattern in _PATTERNS[heard.language]:
        for match in pattern.regex.finditer(heard.text):
            if is_attributed(heard.text, match.start()):
                continue
            for statement in pattern.make(match, ""):
                told = statement.slot in _SLOTS and statement.action in ("set", "set_if_new", "add")
                if told and statement.value and not _SPEAKING.match(statement.value):
                    change: _Change = "add" if statement.action == "add" else "set"
                    yield Trait(sender, statement.slot, _value(statement.value), change, heard)
    family = {"en": _FAMILY_EN, "de": _FAMILY_DE, "zh": _FAMILY_ZH}[heard.language]
    for match in family.finditer(heard.text):
        groups = match.groupdict()
        has, is_ = {"en": ("has ", "is "), "de": ("hat ", "ist "), "zh": ("", "")}[heard.language]
        if groups.get("have"):
            yield Trait(sender, "family", has + groups["have"], "add", heard)
        elif groups.get("am"):
            yield Trait(sender, "family", is_ + groups["am"], "add", heard)
        elif groups.get("who"):
            called = "is called" if heard.language == "en" else "heißt"
            whose = (
                f"has a {groups['who']} who {called}"
                if heard.language == "en"
                else f"hat {_den(groups['who'])}, {_der(groups['who'])}"
            )
            end = f" {groups['whose']}" if heard.language == "en" else f" {groups['whose']} {called}"
            yield Trait(sender, "family", whose + end, "add", heard)


def _den(who: str) -> str:
    return ("eine " if _female(who) else "einen ") + who.capitalize()


def _der(who: str) -> str:
    return "die" if _female(who) else "der"


def _female(who: str) -> bool:
    return who.lower() in ("frau", "partnerin", "tochter", "schwester", "mutter")


def _value(text: str) -> str:
    return " ".join(text.split()).strip(" ,.;")


def _weave(person: Person, old: str, traits: list[Trait]) -> tuple[str, list[Trait]]:
    """The old text with the traits in it; those that changed something."""
    sentences = [one.strip() for one in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", old) if one.strip()]
    used: list[Trait] = []
    for trait in traits:
        language = trait.heard.language
        name = person.name.split()[0] if person.name else ""
        form = _FORMS[language][trait.slot]
        filled = (form.replace("{n}", name) if name else _NO_NAME.sub("", form)).replace("{v}", _with_article(trait))
        new = filled[:1].upper() + filled[1:]
        if any(
            trait.value.casefold() in one.casefold() and (trait.slot in ("family", "service") or trait.slot in _slots(one))
            for one in sentences
        ):
            continue
        rivals = [i for i, one in enumerate(sentences) if trait.slot in _slots(one)] if trait.change == "set" else []
        if any(sameness(one, new) > 0.99 for one in sentences):
            continue
        used.append(trait)
        if rivals and len(_slots(sentences[rivals[0]])) == 1:
            sentences[rivals[0]] = new
        elif rivals and (mended := _mended(sentences[rivals[0]], trait.slot, trait.value)):
            sentences[rivals[0]] = mended
        else:
            sentences.append(new)
    joint = "" if sentences and all(one.endswith("。") for one in sentences) else " "
    return joint.join(sentences), used


def _with_article(trait: Trait) -> str:
    """ "a designer", "an engineer", "head of sales"."""
    value = trait.value
    if trait.slot != "role" or trait.heard.language != "en" or _NO_ARTICLE.match(value):
        return value
    return f"{'an' if value[:1].lower() in 'aeiou' else 'a'} {value}"


def _slots(sentence: str) -> set[str]:
    return {slot for slot, pattern in _RECOGNISED if re.search(pattern, sentence, re.IGNORECASE)}


_IN_PLACE = {
    "employer": r"(\b(?:works?|working) (?:at|for) |\barbeitet bei )[\w&' -]+?(?=\s+(?:and|und|in|as|als|since|seit)\b|[.,;]|$)",
    "place": r"(\b(?:lives?|living|based) in |\b(?:wohnt|lebt) in )[\w' -]+?(?=\s+(?:and|und|with|mit|since|seit)\b|[.,;]|$)",
    "role": r"(\bworks? as (?:an? )?|\barbeitet als )[\w -]+?(?=\s+(?:and|und|at|for|in|bei)\b|[.,;]|$)",
}


def _mended(sentence: str, slot: str, value: str) -> str:
    """A sentence of several traits with the new value in place of the old one; "" where that is not possible."""
    pattern = _IN_PLACE.get(slot)
    mended = re.sub(pattern, lambda match: match[1] + value, sentence, count=1, flags=re.IGNORECASE) if pattern else sentence
    return mended if mended != sentence else ""
