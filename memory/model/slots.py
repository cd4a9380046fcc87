# ruff: noqa: E501  (patterns)
"""What has one value at a time: a deadline, an owner, an employer, a city, a status, a favourite.

Two statements that give the same slot of the same subject different values cannot both hold; the later one takes the place of the
earlier. Lexical rules in English, German and Chinese, careful on purpose: a statement that has no such form contradicts nothing.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from memory.model.near_duplicate import is_negated
from memory.model.stale import MONTHS
from memory.model.words import STOP_WORDS, fold, key_words, tokens

_NOUNS: Final = {
    "favourite": "favourite favorite lieblings",
    "when": "deadline due date release launch kickoff go-live frist termin abgabe abgabetermin stichtag liefertermin veröffentlichung datum",
    "owner": "owner lead leader manager head responsible director boss ceo cto cfo president chair contact leiter leiterin leitung verantwortliche verantwortlicher chef chefin geschäftsführer geschäftsführerin zuständige ansprechpartner ansprechpartnerin inhaber",
    "employer": "employer arbeitgeber",
    "where": "city town address location headquarters hq seat residence venue stadt wohnort adresse standort sitz hauptsitz firmensitz veranstaltungsort",
    "cost": "budget price cost costs fee rate rent salary preis kosten gebühr miete gehalt",
    "limit": "limit maximum minimum cap ceiling threshold quota höchstbetrag obergrenze untergrenze grenze mindestbetrag",
    "status": "status state phase stand zustand",
    "version": "version",
    "supplier": "supplier vendor provider lieferant anbieter dienstleister",
    "name": "codename codename projektname",
    "language": "language sprache",
    "currency": "currency währung",
    "colour": "colour color farbe",
    "number": "number nummer telefonnummer",
    "size": "size headcount größe mitarbeiterzahl",
}
_EVENTS: Final = frozenset({"release", "launch", "kickoff", "go-live", "abgabe", "veroffentlichung"})
"""They are about a thing of their own: "the Atlas release"."""
_SLOT_OF: Final = {fold(word): slot for slot, listed in _NOUNS.items() for word in listed.split()}
_DENSE_NOUNS: Final = (
    ("favourite", "最喜欢的|最喜歡的|最爱的"),
    ("when", "截止日期|截止时间|期限|发布日期|发布时间|上线时间|发布|發布|上线"),
    ("owner", "负责人|負責人|经理|领导|主管|总监"),
    ("employer", "雇主|公司"),
    ("where", "地址|城市|总部|办公室|地点|住址"),
    ("cost", "预算|價格|价格|费用|租金"),
    ("limit", "上限|下限|限额"),
    ("status", "状态|狀態|阶段"),
    ("version", "版本号"),
    ("supplier", "供应商"),
)
_NOW: Final = r"(?:(?:now|currently|jetzt|nun|derzeit|aktuell)\s+)?"
_NAME: Final = r"(?-i:[A-ZÄÖÜ][\w'’.-]*)(?:\s+(?-i:[A-ZÄÖÜ][\w'’.-]*)){0,3}"
_SUBJECT: Final = r"(?P<s>[\w][\w\s&/'’.-]{0,80}?)"
_DAYS: Final = (
    "monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag"
)
_TIMES: Final = "|".join([_DAYS, *(name for name in MONTHS if len(name) > 2)])
_ON_A_DAY: Final = rf"\s*(?:(?:to|on|at|in|by|for|until|am|auf|um|im|bis|zum|den)\s+)?(?P<v>[^!?]*?(?:\d|\b(?:{_TIMES})\b)[^!?]*)"
_STATES: Final = r"open|closed|done|finished|cancelled|canceled|postponed|delayed|on hold|active|inactive|approved|rejected|blocked|offline|online|live|available|unavailable|in progress|ready|broken|fixed|offen|geöffnet|geschlossen|fertig|abgesagt|verschoben|aktiv|inaktiv|genehmigt|abgelehnt|blockiert|verfügbar|gesperrt"
_VERBS: Final = tuple(
    (slot, re.compile(pattern, re.IGNORECASE))
    for slot, pattern in (
        ("owner", rf"^{_SUBJECT}\s+(?:is|are|was|wird|werden|ist)\s+{_NOW}(?:(?:led|owned|run|managed|headed|handled|chaired)\s+by\s+(?P<v>.+)|von\s+(?P<v2>.+?)\s+(?:geleitet|betreut|verantwortet|geführt))$"),
        ("owner", rf"^(?P<v>{_NAME})\s+{_NOW}(?:leads|owns|manages|heads|chairs|takes over|took over|has taken over|is\s+{_NOW}(?:responsible for|in charge of|the (?:new )?(?:lead|head|owner|manager) of)|leitet|betreut|verantwortet|übernimmt|ist\s+{_NOW}(?:zuständig|verantwortlich) für)\s+{_NOW}{_SUBJECT}$"),
        ("owner", rf"^{_SUBJECT}\s+{_NOW}(?:belongs to|reports to|gehört)\s+{_NOW}(?P<v>.+)$"),
        ("when", rf"^{_SUBJECT}\s+(?:(?:has been |was |is |wurde |wird |ist )?{_NOW}(?:moves?|moved|shifts?|shifted|postponed|rescheduled|delayed|pushed|brought forward|due|planned|scheduled|set|takes place|fällig|findet)|(?:is|are|was|ist|sind)\s+{_NOW}(?=(?:on|at|am|um)\s)|(?:wird|wurde)\s+(?=auf\s)){_ON_A_DAY}$"),
        ("starts", rf"^{_SUBJECT}\s+{_NOW}(?:starts?|begins?|opens|launches|goes live|startet|beginnt|öffnet){_ON_A_DAY}$"),
        ("ends", rf"^{_SUBJECT}\s+{_NOW}(?:ends?|closes|expires|endet|schließt|läuft){_ON_A_DAY}$"),
        ("employer", rf"^{_SUBJECT}\s+(?:(?:is\s+)?{_NOW}(?:works?|working)\s+{_NOW}(?:for|at)|arbeitet\s+{_NOW}(?:bei|für))\s+{_NOW}(?P<v>.+)$"),
        ("where", rf"^{_SUBJECT}\s+(?:(?:is|are|ist|sind)\s+{_NOW}(?:based|located|headquartered)\s+(?:in|at)|(?:lives?|resides?|wohnt|lebt|sitzt)\s+{_NOW}in|(?:has\s+)?moved\s+(?:its\s+\w+\s+)?to|hat (?:ihren|seinen) (?:haupt)?sitz in)\s+(?P<v>[^\d]+)$"),
        ("cost", rf"^{_SUBJECT}\s+{_NOW}(?:costs?|kostet|kosten|beträgt)\s+{_NOW}(?P<v>.*\d.*)$"),
        ("status", rf"^{_SUBJECT}\s+(?:is|are|has been|remains?|ist|sind|bleibt|wurde)\s+{_NOW}(?P<v>{_STATES})(?:\s+(?:until|till|since|from|as of|again|for now|bis|seit|ab|wieder)\b.*)?$"),
    )
)  # fmt: skip
_DENSE_VERBS: Final = (
    ("when", re.compile(r"^(?P<s>[^，。,]{2,24}?)(?:现在|已经|已|将)?(?:改到|推迟到|提前到|延期到|改为|定于|定在|将于|是在)(?P<v>[^，。]{2,30}?)(?:发布|上线|开始|结束|举行|进行)?$")),
    ("owner", re.compile(r"^(?P<s>[^，。,]{2,20}?)(?:现在|目前|改)?由(?P<v>[^，。]{2,8})(?:负责|領導|领导|管理|主管)$")),
    ("owner", re.compile(r"^(?P<v>[^，。,的]{2,4}?)(?:现在|目前)?(?:负责|领导|主管|管理)(?P<s>[^，。,]{2,20})$")),
    ("employer", re.compile(r"^(?P<s>[^，。,]{1,10}?)(?:现在|目前)?在(?P<v>[^，。]{2,16})(?:工作|上班)$")),
    ("where", re.compile(r"^(?P<s>[^，。,]{1,16}?)(?:现在|目前)?(?:住在|位于|搬到|总部在|设在)(?P<v>[^，。]{2,16})$")),
)  # fmt: skip
_COPULA: Final = re.compile(
    r"\s+(?:is now|are now|is|are|was|were|will be|equals|becomes?|changed to|has changed to|moves? to|moved to|has (?:been )?moved to|ist jetzt|ist nun|ist|sind|war|wird|beträgt|lautet|liegt bei|heißt)\s+|\s*[:=：]\s*",
    re.IGNORECASE,
)
_DENSE_COPULA: Final = re.compile(r"(?:现在|目前)?(?:是|为|為|改为|改成)|[:：]")
_ADDS: Final = re.compile(
    r"\b(?:also|too|as well|in addition|additionally|another|besides|auch|außerdem|zusätzlich|zudem|ebenfalls|weitere[rsn]?|noch ein\w*)\b|也|另外|还有|還有|此外",
    re.IGNORECASE,
)
_CORRECTS: Final = re.compile(
    r"^\W*(?:correction|one correction|sorry|i was wrong|my mistake|korrektur|richtigstellung|ich habe mich geirrt|更正|说错了|不对)"
    r"|\b(?:i mean[t]?|i misspoke|rather than|instead of|not .{1,40}, but|gemeint war|statt|nicht .{1,40}, sondern)\b|而不是|应该是",
    re.IGNORECASE,
)
_CONDITIONAL: Final = re.compile(
    r"\b(?:if|unless|except|when|whenever|for \w+ only|wenn|falls|außer|sofern|nur für)\b|如果|除非|除了", re.IGNORECASE
)
_ARTICLES: Final = frozenset("the our its their a an der die das den dem des unser unsere unseres ein eine".split())  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class Slot:
    """``subject``, ``value``: telling words, so that two ways to say the same meet."""

    kind: str
    subject: frozenset[str] = field(repr=False)
    value: frozenset[str] = field(repr=False)


@lru_cache(maxsize=4096)
def slot_of(statement: str) -> Slot | None:
    """The slot that a statement gives a value; None for a statement that is negated, conditional, or about something else."""
    text = " ".join(unicodedata.normalize("NFKC", statement).split()).strip(" .!。！")
    if not text or len(text) > 400 or is_negated(text) or _CONDITIONAL.search(text):
        return None
    for kind, pattern in (*_DENSE_VERBS, *_VERBS):
        if (found := pattern.match(text)) is not None:
            groups = found.groupdict()
            value = groups.get("v") or groups.get("v2") or ""
            if made := _slot(kind, groups["s"], value):
                return made
    return _by_noun(text)


def contradicts(new: str, old: str) -> bool:
    """Whether both give one thing that has one value at a time another value, and ``new`` does not just add one."""
    if _ADDS.search(new):
        return False
    mine, theirs = slot_of(new), slot_of(old)
    if mine is None or theirs is None or mine.kind != theirs.kind or mine.subject != theirs.subject:
        return False
    # Words of time and place around the same value are no other value: "Berlin" and "Berlin (Mitte)".
    return not (mine.value <= theirs.value or theirs.value <= mine.value)


def is_correction(said: str) -> bool:
    """Whether somebody puts right what was said before."""
    return _CORRECTS.search(said) is not None


def adds(said: str) -> bool:
    """Whether something is said beside what holds already."""
    return _ADDS.search(said) is not None


def _by_noun(text: str) -> Slot | None:
    """ "The deadline of Atlas is …", "Atlas' budget: …", "Atlas的负责人是…"."""
    parts = _COPULA.split(text, maxsplit=1)
    if len(parts) == 2:
        about, value = parts
        for token in tokens(about):
            word = fold(token)
            kind = _SLOT_OF.get(word) or ("favourite" if word.startswith("lieblings") else None)
            if kind is not None:
                same_kind = {form for form, one in _SLOT_OF.items() if one == kind and form not in _EVENTS}
                subject = " ".join(one for one in tokens(about) if fold(one) not in same_kind)
                return _slot(kind, subject, value)
    dense = _DENSE_COPULA.split(text, maxsplit=1)
    if len(dense) == 2:
        about, value = dense
        for kind, nouns in _DENSE_NOUNS:
            if re.search(nouns, about):
                return _slot(kind, about if kind == "favourite" else re.sub(rf"的?(?:{nouns})", "", about), value)
    return None


def _slot(kind: str, subject: str, value: str) -> Slot | None:
    about = frozenset(word for word in key_words(subject) if word not in _ARTICLES)
    if kind == "when":
        # "The Atlas release is on …" and "The release date of Atlas is …" are about one thing.
        about = frozenset(word for word in about if word not in _WHEN_WORDS)
    said = frozenset(word for word in key_words(value) if word not in STOP_WORDS)
    return Slot(kind, about, said) if about and said else None


_WHEN_WORDS: Final = key_words("date deadline due datum termin frist")
