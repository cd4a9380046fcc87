# ruff: noqa: E501  (patterns)
"""The simulated model's contacts: introductions, signatures, addresses and numbers, titles, "X is the same person as Y"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zoneinfo import available_timezones

from memory.llm.simulated_extraction_prompt import Brief, Said
from memory.llm.simulated_extraction_shield import handled
from memory.llm.simulated_text import word_set
from memory.model.category import Category

NAME: Final = r"(?-i:[A-ZÄÖÜÉÅØÆŠŽČ][\w'’]+(?:-[A-ZÄÖÜÉ][\w'’]+)?(?:\s+(?:van|von|de|der|da|del|di|al|bin|van der)\s*)?(?:\s+[A-ZÄÖÜÉÅØÆŠŽČ][\w'’-]+){0,2})"
_FULL_NAME: Final = r"(?-i:[A-ZÄÖÜÉÅØÆŠŽČ][\w'’]+(?:-[A-ZÄÖÜÉ][\w'’]+)?(?:\s+(?:van|von|de|der|da|del|di|al|bin))?(?:\s+[A-ZÄÖÜÉÅØÆŠŽČ][\w'’-]+){1,2})"
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_PHONE = re.compile(r"(?<![\w/.-])(?:\+|00)?\d(?:[ ()/-]{0,2}\d){6,14}(?![\w-]|\.\d)")
_ISO_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_ZONE = re.compile(r"\b[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?\b")
_RELATION = (
    r"(?:my|our|the|his|her|their|meine?|meinen|meinem|unser|unsere[nr]?|unserem|die|der|den)\s+(?:new\s+|neue[rn]?\s+)?(?:[\w-]+\s+)?"
    r"(?P<rel>colleague|co-?worker|boss|manager|friend|accountant|lawyer|landlord|dentist|doctor|assistant|contact|client|customer|partner|neighbou?r|supplier|teammate|contractor|"
    r"kolleg(?:e|in|en)|chef(?:in)?|freund(?:in)?|steuerberater(?:in)?|anw[aä]lt(?:in)?|vermieter(?:in)?|zahn[aä]rzt(?:in)?|[aä]rzt(?:in)?|ansprechpartner(?:in)?|kund(?:e|in)|nachbar(?:in)?)"
)
_INTRODUCED = re.compile(rf"\b{_RELATION},?\s+(?:is\s+|ist\s+|heißt\s+|named\s+|called\s+)?(?P<name>{NAME})", re.IGNORECASE)
_MEET = re.compile(
    rf"\b(?:meet|please welcome|introducing|this is my (?:colleague|friend|boss)|das ist (?:mein|meine) \w+|ich stelle (?:dir|ihnen) vor:?)\s+(?P<name>{_FULL_NAME})",
    re.IGNORECASE,
)
_SELF = re.compile(
    rf"(?:^|[.!,:]\s*|\b(?:hi|hello|hey|hallo|guten tag)\W+)(?:my name is|this is|i am|i'm|mein name ist|ich heiße|ich bin|hier ist|hier spricht)\s+(?P<name>{NAME})(?=\s*(?:$|[.,!;(]|from\b|at\b|of\b|with\b|here\b|von\b|aus\b|and\b|und\b|speaking\b))",
    re.IGNORECASE,
)
_HERE = re.compile(
    rf"^(?:hi|hello|hey|hallo|guten tag|good morning|moin)\b[^.!?]{{0,30}}?,\s*(?P<name>{NAME})\s+(?:here|hier)\b", re.IGNORECASE
)
_SIGNED = re.compile(
    rf"(?:best(?: regards| wishes)?|kind regards|regards|cheers|sincerely|thanks|viele grüße|beste grüße|mit freundlichen grüßen|liebe grüße|gruß|grüße)[,!]?\s*(?:[/⏎↵|]\s*)?(?P<name>{_FULL_NAME})(?P<rest>[^\n]{{0,200}})$",
    re.IGNORECASE,
)
_FIELD_OF = re.compile(
    rf"(?P<name>{NAME})(?:'s|’s|s'|s)?\s+(?:new\s+|neue\s+)?(?P<what>e-?mail(?:\s+address|-adresse)?|adresse|phone(?:\s+number)?|number|mobile|telefonnummer|nummer|handynummer|whatsapp(?:\s+number|-nummer)?)\s+(?:is|has changed to|changed to|ist|lautet)(?:\s+(?:now|jetzt))?",
    re.IGNORECASE,
)
_FIELD_FOR = re.compile(
    rf"\b(?:reach|call|email|write to|contact|erreichst du|erreichen sie)\s+(?P<name>{NAME})\s+(?:at|on|under|unter)\b",
    re.IGNORECASE,
)
_MINE = re.compile(
    r"\b(?:my|meine?)\s+(?:new\s+|neue\s+|private\s+)?(?:e-?mail|address|phone|number|mobile|cell|telefonnummer|nummer|handynummer|whatsapp|mailadresse)|\b(?:reach|call|text|erreichst|erreichen sie)\s+(?:me|mich)\b|我的(?:新)?(?:邮箱|电话|手机|号码)",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:her|his|their|ihre?|seine?)\s+(?:new\s+|neue\s+)?(?:e-?mail|address|phone|number|mobile|whatsapp|telefonnummer|nummer|mailadresse|handynummer)|\b(?:reach|call)\s+(?:her|him|them)\b|(?:她|他)的(?:邮箱|电话|手机)",
    re.IGNORECASE,
)
_TITLE_OF = re.compile(
    rf"(?:^|[.,;]\s*)(?P<name>{NAME})\s+(?:is|ist)\s+(?:now\s+|jetzt\s+)?(?:our|the|unsere?|der|die|an?|eine?)?\s*(?:new\s+|neue[rn]?\s+)?(?P<title>(?:(?:head|vp|director|chief)\s+(?:of\s+)?[\w ]{{2,30}}?|c[etfo]o|(?:[\w-]+\s+){{0,2}}(?:manager(?:in)?|engineer|designer(?:in)?|architect|director|lawyer|accountant|developer|analyst|consultant|leiter(?:in)?|entwickler(?:in)?|architekt(?:in)?|berater(?:in)?|geschäftsführer(?:in)?)))(?=[.,;!]|$|\s+(?:at|of|for|bei|von|and|und)\b)",
    re.IGNORECASE,
)
_MY_TITLE = re.compile(
    r"\b(?:i am|i'm|ich bin)\s+(?:now\s+|jetzt\s+)?(?:the\s+|an?\s+|die\s+|der\s+|eine?\s+)?(?:new\s+|neue[rn]?\s+)?(?P<title>(?:head|vp|director|chief)\s+(?:of\s+)?[\w ]{2,30}?|c[etfo]o|(?:[\w-]+\s+){0,2}(?:manager(?:in)?|engineer|designer(?:in)?|architect|accountant|lawyer|developer|analyst|consultant|leiter(?:in)?|entwickler(?:in)?|architekt(?:in)?|berater(?:in)?))(?=[.,;!]|$|\s+(?:at|of|for|bei|von|and|und|here)\b)"
    r"|\bmy (?:new )?(?:job )?title is (?:now )?(?P<title2>[\w ]{2,40}?)(?=[.,;!]|$)",
    re.IGNORECASE,
)
_SAME = re.compile(
    rf"(?P<a>{NAME}|[\w.+-]+@[\w.-]+\w)\s+(?:and|und)\s+(?P<b>{NAME}|[\w.+-]+@[\w.-]+\w)\s+(?:are|sind)\s+(?:actually\s+|in fact\s+)?(?:one and )?(?:the same|dieselbe|die gleiche)(?:\s+(?:person|contact|man|woman))?"
    rf"|(?P<c>{NAME}|[\w.+-]+@[\w.-]+\w)\s+(?:is|ist)\s+(?:actually\s+)?(?:the same|dieselbe|die gleiche)(?:\s+(?:person|contact))?\s+(?:as|wie)\s+(?P<d>{NAME}|[\w.+-]+@[\w.-]+\w)"
    r"|(?P<e>[\u3400-\u9fff]{2,4}|[A-Z]\w+)(?:和|与|跟)(?P<f>[\u3400-\u9fff]{2,4}|[A-Z]\w+)是同一个?人",
    re.IGNORECASE,
)
_SERVICE = re.compile(
    r"\b(?:the|our|die|der|das|unsere?)\s+(?P<org>[^,.;!?\n]{0,50}\b(?:hotline|support(?: line| desk)?|help ?desk|office|clinic|bank|restaurant|reception|service|company|agency|hotel|store|shop|praxis|kanzlei|zentrale|kundendienst|rezeption|werkstatt))\b[^.!?\n]{0,60}",
    re.IGNORECASE,
)
_ZH_PERSON = re.compile(
    r"(?:我的|我们的)(?:新)?(?:同事|朋友|老板|经理|律师|医生|客户)(?:叫|是)?(?P<a>[\u3400-\u9fff]{2,3})(?=[，,。的（(]|$)|(?P<b>[\u3400-\u9fff]{2,3})的(?:新)?(?:邮箱|电话|手机|号码)"
)
_ZH_SELF = re.compile(r"我(?:的名字)?(?:叫|是)(?P<name>[\u3400-\u9fff]{2,3})(?=[，,。！]|$)")
_NOT_A_NAME = word_set(
    """the this that it he she they we i you please monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december back here sorry sure fine happy glad our my new hello hi yes no not invoice der die das es er sie wir ich und dr herr frau
    head chief thanks best her his their meine mein what when where who if and but also email phone"""
)


@dataclass(slots=True)
class Person:
    """A contact at work: what is known and what the window adds."""

    ref: str
    known: Mapping[str, str] = field(repr=False)
    name: str = field(default="", repr=False)
    changes: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    evidence: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], repr=False)
    service: str = field(default="", repr=False)
    """What a nameless one is."""

    def learn(self, name: str, value: str, heard: Said) -> None:
        value = value.strip()
        if value and (self.changes.get(name) or self.known.get(name, "")).casefold() != value.casefold():
            self.changes[name] = value
            self.cite(heard)

    def cite(self, heard: Said) -> None:
        if heard.evidence not in self.evidence:
            self.evidence.append(heard.evidence)


class People:
    """Contacts by name; new ones get refs as they come."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        self.persons: dict[str, Person] = {one.ref: Person(one.ref, one.fields, one.name) for one in brief.contacts}
        self.merges: list[dict[str, Any]] = []
        self._new = 0

    def find(self, name: str, *, loosely: bool = False) -> Person | None:
        """By full name, by address, or by a first name that only one has.

        ``loosely``: somebody of whom only the first name is known counts too.
        """
        wanted = " ".join(name.casefold().split())
        for person in self.persons.values():
            values = {person.name, *(person.known.get(f, "") for f in ("email_address", "phone_number", "whatsapp_number"))}
            values |= {value for key, value in person.changes.items() if "_" in key}
            if wanted and wanted in {value.casefold() for value in values if value}:
                return person
        first, _, surname = wanted.partition(" ")
        if surname and loosely:
            close = [p for p in self.persons.values() if p.name.casefold() == first]
            return close[0] if len(close) == 1 else None
        if wanted and not surname:
            close = [p for p in self.persons.values() if p.name and wanted == p.name.casefold().split()[0]]
            return close[0] if len(close) == 1 else None
        return None

    def add(self, name: str) -> Person:
        self._new += 1
        person = Person(f"new{self._new}", {}, name)
        self.persons[person.ref] = person
        return person

    def of(self, heard: Said) -> Person | None:
        return self.persons.get(heard.line.sender)

    def give_name(self, person: Person, name: str, heard: Said) -> None:
        """To a person without one."""
        if person.known.get("first_name") or person.known.get("name") or person.known.get("surname"):
            return
        first, surname = split_name(name)
        person.name = name
        person.learn("first_name", first, heard)
        if surname:
            person.learn("surname", surname, heard)

    def items(self) -> Iterator[dict[str, Any]]:
        for person in self.persons.values():
            if not person.changes:
                continue
            summary = " ".join(person.changes.values())
            if handled(self._brief, Category.CONTACTS, summary):
                continue
            new = person.ref.startswith("new")
            yield {
                "action": "create" if new else "update",
                "contact": person.ref,
                **person.changes,
                "evidence": person.evidence[-8:],
            }
        yield from self.merges


def split_name(name: str) -> tuple[str, str]:
    if " " not in name and re.fullmatch(r"[\u3400-\u9fff]{2,3}", name):
        return name[1:], name[0]
    first, _, surname = name.strip().partition(" ")
    return first, surname


def read_people(brief: Brief) -> People:
    """All that the window says of contacts."""
    people = People(brief)
    last: dict[int, Person] = {}
    for heard in brief.said:
        sender = people.of(heard)
        if sender is not None and not heard.question:
            _self(people, sender, heard)
        if heard.language in ("en", "de", "zh"):
            mentioned = _mentioned(people, heard) or last.get(heard.line.number)
            if mentioned is not None:
                last[heard.line.number] = mentioned
            _same(people, heard)
            _title(people, heard)
            _addresses(people, heard, sender, mentioned)
    for line in brief.lines:
        person = people.persons.get(line.sender)
        if person is not None and not line.from_assistant and (match := _SIGNED.search(line.text)):
            quote = match[0].strip()
            signed = Said(line, quote, quote, False, "en")
            name, rest = _signer(person, _clean(match["name"]), match["rest"])
            people.give_name(person, name, signed)
            if line.sender_name and split_name(name)[0].casefold() == split_name(person.name)[0].casefold():
                _numbers(person, rest, signed)
                if title := re.search(
                    r"(?:^\s*|[,/|⏎]\s*)((?:head|director|vp|chief|senior|lead|leiter(?:in)?)\b[^,/|⏎\n+@\d]{2,40}|c[etfo]o)\b",
                    rest,
                    re.IGNORECASE,
                ):
                    person.learn("job_title", title[1].strip(), signed)
    return people


def _clean(name: str) -> str:
    return " ".join(name.replace("’", "'").split()).strip(" .,'-").removesuffix("'s")


def _is_name(name: str) -> bool:
    return bool(name) and not any(word.casefold() in _NOT_A_NAME for word in name.split())


def _signer(person: Person, name: str, rest: str) -> tuple[str, str]:
    """Name and what follows it: on one line a title runs into the name."""
    words_of = name.split()
    own = len(person.name.split()) if person.name and name.casefold().startswith(person.name.casefold()) else 2
    if len(words_of) <= own:
        return name, rest
    return " ".join(words_of[:own]), " ".join(words_of[own:]) + rest


def _self(people: People, sender: Person, heard: Said) -> None:
    match = _ZH_SELF.search(heard.text) if heard.language == "zh" else _SELF.search(heard.text) or _HERE.search(heard.text)
    if match and _is_name(name := _clean(match["name"])):
        people.give_name(sender, name, heard)
    if title := _MY_TITLE.search(heard.text):
        sender.learn("job_title", (title["title"] or title["title2"]).strip(), heard)
    for zone in _ZONE.findall(heard.text):
        if zone in available_timezones() and re.search(r"\b(?:my|meine|i'm|i am|ich bin)\b|我", heard.text, re.IGNORECASE):
            sender.learn("timezone", zone, heard)


def _mentioned(people: People, heard: Said) -> Person | None:
    """The person whom the sentence names: known, or introduced by it."""
    if heard.language == "zh":
        if match := _ZH_PERSON.search(heard.text):
            name = match["a"] or match["b"]
            return people.find(name) or _introduce(people, name, heard)
        return None
    for pattern in (_INTRODUCED, _MEET, _FIELD_OF, _FIELD_FOR):
        for match in pattern.finditer(heard.text):
            name = _clean(match["name"])
            if not _is_name(name):
                continue
            person = people.find(name)
            if person is not None:
                return person
            details = _EMAIL.search(heard.text) or _PHONE.search(heard.text)
            if pattern in (_INTRODUCED, _MEET) or details:
                return _introduce(people, name, heard)
    return None


def _introduce(people: People, name: str, heard: Said) -> Person:
    person = people.add(name)
    people.give_name(person, name, heard)
    return person


def _addresses(people: People, heard: Said, sender: Person | None, mentioned: Person | None) -> None:
    rest = _ISO_DATE.sub(" ", heard.text)
    if not (_EMAIL.search(rest) or _PHONE.search(rest)):
        return
    if _MINE.search(rest) and sender is not None:
        _numbers(sender, rest, heard)
    elif mentioned is not None:
        _numbers(mentioned, rest, heard)
    elif service := _SERVICE.search(heard.text):
        found = dict(_found(rest))
        owner = next((p for value in found.values() if (p := people.find(value))), None) or people.add("")
        owner.service = service["org"].strip()
        _numbers(owner, rest, heard)


def _found(text: str) -> Iterator[tuple[str, str]]:
    if email := _EMAIL.search(text):
        yield "email_address", email[0].rstrip(".")
    for number in _PHONE.finditer(_EMAIL.sub(" ", text)):
        before = text[max(0, text.find(number[0]) - 24) : text.find(number[0])]
        yield ("whatsapp_number" if "whatsapp" in before.lower() else "phone_number"), re.sub(r"[^\d+]", "", number[0])


def _numbers(person: Person, text: str, heard: Said) -> None:
    for name, value in _found(text):
        if re.sub(r"\D", "", person.known.get(name, "-")) != re.sub(r"\D", "", value) or name == "email_address":
            person.learn(name, value, heard)


def _title(people: People, heard: Said) -> None:
    for match in _TITLE_OF.finditer(heard.text):
        person = people.find(_clean(match["name"]))
        if person is not None and _is_name(_clean(match["name"])):
            person.learn("job_title", match["title"].strip(), heard)


def _same(people: People, heard: Said) -> None:
    for match in _SAME.finditer(heard.text):
        one, other = ([v for k in pair if (v := match[k])] for pair in (("a", "c", "e"), ("b", "d", "f")))
        kept, gone = (people.find(_clean(names[0]), loosely=True) if names else None for names in (one, other))
        if kept and gone and kept is not gone and not kept.ref.startswith("new") and not gone.ref.startswith("new"):
            people.merges.append({"action": "merge", "contact": kept.ref, "merge_with": gone.ref, "evidence": [heard.evidence]})
            for person, names in ((kept, one), (gone, other)):
                first, surname = split_name(_clean(names[0]))
                if surname and person.name.casefold() == first.casefold():
                    person.learn("surname", surname, heard)
